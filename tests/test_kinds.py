"""What is watched of volumes and their claims reaches the snapshot."""

from typing import Any

import msgspec

from tests.builders import Json, make_claim, make_volume, to_bytes
from webhook import kinds
from webhook.cluster import Cluster
from webhook.watch import Kind


def watched(cluster: Cluster, name: str) -> Kind[Any]:
    (kind,) = [kind for kind in kinds.kinds(cluster, lambda: 0.0, lambda _name: None) if kind.name == name]
    return kind


def event(kind: Kind[Any], name: str, item: Json) -> None:
    kind.apply(name, msgspec.Raw(to_bytes(item)))


def test_claims_and_volumes_follow_their_events() -> None:
    cluster = Cluster()
    volumes, claims = watched(cluster, "persistentvolumes"), watched(cluster, "persistentvolumeclaims")

    def is_known() -> bool:
        return cluster.nodes.volumes.claim("shop", "c") is not None

    event(volumes, "ADDED", make_volume("v"))
    event(claims, "ADDED", make_claim("c", None, bound=False))
    assert not is_known()
    event(claims, "MODIFIED", make_claim("c", "v"))
    assert is_known()
    event(volumes, "DELETED", make_volume("v"))
    assert not is_known()
    volumes.replace([volumes.decode(msgspec.Raw(to_bytes(make_volume("v"))))])
    assert is_known()
    event(claims, "DELETED", make_claim("c", "v"))
    assert not is_known()
    claims.replace([claims.decode(msgspec.Raw(to_bytes(make_claim("c", "v"))))])
    assert is_known()
