"""Looking at items and writing them elsewhere: what the outbox holds, and what files hold."""

from __future__ import annotations

import csv
import gzip
import json

import pytest

QUICK = ("--set", "retry_delay_seconds=0.05")
BROKEN = "class Broken:\n    def write(self, batch):\n        raise ValueError('no such table')\n"


@pytest.fixture
def crawled(skitter, site):
    """A job whose outbox holds two items and a reject that its target would not have."""
    site.page("/", '<title>home</title><a href="/a">a</a>')
    site.page("/a", "<title></title>")
    skitter.write(
        "shop.py",
        f"""
        import skitter
        class Shop(skitter.Spider):
            name = "shop"
            start_urls = ["{site.base}/"]
            def parse(self, response):
                yield {{"url": response.url, "title": response.css("title::text").get(), "n": len(response.url)}}
                yield from response.follow_all(css="a")
                if response.url.endswith("/a"):
                    yield {{"url": object()}}
        """,
    )
    skitter.write("broken.py", BROKEN)
    return skitter


def _held(skitter) -> None:
    skitter.run("crawl", "shop.py", "-o", "python:broken:Broken", *QUICK, code=3)


def test_the_outbox_is_written_elsewhere_and_forgets_nothing(crawled) -> None:
    # A target that cannot be written: all that was committed until the crawl stopped stays in the outbox.
    _held(crawled)
    held = crawled.json("status", "--job", "shop")["undelivered"]
    assert held > 0
    told = crawled.json("export", "--job", "shop", "-o", "out.jsonl", "-o", "out.csv")
    assert told["written"] + told["rejected"] == 2 * held
    assert len(crawled.lines("out.jsonl")) == told["written"] / 2
    with (crawled.folder / "out.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == told["written"] / 2
    assert crawled.json("status", "--job", "shop")["undelivered"] == held
    seen = crawled.json("items", "shop")
    assert (seen["source"], seen["items"], seen["undelivered"]) == ("outbox", told["written"] / 2, held)


def test_items_shows_a_sample_and_how_full_the_fields_are(crawled) -> None:
    crawled.run("crawl", "shop.py", "-o", "out.jsonl", *QUICK)
    seen = crawled.json("items", "shop", "-n", 1)
    assert (seen["source"], seen["items"], len(seen["sample"])) == ("out.jsonl", 2, 1)
    assert seen["fields"]["url"] == {"filled": 2, "rate": 1.0, "types": {"text": 2}}
    assert seen["fields"]["title"] == {"filled": 1, "rate": 0.5, "types": {"text": 1, "null": 1}}
    assert seen["fields"]["n"]["types"] == {"number": 2}
    text = crawled.run("items", "--job", "shop").stdout
    assert "2 items in out.jsonl" in text
    assert "50.0%" in text
    assert crawled.json("items", "--from", "out.jsonl", "--most", 1)["items"] == 1


@pytest.mark.parametrize("name", ["in.jsonl", "in.jsonl.gz", "in.json", "in.csv"])
@pytest.mark.parametrize("target", ["out.jsonl", "out.json", "out.csv"])
def test_a_file_of_results_becomes_another(skitter, name, target) -> None:
    records = [{"a": f"ü{n}", "b": "x" * (n % 3)} for n in range(2500)]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    source = skitter.folder / name
    if name.endswith(".gz"):
        source.write_bytes(gzip.compress(lines.encode()))
    elif name.endswith(".json"):
        source.write_text(json.dumps(records))
    elif name.endswith(".csv"):
        with source.open("w", newline="") as file:
            writer = csv.DictWriter(file, ["a", "b"])
            writer.writeheader()
            writer.writerows(records)
    else:
        source.write_text(lines)
    assert skitter.json("export", "--from", name, "-O", target) == {
        "written": 2500,
        "rejected": 0,
        "outputs": [target],
    }
    again = skitter.json("items", "--from", target)
    assert again["items"] == 2500
    assert again["fields"]["a"]["rate"] == 1.0
    assert again["fields"]["b"]["filled"] == sum(bool(record["b"]) for record in records)
