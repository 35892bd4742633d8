"""`make cluster`: the simulated cluster with Trimtab, left running when the command ends.

The state file holds every process that was started, with the moment it began; `down` stops these, no others.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import TypedDict

from . import build, process, topology
from .control_plane import ControlPlane
from .simulation import Simulation
from .trimtab import Trimtab

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".cluster"
NODES = 20


class State(TypedDict):
    """What `up` leaves for `down` and `usage`."""

    processes: list[process.Record]
    kubectl: list[str]
    kubelets: str


def up() -> None:
    """Start everything and print what to try; where it runs already, only print."""
    left = state()
    if left is not None and any(process.alive(record) for record in left["processes"]):
        print("cluster: it is up already (stop it with: make cluster-down)")
    else:
        down()
        _start()
    print(_advice())


def down() -> None:
    """Stop what `up` started and remove its files."""
    left = state()
    if left is not None:
        print(f"==> stopping {len(left['processes'])} processes", flush=True)
        process.stop_recorded(left["processes"])
    shutil.rmtree(HOME, ignore_errors=True)


def state() -> State | None:
    """What `up` left, if it was called and `down` was not."""
    try:
        left: State = json.loads((HOME / "state.json").read_text())
    except FileNotFoundError:
        return None
    return left


def _start() -> None:
    binaries = build.binaries()
    plane = ControlPlane(HOME / "run", binary=binaries.control)
    simulation = Simulation(plane, binaries=binaries)
    trimtab = Trimtab(plane)
    started: list[ControlPlane | Simulation | Trimtab] = []
    try:
        for label, part in (
            ("the control plane", plane),
            ("the nodes' side", simulation),
            ("Trimtab", trimtab),
        ):
            print(f"==> starting {label}", flush=True)
            started.append(part)
            part.start()
            _write(plane, simulation, started)
            if part is simulation:
                simulation.add_nodes(topology.nodes(NODES))
                print(
                    f"==> {NODES} nodes in {len(topology.ZONES)} zones; waiting for their readings",
                    flush=True,
                )
                simulation.wait_measured()
    except BaseException:
        for part in reversed(started):
            part.stop()
        shutil.rmtree(HOME, ignore_errors=True)
        raise


def _write(
    plane: ControlPlane, simulation: Simulation, started: list[ControlPlane | Simulation | Trimtab]
) -> None:
    content: State = {
        "processes": [running.record() for part in started for running in part.processes()],
        "kubectl": [str(plane.binary), "kubectl", f"--kubeconfig={plane.kubeconfig}"],
        "kubelets": simulation.kubelets_url,
    }
    half = HOME / "state.part"
    half.write_text(json.dumps(content, indent=1))
    half.rename(HOME / "state.json")
    wrapper = HOME / "bin" / "kubectl"
    wrapper.parent.mkdir(exist_ok=True)
    wrapper.write_text(f'#!/bin/sh\nexec "{plane.binary}" kubectl "$@"\n')
    wrapper.chmod(0o755)


def _advice() -> str:
    home, python = HOME.relative_to(ROOT), Path(sys.executable)
    shown = python.relative_to(ROOT) if python.is_relative_to(ROOT) else python
    decision = r"jsonpath='{.items[0].metadata.annotations.trimtab\.dev/decision}'"
    return f"""
The cluster is up; its logs are in {home}/run. In this directory:

  export KUBECONFIG=$PWD/{home}/run/admin.kubeconfig PATH=$PWD/{home}/bin:$PATH

and then, for instance:

  kubectl label namespace default trimtab.dev/steering=enabled       # switch steering on
  kubectl apply -f tests/cluster/example.yaml                        # thirty Pods
  kubectl get pods -l app=web -o {decision}
  kubectl top nodes                                                  # as metrics-server sees them
  {shown} -m tests.cluster usage                           # as they really are, and how uneven

To compare, switch it off (kubectl label namespace default trimtab.dev/steering-), restart the Pods
(kubectl rollout restart deployment web) and look at the usage again. Stop it all with: make cluster-down"""
