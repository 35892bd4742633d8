"""Builds the Go binaries of the simulated cluster and the oracle once, into the user's cache.

A binary's folder is named by a digest of everything that decides its bytes, so a changed module or flag
builds anew and an unchanged one is found. A cold build compiles Kubernetes: up to a quarter of an hour.
"""

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from . import toolchain

HERE = Path(__file__).parent
KUBERNETES = "1.36.3"
PROGRESS_EVERY_S = 10

_VERSION = "k8s.io/component-base/version"
_STAMP = f"-X {_VERSION}.gitVersion=v{KUBERNETES} -X {_VERSION}.gitMajor=1 -X {_VERSION}.gitMinor=36"


class BuildError(Exception):
    """A binary could not be built; the message ends with the compiler's last words."""


@dataclasses.dataclass(frozen=True, slots=True)
class Module:
    """One Go module below this folder and a binary that it builds.

    `module` is the module's folder where that is not the binary's name, `sources` the folder in it that
    holds the binary's own sources.
    """

    name: str
    package: str
    ldflags: str
    module: str = ""
    sources: str = "."

    @property
    def directory(self) -> Path:
        return HERE / (self.module or self.name)

    def flags(self) -> list[str]:
        return ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", self.ldflags]

    def digest(self) -> str:
        """What decides the binary: module files, sources and flags."""
        content = hashlib.sha256("\0".join([self.package, *self.flags()]).encode())
        sources = self.directory / self.sources
        for path in sorted([*self.directory.glob("go.*"), *sources.glob("*.go")]):
            content.update(f"\0{path.name}\0".encode() + path.read_bytes())
        return content.hexdigest()[:16]

    def wanted_go(self) -> tuple[int, int]:
        """The version of Go in the go.mod."""
        match = re.search(r"^go (\d+)\.(\d+)", (self.directory / "go.mod").read_text(), re.MULTILINE)
        if match is None:
            raise BuildError(f"{self.directory / 'go.mod'} names no version of Go")
        return int(match[1]), int(match[2])


CONTROL = Module("control", ".", f"-s -w {_STAMP}")
KWOK = Module("kwok", "sigs.k8s.io/kwok/cmd/kwok", "-s -w")
ORACLE = Module("oracle", "./oracle", "-s -w", module="control", sources="oracle")
METRICS_SERVER = Module("metrics-server", "sigs.k8s.io/metrics-server/cmd/metrics-server", "-s -w")


@dataclasses.dataclass(frozen=True, slots=True)
class Binaries:
    """What a simulated cluster runs."""

    control: Path
    kwok: Path
    metrics_server: Path


def everything() -> None:
    """Build what the cache lacks: the cluster's binaries and the oracle of the differential tests."""
    binaries()
    binary(ORACLE)


def binaries() -> Binaries:
    """The cluster's binaries, built first where the cache lacks them."""
    return Binaries(control=binary(CONTROL), kwok=binary(KWOK), metrics_server=binary(METRICS_SERVER))


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "trimtab" / "cluster"


def binary(module: Module) -> Path:
    """The module's binary, from the cache or built now."""
    target = cache() / module.digest() / module.name
    if not target.exists():
        with alone():
            if not target.exists():  # another builder may have made it while this one waited
                _build(module, target)
    return target


@contextlib.contextmanager
def alone() -> Iterator[None]:
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("cluster: another build is running, waiting for it", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(module: Module, target: Path) -> None:
    go = toolchain.find(module.wanted_go(), cache())
    target.parent.mkdir(parents=True, exist_ok=True)
    half = target.with_name(f"{module.name}.part")
    log = target.with_name("build.log")
    command = [str(go), "build", *module.flags(), "-o", str(half), module.package]
    environment = {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "", "GOWORK": "off"}
    started = time.monotonic()
    print(f"cluster: building {module.name} (slow once, then cached)", flush=True)
    with log.open("w") as output:
        compiler = subprocess.Popen(
            command, cwd=module.directory, env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        _report_until_done(compiler, module.name, started)
    if compiler.returncode != 0:
        raise BuildError(f"go build of {module.name} failed:\n{log.read_text()[-2000:]}")
    half.rename(target)
    print(f"cluster: built {module.name} in {time.monotonic() - started:.0f} s", flush=True)


def _report_until_done(compiler: subprocess.Popen[bytes], name: str, started: float) -> None:
    try:
        while True:
            try:
                compiler.wait(PROGRESS_EVERY_S)
            except subprocess.TimeoutExpired:
                print(f"cluster: building {name}, {time.monotonic() - started:.0f} s", flush=True)
            else:
                return
    finally:
        if compiler.poll() is None:
            compiler.terminate()
            compiler.wait()
