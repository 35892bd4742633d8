"""Batches: Pods of one owner that ask for the same, planned at once. No I/O here.

`batches` remembers a `deal` by its owner; `places` deals them out within `limits`.
"""

from webhook.batch.batches import Batches
from webhook.batch.deal import Ask

__all__ = ["Ask", "Batches"]
