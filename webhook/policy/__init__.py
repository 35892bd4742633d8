"""The ScoringPolicy: its `schema`, strict loading with every problem at once, the defaults. No I/O here."""

from webhook.policy.compile import Policy, default, load
from webhook.policy.problems import ConfigError, Problem
from webhook.policy.scorers import scorer

__all__ = ["ConfigError", "Policy", "Problem", "default", "load", "scorer"]
