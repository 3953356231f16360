"""Which sink a target is: the suffix picks the format, ``-`` is standard output."""

from __future__ import annotations

import os
from collections.abc import Callable

from skitter.errors import UsageError
from skitter.sinks.contract import Sink
from skitter.sinks.csv_table import CsvTable
from skitter.sinks.json_array import JsonArray
from skitter.sinks.lines import LinesSink
from skitter.sinks.packing import PACKINGS, Plain
from skitter.sinks.parquet import ParquetTable
from skitter.sinks.rendered import Form, RenderedSink
from skitter.sinks.stdout import StdoutSink

_LINES = (".jsonl", ".ndjson", ".jl")
_RENDERED: dict[str, Callable[[], Form]] = {".json": JsonArray, ".csv": CsvTable}
FORMATS = (*_LINES, *_RENDERED, ".parquet")
SUFFIXES = (*(format_ + packing for format_ in (*_LINES, *_RENDERED) for packing in PACKINGS), ".parquet")


def file_sink(target: str, *, overwrite: bool, job: str = "") -> Sink:
    """The sink for a target of ``-o`` (or ``-O``: ``overwrite``). Nothing is touched before ``open``.

    ``job`` is written into spools, so that two unfinished jobs do not take each other's for their own.
    """
    if target == "-":
        return StdoutSink()
    # Not made absolute: a folder with its crawl and its results may be moved as a whole.
    path = os.path.normpath(target)
    name = target.rpartition("/")[2].lower()
    if name.endswith(".parquet"):
        # It packs its columns itself.
        return RenderedSink(path, ParquetTable(), Plain(), overwrite=overwrite, job=job)
    for ending, packing in PACKINGS.items():
        if not name.endswith(ending):
            continue
        plain = name.removesuffix(ending)
        if plain.endswith(_LINES):
            return LinesSink(path, packing(), overwrite=overwrite)
        for suffix, form in _RENDERED.items():
            if plain.endswith(suffix):
                return RenderedSink(path, form(), packing(), overwrite=overwrite, job=job)
    raise UsageError(
        f"no format for this file of results: {target or '(empty)'}",
        hint=f"its name ends with one of {' '.join(FORMATS)}, all but the last with .gz or .zst behind it if you like;"
        " or it is - for standard output",
    )
