"""The scripts, as the server gets them: a method's own file after the six that all of them share."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

SHARED = ("1_job", "2_hosts", "3_requests", "4_leases", "5_outbox", "6_shards")
# A shard sends its status with every answer. (A function of Lua may use 60 names from outside; commit.lua, which
# uses most, has room for 20 more.)
_ANSWER = """
local function answer()
{own}
end
local told = answer()
if told and J and J.shards then return with_status(told) end
return told
"""
_CONSTANTS = re.compile(r"^local ([A-Z_]+(?:, [A-Z_]+)*) = ([0-9.]+(?:, [0-9.]+)*)$", re.MULTILINE)
_WORD = re.compile(r"(?<![\w'.])[A-Z][A-Z_]+(?![\w'])")


@cache
def script(name: str) -> tuple[bytes, str]:
    """A script and its hash."""
    shared, values = _shared()
    final = (shared + _inlined(_ANSWER.format(own=_read(name)), dict(values))).encode()
    return final, hashlib.sha1(final, usedforsecurity=False).hexdigest()


@cache
def _shared() -> tuple[str, dict[str, str]]:
    """What all have in common, and its names for numbers: made once, as each process uses a dozen scripts."""
    values: dict[str, str] = {}
    return _inlined("\n".join(map(_read, SHARED)), values), values


def _read(part: str) -> str:
    return Path(__file__).with_name("lua").joinpath(f"{part}.lua").read_text()


def _inlined(source: str, values: dict[str, str]) -> str:
    """With names for numbers replaced by the numbers: Lua has room for 200 locals, and a number is faster than one.

    Those of the source join ``values``. Lines keep their places, so that an error's line number means something.
    """

    def take(found: re.Match[str]) -> str:
        values.update(zip(found[1].split(", "), found[2].split(", "), strict=True))
        return ""

    return _WORD.sub(lambda found: values.get(found[0], found[0]), _CONSTANTS.sub(take, source))
