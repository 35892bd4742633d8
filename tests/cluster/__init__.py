"""The real Kubernetes control plane for the tests and `make cluster`: on loopback, without containers."""
