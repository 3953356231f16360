"""Sources of proxies: what is read from them, what is refused, and what stays in force when one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rig.web import Site
from skitter.app import proxy_sources
from skitter.app.proxy_sources import proxy_of_line, read_source, shown_source
from skitter.errors import BackendError, SettingsError
from skitter.node.proxy_refresher import ProxyRefresher
from skitter.observe import events

PASSWORD = "s3cret-w0rd"


@pytest.mark.parametrize(
    ("line", "proxy"),
    [
        ("", ""),
        ("  # a comment", ""),
        ("10.0.0.1:3128", "http://10.0.0.1:3128"),
        ("gate.example:3128:me:p@ss", "http://me:p%40ss@gate.example:3128"),
        ("gate.example:3128:me:p+ss:word", "http://me:p%2Bss%3Aword@gate.example:3128"),
        ("me:pw@gate.example:3128", "http://me:pw@gate.example:3128"),
        (" socks5h://me:pw@gate.example ", "socks5h://me:pw@gate.example"),
    ],
)
def test_a_line_is_a_proxy(line: str, proxy: str) -> None:
    assert proxy_of_line(line) == proxy


@pytest.mark.parametrize("line", ["gate.example:port", "htp://gate.example", "<html>", "http://a.example/page"])
def test_another_line_is_refused(line: str) -> None:
    with pytest.raises(SettingsError, match="bad value"):
        proxy_of_line(line)


def test_files_and_commands_are_read(tmp_path: Path) -> None:
    path = tmp_path / "proxies.txt"
    path.write_text("# list\nhttp://a.example:1\n\nhttp://b.example:2\nhttp://a.example:1\n")
    expected = ["http://a.example:1", "http://b.example:2"]
    for source in (str(path), f"file:{path}", f"command:cat {path}"):
        assert read_source(source) == expected
    assert read_source("socks5://c.example") == ["socks5://c.example"]


@pytest.fixture
def list_url() -> Iterator[str]:
    with Site({"/list": (200, {}, b"a.example:1\nb.example:2\n"), "/other": (500, {}, b"")}) as site:
        yield site.base


def test_a_list_is_fetched(list_url: str) -> None:
    expected = ["http://a.example:1", "http://b.example:2"]
    assert read_source(f"{list_url}/list?key=x") == read_source(f"url:{list_url}/list") == expected
    assert read_source(list_url) == [list_url], "a URL without a path is a proxy"
    with pytest.raises(BackendError, match="500") as caught:
        read_source(f"{list_url}/other")
    assert caught.value.__cause__.closed, "the connection of a refused list is left open"


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("nowhere.txt", "cannot be read: nowhere.txt"),
        ("command:false", "exit code 1"),
        ("command:no-such-program --key s3cret-w0rd", "cannot be read: command:no-such-program"),
        ("command:true", "is empty"),
        ("url:ftp://a.example/list", "only http and https"),
    ],
)
def test_what_cannot_be_read_is_named_without_secrets(source: str, words: str) -> None:
    with pytest.raises(BackendError, match=words) as caught:
        read_source(source)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in shown_source(f"https://me:{PASSWORD}@provider.example/list")


def test_a_package_may_have_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_sources, "find_entry_point", lambda _, name: name if name == "vendor" else None)
    monkeypatch.setattr(proxy_sources, "load_entry_point", lambda _: lambda rest: [f"http://{rest}.example:1"])
    assert read_source("vendor:plan-b") == ["http://plan-b.example:1"]
    with pytest.raises(SettingsError, match="unknown source of proxies"):
        read_source("nobody:x")


class Pool:
    """What a refresher has told."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    async def register_proxy(self, url: str, _owner: str, lifetime_seconds: float | None = None) -> str:
        assert lifetime_seconds
        self.calls.append(("register", url))
        return f"id of {url}"

    async def remove_proxy(self, proxy_id: str) -> int:
        self.calls.append(("remove", proxy_id))
        return 0


async def test_a_source_that_fails_leaves_the_last_list_in_force() -> None:
    pool, told, reads = Pool(), list[events.Event](), asyncio.Queue[Any]()
    lists: list[Any] = [["a", "b"], BackendError("unavailable"), BackendError("still unavailable"), ["b", "c"]]

    def read(_: str) -> list[str]:
        found = lists.pop(0) if lists else ["b", "c"]
        loop.call_soon_threadsafe(reads.put_nowait, found)
        if isinstance(found, BackendError):
            raise found
        return found

    loop = asyncio.get_running_loop()
    refresher = ProxyRefresher(
        pool,  # type: ignore[arg-type]
        ["list.txt"],
        read=read,
        shown=str,
        owner="node",
        refresh_seconds=0.01,
        on_event=told.append,
    )
    await refresher.begin()
    assert pool.calls == [("register", "a"), ("register", "b")]
    task = asyncio.create_task(refresher.run())
    async with asyncio.timeout(60):
        for _ in range(3):
            await reads.get()
        assert pool.calls == [("register", "a"), ("register", "b")]
        for _ in range(3):
            await reads.get()
    task.cancel()
    await asyncio.wait([task])
    assert pool.calls[2:] == [("register", "c"), ("remove", "id of a")]
    assert [event.kind for event in told] == [events.PROXIES_REGISTERED, events.PROXY_LIST_TROUBLE]
