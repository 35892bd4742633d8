"""HAProxy in front of several replicas, checking `/readyz`, as a Service stands in front of Pods."""

from collections.abc import Iterable
from pathlib import Path

from . import debian, parts, process

# The package, and the libraries that it needs beside those of every Debian.
PACKAGES = ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1")


def balancer(port: int, backends: Iterable[tuple[int, int]], directory: Path) -> process.Process:
    """A process that spreads connections to `port` over the (port, admin port) of each ready backend."""
    haproxy = debian.find("haproxy", PACKAGES)
    path = directory / "haproxy.cfg"
    path.write_text(_configuration(port, backends))
    return process.Process(
        "haproxy", [haproxy.path, "-db", "-f", path], log=directory / "haproxy.log", env=haproxy.env
    )


def _configuration(port: int, backends: Iterable[tuple[int, int]]) -> str:
    servers = "\n".join(
        f"  server replica-{index} {parts.LOOPBACK}:{own} check port {admin} inter 500ms fall 2 rise 1"
        for index, (own, admin) in enumerate(backends)
    )
    # Connections to a replica that is gone are closed at once, as they are when a Pod is gone.
    return f"""\
defaults
  mode tcp
  timeout connect 1s
  timeout client 10m
  timeout server 10m
  option redispatch
  retries 2
listen trimtab
  bind {parts.LOOPBACK}:{port}
  balance roundrobin
  option httpchk GET /readyz
  default-server on-marked-down shutdown-sessions
{servers}
"""
