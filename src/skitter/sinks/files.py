"""Which sink a target is: the suffix picks the format, ``-`` is standard output."""

from __future__ import annotations

import os
from collections.abc import Callable

from skitter.errors import UsageError
from skitter.sinks.contract import Sink
from skitter.sinks.csv_table import CsvTable
from skitter.sinks.json_array import JsonArray
from skitter.sinks.lines import Gzip, LinesSink, Packing, Plain
from skitter.sinks.rendered import Form, RenderedSink
from skitter.sinks.stdout import StdoutSink

_LINES: dict[str, Callable[[], Packing]] = {
    ".jsonl": Plain,
    ".ndjson": Plain,
    ".jl": Plain,
    ".jsonl.gz": Gzip,
    ".ndjson.gz": Gzip,
    ".jl.gz": Gzip,
}
_RENDERED: dict[str, Callable[[], Form]] = {".json": JsonArray, ".csv": CsvTable}
SUFFIXES = (*_LINES, *_RENDERED)


def file_sink(target: str, *, overwrite: bool, job: str = "") -> Sink:
    """The sink for a target of ``-o`` (or ``-O``: ``overwrite``). Nothing is touched before ``open``.

    ``job`` is written into spools, so that two unfinished jobs do not take each other's for their own.
    """
    if target == "-":
        return StdoutSink()
    # Not made absolute: a folder with its crawl and its results may be moved as a whole.
    path = os.path.normpath(target)
    name = target.rpartition("/")[2].lower()
    for suffix, packing in _LINES.items():
        if name.endswith(suffix):
            return LinesSink(path, packing(), overwrite=overwrite)
    for suffix, form in _RENDERED.items():
        if name.endswith(suffix):
            return RenderedSink(path, form(), overwrite=overwrite, job=job)
    raise UsageError(
        f"no format for this file of results: {target or '(empty)'}",
        hint=f"its name ends with one of {' '.join(SUFFIXES)}; or it is - for standard output",
    )
