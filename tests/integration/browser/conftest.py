"""A fetcher with a real browser, started once for the tests of a module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import pytest_asyncio

from skitter.app.fetchers import make_fetcher
from skitter.errors import FetchError
from skitter.fetch.browser.rendering_fetcher import RenderingFetcher
from skitter.fetch.contract import FetchRequest
from skitter.model.page import Page
from skitter.settings import Settings


class Renderer:
    """Renders as a worker would a page of a seed's host."""

    def __init__(self, **settings: Any) -> None:
        made = make_fetcher(Settings.from_layers([("test", {"timeout_seconds": 60, **settings})]))
        assert isinstance(made, RenderingFetcher)
        self.fetcher = made

    async def get(self, url: str, **fields: Any) -> Page:
        return await self.fetcher.fetch(FetchRequest(url=url, **{"trusted": True, "render": True, **fields}))

    async def error_class(self, url: str, **fields: Any) -> str:
        with pytest.raises(FetchError) as caught:
            await self.get(url, **fields)
        return caught.value.error_class

    @property
    def pool(self) -> Any:
        return self.fetcher._pool


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def make_renderer(services: Any) -> AsyncIterator[Callable[..., Renderer]]:
    services.need("chromium")
    made: list[Renderer] = []

    def make(**settings: Any) -> Renderer:
        made.append(Renderer(**settings))
        return made[-1]

    yield make
    for renderer in made:
        await renderer.fetcher.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def renderer(make_renderer: Callable[..., Renderer]) -> Renderer:
    return make_renderer()
