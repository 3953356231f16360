"""Nothing that a hostile page starts reaches a private address, by whatever way a browser knows.

The page tries them all. A control without the guard shows that the ways are open; with it, the canaries see nothing,
and no address was even connected to but those of the site.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rig.browser_sites import Canary, html
from rig.web import Site
from skitter.fetch.browser import guarded_proxy
from skitter.model.browser_actions import Click, WaitFor

pytestmark = pytest.mark.asyncio(loop_scope="module")
SECRET = "root:x:0:0"
HOSTILE = """
<link rel=stylesheet href="{c}/style"><link rel=preconnect href="{c}/preconnect"><link rel=icon href="{c}/icon">
<link rel=prefetch href="{c}/prefetch"><link rel=preload as=script href="{c}/preload"><link rel=manifest href="{c}/man">
<img src="{c}/image"><script src="{c}/script"></script><video src="{c}/video"></video>
<iframe src="{c}/frame"></iframe><iframe src="file:///etc/passwd" name=local></iframe>
<iframe src="/moved"></iframe><object data="{c}/object"></object><embed src="{c}/embed">
<style>@import "{c}/import"; @font-face {{ font-family: f; src: url({c}/font) }} body {{ font-family: f }}</style>
<form id=form method=post action="{c}/form"><input name=a></form>
<a id=download href="/download" download>download</a><a id=ping href="#x" ping="{c}/ping">ping</a>
<script>
const canary = "{c}", ws = canary.replace("http", "ws"), place = canary.slice(7);
const tries = [
    () => fetch(canary + "/fetch"),
    () => fetch(canary + "/nocors", {{mode: "no-cors", method: "POST", body: "x"}}),
    () => fetch("/moved-fetch"),
    () => fetch("http://169.254.169.254/latest/meta-data/"),
    () => fetch("http://[::1]:{port}/v6"), () => fetch("http://0.0.0.0:{port}/zero"),
    () => fetch("http://localhost:{port}/localhost"), () => fetch("http://2130706433:{port}/number"),
    () => fetch("file:///etc/passwd").then(r => r.text()).then(t => document.body.append(t)),
    () => new EventSource(canary + "/events"),
    () => navigator.sendBeacon(canary + "/beacon", "x"),
    () => new WebSocket(ws + "/socket"),
    () => new Worker(URL.createObjectURL(new Blob([
        `fetch("${{canary}}/worker"); new WebSocket("${{ws}}/worker-socket");
        importScripts("${{canary}}/worker-import")`
    ]))),
    () => new SharedWorker("/shared.js"),
    () => navigator.serviceWorker.register("/service.js"),
    () => Object.getPrototypeOf(navigator.serviceWorker).register.call(navigator.serviceWorker, "/service.js"),
    () => window.open(canary + "/popup"),
    () => new WebTransport("https://" + place + "/transport"),
    () => {{
        const inner = document.createElement("iframe");
        document.body.append(inner);
        for (const kind of [window.RTCPeerConnection, inner.contentWindow.RTCPeerConnection]) {{
            if (!kind) continue;
            const urls = ["stun:" + place, "turn:" + place + "?transport=udp", "turn:" + place + "?transport=tcp"];
            const peer = new kind({{iceServers: [{{urls, username: "u", credential: "c"}}]}});
            peer.createDataChannel("x");
            peer.createOffer().then(offer => peer.setLocalDescription(offer));
        }}
    }},
    () => document.querySelector("#ping").click(),
    () => {{ location.href = "file:///etc/passwd" }},
];
for (const attempt of tries) {{ try {{ Promise.resolve(attempt()).catch(() => 0) }} catch (error) {{}} }}
setTimeout(() => {{ const done = document.createElement("b"); done.id = "done"; document.body.append(done) }}, 1500);
</script>"""


class Sites:
    def __init__(self) -> None:
        self.canary = Site({"*": html("inside")})
        self.other_canary = Canary()
        place = f"http://127.0.0.1:{self.canary.port}"
        worker = f"fetch('{place}/in-worker'); self.onconnect = () => fetch('{place}/on-connect');"
        script = (200, {"Content-Type": "text/javascript"}, worker.encode())
        self.site = Site(
            {
                "/": html(HOSTILE.format(c=place, port=self.canary.port)),
                "/udp": html(
                    HOSTILE.format(c=f"http://127.0.0.1:{self.other_canary.port}", port=self.other_canary.port)
                ),
                "/moved": (302, {"Location": f"{place}/moved"}, b""),
                "/moved-fetch": (302, {"Location": f"{place}/moved-fetch"}, b""),
                "/shared.js": script,
                "/service.js": script,
                "/download": (200, {"Content-Disposition": "attachment; filename=evil.sh"}, b"#!/bin/sh"),
            }
        )


@pytest.fixture(scope="module")
def sites() -> Iterator[Sites]:
    sites = Sites()
    yield sites
    for each in (sites.site, sites.canary, sites.other_canary):
        each.close()


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Every address that a connection is opened to."""
    found: list[tuple[str, int]] = []
    connect = guarded_proxy.connect_direct

    async def noted(addresses: Any, port: int, seconds: float) -> Any:
        found.extend((address, port) for address in addresses)
        return await connect(addresses, port, seconds)

    monkeypatch.setattr(guarded_proxy, "connect_direct", noted)
    return found


WAIT = [WaitFor("#done", state="attached"), Click("#download"), WaitFor(seconds=0.5)]


async def test_nothing_private_is_reached(
    renderer: Any, make_renderer: Any, sites: Sites, connected: list[tuple[str, int]]
) -> None:
    page = await renderer.get(sites.site.url("/"), actions=WAIT)
    assert page.status == 200
    assert sites.canary.seen == []
    assert set(connected) == {("127.0.0.1", sites.site.port)}
    # The same with a canary for datagrams too.
    assert (await renderer.get(sites.site.url("/udp"), actions=WAIT)).status == 200
    assert sites.other_canary.hits == []
    assert set(connected) == {("127.0.0.1", sites.site.port)}
    # Neither files of the machine nor downloads.
    assert SECRET.encode() not in page.body
    (folder,) = renderer.pool._folder.glob("*")
    assert [path.name for path in folder.rglob("*evil*")] == []
    # The ways are open where private addresses are allowed: this test does not pass because a page does nothing.
    control = make_renderer(allow_private=True)
    await control.get(sites.site.url("/"), actions=WAIT)
    reached = {path.strip("/") for path in sites.canary.paths()}
    assert reached >= set("style image script frame fetch nocors moved-fetch moved events beacon socket".split())
    assert reached >= set(
        "worker worker-socket worker-import import localhost number object embed font preload".split()
    )
    await control.fetcher.close()


async def test_a_redirect_of_the_page_itself_is_not_followed(renderer: Any, sites: Sites) -> None:
    before = len(sites.canary.seen)
    page = await renderer.get(sites.site.url("/moved"))
    assert (page.status, page.header("location")) == (302, f"http://127.0.0.1:{sites.canary.port}/moved")
    assert await renderer.error_class(sites.canary.url("/"), trusted=False) == "guard"
    assert await renderer.error_class("http://169.254.169.254/latest/meta-data/", trusted=False) == "guard"
    assert await renderer.error_class(sites.canary.url("/", host="localhost"), trusted=False) == "guard"
    assert len(sites.canary.seen) == before


class Rebinding:
    """Answers with a public address for a while, and then with one inside."""

    def __init__(self, public: int) -> None:
        self.public = public
        self.asked = 0

    async def addresses(self, url: str, seconds: float) -> list[str]:
        self.asked += 1
        return ["93.184.216.34"] if self.asked <= self.public else ["127.0.0.1"]


@pytest.mark.parametrize("trusted", [False, True])
async def test_a_name_that_is_given_another_address_leads_nowhere(
    renderer: Any, sites: Sites, monkeypatch: pytest.MonkeyPatch, trusted: bool
) -> None:
    """The page comes from outside, and its name is inside from the second lookup on."""
    # The pool is made with the first page.
    await renderer.get(sites.site.url("/service.js"))
    connect, inside = guarded_proxy.connect_direct, []
    outside = Site({"*": html("<script>fetch('/again').catch(() => 0); fetch('/once-more')</script>")})

    async def to_the_internet(addresses: Any, port: int, seconds: float) -> Any:
        inside.extend(address for address in addresses if address != "93.184.216.34")
        return (await connect(["127.0.0.1"], outside.port, seconds))[0], addresses[0]

    monkeypatch.setattr(guarded_proxy, "connect_direct", to_the_internet)
    lookups = Rebinding(1)
    monkeypatch.setattr(renderer.pool._network, "lookups", lookups)
    before = len(sites.canary.seen)
    url = f"http://rebind{trusted}.example:{sites.canary.port}/"
    page = await renderer.get(url, trusted=trusted, actions=[WaitFor(seconds=0.5)])
    assert (page.status, page.address) == (200, "93.184.216.34")
    assert lookups.asked > 1
    assert inside == []
    assert outside.paths() == ["/"]
    assert await renderer.error_class(url, trusted=trusted) == "guard"
    assert len(sites.canary.seen) == before
    outside.close()
