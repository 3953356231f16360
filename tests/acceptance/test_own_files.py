"""An output that is a file of the job itself is refused before anything is emptied."""

from __future__ import annotations

import os

import pytest

from rig.processes import CommandLine
from rig.web import Site


@pytest.fixture
def jobs(skitter: CommandLine, site: Site) -> CommandLine:
    """A folder with a job in the default store."""
    site.page("/", "<h1>Books</h1>")
    skitter.write("urls.jsonl", f'{{"url": "{site.url()}"}}\n')
    skitter.run("crawl", site.url(), "--job", "kept", "--max-pages", 3, "-o", "kept.jsonl")
    os.link(skitter.folder / ".skitter" / "kept.db", skitter.folder / "linked.jsonl")
    (skitter.folder / "also.jsonl").symlink_to("kept.jsonl")
    return skitter


@pytest.mark.parametrize(
    ("words", "what", "file"),
    [
        ("crawl {url} --job kept -O linked.jsonl", "a file of the frontier", ".skitter/kept.db"),
        ("crawl {url} --job kept -o sqlite:.skitter/kept.db#items", "a file of the frontier", ".skitter/kept.db"),
        ("deliver --job kept -o linked.jsonl", "a file of the frontier", ".skitter/kept.db"),
        ("export --job kept -O linked.jsonl", "a file of the frontier", ".skitter/kept.db"),
        ("export --from kept.jsonl -O also.jsonl", "the file that is read", "kept.jsonl"),
        ("crawl --intake file:urls.jsonl --job fed -O urls.jsonl", "an intake of this job", "urls.jsonl"),
        ("crawl {url} --job new -O a.jsonl --log a.jsonl", "the log file", "kept.jsonl"),
        ("crawl {url} --job new -o kept.jsonl -O also.jsonl", "the same file as kept.jsonl", "kept.jsonl"),
    ],
)
def test_it_stays_as_it_was(jobs: CommandLine, site: Site, words: str, what: str, file: str) -> None:
    before = (jobs.folder / file).read_bytes()
    refused = jobs.run(*words.format(url=site.url()).split(), code=2)
    assert f"error: this output is {what}" in refused.stderr
    assert (jobs.folder / file).read_bytes() == before
