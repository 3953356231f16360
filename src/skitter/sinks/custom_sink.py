"""Custom sinks, named by an entry point or by ``python:module:Class``: a class with ``write(batch)``.

``write`` gets a list of ``(key, record)``, and has made them durable when it returns. After a crash a batch may come
again, so the promise is: at least once, with a stable key. The class may have more, and needs none of it:

- an ``__init__`` that takes the Target (its ``url``-like parts, ``options``, ``password``);
- ``open()`` before the first batch and ``close()`` after the last;
- from ``write``, a mapping of keys to reasons: items that it will never take. They go to the rejects file.

ConnectionError and TimeoutError (and skitter's SinkUnavailableError) mean that the server is unavailable: the batch
comes again.
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
from skitter.errors import BadItemsError, SinkError, SinkUnavailableError, SkitterError, UsageError
from skitter.model.import_ref import resolve
from skitter.model.item import Item
from skitter.model.job import SinkProgress
from skitter.sinks.contract import Sink
from skitter.sinks.item_keys import items_with_keys
from skitter.sinks.targets import Target

_MARK = b"1"
_WHOLE = ("take", "open", "write", "finish", "close")
"""The methods of a class that implements the whole sink contract."""


def entry_point_sink(target: Target, found: EntryPoint) -> Sink:
    """Return the sink that another package registers for this scheme."""
    kind = load_entry_point(found)
    if not callable(getattr(kind, "write", None)):
        raise unusable(found, "it has no write(batch)")
    return _adapted(target, kind)


def python_sink(target: Target) -> Sink:
    """Return the sink of ``python:module:Class``; modules of the current folder are found too."""
    try:
        kind = resolve(target.path, str(Path.cwd()), target.trusted)
    except SkitterError:
        raise
    except Exception as error:
        raise UsageError(
            f"a sink cannot be imported: {target.path}: {type(error).__name__}: {error}",
            hint="write it as python:module:Class",
        ) from error
    if not callable(getattr(kind, "write", None)):
        raise UsageError(
            f"not a sink: {target.name}: it has no write(batch)", hint="write a class with a method write(batch)"
        )
    return _adapted(target, kind)


def _adapted(target: Target, kind: Any) -> Sink:
    if isinstance(kind, type) and all(callable(getattr(kind, name, None)) for name in _WHOLE):
        whole: Sink = kind(target)
        return whole
    return CustomSink(target, kind)


class CustomSink:
    """The sink contract for a class that has only ``write``."""

    exact = False

    def __init__(self, target: Target, kind: Any) -> None:
        self.target = target.name
        self._from = target
        self._kind = kind
        self._writer: Any = None
        self._written: list[int] = []
        """Positions of the accepted items of a batch that was partly refused; it comes again with these only."""

    def take(self) -> None:
        with self._sink_errors():
            self._writer = _made(self._kind, self._from) if isinstance(self._kind, type) else self._kind
            self._call("open")

    def open(self, progress: SinkProgress) -> bytes:
        return progress.mark or _MARK

    def write(self, items: Sequence[Item]) -> bytes:
        positions = [item.position for item in items]
        if positions != self._written:
            pairs = items_with_keys(items, self._from.key_fields, self.target)
            with self._sink_errors():
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
        """Do nothing: ``write`` has made the items durable."""

    def close(self, *, complete: bool = False) -> None:  # noqa: ARG002  nothing served the resuming
        if self._writer is not None:
            with self._sink_errors():
                self._call("close")
            self._writer = None

    def _call(self, name: str) -> None:
        if callable(method := getattr(self._writer, name, None)):
            method()

    @contextmanager
    def _sink_errors(self) -> Iterator[None]:
        try:
            yield
        except SkitterError:
            raise
        except (ConnectionError, TimeoutError) as error:
            raise SinkUnavailableError(f"{self.target}: {type(error).__name__}: {error}") from error
        except Exception as error:
            raise SinkError(
                f"a sink has failed: {self.target}: {type(error).__name__}: {error}",
                hint="nothing is lost: fix it and run the same command again; -v shows the traceback",
            ) from error


def _made(kind: Callable[..., Any], target: Target) -> Any:
    """Make an instance, with the target if its constructor takes one."""
    try:
        inspect.signature(kind).bind(target)
    except (TypeError, ValueError):
        return kind()
    return kind(target)
