"""``skitter --help`` starts about as fast as Python itself: nothing heavy is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = "asyncio can_ada httpx msgspec multiprocessing pycurl rich selectolax sqlite3 uvloop".split()
LOADED = "import sys; from skitter.cli import main; assert main({words!r}) == 0; print(*sys.modules, file=sys.stderr)"


def _modules(code: str) -> set[str]:
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ended.stderr.split())


@pytest.mark.parametrize(
    "words", [["--help"], ["--version"], ["crawl", "--help"], ["status", "--help"], ["bench", "--help"]]
)
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    loaded = _modules(LOADED.format(words=words))
    assert "skitter.cli" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_help_of_the_program_does_without_argparse_and_typing() -> None:
    assert _modules(LOADED.format(words=["--help"])).isdisjoint(["argparse", "typing"])


def test_importing_the_package_imports_nothing_of_it() -> None:
    loaded = _modules("import sys, skitter; print(*sys.modules, file=sys.stderr)")
    assert {name for name in loaded if name.startswith("skitter")} == {"skitter", "skitter._version"}


def test_the_process_that_only_watches_workers_loads_nothing_of_theirs() -> None:
    loaded = _modules(
        "import sys, skitter.app.crawl_node, skitter.spiders.loading; print(*sys.modules, file=sys.stderr)"
    )
    assert "skitter.node.supervisor" in loaded
    assert loaded.isdisjoint(["pycurl", "selectolax", "protego", "skitter.worker.loop"])


def test_a_worker_of_a_plain_crawl_starts_without_what_only_some_crawls_want() -> None:
    """Each costs a millisecond or two of every worker's start; together they would be a tenth of it."""
    loaded = _modules(
        "import sys, skitter.app.worker_main, skitter.frontier.sqlite; print(*sys.modules, file=sys.stderr)"
    )
    assert "skitter.worker.loop" in loaded
    assert "skitter.frontier.sqlite.store" in loaded
    assert loaded.isdisjoint(["difflib", "html", "importlib.resources", "tempfile", "xml.parsers.expat", "zipfile"])
    assert loaded.isdisjoint(["skitter.extract.sitemaps", "skitter.model.session_ids", "skitter.sinks.targets"])


def test_parts_of_skitters_own_are_found_without_the_metadata_of_every_package() -> None:
    """It is read for a name that nobody knows: 10 to 50 ms, by the number of packages that are installed."""
    code = (
        "import sys; from skitter.app.frontiers import is_shared; from skitter.app.fetchers import make_fetcher; "
        "from skitter.settings import Settings; assert is_shared('sqlite:x.db') and make_fetcher(Settings()); "
    )
    loaded = _modules(code + "print(*sys.modules, file=sys.stderr)")
    assert "skitter.fetch.engine" in loaded
    assert "importlib.metadata" not in loaded


def test_a_crawl_that_writes_lines_starts_without_the_other_formats() -> None:
    code = (
        "import sys, skitter.app.crawl_node, skitter.cli.settings_layers\n"
        "from skitter.sinks.file_targets import file_sink; "
    )
    loaded = _modules(code + "file_sink('out.jsonl', overwrite=False); print(*sys.modules, file=sys.stderr)")
    assert "skitter.sinks.json_lines" in loaded
    assert loaded.isdisjoint(
        [f"skitter.sinks.{name}" for name in "warc_sink csv_table parquet part_files whole_file warc_records".split()]
    )
    assert loaded.isdisjoint(["tomllib", "tempfile", "difflib", "importlib.resources"])
