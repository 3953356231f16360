"""A Scrapy project runs as it is: item for item what Scrapy itself gives, with a kill -9 and with two workers too."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from PIL import Image

from rig.processes import HANG_SECONDS

PROJECT = Path(__file__).parent / "scrapy_project"
QUOTES, BOOK_PAGES, BOOKS_PER_PAGE = 12, 4, 5


def fill(site) -> None:
    """The pages of a shop, as sites that people practise on have them."""
    site.page(
        "/robots.txt",
        f"User-agent: *\nDisallow: /forbidden\nSitemap: {site.url('/sitemap.xml')}\n",
        content_type="text/plain",
    )
    add_quotes(site)
    add_books(site)
    add_feeds(site)
    add_login(site)
    add_odd_pages(site)
    add_files(site)


def quote(text: str, author: int, *tags: str) -> str:
    found = "".join(f'<a class="tag">{tag}</a>' for tag in tags)
    about = f'<small>Author {author}</small><a class="author" href="/author/{author}">about</a>'
    return f'<div class="quote"><span class="text">{text}</span>{about}{found}</div>'


def add_quotes(site) -> None:
    pages = QUOTES // 3
    for number in range(1, pages + 1):
        quotes = [quote(f"“Quote {n} &amp; more”", n % 5, f"t{n}", "u") for n in range(number * 3, number * 3 + 3)]
        if number == 1:
            quotes.append(quote("drop me", 1))
        if number < pages:
            quotes.append(f'<ul><li class="next"><a href="/quotes/page/{number + 1}">Next</a></li></ul>')
        body = f"<html><body>{''.join(quotes)}</body></html>"
        site.page("/quotes" if number == 1 else f"/quotes/page/{number}", body)
    site.page("/quotes/tag/u", quote("tagged", 0))
    for number in range(5):
        site.page(f"/author/{number}", f'<h3>Author {number}</h3><span class="born">in 19{number}0</span>')


def add_books(site) -> None:
    for number in range(1, BOOK_PAGES + 1):
        first = (number - 1) * BOOKS_PER_PAGE
        books = "".join(
            f'<article><h3><a href="book-{n}">Book {n}</a></h3></article>' for n in range(first, first + BOOKS_PER_PAGE)
        )
        pages = "".join(
            f'<a href="/books/page-{n}?b=2&a=1">p</a><a href="/books/page-{n}?a=1&b=2">p</a>'
            for n in range(1, BOOK_PAGES + 1)
        )
        unavailable = (
            '<a href="http://elsewhere.invalid/elsewhere">unavailable</a><a href="/forbidden/elsewhere">no</a>'
        )
        site.page(f"/books/page-{number}", f"<html><body>{books}{pages}{unavailable}</body></html>")
    for n in range(200):
        name = {3: " drop me ", 4: "fail in pipeline"}.get(n, f" book number {n}")
        site.page(
            f"/books/book-{n}",
            f'<h1>{name}</h1><p class="price">£{n}.5</p><ul><li>a</li><li>b{n}</li></ul><a href="page-1">up</a>',
        )


def add_feeds(site) -> None:
    xml = {"content_type": "application/xml"}
    maps = "".join(f"<sitemap><loc>{site.url(path)}</loc></sitemap>" for path in ("/sitemap-books.xml", "/other.xml"))
    site.page(
        "/sitemap.xml",
        f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{maps}</sitemapindex>',
        **xml,
    )
    urls = "".join(
        f"<url><loc>{site.url(path)}</loc></url>" for path in ("/books/book-1", "/books/book-2", "/quotes", "/echo")
    )
    site.page(
        "/sitemap-books.xml", f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>', **xml
    )
    items = "".join(f'<item id="{n}"><title>Title {n}</title></item>' for n in range(20))
    site.page("/feed.xml", f"<?xml version='1.0'?><rss><channel>{items}</channel></rss>", content_type="text/xml")
    rows = "\n".join(f"'{n}';'Name; {n}';'{n}.5'" for n in range(20))
    site.page("/feed.csv", f"'id';'name';'price'\n{rows}\n", content_type="text/csv")


def add_login(site) -> None:
    site.page(
        "/login",
        '<form action="/session" method="post"><input type="hidden" name="csrf" value="c1">'
        '<input name="user"><input name="password" type="password"><button name="go" value="1"></button></form>',
        set_cookie="visit=1; Path=/",
    )

    def session(seen, handler):
        ok = seen.body == b"csrf=c1&user=u&password=secret&go=1"
        return 302, {"Location": "/welcome", "Set-Cookie": f"login={'yes' if ok else seen.body.decode()}; Path=/"}, b""

    def account(seen, handler):
        cookies = sorted(part.strip() for part in seen.headers.get("cookie", "").split(";"))
        return 200, {"Content-Type": "text/html"}, f"<h1>{' '.join(cookies)}</h1>".encode()

    def api(seen, handler):
        told = {"sent": json.loads(seen.body), "type": seen.headers["content-type"], "method": seen.method}
        return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()

    site.on("/session", session)
    site.on("/welcome", account)
    site.on("/account", account)
    site.on("/api", api)


def add_odd_pages(site) -> None:
    for path, status in (("/missing", 404), ("/gone", 410), ("/teapot", 418), ("/broken", 500)):
        site.page(path, f"<h1>{status}</h1>", status=status)
    site.page("/redirect", "", status=302, location="/redirect-2")
    site.page("/redirect-2", "", status=301, location="/landed#part")
    site.page("/landed", "<h1>landed</h1>")
    site.page("/refresh", '<meta http-equiv="refresh" content="0; url=/refreshed">')
    site.page("/refreshed", "<h1>refreshed</h1>")
    for path in ("/raises", "/recovers", "/dropped"):
        site.page(path, "<h1>x</h1>")
    site.page("/empty", "")
    site.page("/latin", "<h1>caf\xe9</h1>".encode("latin-1"), content_type="text/html; charset=latin-1")
    site.page("/text", "plain", content_type="text/plain")
    site.page("/json", '{"a": [1, 2]}', content_type="application/json")
    site.page("/xml", "<r><h1>x</h1></r>", content_type="text/xml")

    def echo(seen, handler):
        sent = [seen.headers.get(name, "-") for name in ("x-shop", "accept-language", "referer")]
        shown = " ".join([*sent[:2], sent[2].rpartition("/")[2]])
        return 200, {"Content-Type": "text/html"}, f"<h1>{shown}</h1>".encode()

    asked: dict[str, int] = {}

    def now_and_then(path, first, then):
        def answer(seen, handler):
            # Scrapy and skitter each have a first time, told apart by who they say they are.
            key = f"{path} {seen.headers['user-agent'].partition('/')[0]}"
            asked[key] = asked.get(key, 0) + 1
            return first if asked[key] == 1 else then

        site.on(path, answer)

    html = {"Content-Type": "text/html"}
    now_and_then("/once-502", (502, html, b""), (200, html, b"<h1>up again</h1>"))
    now_and_then("/banned", (200, html, b"<h1>BANNED</h1>"), (200, html, b"<h1>let in</h1>"))
    site.on("/echo", echo)

    def slow(seen, handler):
        import time

        time.sleep(2)
        return 200, html, b"<h1>late</h1>"

    site.on("/slow", slow)


def add_files(site) -> None:
    picture = io.BytesIO()
    Image.new("RGB", (20, 10), (200, 30, 30)).save(picture, "PNG")
    site.page("/image.png", picture.getvalue(), content_type="image/png")
    site.page("/a.pdf", b"%PDF a", content_type="application/pdf")
    site.page("/moved.pdf", "", status=302, location="/a.pdf")
    base = site.base
    site.page(
        "/files-page", f'<a href="{base}/a.pdf"></a><a href="{base}/nothing.pdf"></a><img src="{base}/image.png">'
    )


RUN_ALL = """
import sys
from scrapy.crawler import CrawlerProcess
from scrapy.utils.project import get_project_settings

settings = get_project_settings()
settings["FEEDS"] = {"%(name)s.json": {"format": "json", "overwrite": True}}
process = CrawlerProcess(settings)
for name in sys.argv[2:]:
    process.crawl(name, site=sys.argv[1])
process.start()
"""


class Project:
    """Two copies of the project: Scrapy crawls one, skitter the other."""

    def __init__(self, skitter, site, folder: Path) -> None:
        self.skitter, self.site, self.folder = skitter, site, folder
        fill(site)
        for name in ("scrapy", "skitter"):
            shutil.copytree(PROJECT, folder / name)
        skitter.folder = folder / "skitter"

    def scrapy(self, *names: str) -> dict[str, list]:
        """What Scrapy itself gives, by spider; one process for all, because it takes seconds to start."""
        command = [sys.executable, "-c", RUN_ALL, self.site.base, *names]
        options = {"cwd": self.folder / "scrapy", "capture_output": True, "text": True, "timeout": 100}
        done = subprocess.run(command, check=False, **options)
        assert done.returncode == 0, done.stderr
        return {name: self.items("scrapy", name) for name in names}

    def command(self, name: str, *options: object) -> tuple:
        return ("crawl", name, "-a", f"site={self.site.base}", "-o", f"{name}.json", *options)

    def crawl(self, *names: str) -> dict[str, list]:
        """What skitter gives, by spider."""
        started = {name: self.skitter.start(*self.command(name)) for name in names}
        for name, process in started.items():
            _, told = process.communicate(timeout=HANG_SECONDS)
            assert process.returncode == 0, f"{name}: {told}"
        return {name: self.items("skitter", name) for name in names}

    def items(self, folder: str, name: str) -> list:
        found = json.loads((self.folder / folder / f"{name}.json").read_text())
        return sorted(found, key=lambda item: json.dumps(item, sort_keys=True))

    def lines(self, name: str) -> list[list[str]]:
        """The lines of a file that both have written, each sorted."""
        return [sorted((self.folder / each / name).read_text().splitlines()) for each in ("scrapy", "skitter")]


@pytest.fixture
def project(skitter, site, tmp_path: Path) -> Project:
    return Project(skitter, site, tmp_path)


def test_spiders_are_listed_by_name(project: Project) -> None:
    listed = project.skitter.json("list")
    assert not listed["broken"]
    assert {spider["name"]: spider["reference"] for spider in listed["spiders"]} == {
        "bad": "shop/spiders/more/forms.py:BadSpider",
        "books": "shop/spiders/books.py:BooksSpider",
        "closing": "shop/spiders/more/forms.py:ClosingSpider",
        "csvfeed": "shop/spiders/feeds.py:CsvFeed",
        "files": "shop/spiders/files.py:FilesSpider",
        "login": "shop/spiders/more/forms.py:LoginSpider",
        "odd": "shop/spiders/more/forms.py:OddSpider",
        "quotes": "shop/spiders/quotes.py:QuotesSpider",
        "sitemap": "shop/spiders/feeds.py:SitemapPages",
        "xmlfeed": "shop/spiders/feeds.py:XmlFeed",
    }


def test_items_of_every_kind_of_spider_are_those_of_scrapy(project: Project, until) -> None:
    names = ("quotes", "sitemap", "xmlfeed", "csvfeed", "login", "files", "odd")
    expected = project.scrapy(*names, "books")
    found = project.crawl(*names)
    crawl_and_kill(project, until, "books")
    found["books"] = project.items("skitter", "books")
    for name in expected:
        assert expected[name], name
        assert found[name] == expected[name], name
    # What pipelines wrote, what handlers of signals counted, and why the spider was closed.
    for file in ("own-quotes.jsonl", "closed.txt"):
        by_scrapy, by_skitter = project.lines(file)
        assert by_skitter == by_scrapy, file
    # A pipeline's own file has each item at least once.
    by_scrapy, by_skitter = map(set, project.lines("own-books.jsonl"))
    assert by_skitter == by_scrapy
    stored = [
        sorted(file.name for file in (project.folder / each).rglob("stored-*/*/*")) for each in ("scrapy", "skitter")
    ]
    assert stored[0] == stored[1] != []


def crawl_and_kill(project: Project, until, name: str) -> None:
    """Crawl with two workers, kill all of it with -9 in the middle, and go on."""
    # A delay, so that there is a middle.
    command = project.command(name, "--workers", 2, "--set", "delay_seconds=0.05")
    node = project.skitter.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    own = project.folder / "skitter" / f"own-{name}.jsonl"
    until(lambda: own.exists() and len(own.read_text().splitlines()) > 8, node)
    os.killpg(node.pid, signal.SIGKILL)
    node.wait()
    assert "resumed" in project.skitter.run(*command).stderr


def has_lines_or_ended(file: Path, lines: int, process: subprocess.Popen[str]) -> bool:
    return process.poll() is not None or (file.exists() and len(file.read_text().splitlines()) > lines)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["quotes", "books"])
def test_kills_again_and_again_lose_nothing_and_repeat_nothing(project: Project, until, name: str) -> None:
    expected = project.scrapy(name)[name]
    command = project.command(name, "--workers", 2, "--set", "delay_seconds=0.1")
    own = project.folder / "skitter" / f"own-{name}.jsonl"
    for kill in range(1, 6):
        node = project.skitter.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # What is done again is written again, so the end may come before the last kill.
        until(partial(has_lines_or_ended, own, 2 * kill, node))
        if node.poll() is None:
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()
    project.skitter.run(*command)
    assert project.items("skitter", name) == expected


@pytest.mark.soak
def test_two_workers_give_what_one_gives(project: Project) -> None:
    expected = project.scrapy("quotes", "login")
    for name, items in expected.items():
        project.skitter.run(*project.command(name, "--workers", 2))
        assert project.items("skitter", name) == items, name


def test_a_spider_can_stop_its_job_and_what_cannot_be_stored_is_told_at_its_yield(project: Project) -> None:
    closing = project.skitter.start(*project.command("closing"))
    told = project.skitter.run(*project.command("bad"), code=1).stderr
    assert "a request's callback must be a method of the spider, not a lambda" in told
    assert "lambda" in project.skitter.records("failed", "--job", "bad")[0]["error"]
    _, told = closing.communicate(timeout=HANG_SECONDS)
    assert closing.returncode == 0, told
    assert 9 <= len(project.items("skitter", "closing")) < 200
    assert project.skitter.json("status", "--job", "closing")["state"] == "stopped"


IDLE = """
    from scrapy.contrib.spiders import CrawlSpider
    from scrapy.loader.processors import TakeFirst
    import scrapy
    from scrapy import signals
    from twisted.internet import defer, reactor


    class Idle(scrapy.Spider):
        name = "idle"
        custom_settings = {"LOG_LEVEL": "DEBUG", "SCHEDULER": "scrapy_redis.scheduler.Scheduler"}

        @classmethod
        def from_crawler(cls, crawler, *args, **kwargs):
            spider = super().from_crawler(crawler, *args, **kwargs)
            spider.left = ["/author/1", "/author/2"]
            crawler.signals.connect(spider.idle, signal=signals.spider_idle)
            return spider

        def start_requests(self):
            yield scrapy.Request(self.site + "/author/0")

        def idle(self, spider):
            if self.left:
                self.crawler.engine.crawl(scrapy.Request(self.site + self.left.pop(0)))

        @defer.inlineCallbacks
        def parse(self, response):
            waited = defer.Deferred()
            reactor.callLater(0.01, waited.callback, "later")
            word = yield waited
            return [{"url": response.url.rpartition("/")[2], "word": TakeFirst()([word])}]
"""


def test_a_single_file_with_names_of_old_versions_and_a_handler_for_idle(skitter, site) -> None:
    for number in range(3):
        site.page(f"/author/{number}", "x")
    skitter.write("idle.py", IDLE)
    told = skitter.run("crawl", "idle.py", "-a", f"site={site.base}", "-o", "out.jsonl").stderr
    assert sorted((item["url"], item["word"]) for item in skitter.lines("out.jsonl")) == [
        ("0", "later"),
        ("1", "later"),
        ("2", "later"),
    ]
    assert "SCHEDULER has no effect: the queue is the job's frontier" in told
