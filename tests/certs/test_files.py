"""Material in a directory: kept while it is sound, made anew when it is not."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from certs import files, pki
from certs.pki import Material

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def ensure(
    directory: Path, *, host: str = "localhost", address: str = "127.0.0.1", now: datetime = NOW
) -> Material:
    return files.ensure_files(directory, dns_names=["localhost", host], ip_addresses=[address], now=now)


def test_directory_is_made_with_material_for_every_name(tmp_path: Path) -> None:
    directory = tmp_path / "some" / "where"

    made = ensure(directory, host="h.example.com")

    names = ["localhost", "h.example.com"]
    problem = pki.find_problem(
        made.leaf, ca_pem=made.ca_pem, dns_names=names, ip_addresses=["127.0.0.1"], now=NOW
    )
    assert problem is None
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == {
        "ca.crt": made.ca_pem,
        "tls.crt": made.leaf.cert_pem,
        "tls.key": made.leaf.key_pem,
    }


def test_key_is_for_its_owner_only(tmp_path: Path) -> None:
    ensure(tmp_path)

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"ca.crt": 0o644, "tls.crt": 0o644, "tls.key": 0o600}


def test_sound_material_is_kept(tmp_path: Path) -> None:
    made = ensure(tmp_path)
    (tmp_path / "tls.key").chmod(0o400)

    assert ensure(tmp_path) == made
    assert (tmp_path / "tls.key").stat().st_mode & 0o777 == 0o400, "not even written again"


def remove(name: str) -> Callable[[Path], object]:
    return lambda directory: (directory / name).unlink()


def spoil(name: str) -> Callable[[Path], object]:
    return lambda directory: (directory / name).write_text("garbage")


def swap_ca(directory: Path) -> None:
    (directory / "ca.crt").write_bytes(pki.make_ca(now=NOW).cert_pem)


def leave_alone(directory: Path) -> None:
    pass


@pytest.mark.parametrize(
    ("change", "later"),
    [
        pytest.param(remove("ca.crt"), timedelta(), id="CA gone"),
        pytest.param(remove("tls.crt"), timedelta(), id="certificate gone"),
        pytest.param(remove("tls.key"), timedelta(), id="key gone"),
        pytest.param(spoil("tls.crt"), timedelta(), id="certificate is garbage"),
        pytest.param(spoil("tls.key"), timedelta(), id="key is garbage"),
        pytest.param(swap_ca, timedelta(), id="another CA"),
        pytest.param(leave_alone, timedelta(days=400), id="expired"),
    ],
)
def test_unsound_material_is_made_anew(
    tmp_path: Path, change: Callable[[Path], object], later: timedelta
) -> None:
    old = ensure(tmp_path)
    change(tmp_path)

    made = ensure(tmp_path, now=NOW + later)

    assert made.leaf != old.leaf
    assert ensure(tmp_path, now=NOW + later) == made
    assert len(list(tmp_path.iterdir())) == 3


@pytest.mark.parametrize(("host", "address"), [("other.example.com", "127.0.0.1"), ("localhost", "10.0.0.1")])
def test_material_for_other_names_is_made_anew(tmp_path: Path, host: str, address: str) -> None:
    old = ensure(tmp_path)

    assert ensure(tmp_path, host=host, address=address).leaf != old.leaf
