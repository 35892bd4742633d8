"""`trimtab explain`: the serving code path over files, and its explanation on stdout."""

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from webhook import admission, clusterfile, inputs
from webhook.admission import Clock
from webhook.explain import explanation, podfile


def run(
    cluster_file: Path, policy_file: Path | None, pod_file: Path, namespace: str | None, output: str
) -> None:
    """Explain the Pod in a file; raise ConfigError for a file that cannot be used."""
    cluster, policy = inputs.load(cluster_file, policy_file)
    incoming = podfile.load(pod_file, namespace)
    clock = Clock(time.monotonic(), datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
    review = explanation.make_review(incoming.body, incoming.namespace)
    answer = admission.respond(review, cluster, policy, clock)
    explained = explanation.explain(answer, incoming.pod, cluster, policy, clock)
    for path, text in clusterfile.bad_quantities(incoming.pod):
        sys.stderr.write(f"warning: {incoming.where}{path}: {text}\n")
    if answer.detail:
        sys.stderr.write(f"warning: {answer.detail}\n")
    if output == "json":
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(explained), indent=2).decode() + "\n")
        return
    from rich.console import Console  # noqa: PLC0415, JSON needs none of it

    from webhook.explain import table  # noqa: PLC0415

    table.show(explained, Console())
