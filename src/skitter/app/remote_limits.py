"""Limits on jobs and schedules of a master's users: they must not name code, programs or folders of the machine."""

from __future__ import annotations

import re
from collections.abc import Iterable

from skitter.app.crawl_source import check_inside
from skitter.errors import UsageError, did_you_mean
from skitter.settings import Settings

_LOCAL_SETTINGS = ("fetcher", "item_functions", "file_target", "hooks", "stay")
"""Settings of a job that name code or folders of the machine, or never end."""
_SERVER = re.compile(r"(?!python:|sqlite:|file:)[a-z][a-z0-9+.-]*://", re.IGNORECASE)


def check_remote_settings(names: Iterable[str], more: Iterable[str] = (), *, hint: str) -> None:
    """Refuse settings that are not the job's own, or are of the machine. ``more``: others that are permitted."""
    allowed = {*Settings().job_wide(), *more} - {*_LOCAL_SETTINGS}
    for name in names:
        # Names of Scrapy's settings would be translated to any of ours.
        if name not in allowed:
            raise not_remote(f"the setting {name[:100]}", did_you_mean(name, allowed) or hint)


def check_remote_outputs(outputs: Iterable[str], *, hint: str) -> None:
    """Refuse outputs that are code, or files outside of the server's folder."""
    for output in outputs:
        if not _SERVER.match(output):
            path = output.removeprefix("sqlite:")
            if ":" in path:
                raise not_remote(f"the output {output}", hint)
            check_inside(path, "an output")


def not_remote(what: str, hint: str) -> UsageError:
    """The error for what only somebody on the machine may name."""
    return UsageError(f"users of a server cannot set this: {what}", hint=hint)
