"""The cluster's fixtures for its own tests."""

from .fixtures import control_plane, namespace, simulation

__all__ = ["control_plane", "namespace", "simulation"]
