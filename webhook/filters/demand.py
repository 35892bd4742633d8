"""What a Pod asks of a node, read once for all predicates. No I/O here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from webhook import kube, selectors, wishes
from webhook.pods import AffinityTerm, HostPort, host_ports, read_terms, required_terms, size
from webhook.quantity import QuantityError
from webhook.selectors import Selector, SelectorError
from webhook.wishes import Wishes

# Each requirement of a Pod affinity term or a spread constraint is held against every shape of Pods, while
# all other reviews wait. Nobody needs as many as this.
MAX_POD_REQUIREMENTS = 32

HARD = "DoNotSchedule"


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint; its selector is None where it matches nothing."""

    topology_key: str
    max_skew: int
    selector: Selector | None
    min_domains: int = 1
    honors_affinity: bool = True
    honors_taints: bool = False


@dataclass(frozen=True, slots=True)
class Demand:
    """What a Pod asks of a node, and what others may hold against it: its namespace and labels.

    `asked` counts its requirements towards other Pods; none of them are read where that is more than
    `MAX_POD_REQUIREMENTS`.
    """

    requests: kube.Requests
    node_selector: Mapping[str, str] = field(default_factory=dict)
    required: tuple[kube.Term, ...] | None = None
    tolerations: tuple[kube.Toleration, ...] = ()
    namespace: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    ports: frozenset[HostPort] = frozenset()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    claims: tuple[str, ...] = ()
    asked: int = 0
    limits: kube.Limits = kube.NO_LIMITS
    wishes: Wishes = wishes.NONE


def demand(pod: kube.Pod, namespace: str | None = None) -> Demand:
    """Read what `pod` asks of a node; raise QuantityError on a bad quantity.

    `namespace` is the review's, which counts before the Pod's own.
    """
    spec = pod.spec
    required = kube.required_terms(spec)
    home, labels = namespace or pod.metadata.namespace or "", pod.metadata.labels or {}
    near = required_terms(spec.affinity.pod_affinity if spec.affinity else None)
    far = required_terms(spec.affinity.pod_anti_affinity if spec.affinity else None)
    hard = [each for each in spec.topology_spread_constraints or () if each.when_unsatisfiable == HARD]
    asked = sum(map(size, near)) + sum(map(size, far)) + sum(map(size, hard))
    readable = asked <= MAX_POD_REQUIREMENTS
    return Demand(
        requests=kube.read_requests(spec),
        node_selector=spec.node_selector or {},
        required=None if required is None else tuple(required),
        tolerations=tuple(spec.tolerations or ()),
        namespace=home,
        labels=labels,
        ports=host_ports(spec),
        affinity=read_terms(near, home, labels) if readable else (),
        anti_affinity=read_terms(far, home, labels) if readable else (),
        spread=read_spread(spec, labels, HARD) if readable else (),
        claims=_claims(spec),
        asked=asked,
        limits=_limits(spec),
        wishes=wishes.read(pod.metadata.annotations),
    )


def _limits(spec: kube.PodSpec) -> kube.Limits:
    """Return the limits; none where one cannot be read, as with a bound Pod's shape."""
    try:
        return kube.read_limits(spec)
    except QuantityError:
        return kube.NO_LIMITS


def read_spread(spec: kube.PodSpec, labels: Mapping[str, str], action: str) -> tuple[SpreadConstraint, ...]:
    """Return the constraints with that `whenUnsatisfiable`, without those that the API server refuses."""
    if not spec.topology_spread_constraints:
        return ()
    found = []
    for constraint in spec.topology_spread_constraints:
        if constraint.when_unsatisfiable != action or (constraint.max_skew or 0) < 1:
            continue
        try:
            selector = selectors.read(constraint.label_selector, labels, constraint.match_label_keys or ())
        except SelectorError:
            continue
        found.append(
            SpreadConstraint(
                constraint.topology_key or "",
                constraint.max_skew or 0,
                selector,
                1 if constraint.min_domains is None else constraint.min_domains,
                constraint.node_affinity_policy in (None, "Honor"),
                constraint.node_taints_policy == "Honor",
            )
        )
    return tuple(dict.fromkeys(found))


def _claims(spec: kube.PodSpec) -> tuple[str, ...]:
    if not spec.volumes:
        return ()
    sources = (volume.persistent_volume_claim for volume in spec.volumes)
    return tuple(dict.fromkeys(source.claim_name for source in sources if source and source.claim_name))
