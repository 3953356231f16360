"""Which fetcher the setting ``fetcher`` means: skitter's own, or one of an installed package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from skitter.entry_points import FETCHERS, entry_point_names, find_entry_point, load_entry_point, unusable
from skitter.errors import SettingsError, SkitterError
from skitter.fetch.contract import Fetcher
from skitter.settings import CURL, Settings

if TYPE_CHECKING:
    from skitter.fetch.page_cache import PageCache


def make_fetcher(settings: Settings) -> Fetcher:
    """The fetcher that the settings name, with their credentials, behind a cache if they name one."""
    fetcher = _uncached(settings)
    if settings.run.credentials:
        from skitter.fetch.credentials import AuthenticatingFetcher

        _check_credentials(settings)
        fetcher = AuthenticatingFetcher(fetcher, settings.run.credentials)
    if not settings.run.cache_dir:
        return fetcher
    from skitter.fetch.page_cache import CachingFetcher

    return CachingFetcher(fetcher, _cache(settings))


def _cache(settings: Settings) -> PageCache:
    # A crawl without one starts without its module.
    from skitter.fetch.page_cache import PageCache

    return PageCache(Path(settings.run.cache_dir), settings.run.cache_seconds)


def _uncached(settings: Settings) -> Fetcher:
    plain = _plain(settings)
    # Few imports: whether anything will be rendered is not known yet.
    from skitter.fetch.browser.chromium import find_chromium, reason_against

    run = settings.run
    if reason_against(run.browser_path, run.browser_pages):
        return plain
    from skitter.fetch.browser.rendering_fetcher import RenderingFetcher

    program = find_chromium(run.browser_path)
    assert program is not None, "there is no reason against it"
    return RenderingFetcher(plain, settings, program)


def _plain(settings: Settings) -> Fetcher:
    if settings.fetch.fetcher == CURL:
        from skitter.fetch.engine import CurlFetcher

        return CurlFetcher(
            settings.fetch,
            proxy=settings.run.proxy,
            max_buffered_bytes=settings.run.max_buffered_bytes,
            max_idle_bytes=settings.run.max_idle_bytes,
        )
    return _made_by_package(settings)


def check_fetcher(settings: Settings) -> None:
    """Raise what ``make_fetcher`` would for a name that nobody has, or a folder that cannot be had."""
    if settings.run.cache_dir:
        _cache(settings)
    if settings.run.credentials:
        _check_credentials(settings)
    name = settings.fetch.fetcher
    if name != CURL and find_entry_point(FETCHERS, name) is None:
        raise _unknown(name)


def _check_credentials(settings: Settings) -> None:
    """SettingsError for credentials that cannot be used."""
    from skitter.fetch.credentials import check_certificates

    credentials, fetcher = settings.run.credentials, settings.fetch.fetcher
    check_certificates(credentials)
    if fetcher != CURL and (found := next((one for one in credentials if one.certificate), None)) is not None:
        raise SettingsError(
            f"only curl supports client certificates: credentials for {found.origin}, with fetcher={fetcher}",
            hint="configure the certificate in that fetcher, or use curl",
        )


def _made_by_package(settings: Settings) -> Fetcher:
    found = find_entry_point(FETCHERS, settings.fetch.fetcher)
    if found is None:
        raise _unknown(settings.fetch.fetcher)
    factory = load_entry_point(found)
    try:
        fetcher = factory(settings)
    except SkitterError:
        # The factory says itself what it cannot do, above all: a setting that it has no support for.
        raise
    except Exception as error:
        raise unusable(found, f"it cannot be created: {type(error).__name__}: {error}") from error
    if missing := [name for name in ("fetch", "close") if not callable(getattr(fetcher, name, None))]:
        raise unusable(found, f"its {type(fetcher).__name__} has no {' and no '.join(missing)}")
    return cast(Fetcher, fetcher)


def _unknown(name: str) -> SettingsError:
    known = ", ".join(dict.fromkeys([CURL, *entry_point_names(FETCHERS)]))
    return SettingsError(f"no such fetcher: {name}", hint=f"installed: {known}; other packages can add more")
