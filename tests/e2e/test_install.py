"""What `kubectl apply -k manifests/` installs on a control plane that never saw it, and what that may do."""

import asyncio
import base64
import functools
import json
import socket
import ssl
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from certs import pki, secret
from webhook import api

from ..builders import make_pod
from ..cluster import parts, waiting
from ..cluster.client import ApiError
from ..cluster.control_plane import ControlPlane
from ..cluster.trimtab import NAME, NAMESPACE, PROBE_NAMESPACE, WEBHOOK, Trimtab
from .conftest import Json, calls, counted, create, decision

MANIFESTS = Path(__file__).parents[2] / "manifests"
WITHIN_S = 60
WRITERS = 8

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/trimtab-tls"
POLICY = f"/api/v1/namespaces/{NAMESPACE}/configmaps/scoring-policy"
CONFIGURATION = f"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/{NAME}"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{NAME}"
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{NAME}"
SERVER_NAME = f"{NAME}.{NAMESPACE}.svc"
EDITED = "apiVersion: trimtab.dev/v1alpha1\nkind: ScoringPolicy\nprofile: {strength: 0.5}\n"

CREDENTIALS = ("ca.crt", "ca.key", "tls.crt", "tls.key")
EVERY_VERB = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
WEBHOOKS = "mutatingwebhookconfigurations.admissionregistration.k8s.io"

# Each as `verb resource[.group][/subresource][:name] [namespace]`; without a namespace in the whole cluster.
NEEDED = (
    *(f"{verb} {kind}" for verb in ("list", "watch") for kind in ("nodes", "pods", "namespaces")),
    *(f"{verb} priorityclasses.scheduling.k8s.io" for verb in ("list", "watch")),
    "list nodes.metrics.k8s.io",
    *(f"{verb} {WEBHOOKS}:{NAME}" for verb in ("get", "patch")),
    *(f"{verb} secrets:trimtab-tls {NAMESPACE}" for verb in ("get", "update")),
    *(f"{verb} configmaps:scoring-policy {NAMESPACE}" for verb in ("list", "watch")),
)
FORBIDDEN = (
    *(f"{verb} *.*" for verb in EVERY_VERB),
    "* *.*",
    *(f"{verb} secrets" for verb in EVERY_VERB),
    *(f"{verb} secrets default" for verb in EVERY_VERB),
    *(f"{verb} secrets:trimtab-tls default" for verb in EVERY_VERB),
    *(f"{verb} secrets {NAMESPACE}" for verb in EVERY_VERB),
    *(f"{verb} secrets:another {NAMESPACE}" for verb in EVERY_VERB),
    *(f"{verb} secrets:trimtab-tls {NAMESPACE}" for verb in ("list", "watch", "patch", "delete")),
    *(f"{verb} configmaps" for verb in EVERY_VERB),
    *(f"{verb} configmaps:scoring-policy default" for verb in EVERY_VERB),
    *(f"{verb} configmaps:another {NAMESPACE}" for verb in EVERY_VERB),
    *(f"{verb} configmaps:scoring-policy {NAMESPACE}" for verb in ("create", "update", "patch", "delete")),
    *(f"{verb} pods" for verb in ("create", "update", "patch", "delete", "deletecollection")),
    *(f"{verb} pods/{sub}" for verb in ("create", "get") for sub in ("exec", "attach", "portforward", "log")),
    *(f"create pods/{sub}" for sub in ("binding", "eviction", "ephemeralcontainers")),
    *(f"{verb} nodes" for verb in ("create", "update", "patch", "delete")),
    *(f"{verb} nodes/{sub}" for verb in ("get", "patch") for sub in ("status", "proxy")),
    *(f"{verb} namespaces" for verb in ("create", "update", "patch", "delete")),
    *(f"{verb} {WEBHOOKS}" for verb in EVERY_VERB),
    *(f"{verb} {WEBHOOKS}:another" for verb in EVERY_VERB),
    *(f"{verb} {WEBHOOKS}:{NAME}" for verb in ("create", "update", "delete")),
    *(f"{verb} validatingwebhookconfigurations.admissionregistration.k8s.io" for verb in EVERY_VERB),
    *(f"{verb} priorityclasses.scheduling.k8s.io" for verb in ("create", "update", "patch", "delete")),
    *(f"{verb} deployments.apps" for verb in EVERY_VERB),
    *(f"{verb} clusterroles.rbac.authorization.k8s.io" for verb in (*EVERY_VERB, "bind", "escalate")),
    *(f"{verb} clusterrolebindings.rbac.authorization.k8s.io" for verb in EVERY_VERB),
    *(f"{verb} roles.rbac.authorization.k8s.io {NAMESPACE}" for verb in (*EVERY_VERB, "bind", "escalate")),
    *(f"impersonate {kind}" for kind in ("users", "groups", "serviceaccounts")),
    f"create serviceaccounts/token:{NAME} {NAMESPACE}",
    "create tokenreviews.authentication.k8s.io",
    "create certificatesigningrequests.certificates.k8s.io",
)
# The rules that hold in the own namespace: verbs, group, resources, names.
RULES = {
    ("list watch", "", "nodes pods namespaces persistentvolumes persistentvolumeclaims", ""),
    ("list watch", "scheduling.k8s.io", "priorityclasses", ""),
    ("list watch", "apps", "replicasets statefulsets", ""),
    ("list watch", "batch", "jobs", ""),
    ("list", "metrics.k8s.io", "nodes pods", ""),
    ("get patch", "admissionregistration.k8s.io", "mutatingwebhookconfigurations", NAME),
    ("get update", "", "secrets", "trimtab-tls"),
    ("list watch", "", "configmaps", "scoring-policy"),
}


@pytest.fixture(scope="module", name="bare")
def _bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of its own: without a node, without metrics, never installed to before."""
    with ControlPlane(tmp_path_factory.mktemp("bare")) as started:
        yield started


@pytest.fixture(scope="module", name="installed")
def _installed(bare: ControlPlane) -> ControlPlane:
    bare.kubectl("apply", "-k", str(MANIFESTS))
    return bare


@pytest.fixture(name="emptied")
def _emptied(installed: ControlPlane) -> ControlPlane:
    """As freshly installed: no credentials, no caBundle."""
    installed.request("PATCH", SECRET, {"data": None})
    installed.request(
        "PATCH",
        CONFIGURATION,
        {"webhooks": [{"name": WEBHOOK, "clientConfig": {"caBundle": None}}]},
        content_type="application/strategic-merge-patch+json",
    )
    return installed


def test_what_is_freshly_installed_holds_no_credentials_and_no_policy(installed: ControlPlane) -> None:
    assert "data" not in installed.request("GET", SECRET)
    assert "data" not in installed.request("GET", POLICY)
    assert "caBundle" not in ca_bundle_holder(installed)


def test_applying_again_keeps_credentials_ca_bundle_and_the_users_policy(emptied: ControlPlane) -> None:
    with Trimtab(emptied):
        emptied.request("PATCH", POLICY, {"data": {"policy.yaml": EDITED}})
        written, bundle = emptied.request("GET", SECRET)["data"], ca_bundle_holder(emptied)["caBundle"]
        assert sorted(written) == list(CREDENTIALS)
        assert bundle == written["ca.crt"]

        for _ in range(2):
            said = emptied.kubectl("apply", "-k", str(MANIFESTS))
            assert "secret/trimtab-tls unchanged" in said
            assert "configmap/scoring-policy unchanged" in said
        assert emptied.request("GET", SECRET)["data"] == written
        assert emptied.request("GET", POLICY)["data"] == {"policy.yaml": EDITED}
        assert ca_bundle_holder(emptied)["caBundle"] == bundle


def test_applying_twice_changes_nothing_the_second_time(installed: ControlPlane) -> None:
    installed.kubectl("apply", "-k", str(MANIFESTS))
    before = as_installed(installed)

    installed.kubectl("apply", "-k", str(MANIFESTS))

    assert len(before) == 12
    assert as_installed(installed) == before


def test_two_replicas_that_start_at_once_serve_under_one_authority(emptied: ControlPlane) -> None:
    """No balancer stands between: the Service leads to the one replica, then to the other."""
    one, other = Trimtab(emptied), Trimtab(emptied)
    try:
        one.install()
        other.install()
        for trimtab in (one, other):
            trimtab.replicas[0].process.start()
        for trimtab in (one, other):
            trimtab.wait_ready()
        written, bundle = emptied.request("GET", SECRET)["data"], ca_bundle_holder(emptied)["caBundle"]
        assert bundle == written["ca.crt"]
        authority = base64.b64decode(bundle).decode()
        shown = [shown_certificate(trimtab.port, authority) for trimtab in (one, other)]
        assert shown[0] == shown[1] == base64.b64decode(written["tls.crt"]).decode()
        for trimtab in (one, other):
            lead_to(emptied, trimtab.port)
            waiting.until(
                functools.partial(is_called, emptied, trimtab), "this replica called", timeout_s=WITHIN_S
            )
    finally:
        one.stop()
        other.stop()


async def test_of_many_that_find_the_secret_empty_at_the_same_moment_one_fills_it(
    emptied: ControlPlane,
) -> None:
    kubeconfig = emptied.service_account_kubeconfig(NAMESPACE, NAME)
    connections = [await api.connect(kubeconfig) for _ in range(WRITERS)]
    conflicts = counted(emptied, "apiserver_request_total", 'code="409"', 'resource="secrets"')
    try:
        found = await asyncio.gather(*(ensured(connection) for connection in connections))
    finally:
        for connection in connections:
            await connection.close()

    written = emptied.request("GET", SECRET)["data"]
    assert {material.ca_pem for material in found} == {base64.b64decode(written["ca.crt"])}
    assert {material.leaf.cert_pem for material in found} == {base64.b64decode(written["tls.crt"])}
    assert ca_bundle_holder(emptied)["caBundle"] == written["ca.crt"]
    assert counted(emptied, "apiserver_request_total", 'code="409"', 'resource="secrets"') > conflicts


def test_the_server_may_do_what_it_needs_and_nothing_else(installed: ControlPlane) -> None:
    allowed = are_allowed(installed, (*NEEDED, *FORBIDDEN))

    assert [right for right in NEEDED if not allowed[right]] == []
    assert [right for right in FORBIDDEN if allowed[right]] == []


def test_its_rights_are_the_listed_ones_and_those_of_every_account(installed: ControlPlane) -> None:
    everyones = listed_rules(installed, f"system:serviceaccount:{NAMESPACE}:default")

    own = listed_rules(installed, ACCOUNT) - everyones

    assert own == RULES


def test_the_deployments_pods_pass_the_level_that_the_namespace_enforces(installed: ControlPlane) -> None:
    installed.kubectl("apply", "-k", str(MANIFESTS))
    template = installed.request("GET", DEPLOYMENT)["spec"]["template"]

    stored = dry_run(installed, template)
    assert stored["spec"]["serviceAccountName"] == NAME

    container = template["spec"]["containers"][0]
    container["securityContext"]["allowPrivilegeEscalation"] = True
    with pytest.raises(ApiError, match=r'^403: .*violates PodSecurity "restricted'):
        dry_run(installed, template)


def test_the_deployments_controller_creates_both_replicas(installed: ControlPlane) -> None:
    """For real, under its own rights; there is no node here that could take them."""
    installed.kubectl("apply", "-k", str(MANIFESTS))
    own = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component=webhook"

    waiting.until(
        lambda: len(installed.request("GET", own)["items"]) == 2,
        "two Pods of the Deployment",
        timeout_s=WITHIN_S,
        state=lambda: installed.request("GET", DEPLOYMENT)["status"],
    )


async def ensured(connection: api.Api) -> pki.Material:
    """Do what every replica does at its start, with the rights that it has."""
    names, now = pki.service_names(NAME, NAMESPACE), datetime.now(UTC)
    name = "trimtab-tls"
    material = await secret.ensure(connection, namespace=NAMESPACE, name=name, dns_names=names, now=now)
    await secret.publish(connection, configuration=NAME, ca_pem=material.ca_pem)
    return material


def as_installed(plane: ControlPlane) -> list[Json]:
    """Return every installed object, less what the controllers write."""
    found: list[Json] = json.loads(plane.kubectl("get", "-k", str(MANIFESTS), "-o", "json"))["items"]
    for item in found:
        item.pop("status", None)
        item["metadata"].pop("resourceVersion")
    return found


def ca_bundle_holder(plane: ControlPlane) -> Json:
    [webhook] = plane.request("GET", CONFIGURATION)["webhooks"]
    held: Json = webhook["clientConfig"]
    return held


def lead_to(plane: ControlPlane, port: int) -> None:
    """Make the API server call this port."""
    patch = {"webhooks": [{"name": WEBHOOK, "clientConfig": {"service": {"port": port}}}]}
    plane.request("PATCH", CONFIGURATION, patch, content_type="application/strategic-merge-patch+json")


def shown_certificate(port: int, authority: str) -> str:
    """Return the certificate shown to a client that trusts only that authority and asks for the Service."""
    context = ssl.create_default_context(cadata=authority)
    with (
        socket.create_connection((parts.LOOPBACK, port), timeout=WITHIN_S) as plain,
        context.wrap_socket(plain, server_hostname=SERVER_NAME) as secured,
    ):
        return ssl.DER_cert_to_PEM_cert(secured.getpeercert(binary_form=True) or b"")


def is_called(plane: ControlPlane, trimtab: Trimtab) -> bool:
    """Create a Pod, and tell whether this replica was asked about it and its answer taken."""
    before = calls(trimtab)
    try:
        stored = create(plane, make_pod(namespace=PROBE_NAMESPACE), dry_run=True)
    except ApiError:
        return False  # the namespace has no default ServiceAccount yet
    return decision(stored) is not None and calls(trimtab) == before + 1


def are_allowed(plane: ControlPlane, rights: Iterable[str]) -> dict[str, bool]:
    """Ask the API server's own authorizer about each right of the server's account."""
    reviews = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    asked = dict.fromkeys(rights)
    answers = plane.client.request_all(("POST", reviews, review(right)) for right in asked)
    return {right: answer["status"]["allowed"] for right, answer in zip(asked, answers, strict=True)}


def review(right: str) -> Json:
    verb, thing, *namespace = right.split()
    thing, _, name = thing.partition(":")
    thing, _, subresource = thing.partition("/")
    resource, _, group = thing.partition(".")
    attributes = {
        "verb": verb,
        "resource": resource,
        "group": group,
        "subresource": subresource,
        "name": name,
        "namespace": " ".join(namespace),
    }
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"]
    return {"spec": {"user": ACCOUNT, "groups": groups, "resourceAttributes": attributes}}


def listed_rules(plane: ControlPlane, account: str) -> set[tuple[str, ...]]:
    """Return the rules on resources that the API server lists for an account in the own namespace."""
    asked = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": NAMESPACE},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    arguments = ("create", "--raw", path, "-f", "-", f"--as={account}")
    answer = json.loads(plane.kubectl(*arguments, input=json.dumps(asked)))
    assert answer["status"]["incomplete"] is False
    fields = ("verbs", "apiGroups", "resources", "resourceNames")
    return {
        tuple(" ".join(rule.get(field, [])) for field in fields) for rule in answer["status"]["resourceRules"]
    }


def dry_run(plane: ControlPlane, template: Json) -> Json:
    metadata = {**template["metadata"], "generateName": "trimtab-", "namespace": NAMESPACE}
    return create(plane, {**template, "metadata": metadata}, dry_run=True)
