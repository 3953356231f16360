"""The synthetic web: the same for everyone, and served exactly as its spec says."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from rig.processes import HANG_SECONDS
from skitter.errors import UrlError
from skitter.model.url import absolute, canonical, host_key
from skitter.testing import demo
from skitter.testing.web import SyntheticWeb, WebSpec, expected, page, read_log, served
from skitter.testing.web_pages import PageSpec, answer, path_of
from skitter.testing.web_render import SAMPLE, render
from skitter.testing.web_spec import ANYWHERE, ON_LEAVES, bases_of

SMALL = WebSpec(hosts=3, pages_per_host=60, slow_seconds=(0.001, 0.002), failures_before_ok=2)
URLS = ("http://127.0.0.1:7001/", "http://127.0.0.1:7002/", "http://127.0.0.1:7003/")


def find(spec: WebSpec, kind: str) -> PageSpec:
    for host in range(spec.hosts):
        for index in range(spec.pages_per_host):
            if (found := page(spec, host, index)).kind == kind:
                return found
    raise AssertionError(f"no page of the kind {kind}")


def url_of(web: SyntheticWeb, found: PageSpec) -> str:
    return web.urls[found.host].rstrip("/") + found.path


class Client:
    """One keep-alive connection, raw enough to see what is really sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, url: str) -> Client:
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def ask(self, path: str, method: str = "GET", headers: str = "") -> tuple[int, dict[str, str], bytes]:
        self.writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        found = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        status = int(head[0].split()[1])
        length = 0 if method == "HEAD" else int(found.get("content-length", 0))
        return status, found, await self.reader.readexactly(length)

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def fetch(url: str, headers: str = "") -> tuple[int, dict[str, str], bytes]:
    client = await Client.open(url)
    parts = urlsplit(url)
    try:
        return await client.ask(parts.path + ("?" + parts.query if parts.query else ""), headers=headers)
    finally:
        await client.close()


class Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # A browser takes the first of two attributes with one name.
        href = next((value for name, value in attrs if name == "href"), None)
        if href is not None and tag == "base":
            self.base = href
        elif href is not None and tag in ("a", "area"):
            self.hrefs.append(href)


class _Stay(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def naive_crawl(seeds: tuple[str, ...]) -> tuple[set[str], set[str], dict[str, int]]:
    """A crawler as one writes it in ten minutes: done, redirected, and failed with its last status."""
    opener = urllib.request.build_opener(_Stay)
    scope = {host_key(seed) for seed in seeds}
    queue, seen = list(seeds), {canonical(seed) for seed in seeds}
    done: set[str] = set()
    redirected: set[str] = set()
    failed: dict[str, int] = {}
    while queue:
        url = queue.pop()
        found: list[str] = []
        for _ in range(4):
            try:
                with opener.open(url, timeout=60) as response:
                    body, kind = response.read(), response.headers["Content-Type"]
            except urllib.error.HTTPError as error:
                with error:
                    if 300 <= error.code < 400:
                        redirected.add(canonical(url))
                        found = [absolute(error.headers["Location"], url)]
                        break
                    failed[canonical(url)] = error.code
            else:
                failed.pop(canonical(url), None)
                done.add(canonical(url))
                found = hrefs(url, body) if kind.startswith("text/html") else []
                break
        for link in found:
            if host_key(link) in scope and canonical(link) not in seen:
                seen.add(canonical(link))
                queue.append(link)
    return done, redirected, failed


def hrefs(url: str, body: bytes) -> list[str]:
    parser = Links()
    parser.feed(body.decode("utf-16" if body[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace"))
    base = absolute(parser.base, url) if parser.base else url
    found = []
    for href in parser.hrefs:
        try:
            found.append(absolute(href, base))
        except UrlError:
            continue
    return found


def test_a_page_depends_on_nothing_but_spec_host_and_index() -> None:
    again = WebSpec.from_json(SMALL.to_json())
    assert again == SMALL
    bases = bases_of(URLS)
    for host in range(3):
        for index in range(60):
            first, second = page(SMALL, host, index), page(again, host, index)
            assert first == second
            assert render(SMALL, first, bases).bytes == render(again, second, bases).bytes
    others = [page(SMALL.replace(seed=2), 0, index) for index in range(60)]
    assert others != [page(SMALL, 0, index) for index in range(60)]


def test_another_process_computes_the_same_pages() -> None:
    # A hash seed of its own would show if sets or hash() had a part in the pages.
    code = (
        "import sys; from skitter.testing.web import *; spec = WebSpec.from_json(sys.argv[1]);"
        "print([page(spec, 1, index) for index in range(60)])"
    )
    env = os.environ | {"PYTHONHASHSEED": "7"}
    told = subprocess.run([sys.executable, "-c", code, SMALL.to_json()], env=env, capture_output=True, check=True)
    assert told.stdout.decode().strip() == repr([page(SMALL, 1, index) for index in range(60)])


def test_the_demo_web_shows_every_kind() -> None:
    spec = WebSpec.demo()
    shown = {page(spec, host, index).kind for host in range(spec.hosts) for index in range(spec.pages_per_host)}
    assert shown == {"page"}.union(*ON_LEAVES.values(), *ANYWHERE.values())


def test_a_plain_web_has_ordinary_pages_only() -> None:
    spec = WebSpec.plain(hosts=2, pages_per_host=50)
    assert {page(spec, host, index).kind for host in range(2) for index in range(50)} == {"page"}
    assert expected(spec, URLS[:2]).failed == {}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7])
def test_tiny_webs_are_whole(size: int) -> None:
    spec = WebSpec(hosts=1, pages_per_host=size, canary=True, dead_host=True)
    found = expected(spec, URLS[:1], canary_url=URLS[1], dead_url=URLS[2])
    assert {URLS[0].rstrip("/") + path_of(spec, 0, index) for index in range(size)} <= found.seen


def test_every_page_is_reached_from_the_first_host_alone_when_all_are_seeds_or_from_each_root() -> None:
    all_pages = {URLS[host].rstrip("/") + path_of(SMALL, host, index) for host in range(3) for index in range(60)}
    assert all_pages <= expected(SMALL, URLS).seen
    alone = expected(SMALL, URLS, [URLS[0]], allow_private=True)
    assert {url for url in all_pages if url.startswith(URLS[0])} <= alone.seen


@pytest.mark.parametrize("size", [20, 100, 1000])
def test_pages_have_the_size_that_was_asked_for(size: int) -> None:
    spec = WebSpec.plain(hosts=1, pages_per_host=size, page_bytes=6000)
    sizes = {len(render(spec, page(spec, 0, index), bases_of(URLS)).bytes) for index in range(size)}
    assert sizes == {6000}


def test_every_spelling_of_a_link_is_the_canonical_url_of_its_target() -> None:
    bases = bases_of(URLS)
    forms = set()
    for host in range(3):
        for index in range(60):
            found = page(SMALL, host, index)
            if not found.links or found.kind in ("shift_jis", "windows_1251"):
                continue
            url = bases[host] + found.path
            links = hrefs(url, render(SMALL, found, bases, compressed=False).bytes)
            told = {canonical(link) for link in links} - {canonical(url)}
            assert told == {bases[link.host] + link.path for link in found.links} - {canonical(url)}, found.kind
            forms |= {link.form for link in found.links}
    assert len(forms) >= 8


def test_a_url_outside_the_web_is_no_page() -> None:
    for path in ("/p/60", "/p/x", "/nothing", "/p/1/2", "/hop/1/1", "/p/999999999999", "/trap/comment", "/p/1?x=1"):
        assert answer(SMALL, 0, path) is None, path


def test_redirects_end_as_the_rules_say() -> None:
    found = expected(SMALL, URLS)
    loop, chain, long = (find(SMALL, f"redirect_{name}") for name in ("loop", "chain", "long"))
    base = [url.rstrip("/") for url in URLS]
    assert base[loop.host] + loop.path in found.redirected
    assert found.failed[f"{base[loop.host]}/hop/{loop.index}/2"] == "redirect"
    assert {f"{base[chain.host]}/hop/{chain.index}/{hop}" for hop in (1, 2)} <= found.redirected
    # Ten hops are followed; the eleventh answer that redirects is the end of it.
    assert f"{base[long.host]}/hop/{long.index}/9" in found.redirected
    assert found.failed[f"{base[long.host]}/hop/{long.index}/10"] == "redirect"
    assert f"{base[long.host]}/hop/{long.index}/11" not in found.seen


def test_a_redirected_seed_brings_its_last_host_into_the_scope() -> None:
    away = find(SMALL, "redirect_away")
    other = (away.host + 1) % 3
    seed = URLS[away.host].rstrip("/") + away.path
    found = expected(SMALL, URLS, [seed])
    assert seed in found.redirected
    assert any(url.startswith(URLS[other]) for url in found.done)


def test_robots_and_guard_shape_the_expectation() -> None:
    spec = SMALL.replace(canary=True, dead_host=True)
    extra: dict[str, Any] = {"canary_url": "http://127.0.0.1:7008/", "dead_url": "http://127.0.0.1:7009/"}
    found = expected(spec, URLS, **extra)
    assert found.excluded
    assert all(url.startswith(URLS[1] + "private/") for url in found.excluded)
    assert expected(spec, URLS, obey_robots=False, **extra).done == found.done | found.excluded
    # Links and redirects that lead out of the scope are not even seen.
    assert not any(url.startswith((extra["canary_url"], extra["dead_url"])) for url in found.seen)
    typed = expected(spec, URLS, [*URLS, extra["dead_url"]], **extra)
    assert typed.failed[extra["dead_url"]] == "connect"


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_expected_is_what_an_independent_walk_finds(seed: int) -> None:
    # Redirect limits are for crawlers; a naive one follows loops until it knows every URL of them.
    spec = SMALL.replace(seed=seed, robots_hosts=())
    with served(spec) as web:
        done, redirected, failed = naive_crawl(web.urls)
        found = web.expected()
    limits = {url for url, reason in found.failed.items() if reason == "redirect"}
    assert done == found.done
    beyond = redirected - found.redirected - limits
    assert found.redirected | limits <= redirected
    assert all(url.endswith("/11") for url in beyond)
    classes = {url: f"http_{status // 100}xx" for url, status in failed.items()}
    assert classes == {url: reason for url, reason in found.failed.items() if url not in limits}


async def test_one_connection_serves_many_requests_and_the_log_has_each() -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=2, pages_per_host=20)) as web:
        client = await Client.open(web.urls[1])
        for index in range(1, 20):
            status, _, body = await client.ask(f"/p/{index}")
            assert status == 200
            assert f"<title>Page {index} of host 1</title>".encode() in body
        await client.close()
        log = web.log()
    assert [(hit.host, hit.path, hit.status, hit.in_flight) for hit in log] == [
        (1, f"/p/{index}", 200, 1) for index in range(1, 20)
    ]
    assert [hit.at for hit in log] == sorted(hit.at for hit in log)
    assert abs(log[-1].at - time.monotonic()) < 60


async def test_requests_sent_in_pieces_or_together_are_all_answered() -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=5, latency_seconds=0.001)) as web:
        client = await Client.open(web.urls[0])
        for piece in (
            b"GE",
            b"T / HTTP/1.1\r",
            b"\nHost: x\r\n\r",
            b"\nGET /p/1 HTTP/1.1\r\n\r\nGET /p/2 HTTP/1.1\r\n\r\n",
        ):
            client.writer.write(piece)
            await client.writer.drain()
            await asyncio.sleep(0)
        for title in (b"Page 0", b"Page 1", b"Page 2"):
            head = await client.reader.readuntil(b"\r\n\r\n")
            length = int(head.partition(b"Content-Length: ")[2].split(b"\r\n")[0])
            assert title in await client.reader.readexactly(length)
        await client.close()


async def test_head_has_the_headers_and_no_body() -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=5)) as web:
        client = await Client.open(web.urls[0])
        _, with_body, body = await client.ask("/p/1")
        status, headers, nothing = await client.ask("/p/1", "HEAD")
        assert (status, headers, nothing) == (200, with_body, b"")
        assert int(headers["content-length"]) == len(body)
        assert (await client.ask("/p/2"))[0] == 200
        await client.close()


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", b"405"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nX: " + b"x" * 70_000, b"431"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n", b"200"),
    ],
)
async def test_what_ends_a_connection(request_bytes: bytes, status: bytes) -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=1, pages_per_host=5)) as web:
        client = await Client.open(web.urls[0])
        client.writer.write(request_bytes)
        assert (await client.reader.read()).split()[1] == status
        await client.close()


async def test_robots_unknown_paths_and_errors() -> None:
    async with SyntheticWeb(SMALL.replace(crawl_delay_seconds=0.5)) as web:
        assert (await fetch(web.urls[0] + "robots.txt"))[0] == 404
        status, headers, body = await fetch(web.urls[1] + "robots.txt")
        assert (status, headers["content-type"]) == (200, "text/plain")
        assert body == b"User-agent: *\nDisallow: /private/\nCrawl-delay: 0.5\n"
        assert (await fetch(web.urls[0] + "no/such/page"))[0] == 404
        for kind, status in (("not_found", 404), ("gone", 410), ("failing", 500)):
            assert (await fetch(url_of(web, find(SMALL, kind))))[0] == status


@pytest.mark.parametrize(
    ("kind", "statuses"),
    [("recovering", [500, 500, 200]), ("unavailable", [503, 503, 200]), ("limited", [429, 200, 200])],
)
async def test_some_pages_recover(kind: str, statuses: list[int]) -> None:
    async with SyntheticWeb(SMALL) as web:
        answers = [await fetch(url_of(web, find(SMALL, kind))) for _ in range(3)]
    assert [status for status, _, _ in answers] == statuses
    assert answers[0][1].get("retry-after") == ("1" if kind == "limited" else None)


async def test_redirects_lead_where_the_spec_says() -> None:
    async with SyntheticWeb(SMALL) as web:
        bases = bases_of(web.urls)
        for kind in ON_LEAVES["redirects"]:
            found = find(SMALL, kind)
            status, headers, _ = await fetch(url_of(web, found))
            assert status == found.status
            assert found.location is not None
            assert absolute(headers["location"], url_of(web, found)) == bases[found.location.host] + found.location.path


async def test_compression_is_for_clients_that_accept_it() -> None:
    async with SyntheticWeb(SMALL) as web:
        for kind, undo in (("gzip", gzip.decompress), ("deflate", zlib.decompress)):
            found = find(SMALL, kind)
            _, plain_headers, plain = await fetch(url_of(web, found))
            _, headers, packed = await fetch(url_of(web, found), "Accept-Encoding: gzip, deflate\r\n")
            assert "content-encoding" not in plain_headers
            assert headers["content-encoding"] == kind
            assert undo(packed) == plain


async def test_odd_encodings_hold_the_text_they_should() -> None:
    codecs = {"utf8_unlabelled": "utf-8", "windows_1251": "cp1251", "shift_jis": "shift_jis", "utf_16": "utf-16"}
    async with SyntheticWeb(SMALL) as web:
        for kind, codec in codecs.items():
            _, headers, body = await fetch(url_of(web, find(SMALL, kind)))
            assert SAMPLE[kind] in body.decode(codec)
            assert ("charset" in headers["content-type"]) == (kind == "windows_1251")
        _, headers, body = await fetch(url_of(web, find(SMALL, "wrong_label")))
        assert headers["content-type"] == "text/html; charset=utf-8"
        with pytest.raises(UnicodeDecodeError):
            body.decode()


async def test_many_connections_at_once_are_counted_as_in_flight() -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=2, pages_per_host=50, latency_seconds=0.2)) as web:
        clients = await asyncio.gather(*(Client.open(web.urls[index % 2]) for index in range(300)))
        answers = await asyncio.gather(*(client.ask(f"/p/{1 + place % 49}") for place, client in enumerate(clients)))
        assert {status for status, _, _ in answers} == {200}
        assert max(hit.in_flight for hit in web.log() if hit.host == 0) == 150
        # A client that goes away in the middle of an answer is not counted for ever.
        clients[0].writer.write(b"GET /p/1 HTTP/1.1\r\n\r\n")
        await asyncio.gather(*(client.close() for client in clients))
        again = await fetch(web.urls[0])
        assert again[0] == 200
        assert web.log()[-1].in_flight <= 2


async def test_canary_and_dead_host() -> None:
    async with SyntheticWeb(SMALL.replace(canary=True, dead_host=True)) as web:
        assert (await fetch(web.canary_url + "redirected/0"))[0] == 200
        assert web.log()[-1].host == -1
        with pytest.raises(ConnectionRefusedError):
            await fetch(web.dead_url)


async def test_a_busy_port_is_an_error() -> None:
    async with SyntheticWeb(WebSpec.plain(hosts=1)) as web:
        port = urlsplit(web.urls[0]).port
        assert port is not None
        with pytest.raises(OSError, match="in use"):
            async with SyntheticWeb(WebSpec.plain(hosts=1, base_port=port)):
                pass
        assert (await fetch(web.urls[0]))[0] == 200


async def test_a_log_file_has_one_line_a_request(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    async with SyntheticWeb(WebSpec.plain(hosts=1), log_path=path) as web:
        await fetch(web.urls[0] + 'p/1?"x"')
        assert [hit.status for hit in web.log()] == [404]
        await fetch(web.urls[0])
    assert [(hit.path, hit.status) for hit in read_log(path)] == [('/p/1?"x"', 404), ("/", 200)]


def _gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=60).close()
    except (OSError, http.client.HTTPException):
        return False
    return True


def test_a_served_web_ends_with_its_block(tmp_path: Path) -> None:
    with served(WebSpec.plain(hosts=2), log_path=tmp_path / "log.jsonl") as web:
        connection = http.client.HTTPConnection("127.0.0.1", urlsplit(web.urls[1]).port or 0)
        connection.request("GET", "/")
        assert b"Page 0 of host 1" in connection.getresponse().read()
        connection.close()
    assert _gone(web.pid)
    assert [(hit.host, hit.path) for hit in web.log()] == [(1, "/")]


def test_sigterm_writes_the_log_and_is_a_clean_end(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    command = [sys.executable, "-m", "skitter.testing.web", "--hosts", "1", "--pages", "5", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            url = json.loads(process.stdout.readline())["urls"][0]
            with urllib.request.urlopen(url) as response:
                response.read()
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(HANG_SECONDS) == 0
    assert [hit.path for hit in read_log(log)] == ["/"]


def test_a_served_web_ends_when_its_parent_is_killed() -> None:
    code = (
        "import sys, time; from skitter.testing.web import WebSpec, served\n"
        "with served(WebSpec.plain(hosts=1)) as web:\n    print(web.urls[0], flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        url = parent.stdout.readline().decode().strip()
        assert _answers(url)
        parent.kill()
        parent.wait(HANG_SECONDS)
    # By its port, not its pid: whether an orphan's pid is ever given free is up to the init process.
    deadline = time.monotonic() + 60
    while _answers(url):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("arguments", [["--hosts", "0"], ["--spec", '{"colour": 1}'], ["--spec", "nonsense"]])
def test_a_bad_spec_is_a_usage_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    from skitter.testing.web import main

    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_the_demo_passes_the_crawls_exit_code_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fetch_one = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read(); sys.exit(7)"
    monkeypatch.setattr(demo, "crawl_command", lambda urls, extra: [sys.executable, "-c", fetch_one, urls[0]])
    assert demo.main([]) == 7
    assert "3 hosts" in capfd.readouterr().err
    assert (tmp_path / "build").is_dir()
