"""Sites that answer every path alike, each as badly behaved as its test wants, and fetchers to meet them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from rig.web import Answer, Site
from rig.web_connection import CERTIFICATE
from rig.web_faults import response
from skitter.errors import FetchError
from skitter.fetch.contract import FetchRequest
from skitter.fetch.engine import CurlFetcher
from skitter.model.page import Page
from skitter.settings import Fetch


class Servers:
    """Starts sites that answer every path alike."""

    answer = staticmethod(response)

    def __init__(self, make: Callable[..., Site]) -> None:
        self._make = make

    def __call__(self, answer: Answer, **options: Any) -> Site:
        return self._make({"*": answer}, **options)


@pytest.fixture
def serve(make_site: Callable[..., Site]) -> Servers:
    return Servers(make_site)


@pytest.fixture
async def make_fetcher() -> AsyncIterator[Callable[..., CurlFetcher]]:
    made: list[CurlFetcher] = []

    def make(settings: Fetch | None = None, **options: Any) -> CurlFetcher:
        made.append(CurlFetcher(settings or Fetch(), **options))
        return made[-1]

    yield make
    for fetcher in made:
        await fetcher.close()


@pytest.fixture
def fetcher(make_fetcher: Callable[..., CurlFetcher]) -> CurlFetcher:
    return make_fetcher()


class Client:
    """Fetches as the worker would a seed's pages."""

    def __init__(self, fetcher: CurlFetcher) -> None:
        self.fetcher = fetcher

    async def get(self, url: str, **fields: Any) -> Page:
        return await self.fetcher.fetch(FetchRequest(url=url, **{"trusted": True, **fields}))

    async def kind(self, url: str, **fields: Any) -> str:
        """The class of the error that this ends with."""
        with pytest.raises(FetchError) as caught:
            await self.get(url, **fields)
        assert "\n" not in str(caught.value)
        return caught.value.error_class


@pytest.fixture
def client(fetcher: CurlFetcher) -> Client:
    return Client(fetcher)


@pytest.fixture
def make_client(make_fetcher: Callable[..., CurlFetcher]) -> Callable[..., Client]:
    def make(settings: Fetch | None = None, **options: Any) -> Client:
        return Client(make_fetcher(settings, **options))

    return make


@pytest.fixture
def certificate() -> str:
    return str(CERTIFICATE)
