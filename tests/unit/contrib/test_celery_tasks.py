"""What the tasks of Celery decide without a broker: lengths of slices, references to jobs, routes, entries of beat."""

from __future__ import annotations

import os

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import crontab

from skitter.app.worker_slice import SliceConfig, is_later
from skitter.contrib.celery import SkitterTask, beat_entry, crawl, register, response_of
from skitter.contrib.celery.base_task import job_of
from skitter.contrib.celery.page_tasks import page_message
from skitter.contrib.celery.registration import ShutdownNotice
from skitter.contrib.celery.slice_length import slice_seconds
from skitter.errors import UsageError
from skitter.model.page import Page

REDIS = {"broker": "redis://h/0", "transport_options": {}, "prefetch": 1}


class TestLength:
    """A slice is over before anybody delivers its message again."""

    def test_twenty_minutes_with_one_message_at_a_time(self):
        assert slice_seconds(None, **REDIS) == 1200

    @pytest.mark.parametrize(
        ("broker", "options", "prefetch", "longest"),
        [
            ("redis://h/0", {}, 4, 710),
            ("redis://h/0", {"visibility_timeout": 300}, 1, 230),
            ("sentinel://h/0", {}, 1, 1200),
            ("sqs://", {}, 1, 1200),
            ("amqp://h//", {}, 1, 1200),
            ("pyamqp://h//", {}, 4, 350),
        ],
    )
    def test_messages_that_wait_behind_it_are_not_delivered_again_either(self, broker, options, prefetch, longest):
        assert slice_seconds(1200, broker=broker, transport_options=options, prefetch=prefetch) == pytest.approx(
            longest
        )

    def test_it_ends_before_the_time_limits(self):
        assert slice_seconds(None, **REDIS, time_limits=(100, None)) == pytest.approx(70)
        assert slice_seconds(None, **REDIS, time_limits=(None, 60)) == pytest.approx(38)
        assert slice_seconds(5, **REDIS, time_limits=(None, 60)) == 5

    @pytest.mark.parametrize("asked", [0, -1, 1501, float("nan")])
    def test_a_length_that_cannot_be_is_refused(self, asked):
        with pytest.raises(UsageError, match="slice_seconds"):
            slice_seconds(asked, **REDIS)

    def test_a_limit_in_which_nothing_can_be_done_is_refused(self):
        with pytest.raises(UsageError, match="too short for a slice"):
            slice_seconds(None, **REDIS, time_limits=(None, 50))


class TestJobOf:
    @pytest.mark.parametrize("ref", ["shop", {"job": "shop", "urls": 3}, [{"job": "shop"}, {"job": "shop"}]])
    def test_a_name_a_result_and_results_of_a_group_name_a_job(self, ref):
        assert job_of(ref) == "shop"

    @pytest.mark.parametrize("ref", ["", {}, [], 5, None, [{"job": "a"}, {"job": "b"}]])
    def test_anything_else_is_refused(self, ref):
        with pytest.raises(UsageError):
            job_of(ref)


def test_the_later_of_two_slices_of_a_crawl_goes_on():
    own = SliceConfig(frontier="", job="", seconds=1, crawl="c", number=9, token="b")
    later = [
        text for text in ("c 10 a", "c 9 c", "c 9 b", "c 9 a", "c 8 z", "d 99 a", "", "c x a") if is_later(text, own)
    ]
    assert later == ["c 10 a", "c 9 c"]
    assert own.task == "c 9 b"


class Hooked(SkitterTask):
    pass


@pytest.fixture
def app():
    app = Celery("unit", broker="memory://", set_as_current=True)
    yield app
    app.close()


def test_registered_tasks_have_the_given_base_in_this_app_alone(app):
    register(app, frontier="sqlite:jobs.db", base=Hooked)
    names = {name for name in app.tasks if name.startswith("skitter.")}
    assert names == {f"skitter.{name}" for name in "add crawl export finished parse save scrape status".split()}
    assert all(isinstance(app.tasks[name], Hooked) for name in names)
    assert crawl.app is app
    other = Celery("other", broker="memory://", set_as_current=False)
    assert not any(isinstance(task, Hooked) for task in other.tasks.values())
    other.close()


OWN_ROUTE = {"skitter.scrape": {"queue": "mine"}}


@pytest.mark.parametrize(("own", "queue"), [(None, "scrape"), (OWN_ROUTE, "mine"), ([OWN_ROUTE], "mine")])
def test_single_tasks_go_to_queues_of_their_names_unless_the_app_says_others(app, own, queue):
    app.conf.task_routes = own
    register(app, frontier="sqlite:jobs.db")
    assert app.amqp.router.route({}, "skitter.scrape")["queue"].name == queue
    assert app.amqp.router.route({}, "skitter.parse")["queue"].name == "parse"
    assert app.amqp.router.route({}, "skitter.crawl")["queue"].name == "celery"


def test_an_entry_of_beat_skips_a_job_that_is_being_crawled(app):
    entry = beat_entry(crontab(hour=2), "shop", spider="shop.py")
    assert entry["task"] == "skitter.crawl"
    assert entry["kwargs"] == {"job": "shop", "overlap": "skip", "spider": "shop.py"}
    assert ScheduleEntry(name="shop", app=app, **entry).is_due().is_due is False


def test_a_frontier_must_be_given(app):
    with pytest.raises(UsageError, match="no frontier"):
        crawl.apply(kwargs={"job": "shop"}, throw=True)


def test_a_page_survives_its_message():
    page = Page(url="http://h/a", status=200, headers=[("content-type", "text/html")], body=b"<title>\xc3\xa4</title>")
    response = response_of(page_message(page, "http://h/", {"shop": 7}))
    assert response.css("title::text").get() == "ä"
    assert (response.url, response.request.url, response.meta) == ("http://h/a", "http://h/", {"shop": 7})


@pytest.mark.parametrize("page", [{}, {"body": "?"}, {"body": "abcd", "url": "http://h/"}])
def test_what_is_no_page_is_refused(page):
    with pytest.raises(UsageError, match="not a page"):
        response_of(page)


def test_the_notice_of_a_shutdown_reaches_a_pool_process():
    notice = ShutdownNotice()
    assert notice.fd is None
    notice._open()
    assert notice.fd is not None
    os.set_blocking(notice.fd, False)
    notice._keep_reader()  # in the main process itself, as with --pool solo
    with pytest.raises(BlockingIOError):
        os.read(notice.fd, 1)
    notice._close()
    assert os.read(notice.fd, 1) == b""
    os.close(notice.fd)
