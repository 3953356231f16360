"""Deliveries for suites: from the outbox of a frontier to outputs, in the process of the test."""

from __future__ import annotations

from skitter.delivery import sink_runner
from skitter.delivery.runner import Delivery
from skitter.extract.items import encode_item
from skitter.extract.rejected_items import encode_reject
from skitter.frontier.rules import outbox
from skitter.sinks.file_targets import file_sink
from skitter.sinks.rejects_file import RejectsFile

__all__ = ["Delivery", "RejectsFile", "encode_item", "encode_reject", "file_sink", "shorten_ownership"]


def shorten_ownership(owner_seconds: float, keep_seconds: float, stale_seconds: float) -> None:
    """Have ownerships of outputs in this process end after ``owner_seconds`` in which their owner was silent.

    ``keep_seconds``: how often an owner says that it is there; ``stale_seconds``: after these it asks first.
    """
    outbox.SINK_OWNER_SECONDS = owner_seconds  # type: ignore[attr-defined]
    sink_runner.KEEP_SECONDS = keep_seconds
    sink_runner.STALE_SECONDS = stale_seconds
