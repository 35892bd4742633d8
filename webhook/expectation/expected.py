"""What a Pod is expected to use: as said on it, as its workload was seen to, or as declared. No I/O here."""

from dataclasses import dataclass

from webhook import kube
from webhook.expectation.estimate import Estimator
from webhook.expectation.learning import Learning, Usage
from webhook.ledger import Load
from webhook.quantity import QuantityError

EXPECTED = {kube.CPU: "trimtab.dev/expected-cpu", kube.MEMORY: "trimtab.dev/expected-memory"}

# Sources of an expected use.
ANNOTATION, LEARNED, REQUESTS, DEFAULT = "annotation", "learned", "requests", "default"


@dataclass(frozen=True, slots=True)
class Expected:
    """A Pod's expected use, where CPU and memory come from, and annotations that were no quantities."""

    load: Load
    sources: tuple[str, str]
    ignored: tuple[str, ...] = ()


class Expectation:
    """Answers from what was learned; `estimator` is the policy's, for what was not."""

    def __init__(self, learning: Learning) -> None:
        self.estimator = Estimator()
        self._learning = learning

    def expected(self, pod: kube.Pod, namespace: str | None, most: tuple[float, float]) -> Expected:
        """Return what `pod` is expected to use: no more than `most`, the milli-CPU and bytes of any node.

        Raise QuantityError where the Pod's requests or limits are no quantities.
        """
        declared = self.estimator.estimate(pod.spec)
        learned = self._learning.learned(pod, namespace) if self.estimator.learn else None
        said, ignored = _said(pod)
        cpu, cpu_source = _first(
            said.get(kube.CPU), learned.cpu if learned else None, declared[0], self.estimator.cpu.default
        )
        memory, memory_source = _first(
            said.get(kube.MEMORY),
            learned.memory if learned else None,
            declared[1],
            self.estimator.memory.default,
        )
        load = Load(min(cpu, most[0]), min(memory, most[1]))
        return Expected(load, (cpu_source, memory_source), ignored)


def _first(
    said: float | None, learned: Usage | None, declared: float | None, default: float
) -> tuple[float, str]:
    if said is not None:
        return said, ANNOTATION
    if learned is not None and learned.is_known:
        return learned.mean, LEARNED
    return (default, DEFAULT) if declared is None else (declared, REQUESTS)


def _said(pod: kube.Pod) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return what the Pod's annotations say, and those that say nothing."""
    said: dict[str, float] = {}
    ignored: list[str] = []
    for resource, key in EXPECTED.items():
        text = (pod.metadata.annotations or {}).get(key)
        if text is None:
            continue
        try:
            value = kube.amount(resource, text)
        except QuantityError:
            value = -1
        if value < 0:
            ignored.append(key)
        else:
            said[resource] = float(value)
    return said, tuple(ignored)
