"""Why a Pod was not steered: values, because they are metric labels and are read on Pods. No I/O here."""

from enum import StrEnum


class Outcome(StrEnum):
    STEERED = "steered"
    SHADOW = "shadow"
    SKIPPED = "skipped"
    FAILED = "failed"


class Reason(StrEnum):
    # No operation at all: not a Pod that is being created, or one that cannot be read.
    WRONG_KIND = "wrong-kind"
    WRONG_OPERATION = "wrong-operation"
    SUBRESOURCE = "subresource"
    NO_OBJECT = "no-object"
    OWN_NAMESPACE = "own-namespace"
    SYSTEM_NAMESPACE = "system-namespace"
    NOT_ENABLED = "namespace-not-enabled"
    MIRROR = "mirror"
    UNREADABLE = "unreadable"
    BAD_QUANTITY = "bad-quantity"
    # By nature not ours: forged outputs are removed, nothing else happens.
    OPTED_OUT = "opted-out"
    DAEMONSET = "daemonset"
    NODE_NAME = "node-name"
    PINNED = "pinned"
    FOREIGN_SCHEDULER = "foreign-scheduler"
    GATED = "gated"
    # Ours, but nothing is injected: the decision annotation says so.
    CACHE_COLD = "cache-cold"
    NO_CANDIDATES = "no-candidates"
    OVER_THRESHOLDS = "over-thresholds"
    EQUAL_SCORES = "equal-scores"
    USER_TERMS = "user-terms"
    SHADOW = "shadow"
    DEADLINE = "deadline"
    # A second pass over our own output.
    ALREADY_DECIDED = "already-decided"
    # The barrier.
    PATCH_UNSAFE = "patch-unsafe"
    ERROR = "error"
