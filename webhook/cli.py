"""The command line. Parts that are slow to load are imported by the command that needs them."""

import asyncio
import logging
import signal
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import click

from webhook import __version__

_PORT = click.IntRange(0, 65535)

_OUTPUT = click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Output format.",
)

_KUBECONFIG = click.option(
    "--kubeconfig",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Reach the cluster with this file; inside a Pod its service account is used.",
)


_POLICY = click.option(
    "--policy",
    "policy_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Take the ScoringPolicy from a file, not from the ConfigMap or as it is built in.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="trimtab")
def main() -> None:
    """Steer Pod placement with the stock kube-scheduler."""


@main.command()
@click.option(
    "--cluster",
    "cluster_file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Run without a cluster, over what `kubectl get nodes,pods -A -o json` printed.",
)
@_POLICY
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port", default=10250, show_default=True, type=_PORT, help="Port for /mutate; 0 picks a free one."
)
@click.option(
    "--admin-port",
    type=_PORT,
    help="Port for probes and metrics; with --cluster a free one by default, else 8081.",
)
@click.option(
    "--cert-dir",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="With --cluster: where ca.crt and the pair are kept; a new temporary directory by default.",
)
@_KUBECONFIG
@click.option(
    "--follow",
    is_flag=True,
    help="With --cluster: apply watch events of Pods and Nodes, one JSON object a line, from standard input.",
)
@click.option(
    "--log-level",
    default="info",
    show_default=True,
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="How much to log on stderr.",
)
def serve(
    cluster_file: Path | None,
    policy_file: Path | None,
    host: str,
    port: int,
    admin_port: int | None,
    cert_dir: Path | None,
    kubeconfig: Path | None,
    follow: bool,  # noqa: FBT001, click passes options by name
    log_level: str,
) -> None:
    """Serve the mutating admission webhook."""
    from webhook import api, app  # noqa: PLC0415, see the module docstring
    from webhook.policy import ConfigError  # noqa: PLC0415

    logging.basicConfig(
        stream=sys.stderr, level=log_level.upper(), format="%(asctime)s %(levelname)s %(name)s %(message)s"
    )
    if cluster_file and kubeconfig:
        raise click.UsageError("--cluster runs without a cluster: leave out --kubeconfig")
    if not cluster_file and (follow or cert_dir):
        raise click.UsageError("--follow and --cert-dir go with --cluster")
    embedded_port = 0 if cluster_file else 8081
    with tempfile.TemporaryDirectory(prefix="trimtab-") as temporary:
        settings = app.Settings(
            host=host,
            port=port,
            admin_port=embedded_port if admin_port is None else admin_port,
            cluster_file=cluster_file,
            policy_file=policy_file,
            cert_dir=cert_dir or Path(temporary),
            kubeconfig=kubeconfig,
            follow=follow,
        )
        try:
            asyncio.run(app.run(settings))
        except ConfigError as error:
            _refuse(error.problems)
        except (api.ApiError, OSError) as error:
            click.echo(f"error: {error}", err=True)
            sys.exit(1)


@main.command()
@click.option(
    "--nodes", default=200, show_default=True, type=click.IntRange(2, 5000), help="Nodes to generate."
)
@click.option(
    "--pods", default=1200, show_default=True, type=click.IntRange(1, 100000), help="Pods to place."
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(min=0),
    help="Seed of the generated cluster and arrivals.",
)
@_OUTPUT
def demo(nodes: int, pods: int, seed: int, output: str) -> None:
    """Place a generated workload with and without steering, and compare the balance."""
    from webhook.demo import command  # noqa: PLC0415, see the module docstring

    # The demo's server is a process of its own, and must not outlive us.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    sys.exit(command.run(nodes=nodes, pods=pods, seed=seed, output=output))


@main.command()
@click.option(
    "--cluster",
    "cluster_file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="What `kubectl get nodes,pods -A -o json` printed, and readings.",
)
@_POLICY
@click.option(
    "-f",
    "--filename",
    "pod_file",
    required=True,
    type=click.Path(path_type=Path),
    metavar="POD.yaml",
    help="The Pod, or a workload with a Pod template, as YAML or JSON; - for standard input.",
)
@click.option("-n", "--namespace", help="Namespace of a Pod that names none.  [default: default]")
@_OUTPUT
def explain(
    cluster_file: Path, policy_file: Path | None, pod_file: Path, namespace: str | None, output: str
) -> None:
    """Show what would be decided for a Pod, and why: each node's feasibility, scores and use."""
    from webhook.explain import command  # noqa: PLC0415, see the module docstring
    from webhook.policy import ConfigError  # noqa: PLC0415

    try:
        command.run(cluster_file, policy_file, pod_file, namespace, output)
    except ConfigError as error:
        _refuse(error.problems)


@main.command()
@_KUBECONFIG
@_POLICY
@_OUTPUT
def usage(kubeconfig: Path | None, policy_file: Path | None, output: str) -> None:
    """Ask every usage source once, and show which series and nodes do not find each other."""
    from webhook import api  # noqa: PLC0415, see the module docstring
    from webhook.policy import ConfigError  # noqa: PLC0415
    from webhook.usage import command  # noqa: PLC0415, see the module docstring

    try:
        sys.exit(command.run(kubeconfig, policy_file, output))
    except ConfigError as error:
        _refuse(error.problems)
    except (api.ApiError, OSError) as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(1)


def _refuse(problems: Iterable[object]) -> NoReturn:
    for problem in problems:
        click.echo(f"error: {problem}", err=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
