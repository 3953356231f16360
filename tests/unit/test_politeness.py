"""When a host may be asked again, and when it is given up. The frontier contract tests these rules in use."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skitter.model.host import Host, Phase
from skitter.policy import lost_leases, politeness
from skitter.policy.politeness import BLOCK_LIMIT, MAX_PAUSE_SECONDS, MAX_RECONNECT_SECONDS, MAX_START_SECONDS
from skitter.settings import Politeness, Retry

NOW = 1000.0


@pytest.fixture
def host() -> Host:
    return Host("http://a.example", waiting=True)


class TestPhase:
    def test_a_host_with_nothing_queued_is_idle(self) -> None:
        assert politeness.phase_of(Host("h"), NOW, Politeness()) is Phase.IDLE

    def test_a_host_is_full_at_its_limit_or_while_its_gate_is_open(self, host: Host) -> None:
        host.in_flight = 2
        assert politeness.phase_of(host, NOW, Politeness(per_host=3)) is Phase.READY
        assert politeness.phase_of(host, NOW, Politeness(per_host=2)) is Phase.FULL
        host.gate = True
        assert politeness.phase_of(host, NOW, Politeness(per_host=3)) is Phase.FULL

    @pytest.mark.parametrize("field", ["due", "blocked_until"])
    def test_a_host_waits_for_the_later_of_its_times(self, host: Host, field: str) -> None:
        setattr(host, field, NOW + 1)
        assert politeness.phase_of(host, NOW, Politeness()) is Phase.WAITING
        assert politeness.phase_of(host, NOW + 1, Politeness()) is Phase.READY
        assert politeness.due_at(host) == NOW + 1

    def test_robots_are_read_when_unknown_or_old_and_only_if_obeyed(self, host: Host) -> None:
        assert politeness.needs_gate(host, NOW, Politeness())
        assert not politeness.needs_gate(host, NOW, Politeness(obey_robots=False))
        host.robots_until = NOW + 1
        assert not politeness.needs_gate(host, NOW, Politeness())
        assert politeness.needs_gate(host, NOW + 1, Politeness())


class TestGrants:
    def test_without_a_delay_a_grant_books_no_time(self, host: Host) -> None:
        assert politeness.granted(host, 7, NOW, Politeness(), "w") is None
        assert (host.in_flight, host.due, host.served) == (1, 0.0, 7)

    @given(st.floats(0.001, 100), st.floats(0, 100), st.floats(0.001, 2))
    def test_the_next_grant_comes_a_delay_and_a_window_later(
        self, delay: float, crawl_delay: float, window: float
    ) -> None:
        host = Host("h", crawl_delay_seconds=crawl_delay, start_seconds=window)
        granted = politeness.granted(host, 1, NOW, Politeness(delay_seconds=delay), "w")
        is_paced = max(delay, crawl_delay) <= politeness.MAX_PACE_SECONDS
        assert granted == pytest.approx(window + politeness.PACE_WINDOW_SECONDS * is_paced)
        assert host.due - granted - max(delay, crawl_delay) == pytest.approx(NOW)
        assert host.pacer == ("w" if is_paced else "")

    def test_a_grant_is_given_back_unless_a_later_one_was_made(self, host: Host) -> None:
        politeness.granted(host, 1, NOW, Politeness(delay_seconds=10), "w")
        politeness.given_back(host, 1, NOW + 2)
        assert host.due == NOW + 2
        politeness.granted(host, 2, NOW + 2, Politeness(delay_seconds=10), "w")
        due = host.due
        politeness.given_back(host, 1, NOW + 3)
        assert host.due == due

    def test_giving_back_never_makes_a_host_wait(self, host: Host) -> None:
        politeness.granted(host, 1, NOW, Politeness(), "w")
        politeness.given_back(host, 1, NOW + 5)
        assert host.due == 0.0

    def test_the_window_grows_to_a_limit(self, host: Host) -> None:
        for _ in range(20):
            politeness.came_late(host)
        assert host.start_seconds == MAX_START_SECONDS


PUBLIC_DELAY, PUBLIC_PER_HOST = politeness.PUBLIC_DELAY_SECONDS, politeness.PUBLIC_PER_HOST


class TestDefaultPace:
    """A public host has a delay and few requests in flight, unless the settings or its robots.txt have a pace."""

    @pytest.mark.parametrize(
        ("settings", "delay", "room"),
        [
            ({}, PUBLIC_DELAY, PUBLIC_PER_HOST),
            ({"obey_robots": False}, PUBLIC_DELAY, PUBLIC_PER_HOST),
            ({"per_ip": 4, "burst_pages": 1, "max_delay_seconds": 1.0}, PUBLIC_DELAY, PUBLIC_PER_HOST),
            ({"delay_seconds": 0.0}, 0.0, 8),
            ({"delay_seconds": 3.0}, 3.0, 8),
            ({"per_host": 1}, 0.0, 1),
            ({"per_host": 20}, 0.0, 20),
            ({"target_concurrency": 2.0}, 0.5, 8),
        ],
    )
    def test_settings_replace_all_of_it(self, host: Host, settings: dict[str, Any], delay: float, room: int) -> None:
        host.public, host.latency_seconds, host.robots_until = True, 1.0, NOW + 1
        values = Politeness(**settings)
        assert politeness.delay_of(host, values) == delay
        host.in_flight = room - 1
        assert politeness.has_room(host, values)
        host.in_flight = room
        assert not politeness.has_room(host, values)

    def test_a_private_host_has_none(self, host: Host) -> None:
        assert politeness.delay_of(host, Politeness()) == 0
        host.robots_until, host.in_flight = NOW + 1, 3
        assert politeness.room_of(host, NOW, Politeness()) == 5

    @pytest.mark.parametrize("crawl_delay", [0.1, 10.0])
    def test_a_crawl_delay_that_is_obeyed_replaces_it_too(self, host: Host, crawl_delay: float) -> None:
        host.public, host.crawl_delay_seconds, host.in_flight = True, crawl_delay, PUBLIC_PER_HOST
        assert politeness.delay_of(host, Politeness()) == crawl_delay
        assert politeness.has_room(host, Politeness())
        ignored = Politeness(obey_robots=False)
        assert politeness.delay_of(host, ignored) == PUBLIC_DELAY
        assert not politeness.has_room(host, ignored)

    def test_the_frontier_keeps_it_and_no_worker(self, host: Host) -> None:
        host.public = True
        window = politeness.granted(host, 1, NOW, Politeness(), "w")
        assert (host.pacer, host.due) == ("", NOW + PUBLIC_DELAY + (window or 0))
        assert not politeness.may_pace(host, NOW, Politeness(), "w")

    @pytest.mark.parametrize(
        ("before", "after", "longest"),
        [
            ({}, {"delay_seconds": 0.0}, PUBLIC_DELAY),
            ({}, {"delay_seconds": 0.1}, PUBLIC_DELAY),
            ({}, {"per_host": 8}, PUBLIC_DELAY),
            ({}, {"delay_seconds": 1.0}, 0.0),
            ({}, {}, 0.0),
            ({"delay_seconds": 5.0}, {}, 5.0),
            ({"per_host": 8}, {}, 0.0),
            ({"delay_seconds": 0.0}, {}, 0.0),
        ],
    )
    def test_leaving_it_may_shorten_the_wait(
        self, before: dict[str, Any], after: dict[str, Any], longest: float
    ) -> None:
        assert politeness.shortened_delay(Politeness(**before), Politeness(**after)) == longest

    def test_the_reference_has_its_figures(self) -> None:
        page = (Path(__file__).resolve().parents[2] / "docs" / "reference" / "settings.md").read_text()
        (delay,) = (line for line in page.splitlines() if line.startswith("| `delay_seconds`"))
        (per_host,) = (line for line in page.splitlines() if line.startswith("| `per_host`"))
        assert f" {PUBLIC_DELAY:g} for public" in delay
        assert f"{politeness.PER_HOST}, or {PUBLIC_PER_HOST} where" in per_host


class TestBlocks:
    def test_a_pause_doubles_from_block_to_block(self, host: Host) -> None:
        now = NOW
        for pause in (60, 120, 240, 480):
            assert politeness.blocked(host, now, now - 1, None, 60)
            assert host.blocked_until == now + pause
            now += pause + 10

    @given(st.integers(0, 10_000), st.floats(0.1, 1e9), st.none() | st.just(0.0) | st.floats(0.001, 1e12))
    def test_no_pause_is_longer_than_a_day(self, blocks: int, first: float, named: float | None) -> None:
        host = Host("h", backoff=blocks)
        politeness.blocked(host, NOW, NOW - 1, named, first)
        assert NOW < host.blocked_until <= NOW + MAX_PAUSE_SECONDS

    def test_only_a_request_leased_after_the_block_began_may_double_it(self, host: Host) -> None:
        assert politeness.blocked(host, NOW, NOW - 1, None, 60)
        for leased_at in (NOW - 5, NOW - 1, NOW):
            assert not politeness.blocked(host, NOW + 1, leased_at, None, 60)
        assert (host.blocks, host.blocked_until) == (1, NOW + 60)
        assert politeness.blocked(host, NOW + 61, NOW + 60.5, None, 60)
        assert (host.blocks, host.blocked_until) == (2, NOW + 61 + 120)

    def test_a_named_pause_holds_whoever_was_told(self, host: Host) -> None:
        politeness.blocked(host, NOW, NOW - 1, None, 60)
        assert not politeness.blocked(host, NOW + 1, NOW - 1, 500, 60)
        assert host.blocked_until == NOW + 501
        assert not politeness.blocked(host, NOW + 2, NOW - 1, 5, 60)
        assert host.blocked_until == NOW + 501

    def test_an_answer_forgives_and_is_remembered(self, host: Host) -> None:
        politeness.blocked(host, NOW, NOW - 1, None, 60)
        host.error_class = "http_4xx"
        politeness.answered(host, NOW + 61, 1.0)
        assert (host.blocks, host.strikes, host.error_class, host.latency_seconds) == (0, 0, "", 1.0)
        politeness.answered(host, NOW + 61, 2.0)
        assert host.latency_seconds == pytest.approx(1.2)
        politeness.answered(host, NOW + 61, None)
        assert host.latency_seconds == pytest.approx(1.2)

    def test_each_answer_takes_back_one_doubling(self, host: Host) -> None:
        now = NOW
        for _ in range(4):
            politeness.blocked(host, now, now - 1, None, 60)
            now = host.blocked_until + 1
        for pause in (8 * 60, 4 * 60, 2 * 60, 60, 60):
            politeness.answered(host, now, 0.1)
            trial = msgspec.structs.replace(host)
            politeness.blocked(trial, now + 1, now, None, 60)
            assert trial.blocked_until == now + 1 + pause

    def test_answers_to_requests_from_before_the_block_take_nothing_back(self, host: Host) -> None:
        politeness.blocked(host, NOW, NOW - 1, None, 60)
        for leased_at in (NOW - 5, NOW):
            politeness.answered(host, leased_at, 0.1)
        assert (host.backoff, host.blocks) == (1, 0), "but the row of blocks is broken"

    def test_blocks_between_answers_never_end_a_host(self, host: Host) -> None:
        now = NOW
        for _ in range(10 * BLOCK_LIMIT):
            for _ in range(BLOCK_LIMIT - 1):
                politeness.blocked(host, now, now - 1, None, 60)
                now = host.blocked_until + 1
            assert not politeness.is_down(host, Retry())
            politeness.answered(host, now, 0.1)
        assert host.backoff > 100
        politeness.blocked(host, now, now - 1, None, 60)
        assert host.blocked_until == now + MAX_PAUSE_SECONDS


class TestAdaptiveDelay:
    @pytest.mark.parametrize(
        ("latency", "target", "delay"),
        [(0.0, 1.0, 0.5), (0.4, 1.0, 0.5), (3.0, 1.0, 3.0), (3.0, 2.0, 1.5), (3.0, 0.1, 10.0), (3.0, None, 0.5)],
    )
    def test_the_delay_follows_the_latency_within_bounds(
        self, host: Host, latency: float, target: float | None, delay: float
    ) -> None:
        host.latency_seconds = latency
        asked = Politeness(delay_seconds=0.5, target_concurrency=target, max_delay_seconds=10.0)
        assert politeness.delay_of(host, asked) == delay

    def test_a_crawl_delay_may_be_longer_than_the_bound(self, host: Host) -> None:
        host.latency_seconds, host.crawl_delay_seconds = 1000.0, 90.0
        assert politeness.delay_of(host, Politeness(target_concurrency=1.0)) == 90.0
        assert politeness.delay_of(host, Politeness(target_concurrency=1.0, obey_robots=False)) == 60.0

    def test_until_the_latency_is_known_one_request_is_in_flight(self, host: Host) -> None:
        asked = Politeness(target_concurrency=4.0, per_host=8)
        assert politeness.has_room(host, asked)
        host.in_flight = 1
        assert not politeness.has_room(host, asked)
        politeness.answered(host, NOW, 0.5)
        assert politeness.has_room(host, asked)

    def test_a_quick_error_makes_no_host_look_fast(self, host: Host) -> None:
        politeness.answered(host, NOW, 2.0)
        politeness.answered(host, NOW, 0.01, succeeded=False)
        assert host.latency_seconds == 2.0
        politeness.answered(host, NOW, 3.0, succeeded=False)
        assert host.latency_seconds == pytest.approx(2.2), "a slow one does count"


class TestDown:
    def test_failed_connections_double_their_pause_up_to_an_hour(self, host: Host) -> None:
        now = NOW
        for pause in (1, 2, 4, 8):
            assert politeness.unreachable(host, now, now - 0.5, Retry(retry_delay_seconds=1))
            assert host.blocked_until == now + pause
            now += pause + 1
        host.strikes = 500
        politeness.unreachable(host, now, now - 0.5, Retry(retry_delay_seconds=1))
        assert host.blocked_until == now + MAX_RECONNECT_SECONDS

    def test_failures_of_one_moment_are_one_strike(self, host: Host) -> None:
        struck = [politeness.unreachable(host, NOW + n / 100, NOW - 1, Retry()) for n in range(8)]
        assert struck == [True] + [False] * 7
        assert host.strikes == 1

    def test_a_host_is_down_after_its_attempts_or_its_blocks(self, host: Host) -> None:
        retry = Retry(max_attempts=3)
        host.strikes, host.blocks = 2, BLOCK_LIMIT - 1
        assert not politeness.is_down(host, retry)
        host.strikes = 3
        assert politeness.is_down(host, retry)
        host.strikes, host.blocks = 0, BLOCK_LIMIT
        assert politeness.is_down(host, retry)
        politeness.new_chance(host)
        assert not politeness.is_down(host, retry)

    def test_a_block_shows_that_the_host_can_be_reached(self, host: Host) -> None:
        politeness.unreachable(host, NOW, NOW - 1, Retry())
        politeness.blocked(host, NOW + 10, NOW + 9, None, 60)
        assert (host.strikes, host.blocks) == (0, 1)
        politeness.unreachable(host, NOW + 100, NOW + 99, Retry())
        assert (host.strikes, host.blocks) == (1, 1), "but a failed connection is no answer"

    def test_a_new_chance_does_not_shorten_a_pause(self, host: Host) -> None:
        politeness.blocked(host, NOW, NOW - 1, 500, 60)
        politeness.new_chance(host)
        assert host.blocked_until == NOW + 500


class TestLosses:
    def test_a_request_is_suspect_after_two_losses_and_dead_after_four_alone(self) -> None:
        assert [lost_leases.is_suspect(number) for number in range(4)] == [False, False, True, True]
        assert [lost_leases.is_fatal(number) for number in range(2, 6)] == [False, False, True, True]
        assert lost_leases.LOSSES_IN_ALL == 6
