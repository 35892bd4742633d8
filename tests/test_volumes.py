"""Claims and volumes: kept, replaced, removed."""

from tests.builders import decode_claim, decode_volume, make_claim, make_volume
from webhook import kube
from webhook.volumes import Claim, Volume, Volumes

ZONED = Volume(None, ((kube.ZONE, frozenset({"a"})),))


def known(volumes: Volumes, *names: str) -> list[bool]:
    return [volumes.claim("shop", name) is not None for name in names]


def test_a_claim_leads_to_its_volume() -> None:
    volumes = Volumes()
    volumes.set_claim(decode_claim(make_claim("c", "v")))
    assert known(volumes, "c") == [False]

    volumes.set_volume(decode_volume(make_volume("v", labels={kube.ZONE: "a"})))

    assert volumes.claim("shop", "c") == (Claim("v", bound=True), ZONED)
    assert volumes.claim("ops", "c") is None


def test_what_is_gone_or_not_listed_any_more_is_forgotten() -> None:
    volumes = Volumes()
    claims = [decode_claim(make_claim(name, name)) for name in "cd"]
    stored = [decode_volume(make_volume(name)) for name in "cd"]
    volumes.replace_claims(claims)
    volumes.replace_volumes(stored)
    assert known(volumes, "c", "d") == [True, True]

    volumes.remove_claim(claims[0])
    assert known(volumes, "c", "d") == [False, True]

    volumes.replace_claims(claims[:1])
    assert known(volumes, "c", "d") == [True, False]

    volumes.remove_volume(stored[0])
    volumes.remove_volume(stored[0])
    assert known(volumes, "c") == [False]

    volumes.set_volume(stored[0])
    volumes.replace_volumes(stored[1:])
    assert known(volumes, "c") == [False]


def test_one_without_a_spec_says_nothing() -> None:
    volumes = Volumes()
    volumes.set_claim(decode_claim({"metadata": {"name": "c", "namespace": "shop"}, "spec": None}))
    volumes.set_volume(decode_volume({"metadata": {"name": ""}}))

    assert known(volumes, "c") == [False]
