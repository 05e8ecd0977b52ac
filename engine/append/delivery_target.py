"""What rows are delivered to, and how it says that it did not take them."""

from typing import Protocol

from engine.append.delivery_batch import DeliveryBatch
from engine.errors import CrawlError


class DeliveryFailed(CrawlError):
    """A batch was not taken, or not as a whole."""

    def __init__(self, message: str, *, delivered: int = 0, retry_after: float = 0.0) -> None:
        """`delivered`: how many of its changes were taken, from the first on. `retry_after`: seconds, if it said so."""
        super().__init__(message)
        self.delivered = delivered
        self.retry_after = retry_after


class DeliveryTarget(Protocol):
    """A receiver of batches. Used by one thread."""

    def deliver(self, batch: DeliveryBatch, data_def: str) -> None:
        """Return when the changes of the batch are durable. Raises DeliveryFailed, ClassFailed, SupervisorGone."""

    def close(self) -> None:
        """Release it; may be called again."""
