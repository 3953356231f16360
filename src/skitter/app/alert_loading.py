"""The alerts of a node while it works; most nodes have none, and load nothing of them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol

from skitter.frontier.contract import Frontier
from skitter.settings import Run

if TYPE_CHECKING:
    from skitter.app.alerts import OnEvent


def check_alerts(run: Run) -> None:
    """SettingsError for alerts that cannot work."""
    if run.alerts:
        from skitter.app.alerts import check_rules

        check_rules(run.alerts)


def alerts_of(frontier: Frontier, url: str, job: str, run: Run, on_event: OnEvent) -> AbstractAsyncContextManager[None]:
    """Watch a job while the body works, if the node has rules."""
    if not run.alerts:
        return nullcontext()
    from skitter.app.alerts import alerts_watched

    return alerts_watched(frontier, url, job, run, on_event)


class WatchedStore(Protocol):
    """The jobs of a store, each with the URL of its frontier."""

    async def jobs(self) -> list[str]: ...

    def url_of(self, job: str) -> str: ...


def store_alerts(store: WatchedStore, run: Run) -> AbstractAsyncContextManager[None]:
    """Watch all jobs of a store while the body works, if there are rules."""
    if not run.alerts:
        return nullcontext()
    from skitter.app.alerts import store_alerts_watched

    return store_alerts_watched(store, run)
