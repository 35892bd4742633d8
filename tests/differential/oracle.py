"""Asks the scheduler's own plugins, in the Go program of tests/cluster/control/oracle."""

import subprocess
from collections.abc import Iterable

import msgspec

from tests.cluster import build

from .generate import Question

TIMEOUT_S = 300.0


class OracleError(Exception):
    """The oracle could not answer; the message is its own."""


class Answer(msgspec.Struct, frozen=True):
    """What the plugins make of one Pod.

    `refusals` are by node and plugin, with the reasons; `scores` by plugin and node, for the nodes that no
    plugin refuses: normalized, without the weight. A plugin with nothing to say about the Pod is not in them.
    """

    refusals: dict[str, dict[str, list[str]]]
    scores: dict[str, dict[str, int]]


class Reply(msgspec.Struct, frozen=True):
    """The answers to a question, one for each incoming Pod; `weights` are the default profile's."""

    weights: dict[str, int] = {}
    answers: list[Answer] = []
    error: str = ""


def ask(questions: Iterable[Question]) -> list[Reply]:
    """Answer a batch. The program ends with its input, so nothing outlives the call."""
    lines = b"".join(msgspec.json.encode(question.as_json()) + b"\n" for question in questions)
    done = subprocess.run(
        [build.binary(build.ORACLE)], input=lines, capture_output=True, check=False, timeout=TIMEOUT_S
    )
    if done.returncode != 0:
        raise OracleError(done.stderr.decode())
    replies = [msgspec.json.decode(line, type=Reply) for line in done.stdout.splitlines()]
    for reply in replies:
        if reply.error:
            raise OracleError(reply.error)
    return replies
