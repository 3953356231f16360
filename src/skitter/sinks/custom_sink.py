"""Sinks that people write, named by an entry point or by ``python:module:Class``: a class with ``write(batch)``.

``write`` gets a list of ``(key, record)``, and has made them durable when it returns. After a crash a batch may come
again, so the promise is: at least once, with a stable key. The class may have more, and needs none of it:

- an ``__init__`` that takes the Target (its ``url``-like parts, ``options``, ``password``);
- ``open()`` before the first batch and ``close()`` after the last;
- from ``write``, a mapping of keys to reasons: items that it will never take. They go to the rejects file.

ConnectionError and TimeoutError (and skitter's SinkAwayError) mean that the place is away: the batch comes again.
Anything else that it raises ends the delivery.

A class that has all of ``sinks.contract.Sink`` is taken as it is: it keeps marks of its own, and may promise each item
exactly once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from skitter.entry_points import load_entry_point, unusable
from skitter.errors import BadItemsError, SinkAwayError, SinkError, SkitterError, UsageError
from skitter.model.import_ref import resolve
from skitter.model.job import Item, SinkProgress
from skitter.sinks.contract import Sink
from skitter.sinks.item_keys import keyed
from skitter.sinks.targets import Target

_MARK = b"1"
_WHOLE = ("take", "open", "write", "finish", "close")
"""What a class has that keeps all promises of a sink by itself."""


def entry_point_sink(target: Target, found: EntryPoint) -> Sink:
    """The sink that another package names for this scheme."""
    kind = load_entry_point(found)
    if not callable(getattr(kind, "write", None)):
        raise unusable(found, "it has no write(batch)")
    return _adapted(target, kind)


def python_sink(target: Target) -> Sink:
    """``python:module:Class``; modules of the current folder are found too."""
    try:
        kind = resolve(target.path, str(Path.cwd()), target.trusted)
    except SkitterError:
        raise
    except Exception as error:
        raise UsageError(
            f"a sink cannot be imported: {target.path}: {type(error).__name__}: {error}",
            hint="it reads python:module:Class",
        ) from error
    if not callable(getattr(kind, "write", None)):
        raise UsageError(f"not a sink: {target.name}: it has no write(batch)", hint="a sink has a method write(batch)")
    return _adapted(target, kind)


def _adapted(target: Target, kind: Any) -> Sink:
    if isinstance(kind, type) and all(callable(getattr(kind, name, None)) for name in _WHOLE):
        whole: Sink = kind(target)
        return whole
    return UserSink(target, kind)


class UserSink:
    """The promises of a sink, kept for a class that only writes."""

    exact = False

    def __init__(self, target: Target, kind: Any) -> None:
        self.target = target.name
        self._from = target
        self._kind = kind
        self._writer: Any = None
        self._written: list[int] = []
        """Positions of a batch that is written, of which some items were refused: it comes again without them."""

    def take(self) -> None:
        with self._mapped():
            self._writer = _made(self._kind, self._from) if isinstance(self._kind, type) else self._kind
            self._call("open")

    def open(self, progress: SinkProgress) -> bytes:
        return progress.mark or _MARK

    def write(self, items: Sequence[Item]) -> bytes:
        positions = [item.position for item in items]
        if positions != self._written:
            pairs = keyed(items, self._from.key_fields, self.target)
            with self._mapped():
                refused = self._writer.write(pairs)
            if isinstance(refused, Mapping) and refused:
                self._refuse(items, pairs, refused)
        self._written = []
        return _MARK

    def _refuse(self, items: Sequence[Item], pairs: Sequence[tuple[str, Any]], refused: Mapping[Any, Any]) -> None:
        reasons = {
            item.position: str(refused[key]) for item, (key, _) in zip(items, pairs, strict=True) if key in refused
        }
        if reasons:
            self._written = [item.position for item in items if item.position not in reasons]
            raise BadItemsError(self.target, reasons)

    def finish(self) -> None:
        """Nothing to do: what was written is durable."""

    def close(self, *, complete: bool = False) -> None:  # noqa: ARG002  nothing served the resuming
        if self._writer is not None:
            with self._mapped():
                self._call("close")
            self._writer = None

    def _call(self, name: str) -> None:
        if callable(method := getattr(self._writer, name, None)):
            method()

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        try:
            yield
        except SkitterError:
            raise
        except (ConnectionError, TimeoutError) as error:
            raise SinkAwayError(f"{self.target}: {type(error).__name__}: {error}") from error
        except Exception as error:
            raise SinkError(
                f"a sink has failed: {self.target}: {type(error).__name__}: {error}",
                hint="nothing is lost: mend it and run the same command again; -v shows the traceback",
            ) from error


def _made(kind: Callable[..., Any], target: Target) -> Any:
    """With the target, if it takes one."""
    try:
        inspect.signature(kind).bind(target)
    except (TypeError, ValueError):
        return kind()
    return kind(target)
