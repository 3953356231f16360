"""The command line and ``skitter.crawl`` make the same crawl of the same spider, and refuse the same ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from skitter.app.config import CrawlConfig
from skitter.app.script import script_config
from skitter.cli.arguments import Parser
from skitter.cli.crawl import configure, make_config
from skitter.errors import SkitterError
from skitter.spiders.loading import load_spider

HEAD = """
import skitter
class Books(skitter.Spider):
    start_urls = ["https://a.example/"]
    def parse(self, response):
        pass
"""
SINKS_OF_THE_INSTANCE = """
    sinks = ["class.jsonl"]
    def __init__(self, shop="none"):
        self.sinks = [f"{shop}.jsonl"]
        self.item_key = "isbn"
"""
SITEMAP = ["https://a.example/sitemap.xml", "https://A.example/sitemap.xml#top"]
SPIDERS: dict[str, tuple[str, dict[str, Any]]] = {
    "no name": (HEAD, {}),
    "a name": (HEAD + "    name = 'shop'", {}),
    "a name with a slash": (HEAD + "    name = 'shop/books'", {}),
    "a name with dots": (HEAD + "    name = '../shop'", {}),
    "a name of nothing that a file may have": (HEAD + "    name = '///'", {}),
    "a name from an argument": (HEAD, {"arguments": {"name": "of the argument"}}),
    "sinks of the class": (HEAD + "    sinks = ['a.jsonl', {'target': 'b.csv', 'overwrite': True}]", {}),
    "sinks of the instance": (HEAD + SINKS_OF_THE_INSTANCE, {"arguments": {"shop": "corner"}}),
    "sinks of the settings": (HEAD + "    custom_settings = {'sinks': ['s.jsonl'], 'max_depth': 3}", {}),
    "the same sink twice": (HEAD + "    sinks = ['a.jsonl', 'a.jsonl']", {}),
    "a sink that is none": (HEAD + "    sinks = [7]", {}),
    "settings of Scrapy": (HEAD + "    custom_settings = {'DEPTH_LIMIT': 2, 'DOWNLOAD_DELAY': 1}", {}),
    "a setting that is none": (HEAD + "    custom_settings = {'max_deepness': 2}", {}),
    "an output": (HEAD + "    sinks = ['a.jsonl']", {"output": "out.jsonl"}),
    "an output that is overwritten": (HEAD, {"output": "out.jsonl", "overwrite": True}),
    "a job": (HEAD + "    name = 'shop'", {"job": "mine"}),
    "a job with a slash": (HEAD, {"job": "my/job"}),
    "a frontier": (HEAD, {"frontier": "sqlite:elsewhere.db"}),
    "memory and two workers": (HEAD, {"frontier": "memory:", "settings": {"workers": 2}}),
    "a proxy that is none": (HEAD, {"settings": {"proxy": "ftp://a.example"}}),
    "a sitemap twice": (HEAD, {"sitemaps": SITEMAP}),
    "robots": (HEAD, {"sitemaps": ["robots"]}),
    "robots of nowhere": (HEAD.replace('["https://a.example/"]', "[]"), {"sitemaps": ["robots"]}),
    "a sitemap that is none": (HEAD, {"sitemaps": ["a.example"]}),
    "nowhere to start": (HEAD.replace('["https://a.example/"]', "[]"), {}),
    "an argument that it does not take": (HEAD + SINKS_OF_THE_INSTANCE, {"arguments": {"town": "x"}}),
    "fresh": (HEAD, {"fresh": True}),
}
URLS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "a host with a port": (["https://a.example:8901/x"], {}),
    "an IPv6 address": (["http://[::1]:8901/"], {}),
    "one URL twice": (["https://a.example/", "https://A.example/#top"], {}),
    "no scheme": (["ftp://a.example/"], {}),
    "a sitemap alone": ([], {"sitemaps": SITEMAP}),
    "robots alone": ([], {"sitemaps": ["robots"]}),
    "arguments": (["https://a.example/"], {"arguments": {"a": "b"}}),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("SKITTER_WORKERS", "SKITTER_SINK_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def of_command_line(targets: list[str], options: dict[str, Any]) -> CrawlConfig:
    words = list(targets)
    for name, flag in (("job", "--job"), ("frontier", "--frontier")):
        words += [flag, options[name]] if name in options else []
    if "output" in options:
        words += ["-O" if options.get("overwrite") else "-o", options["output"]]
    for sitemap in options.get("sitemaps", ()):
        words += ["--sitemap", sitemap]
    for name, value in options.get("arguments", {}).items():
        words += ["-a", f"{name}={value}"]
    for name, value in options.get("settings", {}).items():
        words += ["--set", f"{name}={value}"]
    words += ["--fresh"] if options.get("fresh") else []
    parser = Parser(prog="skitter crawl", description="")
    configure(parser)
    return make_config(parser.parse(words))[0]


def shown(make: Any) -> Any:
    """What is run, or why nothing is."""
    try:
        config = make()
    except SkitterError as error:
        # Where a value came from is told differently: an option, or the settings of a script.
        return type(error), str(error).partition(": ")[0].partition(" in ")[0]
    return config.spec, config.frontier, config.settings, config.outputs, config.fresh


@pytest.mark.parametrize("case", SPIDERS)
def test_a_spider_is_the_same_crawl_by_command_and_by_script(folder: Path, case: str) -> None:
    text, options = SPIDERS[case]
    (folder / "books.py").write_text(text)
    by_command = shown(lambda: of_command_line(["books.py"], options))
    kind = load_spider("books.py", folder)
    by_script = shown(lambda: script_config(kind, **options)[0])
    assert by_script == by_command


@pytest.mark.parametrize("case", URLS)
def test_urls_are_the_same_crawl_by_command_and_by_script(case: str) -> None:
    urls, options = URLS[case]
    assert shown(lambda: script_config(urls, **options)[0]) == shown(lambda: of_command_line(urls, options))


@pytest.mark.parametrize(
    ("name", "job"),
    [("shop/books", "shop-books"), ("../shop", "shop"), ("///", "job"), ("", "Books"), ("shop", "shop")],
)
def test_the_name_of_a_spider_is_made_fit_for_a_file(folder: Path, name: str, job: str) -> None:
    (folder / "books.py").write_text(HEAD + f"    name = {name!r}")
    config, _, _ = script_config(load_spider("books.py", folder))
    assert (config.spec.name, config.frontier) == (job, f"sqlite:.skitter/{job}.db")


def test_a_spider_without_a_file_is_run_in_this_process_and_by_one_worker() -> None:
    from skitter.spiders.base import Spider

    class Local(Spider):
        name = "local"
        start_urls = ("https://a.example/",)

        def parse(self, response: object) -> None:
            pass

    config, spider, _ = script_config(Local, job="mine")
    assert isinstance(spider, Local)
    assert (config.spec.spider, config.spec.name) == (f"notebook:{Local.__qualname__}", "mine")
    with pytest.raises(SkitterError, match="a spider without a file runs in one process"):
        script_config(Local, settings={"workers": 2})
