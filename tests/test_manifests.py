"""The manifests agree with the server, with each other and with the rules that keep a cluster safe.

What only an API server can tell (that it takes every object, and which Pods the conditions send) is
left to the tests on the real control plane.
"""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from certs import pki

MANIFESTS = Path(__file__).parents[1] / "manifests"
NAMESPACE = "trimtab-system"


def load_all() -> list[dict[str, Any]]:
    """Read what the kustomization lists, in its order."""
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())
    return [
        item
        for name in kustomization["resources"]
        for item in yaml.safe_load_all((MANIFESTS / name).read_text())
    ]


OBJECTS = {(item["kind"], item["metadata"]["name"]): item for item in load_all()}
CONFIGURATION = OBJECTS["MutatingWebhookConfiguration", "trimtab"]
[WEBHOOK] = CONFIGURATION["webhooks"]
DEPLOYMENT = OBJECTS["Deployment", "trimtab"]["spec"]
POD = DEPLOYMENT["template"]["spec"]
[CONTAINER] = POD["containers"]
SERVICE = OBJECTS["Service", "trimtab"]


def test_every_file_is_installed() -> None:
    kustomization = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())

    on_disk = {path.name for path in MANIFESTS.iterdir()} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == on_disk


def test_what_is_installed() -> None:
    assert list(OBJECTS) == [
        ("Namespace", NAMESPACE),
        ("ServiceAccount", "trimtab"),
        ("ClusterRole", "trimtab"),
        ("ClusterRoleBinding", "trimtab"),
        ("Role", "trimtab"),
        ("RoleBinding", "trimtab"),
        ("Secret", "trimtab-tls"),
        ("ConfigMap", "scoring-policy"),
        ("Service", "trimtab"),
        ("Deployment", "trimtab"),
        ("PodDisruptionBudget", "trimtab"),
        ("MutatingWebhookConfiguration", "trimtab"),
    ]


CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding", "MutatingWebhookConfiguration"}


@pytest.mark.parametrize("key", OBJECTS, ids=" ".join)
def test_namespaced_objects_are_in_our_namespace(key: tuple[str, str]) -> None:
    want = None if key[0] in CLUSTER_WIDE else NAMESPACE

    assert OBJECTS[key]["metadata"].get("namespace") == want


# What others write must not be ours to take away: `kubectl apply` removes what an earlier one brought.


def test_nobody_renders_the_ca_bundle() -> None:
    assert "caBundle" not in WEBHOOK["clientConfig"]


@pytest.mark.parametrize("key", [("Secret", "trimtab-tls"), ("ConfigMap", "scoring-policy")], ids=" ".join)
def test_objects_that_others_fill_bring_no_data(key: tuple[str, str]) -> None:
    assert set(OBJECTS[key]) & {"data", "stringData", "binaryData", "immutable"} == set()


def test_secret_has_the_type_whose_keys_are_free() -> None:
    assert OBJECTS["Secret", "trimtab-tls"]["type"] == "Opaque"


# The way of a review: configuration, Service, port, container.


def test_webhook_is_reached_through_our_service() -> None:
    assert WEBHOOK["clientConfig"] == {
        "service": {"namespace": NAMESPACE, "name": "trimtab", "path": "/mutate", "port": 443}
    }
    [port] = SERVICE["spec"]["ports"]
    assert (port["port"], port["targetPort"]) == (443, "webhook")
    assert SERVICE["spec"]["selector"].items() <= DEPLOYMENT["template"]["metadata"]["labels"].items()


def test_name_that_the_api_server_asks_for_is_one_that_certificates_are_made_for() -> None:
    service = WEBHOOK["clientConfig"]["service"]

    assert f"{service['name']}.{service['namespace']}.svc" in pki.service_names("trimtab", NAMESPACE)


def test_server_listens_where_the_ports_and_probes_point() -> None:
    args = CONTAINER["args"]
    ports = {port["name"]: str(port["containerPort"]) for port in CONTAINER["ports"]}

    assert args[0] == "serve"
    assert dict(zip(args[1::2], args[2::2], strict=True)) == {
        "--host": "0.0.0.0",
        "--port": ports["webhook"],
        "--admin-port": ports["admin"],
    }
    assert ports == {"webhook": "10250", "admin": "8081"}, "private clusters open 443 and 10250 only"


@pytest.mark.parametrize(
    ("probe", "path"), [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")], ids=["live", "ready"]
)
def test_probes_ask_the_admin_port(probe: str, path: str) -> None:
    assert CONTAINER[probe]["httpGet"] == {"path": path, "port": "admin", "scheme": "HTTP"}


# What the API server does with the webhook.


def test_webhook_asks_for_new_pods_only() -> None:
    assert WEBHOOK["rules"] == [
        {
            "apiGroups": [""],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods"],
            "scope": "Namespaced",
        }
    ]


@pytest.mark.parametrize(
    ("field", "want"),
    [
        ("name", "placement.trimtab.dev"),
        ("failurePolicy", "Ignore"),
        ("timeoutSeconds", 2),
        ("sideEffects", "NoneOnDryRun"),
        ("reinvocationPolicy", "Never"),
        ("matchPolicy", "Equivalent"),
        ("admissionReviewVersions", ["v1"]),
    ],
)
def test_webhook_cannot_hold_up_a_pod(field: str, want: object) -> None:
    assert WEBHOOK[field] == want


def test_webhook_sees_labelled_namespaces_and_never_the_control_planes() -> None:
    assert WEBHOOK["namespaceSelector"] == {
        "matchExpressions": [
            {"key": "trimtab.dev/steering", "operator": "In", "values": ["enabled", "shadow"]},
            {
                "key": "kubernetes.io/metadata.name",
                "operator": "NotIn",
                "values": [NAMESPACE, "kube-system", "kube-public", "kube-node-lease"],
            },
        ]
    }


def test_label_of_a_pod_opts_it_out() -> None:
    [expression] = WEBHOOK["objectSelector"]["matchExpressions"]

    assert expression == {"key": "trimtab.dev/skip", "operator": "NotIn", "values": ["true"]}


CONDITIONS = {condition["name"]: condition["expression"] for condition in WEBHOOK["matchConditions"]}

# Fields that a Pod may lack. What cannot be evaluated is not sent, and nobody would know.
OPTIONAL = re.compile(r"object\.(?:metadata|spec)\.\w+|\bo\.controller\b")
HAS = re.compile(r"has\(([\w.]+)\)")


def unguarded(expression: str) -> list[str]:
    """Find the optional fields used where no has() comes before in the same or an outer parenthesis."""
    text = HAS.sub(r"<\1>", expression)
    return [
        use.group()
        for use in OPTIONAL.finditer(text)
        if not text[: use.start()].endswith("<") and f"<{use.group()}>" not in still_open(text[: use.start()])
    ]


def still_open(text: str) -> str:
    """Leave out every parenthesis that is closed by the end of the text."""
    while (shorter := re.sub(r"\([^()]*\)", "", text)) != text:
        text = shorter
    return text


@pytest.mark.parametrize("name", CONDITIONS)
def test_condition_guards_every_optional_field(name: str) -> None:
    assert unguarded(CONDITIONS[name]) == []


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("!has(object.spec.nodeName) || object.spec.nodeName == ''", []),
        ("object.spec.nodeName == ''", ["object.spec.nodeName"]),
        ("object.spec.nodeName == '' || has(object.spec.nodeName)", ["object.spec.nodeName"]),
        ("has(object.spec.nodeName) && object.spec.schedulerName == ''", ["object.spec.schedulerName"]),
        ("(!has(object.spec.nodeName)) && (object.spec.nodeName == '')", ["object.spec.nodeName"]),
        ("has(object.spec.nodeName) && (true || object.spec.nodeName == '')", []),
        ("a.exists(o, o.controller)", ["o.controller"]),
    ],
)
def test_missing_guard_would_be_found(expression: str, want: list[str]) -> None:
    assert unguarded(expression) == want


@pytest.mark.parametrize(
    "reason",
    [
        "'kubernetes.io/config.mirror' in object.metadata.annotations",
        "object.spec.nodeName == ''",
        "object.spec.schedulerName == 'default-scheduler'",
        "size(object.spec.schedulingGates) == 0",
        "o.kind == 'DaemonSet'",
        "object.metadata.annotations['trimtab.dev/skip'] != 'true'",
        "k.startsWith('trimtab.dev/') && k != 'trimtab.dev/skip'",
    ],
)
def test_conditions_know_the_reason(reason: str) -> None:
    assert reason in "\n".join(CONDITIONS.values())


def test_conditions_are_within_the_limits_of_the_api() -> None:
    assert len(CONDITIONS) == len(WEBHOOK["matchConditions"]) <= 64


# What the server may do, and what its Pods may.


def rights(kind: str) -> set[tuple[str, str, str, str]]:
    """Spread the rules of a role out to (group, resource, name or *, verb)."""
    return {
        (group, resource, name, verb)
        for rule in OBJECTS[kind, "trimtab"]["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ["*"])
        for verb in rule["verbs"]
    }


def test_rights_in_the_cluster_are_to_watch_and_to_publish_the_ca() -> None:
    core = ("nodes", "pods", "namespaces", "persistentvolumes", "persistentvolumeclaims")
    watched = [
        *(("", kind) for kind in core),
        ("scheduling.k8s.io", "priorityclasses"),
        ("apps", "replicasets"),
        ("apps", "statefulsets"),
        ("batch", "jobs"),
    ]
    configurations = ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "trimtab")

    assert rights("ClusterRole") == {
        *((group, resource, "*", verb) for group, resource in watched for verb in ("list", "watch")),
        ("metrics.k8s.io", "nodes", "*", "list"),
        ("metrics.k8s.io", "pods", "*", "list"),
        (*configurations, "get"),
        (*configurations, "patch"),
    }


def test_rights_in_our_namespace_are_to_two_named_objects() -> None:
    assert rights("Role") == {
        ("", "secrets", "trimtab-tls", "get"),
        ("", "secrets", "trimtab-tls", "update"),
        ("", "configmaps", "scoring-policy", "list"),
        ("", "configmaps", "scoring-policy", "watch"),
    }


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_every_rule_says_why(kind: str) -> None:
    text = (MANIFESTS / "rbac.yaml").read_text()
    [document] = [part for part in text.split("---\n") if f"\nkind: {kind}\n" in part]

    for comment, verbs in re.findall(r"((?: +#.*\n)+) +- apiGroups:(?:.*\n)+? +verbs: \[(.*)\]", document):
        assert all(re.search(rf"\b{verb}\b[^:]*:", comment) for verb in verbs.split(", ")), comment
    assert document.count("- apiGroups") == len(re.findall(r"#.*\n +- apiGroups", document))


@pytest.mark.parametrize("kind", ["ClusterRole", "Role"])
def test_roles_are_given_to_our_account_only(kind: str) -> None:
    binding = OBJECTS[f"{kind}Binding", "trimtab"]

    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": kind,
        "name": "trimtab",
    }
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "trimtab", "namespace": NAMESPACE}]


def test_token_is_mounted_where_it_is_asked_for() -> None:
    assert OBJECTS["ServiceAccount", "trimtab"]["automountServiceAccountToken"] is False
    assert POD["automountServiceAccountToken"] is True
    assert POD["serviceAccountName"] == "trimtab"


@pytest.mark.parametrize("mode", ["enforce", "audit", "warn"])
def test_namespace_takes_restricted_pods_only(mode: str) -> None:
    labels = OBJECTS["Namespace", NAMESPACE]["metadata"]["labels"]

    assert labels[f"pod-security.kubernetes.io/{mode}"] == "restricted"


def test_namespace_is_not_steered() -> None:
    assert "trimtab.dev/steering" not in OBJECTS["Namespace", NAMESPACE]["metadata"]["labels"]


def test_pod_runs_as_nobody() -> None:
    context = POD["securityContext"]

    assert context["runAsNonRoot"] is True
    assert context["runAsUser"] == context["runAsGroup"] == 65532
    assert context["seccompProfile"] == {"type": "RuntimeDefault"}


def test_user_of_the_pod_is_the_user_of_the_image() -> None:
    dockerfile = (MANIFESTS.parent / "Dockerfile").read_text()

    assert re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE) == ["65532:65532"]


def test_container_can_change_nothing() -> None:
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_only_writable_place_is_in_memory() -> None:
    [volume] = POD["volumes"]

    assert CONTAINER["volumeMounts"] == [{"name": volume["name"], "mountPath": "/tmp"}]
    assert volume["emptyDir"]["medium"] == "Memory"


def test_cpu_is_asked_for_and_not_limited() -> None:
    assert set(CONTAINER["resources"]["requests"]) == {"cpu", "memory"}
    assert set(CONTAINER["resources"]["limits"]) == {"memory"}


# Replicas: one always answers.


def test_rollout_never_leaves_fewer_replicas() -> None:
    assert DEPLOYMENT["replicas"] == 2
    assert DEPLOYMENT["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}


def test_replica_goes_on_answering_until_its_endpoint_is_gone() -> None:
    assert CONTAINER["lifecycle"]["preStop"] == {"sleep": {"seconds": 10}}
    assert POD["terminationGracePeriodSeconds"] >= 10 + 15 + WEBHOOK["timeoutSeconds"]


def test_drain_takes_one_replica_at_a_time() -> None:
    budget = OBJECTS["PodDisruptionBudget", "trimtab"]["spec"]

    assert budget["maxUnavailable"] == 1
    assert budget["selector"] == DEPLOYMENT["selector"]


def test_replicas_are_spread_and_still_fit_one_node() -> None:
    constraints = POD["topologySpreadConstraints"]

    assert {constraint["topologyKey"] for constraint in constraints} == {
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
    }
    assert {constraint["whenUnsatisfiable"] for constraint in constraints} == {"ScheduleAnyway"}
    assert all(constraint["labelSelector"] == DEPLOYMENT["selector"] for constraint in constraints)


def test_selector_of_the_deployment_matches_its_pods() -> None:
    labels = DEPLOYMENT["template"]["metadata"]["labels"]

    assert DEPLOYMENT["selector"]["matchLabels"].items() <= labels.items()
