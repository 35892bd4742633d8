"""A program comes from the PATH before anything is fetched, and what cannot be had says what to install."""

from pathlib import Path

import pytest

from . import debian


def test_a_program_on_the_path_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "prometheus"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert debian.find("prometheus") == debian.Program(own, {})


def test_one_unpacked_before_is_taken_with_the_folders_of_its_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    root = tmp_path / "trimtab/cluster/debian/proxy+libproxy1"
    (root / "usr/sbin").mkdir(parents=True)
    (root / "usr/lib/x86_64-linux-gnu").mkdir(parents=True)
    (root / "usr/sbin/proxy").touch(0o755)
    found = debian.find("proxy", ["proxy", "libproxy1"])
    assert found.path == root / "usr/sbin/proxy"
    assert str(root / "usr/lib/x86_64-linux-gnu") in found.env["LD_LIBRARY_PATH"].split(":")


def test_what_cannot_be_had_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(debian.PackageError, match="apt-get install prometheus"):
        debian.find("prometheus")
