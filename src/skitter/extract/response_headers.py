"""Headers of a response: case-insensitive names, text values, repeated headers kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping


class Headers(Mapping[str, str]):
    """A read-only mapping. ``headers["x"]`` and ``get`` give the first value, ``getlist`` all of them."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        self._values: dict[str, list[str]] = {}
        for name, value in pairs:
            self._values.setdefault(name.lower(), []).append(value)

    def __getitem__(self, name: str) -> str:
        return self._values[name.lower()][0]

    def getlist(self, name: str) -> list[str]:
        """All values of a header, as received; none is an empty list."""
        return list(self._values.get(name.lower(), ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Headers({self._values!r})"
