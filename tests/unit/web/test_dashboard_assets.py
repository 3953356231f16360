"""The dashboard's own files: texts in both languages, no way to parse text as HTML, and how they are served."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

import skitter.web
from skitter.app.views import proxies, why
from skitter.model.job import State, StopReason
from skitter.model.session import SessionState
from skitter.model.worker import Doing, WaitsFor
from skitter.web.server import MasterServer, ServerConfig

ASSETS = Path(skitter.web.__file__).parent / "assets"
SCRIPTS = {path.relative_to(ASSETS).as_posix(): path.read_text(encoding="utf-8") for path in ASSETS.rglob("*.js")}
SOURCE = "\n".join(SCRIPTS.values())
EN, ZH = (json.loads((ASSETS / "texts" / f"{name}.json").read_text(encoding="utf-8")) for name in ("en", "zh"))
DIRECT = set(re.findall(r'\bt\(\s*"([^"]+)"', SOURCE)) | set(re.findall(r'"(keys\.\w+)"', SOURCE))
PREFIXES = {
    *re.findall(r"\bt\(`([a-z_.]+)\$\{", SOURCE),
    *(f"{name}." for name in re.findall(r'\bnamed\("(\w+)"', SOURCE)),
}

FORBIDDEN = (
    r"innerHTML|insertAdjacentHTML|outerHTML\s*=|document\.write|\beval\(|new Function|DOMParser|setAttribute\(.style"
)


def test_both_languages_have_the_same_texts_with_the_same_values() -> None:
    assert list(EN) == list(ZH)
    for key, text in EN.items():
        assert text, key
        assert ZH[key], key
        assert set(re.findall(r"\{\w+\}", text)) == set(re.findall(r"\{\w+\}", ZH[key])), key


def test_every_text_that_is_asked_for_is_there_and_none_is_left_over() -> None:
    assert DIRECT - set(EN) == set()
    known = (*PREFIXES, "reason.")
    assert [key for key in EN if key not in DIRECT and f'"{key}"' not in SOURCE and not key.startswith(known)] == []


@pytest.mark.parametrize(
    ("prefix", "names"),
    [
        *(("state", State), ("stop", StopReason), ("doing", Doing), ("waits", WaitsFor)),
        ("session", [state.name.lower() for state in SessionState]),
        ("proxy", re.findall(r'"(\w+)"', inspect.getsource(proxies.proxy_state))),
    ],
)
def test_names_of_the_server_have_texts(prefix: str, names: Iterable[str]) -> None:
    assert [name for name in names if f"{prefix}.{name}" not in EN] == []


def test_every_reason_of_why_has_its_words() -> None:
    source = Path(why.__file__).read_text(encoding="utf-8")
    kinds = set(re.findall(r'_reason\(\s*"(\w+)"', source)) | set(re.findall(r'"(redirected|fetched)"', source))
    assert len(kinds) > 25
    assert kinds - {key.removeprefix("reason.") for key in EN if key.startswith("reason.")} == set()


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_no_script_parses_text_as_html_or_code(name: str) -> None:
    assert re.findall(FORBIDDEN, SCRIPTS[name]) == []


def test_nothing_is_fetched_from_another_origin() -> None:
    for path in ASSETS.rglob("*.*"):
        text = path.read_text(encoding="utf-8")
        found = [url for url in re.findall(r"(?:https?:)?//[\w.-]+\.[a-z]{2,}[^\s\"'`]*", text) if "example" not in url]
        assert [url for url in found if not url.startswith("http://www.w3.org/")] == [], path
    page = (ASSETS / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", page)


@pytest_asyncio.fixture
async def session(tmp_path: Path) -> AsyncIterator[aiohttp.ClientSession]:
    token_file = tmp_path / "tokens"
    token_file.touch(0o600)
    token_file.write_text("a-token-of-a-viewer-1")
    config = ServerConfig(frontiers=(f"sqlite:{tmp_path / 'm.db'}",), port=0, token_file=str(token_file))
    async with MasterServer(config).listening() as master, aiohttp.ClientSession(master.url) as session:
        yield session


async def test_files_are_served_without_a_credential_once(session: aiohttp.ClientSession) -> None:
    names = [path.relative_to(ASSETS).as_posix() for path in ASSETS.rglob("*.*")]
    for path in ["/", "/favicon.ico", *(f"/assets/{name}" for name in names if name != "index.html")]:
        async with session.get(path) as answer:
            assert answer.status == 200, path
            assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
            assert "unsafe" not in answer.headers["Content-Security-Policy"]
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            etag = answer.headers["ETag"]
        async with session.get(path, headers={"If-None-Match": etag}) as again:
            assert (again.status, await again.read()) == (304, b"")


@pytest.mark.parametrize("path", ["/assets/../server.py", "/assets/%2e%2e/server.py", "/assets/pages", "/assets/no.js"])
async def test_no_path_leads_to_another_file(session: aiohttp.ClientSession, path: str) -> None:
    async with session.get(aiohttp.client.URL(path, encoded=True)) as answer:
        assert answer.status in (401, 404)
        assert b"MasterServer" not in await answer.read()


async def test_a_page_shows_no_data_to_strangers(session: aiohttp.ClientSession) -> None:
    async with session.get("/api/v1/jobs") as answer:
        assert answer.status == 401
