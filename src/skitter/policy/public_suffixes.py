"""Registrable domains by the public suffix list: the name below which hosts may share cookies."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Protocol


class _SuffixList(Protocol):
    def privatesuffix(self, domain: str) -> str | None: ...


@cache
def load_suffixes() -> _SuffixList:
    """Read the list, once a process."""
    # Imported on demand: the list takes 30 ms to read, and most crawls meet the first cookie later, if at all.
    from publicsuffixlist import PublicSuffixList

    suffixes: _SuffixList = PublicSuffixList()
    return suffixes


@lru_cache(maxsize=65_536)
def registrable_domain(host_name: str) -> str:
    """Return the registrable domain of a host; the host itself, if it is an address, one label or a public suffix."""
    name = host_name.rstrip(".")
    if is_address(name):
        return name
    return load_suffixes().privatesuffix(name) or name


def is_public_suffix(name: str) -> bool:
    """Return whether hosts of different owners stand below this name."""
    return not is_address(name) and ("." not in name or load_suffixes().privatesuffix(name) is None)


def is_address(name: str) -> bool:
    """Return whether a host is an IP address."""
    return name.startswith("[") or name.rpartition(".")[2].isdecimal()
