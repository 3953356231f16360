"""Levels of Python's loggers: ``log_level`` counts for skitter and for the user's own code, not for libraries.

Libraries say much at ``info`` and ``debug`` that is not about the crawl: below a warning they are left out, unless
somebody has set the level of their logger (``logging.getLogger("httpx").setLevel("INFO")``).
"""

from __future__ import annotations

import logging
import os

_STANDARD_LIBRARY = os.__file__.removesuffix("os.py")
_INSTALLED = tuple(f"{os.sep}{folder}{os.sep}" for folder in ("site-packages", "dist-packages"))
_OWN = "skitter"
"""The logger above those of skitter and of ``Spider.logger``."""


class LibraryFilter(logging.Filter):
    """Filter that drops records of libraries below a warning."""

    def filter(self, record: logging.LogRecord) -> bool:
        return (
            record.levelno >= logging.WARNING
            or record.name.partition(".")[0] == _OWN
            or not _is_library(record.pathname)
            or _level_was_set(logging.getLogger(record.name), record.levelno)
        )


def _is_library(file: str) -> bool:
    return file.startswith(_STANDARD_LIBRARY) or any(folder in file for folder in _INSTALLED)


def _level_was_set(logger: logging.Logger | None, level: int) -> bool:
    """Return whether the level of this logger, or of a parent other than the root, was set."""
    while logger is not None and logger.parent is not None:
        if logger.level:
            return level >= logger.level
        logger = logger.parent
    return False
