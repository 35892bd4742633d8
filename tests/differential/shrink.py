"""Makes a question on which we differ from the scheduler small enough to read."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from . import oracle
from .generate import Question
from .oracle import Answer

Differs = Callable[[Question, Answer], bool]


def shrink(question: Question, differs: Differs) -> Question:
    """Return the question of one incoming Pod without what the difference does not need."""
    while True:
        candidates = list(_smaller(question))
        replies = oracle.ask(candidates)
        found = next(
            (one for one, reply in zip(candidates, replies, strict=True) if differs(one, reply.answers[0])),
            None,
        )
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
