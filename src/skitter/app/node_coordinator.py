"""The coordinator of a node (``--coordinator``). What it is made of is loaded only where there is one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from skitter.observe.events import Event
from skitter.settings import Run

if TYPE_CHECKING:
    from skitter.node.node_membership import NodeMembership


def check_coordinator(run: Run) -> None:
    """UsageError for a coordinator that cannot be one of nodes. Connects to nothing."""
    if run.coordinator:
        from skitter.node.node_membership import node_cluster

        node_cluster(run)


@asynccontextmanager
async def node_membership(
    run: Run, job: str, on_event: Callable[[Event], None]
) -> AsyncIterator[NodeMembership | None]:
    """While the body works this node is a member of the job's group; None: it has no coordinator."""
    if not run.coordinator:
        yield None
        return
    from skitter.node.node_membership import NodeMembership

    membership = NodeMembership(run, job, on_event)
    try:
        await membership.join()
        yield membership
    finally:
        await membership.close()
