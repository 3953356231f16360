"""Conversion of Scrapy's ``FEEDS`` to targets, with warnings for feeds that skitter cannot write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from skitter.errors import SettingsError
from skitter.model.secrets import shown_address

SUFFIXES: dict[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "jl": (".jsonl", ".ndjson", ".jl"),
    "json": (".json",),
    "jsonl": (".jsonl", ".ndjson", ".jl"),
    "jsonlines": (".jsonl", ".ndjson", ".jl"),
}
"""Formats of Scrapy that skitter writes, and the suffixes by which a target has them; the first is the usual one."""
_DEFAULTS = ("", None, "utf8", "utf-8")


def feed_targets(origin: str, feeds: Any, warnings: list[str]) -> list[dict[str, Any]]:
    """Return tables with ``target`` and ``overwrite``; feeds that cannot be written are added to ``warnings``."""
    if not isinstance(feeds, Mapping) or not all(isinstance(options, Mapping) for options in feeds.values()):
        raise SettingsError(f"bad value in {origin}: FEEDS", hint='as in FEEDS = {"books.csv": {"format": "csv"}}')
    found = []
    for uri, options in feeds.items():
        # Scrapy's may have the password of a server in it.
        target, shown = _path(str(uri)), shown_address(str(uri), is_server=True)
        if why := _objection(target, options):
            warnings.append(f"{origin}: FEEDS: not written: {shown}: {why}")
            continue
        left_out = sorted(
            str(name)
            for name, value in options.items()
            if name not in ("format", "overwrite")
            and value not in _DEFAULTS
            and not (name == "postprocessing" and target.endswith(".gz"))
        )
        if left_out:
            warnings.append(
                f"{origin}: FEEDS: {shown}: options without an equivalent are ignored: {', '.join(left_out)}"
            )
        found.append({"target": target, "overwrite": bool(options.get("overwrite", False))})
    return found


def _path(uri: str) -> str:
    """Convert a feed's URI to a target: a file by its path, standard output as ``-``."""
    if uri in ("-", "stdout:"):
        return "-"
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme == "file" else uri


def _objection(target: str, options: Mapping[str, Any]) -> str:
    """Return the reason why a feed is not written; empty if it is."""
    scheme = urlsplit(target).scheme if "://" in target else ""
    form = str(options.get("format", Path(target).suffix.removeprefix(".")))
    if scheme:
        return f"only files are supported here, not {scheme}://; name the output with -o or in sinks of the spider"
    if form not in SUFFIXES:
        return f"skitter writes no {form or 'file without a format'}, but {', '.join(sorted(SUFFIXES))} and parquet"
    if "%(" in target:
        return "names with %(…)s are not filled in; name the output with -o or in sinks of the spider"
    if target == "-":
        return "" if SUFFIXES[form] == SUFFIXES["jsonl"] else f"standard output has JSON lines, not {form}"
    if not target.lower().removesuffix(".gz").endswith(SUFFIXES[form]):
        return f"the suffix selects the format, and {form} is {' or '.join(SUFFIXES[form])}"
    return ""
