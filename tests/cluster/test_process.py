"""Stopping hits what was started and nothing else."""

import sys
from pathlib import Path

import pytest

from . import process, waiting

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def test_a_record_stops_its_process(tmp_path: Path) -> None:
    sleeper = process.Process("sleeper", SLEEP, log=tmp_path / "log")
    sleeper.start()
    process.stop_recorded([sleeper.record()])
    assert not sleeper.running()


def test_a_pid_that_was_given_to_another_is_left_alone(tmp_path: Path) -> None:
    stranger = process.Process("stranger", SLEEP, log=tmp_path / "log")
    stranger.start()
    process.stop_recorded([{**stranger.record(), "began": "long ago"}])
    assert stranger.running()
    stranger.stop()
    assert process.began(stranger.pid) is None


def test_a_process_that_ends_by_itself_is_reported_with_its_last_words(tmp_path: Path) -> None:
    talker = process.Process("talker", [sys.executable, "-c", "exit('no port')"], log=tmp_path / "log")
    talker.start()
    waiting.until(lambda: not talker.running(), "its end", timeout_s=60)
    with pytest.raises(process.ProcessError, match=r"(?s)ended with 1.*no port"):
        talker.require_running()
