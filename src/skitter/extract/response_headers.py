"""Headers of a response: case-insensitive names, text values, repeated headers kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


class Headers(Mapping[str, str]):
    """Read-only mapping of headers. ``headers["x"]`` and ``get`` return the first value, ``getlist`` returns all."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][0]

    def getlist(self, name: str) -> list[str]:
        """Return all values of a header, as received, or an empty list."""
        return list(self._values.get(name.lower(), ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({self._values!r})"
