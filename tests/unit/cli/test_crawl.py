"""What ``crawl`` and ``worker`` ask of the app, and what they make of its answer."""

from __future__ import annotations

import json
import signal
import textwrap

import pytest

from skitter.app.audit import local_actor
from skitter.settings import Run
from skitter.sinks.targets import parse_target

URL = "https://a.example/"
QUIET = ("crawl", URL, "-q")


def test_the_plan_says_what_was_typed(skitter, fake_app) -> None:
    words = ["-o", "x.jsonl", "-O", "y.csv", "--workers", 2, "--concurrency", 16, "--per-host", 4, "--delay", 0.5]
    words += ["--max-pages", 100, "--max-depth", 3, "--ignore-robots", "--allow-private", "--fresh"]
    words += ["--set", "timeout_seconds=5", "--set", "max-attempts=2", "-q"]
    assert skitter("crawl", URL, "https://b.example/x#part", *words).code == 0
    (plan,) = fake_app.told
    assert plan.spec.seeds == [URL, "https://b.example/x"]
    assert plan.spec.spider == ""
    assert plan.spec.name == "a.example"
    assert plan.frontier == "sqlite:.skitter/a.example.db"
    assert plan.outputs == [
        parse_target("x.jsonl", job="a.example"),
        parse_target("y.csv", overwrite=True, job="a.example"),
    ]
    assert plan.fresh
    assert plan.verbosity == -1
    settings = plan.settings
    assert (settings.run.workers, settings.run.concurrency) == (2, 16)
    assert (settings.politeness.per_host, settings.politeness.delay_seconds) == (4, 0.5)
    assert (settings.limits.max_pages, settings.limits.max_depth) == (100, 3)
    assert (settings.politeness.obey_robots, settings.fetch.allow_private) == (False, True)
    assert (settings.fetch.timeout_seconds, settings.retry.max_attempts) == (5.0, 2)
    assert plan.spec.settings == settings.job_wide()


def test_options_may_stand_anywhere(skitter, fake_app) -> None:
    assert skitter("crawl", "-q", URL, "--max-pages", 3, "https://b.example/").code == 0
    assert fake_app.told[0].spec.seeds == [URL, "https://b.example/"]


def test_the_last_option_wins(skitter, fake_app) -> None:
    skitter(*QUIET, "--workers", 2, "--set", "workers=3", "--set", "concurrency=5", "--concurrency", 6)
    assert (fake_app.told[0].settings.run.workers, fake_app.told[0].settings.run.concurrency) == (3, 6)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({}, 0),
        ({"state": "stopped", "reason": "max_pages"}, 0),
        ({"state": "stopped", "reason": "command", "seeds_done": False}, 0),
        ({"seeds_done": False}, 1),
        ({"state": "running", "signal": signal.SIGINT}, 130),
        ({"state": "running", "signal": signal.SIGTERM, "seeds_done": False}, 143),
    ],
)
def test_exit_codes(skitter, fake_app, make_summary, changes, code) -> None:
    fake_app.answer = make_summary(**changes)
    assert skitter(*QUIET).code == code


def test_json_is_one_object_on_stdout(skitter, fake_app) -> None:
    said = skitter("crawl", URL, "--json")
    assert json.loads(said.out).keys() >= set(
        "job state pages items redirected failed excluded duplicates bytes seconds pages_per_second".split()
    )
    assert said.out.count("\n") == 1


def test_quiet_says_nothing(skitter, fake_app) -> None:
    assert skitter(*QUIET)[1:] == ("", "")


def test_no_seed_done_is_said_even_when_quiet(skitter, fake_app, make_summary) -> None:
    fake_app.answer = make_summary(seeds_done=False, pages=0, failed=1)
    assert skitter(*QUIET).err.startswith("error: no page was done: a.example\nhint: skitter failed ")


SPIDER = """
    from skitter import Spider

    class Books(Spider):
        name = "my books"
        custom_settings = {"DOWNLOAD_DELAY": 2, "per_host": 1, "BOT_NAME": "x"}

        def __init__(self, shelf="", **rest):
            super().__init__(**rest)

        def start(self):
            return []
"""


def test_a_spider_brings_its_name_arguments_and_settings(skitter, fake_app, folder) -> None:
    (folder / "books.py").write_text(textwrap.dedent(SPIDER))
    said = skitter("crawl", "./books.py", "-a", "shelf=a=b", "-a", "page=2")
    assert said.code == 0
    assert "warning: books.py:Books: BOT_NAME has no effect: user_agent is the name" in said.err
    (plan,) = fake_app.told
    assert plan.spec.spider == "books.py:Books"
    assert plan.spec.arguments == {"shelf": "a=b", "page": "2"}
    assert plan.spec.name == "my-books"
    assert plan.spec.seeds == []
    assert (plan.settings.politeness.delay_seconds, plan.settings.politeness.per_host) == (2.0, 1)


def test_a_worker_has_only_settings_of_its_own(skitter, fake_app, job, folder, monkeypatch) -> None:
    (folder / "skitter.toml").write_text('user_agent = "x"\nconcurrency = 5')
    monkeypatch.setenv("SKITTER_SHUTDOWN_SECONDS", "3")
    assert skitter("worker", "--job", job, "--concurrency", 7, "-q").code == 0
    (told,) = fake_app.told
    assert (told["frontier"], told["job"], told["spider"], told["stay"]) == ("sqlite:.skitter/books.db", job, "", False)
    own = told["settings_overrides"]
    assert (own["workers"], own["concurrency"], own["shutdown_seconds"]) == (1, 7, 3.0)
    assert set(own) == set(Run.__struct_fields__)


def test_a_worker_that_stays_may_come_before_the_job(skitter, fake_app) -> None:
    assert skitter("worker", "--job", "later", "--stay", "-q").code == 0
    assert fake_app.told[0]["stay"]


def test_drain(skitter, fake_app, job) -> None:
    said = skitter("deliver", "--job", job, "-o", "x.jsonl", "--json")
    assert json.loads(said.out) == {"job": job, "delivered": 7, "rejected": 1, "outputs": ["x.jsonl"]}
    told = {"frontier": "sqlite:.skitter/books.db", "job": job, "outputs": [parse_target("x.jsonl", job=job)]}
    told |= {"actor": local_actor("cli")}
    assert fake_app.told == [told | {"rest": False, "stay": False}]
    skitter("deliver", "--job", job, "-o", "x.jsonl", "--rest")
    assert fake_app.told[1:] == [told | {"rest": True, "stay": False}]


PACE = "; public hosts: 2 requests at a time, 0.5 s apart (--delay or --per-host sets another pace)"
CONTACT = "; no contact in the user agent (--set contact=URL, or a mail address)"


@pytest.mark.parametrize(
    ("words", "notes"),
    [
        ([URL], PACE + CONTACT),
        (["http://127.0.0.1:8600/", URL], PACE + CONTACT),
        ([URL, "--delay", 0], CONTACT),
        ([URL, "--per-host", 8], CONTACT),
        ([URL, "--set", "target_concurrency=1"], CONTACT),
        ([URL, "--set", "contact=me@a.example"], PACE),
        ([URL, "--set", "user_agent=mine/1.0 (+https://a.example/)"], PACE),
        (["--sitemap", "https://a.example/sitemap.xml"], PACE + CONTACT),
        (["http://127.0.0.1:8600/"], ""),
        (["http://localhost/", "http://intranet/"], ""),
    ],
)
def test_the_first_line_says_how_a_public_host_is_treated(skitter, fake_app, words, notes) -> None:
    job = "job j, frontier sqlite:.skitter/j.db"
    assert skitter("crawl", *words, "--job", "j").err.splitlines()[0] == job + notes


@pytest.mark.parametrize(("url", "notes"), [("https://a.example/", PACE + CONTACT), ("http://127.0.0.1/", "")])
def test_start_urls_of_a_spider_are_seeds_as_well(skitter, fake_app, tmp_path, url, notes) -> None:
    (tmp_path / "s.py").write_text(
        f"import skitter\n\nclass S(skitter.Spider):\n    start_urls = [{url!r}]\n\n"
        "    def parse(self, response):\n        yield {}\n"
    )
    line = skitter("crawl", str(tmp_path / "s.py"), "--job", "j").err.splitlines()[0]
    assert line == "job j, frontier sqlite:.skitter/j.db" + notes
