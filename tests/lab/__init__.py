"""Experiments over the model alone: fast, without a control plane, each prints its figures."""
