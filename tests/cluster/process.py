"""Background processes: started in a group of their own, stopped by exactly the pid that was started.

A process is known by its pid and the moment it began, so that a record kept in a file never stops a stranger
that was later given the same pid.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypedDict

GRACE_S = 30.0  # as kubelets give it
LAST_GRACE_S = 3.0  # where all end for good there is nobody left to drain for
POLL_S = 0.02


class Record(TypedDict):
    """A started process as the state file keeps it."""

    name: str
    pid: int
    began: str


class ProcessError(Exception):
    """A process ended although it should run."""


class Process:
    """One background process; start, stop and kill may be repeated in any order."""

    def __init__(
        self, name: str, argv: Sequence[str | Path], *, log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.argv = [str(word) for word in argv]
        self.log = log
        self.env = env
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        if self._child is None:
            raise ProcessError(f"{self.name} was not started")
        return self._child.pid

    def start(self) -> None:
        if self.running():
            raise ProcessError(f"{self.name} runs already")
        with self.log.open("ab") as output:
            self._child = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=None if self.env is None else {**os.environ, **self.env},
                start_new_session=True,
            )

    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def require_running(self) -> None:
        """Raise with the end of the log where the process has ended by itself."""
        if not self.running():
            code = None if self._child is None else self._child.returncode
            raise ProcessError(f"{self.name} ended with {code}; the end of its log:\n{self.tail()}")

    def terminate(self) -> None:
        """Ask it to end, without waiting."""
        if self._child is not None and self.running():
            self._child.terminate()

    def stop(self, grace_s: float = GRACE_S) -> None:
        """End it: politely, then by force once the grace is over."""
        if self._child is None:
            return
        self.terminate()
        try:
            self._child.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._child is not None and self.running():
            self._child.kill()
            self._child.wait()

    def record(self) -> Record:
        return Record(name=self.name, pid=self.pid, began=began(self.pid) or "")

    def tail(self, lines: int = 20) -> str:
        if not self.log.exists():
            return "(no log)"
        return "\n".join(line[:300] for line in self.log.read_text(errors="replace").splitlines()[-lines:])


def began(pid: int) -> str | None:
    """When the process began, in a form that only compares; None once it has ended, reaped or not."""
    if sys.platform == "linux":
        try:
            # The second field, the name, may hold spaces and brackets; the fields after it do not.
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return None
        return None if fields[0] == "Z" else fields[19]
    shown = subprocess.run(
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout.split(maxsplit=1)
    return None if not shown or shown[0].startswith("Z") else shown[1].strip()


def alive(record: Record) -> bool:
    return began(record["pid"]) == record["began"]


def stop_all(processes: Sequence[Process]) -> None:
    """End all of them for good: together, and by force those that linger for one of the others."""
    for running in processes:
        running.terminate()
    deadline = time.monotonic() + LAST_GRACE_S
    for running in processes:
        running.stop(max(0.0, deadline - time.monotonic()))


def stop_recorded(records: Sequence[Record]) -> None:
    """Do the same with what an earlier run of this program left running."""
    for record in records:
        _signal(record, signal.SIGTERM)
    deadline = time.monotonic() + LAST_GRACE_S
    for record in records:
        if not _gone(record, max(0.0, deadline - time.monotonic())):
            _signal(record, signal.SIGKILL)
            _gone(record, GRACE_S)


def free_port() -> int:
    """A port that is free now, below the range from which outgoing connections take theirs."""
    while True:
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port


def _signal(record: Record, number: signal.Signals) -> bool:
    if not alive(record):
        return False
    os.kill(record["pid"], number)
    return True


def _gone(record: Record, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while alive(record):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
