"""Politeness rules: when a host may be requested again, and when it is given up.

They work on the host's record only, so that they hold for the whole cluster: every
frontier applies them inside the transaction that grants or commits.
"""

from __future__ import annotations

import re

from skitter.model.host import Halt, Host, Phase
from skitter.policy.host_budgets import Budgets
from skitter.settings import Politeness, Retry

MAX_PAUSE_SECONDS = 86_400.0
"""No host is blocked for longer than a day at a time, whatever its Retry-After says."""
MAX_RECONNECT_SECONDS = 3_600.0
MAX_START_SECONDS = 2.0
LAST_COPY_SECONDS = 3_600.0
"""How long the last good copy of an unreadable robots.txt is used before the next attempt."""
BLOCK_LIMIT = 8
"""Blocks in a row, without one normal answer between, after which a request or a whole host is given up."""
GIVEN_UP_CLASS = "given_up"
"""The error class of requests whose host an operator has given up."""
GIVEN_UP_REASON = "an operator has given the host up"
HOST_DOWN = "the host is down: "
"""Stands before the reason of requests that were not tried because their host has failed too often."""
HELD_CLASS = "callback"
"""The error class of a host whose page holds, or has held, its worker."""
LATENCY_WEIGHT = 0.2
"""Weight of a new latency in the moving average."""
MAX_DOUBLINGS = 40
"""Maximum doublings of a pause, so that the float cannot overflow."""
MAX_PACE_SECONDS = 0.25
"""The longest delay that a worker keeps by itself. A longer one would hold a slot of it for nothing."""
PACE_WINDOW_SECONDS = 0.35
"""Added to the start window of what a worker paces: its leases wait for one another."""
PER_HOST = 8
PUBLIC_PER_HOST, PUBLIC_DELAY_SECONDS = 2, 0.5
"""The pace of a public host that nobody has set one for (docs/adr/0096-gentle-by-default.md). The delay is longer than
``MAX_PACE_SECONDS``, so that the frontier keeps it and no slot of a worker waits for it."""
PUBLIC_PACE = f"public hosts: {PUBLIC_PER_HOST} requests at a time, {PUBLIC_DELAY_SECONDS:g} s apart"
PRIVATE_NAMES = (
    "[^.:]*[.]? .*[.]localhost[.]? 0[.][0-9.]* 10[.][0-9.]* 127[.][0-9.]* 169[.]254[.][0-9.]* 192[.]168[.][0-9.]*"
    " 172[.]1[6-9][.][0-9.]* 172[.]2[0-9][.][0-9.]* 172[.]3[01][.][0-9.]* 100[.]6[4-9][.][0-9.]*"
    " 100[.][7-9][0-9][.][0-9.]* 100[.]1[01][0-9][.][0-9.]* 100[.]12[0-7][.][0-9.]*"
    " ::1? f[cd][0-9a-f][0-9a-f]:.* fe[89a-f][0-9a-f]:.*"
    " ::ffff:[0-9a-f]?[0-9a-f]:.* ::ffff:a[0-9a-f][0-9a-f]:.* ::ffff:7f[0-9a-f][0-9a-f]:.* ::ffff:a9fe:.*"
    " ::ffff:c0a8:.* ::ffff:ac1[0-9a-f]:.* ::ffff:64[4-7][0-9a-f]:.*"
)
"""Patterns of private host names, which mean the same in Lua: one matches the whole name of each private host. A name
without a dot, localhost, IPv4 and IPv6 addresses of private networks, and the former as the latter. Other hosts are
public: by their names alone, so that nothing is looked up and all workers agree."""
_PRIVATE_NAME = re.compile("|".join(f"(?:{pattern})" for pattern in PRIVATE_NAMES.split()), re.DOTALL)
_HOST_NAME = re.compile(r"[^/]*//(?:\[([^]]*)\]|([^/:]*))")
_PUBLIC_HOST = Host("", public=True)
AHEAD_SECONDS = 0.1
"""For so long a worker that paces a host has leases of it in advance: as long as its next commit may take."""


def is_public(host_key: str) -> bool:
    """Return whether a host key, or a URL, names a host that is neither local nor in a private network."""
    found = _HOST_NAME.match(host_key)
    return found is not None and _PRIVATE_NAME.fullmatch(found[1] or found[2] or "") is None


def has_own_pace(politeness: Politeness) -> bool:
    """Return whether the settings say how fast hosts are requested."""
    return (politeness.delay_seconds, politeness.per_host, politeness.target_concurrency) != (None, None, None)


def default_pace(host: Host, politeness: Politeness) -> tuple[float, int]:
    """Return delay and requests in flight where they are not set: less for a public host, unless a pace is known."""
    if host.public and not has_own_pace(politeness) and not (politeness.obey_robots and host.crawl_delay_seconds):
        return PUBLIC_DELAY_SECONDS, PUBLIC_PER_HOST
    return 0.0, PER_HOST


def delay_of(host: Host, politeness: Politeness) -> float:
    """Seconds between two requests to this host: what the setting, its Crawl-delay or its latency asks, the largest."""
    delay = default_pace(host, politeness)[0] if politeness.delay_seconds is None else politeness.delay_seconds
    if politeness.obey_robots:
        delay = max(delay, host.crawl_delay_seconds)
    if politeness.target_concurrency is not None:
        delay = max(delay, min(host.latency_seconds / politeness.target_concurrency, politeness.max_delay_seconds))
    return delay


def due_at(host: Host) -> float:
    """Return the earliest time of the next grant."""
    return max(host.due, host.blocked_until)


def phase_of(host: Host, now: float, politeness: Politeness, budgets: Budgets | None = None) -> Phase:
    """Return the phase of the host now."""
    if host.given_up is not None:
        return Phase.GIVEN_UP
    if not host.waiting and not host.needs:
        return Phase.IDLE
    if not has_room(host, politeness, budgets):
        return Phase.FULL
    # As ``due_at`` says, without the call: this is asked five times for each page.
    return Phase.READY if host.due <= now and host.blocked_until <= now else Phase.WAITING


def has_room(host: Host, politeness: Politeness, budgets: Budgets | None = None) -> bool:
    """Return whether one more request may be in flight; only one until the latency is known, if the delay needs it."""
    if host.given_up is not None or host.gate or host.halt or (budgets is not None and not budgets.has_room(host)):
        return False
    alone = politeness.target_concurrency is not None and not host.latency_seconds
    return host.in_flight < (1 if alone else politeness.per_host or default_pace(host, politeness)[1])


def room_of(host: Host, now: float, politeness: Politeness) -> int:
    """Return how many requests to a ready host may start at once, at most."""
    if needs_gate(host, now, politeness) or delay_of(host, politeness) or politeness.target_concurrency is not None:
        return 1
    return (politeness.per_host or default_pace(host, politeness)[1]) - host.in_flight


def needs_gate(host: Host, now: float, politeness: Politeness) -> bool:
    """Return whether its robots.txt must be read before the next page."""
    return politeness.obey_robots and host.robots_until <= now


def granted(
    host: Host, epoch: int, now: float, politeness: Politeness, worker: str, round_trip_seconds: float = 0.0
) -> float | None:
    """Record a grant on the host; return its start window, or None when there is no delay.

    The next grant to another worker comes a delay *and* a window later: this one may use up its window before it is
    at the socket, and the next one may use none of its own.
    """
    host.in_flight += 1
    host.served = epoch
    if host.burst_left > 0:
        host.burst_left = host.burst_left - 1 if now < host.burst_until else 0
    else:
        host.burst_left = politeness.burst_pages - 1
        host.burst_until = now + politeness.burst_seconds
    delay = delay_of(host, politeness)
    if delay == 0:
        host.pacer = ""
        return None
    host.pacer = worker if delay <= MAX_PACE_SECONDS else ""
    window = host.start_seconds + round_trip_seconds + (PACE_WINDOW_SECONDS if host.pacer else 0.0)
    host.due = now + delay + window
    return window


def shortened_delay(before: Politeness, after: Politeness) -> float:
    """Return the longest delay of the settings before; 0: none of them is shorter with those after it."""
    longest, shorter = (each.delay_seconds or default_pace(_PUBLIC_HOST, each)[0] for each in (before, after))
    longest = longest if shorter < longest else 0.0
    if before.target_concurrency is not None and (
        after.target_concurrency is None
        or after.target_concurrency > before.target_concurrency
        or after.max_delay_seconds < before.max_delay_seconds
    ):
        longest = max(longest, before.max_delay_seconds)
    return longest


def shorten_wait(host: Host, at: float, politeness: Politeness) -> None:
    """Bring forward a host that is due after a delay which was shortened at that time.

    Its last request was granted before: a delay and the longest usual window from then on are enough.
    """
    delay = delay_of(host, politeness)
    window = host.start_seconds + PACE_WINDOW_SECONDS if delay else 0.0
    host.due = min(host.due, at + delay + window)


def may_pace(host: Host, now: float, politeness: Politeness, worker: str) -> bool:
    """Return whether the worker may be granted another request before the host is due, and keep the delay by itself.

    Only if the last grant was its own: it knows when its last request was sent, and nobody else has sent one since.
    """
    if host.pacer != worker or host.blocked_until > now:
        return False
    delay = delay_of(host, politeness)
    ahead = 1 + int((host.latency_seconds + AHEAD_SECONDS) / delay) if delay else 0
    return 0 < delay <= MAX_PACE_SECONDS and host.in_flight < ahead


def given_back(host: Host, epoch: int, now: float) -> None:
    """Record a grant that never reached the network: unless a later one was made, the host is due at once.

    Not if its worker keeps the delay: an earlier one may have reached the network this instant.
    """
    if host.served == epoch and not host.pacer:
        host.due = min(host.due, now)


def came_late(host: Host) -> None:
    """Lengthen the start window, because a worker could not start within it."""
    host.start_seconds = min(host.start_seconds * 2, MAX_START_SECONDS)


def answered(host: Host, leased_at: float, latency_seconds: float | None, *, succeeded: bool = True) -> None:
    """Record a normal answer: the host is not down, and the pause of its next block is halved.

    A host that was given up is restored as well: requests that are not failed yet stay queued.

    What had been leased before the block says nothing about the time after it: as eight blocks of one moment double a
    pause once, eight answers to requests from before do not take it back. ``succeeded``: a page came. An error or a
    redirect is quickly said, and does not make a host that labours under its pages look fast.
    """
    if host.error_class == HELD_CLASS:
        host.blocked_until = 0.0
    host.strikes = host.blocks = 0
    host.error_class = ""
    host.given_up = None
    if host.backoff and leased_at > host.struck_at:
        host.backoff -= 1
    if latency_seconds is not None:
        old = host.latency_seconds or latency_seconds
        new = latency_seconds if succeeded else max(old, latency_seconds)
        host.latency_seconds = old + LATENCY_WEIGHT * (new - old)


def blocked(host: Host, now: float, leased_at: float, retry_after_seconds: float | None, first_seconds: float) -> bool:
    """Record that the host asked for a pause; return whether it is a new strike (see ``_strike``)."""
    host.strikes = 0
    # A pause of zero names none: taken at its word, eight answers within a second would end the host.
    if retry_after_seconds:
        pause = min(retry_after_seconds, MAX_PAUSE_SECONDS)
        # A pause the host names holds, even when it was told to a request from before the block.
        host.blocked_until = max(host.blocked_until, now + pause)
    else:
        pause = min(first_seconds * 2.0 ** min(host.backoff, MAX_DOUBLINGS), MAX_PAUSE_SECONDS)
    if not _strike(host, now, leased_at, pause):
        return False
    host.blocks += 1
    host.backoff += 1
    return True


def unreachable(host: Host, now: float, leased_at: float, retry: Retry) -> bool:
    """Record a failed connection; return whether it is a new strike (see ``_strike``)."""
    pause = min(retry.retry_delay_seconds * 2.0 ** min(host.strikes, MAX_DOUBLINGS), MAX_RECONNECT_SECONDS)
    if not _strike(host, now, leased_at, pause):
        return False
    host.strikes += 1
    return True


def held(host: Host, now: float, pause_seconds: float) -> None:
    """Pause a host whose page blocks its worker, for this long or until it answers."""
    if host.blocked_until <= now:
        host.blocked_until = now + pause_seconds
        host.error_class = HELD_CLASS


def gate_failed(host: Host, now: float, politeness: Politeness, retry: Retry) -> bool:
    """Record a failed read of robots.txt; return True when the last good copy is to be used.

    A missing file is a good copy too. Strikes and blocks stay: the pages will show whether the host is down.
    """
    if not host.robots_until or max(host.strikes, host.blocks) < retry.max_attempts:
        return False
    host.robots_until = now + min(politeness.robots_seconds, LAST_COPY_SECONDS)
    return True


def is_down(host: Host, retry: Retry) -> bool:
    """Return whether the host and its queue are given up. Those of a paused host are kept until it is resumed."""
    if host.halt is Halt.PAUSED:
        return False
    return host.strikes >= retry.max_attempts or host.blocks >= BLOCK_LIMIT


def new_chance(host: Host) -> None:
    """Reset the failures of a host that was given up, by an operator too; a pause still holds, whoever asked for it."""
    host.strikes = host.blocks = host.backoff = host.gate_losses = 0
    host.given_up = None
    if host.halt is Halt.GIVEN_UP:
        host.halt = Halt.NONE


def _strike(host: Host, now: float, leased_at: float, pause_seconds: float) -> bool:
    """Block the host, if this request was leased after the last strike; return whether it was.

    Eight requests in flight to a host that goes down are one strike: otherwise one bad moment would double the pause
    eight times.
    """
    if leased_at <= host.struck_at:
        return False
    host.struck_at = now
    host.blocked_until = max(host.blocked_until, now + pause_seconds)
    return True
