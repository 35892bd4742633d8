"""The policy in force in a cluster: the last good one that the ConfigMap held."""

import logging

from webhook import kube, policy
from webhook.cluster import Cluster
from webhook.policy import ConfigError, Policy

LOG = logging.getLogger(__name__)

POLICY_KEY = "policy.yaml"


class PolicyHolder:
    """The policy in force; it starts with `current` and follows the ConfigMap.

    Pods are bound between two reviews too, so `cluster` is told what the policy expects them to use.
    """

    def __init__(self, current: Policy, cluster: Cluster) -> None:
        self.current = current
        self._cluster = cluster
        cluster.expectation.estimator = current.estimator

    def replace(self, config_maps: list[kube.ConfigMap]) -> None:
        """Take a list that holds our ConfigMap, or nothing."""
        if config_maps:
            self.set(config_maps[0])
        else:
            self.remove()

    def set(self, config_map: kube.ConfigMap) -> None:
        """Take the ConfigMap's policy; a bad one changes nothing."""
        text = (config_map.data or {}).get(POLICY_KEY)
        try:
            self._use(policy.load(text) if text else policy.default())
        except ConfigError as error:
            for problem in error.problems:
                LOG.warning("policy: %s; the one before stays", problem)

    def remove(self) -> None:
        """Go back to the defaults: there is no ConfigMap."""
        self._use(policy.default())

    def _use(self, new: Policy) -> None:
        if new.hash != self.current.hash:
            LOG.info("policy: %s %s is in force", new.name, new.hash)
        self.current = new
        self._cluster.expectation.estimator = new.estimator
