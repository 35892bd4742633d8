"""The policy: defaults, every problem at once, and what each field comes to."""

from typing import Any

import pytest

from webhook import policy
from webhook.policy import ConfigError, Policy
from webhook.scorers.balance import Balance
from webhook.scorers.utilization import Utilization

HEAD = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\n"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        policy.load(text)
    return [str(problem) for problem in caught.value.problems]


def scorers(loaded: Policy) -> dict[str, float]:
    return {entry.name: entry.weight for entry in loaded.profile.scorers}


def test_the_built_in_policy() -> None:
    built_in = policy.default()

    assert (built_in.name, built_in.hash) == ("built-in", "built-in")
    assert scorers(built_in) == {"utilization": 10.0, "least-requested": 0.1, "balance": 1.0}
    assert built_in.profile.strength == 1.0
    assert built_in.profile.percentage_of_nodes_to_score == 0
    assert built_in.stale_after_s == 180.0
    assert built_in.scheduler_names == {"default-scheduler"}
    assert not built_in.full_audit


def test_a_file_that_says_nothing_is_the_built_in_policy_by_another_name() -> None:
    loaded, built_in = policy.load(HEAD), policy.default()

    assert loaded.profile == built_in.profile
    assert loaded.stale_after_s == built_in.stale_after_s
    assert loaded.scheduler_names == built_in.scheduler_names
    assert loaded.name == "policy"


def test_every_field() -> None:
    loaded = policy.load(f"""{HEAD}
metadata: {{name: night.shift-2}}
profile:
  strength: 0.5
  scorers:
    utilization: {{weight: 3, args: {{cpu: 1, memory: 0.5}}}}
    balance: {{weight: 0.25, enabled: true}}
    least-requested: {{enabled: false}}
usage: {{staleAfterSeconds: 30}}
scheduler: {{names: [default-scheduler, packer], percentageOfNodesToScore: 70}}
audit: {{verbosity: full}}
""")

    assert loaded.name == "night.shift-2"
    assert scorers(loaded) == {"utilization": 3.0, "balance": 0.25}
    made: list[object] = [entry.scorer for entry in loaded.profile.scorers]
    assert made == [Utilization(cpu=1, memory=0.5), Balance()]
    assert loaded.profile.strength == 0.5
    assert loaded.profile.percentage_of_nodes_to_score == 70
    assert loaded.stale_after_s == 30.0
    assert loaded.scheduler_names == {"default-scheduler", "packer"}
    assert loaded.full_audit


def test_a_series_that_a_source_has_can_be_asked_for() -> None:
    loaded = policy.load(
        HEAD
        + "usage: {sources: [{type: prometheus, url: 'http://prometheus:9090', series: {a: up}}]}\n"
        + "profile: {thresholds: {cpu: 80, cpuSeries: a}, scorers: {custom: {args: {series: a}}}}"
    )

    assert loaded.profile.thresholds.cpu_series == "a"


def test_the_hash_is_that_of_the_text() -> None:
    first, same, other = (policy.load(text) for text in (HEAD, HEAD, HEAD + "# note\n"))

    assert first.hash == same.hash != other.hash
    assert len(first.hash) == 12


PROBLEMS: dict[str, tuple[str, list[str]]] = {
    "nothing": ("", ["policy.yaml: expected a mapping"]),
    "a list": ("[]", ["policy.yaml: expected a mapping, found []"]),
    "an empty mapping": (
        "{}",
        [
            "apiVersion: missing; expected trimtab.dev/v1alpha1",
            "kind: missing; expected ScoringPolicy",
        ],
    ),
    "another version and kind": (
        "apiVersion: v1\nkind: ConfigMap",
        [
            "apiVersion: expected 'trimtab.dev/v1alpha1', found 'v1'",
            "kind: expected 'ScoringPolicy', found 'ConfigMap'",
        ],
    ),
    "not YAML": (HEAD + "profile: [", ["policy.yaml: line "]),
    "a key twice": (HEAD + "kind: x", ["policy.yaml: line 3: the key 'kind' is there twice"]),
    "an unknown key": (HEAD + "profil: {}", ["profil: unknown key"]),
    "an unknown key inside": (HEAD + "usage: {stale: 1}", ["usage.stale: unknown key"]),
    "an unknown key of a scorer": (
        HEAD + "profile: {scorers: {balance: {wait: 1}}}",
        ["profile.scorers.balance.wait: unknown key"],
    ),
    "an unknown scorer, near a known one": (
        HEAD + "profile: {scorers: {utilisation: {}}}",
        ["profile.scorers.utilisation: unknown scorer; did you mean utilization?"],
    ),
    "an unknown scorer, near none": (
        HEAD + "profile: {scorers: {xyz: {}}}",
        ["profile.scorers.xyz: unknown scorer; expected one of accelerator, balance, custom, "],
    ),
    "a scorer that is no mapping": (
        HEAD + "profile: {scorers: {balance: 1}}",
        ["profile.scorers.balance: expected a mapping, found 1"],
    ),
    "a source that is no mapping": (
        HEAD + "usage: {sources: [metrics.k8s.io]}",
        ["usage.sources.0: expected a mapping, found 'metrics.k8s.io'"],
    ),
    "a name that is none": (
        HEAD + "metadata: {name: A b}",
        ["metadata.name: expected a text that matches '^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$', found 'A b'"],
    ),
    "a part of an argument is missing": (
        HEAD + "profile: {scorers: {hot-node: {args: {windows: [{count: 2}]}}}}",
        ["profile.scorers.hot-node.args.windows.0.seconds: missing; expected a value"],
    ),
    "an unknown argument": (
        HEAD + "profile: {scorers: {utilization: {args: {cpus: 1}}}}",
        ["profile.scorers.utilization.args.cpus: unknown argument; expected one of statistic, "],
    ),
    "an argument of a scorer that has none": (
        HEAD + "profile: {scorers: {least-requested: {args: {cpu: 1}}}}",
        ["profile.scorers.least-requested.args.cpu: unknown argument; expected no arguments"],
    ),
    "an argument that is no number": (
        HEAD + "profile: {scorers: {utilization: {args: {cpu: high}}}}",
        ["profile.scorers.utilization.args.cpu: expected a valid number, found 'high'"],
    ),
    "an argument that YAML makes a truth value": (
        HEAD + "profile: {scorers: {utilization: {args: {cpu: on}}}}",
        ["profile.scorers.utilization.args.cpu: expected a valid number, found True"],
    ),
    "an argument that is not a number": (
        HEAD + "profile: {scorers: {utilization: {args: {cpu: .nan}}}}",
        ["profile.scorers.utilization.args.cpu: expected a finite number, found nan"],
    ),
    "an argument out of bounds": (
        HEAD + "profile: {scorers: {utilization: {args: {cpu: -1}}}}",
        ["profile.scorers.utilization.args.cpu: expected greater than or equal to 0, found -1"],
    ),
    "an argument larger than any float": (
        HEAD + f"profile: {{scorers: {{utilization: {{args: {{cpu: 1{'0' * 400}}}}}}}}}",
        ["profile.scorers.utilization.args.cpu: expected a valid number, found 1000"],
    ),
    "arguments that do not go together": (
        HEAD + "profile: {scorers: {utilization: {args: {cpu: 0}}}}",
        ["profile.scorers.utilization.args: expected cpu, memory or dominant above 0, found all 0"],
    ),
    "an argument inside another": (
        HEAD + "profile: {scorers: {hot-node: {args: {windows: [{seconds: 60, count: 0}]}}}}",
        ["profile.scorers.hot-node.args.windows.0.count: expected greater than or equal to 1, found 0"],
    ),
    "an argument inside another that is not known": (
        HEAD + "profile: {scorers: {energy: {args: {default: {idle: 1, peek: 2}}}}}",
        ["profile.scorers.energy.args.default.peek: unknown key"],
    ),
    "series that no source has": (
        HEAD + "profile: {thresholds: {cpu: 80, cpuSeries: a}, scorers: {custom: {args: {series: b}}, "
        "risk: {args: {memoryDeviationSeries: c}}}}",
        [
            "profile.scorers.custom.args.series: expected a name in usage.sources.*.series, found 'b'",
            "profile.scorers.risk.args.memoryDeviationSeries: expected a name in usage.sources",
            "profile.thresholds.cpuSeries: expected a name in usage.sources.*.series, found 'a'",
        ],
    ),
    "two bad arguments": (
        HEAD + "profile: {scorers: {risk: {args: {margin: -1, windowSeconds: 1}}}}",
        [
            "profile.scorers.risk.args.margin: expected greater than or equal to 0, found -1",
            "profile.scorers.risk.args.windowSeconds: expected greater than or equal to 60, found 1",
        ],
    ),
    "a threshold over what a node can use": (
        HEAD + "profile: {thresholds: {cpu: 401}}",
        ["profile.thresholds.cpu: expected less than or equal to 400, found 401"],
    ),
    "a threshold by another resource": (
        HEAD + "profile: {thresholds: {disk: 50}}",
        ["profile.thresholds.disk: unknown key"],
    ),
    "a weight that is not a number": (
        HEAD + "profile: {scorers: {balance: {weight: .nan}}}",
        ["profile.scorers.balance.weight: expected a finite number, found nan"],
    ),
    "an infinite weight": (
        HEAD + "profile: {scorers: {balance: {weight: .inf}}}",
        ["profile.scorers.balance.weight: expected a finite number, found inf"],
    ),
    "a negative weight": (
        HEAD + "profile: {scorers: {balance: {weight: -1}}}",
        ["profile.scorers.balance.weight: expected greater than or equal to 0, found -1"],
    ),
    "a weight in quotes": (
        HEAD + "profile: {scorers: {balance: {weight: '1'}}}",
        ["profile.scorers.balance.weight: expected a valid number, found '1'"],
    ),
    "a weight that YAML makes a truth value": (
        HEAD + "profile: {scorers: {balance: {weight: yes}}}",
        ["profile.scorers.balance.weight: expected a valid number, found True"],
    ),
    "enabled as a number": (
        HEAD + "profile: {scorers: {balance: {enabled: 1}}}",
        ["profile.scorers.balance.enabled: expected a valid boolean, found 1"],
    ),
    "a scheduler that YAML makes a truth value": (
        HEAD + "scheduler: {names: [no]}",
        ["scheduler.names.0: expected a valid string, found False"],
    ),
    "no scheduler": (HEAD + "scheduler: {names: []}", ["scheduler.names: "]),
    "a percentage with a fraction": (
        HEAD + "scheduler: {percentageOfNodesToScore: 5.0}",
        ["scheduler.percentageOfNodesToScore: expected a valid integer, found 5.0"],
    ),
    "a percentage over 100": (
        HEAD + "scheduler: {percentageOfNodesToScore: 101}",
        ["scheduler.percentageOfNodesToScore: expected less than or equal to 100, found 101"],
    ),
    "no strength": (
        HEAD + "profile: {strength: 0}",
        ["profile.strength: expected greater than or equal to 0.05, found 0"],
    ),
    "readings that are stale at once": (
        HEAD + "usage: {staleAfterSeconds: 0}",
        ["usage.staleAfterSeconds: expected greater than or equal to 1, found 0"],
    ),
    "a verbosity of one's own": (HEAD + "audit: {verbosity: max}", ["audit.verbosity: expected "]),
    "a name with a line end": (HEAD + 'metadata: {name: "a\\n"}', ["metadata.name: "]),
    "a name too long for the annotation": (HEAD + f"metadata: {{name: {'x' * 64}}}", ["metadata.name: "]),
    "nothing enabled": (
        HEAD + "profile: {scorers: {balance: {enabled: false}, utilization: {weight: 0}}}",
        ["profile.scorers: expected at least one scorer that is enabled with a weight above 0"],
    ),
    "no scorers": (HEAD + "profile: {scorers: {}}", ["profile.scorers: expected at least one scorer"]),
    "a scorer without a body": (
        HEAD + "profile: {scorers: {balance: }}",
        ["profile.scorers.balance: expected "],
    ),
}


@pytest.mark.parametrize(("text", "want"), PROBLEMS.values(), ids=PROBLEMS.keys())
def test_problems(text: str, want: list[str]) -> None:
    found = problems(text)

    assert len(found) == len(want)
    for problem, start in zip(found, want, strict=True):
        assert problem.startswith(start)
        assert "\n" not in problem


def test_every_problem_is_said_at_once() -> None:
    found = problems("""
apiVersion: trimtab.dev/v2
kind: ScoringPolicy
profile:
  strength: 5
  scorers:
    utilisation: {}
    balance: {weight: -1, args: {cpu: 1}}
    utilization: {args: {cpu: x, disk: 1}}
usage: {staleAfter: 1}
""")

    assert sorted(problem.split(": ")[0] for problem in found) == [
        "apiVersion",
        "profile.scorers.balance.args.cpu",
        "profile.scorers.balance.weight",
        "profile.scorers.utilisation",
        "profile.scorers.utilization.args.cpu",
        "profile.scorers.utilization.args.disk",
        "profile.strength",
        "usage.staleAfter",
    ]


def test_problems_do_not_quote_a_value_of_any_length() -> None:
    (problem,) = problems(HEAD + f"audit: {{verbosity: {'x' * 60_000}}}")

    assert len(problem) < 1000


SURPRISES: dict[str, tuple[str, Any]] = {
    "yes is true": ("enabled: yes", True),
    "off is false": ("enabled: off", False),
}


@pytest.mark.parametrize(("text", "want"), SURPRISES.values(), ids=SURPRISES.keys())
def test_truth_values_may_be_written_as_in_yaml(text: str, *, want: bool) -> None:
    loaded = policy.load(f"{HEAD}profile: {{scorers: {{balance: {{{text}}}, utilization: {{}}}}}}")

    assert ("balance" in scorers(loaded)) is want
