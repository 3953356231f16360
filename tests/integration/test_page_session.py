"""A session of single pages: what a prompt asks for, one page after the other."""

from __future__ import annotations

import asyncio

import pytest

from rig.web import NOT_FOUND, Site
from skitter.app.page_session import PageSession
from skitter.errors import FetchError
from skitter.model.request import Request
from skitter.settings import Settings


def small_site() -> Site:
    busy = (503, {}, b"ok")
    return Site({"*": (200, {}, b"ok"), "/busy": busy, "/robots.txt": NOT_FOUND})


async def test_a_page_that_was_interrupted_holds_up_nothing_and_every_status_is_shown() -> None:
    with small_site() as site:
        site.hold("/slow")
        async with PageSession(Settings.from_layers([("test", {"per_host": 1})])) as session:
            slow = asyncio.create_task(session.fetch(Request(site.url("/slow"))))
            await site.until(lambda: "/slow" in site.asked())
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            assert (await session.fetch(Request(site.url("/a")))).body == b"ok"
            assert (await session.fetch(Request(site.url("/busy")))).status == 503
        # robots.txt is asked for anew after an interruption, and then kept.
        assert site.asked() == ["/robots.txt", "/slow", "/robots.txt", "/a", "/busy"]


async def test_a_host_that_came_back_is_asked_again() -> None:
    async with PageSession(Settings()) as session:
        with pytest.raises(FetchError, match="could not be reached: connection refused"):
            await session.fetch(Request("http://127.0.0.1:1/"))
        with small_site() as site:
            with pytest.raises(FetchError):
                await session.fetch(Request("http://127.0.0.1:1/"))
            assert (await session.fetch(Request(site.url("/a")))).status == 200
