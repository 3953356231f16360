"""Databases by the real command line: results are there, secrets are nowhere."""

from __future__ import annotations

import sqlite3
from uuid import uuid4

import pytest

from rig.places import PLACES
from skitter.testing.web import WebSpec, served

pytestmark = pytest.mark.timeout(900)


def test_a_crawl_into_sqlite_and_a_second_run_keep_one_row_a_page(skitter):
    with served(WebSpec.plain(hosts=1, pages_per_host=30)) as web:
        for _ in range(2):
            skitter.run("crawl", *web.urls, "-o", "sqlite:out.db#pages", "--job", "j")
        expected = web.expected().done
    connection = sqlite3.connect(skitter.folder / "out.db")
    urls = [url for (url,) in connection.execute("SELECT url FROM pages")]
    connection.close()
    assert sorted(urls) == sorted(expected)


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", "mongodb"])
def test_a_password_is_told_to_the_server_and_to_nobody_else(skitter, services, kind):
    place = PLACES[kind](services.need(kind)["url"], f"pages_{uuid4().hex[:12]}")
    with served(WebSpec.plain(hosts=1, pages_per_host=30)) as web:
        command = ("crawl", *web.urls, "--job", "j", "--log", "log.jsonl", "--log-format", "json", "-v", "-o")
        wrong = skitter.run(*command, place.target.replace("pa55", "hush"), code=3)
        assert "hint: " in wrong.stderr
        done = skitter.run(*command, f"{place.url}#{place.table}")
        expected = web.expected().done
    assert sorted(row["url"] for row in place.rows()) == sorted(expected)
    status = skitter.run("status", "--job", "j", "--json").stdout
    assert f"#{place.table}" in status
    kept = b"".join(path.read_bytes() for path in skitter.folder.rglob("*") if path.is_file())
    for text in (wrong.stderr, done.stderr, done.stdout, status, kept.decode(errors="replace")):
        assert "hush" not in text
        assert "pa55" not in text
