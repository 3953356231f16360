"""Sinks of targets without a scheme: the suffix selects the format, and ``-`` is standard output.

A name with ``{part}`` in it is a folder of parts (``part_files``), and so is a name that ends with ``/`` and says
``?format=``. Only these have options behind a ``?``, which any other file may have in its name.

An archive of pages (``.warc``, ``.warc.gz``) has the name of its machine behind an ``@``: see ``warc_sink``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlencode

from skitter.errors import UsageError
from skitter.model.secrets import shown_address
from skitter.sinks.compression import COMPRESSIONS, Compression, Gzip, Plain
from skitter.sinks.contract import Sink
from skitter.sinks.json_lines import LinesSink

if TYPE_CHECKING:
    from skitter.sinks.part_files import PartsSink
    from skitter.sinks.warc_sink import WarcPartsSink, WarcSink
    from skitter.sinks.whole_file import FileFormat

# Every crawl that writes a file imports this, and most write JSON lines: other formats are imported on demand.
_LINES = (".jsonl", ".ndjson", ".jl")
_FORMS = {
    **dict.fromkeys(_LINES, ("json_lines", "JsonLines")),
    ".json": ("json_array", "JsonArray"),
    ".csv": ("csv_table", "CsvTable"),
    ".parquet": ("parquet", "ParquetTable"),
}
"""Suffix -> the module of this package that has the file format, and the class there."""
_PACK_THEMSELVES = (".parquet",)
SUFFIXES = tuple(
    suffix + compression
    for suffix in _FORMS
    for compression in COMPRESSIONS
    if not (compression and suffix in _PACK_THEMSELVES)
)
_ARCHIVES: dict[str, Callable[[], Compression]] = {".warc": Plain, ".warc.gz": Gzip}
_OPTIONS = ("format", "part_bytes", "part_seconds")
DEFAULT_PATTERN = "{job}-{part}"
PLACEHOLDERS = ("{job}", "{worker}", "{date}")
"""Placeholders that only the name of a part may have."""


def file_sink(target: str, *, overwrite: bool, job: str = "", options: Mapping[str, str] | None = None) -> Sink:
    """Return the sink for a target of ``-o`` (or ``-O``: ``overwrite``). No file is touched before ``take``.

    ``job`` is written into spools, so that two unfinished jobs do not take each other's for their own.
    """
    if target == "-":
        from skitter.sinks.stdout import StdoutSink

        return StdoutSink()
    name, given = file_name(target, options or {})
    if unknown := [option for option in given if option not in _OPTIONS]:
        raise UsageError(
            f"no such option of this output: {unknown[0]}", hint=f"options of a folder: {', '.join(_OPTIONS)}"
        )
    if given and not is_part_folder(name):
        raise UsageError(
            f"this option is for folders of parts: {next(iter(given))}: {target}",
            hint="its name has {part} in it, or ends with /",
        )
    if not is_part_folder(name) and any(placeholder in name for placeholder in PLACEHOLDERS):
        raise UsageError(
            f"placeholders of an output need {{part}}: {target}",
            hint="a name such as {job}-{part}.jsonl creates several files; one file has a name without placeholders",
        )
    if archive := archive_of(name):
        return _archive_sink(name, *archive, given, overwrite=overwrite, job=job)
    if is_part_folder(name):
        return _parts_sink(name, given, overwrite=overwrite, job=job)
    suffix, form, compression = format_of(name, target)
    if suffix in _LINES:
        return LinesSink(name, compression, overwrite=overwrite)
    from skitter.sinks.whole_file import WholeFileSink

    return WholeFileSink(name, form, compression, overwrite=overwrite, job=job)


def archive_of(name: str) -> tuple[str, str] | None:
    """Split an archive's name into the target as written and its machine; None for another kind of sink."""
    text, _, node = name.rpartition("@")
    return (text, node) if text.partition("?")[0].lower().endswith(tuple(_ARCHIVES)) else None


def machine_name() -> str:
    """Return the name of this machine as archive names contain it."""
    return socket.gethostname()


def is_part_folder(name: str) -> bool:
    """Return whether a name means a folder of parts."""
    path = name.partition("?")[0]
    return path.endswith("/") or "{part}" in path


def file_name(text: str, options: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the name under which the frontier keeps a target, and the target's options.

    Not made absolute: a folder with its crawl and its results may be moved as a whole.
    """
    if archive := archive_of(text):
        text, node = archive
        name, given = file_name(text, options)
        return name.rpartition("@")[0] + f"@{node}", given
    if not is_part_folder(text):
        name = os.path.normpath(text) if text else ""
        # The page spool of an archive stays on its machine, so each machine has an archive of its own.
        return f"{name}@{machine_name()}" if name.lower().endswith(tuple(_ARCHIVES)) else name, dict(options)
    path, _, query = text.partition("?")
    try:
        given = dict(options) | dict(parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else {})
    except ValueError as error:
        raise UsageError(
            f"not an output: {shown_address(text)}", hint="write options after ? as NAME=VALUE&NAME=VALUE"
        ) from error
    if path.endswith("/") and given.get("format"):
        path += f"{DEFAULT_PATTERN}.{given.pop('format').lstrip('.')}"
    shown = urlencode(sorted(given.items()))
    name = os.path.normpath(path) + ("/" if path.endswith("/") else "") + (shown and f"?{shown}")
    return f"{name}@{machine_name()}" if path.lower().endswith(tuple(_ARCHIVES)) else name, given


def _archive_sink(
    name: str, text: str, node: str, options: dict[str, str], *, overwrite: bool, job: str
) -> WarcSink | WarcPartsSink:
    from skitter.sinks.part_files import PART_BYTES, PartNames
    from skitter.sinks.warc_sink import WarcPartsSink, WarcSink

    if node != machine_name():
        raise UsageError(f"this archive is on another machine: {name}", hint=f"run the command on {node}")
    path = text.partition("?")[0]
    compression = next(compression for suffix, compression in _ARCHIVES.items() if path.lower().endswith(suffix))()
    if not is_part_folder(text):
        return WarcSink(name, path, compression, node=node, overwrite=overwrite)
    folder, pattern = _split(text)
    return WarcPartsSink(
        name,
        Path(folder),
        PartNames(pattern, job=job, node=node),
        compression,
        node=node,
        part_bytes=int(number_of(options, "part_bytes", PART_BYTES)),
        part_seconds=number_of(options, "part_seconds", 0.0),
        overwrite=overwrite,
        job=job,
    )


def _split(name: str) -> tuple[str, str]:
    folder, _, pattern = name.partition("?")[0].rpartition("/")
    if "{" in folder:
        raise UsageError(
            f"placeholders are allowed in the name of the file, not in its folder: {name}", hint="FOLDER/{part}…"
        )
    return folder, pattern


def _parts_sink(name: str, options: dict[str, str], *, overwrite: bool, job: str) -> PartsSink:
    from skitter.sinks.part_files import PART_BYTES, PartNames, PartsSink

    folder, pattern = _split(name)
    if "format" in options or not pattern:
        raise UsageError(
            f"no format given for the folder: {name}", hint=f"{folder}/?format=jsonl, or parquet, csv.gz, …"
        )
    _, form, compression = format_of(pattern, name)
    return PartsSink(
        name,
        Path(folder),
        PartNames(pattern, job=job, node=machine_name()),
        form,
        compression,
        part_bytes=int(number_of(options, "part_bytes", PART_BYTES)),
        part_seconds=number_of(options, "part_seconds", 0.0),
        overwrite=overwrite,
        job=job,
    )


def number_of(options: dict[str, str], name: str, default: float) -> float:
    try:
        value = float(options.get(name, default))
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf") or (name in options and value == 0):
        raise UsageError(f"not a number above 0: {name}={options[name]}", hint=f"for example {name}=3600")
    return value


def format_of(name: str, target: str = "") -> tuple[str, FileFormat, Compression]:
    """Return the suffix, the file format and the compression of a file name."""
    lower = name.rpartition("/")[2].lower()
    for ending, compression in reversed(COMPRESSIONS.items()):
        plain = lower.removesuffix(ending)
        for suffix in _FORMS:
            if lower.endswith(ending) and plain.endswith(suffix) and not (ending and suffix in _PACK_THEMSELVES):
                return suffix, _form(suffix), compression()
    raise UsageError(
        f"unknown format of a results file: {shown_address(target or name) or '(empty)'}",
        hint=f"its name ends with one of {' '.join(_FORMS)}, optionally followed by .gz or .zst except for the last;"
        " or with .warc or .warc.gz; or it is - for standard output",
    )


def _form(suffix: str) -> FileFormat:
    module, name = _FORMS[suffix]
    form: FileFormat = getattr(import_module(f"skitter.sinks.{module}"), name)()
    return form
