"""The metrics of a node while it works: served where the setting ``metrics`` says, and told in an event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skitter.observe import events
from skitter.settings import Run

if TYPE_CHECKING:
    from skitter.node.node_metrics import NodeMetrics


@asynccontextmanager
async def node_metrics(run: Run, on_event: Callable[[events.Event], None]) -> AsyncIterator[NodeMetrics | None]:
    """The metrics of this node, if they are asked for; UsageError if the address cannot be had."""
    if not run.metrics:
        yield None
        return
    # Most nodes are started without.
    from skitter.app.views.metrics import build_info
    from skitter.node.node_metrics import NodeMetrics, serve_metrics

    metrics = NodeMetrics(build_info())
    async with serve_metrics(metrics, run.metrics) as url:
        on_event(events.NODE_METRICS(url=url))
        yield metrics
