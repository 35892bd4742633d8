"""Programs that Debian packages: the machine's own, or unpacked below the cache, which needs no root."""

import dataclasses
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from . import build

_FOLDERS = ("usr/local/bin", "usr/bin", "usr/sbin", "bin", "sbin")


class PackageError(Exception):
    """A program is not installed, and its package could not be fetched."""


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program to run, and what its environment needs for the libraries that came along."""

    path: Path
    env: Mapping[str, str]


def find(name: str, packages: Sequence[str] = ()) -> Program:
    """The program, from the PATH, the cache, or unpacked now from `packages` (by default of its own name).

    Name the libraries' packages as well: they are unpacked beside it. Raise PackageError.
    """
    own = shutil.which(name)
    if own is not None:
        return Program(Path(own), {})
    wanted = [*packages] or [name]
    root = build.cache() / "debian" / "+".join(wanted)
    if not root.exists():
        with build.alone():
            if not root.exists():  # another process may have unpacked it while this one waited
                _unpack(name, wanted, root)
    for folder in _FOLDERS:
        if os.access(root / folder / name, os.X_OK):
            return Program(root / folder / name, {"LD_LIBRARY_PATH": ":".join(map(str, _libraries(root)))})
    raise PackageError(f"{name} is not on the PATH, and {' '.join(wanted)} in {root} does not hold it")


def _libraries(root: Path) -> Iterator[Path]:
    for folder in ("usr/lib", "lib"):
        yield root / folder
        yield from sorted((root / folder).glob("*-linux-gnu*"))


def _unpack(name: str, packages: Sequence[str], root: Path) -> None:
    advice = f"Install it (apt-get install {packages[0]}) and try again."
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise PackageError(f"{name} is not on the PATH, and this is no Debian to fetch it from. {advice}")
    half = root.with_name(f"{root.name}.part")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir(parents=True)
    print(
        f"cluster: {name} is not on the PATH: unpacking {' '.join(packages)} below {root.parent}", flush=True
    )
    if os.geteuid() == 0 and not any(Path("/var/lib/apt/lists").glob("*_Packages*")):
        _run(["apt-get", "update"], half, advice)
    _run(["apt-get", "download", *packages], half, advice)
    for package in sorted(half.glob("*.deb")):
        _run(["dpkg-deb", "--extract", package.name, "."], half, advice)
        package.unlink()
    half.rename(root)


def _run(command: Sequence[str], directory: Path, advice: str) -> None:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise PackageError(f"{' '.join(command)}: {done.stderr.strip()[-1000:]}\n{advice}")
