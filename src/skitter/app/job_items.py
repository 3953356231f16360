"""Commands about the items of a job, by the URL of its frontier: deliver, export, preview."""

from __future__ import annotations

from collections.abc import Sequence

from skitter.app.audit import recorded
from skitter.app.crawl_node import opened
from skitter.app.own_files import refuse_own_files
from skitter.delivery.deliver_outbox import deliver_outbox
from skitter.delivery.export import export, file_items, outbox_items
from skitter.delivery.item_preview import ItemPreview
from skitter.delivery.item_preview import preview_job as preview
from skitter.delivery.job_sinks import OnEvent
from skitter.model.audit import Actor
from skitter.node.dead_workers import recover_dead_workers
from skitter.node.node import Node
from skitter.sinks.targets import Target
from skitter.stop_request import StopRequest

Written = tuple[int, int]
"""How many items were written, and how many rejected."""


def make_delivery_node(
    *,
    frontier: str,
    job: str,
    outputs: Sequence[Target],
    on_event: OnEvent,
    rest: bool = False,
    stay: bool = False,
    actor: Actor | None = None,
) -> Node[Written]:
    """A node that only delivers: see ``deliver_outbox``. ``actor``: who asked for it, if that is to be recorded."""

    refuse_own_files(outputs, frontier)

    async def deliver(stop: StopRequest) -> Written:
        async with opened(frontier, job, create=False) as store:
            await recover_dead_workers(store, lambda _: None)
            return await deliver_outbox(store, job, outputs, stop=stop, on_event=on_event, rest=rest, stay=stay)

    async def work(stop: StopRequest) -> Written:
        if actor is None:
            return await deliver(stop)
        details = {"outputs": [target.name for target in outputs], "rest": rest}
        async with recorded(frontier, actor, "deliver", job=job, details=details) as entry:
            written = await deliver(stop)
            entry.after = {"delivered": written[0], "rejected": written[1]}
        return written

    return Node(work)


def make_export_node(
    source: str | tuple[str, str], outputs: Sequence[Target], *, on_event: OnEvent, password: str | None = None
) -> Node[Written]:
    """A node that writes all that a file, a MongoDB, or the outbox of a (frontier, job) holds now.

    ``password`` is for the URL of a MongoDB that names a user and has no password.
    """

    if isinstance(source, str):
        refuse_own_files(outputs, files=[("the file that is read", source)])
    else:
        refuse_own_files(outputs, source[0])

    async def work(stop: StopRequest) -> Written:
        if isinstance(source, str):
            return await export(lambda: file_items(source, password=password), outputs, stop=stop, on_event=on_event)
        frontier, job = source
        async with opened(frontier, job, create=False) as store:
            most = (await store.report()).undelivered
            return await export(lambda: outbox_items(store, most), outputs, stop=stop, on_event=on_event)

    return Node(work)


async def preview_job(frontier: str, job: str, *, sample: int, most: int) -> ItemPreview:
    """Some items of a job: see ``delivery.item_preview``."""
    async with opened(frontier, job, create=False) as store:
        return await preview(store, sample=sample, most=most)
