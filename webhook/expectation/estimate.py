"""What a Pod whose workload is not known yet will use, from what it declares. No I/O here."""

from dataclasses import dataclass

from webhook import kube

# As Koordinator and Volcano take a Pod that declares nothing.
DEFAULT_CPU_MILLI = 250
DEFAULT_MEMORY_BYTES = 200 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Shares:
    """How much of a declared request is used, and of the room between it and the limit.

    `default` is for a Pod that declares neither, in milli-CPU or bytes.
    """

    default: float
    request: float = 1.0
    burst: float = 0.0

    def of(self, request: int, limit: int | None) -> float | None:
        """Return the expected use, or None where nothing is declared.

        `request x requestShare + (limit - request) x burstShare`, and no more than the limit, or the
        request where there is none. With one share for both this is Koordinator's
        `max(request, limit) x factor` (loadaware/estimator/default_estimator.go); Volcano's risk factor
        (usage/estimator.go) multiplies both shares.
        """
        most = max(request, limit or 0)
        if not most:
            return None
        return min(request * self.request + (most - request) * self.burst, float(most))


@dataclass(frozen=True, slots=True)
class Estimator:
    """The shares of each resource, and whether what was learned of a workload goes before them.

    By default a Pod is taken to use what it requests: it is what its author said, and a share of the limit
    says more about how generous the limit is. (Koordinator takes 85 % of the larger of request and limit
    for CPU, and 70 % for memory.)
    """

    cpu: Shares = Shares(DEFAULT_CPU_MILLI)
    memory: Shares = Shares(DEFAULT_MEMORY_BYTES)
    learn: bool = True

    def estimate(self, spec: kube.PodSpec) -> tuple[float | None, float | None]:
        """Return milli-CPU and bytes, None for what is not declared; raise QuantityError."""
        return (
            self.cpu.of(*kube.read_declared(spec, kube.CPU)),
            self.memory.of(*kube.read_declared(spec, kube.MEMORY)),
        )
