"""The fetcher that is skitter's own keeps the contract."""

from __future__ import annotations

import msgspec

from skitter.agent import Credential
from skitter.app.fetchers import make_fetcher
from skitter.fetch.contract import Fetcher
from skitter.settings import Settings
from skitter.testing import FetcherContract


class TestCurlFetcher(FetcherContract):
    """All of it."""

    def make_fetcher(self, settings: Settings) -> Fetcher:
        return make_fetcher(settings)


class TestAuthenticatingFetcher(FetcherContract):
    """All of it, with credentials for some other origin."""

    def make_fetcher(self, settings: Settings) -> Fetcher:
        credential = Credential(origin="http://other.example", kind="digest", user="me", password="s3cret")
        run = msgspec.structs.replace(settings.run, credentials=(credential,))
        return make_fetcher(msgspec.structs.replace(settings, run=run))
