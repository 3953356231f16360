"""Fields as columns: whatever a page has brought as a name, a column of it can be made and found again."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

import msgspec

KEY = "_key"
"""The column that names a row, in tables that skitter makes."""
_HASH_LETTERS = 8
KEY_BYTES = 700
"""Of a key in that column. Indexes have limits: 2,704 bytes in PostgreSQL, 768 letters in MariaDB."""


class Rules(msgspec.Struct, frozen=True, kw_only=True):
    """What a database says about names of columns."""

    longest_bytes: int
    folds_case: bool
    """``Title`` and ``title`` would be one column."""
    reserved: frozenset[str] = frozenset()
    """Also in quotes."""
    plane: int = 0x10FFFF
    """The highest letter."""


def column_of(field: str, taken: Collection[str], rules: Rules) -> str:
    """The column of a field, given the columns that are there.

    Its own name where that is possible. Otherwise the name is cut or mended and ends in a hash of the field, so that
    it is the same at every start and no two fields share a column.
    """
    free = field.lower() not in rules.reserved
    if free and field in taken:
        return field
    usable = _usable(field, rules)
    if free and usable == field and not _is_taken(field, taken, rules):
        return field
    end = "_" + hashlib.blake2b(field.encode(errors="surrogatepass"), digest_size=_HASH_LETTERS // 2).hexdigest()
    return _cut(usable, rules.longest_bytes - len(end)) + end


def _usable(field: str, rules: Rules) -> str:
    """Empty, unprintable and unspeakable names are as good as any when they come from a page."""
    letters = (letter if letter.isprintable() and ord(letter) <= rules.plane else "_" for letter in field)
    return _cut("".join(letters).strip(), rules.longest_bytes)


def _is_taken(field: str, taken: Iterable[str], rules: Rules) -> bool:
    if not field:
        return True
    folded = field.lower()
    return rules.folds_case and any(column.lower() == folded for column in taken)


def _cut(name: str, longest_bytes: int) -> str:
    return name.encode()[:longest_bytes].decode(errors="ignore")


def short_key(key: str, longest_bytes: int = KEY_BYTES) -> str:
    """A key that every index takes. A long one keeps its beginning, for people, and its hash, for exactness."""
    stored = key.encode()
    if len(stored) <= longest_bytes:
        return key
    return f"{_cut(key, longest_bytes - 100)}…{hashlib.blake2b(stored, digest_size=32).hexdigest()}"
