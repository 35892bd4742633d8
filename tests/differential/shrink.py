"""Makes a question on which we differ from the scheduler small enough to read."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from . import oracle
from .generate import Question
from .oracle import Answer

# Yields for each incoming Pod what differs, a line each.
Differences = Callable[[Question, list[Answer]], Iterable[list[str]]]


def explained(question: Question, differences: Differences) -> str:
    """Return what differs on a question of one incoming Pod, and the objects that it takes."""
    small = shrink(question, differences)
    (reply,) = oracle.ask([small])
    (found,) = differences(small, reply.answers)
    objects = [f"{kind}: {json.dumps(one)}" for kind, listed in small.as_json().items() for one in listed]
    return "\n".join([*found, *objects])


def shrink(question: Question, differences: Differences) -> Question:
    """Take nodes, bound Pods and parts of the incoming Pod away as long as something differs."""
    while True:
        candidates = list(_smaller(question))
        answered = zip(candidates, oracle.ask(candidates), strict=True)
        found = next((one for one, reply in answered if any(differences(one, reply.answers))), None)
        if found is None:
            return question
        question = found


def _smaller(question: Question) -> Iterator[Question]:
    for node in question.nodes:
        name = node["metadata"]["name"]
        yield replace(
            question,
            nodes=[other for other in question.nodes if other is not node],
            pods=[pod for pod in question.pods if pod["spec"]["nodeName"] != name],
        )
    for pod in question.pods:
        yield replace(question, pods=[other for other in question.pods if other is not pod])
    (incoming,) = question.incoming
    for part in incoming["spec"]:
        if part != "containers":
            spec = {key: value for key, value in incoming["spec"].items() if key != part}
            yield replace(question, incoming=[{**incoming, "spec": spec}])
