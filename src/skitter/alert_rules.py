"""Alert rule: a threshold on one figure of a job, and who is told when it is passed (``[[alert]]`` in skitter.toml)."""

from __future__ import annotations

import fnmatch
import math
import re
from typing import Annotated
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

_NAME = re.compile(r"\w[\w.-]{0,59}")


class AlertRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A threshold. ``repr`` does not show the webhook, which may have a token in it."""

    name: str
    figure: str
    """A metric of a job without ``skitter_job_``, and after a colon the value of its label: ``requests:queued``."""
    above: float | None = None
    """Fires when the figure is above this value. Give either this or ``below``."""
    below: float | None = None
    clears_at: float | None = None
    """Resolves when the figure has returned to this value. Default: the threshold."""
    for_seconds: Annotated[float, Meta(ge=0)] = 0.0
    """How long the figure must be beyond the threshold, without interruption, before the alert fires."""
    job: str = "*"
    """Name or pattern of the jobs that the alert is for. Default: all jobs."""
    only_running: bool = True
    """Whether the alert is checked only while the job is running. Default: true."""
    webhook: str = ""
    """URL to which a JSON object is sent with POST when the alert fires and when it resolves."""
    command: list[str] = []
    """Program and arguments, run with the same object on standard input."""
    pause: bool = False
    """Whether the job is paused when the alert fires."""

    def __post_init__(self) -> None:
        if _NAME.fullmatch(self.name) is None:
            raise ValueError(f"invalid alert name: {self.name[:50]!r}: use letters, digits, . _ and -")
        if (self.above is None) == (self.below is None):
            raise ValueError(f"the alert {self.name} takes either above or below")
        if not all(map(math.isfinite, (self.threshold, self.clears_at or 0.0, self.for_seconds))):
            raise ValueError(f"the alert {self.name} has a number that is none: nan or inf")
        if self.above is not None and self.clears_at is not None and self.clears_at > self.above:
            raise ValueError(f"the alert {self.name} would fire again at once: clears_at is higher than above")
        if self.below is not None and self.clears_at is not None and self.clears_at < self.below:
            raise ValueError(f"the alert {self.name} would fire again at once: clears_at is lower than below")
        if not (self.webhook or self.command or self.pause):
            raise ValueError(f"the alert {self.name} does nothing: give it webhook, command or pause")
        if self.webhook and (
            urlsplit(self.webhook).scheme not in ("http", "https") or not urlsplit(self.webhook).netloc
        ):
            raise ValueError(f"the webhook of the alert {self.name} is not an http or https URL")

    @property
    def threshold(self) -> float:
        return self.above if self.above is not None else self.below or 0.0

    @property
    def shown(self) -> str:
        """Return what may be said of it."""
        return f"{self.name}: {self.figure} {'above' if self.above is not None else 'below'} {self.threshold:g}"

    def is_beyond(self, value: float) -> bool:
        """Whether a value is on the wrong side of the threshold."""
        return value > self.above if self.above is not None else value < self.threshold

    def is_clear(self, value: float) -> bool:
        """Whether a value lets a firing alert resolve."""
        limit = self.threshold if self.clears_at is None else self.clears_at
        return value <= limit if self.above is not None else value >= limit

    def is_for(self, job: str) -> bool:
        """Whether a job is watched."""
        return fnmatch.fnmatchcase(job, self.job)

    def __repr__(self) -> str:
        return f"AlertRule({self.shown})"
