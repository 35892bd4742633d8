"""Our Filter against the scheduler's, over generated clusters and Pods: no node wrongly excluded or kept.

`NodeReady` is left out: it is ours alone, and every generated node is ready.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from webhook import filters

from . import generate, oracle, seen
from .generate import Question
from .oracle import Answer
from .shrink import explained

SEED = 4
CLUSTERS = 1_300
PODS_EACH = 8

MODELLED = tuple(name for name in filters.FILTERS if name != "NodeReady")

# Of these plugins only the refusals for these reasons are modelled; the rest are about claims that are not
# bound, or that nobody has seen.
REASONS = {
    "VolumeBinding": {"node(s) didn't match PersistentVolume's node affinity"},
    "VolumeZone": {"node(s) had no available volume zone"},
}

# How often each plugin must at least refuse a node, be the only one that does, and divide a cluster.
REFUSED, DECISIVE, DIVIDED = 1_000, 300, 200
ACCEPTED = 10_000

Asked = list[tuple[Question, list[Answer]]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    questions = [
        generate.question(Random(f"{SEED}-{number}"), PODS_EACH, generate.FILTERING)
        for number in range(CLUSTERS)
    ]
    replies = oracle.ask(questions)
    return [(question, reply.answers) for question, reply in zip(questions, replies, strict=True)]


def test_every_predicate_agrees_with_the_scheduler(asked: Asked) -> None:
    pods = 0
    for question, answers in asked:
        pods += len(answers)
        for index, found in enumerate(differences(question, answers)):
            if found:
                pytest.fail(explained(replace(question, incoming=[question.incoming[index]]), differences))
    assert pods >= 10_000


def test_every_predicate_is_asked_about_both_ways(asked: Asked) -> None:
    refused, decisive, divided = Counter[str](), Counter[str](), Counter[str]()
    accepted = 0
    for question, answers in asked:
        for answer in answers:
            accepted += len(question.nodes) - len(answer.refusals)
            by_plugin = Counter(
                name
                for plugins in answer.refusals.values()
                for name, reasons in plugins.items()
                if _is_modelled(name, reasons)
            )
            refused += by_plugin
            divided.update(name for name, nodes in by_plugin.items() if nodes < len(question.nodes))
            decisive.update(next(iter(plugins)) for plugins in answer.refusals.values() if len(plugins) == 1)
    assert accepted >= ACCEPTED
    for name in MODELLED:
        assert refused[name] >= REFUSED, name
        assert decisive[name] >= DECISIVE, name
        assert divided[name] >= DIVIDED, name


def differences(question: Question, answers: list[Answer]) -> Iterator[list[str]]:
    """Yield, Pod by Pod, a line for each node on which a predicate or their sum is not the scheduler's."""
    nodes = seen.cluster(question).nodes
    rows = {name: nodes.row(name) for name in (node["metadata"]["name"] for node in question.nodes)}
    for pod, answer in zip(seen.incoming(question), answers, strict=True):
        demand = filters.demand(pod)
        passed = {name: filters.FILTERS[name](demand, nodes) for name in MODELLED}
        kept = {name: mask.tolist() for name, mask in passed.items() if mask is not None}
        feasible = filters.feasible(demand, nodes).tolist()
        found = []
        for name, row in rows.items():
            refusals = answer.refusals.get(name, {})
            ours = {plugin for plugin, verdicts in kept.items() if not verdicts[row]}
            theirs = {plugin for plugin, reasons in refusals.items() if _is_modelled(plugin, reasons)}
            # A plugin that refuses for a reason which is not modelled may be right by us in either way.
            open_ = refusals.keys() - theirs
            if ours - open_ != theirs or (feasible[row] if theirs else not feasible[row] and not refusals):
                found.append(f"{name}: we refuse by {sorted(ours)}, the scheduler by {refusals}")
        yield found


def _is_modelled(plugin: str, reasons: list[str]) -> bool:
    return plugin in MODELLED and REASONS.get(plugin, set(reasons)).issuperset(reasons)
