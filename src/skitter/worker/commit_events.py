"""What a commit tells whoever follows the crawl: links, hosts in trouble, robots.txt."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from skitter.model.outcome import Committed, HostTrouble, Outcome
from skitter.model.proxy import ProxyFault
from skitter.observe import events


def tell_commit(worker: str, outcomes: Sequence[Outcome], answer: Committed) -> None:
    """The events of one commit."""
    for trouble in answer.troubles:
        events.emit(host_event(worker, trouble))
    if outcomes[0].lease.proxy or outcomes[-1].lease.proxy:
        # Of a job with a pool: all leases but that of the seeding have one.
        _tell_proxies(worker, outcomes, answer.accepted)
    if not events.is_logged(events.LINKS_COMMITTED):
        return
    accepted = [outcome for outcome, is_accepted in zip(outcomes, answer.accepted, strict=True) if is_accepted]
    links = sum(len(outcome.links) for outcome in accepted)
    # Most links that stand on every page are known to the worker and never leave it.
    known = sum(outcome.tally.get("duplicates", 0) for outcome in accepted)
    events.emit(
        events.LINKS_COMMITTED(
            worker=worker,
            pages=len(accepted),
            refused=len(outcomes) - len(accepted),
            new=answer.new_links,
            duplicates=known + links - answer.new_links,
        )
    )
    for outcome in accepted:
        if outcome.news is not None and (robots := outcome.news.robots) is not None:
            events.emit(
                events.ROBOTS_READ(
                    worker=worker,
                    host=outcome.lease.host_key,
                    bytes=len(robots.text),
                    crawl_delay_seconds=robots.crawl_delay_seconds,
                )
            )


def _tell_proxies(worker: str, outcomes: Sequence[Outcome], accepted: Sequence[bool]) -> None:
    for outcome, is_accepted in zip(outcomes, accepted, strict=True):
        if not is_accepted or outcome.proxy_news is None:
            continue
        fault, lease = outcome.proxy_news.fault, outcome.lease
        told = {"worker": worker, "proxy": lease.proxy, "host": lease.host_key, "reason": outcome.error}
        if fault is ProxyFault.BANNED:
            events.emit(events.PROXY_BANNED(**told))
        elif fault in (ProxyFault.PROXY, ProxyFault.UNSURE):
            events.emit(events.PROXY_FAILED(**told))


def host_event(worker: str, trouble: HostTrouble) -> events.Event:
    """The event of one host in trouble."""
    if trouble.rule:
        return events.HOST_STOPPED(worker=worker, host=trouble.key, rule=trouble.rule, pages=trouble.pages)
    shared = {"worker": worker, "host": trouble.key, "error_class": trouble.error_class, "strikes": trouble.strikes}
    if trouble.given_up:
        return events.HOST_GIVEN_UP(**shared)
    until = datetime.now(UTC) + timedelta(seconds=trouble.pause_seconds)
    return events.HOST_BACKOFF(
        **shared, seconds=round(trouble.pause_seconds, 1), until=until.isoformat(timespec="seconds")
    )
