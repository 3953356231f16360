"""The fetcher that is skitter's own keeps the contract."""

from __future__ import annotations

from skitter.app.fetchers import make_fetcher
from skitter.fetch.contract import Fetcher
from skitter.settings import Settings
from skitter.testing import FetcherContract


class TestCurlFetcher(FetcherContract):
    """All of it."""

    def make_fetcher(self, settings: Settings) -> Fetcher:
        return make_fetcher(settings)
