"""The policy in force: what every state of the ConfigMap makes of it."""

import logging
from collections.abc import Callable

import pytest

from webhook import kube, policy
from webhook.cluster import Cluster
from webhook.policyholder import PolicyHolder

Op = Callable[[PolicyHolder], object]


def document(name: str, profile: str = "{}") -> str:
    head = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\n"
    return f"{head}metadata: {{name: {name}}}\nprofile: {profile}\n"


def config_map(data: dict[str, str] | None) -> kube.ConfigMap:
    return kube.ConfigMap(kube.Metadata(name="scoring-policy"), data)


def put(text: str, key: str = "policy.yaml") -> Op:
    return lambda holder: holder.set(config_map({key: text}))


def put_nothing(holder: PolicyHolder) -> None:
    holder.set(config_map(None))


def listed(*texts: str) -> Op:
    return lambda holder: holder.replace([config_map({"policy.yaml": text}) for text in texts])


def removed(holder: PolicyHolder) -> None:
    holder.remove()


BAD = document("bad", "{strength: 7}")

# What happens, from the defaults on; the name of the policy that is in force then.
STATES: dict[str, tuple[list[Op], str]] = {
    "nothing yet": ([], "built-in"),
    "no ConfigMap in the first list": ([listed()], "built-in"),
    "one in the first list": ([listed(document("a"))], "a"),
    "made later": ([listed(), put(document("a"))], "a"),
    "edited": ([put(document("a")), put(document("b"))], "b"),
    "a bad one from the start": ([listed(BAD)], "built-in"),
    "a bad edit changes nothing": ([put(document("a")), put(BAD)], "a"),
    "a bad edit in a gap of the watch changes nothing": ([put(document("a")), listed(BAD)], "a"),
    "a good edit after a bad one": ([put(document("a")), put(BAD), put(document("b"))], "b"),
    "text that is no YAML": ([put(document("a")), put("{")], "a"),
    "text that is no mapping": ([put(document("a")), put("policy")], "a"),
    "without the key": ([put(document("a")), put(document("b"), "policy.yml")], "built-in"),
    "without data": ([put(document("a")), put_nothing], "built-in"),
    "an empty text": ([put(document("a")), put("")], "built-in"),
    "deleted": ([put(document("a")), removed], "built-in"),
    "deleted in a gap of the watch": ([put(document("a")), listed()], "built-in"),
    "deleted after a bad edit": ([put(document("a")), put(BAD), removed], "built-in"),
    "deleted and made again": ([put(document("a")), removed, put(document("a"))], "a"),
}


@pytest.mark.parametrize(("operations", "want"), STATES.values(), ids=STATES.keys())
def test_the_policy_in_force(operations: list[Op], want: str) -> None:
    holder = PolicyHolder(policy.default(), Cluster())

    for operation in operations:
        operation(holder)

    assert holder.current.name == want


def test_going_back_to_the_defaults_is_going_back_whole() -> None:
    holder = PolicyHolder(policy.default(), Cluster())

    holder.set(config_map({"policy.yaml": document("a", "{strength: 0.5}")}))
    assert holder.current.profile.strength == 0.5
    holder.remove()

    assert holder.current == policy.default()


def test_a_change_is_logged_once_and_a_bad_one_by_its_every_problem(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "webhook.policyholder")
    holder = PolicyHolder(policy.default(), Cluster())

    for operation in (put(document("a")), put(document("a")), put(document("b", "{strength: 7, x: 1}"))):
        operation(holder)

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"policy: a {holder.current.hash} is in force"),
        (
            "WARNING",
            "policy: profile.strength: expected less than or equal to 1, found 7; the one before stays",
        ),
        ("WARNING", "policy: profile.x: unknown key; the one before stays"),
    ]
