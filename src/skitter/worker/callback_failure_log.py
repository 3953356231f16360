"""Failed callbacks in the log: the first page of each kind with its traceback, the others as a number."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from skitter.observe import events

MAX_KINDS: Final = 20
"""So many kinds are told by one worker: an exception class that is made anew for each page shall not flood the log."""
_FRAME = re.compile(r'^ +File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
_RAISED = re.compile(r"^([\w.]+)", re.MULTILINE)


class CallbackFailures:
    """Tells the first failure of each kind, and counts."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._pages: Counter[str] = Counter()

    def failed(self, url: str, error: str) -> None:
        """A page whose callback raised. ``error``: its traceback, or a sentence."""
        kind = failure_kind(error)
        if kind not in self._pages and len(self._pages) >= MAX_KINDS:
            kind = "other failures"
        self._pages[kind] += 1
        if self._pages[kind] == 1:
            told = {"worker": self._worker, "url": url, "failure": kind, "traceback": error.rstrip()}
            events.emit(events.CALLBACK_FAILED(**told))

    def tell_repeated(self) -> None:
        """How often each happened; for the end of the worker."""
        for kind, pages in self._pages.items():
            if pages > 1:
                events.emit(events.CALLBACKS_FAILED_AGAIN(worker=self._worker, failure=kind, pages=pages))
        self._pages.clear()


def failure_kind(error: str) -> str:
    """``ValueError in parse, books.py line 12``; of what is no traceback, its first line."""
    frames = list(_FRAME.finditer(error))
    raised = _RAISED.search(error, frames[-1].end()) if frames else None
    if raised is None:
        return error.strip().partition("\n")[0]
    file, line, function = frames[-1].groups()
    return f"{raised[1]} in {function}, {file.rpartition('/')[2]} line {line}"
