"""The example that logs in and searches a shop runs as it stands, against a shop that checks what it is sent."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "search" / "search.py"
LOGIN = """<form role=search action=/search><input name=q></form><p class=error>{}</p>
<form id=login method=post action=/session><input type=hidden name=csrf value=t0ken>
<input name=user><input name=password type=password></form>"""
ACCOUNT = """<form role=search action='/search?old=1'><input name=q><input type=hidden name=lang value=en>
<input type=checkbox name=in_stock value=yes><select name=sort><option value=price>by price<option value=name></select>
<button name=go value=search>Search</button><button name=reset value=1>Reset</button></form>"""
HTML = {"Content-Type": "text/html"}


def shop(site: Any) -> None:
    def session(seen: Any, _: Any) -> tuple[int, dict[str, str], bytes]:
        sent = parse_qs(seen.body.decode())
        if sent != {"csrf": ["t0ken"], "user": ["me"], "password": ["se cret"]}:
            return 200, HTML, LOGIN.format("wrong password").encode()
        return 303, {"Location": "/account", "Set-Cookie": "session=1; Path=/"}, b""

    def search(seen: Any, _: Any) -> tuple[int, dict[str, str], bytes]:
        assert seen.headers.get("cookie") == "session=1"
        page = "<li class=product><a href=/p/{0}><h2>Lamp {0}</h2></a> <b class=price>EUR {0}.50</b>"
        if "page=2" in seen.path:
            return 200, HTML, page.format(3).encode()
        more = f"<a rel=next href='{seen.path}&page=2'>more</a>"
        return 200, HTML, "".join([page.format(1), page.format(2), more]).encode()

    site.page("/login", LOGIN.format(""))
    site.page("/account", ACCOUNT)
    site.on("/session", session)
    site.on("/search", search)


def test_the_example_logs_in_searches_and_follows_the_results(skitter: Any, site: Any) -> None:
    shop(site)
    shutil.copy(EXAMPLE, skitter.folder)
    arguments = ["search.py", "-O", "out.jsonl", "-a", f"shop={site.base}"]
    skitter.run("crawl", *arguments, "-a", "password=se cret")
    query = "/search?q=lamp&lang=en&in_stock=yes&sort=price&go=search"
    assert site.paths() == ["/login", "/session", "/account", query, query + "&page=2"]
    expected = [{"name": f"Lamp {n}", "price": n + 0.5, "url": f"{site.base}/p/{n}"} for n in (1, 2, 3)]
    assert skitter.lines("out.jsonl") == expected
    skitter.run("crawl", *arguments, "-a", "password=guessed", "--fresh", "--job", "other")
    (failed,) = skitter.records("failed", "--job", "other")
    assert "ValueError: the login was refused: wrong password" in failed["error"]
    assert len(EXAMPLE.read_text().splitlines()) <= 40
