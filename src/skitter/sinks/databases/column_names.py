"""Column names for the fields of items, whatever text a page uses as a field name."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

import msgspec

KEY = "_key"
"""The column that names a row, in tables that skitter makes."""
_HASH_LETTERS = 8
KEY_BYTES = 700
"""The longest key in that column. Indexes have limits: 2,704 bytes in PostgreSQL, 768 letters in MariaDB."""


class NameRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules of a database for column names."""

    longest_bytes: int
    folds_case: bool
    """Whether ``Title`` and ``title`` are one column."""
    reserved: frozenset[str] = frozenset()
    """Names that are refused even in quotes."""
    highest_codepoint: int = 0x10FFFF
    """The highest code point that names may contain."""


def column_of(field: str, taken: Collection[str], rules: NameRules) -> str:
    """Return the column of a field, given the columns that exist.

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


def _usable(field: str, rules: NameRules) -> str:
    """Replace what the database refuses in a name; pages bring empty and unprintable names too."""
    letters = (letter if letter.isprintable() and ord(letter) <= rules.highest_codepoint else "_" for letter in field)
    return _cut("".join(letters).strip(), rules.longest_bytes)


def _is_taken(field: str, taken: Iterable[str], rules: NameRules) -> bool:
    if not field:
        return True
    folded = field.lower()
    return rules.folds_case and any(column.lower() == folded for column in taken)


def _cut(name: str, longest_bytes: int) -> str:
    return name.encode()[:longest_bytes].decode(errors="ignore")


def short_key(key: str, longest_bytes: int = KEY_BYTES) -> str:
    """Shorten a key for indexes: a long one keeps its beginning, for people, and ends in its hash."""
    stored = key.encode()
    if len(stored) <= longest_bytes:
        return key
    return f"{_cut(key, longest_bytes - 100)}…{hashlib.blake2b(stored, digest_size=32).hexdigest()}"
