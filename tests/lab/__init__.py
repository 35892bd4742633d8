"""The benchmark lab: what other load-aware schedulers would do with the same nodes."""
