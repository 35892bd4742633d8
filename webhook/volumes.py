"""PersistentVolumes and the claims bound to them: where a Pod can reach what it mounts. No I/O here."""

from collections.abc import Iterable
from dataclasses import dataclass

from webhook import kube

# The volume controller's mark of a finished binding (component-helpers/storage/volume: AnnBindCompleted).
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"

_BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
_BETA_REGION = "failure-domain.beta.kubernetes.io/region"

# volumezone/volume_zone.go: topologyLabels, and translateToGALabel.
TOPOLOGY_LABELS = (_BETA_ZONE, _BETA_REGION, kube.ZONE, kube.REGION)
GA_LABELS = {_BETA_ZONE: kube.ZONE, _BETA_REGION: kube.REGION}


@dataclass(frozen=True, slots=True)
class Volume:
    """Where a PersistentVolume can be reached.

    `required` are the terms of its node affinity, None where nothing is said or not for us to read;
    `zones` the values that a node's label has to be one of, by the label's key.
    """

    required: tuple[kube.Term, ...] | None
    zones: tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class Claim:
    """A PersistentVolumeClaim: the volume that it names, and whether it is fully bound to that."""

    volume: str
    bound: bool


class Volumes:
    """Claims by namespace and name, volumes by name."""

    def __init__(self) -> None:
        self._claims: dict[tuple[str, str], Claim] = {}
        self._volumes: dict[str, Volume] = {}

    def claim(self, namespace: str, name: str) -> tuple[Claim, Volume] | None:
        """Return a claim and its volume, or None where either is unknown, or the claim has no volume yet."""
        claim = self._claims.get((namespace, name))
        if claim is None or not claim.volume:
            return None
        volume = self._volumes.get(claim.volume)
        return None if volume is None else (claim, volume)

    def set_claim(self, claim: kube.PersistentVolumeClaim) -> None:
        volume = (claim.spec.volume_name if claim.spec else None) or ""
        bound = bool(volume) and BIND_COMPLETED in (claim.metadata.annotations or {})
        self._claims[_key(claim)] = Claim(volume, bound)

    def remove_claim(self, claim: kube.PersistentVolumeClaim) -> None:
        self._claims.pop(_key(claim), None)

    def replace_claims(self, claims: Iterable[kube.PersistentVolumeClaim]) -> None:
        self._claims.clear()
        for claim in claims:
            self.set_claim(claim)

    def set_volume(self, volume: kube.PersistentVolume) -> None:
        self._volumes[kube.name(volume)] = read(volume)

    def remove_volume(self, volume: kube.PersistentVolume) -> None:
        self._volumes.pop(kube.name(volume), None)

    def replace_volumes(self, volumes: Iterable[kube.PersistentVolume]) -> None:
        self._volumes.clear()
        for volume in volumes:
            self.set_volume(volume)


def read(volume: kube.PersistentVolume) -> Volume:
    labels = volume.metadata.labels or {}
    zones = ((key, _zones(labels[key])) for key in TOPOLOGY_LABELS if key in labels)
    return Volume(
        _required(volume.spec or kube.VolumeSpec()), tuple((key, found) for key, found in zones if found)
    )


def _required(spec: kube.VolumeSpec) -> tuple[kube.Term, ...] | None:
    """Return the terms of the node affinity.

    None for an in-tree volume, whose terms the scheduler translates to those of its CSI driver where the
    node has it (volumebinding/binder.go: tryTranslatePVToCSI); and where a field is asked for, since the
    scheduler compares labels alone (component-helpers/storage/volume: CheckNodeAffinity).
    """
    affinity = spec.node_affinity
    if affinity is None or affinity.required is None or _is_in_tree(spec):
        return None
    terms = tuple(affinity.required.node_selector_terms or ())
    return None if any(term.match_fields for term in terms) else terms


def _is_in_tree(spec: kube.VolumeSpec) -> bool:
    sources = (
        spec.aws_elastic_block_store,
        spec.azure_disk,
        spec.azure_file,
        spec.cinder,
        spec.gce_persistent_disk,
        spec.portworx_volume,
        spec.vsphere_volume,
    )
    return any(source is not None for source in sources)


def _zones(label: str) -> frozenset[str]:
    """Read a label's zones, parted by two underscores; none where one is empty (LabelZonesToSet)."""
    zones = frozenset(zone.strip() for zone in label.split("__"))
    return frozenset() if "" in zones else zones


def _key(claim: kube.PersistentVolumeClaim) -> tuple[str, str]:
    return claim.metadata.namespace or "", kube.name(claim)
