"""The Secret and the webhook configuration, written only when needed and never over another writer."""

import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from certs import pki, secret
from certs.pki import Material, Pair

from . import fake_api
from .fake_api import CONFIGURATION, SECRET, FakeApi

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NAMES = pki.service_names("trimtab", "trimtab-system")
CA = pki.make_ca(now=NOW)
LEAF = pki.make_leaf(CA, dns_names=NAMES, now=NOW)
OTHER_CA = pki.make_ca(now=NOW)
FULL = {"ca.crt": CA.cert_pem, "ca.key": CA.key_pem, "tls.crt": LEAF.cert_pem, "tls.key": LEAF.key_pem}


def api_with_secret(data: dict[str, bytes] | None) -> FakeApi:
    api = FakeApi()
    api.put(SECRET, fake_api.secret(data))
    return api


def api_with_configuration(*bundles: bytes | None) -> FakeApi:
    api = FakeApi()
    api.put(CONFIGURATION, fake_api.configuration(*bundles))
    return api


async def ensure(api: FakeApi, now: datetime = NOW) -> Material:
    return await secret.ensure(api, namespace="trimtab-system", name="trimtab-tls", dns_names=NAMES, now=now)


async def publish(api: FakeApi, ca_pem: bytes = CA.cert_pem) -> bool:
    return await secret.publish(api, configuration="trimtab", ca_pem=ca_pem)


async def test_sound_material_is_used_and_nothing_written() -> None:
    api = api_with_secret(FULL)

    assert await ensure(api) == Material(ca_pem=CA.cert_pem, leaf=LEAF)
    assert api.writes == []


async def test_material_that_others_made_serves_without_the_key_of_its_ca() -> None:
    api = api_with_secret({key: value for key, value in FULL.items() if key != "ca.key"})

    assert await ensure(api) == Material(ca_pem=CA.cert_pem, leaf=LEAF)
    assert api.writes == []


UNSOUND = {
    "no data, as the manifests make it": None,
    "no keys": {},
    "empty values": dict.fromkeys(FULL, b""),
    "leaf gone": {"ca.crt": CA.cert_pem, "ca.key": CA.key_pem},
    "halves of two pairs": FULL | {"tls.key": OTHER_CA.key_pem},
    "garbage": dict.fromkeys(FULL, b"garbage"),
    "leaf of another CA": FULL | {"ca.crt": OTHER_CA.cert_pem, "ca.key": OTHER_CA.key_pem},
    "a leaf where the CA should be": {"ca.crt": LEAF.cert_pem, "ca.key": LEAF.key_pem},
}


@pytest.mark.parametrize("data", UNSOUND.values(), ids=UNSOUND.keys())
async def test_unsound_material_is_replaced_by_sound_material(data: dict[str, bytes] | None) -> None:
    api = api_with_secret(data)

    made = await ensure(api)

    assert pki.find_problem(made.leaf, ca_pem=made.ca_pem, dns_names=NAMES, now=NOW) is None
    assert fake_api.secret_data(api) == {
        "ca.crt": made.ca_pem,
        "ca.key": fake_api.secret_data(api)["ca.key"],
        "tls.crt": made.leaf.cert_pem,
        "tls.key": made.leaf.key_pem,
    }
    assert await ensure(api) == made, "the next call finds it sound"
    assert len(api.writes) == 1


async def test_stored_key_of_the_ca_can_sign_the_next_leaf() -> None:
    api = api_with_secret(None)
    await ensure(api)
    data = fake_api.secret_data(api)

    assert pki.find_ca_problem(Pair(data["ca.crt"], data["ca.key"]), now=NOW) is None


async def test_expired_leaf_is_replaced_under_the_same_ca() -> None:
    api = api_with_secret(FULL)

    made = await ensure(api, now=NOW + timedelta(days=366))

    assert made.ca_pem == CA.cert_pem
    assert made.leaf != LEAF


async def test_expired_ca_is_replaced_with_its_leaf() -> None:
    api = api_with_secret(FULL)

    made = await ensure(api, now=NOW + timedelta(days=3651))

    assert made.ca_pem != CA.cert_pem


async def test_what_else_is_in_the_secret_stays() -> None:
    api = api_with_secret({"note.txt": b"ours"})

    await ensure(api)

    assert fake_api.secret_data(api)["note.txt"] == b"ours"
    assert api.objects[SECRET]["metadata"]["labels"] == {"team": "platform"}
    assert api.objects[SECRET]["type"] == "Opaque"


async def test_value_that_comes_as_null_is_an_empty_one() -> None:
    api = api_with_secret(None)
    api.edit(SECRET, lambda content: content.update(data={"tls.crt": None}))

    assert (await ensure(api)).leaf.cert_pem


async def test_replica_that_comes_second_takes_what_the_first_wrote() -> None:
    api = api_with_secret(None)
    api.before_writing.append(lambda: api.put(SECRET, fake_api.secret(FULL)))

    assert await ensure(api) == Material(ca_pem=CA.cert_pem, leaf=LEAF)
    assert fake_api.secret_data(api) == FULL


async def test_write_that_left_the_secret_unsound_is_no_reason_to_give_up() -> None:
    api = api_with_secret(None)
    api.before_writing.append(lambda: api.edit(SECRET, lambda content: content["metadata"]["labels"].clear()))

    made = await ensure(api)

    assert fake_api.secret_data(api)["tls.crt"] == made.leaf.cert_pem
    assert api.objects[SECRET]["metadata"]["labels"] == {}, "the other write is kept"


async def test_webhooks_without_a_bundle_get_it() -> None:
    api = api_with_configuration(None, None)

    assert await publish(api) is True
    assert fake_api.bundles(api) == {"w0.trimtab.dev": CA.cert_pem, "w1.trimtab.dev": CA.cert_pem}


async def test_same_bundle_is_not_written_again() -> None:
    api = api_with_configuration(CA.cert_pem)

    assert await publish(api) is False
    assert api.writes == []


async def test_only_the_bundle_that_differs_is_written() -> None:
    api = api_with_configuration(CA.cert_pem, OTHER_CA.cert_pem)
    before = fake_api.configuration(CA.cert_pem, CA.cert_pem)["webhooks"]

    await publish(api)

    [(method, _, operations)] = api.writes
    assert method == "PATCH"
    assert [(operation["op"], operation["path"]) for operation in operations] == [
        ("test", "/metadata/resourceVersion"),
        ("test", "/webhooks/1/name"),
        ("add", "/webhooks/1/clientConfig/caBundle"),
    ]
    assert api.objects[CONFIGURATION]["webhooks"] == before


@pytest.mark.parametrize("webhooks", [[], None], ids=["empty list", "null"])
async def test_configuration_without_webhooks_needs_nothing(webhooks: list[object] | None) -> None:
    api = api_with_configuration()
    api.edit(CONFIGURATION, lambda content: content.update(webhooks=webhooks))

    assert await publish(api) is False


async def test_webhooks_that_change_places_under_way_are_not_confused() -> None:
    api = api_with_configuration(CA.cert_pem, None)
    api.before_writing.append(
        lambda: api.edit(CONFIGURATION, lambda content: content["webhooks"].insert(0, foreign_webhook()))
    )

    assert await publish(api) is True
    assert fake_api.bundles(api) == {
        "foreign.example.com": CA.cert_pem,  # by now one of our configuration's webhooks, so served too
        "w0.trimtab.dev": CA.cert_pem,
        "w1.trimtab.dev": CA.cert_pem,
    }
    assert [len(operations) for _, _, operations in api.writes] == [3, 5], "the first was refused whole"


def foreign_webhook() -> dict[str, object]:
    return {"name": "foreign.example.com", "clientConfig": {"url": "https://127.0.0.1/"}}


CALLS: dict[str, Callable[[FakeApi], Awaitable[object]]] = {"ensure": ensure, "publish": publish}


@pytest.mark.parametrize(("call", "path"), [("ensure", SECRET), ("publish", CONFIGURATION)])
async def test_writers_that_never_stop_are_an_error_in_the_end(call: str, path: str) -> None:
    api = api_with_secret(None)
    api.put(CONFIGURATION, fake_api.configuration(None))
    api.before_writing.extend([lambda: api.put(path, api.objects[path])] * 100)

    with pytest.raises(secret.ApiError, match=r"gave up after 5 attempts: .* answered 4(09|22): "):
        await CALLS[call](api)
    assert len(api.writes) == 5


@pytest.mark.parametrize(
    ("call", "want"),
    [
        ("ensure", "secrets/trimtab-tls does not exist: the manifests create it, empty"),
        ("publish", "mutatingwebhookconfigurations/trimtab does not exist: the manifests create it"),
    ],
)
async def test_absent_object_is_an_error_that_names_the_manifests(call: str, want: str) -> None:
    with pytest.raises(secret.ApiError, match=want):
        await CALLS[call](FakeApi())


FORBIDDEN = json.dumps({"kind": "Status", "message": "secrets is forbidden", "code": 403}).encode()


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("answer", "want"),
    [
        pytest.param((403, FORBIDDEN), "answered 403: secrets is forbidden", id="forbidden"),
        pytest.param((500, b"oops \xff"), "answered 500: oops", id="not a Status"),
        pytest.param((503, b"[]"), r"answered 503: \[\]", id="JSON but not a Status"),
        pytest.param((200, b"<html>"), "answered no JSON", id="a proxy's page"),
    ],
)
async def test_refusal_is_told_in_the_words_of_the_server(
    call: str, answer: tuple[int, bytes], want: str
) -> None:
    api = FakeApi()
    api.answer = answer

    with pytest.raises(secret.ApiError, match=want):
        await CALLS[call](api)


@pytest.mark.parametrize("call", CALLS)
async def test_refused_write_is_not_tried_again(call: str) -> None:
    api = api_with_secret(None)
    api.put(CONFIGURATION, fake_api.configuration(None))

    tries: list[int] = []

    def forbid() -> None:
        tries.append(403)
        api.answer = (403, FORBIDDEN)

    api.before_writing.extend([forbid] * 100)
    with pytest.raises(secret.ApiError, match=r"(PUT|PATCH) .* answered 403: secrets is forbidden"):
        await CALLS[call](api)
    assert tries == [403]
