"""The metrics of a process while it works: served where the setting ``metrics`` says, and told in an event."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skitter.observe import events
from skitter.settings import Run

if TYPE_CHECKING:
    from skitter.node.node_metrics import NodeMetrics
    from skitter.observe.metrics import Metric, Sample


@asynccontextmanager
async def node_metrics(run: Run, on_event: Callable[[events.Event], None]) -> AsyncIterator[NodeMetrics | None]:
    """The metrics of this node, if they are asked for; UsageError if the address cannot be had."""
    if not run.metrics:
        yield None
        return
    # Most nodes are started without.
    from skitter.app.views.metrics import build_info
    from skitter.node.node_metrics import NodeMetrics
    from skitter.observe.metrics import NODE_METRICS

    metrics = NodeMetrics(build_info())
    async with served_metrics(run, metrics.samples, NODE_METRICS, on_event):
        yield metrics


@asynccontextmanager
async def served_metrics(
    run: Run,
    samples: Callable[[], Iterable[Sample]],
    families: Mapping[str, Metric],
    on_event: Callable[[events.Event], None],
) -> AsyncIterator[None]:
    """Serve samples, if metrics are asked for; UsageError if the address cannot be had."""
    if not run.metrics:
        yield
        return
    from skitter.node.metrics_endpoint import serve_metrics

    async with serve_metrics(samples, families, run.metrics, run.metrics_token_file) as url:
        on_event(events.NODE_METRICS(url=url))
        yield
