"""`python -m tests.cluster build|up|down|usage`."""

import argparse
import json
import statistics
import subprocess
import sys

from rich.console import Console
from rich.table import Table

from . import background, build, debian, process, toolchain, waiting
from .client import ApiError, Client, unverified
from .control_plane import KubectlError

_EXPECTED = (
    ApiError,
    KubectlError,
    build.BuildError,
    debian.PackageError,
    process.ProcessError,
    toolchain.ToolchainError,
    waiting.NotInTimeError,
)


def main() -> int:
    """Do what the first argument says; an expected failure is one message, not a traceback."""
    commands = {"build": build.everything, "up": background.up, "down": background.down, "usage": usage}
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=background.__doc__)
    parser.add_argument("command", choices=commands)
    try:
        commands[parser.parse_args().command]()
    except _EXPECTED as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


def usage() -> None:
    """Print what each node really uses, and the spread that steering is there to lower."""
    state = background.state()
    if state is None:
        print("cluster: it is not up (start it with: make cluster)")
        return
    client = Client(state["kubelets"], unverified())
    used = client.request("GET", "/usage")
    client.close()
    listed = subprocess.run(
        [*state["kubectl"], "get", "nodes", "-o", "json"], capture_output=True, check=True
    )
    table = Table("node", "zone", "cores", "used", "used %")
    shares = []
    for node in json.loads(listed.stdout)["items"]:
        name, cores = node["metadata"]["name"], float(node["status"]["allocatable"]["cpu"])
        shares.append(used[name][0] / cores)
        zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        table.add_row(name, zone, f"{cores:g}", f"{used[name][0]:.2f}", f"{100 * shares[-1]:.0f}")
    Console().print(table)
    mean, deviation = statistics.mean(shares), statistics.pstdev(shares)
    print(f"CPU utilization: mean {mean:.3f}, standard deviation {deviation:.3f}")


if __name__ == "__main__":
    sys.exit(main())
