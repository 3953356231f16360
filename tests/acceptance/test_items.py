"""The way of an item, by the real command line: item functions, rejects, targets of all kinds, and no secret shown."""

from __future__ import annotations

import os
import signal
from textwrap import dedent, indent
from typing import Any

import pytest

from rig.processes import HANG_SECONDS

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.1")
SINK = """
    import json, os
    from pathlib import Path

    class Writer:
        \"\"\"Lines in a file, while there is no file called down.\"\"\"

        def __init__(self, target):
            self.out = Path(target.fragment or "sunk.jsonl")
            self.password = target.password

        def open(self):
            self.look()

        def look(self):
            with Path("looked").open("a") as file:
                file.write("x")
            if Path("down").exists():
                raise ConnectionRefusedError("the server is down")

        def write(self, batch):
            self.look()
            with self.out.open("a") as file:
                for key, record in batch:
                    file.write(json.dumps({"key": key} | record) + "\\n")
            return {key: "negative price" for key, record in batch if record.get("price", 0) < 0}
"""
LOCKED_SINK = SINK.replace("def open(self):", "def open(self):\n            assert self.password == 'hush'")
BROKEN_SINK = "class Broken:\n    def write(self, batch):\n        raise ValueError('no such table')\n"


@pytest.fixture
def shop(site):
    """A list with prices, and three pages behind it."""
    site.page("/", "".join(f'<a href="/{n}">book {n}</a>' for n in range(3)))
    for n in range(3):
        site.page(f"/{n}", f"<h1> Book {n} </h1>")
    return site


def spider(skitter, body: str, head: str = "") -> None:
    text = f"import asyncio\nimport skitter\n{dedent(head)}\nclass Shop(skitter.Spider):\n    name = 'shop'\n"
    text += "    def __init__(self, base):\n        self.start_urls = [base + '/']\n"
    skitter.write("shop.py", text + indent(dedent(body), "    "))


def crawl(skitter, site, *options: object, code: int = 0) -> dict[str, Any]:
    return skitter.json("crawl", "shop.py", "-a", f"base={site.base}", *QUICK, *options, code=code)


PARSE = """
def parse(self, response):
    yield from response.follow_all(css="a")
    if title := response.css("h1::text").get():
        yield {"title": title, "n": int(response.url[-1])}
"""


def test_items_pass_functions_in_order_and_dropped_ones_are_counted(skitter, shop) -> None:
    skitter.write("cleaning.py", "def shout(item):\n    return item | {'loud': item['title'].upper()}\n")
    skitter.write("skitter.toml", 'item_functions = ["cleaning:shout"]\n')
    spider(
        skitter,
        PARSE
        + dedent("""
            def drop_zero(self, item, response):
                assert response.status == 200
                if item["n"] == 0:
                    raise skitter.DropItem("number zero")
                if item["n"] == 2:
                    raise skitter.RejectItem("number two")
                return item

            item_functions = [strip, "drop_zero"]
        """),
        head="""
        async def strip(item):
            await asyncio.sleep(0)
            return {**item, "title": item["title"].strip()}
        """,
    )
    summary = crawl(skitter, shop, "-o", "out.jsonl")
    assert skitter.lines("out.jsonl") == [{"title": "Book 1", "n": 1, "loud": "BOOK 1"}]
    assert (summary["items"], summary["rejected"], summary["dropped"]) == (1, 1, {"number zero": 1})
    (rejected,) = skitter.lines("out.jsonl.rejects.jsonl")
    assert (rejected["reason"], rejected["target"], rejected["url"]) == ("number two", "out.jsonl", shop.url("/2"))
    assert rejected["record"]["n"] == 2
    status = skitter.run("status", "--job", "shop").stdout
    assert "items dropped: number zero 1" in status
    assert "1 item could not be stored" in status


def test_a_function_that_fails_loses_nothing_and_retry_is_clean(skitter, shop) -> None:
    body = PARSE + "\nitem_functions = [check]\n"
    spider(skitter, body, head="def check(item):\n    return item if item['n'] else 1 / 0\n")
    summary = crawl(skitter, shop, "-o", "out.jsonl")
    assert (summary["items"], summary["failed"], summary["errors"]) == (2, 1, {"callback": 1})
    (failed,) = skitter.records("failed", "--job", "shop")
    assert "ZeroDivisionError" in failed["error"]
    assert not (skitter.folder / "out.jsonl.rejects.jsonl").exists()
    spider(skitter, body, head="def check(item):\n    return item\n")
    skitter.run("retry", "--job", "shop")
    crawl(skitter, shop)
    assert sorted(record["n"] for record in skitter.lines("out.jsonl")) == [0, 1, 2]


@pytest.mark.parametrize(
    ("returned", "message"), [("None", "returned nothing"), ("'text'", "returned str"), ("[item]", "returned list")]
)
def test_a_function_that_forgets_its_item_is_an_error_of_the_page(skitter, shop, returned, message) -> None:
    spider(skitter, PARSE + "\nitem_functions = [forget]\n", head=f"def forget(item):\n    return {returned}\n")
    assert crawl(skitter, shop, "-o", "out.jsonl")["errors"] == {"callback": 3}
    assert message in skitter.records("failed", "--job", "shop")[0]["error"]


def test_a_function_that_does_not_exist_is_said_before_anything_is_crawled(skitter, shop) -> None:
    spider(skitter, PARSE + "\nitem_functions = ['nowhere:x']\n")
    done = skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "out.jsonl", code=2)
    assert "cannot be imported: nowhere:x" in done.stderr
    assert shop.paths() == []


def test_pipelines_of_scrapy_are_taken_as_they_are(skitter, shop) -> None:
    spider(
        skitter,
        PARSE + "\nitem_functions = [Pipeline]\n",
        head="""
        class DropItem(Exception):
            pass

        class Pipeline:
            def open_spider(self, spider):
                self.names = [spider.name]
            def process_item(self, item, spider):
                if item["n"] == 1:
                    raise DropItem("one")
                return item | {"by": self.names[0]}
            def close_spider(self, spider):
                open("closed", "w").write("x")
        """,
    )
    assert crawl(skitter, shop, "-o", "out.jsonl")["dropped"] == {"one": 1}
    assert {record["by"] for record in skitter.lines("out.jsonl")} == {"shop"}
    assert (skitter.folder / "closed").exists()


def test_an_item_that_cannot_be_stored_costs_its_page_nothing(skitter, shop) -> None:
    spider(skitter, PARSE + "        yield {'n': 100, 'handle': object()}\n")
    summary = crawl(skitter, shop, "-o", "out.jsonl", "-o", "out.csv")
    assert (summary["pages"], summary["items"], summary["rejected"], summary["failed"]) == (4, 3, 3, 0)
    assert sorted(record["n"] for record in skitter.lines("out.jsonl")) == [0, 1, 2]
    rejected = skitter.lines("out.jsonl.rejects.jsonl")
    assert len(rejected) == len(skitter.lines("out.csv.rejects.jsonl")) == 3
    assert all("handle" in line["reason"] and line["record"]["n"] == 100 for line in rejected)
    assert len({line["key"] for line in rejected}) == 3


# ---- targets


def test_targets_of_the_project_give_way_to_the_spiders_and_both_to_the_command_line(skitter, shop) -> None:
    skitter.write("skitter.toml", '[[sink]]\ntarget = "one.jsonl"\n[[sink]]\ntarget = "two.csv"\noverwrite = true\n')
    spider(skitter, PARSE)
    crawl(skitter, shop)
    assert len(skitter.lines("one.jsonl")) == 3
    assert (skitter.folder / "two.csv").exists()
    spider(skitter, PARSE + "\nsinks = ['spider.jsonl']\n")
    crawl(skitter, shop)
    assert len(skitter.lines("spider.jsonl")) == 3
    assert len(skitter.lines("one.jsonl")) == 3, "not written again"
    assert len(skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "-").stdout.splitlines()) == 3
    assert len(skitter.lines("spider.jsonl")) == 3


def test_feeds_of_a_spider_and_of_a_settings_module_are_targets(skitter, shop) -> None:
    skitter.write("settings.py", "FEEDS = {'config.jsonl': {'format': 'jsonlines'}, 'config.xml': {'format': 'xml'}}\n")
    spider(skitter, PARSE)
    done = skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", "--config", "settings.py")
    assert len(skitter.lines("config.jsonl")) == 3
    assert "FEEDS: not written: config.xml: skitter writes no xml" in done.stderr
    spider(skitter, PARSE + "\ncustom_settings = {'FEEDS': {'own.csv': {'format': 'csv', 'overwrite': True}}}\n")
    skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", "--config", "settings.py", "--fresh")
    assert len((skitter.folder / "own.csv").read_text().splitlines()) == 4
    assert len(skitter.lines("config.jsonl")) == 3, "not written again"


@pytest.mark.parametrize(
    "table",
    ['[sink]\ntarget = "x.jsonl"', "[[sink]]\nkey = 'x'", '[[sink]]\ntarget = "x.jsonl"\nkey = 3', "sink = 'x.jsonl'"],
)
def test_a_sink_table_that_is_wrong_is_said(skitter, shop, table) -> None:
    spider(skitter, PARSE)
    skitter.write("skitter.toml", table)
    done = skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", code=2)
    assert done.stderr.startswith("error: ")
    assert "hint: " in done.stderr


def test_what_a_target_refuses_is_kept_with_the_reason_and_the_rest_is_written(skitter, shop) -> None:
    skitter.write("mysink.py", SINK)
    priced = "def price(item):\n    return item | {'price': item['n'] - 1}\n"
    spider(skitter, PARSE + "\nitem_key = 'title'\nitem_functions = [price]\n", head=priced)
    summary = crawl(skitter, shop, "-o", "python:mysink:Writer")
    assert (summary["items"], summary["rejected"], summary["undelivered"]) == (3, 1, 0)
    (rejected,) = skitter.lines(".skitter/shop.rejects.jsonl")
    assert (rejected["reason"], rejected["target"]) == ("negative price", "python:mysink:Writer?key=title")
    assert sorted(record["key"] for record in skitter.lines("sunk.jsonl")) == [" Book 0 ", " Book 1 ", " Book 2 "]
    (sink,) = skitter.json("status", "--job", "shop")["sinks"]
    assert sink["rejected"] == 1


SECRET = "hush-hush"


def test_no_secret_of_a_target_is_shown_or_kept(skitter, shop) -> None:
    skitter.write("mysink.py", SINK)
    spider(skitter, PARSE)
    target = f"python:mysink:Writer?password={SECRET}&color=red#sunk.jsonl"
    base = ("-a", f"base={shop.base}", "--log", "log.jsonl", "--log-format", "json", "-v")
    done = [skitter.run("crawl", "shop.py", *base, "-o", target, "--max-pages", 2)]
    done.append(skitter.run("status", "--job", "shop", "-v"))
    done.append(skitter.run("status", "--job", "shop", "--json"))
    done.append(skitter.run("jobs"))
    done.append(skitter.run("crawl", "shop.py", *base, "-o", target))
    (skitter.folder / "down").touch()
    done.append(skitter.run("crawl", "shop.py", *base, "-o", target, code=3))
    done.append(skitter.run("drain", "--job", "shop", "-o", target, code=None))
    said = "".join(each.stdout + each.stderr for each in done)
    assert SECRET not in said
    assert "color=red" in said
    for path in [path for path in skitter.folder.rglob("*") if path.is_file()]:
        assert SECRET.encode() not in path.read_bytes(), path


def test_a_run_that_goes_on_without_its_password_says_what_to_do(skitter, shop) -> None:
    skitter.write(
        "mysink.py", SINK.replace("def open(self):", "def open(self):\n            assert self.password == 'hush'")
    )
    spider(skitter, PARSE)
    base = ("-a", f"base={shop.base}")
    target = "python:mysink:Writer?password=hush"
    skitter.run("crawl", "shop.py", *base, "-o", target, "--max-pages", 2)
    refused = skitter.run("crawl", "shop.py", *base, code=3)
    assert "a password is not kept with the job: give the output again with -o" in refused.stderr
    skitter.run("crawl", "shop.py", *base, "-o", target)
    assert len(skitter.lines("sunk.jsonl")) == 3


# ---- targets that are unavailable


def _goes_down(skitter, site, path: str, body: bytes) -> None:
    """The target, when this page is asked for."""

    def answer(seen: Any, handler: Any) -> tuple[int, dict[str, str], bytes]:
        (skitter.folder / "down").touch()
        return 200, {"Content-Type": "text/html"}, body

    site.on(path, answer)


def test_a_target_that_is_away_at_the_start_is_an_error_and_nothing_is_crawled(skitter, shop) -> None:
    skitter.write("mysink.py", SINK)
    spider(skitter, PARSE)
    (skitter.folder / "down").touch()
    done = skitter.run("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "python:mysink:Writer", code=3)
    assert "error: python:mysink:Writer: ConnectionRefusedError: the server is down" in done.stderr
    assert shop.paths() == []


def test_a_target_that_goes_away_is_waited_for_also_at_the_end(skitter, shop, until) -> None:
    skitter.write("mysink.py", SINK)
    spider(skitter, PARSE)
    command = ("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "python:mysink:Writer", "-o", "file.jsonl")
    _goes_down(skitter, shop, "/0", b"<h1>Book 0</h1>")
    process = skitter.start(*command, *QUICK, "--log-format", "json")
    with process:
        looked = skitter.folder / "looked"
        until((skitter.folder / "down").exists, process)
        status = ("status", "--job", "shop", "--json")
        until(lambda: "server is down" in skitter.run(*status).stdout, process)
        assert (
            "unavailable: python:mysink:Writer: ConnectionRefusedError" in skitter.run("status", "--job", "shop").stdout
        )
        until(lambda: (skitter.json("status", "--job", "shop")["state"]) == "finished", process)
        tries = looked.stat().st_size
        until(lambda: looked.stat().st_size > tries, process)
        assert process.poll() is None, "it waits"
        until(lambda: len(skitter.lines("file.jsonl")) == 3, process)
        (skitter.folder / "down").unlink()
        _, error = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 0, error
    assert len(skitter.lines("sunk.jsonl")) == 3
    events = [line for line in error.splitlines() if '"event":"sink.' in line]
    assert [event.split('"event":"')[1].split('"')[0] for event in events] == ["sink.unavailable", "sink.back"], events


@pytest.mark.parametrize("again", ["crawl", "drain"])
def test_ctrl_c_leaves_a_target_that_is_away_and_nothing_is_lost(skitter, shop, until, again) -> None:
    skitter.write("mysink.py", SINK)
    spider(skitter, PARSE)
    command = ("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "python:mysink:Writer")
    shop.on(
        "/",
        lambda seen, handler: ((skitter.folder / "down").touch(), (200, {}, b"<a href=/1>1</a><a href=/2>2</a>"))[1],
    )
    process = skitter.start(*command, *QUICK)
    with process:
        until((skitter.folder / "down").exists, process)
        until(lambda: skitter.json("status", "--job", "shop")["state"] == "finished", process)
        process.send_signal(signal.SIGINT)
        _, error = process.communicate(timeout=HANG_SECONDS)
    assert process.returncode == 130, error
    assert "2 items undelivered" in error
    (skitter.folder / "down").unlink()
    if again == "crawl":
        skitter.run(*command)
    else:
        skitter.run("drain", "--job", "shop", "-o", "python:mysink:Writer")
    assert sorted(record["n"] for record in skitter.lines("sunk.jsonl")) == [1, 2]


def test_a_target_that_fails_does_not_cost_the_others_their_items(skitter, shop) -> None:
    skitter.write(
        "mysink.py", "class Broken:\n    def write(self, batch):\n        raise ValueError('no such table')\n"
    )
    spider(skitter, PARSE)
    done = skitter.run(
        "crawl", "shop.py", "-a", f"base={shop.base}", "-o", "python:mysink:Broken", "-o", "out.jsonl", code=3
    )
    assert "a sink has failed: python:mysink:Broken: ValueError: no such table" in done.stderr
    status = {sink["target"]: sink["undelivered"] for sink in skitter.json("status", "--job", "shop")["sinks"]}
    assert status["out.jsonl"] == 0
    assert status["python:mysink:Broken"] == len(skitter.lines("out.jsonl")) > 0


def test_a_worker_writes_to_a_target_whose_crawl_was_killed(skitter, site, until) -> None:
    """Not to its files, which belong to the process's node: those wait."""
    skitter.write("mysink.py", SINK)
    spider(skitter, PARSE)
    site.page("/", "".join(f'<a href="/{n}">{n}</a>' for n in range(40)))
    for n in range(40):
        site.page(f"/{n}", f"<h1>Book {n}</h1>")
    base = ("-a", f"base={site.base}", "--delay", 0.05)
    process = skitter.start("crawl", "shop.py", *base, "-o", "python:mysink:Writer", "-o", "file.jsonl")
    with process:
        until(lambda: len(site.paths()) > 8, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    skitter.run("worker", "--job", "shop")
    assert {record["title"] for record in skitter.lines("sunk.jsonl")} == {f"Book {n}" for n in range(40)}
    status = {sink["target"]: sink for sink in skitter.json("status", "--job", "shop")["sinks"]}
    assert status["python:mysink:Writer"]["undelivered"] == 0
    assert status["file.jsonl"]["undelivered"] > 0
    skitter.run("drain", "--job", "shop", "-o", "file.jsonl")
    assert sorted(record["title"] for record in skitter.lines("file.jsonl")) == sorted(f"Book {n}" for n in range(40))


def test_of_two_crawls_with_one_target_the_other_goes_on_when_the_first_is_killed(skitter, site, until) -> None:
    # Seven seconds of a crawl: enough for a second one to start beside it, also on a busy machine.
    pages = 150
    skitter.write("mysink.py", LOCKED_SINK)
    spider(skitter, PARSE)
    site.page("/", "".join(f'<a href="/{n}">{n}</a>' for n in range(pages)))
    for n in range(pages):
        site.page(f"/{n}", f"<h1>Book {n}</h1>")
    command = (
        "crawl",
        "shop.py",
        "-a",
        f"base={site.base}",
        "--delay",
        0.05,
        "-o",
        "python:mysink:Writer?password=hush",
    )
    first = skitter.start(*command)
    with first:
        until(lambda: len(site.paths()) > 5, first)
        second = skitter.start(*command, "--log-format", "json")
        with second:
            until(lambda: skitter.json("status", "--job", "shop")["workers"] == 2, second)
            os.killpg(first.pid, signal.SIGKILL)
            first.communicate()
            _, error = second.communicate(timeout=HANG_SECONDS)
    assert second.returncode == 0, error
    assert '"event":"sink.elsewhere"' in error
    assert '"event":"sink.taken_over"' in error
    assert {record["title"] for record in skitter.lines("sunk.jsonl")} == {f"Book {n}" for n in range(pages)}
    assert skitter.json("status", "--job", "shop")["undelivered"] == 0


def test_a_process_of_its_own_delivers_until_the_job_is_over(skitter, site, until) -> None:
    spider(skitter, PARSE)
    site.page("/", "".join(f'<a href="/{n}">{n}</a>' for n in range(30)))
    for n in range(30):
        site.page(f"/{n}", f"<h1>Book {n}</h1>")
    process = skitter.start("crawl", "shop.py", "-a", f"base={site.base}", "--delay", 0.05, "-o", "file.jsonl")
    with process:
        until(lambda: len(site.paths()) > 5, process)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    with skitter.start("drain", "--job", "shop", "-o", "file.jsonl", "--stay", "--json") as draining:
        until(lambda: skitter.json("status", "--job", "shop")["sinks"][0]["owner"], draining)
        skitter.run("worker", "--job", "shop")
        _, error = draining.communicate(timeout=HANG_SECONDS)
    assert draining.returncode == 0, error
    assert sorted(record["title"] for record in skitter.lines("file.jsonl")) == sorted(f"Book {n}" for n in range(30))
    assert skitter.json("status", "--job", "shop")["undelivered"] == 0


def test_the_environment_gives_the_password_of_a_named_user(skitter, shop, monkeypatch) -> None:
    skitter.write(
        "mysink.py", SINK.replace("def open(self):", "def open(self):\n            assert self.password == 'hush'")
    )
    info = skitter.folder / "own-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[skitter.sinks]\nown = mysink:Writer\n")
    monkeypatch.setenv("PYTHONPATH", f"{skitter.folder}:{os.environ.get('PYTHONPATH', '')}")
    spider(skitter, PARSE)
    base = ("crawl", "shop.py", "-a", f"base={shop.base}", "-o", "own://ann@host/x")
    skitter.run(*base, code=3)
    monkeypatch.setenv("SKITTER_SINK_PASSWORD", "hush")
    skitter.run(*base)
    assert len(skitter.lines("sunk.jsonl")) == 3
