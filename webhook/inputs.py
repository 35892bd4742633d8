"""The files that a command is given: a cluster and a policy."""

from pathlib import Path

from webhook import clusterfile, policy
from webhook.cluster import Cluster
from webhook.policy import ConfigError, Policy


def load(cluster_file: Path, policy_file: Path | None) -> tuple[Cluster, Policy]:
    """Load both files; raise ConfigError with the problems of both."""
    problems: list[policy.Problem] = []
    cluster, current = Cluster(), policy.default()
    try:
        cluster = clusterfile.load(cluster_file)
    except ConfigError as error:
        problems += error.problems
    try:
        current = load_policy(policy_file)
    except ConfigError as error:
        problems += error.problems
    if problems:
        raise ConfigError(problems)
    cluster.expectation.estimator = current.estimator
    return cluster, current


def load_policy(path: Path | None) -> Policy:
    """Return the policy in a file, or the defaults; raise ConfigError."""
    if path is None:
        return policy.default()
    try:
        return policy.load(path.read_text())
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([policy.Problem(str(path), f"cannot be read: {error}")]) from None
