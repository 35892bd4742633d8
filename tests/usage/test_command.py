"""`trimtab usage`: what it asks of the cluster, what it prints, and with which exit code."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.builders import GIB, Json, make_node
from webhook import api, cli
from webhook.api import Api, ApiError, Query

NODES = "/api/v1/nodes"
POLICIES = "/api/v1/namespaces/trimtab-system/configmaps"
READINGS = "/apis/metrics.k8s.io/v1beta1/nodes"

TWO_SOURCES = """
apiVersion: trimtab.dev/v1alpha1
kind: ScoringPolicy
usage:
  sources: [{type: metrics.k8s.io}, {type: annotations, cpu: load}]
"""


class Cluster(Api):
    """Answers lists, Nodes in pages of one; a path that it has no answer for fails."""

    def __init__(self, readings: list[Json] | None, policy: str | None = None) -> None:
        super().__init__(None)
        self.closed = False
        self._nodes = [make_node("n1", annotations={"load": "0.5,now"}), make_node("n2")]
        data = {"data": {"policy.yaml": policy}} if policy else {}
        self._lists: dict[str, list[Json]] = {POLICIES: [{"metadata": {"name": "scoring-policy"}, **data}]}
        if readings is not None:
            self._lists[READINGS] = readings

    async def get(self, path: str, query: Query | None = None) -> bytes:
        if path == NODES:
            page = int(str((query or {}).get("continue", 0)))
            more = {"continue": str(page + 1)} if page + 1 < len(self._nodes) else {}
            return json.dumps({"metadata": more, "items": [self._nodes[page]]}).encode()
        if path == POLICIES:
            assert query == {"fieldSelector": "metadata.name=scoring-policy"}
        if path not in self._lists:
            raise ApiError(503, f"GET {path}: status 503")
        return json.dumps({"items": self._lists[path]}).encode()

    async def close(self) -> None:
        self.closed = True


def reading(name: str, cpu: str = "2") -> Json:
    return {"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": str(4 * GIB)}}


def run(monkeypatch: pytest.MonkeyPatch, cluster: Cluster, *arguments: str) -> Result:
    async def connect(kubeconfig: Path | None) -> Api:
        return cluster

    monkeypatch.setattr(api, "connect", connect)
    monkeypatch.setenv("COLUMNS", "150")
    return CliRunner().invoke(cli.main, ["usage", *arguments])


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([reading("n1", "400"), reading("old")])

    result = run(monkeypatch, cluster)

    assert result.exit_code == 0, result.output
    assert "metrics.k8s.io" in result.output
    assert result.output.splitlines()[-3:] == [
        "metrics.k8s.io: node without a reading: n2",
        "metrics.k8s.io: matches no node: old",
        "metrics.k8s.io: no use that a node can have: n1 cpu 400000",
    ]
    assert cluster.closed


def test_the_same_as_json_by_the_policy_in_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, Cluster([reading("n1"), reading("n2")], TWO_SOURCES), "-o", "json")

    assert result.exit_code == 0, result.output
    first, second = json.loads(result.output)["sources"]
    nothing = {"count": 0, "first": []}
    assert first == {
        "source": "metrics.k8s.io",
        "error": None,
        "matched": 2,
        **dict.fromkeys(("unmatched", "ambiguous", "silent", "invalid"), nothing),
        "errors": [],
        "warnings": [],
    }
    assert (second["source"], second["matched"], second["silent"]["first"]) == ("annotations", 1, ["n2"])


def test_a_policy_in_a_file_is_asked_instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(TWO_SOURCES.replace("{type: metrics.k8s.io}, ", ""))

    result = run(monkeypatch, Cluster(None), "--policy", str(path), "-o", "json")

    assert [source["source"] for source in json.loads(result.output)["sources"]] == ["annotations"]


def test_a_source_that_fails_is_shown_beside_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, Cluster(None, TWO_SOURCES), "-o", "json")

    assert result.exit_code == 1
    first, second = json.loads(result.output)["sources"]
    assert first == {"source": "metrics.k8s.io", "error": f"GET {READINGS}: status 503"}
    assert second["matched"] == 1


def test_a_policy_with_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, Cluster([], TWO_SOURCES.replace("annotations", "annotation")))

    assert result.exit_code == 2
    assert "error: usage.sources.1.type: expected one of" in result.output


def test_no_access_to_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connect(kubeconfig: Path | None) -> Api:
        raise ApiError(0, "no access to a cluster")

    monkeypatch.setattr(api, "connect", connect)
    result = CliRunner().invoke(cli.main, ["usage"])

    assert (result.exit_code, result.output) == (1, "error: no access to a cluster\n")


@pytest.mark.parametrize("count", [10, 12])
def test_a_long_list_is_cut(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(monkeypatch, Cluster([reading(f"old-{number}") for number in range(count)]))

    lines = [line for line in result.output.splitlines() if "matches no node" in line]
    assert len(lines) == min(count, 11)
    assert ("and 2 more (the first 12 with -o json)" in lines[-1]) == (count == 12)
