"""Archives of pages: each machine that works for a job has its own, under the same name (docs/adr/0027).

What a machine has written ahead, no other can deliver. So its archive is delivered from there while the job goes on,
and completed when the job is finished: a job whose archive is not complete on every machine does not begin anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from skitter.cluster.process_identity import worker_id
from skitter.errors import UsageError
from skitter.frontier.contract import WorkerStore
from skitter.model.job import SinkSeen
from skitter.settings import Fetch
from skitter.sinks.contract import Archive, PageSink, Sink
from skitter.sinks.file_targets import archive_of, file_name, machine_name
from skitter.sinks.targets import parse_target, sink_of


def archives_here(sinks: Iterable[SinkSeen]) -> list[str]:
    """The archives of a job by the names that they have on this machine, also those that only others have yet."""
    written = [archive[0] for seen in sinks if (archive := archive_of(seen.target))]
    return list(dict.fromkeys(file_name(text, {})[0] for text in written))


def is_output_of(sinks: Iterable[SinkSeen], target: str) -> bool:
    """Whether a job has an output, or on another machine the same archive."""
    targets, archive = {seen.target for seen in sinks}, archive_of(target)
    return target in targets or (archive or ("",))[0] in {(archive_of(each) or (None,))[0] for each in targets}


def unserved_archives(sinks: Sequence[SinkSeen], *, finished: bool) -> list[str]:
    """This machine's archives that are not complete, and that no process delivers to."""
    seen = {sink.target: sink for sink in sinks}
    return [
        name
        for name in archives_here(sinks)
        if (not finished or (name in seen and seen[name].is_incomplete)) and not (name in seen and seen[name].owner)
    ]


def is_elsewhere(target: str) -> bool:
    """Whether it is another machine's archive."""
    archive = archive_of(target)
    return archive is not None and archive[1] != machine_name()


def only_one_archive(sinks: Iterable[Sink]) -> list[Sink]:
    """The sinks, if at most one is an archive: pages that are written ahead are removed when they are in it."""
    listed = list(sinks)
    archives = [sink.target for sink in listed if isinstance(sink, PageSink)]
    if len(archives) > 1:
        raise UsageError(
            f"a job can have only one archive of pages: {', '.join(archives)}",
            hint="give one of them; it can be copied later",
        )
    return listed


async def open_archive(frontier: WorkerStore, job: str, fetch: Fetch) -> Archive | None:
    """Where this process writes pages ahead; None: the job has no archive."""
    sinks = await frontier.sinks()
    for target in archives_here(sinks):
        if target not in [seen.target for seen in sinks]:
            # The job keeps what this machine commits from now on, whenever somebody here comes to deliver it.
            await frontier.open_sink(target, worker_id())
            await frontier.close_sink(target, worker_id())
        sink = sink_of(parse_target(target, job=job))
        assert isinstance(sink, PageSink), target
        from skitter.fetch.header_lines import SentHeaders
        from skitter.sinks.page_spool import PageSpool

        sent = {"User-Agent": fetch.agent, **SentHeaders(fetch).every()}
        return PageSpool(sink.ahead, worker_id(), node=machine_name(), sent=sent)
    return None
