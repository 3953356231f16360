"""What only Lua can say of the scripts: how much room they have for more, and which hosts are public to them.

Lua allows 200 locals and 60 names from outside in a function. The server compiles each script, and its bytecode says
what every function uses.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest_asyncio

from rig.public_hosts import PRIVATE, PUBLIC
from skitter.frontier.redis import scripts
from skitter.frontier.redis.client import RedisServer
from skitter.policy.politeness import is_public
from skitter.redis_driver.address import parse_address

LOCALS, OUTER_NAMES = 200, 60
SPARE_LOCALS, SPARE_OUTER_NAMES = 20, 5
FILES = {path.stem for path in Path(scripts.__file__).with_name("lua").glob("*.lua")}
SCHEMES_AND_PORTS = (("http:", ""), ("https:", ":8443"))
METHODS = sorted(FILES - set(scripts.SHARED) - {"consistency", "intake_records"})


class Used(NamedTuple):
    """What one function uses."""

    line: int
    locals: int
    """The most that are in scope at once."""
    outer_names: int


class Bytecode:
    """A reader of what ``string.dump`` of Lua 5.1 returns."""

    def __init__(self, dumped: bytes) -> None:
        assert dumped[:5] == b"\x1bLua\x51"
        assert dumped[6:12] == bytes([1, 4, 8, 4, 8, 0]), "a machine of 64 bits, with the lowest byte first"
        self._dumped, self._at = dumped, 12

    def functions(self) -> Iterator[Used]:
        """Read a function, and those that are defined in it."""
        self._skip(self._number("<Q"))  # the source
        line, _, outer_names, *_ = self._numbers("<iiBBBB")
        self._skip(4 * self._number("<i"))  # instructions
        for _ in range(self._number("<i")):  # constants
            kind = self._number("<B")
            self._skip({0: 0, 1: 1, 3: 8}[kind] if kind != 4 else self._number("<Q"))
        for _ in range(self._number("<i")):
            yield from self.functions()
        self._skip(4 * self._number("<i"))  # the line of each instruction
        ends: list[tuple[int, int]] = []
        for _ in range(self._number("<i")):
            self._skip(self._number("<Q"))  # the name of a local
            first, last = self._numbers("<ii")
            ends += [(first, 1), (last, -1)]
        for _ in range(self._number("<i")):
            self._skip(self._number("<Q"))  # a name from outside
        most = count = 0
        for _, step in sorted(ends):
            count += step
            most = max(most, count)
        yield Used(line, most, outer_names)

    def _skip(self, size: int) -> None:
        self._at += size

    def _numbers(self, form: str) -> tuple[int, ...]:
        found = struct.unpack_from(form, self._dumped, self._at)
        self._at += struct.calcsize(form)
        return found

    def _number(self, form: str) -> int:
        return self._numbers(form)[0]


@pytest_asyncio.fixture
async def server(services: Any) -> Any:
    server = RedisServer(parse_address(services.need("redis")["url"]))
    yield server
    await server.close()


async def used_by(server: RedisServer, source: str) -> list[Used]:
    """What each function of a script uses, as the server compiles it."""
    dumped = await server.command("EVAL", "return string.dump(assert(loadstring(ARGV[1])))", 0, source)
    return list(Bytecode(dumped).functions())


async def test_each_script_has_room_for_more_locals_and_outer_names(server: RedisServer) -> None:
    short, rows = [], []
    for name in METHODS:
        used = await used_by(server, scripts.script(name)[0].decode())
        by_locals, by_names = max(used, key=lambda one: one.locals), max(used, key=lambda one: one.outer_names)
        spare_locals, spare_names = LOCALS - by_locals.locals, OUTER_NAMES - by_names.outer_names
        rows.append(
            f"{name:<24} {spare_locals:>3} of {LOCALS} locals (line {by_locals.line}),"
            f" {spare_names:>2} of {OUTER_NAMES} outer names (line {by_names.line})"
        )
        if spare_locals < SPARE_LOCALS or spare_names < SPARE_OUTER_NAMES:
            short.append(rows[-1])
    print("left in each script:", *rows, sep="\n")  # noqa: T201  a figure for whoever adds to the scripts
    assert not short, "put functions of one noun into one table"


async def test_the_room_is_what_lua_itself_allows(server: RedisServer) -> None:
    """A script that uses all of it is compiled, one that uses more is not."""

    def script(names: int, outer_names: int) -> str:
        own = f"local {', '.join(f'a{number}' for number in range(names))}"
        used = ", ".join(f"a{number}" for number in range(outer_names))
        return f"do local unused end\n{own}\nreturn function() return {used} end"

    most = await used_by(server, script(LOCALS, OUTER_NAMES))
    assert [(one.locals, one.outer_names) for one in most] == [(0, OUTER_NAMES), (LOCALS, 0)]
    for names, outer_names, limit in ((LOCALS + 1, 1, "local variables"), (LOCALS, OUTER_NAMES + 1, "upvalues")):
        refused = await server.command("EVAL", "return select(2, loadstring(ARGV[1]))", 0, script(names, outer_names))
        assert limit in refused.decode()


async def test_the_hosts_that_are_public_in_python_are_public_in_lua(server: RedisServer) -> None:
    keys = [f"{scheme}//{name}{port}" for name in (*PUBLIC, *PRIVATE) for scheme, port in SCHEMES_AND_PORTS]
    keys += [
        "",
        "a.example",
        "http:",
        "http:/a.example",
        "//",
        "http://a.example/x",
        "http://[a.example",
        "http://a.b\n.c",
    ]
    shared, _ = scripts._shared()
    loop = "\nlocal told = {} for place, key in ipairs(ARGV) do told[place] = politeness.is_public(key) end return told"
    told = await server.command("EVAL", shared + loop, 1, "skitter:{job:0}:job", *keys)
    assert dict(zip(keys, map(bool, told), strict=True)) == {key: is_public(key) for key in keys}
