"""The examples of requests crawl a served shop: a search form, an API with a cursor, downloads and broken pages."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs
from uuid import uuid4

import boto3
import pytest

from rig.servers.streams import ACCESS_KEY, SECRET_KEY, OwnS3

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "requests"
QUICK = ("--ignore-robots", "-q", "--set", "retry_delay_seconds=0.02")
PNG, JPEG, PDF = b"\x89PNG\r\n\x1a\n" + b"p" * 500, b"\xff\xd8\xff" + b"j" * 500, b"%PDF-1.7 manual"


@pytest.fixture
def crawl(skitter: Any, site: Any) -> Any:
    def run(example: str, *options: object, code: int | None = 0) -> list[dict[str, Any]]:
        shutil.copy(EXAMPLES / example, skitter.folder)
        told = ("-a", f"base={site.base}", "-O", "out.jsonl")
        skitter.run("crawl", example, *told, *QUICK, *options, code=code)
        return skitter.lines("out.jsonl") if code == 0 else []

    return run


def test_examples_are_short() -> None:
    spiders = [path for path in EXAMPLES.parent.glob("*/*.py") if "Spider):" in path.read_text()]
    sizes = {path.name: len(path.read_text().splitlines()) for path in spiders}
    assert sizes.keys() >= {"search_form.py", "json_api.py", "downloads.py", "search.py", "soft_ban.py", "quotes.py"}
    assert max(sizes.values()) <= 40


def test_a_search_form_with_pages_of_results_and_broken_products(crawl: Any, site: Any) -> None:
    def search(seen: Any, _connection: Any) -> Any:
        form = parse_qs(seen.body.decode())
        assert (seen.method, form["sort"]) == ("POST", ["price"])
        (words,) = form["q"]
        page = f'<a class="product" href="/{words}/1">1</a><a class="next" href="/{words}">more</a>'
        return 200, {"Content-Type": "text/html"}, page.encode()

    site.on("/search", search)
    for words in ("lamp", "chair"):
        site.page(f"/{words}", f'<a class="product" href="/{words}/2">2</a><a class="product" href="/{words}/3">3</a>')
        for number in (1, 2):
            site.page(f"/{words}/{number}", f'<h1>{words} {number}</h1><p class="price">{number}.5</p>')
        site.page(f"/{words}/3", "broken", status=500)
    lines = crawl("search_form.py")
    products = [
        {"words": words, "name": f"{words} {n}", "price": n + 0.5} for words in ("lamp", "chair") for n in (1, 2)
    ]
    missing = [{"words": words, "missing": site.url(f"/{words}/3"), "why": "http_5xx"} for words in ("lamp", "chair")]
    assert sorted(lines, key=str) == sorted(products + missing, key=str)
    assert Counter(site.paths())["/lamp/3"] == 2


def test_an_api_with_a_cursor_is_read_to_its_end_once(crawl: Any, site: Any) -> None:
    def answer(seen: Any, _connection: Any) -> Any:
        asked = json.loads(seen.body)
        assert (seen.method, seen.headers["content-type"]) == ("POST", "application/json")
        first = int(asked["cursor"] or 0)
        last = min(first + asked["limit"], 35)
        told = {"products": [{"id": n} for n in range(first, last)], "next": str(last) if last < 35 else None}
        return 200, {"Content-Type": "application/json"}, json.dumps(told).encode()

    site.on("/api", answer)
    assert sorted(line["id"] for line in crawl("json_api.py")) == list(range(35))
    assert len(site.seen) == 4


@pytest.fixture
def shop(site: Any) -> Any:
    site.page("/products", "".join(f'<a class="product" href="/p/{n}">{n}</a>' for n in range(3)))
    site.page("/p/0", '<h1>0</h1><img src="/a.png"><img src="/lost.png"><a class="manual" href="/m.pdf">m</a>')
    site.page("/p/1", '<h1>1</h1><img src="/a.png"><img src="/same.png"><img src="/page.png">')
    site.page("/p/2", '<h1>2</h1><img src="/b.jpg"><img src="/large.png"><img src="/moved.png"><img src="/empty.png">')
    site.page("/a.png", PNG, **{"Content-Type": "image/png"})
    site.page("/same.png", PNG, **{"Content-Type": "application/octet-stream"})
    site.page("/b.jpg", JPEG, **{"Content-Type": "image/jpeg"})
    site.page("/m.pdf", PDF, **{"Content-Type": "application/pdf"})
    site.page("/page.png", "<html>not found", **{"Content-Type": "image/png"})
    site.page("/large.png", PNG + bytes(200_000), **{"Content-Type": "image/png"})
    site.page("/moved.png", status=302, Location="/b.jpg")
    site.page("/empty.png", b"", **{"Content-Type": "image/png"})
    return site


def name_of(content: bytes, suffix: str) -> str:
    checksum = hashlib.sha256(content).hexdigest()
    return f"{checksum[:2]}/{checksum}.{suffix}"


STORED = {name_of(PNG, "png"): PNG, name_of(JPEG, "jpg"): JPEG, name_of(PDF, "pdf"): PDF}


def check_records(site: Any, lines: list[dict[str, Any]]) -> None:
    files = {line["url"].removeprefix(site.base): line for line in lines if "status" in line}
    assert len(files) == len([line for line in lines if "status" in line]), "each has one record"
    told = {path: (line["status"], line["reason"]) for path, line in files.items()}
    assert told == {
        "/a.png": ("stored", ""),
        "/same.png": ("stored", ""),
        "/b.jpg": ("stored", ""),
        "/moved.png": ("stored", ""),
        "/m.pdf": ("stored", ""),
        "/lost.png": ("failed", "HTTP 404"),
        "/page.png": ("refused", "another content type: text/html"),
        "/large.png": ("refused", "larger than 100000 bytes"),
        "/empty.png": ("refused", "empty"),
    }
    for line in files.values():
        if line["status"] == "stored":
            content = STORED[line["path"]]
            assert (line["checksum"], line["size"]) == (hashlib.sha256(content).hexdigest(), len(content))
        else:
            assert (line["path"], line["checksum"]) == (None, None)
    assert files["/same.png"]["content_type"] == "image/png"
    assert files["/m.pdf"]["kind"] == "manual"
    assert files["/moved.png"]["path"] == files["/b.jpg"]["path"]


def test_files_are_stored_once_by_their_content(crawl: Any, shop: Any, skitter: Any) -> None:
    lines = crawl("downloads.py", "--workers", 2)
    check_records(shop, lines)
    assert Counter(shop.paths())["/a.png"] == 1, "what two pages name is fetched once"
    folder = skitter.folder / "files"
    found = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == STORED
    times = {name: path.stat().st_mtime_ns for name, path in found.items()}
    check_records(shop, crawl("downloads.py", "--fresh"))
    assert {name: path.stat().st_mtime_ns for name, path in found.items()} == times, "and written once"
    assert skitter.records("failed", "--job", "downloads")[0]["url"] == shop.url("/lost.png")
    assert skitter.json("why", shop.url("/m.pdf"), "--job", "downloads")["state"] == "done"


@pytest.mark.timeout(900)  # it may have to build the server
def test_files_go_to_a_bucket(crawl: Any, shop: Any, services: Any) -> None:
    told = services.need("s3")
    prefix = f"files/{uuid4().hex[:12]}/"
    target = f"{told['url']}/{prefix}?endpoint={told['endpoint']}"
    check_records(shop, crawl("downloads.py", "--set", f"file_target={target}"))
    keys = {"aws_access_key_id": ACCESS_KEY, "aws_secret_access_key": SECRET_KEY, "region_name": "us-east-1"}
    client = boto3.client("s3", endpoint_url=told["endpoint"], **keys)
    listed = client.list_objects_v2(Bucket=OwnS3.bucket, Prefix=prefix)["Contents"]
    assert {item["Key"].removeprefix(prefix): item["Size"] for item in listed} == {
        name: len(content) for name, content in STORED.items()
    }
    kinds = {client.head_object(Bucket=OwnS3.bucket, Key=item["Key"])["ContentType"] for item in listed}
    assert kinds == {"image/png", "image/jpeg", "application/pdf"}
    client.close()


def test_the_samples_of_the_page_run(skitter: Any, shop: Any) -> None:
    page = (EXAMPLES.parents[1] / "docs" / "how-to" / "download-files.md").read_text()
    pictures, signatures = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    book = "http://127.0.0.1:8600/books/1.html"
    skitter.write("pictures.py", pictures.replace(book, shop.url("/p/0")))
    skitter.run("crawl", "pictures.py", "--set", "file_target=pictures", "-o", "out.jsonl", *QUICK)
    records = {line["url"].removeprefix(shop.base): line for line in skitter.lines("out.jsonl") if "url" in line}
    assert records["/a.png"]["status"] == "stored"
    assert (records["/lost.png"]["status"], records["/lost.png"]["of"]) == ("failed", shop.url("/p/0"))
    assert (skitter.folder / "pictures" / records["/a.png"]["path"]).read_bytes() == PNG
    skitter.write("signatures.py", signatures.replace(book, shop.url("/p/0")))
    skitter.run("crawl", "signatures.py", "-o", "signatures.jsonl", *QUICK)
    signs = {line["url"].removeprefix(shop.base): line.get("first_bytes") for line in skitter.lines("signatures.jsonl")}
    assert signs == {"/a.png": PNG[:4].hex(), "/lost.png": None}


def test_a_place_that_cannot_be_written_stops_the_crawl_and_loses_nothing(crawl: Any, shop: Any, skitter: Any) -> None:
    (skitter.folder / "taken").write_text("a file")
    crawl("downloads.py", "--set", "file_target=taken", code=3)
    check_records(shop, crawl("downloads.py", "--set", "file_target=files"))
