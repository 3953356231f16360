"""A browser as a fetcher: what it sends, what comes back, and what it does not do."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.async_api import BrowserContext

from rig.browser_sites import browser_folders, html, processes_with, until
from rig.tls_attacks import TLS_ATTACKS
from rig.web import Site
from rig.web_connection import Server
from rig.web_faults import silent
from skitter.errors import FetchError, LateError
from skitter.fetch.contract import ClientCertificate
from skitter.model.browser_actions import Click, Fill, JavaScript, Screenshot, Scroll, WaitFor
from skitter.model.page import Page
from skitter.model.session import DELETED, Cookie

pytestmark = pytest.mark.asyncio(loop_scope="module")
FORM = """<input id=q><ul id=list></ul><button onclick="
    list.insertAdjacentHTML('beforeend', '<li>' + q.value)">More</button>"""
ENDLESS = """<div id=all style="height: 3000px"></div><script>
    addEventListener("scroll", () => { all.style.height = all.offsetHeight + 1000 + "px"; })</script>"""


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    site = Site(
        {
            "/": html(
                "<title>t</title><p>plain</p><script>document.body.append('written by a script')</script>",
                **{"Set-Cookie": "a=b; Path=/\nc=d; HttpOnly", "X-Own": "1"},
            ),
            "/session": lambda seen, _: html(
                f"<p>{seen.headers.get('cookie', '')}</p><script>"
                "document.cookie = 's=1'; document.cookie = 'old=; max-age=0'</script>",
                **{"Set-Cookie": "new=2; HttpOnly; Path=/; Max-Age=600"},
            ),
            "/charset": (200, {"Content-Type": "text/html; charset=gbk"}, "<p>漢字</p>".encode("gbk")),
            "/moved": (302, {"Location": "http://elsewhere.example/x", "Set-Cookie": "r=1"}, b""),
            "/here": (301, {"Location": "/"}, b""),
            "/missing": html("no such page", 404),
            "/pdf": (200, {"Content-Type": "application/pdf"}, b"%PDF-1.4 \xff\x00"),
            "/json": (200, {"Content-Type": "application/json"}, b'{"a": 1}'),
            "/attached": (200, {"Content-Type": "text/html", "Content-Disposition": "attachment"}, b"<p>x"),
            "/by-script": html("<script>location.href = 'http://elsewhere.example/y'</script>"),
            "/on-host": html("<script>location.replace('/')</script>"),
            "/circle": html("<script>location.href = '/circle?' + Math.random()</script>"),
            "/form": html(FORM),
            "/endless": html(ENDLESS),
            "/leads-away": html("<a href='http://elsewhere.example/'>unavailable</a><a id=on href='/'>on</a>"),
            "/pictures": html("<img src=/a.png><video src=/b.mp4></video><script src=/c.js></script>"),
            "/slow": html("<img src=/never.png><p>there</p>"),
            "/never.png": silent,
            "/busy": html("<script>while (true) {}</script>"),
            "/large": html("<p>x</p>" * 300_000),
            "/grows": html("<script>document.body.append('x'.repeat(4_000_000))</script>"),
        }
    )
    yield site
    site.close()


async def test_scripts_have_run_when_the_content_is_taken(renderer: Any, site: Site) -> None:
    page: Page = await renderer.get(site.url("/"))
    assert (page.status, page.url, page.address) == (200, site.url("/"), "127.0.0.1")
    assert "<p>plain</p>" in page.body.decode()
    assert "</script>written by a script</body>" in page.body.decode()
    assert [value for name, value in page.headers if name == "set-cookie"] == ["a=b; Path=/", "c=d; HttpOnly"]
    assert (page.header("x-own"), page.header("content-type")) == ("1", "text/html; charset=utf-8")
    assert page.wire_bytes > len(page.body)
    assert page.rendering is not None


async def test_the_cookies_of_a_session_go_with_the_page_and_come_back(renderer: Any, site: Site) -> None:
    jar = (Cookie("sid", "x", "127.0.0.1"), Cookie("old", "y", "127.0.0.1"))
    page: Page = await renderer.get(site.url("/session"), jar=jar)
    sent = re.search("<p>(.*?)</p>", page.body.decode())
    assert sent is not None
    assert sorted(sent[1].split("; ")) == ["old=y", "sid=x"]
    changed = {cookie.name: cookie for cookie in page.cookies}
    assert sorted(changed) == ["new", "old", "s"]
    assert (changed["new"].value, changed["new"].http_only, changed["new"].host_only) == ("2", True, True)
    assert changed["new"].expires > time.time()
    assert (changed["s"].value, changed["s"].expires, changed["old"].expires) == ("1", 0, DELETED)
    again: Page = await renderer.get(site.url("/session"), jar=tuple(changed[name] for name in ("new", "s")))
    assert "new=2; s=1" in again.body.decode()


async def test_a_redirect_sets_cookies_too_and_a_page_without_a_session_sets_none(renderer: Any, site: Site) -> None:
    page: Page = await renderer.get(site.url("/moved"), jar=())
    assert (page.status, [(cookie.name, cookie.value) for cookie in page.cookies]) == (302, [("r", "1")])
    page = await renderer.get(site.url("/session"), jar=None)
    assert page.cookies == ()


async def test_a_browser_that_does_not_tell_its_cookies_is_no_page_without_them(
    renderer: Any, site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def never(_context: Any) -> Any:
        await asyncio.Event().wait()

    monkeypatch.setattr(BrowserContext, "cookies", never)
    monkeypatch.setattr("skitter.fetch.browser.page_render.COOKIE_SECONDS", 0.1)
    assert await renderer.error_class(site.url("/"), jar=()) == "timeout"
    assert (await renderer.get(site.url("/"), jar=None)).status == 200


async def test_a_page_goes_through_the_proxy_of_its_request(renderer: Any) -> None:
    proxy = Site({"*": html("<p>by the proxy</p>")})
    address, url = proxy.url().rstrip("/"), "http://site.example/"
    try:
        page: Page = await renderer.get(url, proxy=address, proxy_trusted=True, trusted=False)
        assert "<p>by the proxy</p>" in page.body.decode()
        asked = proxy.asked()
        assert asked[0] == url
        assert await renderer.error_class(url, proxy=address, trusted=False) == "guard", "a stranger may have named it"
        assert await renderer.error_class(url, proxy=address.replace("http", "socks4"), proxy_trusted=True) == "proxy"
        assert proxy.asked() == asked
    finally:
        proxy.close()


async def test_a_browser_shows_no_client_certificate(renderer: Any, site: Site) -> None:
    shown = ClientCertificate(file="client.pem")
    assert await renderer.error_class(site.url("/"), certificate=shown) == "tls"


async def test_the_content_is_in_utf8_whatever_the_page_was_in(renderer: Any, site: Site) -> None:
    page = await renderer.get(site.url("/charset"))
    assert "漢字" in page.body.decode()
    assert page.header("content-type") == "text/html; charset=utf-8"


@pytest.mark.parametrize(
    ("path", "status", "location"),
    [
        ("/moved", 302, "http://elsewhere.example/x"),
        ("/here", 301, "/"),
        ("/by-script", 302, "http://elsewhere.example/y"),
    ],
)
async def test_a_redirect_is_not_followed(renderer: Any, site: Site, path: str, status: int, location: str) -> None:
    before = len(site.paths())
    page = await renderer.get(site.url(path))
    assert (page.status, page.header("location")) == (status, location)
    assert site.paths()[before:] == [path]


async def test_the_cookies_of_a_redirect_come_with_it(renderer: Any, site: Site) -> None:
    assert (await renderer.get(site.url("/moved"))).header("set-cookie") == "r=1"


async def test_a_script_may_go_on_on_its_host_where_nothing_forbids_it(renderer: Any, site: Site) -> None:
    page = await renderer.get(site.url("/on-host"))
    assert (page.url, page.status) == (site.url("/"), 200)
    assert b"written by a script" in page.body
    refused: list[str] = []
    page = await renderer.get(site.url("/on-host"), may_navigate=lambda url: bool(refused.append(url)))
    assert (page.status, page.header("location"), refused) == (302, site.url("/"), [site.url("/")])


async def test_a_page_that_goes_on_for_ever_ends(renderer: Any, site: Site) -> None:
    before = len(site.seen)
    page = await renderer.get(site.url("/circle"))
    assert page.status in (200, 302)
    assert len(site.seen) - before <= 12


@pytest.mark.parametrize("path", ["/pdf", "/json", "/attached"])
async def test_what_is_no_page_comes_as_it_is(renderer: Any, site: Site, path: str) -> None:
    page = await renderer.get(site.url(path))
    assert (page.body, page.rendering) == (site.answers[path][2], None)  # type: ignore[index]


async def test_an_error_status_is_an_answer(renderer: Any, site: Site) -> None:
    page = await renderer.get(site.url("/missing"))
    assert (page.status, b"no such page" in page.body) == (404, True)


async def test_own_headers_are_for_the_document_and_cookies_for_its_host(renderer: Any, site: Site) -> None:
    site.seen.clear()
    headers = {"X-Own": "1", "User-Agent": "other/1"}
    await renderer.get(site.url("/pictures"), headers=headers, cookies={"login": "secret"})
    seen = [each for each in site.seen if each.headers["user-agent"] == "other/1"]
    assert [each.headers.get("x-own") for each in seen] == ["1", None, None][: len(seen)]
    assert {each.headers.get("cookie") for each in seen} == {"login=secret"}
    site.seen.clear()
    await renderer.get(site.url("/"))
    assert site.seen[0].headers.get("cookie") is None
    assert site.seen[0].headers["user-agent"].startswith("skitter/")


async def test_actions_are_run_in_their_order(renderer: Any, site: Site) -> None:
    actions = [Fill("#q", "one"), Click("text=More"), Fill("#q", "two"), Click("button"), WaitFor("li:nth-child(2)")]
    actions += [JavaScript("document.querySelectorAll('li').length"), JavaScript("async () => ({a: [1, null]})")]
    page = await renderer.get(site.url("/form"), actions=[*actions, Screenshot(), Screenshot(selector="button")])
    assert b"<li>one</li><li>two</li>" in page.body
    assert page.rendering.script_results == [2, {"a": [1, None]}]
    assert [picture[:8] for picture in page.rendering.screenshots] == [b"\x89PNG\r\n\x1a\n"] * 2
    whole, button = (int.from_bytes(picture[16:20], "big") for picture in page.rendering.screenshots)
    assert button < whole == 1280


async def test_scrolling_loads_what_comes_into_view(renderer: Any, site: Site) -> None:
    grown = """async () => {
        while (all.offsetHeight < 4000) await new Promise(done => setTimeout(done, 20));
        return all.offsetHeight;
    }"""
    actions = [JavaScript("all.offsetHeight"), Scroll(times=2, pause_seconds=0.1), JavaScript(grown)]
    before, after = (await renderer.get(site.url("/endless"), actions=actions)).rendering.script_results
    assert before == 3000
    assert after >= 4000


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (Click("#none", seconds=0.2), "action 1 failed: Click(selector='#none'"),
        (JavaScript("nothing.there"), "nothing is not defined"),
        (JavaScript("'x'.repeat(2_000_000)"), "its value is too large"),
    ],
)
async def test_an_action_that_fails_is_named(renderer: Any, site: Site, action: Any, said: str) -> None:
    with pytest.raises(FetchError) as caught:
        await renderer.get(site.url("/form"), actions=[action])
    assert caught.value.error_class == "browser"
    assert said in str(caught.value)


async def test_the_text_of_a_field_is_not_repeated(renderer: Any, site: Site) -> None:
    with pytest.raises(FetchError) as caught:
        await renderer.get(site.url("/form"), actions=[Fill("#none", "pass-word", seconds=0.2)])
    assert "pass-word" not in str(caught.value)


async def test_a_click_leads_to_another_page_of_the_host_and_to_no_other(renderer: Any, site: Site) -> None:
    page = await renderer.get(site.url("/leads-away"), actions=[Click("text=unavailable"), WaitFor(seconds=0.3)])
    assert (page.status, page.url, b"leads" in page.body or b"unavailable" in page.body) == (
        200,
        site.url("/leads-away"),
        True,
    )
    page = await renderer.get(site.url("/leads-away"), actions=[Click("#on"), WaitFor("text=written")])
    assert (page.status, page.url) == (200, site.url("/"))


async def test_a_hook_is_given_the_page(renderer: Any, site: Site) -> None:
    async def on_page(page: Any) -> None:
        await page.evaluate("document.title = 'by the hook'")

    assert b"<title>by the hook</title>" in (await renderer.get(site.url("/"), on_page=on_page)).body


async def test_media_are_not_loaded_and_pictures_are(renderer: Any, site: Site) -> None:
    before = len(site.seen)
    await renderer.get(site.url("/pictures"))
    assert set(site.paths()[before:]) >= {"/pictures", "/a.png", "/c.js"}
    assert "/b.mp4" not in site.paths()[before:]


async def test_what_never_comes_is_waited_for_so_long(make_renderer: Any, site: Site) -> None:
    renderer = make_renderer(render_wait_seconds=0.2, max_body_bytes=2_000_000, per_host=2)
    assert b"there" in (await renderer.get(site.url("/slow"))).body
    # And with the same browser, whose limits are small:
    assert await renderer.error_class(site.url("/busy"), timeout_seconds=1) == "timeout"
    assert await renderer.error_class(site.url("/large")) == "too_large"
    assert await renderer.error_class(site.url("/grows")) == "too_large"
    pictures = {f"/{n}.png": lambda _, connection: connection.sleep(0.1) or (200, {}, b"") for n in range(12)}
    crowd = Site({"/": html("".join(f"<img src={path}>" for path in pictures)), **pictures})
    assert (await renderer.get(crowd.url("/"), actions=[WaitFor(seconds=1)])).status == 200
    assert 0 < crowd.most_at_once <= 2
    crowd.close()
    assert b"there" in (await renderer.get(site.url("/slow"))).body


async def test_a_late_request_is_not_sent(renderer: Any, site: Site) -> None:
    before = len(site.seen)
    with pytest.raises(LateError):
        await renderer.get(site.url("/"), start_by=time.monotonic() - 0.001)
    with pytest.raises(LateError):
        await renderer.get(site.url("/"), start_by=time.monotonic() + 0.005)
    await asyncio.sleep(0)
    assert len(site.seen) == before
    sent: list[int] = []
    page = await renderer.get(site.url("/"), start_by=time.monotonic() + 60, on_send=lambda: sent.append(1))
    assert (page.status, sent) == (200, [1])


async def test_headers_are_seen_before_the_body(renderer: Any, site: Site) -> None:
    seen: list[Page] = []
    page = await renderer.get(site.url("/"), on_headers=lambda page: bool(seen.append(page)))
    assert (page.status, page.body, seen[0].header("x-own")) == (200, b"", "1")


@pytest.mark.parametrize(
    ("url", "error_class"),
    [("http://nosuch.invalid/", "dns"), ("http://127.0.0.1:4/", "connect"), ("https://127.0.0.1:{port}/", "tls")],
)
async def test_why_there_is_no_page(renderer: Any, url: str, error_class: str) -> None:
    with Server(TLS_ATTACKS["plain HTTP on the port of TLS"]) as no_tls:
        assert await renderer.error_class(url.format(port=no_tls.port)) == error_class


async def test_many_pages_at_a_time_have_cookies_of_their_own(renderer: Any, site: Site) -> None:
    script = JavaScript("document.cookie")
    pages = await asyncio.gather(
        *(renderer.get(site.url("/"), cookies={"n": str(n)}, actions=[script]) for n in range(6))
    )
    found = [page.rendering.script_results[0] for page in pages]
    assert [f"n={n}" in each for n, each in enumerate(found)] == [True] * 6


async def test_nothing_is_left_when_it_is_closed(make_renderer: Any, site: Site) -> None:
    other = make_renderer()
    folders = set(browser_folders(os.getpid()))
    before = len(site.seen)
    rendering = asyncio.create_task(other.error_class(site.url("/busy")))
    assert await asyncio.to_thread(until, lambda: len(site.seen) > before)
    (folder,) = set(browser_folders(os.getpid())) - folders
    assert processes_with(folder.name)
    await other.fetcher.close()
    assert await rendering in ("protocol", "browser")
    assert not processes_with(folder.name)
    assert not folder.exists()
    with pytest.raises(FetchError, match="closed"):
        await other.get(site.url("/"))
