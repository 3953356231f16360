"""Which files skitter runs: its own, those that a command names, and those of the project that a job names."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from skitter.model.job import JobSpec
from skitter.settings import Settings
from skitter.testing.frontiers import open_frontier

PACKAGES = ("can_ada", "lxml", "msgspec", "protego", "pycurl", "rich", "selectolax", "uvloop")
HOOKS = ("sitecustomize", "usercustomize")
TELLS = "open({mark!r}, 'a').write(__name__ + '\\n')\n"
SPIDER = """
    import json, random
    from skitter import Spider
    from neighbour import title_of
    from shop_package.prices import price

    class Shop(Spider):
        name = "shop"
        def __init__(self, base):
            self.start_urls = [base + "/", base + "/a"]
        def parse(self, response):
            yield {"title": title_of(response), "price": price(), "random": random.choice([7]), "json": json.dumps(1)}
"""
ITEMS = "def keep(item):\n    return {**item, 'kept': True}\n"
SINK = """
    class Lines:
        def write(self, batch):
            with open("written.txt", "a") as file:
                file.write("".join(f"{key}\\n" for key, _ in batch))
"""
OUTSIDE = """
    from skitter import Spider

    class Outside(Spider):
        name = "outside"
        def __init__(self, base):
            self.start_urls = [base + "/"]
        def parse(self, response):
            yield {"url": response.url}
"""


@pytest.fixture
def safe(skitter, tmp_path, monkeypatch) -> Any:
    """As the installed command runs: without the current folder among the places of modules."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    skitter.folder = tmp_path / "project"
    skitter.folder.mkdir()
    skitter.python = [sys.executable, "-P"]
    return skitter


def plant(folder: Path, mark: Path) -> None:
    """A file for each module of Python, of skitter and of what skitter needs, that tells when it is run."""
    text = TELLS.format(mark=str(mark))
    # Those of other systems are not there to be replaced.
    python = [name for name in sys.stdlib_module_names if find_spec(name) is not None]
    for name in (*python, *HOOKS, *PACKAGES, "skitter"):
        (folder / f"{name}.py").write_text(text)
    (folder / "skitter").mkdir()
    (folder / "skitter" / "__init__.py").write_text(text)


def two_pages(site: Any) -> None:
    site.page("/", "<title>home</title><a href='/a'>a</a>")
    site.page("/a", "<title>a</title>")


# ---- what lies beside a crawl


@pytest.mark.parametrize("workers", [1, 2])
def test_no_file_of_the_current_folder_is_run_by_a_crawl_of_a_url(safe, site, tmp_path, workers) -> None:
    two_pages(site)
    plant(safe.folder, tmp_path / "mark")
    safe.run("crawl", site.url("/"), "-o", "out.jsonl", "--job", "j", "--workers", workers)
    assert {record["title"] for record in safe.lines("out.jsonl")} == {"home", "a"}
    assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()


@pytest.mark.parametrize("how", ["1 worker", "2 workers", "worker", "memory"])
def test_a_spiders_neighbours_are_found_and_replace_nothing_that_is_installed(safe, site, tmp_path, how) -> None:
    two_pages(site)
    mark = tmp_path / "mark"
    safe.write("spiders/shop.py", SPIDER)
    safe.write("spiders/neighbour.py", "def title_of(response):\n    return response.title\n")
    safe.write("shop_package/__init__.py", "")
    safe.write("shop_package/prices.py", "from . import currency\n\ndef price():\n    return currency.SIGN\n")
    safe.write("shop_package/currency.py", "SIGN = 'EUR'\n")
    safe.write("own_items.py", ITEMS)
    safe.write("own_sinks.py", SINK)
    plant(safe.folder, mark)
    plant(safe.folder / "spiders", mark)
    crawl = ["crawl", "spiders/shop.py", "-a", f"base={site.base}", "-o", "out.jsonl", "-o", "python:own_sinks:Lines"]
    crawl += ["--job", "j", "--set", "item_functions=own_items:keep"]
    if how == "memory":
        safe.run(*crawl, "--frontier", "memory:")
    elif how == "worker":
        spider, sink, functions = "spiders/shop.py:Shop", "python:own_sinks:Lines", "own_items:keep"
        begin(safe.folder, "sqlite:.skitter/j.db", "j", spider, site, sinks=[sink, "-"], item_functions=functions)
        safe.run("worker", "--job", "j")
        (safe.folder / "out.jsonl").write_text(safe.run("drain", "--job", "j", "-o", "-").stdout)
    else:
        safe.run(*crawl, "--workers", how.partition(" ")[0])
    got = safe.lines("out.jsonl")
    assert {record["title"] for record in got} == {"home", "a"}
    for record in got:
        assert (record["price"], record["random"], record["json"], record["kept"]) == ("EUR", 7, "1", True)
    assert len((safe.folder / "written.txt").read_text().split()) == 2
    assert not mark.exists(), mark.read_text()


# ---- what a job names


def begin(folder: Path, frontier: str, job: str, spider: str, site: Any, sinks: Any = (), **settings: Any) -> None:
    """A job as whoever can write to the store may leave it there."""
    spec = JobSpec(
        name=job,
        spider=spider,
        arguments={"base": site.base},
        settings=Settings.from_layers([("test", settings)]).job_wide(),
    )

    async def put() -> None:
        store = open_frontier(frontier, job, create=True)
        try:
            await store.begin(spec, sinks=sinks)
        finally:
            await store.close()

    before = Path.cwd()
    os.chdir(folder)
    try:
        asyncio.run(put())
    finally:
        os.chdir(before)


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.soak)])
def store(request, services, tmp_path) -> str:
    if request.param == "redis":
        return str(services.need("redis")["url"])
    return f"sqlite:{tmp_path / 'shared.db'}"


@pytest.fixture
def outside(safe, tmp_path) -> Path:
    """A folder beside the project; whatever of it is imported is told in the file ``mark``."""
    folder = tmp_path / "outside"
    tells = TELLS.format(mark=str(tmp_path / "mark"))
    safe.write("../outside/evil.py", OUTSIDE)
    safe.write("../outside/outside_items.py", ITEMS)
    safe.write("../outside/outside_sinks.py", SINK)
    for file in folder.iterdir():
        file.write_text(tells + file.read_text())
    return folder


def refused(command_line: Any, tmp_path: Path, *words: object, **options: Any) -> str:
    """What a command says that runs nothing of what the job names."""
    error = command_line.run(*words, code=2, **options).stderr
    assert "error: the job names code outside the project folder: " in error
    assert not (tmp_path / "mark").exists()
    return str(error)


@pytest.mark.parametrize("form", ["absolute", "relative", "link"])
def test_a_spider_outside_the_project_is_named_on_the_command_line(safe, site, tmp_path, store, outside, form) -> None:
    two_pages(site)
    (safe.folder / "linked.py").symlink_to(outside / "evil.py")
    place = {"absolute": str(outside / "evil.py"), "relative": "../outside/evil.py", "link": "linked.py"}[form]
    job = ("--frontier", store, "--job", tmp_path.name)
    begin(safe.folder, store, tmp_path.name, f"{place}:Outside", site)
    error = refused(safe, tmp_path, "worker", *job)
    assert f"hint: if you trust it, allow it: skitter worker {place}:Outside, or --set trusted_code={place}" in error
    refused(safe, tmp_path, "worker", *job, "--set", "trusted_code=../outside/other.py,../out,evil")
    assert safe.json("status", *job)["done"] == 0
    named = ("--set", "trusted_code=../outside") if form == "relative" else (f"{place}:Outside",)
    if form != "link":
        assert safe.json("worker", *named, *job)["state"] == "finished"
        assert "evil" in (tmp_path / "mark").read_text()


def test_a_spider_of_the_project_need_not_be_named(safe, site, tmp_path, store) -> None:
    two_pages(site)
    safe.write("deep/er/inside.py", OUTSIDE)
    begin(safe.folder, store, tmp_path.name, "deep/er/inside.py:Outside", site)
    assert safe.json("worker", "--frontier", store, "--job", tmp_path.name)["state"] == "finished"


def test_what_a_crawl_names_its_own_workers_load(safe, site, outside) -> None:
    two_pages(site)
    path = {"env": {**os.environ, "PYTHONPATH": str(outside)}}
    crawl = ["crawl", "../outside/evil.py", "-a", f"base={site.base}", "--job", "j", "--workers", 2, "-q"]
    safe.run(*crawl, "--set", "item_functions=outside_items:keep", "-o", "python:outside_sinks:Lines", **path)
    assert (safe.folder / "written.txt").read_text()


@pytest.mark.parametrize("named", ["option", "toml"])
def test_item_functions_of_a_job_are_the_projects_or_named(safe, site, tmp_path, store, outside, named) -> None:
    two_pages(site)
    safe.write("inside.py", OUTSIDE)
    path = {"env": {**os.environ, "PYTHONPATH": str(outside)}}
    job = ("--frontier", store, "--job", tmp_path.name)
    begin(safe.folder, store, tmp_path.name, "inside.py:Outside", site, item_functions="outside_items:keep")
    error = refused(safe, tmp_path, "worker", *job, **path)
    assert "hint: if you trust it, allow it: --set trusted_code=outside_items" in error
    if named == "toml":
        safe.write("skitter.toml", 'item_functions = ["outside_items:keep"]')
        safe.run("worker", *job, **path)
    else:
        safe.run("worker", *job, "--set", "trusted_code=outside_items", **path)
    assert (tmp_path / "mark").read_text() == "outside_items\n"


def test_sinks_of_a_job_are_the_projects_or_named(safe, site, tmp_path, store, outside) -> None:
    two_pages(site)
    safe.write("inside.py", OUTSIDE)
    path = {"env": {**os.environ, "PYTHONPATH": str(outside)}}
    job = ("--frontier", store, "--job", tmp_path.name)
    begin(safe.folder, store, tmp_path.name, "inside.py:Outside", site, sinks=["python:outside_sinks:Lines"])
    crawl = ("crawl", "inside.py", "-a", f"base={site.base}", *job)
    refused(safe, tmp_path, *crawl, **path)
    # A worker does without: another node may know the sink.
    log = safe.run("worker", *job, "--log-format", "json", **path).stderr
    assert not (tmp_path / "mark").exists()
    events = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert [event["target"] for event in events if event["event"] == "sink.left"] == ["python:outside_sinks:Lines"]
    safe.run(*crawl, "--set", "trusted_code=outside_sinks", **path)
    assert (tmp_path / "mark").read_text() == "outside_sinks\n"
    assert len((safe.folder / "written.txt").read_text().split()) == 1
