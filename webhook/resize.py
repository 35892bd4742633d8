"""What a bound Pod requests while it is resized in place. No I/O here.

Of each container, and of the Pod as a whole, the scheduler counts the most of what is asked for, what the
kubelet has set aside and what it has put into effect; not what is asked for where the kubelet never can
(component-helpers/resource: AggregateContainerRequests, determineEffectiveRequests).
"""

from collections.abc import Iterable

from msgspec.structs import replace

from webhook import kube


def in_effect(pod: kube.Pod) -> kube.PodSpec:
    """Return the spec with the requests that count; the very same one where none differ.

    Raise QuantityError on a bad quantity where some do.
    """
    spec, status = pod.spec, pod.status
    if status is None:
        return spec
    pending = (one.reason for one in status.conditions or () if one.type == "PodResizePending")
    infeasible = next(pending, None) == "Infeasible"
    sidecars = {one.name for one in spec.init_containers or () if one.restart_policy == "Always"}
    of_sidecars = [one for one in status.init_container_statuses or () if one.name in sidecars]
    containers = _containers(spec.containers, status.container_statuses or (), infeasible=infeasible)
    init_containers = _containers(spec.init_containers, of_sidecars, infeasible=infeasible)
    whole = spec.resources
    if whole is not None and whole.requests and status.resources is not None:
        counted = _most(whole.requests, status.resources, status.allocated_resources, infeasible=infeasible)
        if counted is not whole.requests:
            whole = replace(whole, requests={name: counted.get(name, 0) for name in whole.requests})
    if (containers, init_containers, whole) == (spec.containers, spec.init_containers, spec.resources):
        return spec
    return replace(spec, containers=containers, init_containers=init_containers, resources=whole)


def _containers(
    containers: list[kube.Container] | None, statuses: Iterable[kube.ContainerStatus], *, infeasible: bool
) -> list[kube.Container] | None:
    reported = {status.name: status for status in statuses}
    if not containers or not reported:
        return containers
    return [_container(one, reported.get(one.name), infeasible=infeasible) for one in containers]


def _container(
    container: kube.Container, status: kube.ContainerStatus | None, *, infeasible: bool
) -> kube.Container:
    if status is None or status.resources is None:
        return container
    resources = container.resources or kube.Resources()
    asked = resources.requests or {}
    counted = _most(asked, status.resources, status.allocated_resources, infeasible=infeasible)
    return (
        container if counted is asked else replace(container, resources=replace(resources, requests=counted))
    )


def _most(
    asked: kube.Quantities, actual: kube.Resources, allocated: kube.Quantities | None, *, infeasible: bool
) -> kube.Quantities:
    known = [actual.requests or {}, allocated or {}, *([] if infeasible else [asked])]
    # So it is for every Pod that is not being resized.
    if all(one == asked for one in known):
        return asked
    most: kube.Quantities = {}
    for name, value in (item for one in known for item in one.items()):
        if name not in most or kube.amount(name, value) > kube.amount(name, most[name]):
            most[name] = value
    return most
