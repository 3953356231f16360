"""The settings ``log_level`` and ``log_file`` in a script: what they change of ``logging`` while a crawl runs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from skitter import private_files
from skitter.errors import UsageError
from skitter.observe.events import Level
from skitter.settings import Logging

STDERR = "-"
_FORM = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


@contextmanager
def logging_as(settings: Logging, asked: Collection[str]) -> Iterator[None]:
    """``asked``: the settings that somebody has given; of the others, the script's own ``logging`` decides.

    A script that has set up no handlers is given one on standard error, or none would see what was asked for.
    """
    logger = logging.getLogger("skitter")
    if settings.log_format == "json":
        logger.warning(
            "log_format=json has no effect in a script: record.event of the logger skitter.events has fields"
        )
    if "log_level" not in asked and "log_file" not in asked:
        yield
        return
    before = logger.level
    handler = _handler(settings.log_file, is_alone=not logger.hasHandlers())
    if handler is not None:
        handler.setFormatter(logging.Formatter(_FORM))
        logger.addHandler(handler)
    logger.setLevel(Level[settings.log_level.upper()])
    try:
        yield
    finally:
        logger.setLevel(before)
        if handler is not None:
            logger.removeHandler(handler)
            handler.close()


def _handler(name: str, *, is_alone: bool) -> logging.Handler | None:
    if name == STDERR:
        return logging.StreamHandler(sys.stderr) if is_alone else None
    try:
        # As the command line has it: appended to, and for its owner alone if it is new.
        file = open(name, "a", encoding="utf-8", errors="backslashreplace", opener=private_files.opener)  # noqa: SIM115
    except OSError as error:
        raise UsageError(f"cannot be written: {name}: {error.strerror}", hint="log_file is a file, or -") from error
    return _FileHandler(file)


class _FileHandler(logging.StreamHandler):  # type: ignore[type-arg]
    def close(self) -> None:
        self.stream.close()
        super().close()
