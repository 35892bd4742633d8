"""The model of the stock scheduler against the scheduler: every plugin's score of every feasible node."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from webhook import filters
from webhook.demo import stock
from webhook.demo.stock import StockScheduler

from . import generate, oracle, seen
from .generate import Question
from .oracle import Answer, Reply
from .shrink import explained

SEED = 5
CLUSTERS = 1_300
PODS_EACH = 8

# How often each plugin must at least tell two nodes of a question apart.
DIVIDED = 1_000

Asked = list[tuple[Question, Reply]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    questions = [
        generate.question(Random(f"{SEED}-{number}"), PODS_EACH, generate.SCORING)
        for number in range(CLUSTERS)
    ]
    return list(zip(questions, oracle.ask(questions), strict=True))


def test_every_plugin_scores_as_the_schedulers_does(asked: Asked) -> None:
    pods = 0
    for question, reply in asked:
        pods += len(reply.answers)
        for index, found in enumerate(differences(question, reply.answers)):
            if found:
                pytest.fail(explained(replace(question, incoming=[question.incoming[index]]), differences))
    assert pods >= 10_000


def test_the_weights_are_the_default_profiles(asked: Asked) -> None:
    _, reply = asked[0]
    assert {name: reply.weights[name] for name in stock.WEIGHTS} == stock.WEIGHTS


def test_what_the_model_lacks_says_nothing_here(asked: Asked) -> None:
    for _, reply in asked:
        for answer in reply.answers:
            for name in answer.scores.keys() - stock.WEIGHTS.keys():
                assert set(answer.scores[name].values()) == {0}, name


def test_every_plugin_tells_nodes_apart(asked: Asked) -> None:
    divided = Counter(
        name
        for _, reply in asked
        for answer in reply.answers
        for name, scores in answer.scores.items()
        if len(set(scores.values())) > 1
    )
    for name in stock.WEIGHTS:
        assert divided[name] >= DIVIDED, name


def differences(question: Question, answers: list[Answer]) -> Iterator[list[str]]:
    """Yield, Pod by Pod, a line for each plugin whose scores are not the scheduler's."""
    nodes = seen.nodes(question)
    model = StockScheduler(nodes, np.random.default_rng(SEED))
    for pod in seen.bound(question):
        model.bind(pod, pod.spec.node_name or "")
    for pod, answer in zip(seen.incoming(question), answers, strict=True):
        names = [name for name in nodes.names if name not in answer.refusals]
        rows = np.array([nodes.row(name) for name in names], np.int64)
        ours = model.scores(pod, filters.demand(pod), rows) if names else {}
        found = []
        for plugin, scores in ours.items():
            theirs = answer.scores.get(plugin, {})
            wanted = [theirs.get(name, 0) for name in names]
            if scores.tolist() != wanted:
                found.append(f"{plugin}: {dict(zip(names, scores.tolist(), strict=True))}, not {theirs}")
        yield found
