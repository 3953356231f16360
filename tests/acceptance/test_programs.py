"""Programs of a user in interpreters of their own: what is passed in runs, and what ends early does not look whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from rig.processes import HANG_SECONDS
from skitter.testing.web import WebSpec, served

PAGES = 20
SPIDER = """
import os, signal, sys
from pathlib import Path
import skitter

BASE = sys.argv[1]
FAST = {"allow_private": True}

class Pages(skitter.Spider):
    name = "pages"
    base = ""
    label = "of the file"
    fifth = None

    def start(self):
        yield skitter.Request(self.base)

    def parse(self, response):
        yield {"url": response.url, "label": self.label, "pid": os.getpid()}
        yield response.links()
        seen = Path("seen.txt")
        with seen.open("a") as file:
            file.write(".")
        if self.fifth and seen.stat().st_size == 5:
            os.kill(os.getppid() if self.to == "parent" else os.getpid(), getattr(signal, self.fifth))

def crawl(job):
    return skitter.crawl(Pages, output=f"{job}.jsonl", job=job, **among())

def among(**options):
    return {"arguments": {"base": BASE}, "settings": FAST} | options
"""


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with served(WebSpec.plain(hosts=1, pages_per_host=PAGES, latency_seconds=0.005)) as web:
        yield web.urls[0]


class Folder:
    """A folder with programs of a user."""

    def __init__(self, path: Path, base: str) -> None:
        self._path = path
        self._base = base

    def write(self, name: str, text: str) -> None:
        file = self._path / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(textwrap.dedent(text))

    def run(self, *command: str, code: int = 0) -> tuple[str, str]:
        """Run ``python COMMAND BASE``: what it wrote to standard output and standard error."""
        ended = subprocess.run(
            [sys.executable, *command, self._base],
            cwd=self._path,
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
            env=os.environ | {"PYTHONWARNINGS": "default"},
        )
        assert ended.returncode == code, (ended.returncode, ended.stdout, ended.stderr)
        return ended.stdout, ended.stderr

    def script(self, end: str, code: int = 0) -> tuple[str, str]:
        """Run a program of the spider and these lines below the guard."""
        self.write(
            "program.py", SPIDER + '\nif __name__ == "__main__":\n' + textwrap.indent(textwrap.dedent(end), "    ")
        )
        return self.run("program.py", code=code)


@pytest.fixture
def folder(tmp_path: Path, base: str) -> Folder:
    return Folder(tmp_path, base)


# ---- nothing is silently short

LIST = """
    killed = {"base": BASE, "fifth": "SIGINT", "to": "self"}
    items = skitter.stream(Pages, arguments=killed, settings=FAST | {"per_host": 1})
    found = list(items)
    print(len(found), items.summary.items)
"""


def test_a_list_of_a_stream_is_whole_after_an_interrupted_one(folder: Folder) -> None:
    out, error = folder.script(LIST, code=-signal.SIGINT)
    assert (out, error.count("Traceback")) == ("", 1)
    out, error = folder.script(LIST)
    assert (out, error) == (f"{PAGES} {PAGES}\n", "")


def test_a_stream_of_a_named_job_says_how_many_items_came_earlier(folder: Folder) -> None:
    program = """
        items = skitter.stream(Pages, **among(job="mine"))
        for _ in range({}):
            next(items)
        if Path("again.txt").exists():
            print(len(list(items)), items.summary.items)
        Path("again.txt").touch()
        os.kill(os.getpid(), signal.SIGINT)
    """
    folder.script(program.format(4), code=-signal.SIGINT)
    out, error = folder.script(program.format(0), code=-signal.SIGINT)
    assert out == f"{PAGES - 3} {PAGES}\n", "the fourth item was not confirmed"
    assert "3 items of this run were returned by an earlier stream()" in error
    assert "fresh=True (--fresh) starts from the beginning" in error


@pytest.mark.parametrize(("name", "code"), [("SIGINT", -signal.SIGINT), ("SIGTERM", 128 + signal.SIGTERM)])
@pytest.mark.parametrize("workers", [1, 2])
def test_a_program_that_is_told_to_end_does_not_go_on_after_its_crawl(
    folder: Folder, tmp_path: Path, name: str, code: int, workers: int
) -> None:
    to = "self" if workers == 1 else "parent"
    program = f"""
        arguments = {{"base": BASE, "fifth": "{name}", "to": "{to}"}}
        settings = FAST | {{"workers": {workers}, "per_host": 1}}
        skitter.crawl(Pages, output="pages.jsonl", arguments=arguments, settings=settings)
        print("upload")
    """
    out, error = folder.script(program, code=code)
    assert "upload" not in out
    rows = (tmp_path / "pages.jsonl").read_text().splitlines()
    assert 0 < len(rows) < PAGES, "it stopped gracefully: the rows of its pages are written"
    assert error.count("Traceback") == (name == "SIGINT"), error


# ---- the class passed in


def test_the_object_passed_in_runs_in_this_process(folder: Folder) -> None:
    out, error = folder.script("""
        rows = []
        class Below(Pages):
            def parse(self, response):
                rows.append(response.url)
                return super().parse(response)
        Pages.label = "changed"
        links = Pages.parse
        Pages.parse = lambda self, response: (part for part in links(self, response))
        for kind, options in ((Below, {}), (Below, {"frontier": "memory:"}), (Pages, {"output": "out.jsonl"})):
            print(skitter.crawl(kind, job=kind.__name__, **among(**options)).items, len(rows))
        print({(item["label"], item["pid"] == os.getpid()) for item in skitter.stream(Pages, **among())})
    """)
    assert out == f"{PAGES} {PAGES}\n{PAGES} {2 * PAGES}\n{PAGES} {2 * PAGES}\n{{('changed', True)}}\n", error


def test_worker_processes_refuse_a_class_that_is_not_that_of_its_file(folder: Folder) -> None:
    _, error = folder.script(
        """
        Pages.label = "changed"
        Pages.parse = lambda self, response: None
        skitter.crawl(Pages, **among(settings=FAST | {"workers": 2}))
        """,
        code=1,
    )
    assert "Pages in its file differs from the class that was passed in: label, parse" in error
    assert "hint: worker processes load the class from its file, and globals are each process's own" in error


def test_a_class_of_a_script_runs_unchanged_in_worker_processes(folder: Folder) -> None:
    out, error = folder.script("""
        pids = {item["pid"] for item in skitter.stream(Pages, **among(settings=FAST | {"workers": 2}))}
        print(len(pids) > 0, os.getpid() in pids)
    """)
    assert (out, error) == ("True False\n", "")


@pytest.mark.parametrize("init", ["__init__.py", ""])
def test_a_spider_with_relative_imports_runs_as_a_module_and_in_workers(folder: Folder, init: str) -> None:
    if init:
        folder.write(f"shop/{init}", "")
    folder.write("shop/labels.py", "LABEL = 'relative'")
    folder.write(
        "shop/books.py",
        "from .labels import LABEL\n"
        + SPIDER
        + """
class Books(Pages):
    label = LABEL

if __name__ == "__main__":
    for workers in (1, 2):
        found = skitter.stream(Books, **among(settings=FAST | {"workers": workers}))
        print({item["label"] for item in found})
""",
    )
    out, error = folder.run("-m", "shop.books")
    assert (out, error) == ("{'relative'}\n" * 2, "")


def test_edited_code_is_told_and_another_class_is_refused(folder: Folder, tmp_path: Path) -> None:
    program = """
        stop = {{"fifth": "{}", "to": "self"}}
        skitter.crawl(Pages, output="out.jsonl", arguments={{"base": BASE}} | stop, settings=FAST | {{"per_host": 1}})
    """
    folder.script(program.format("SIGINT"), code=-signal.SIGINT)
    rows = (tmp_path / "out.jsonl").read_text()
    _, error = folder.script(program.format("SIGINT").replace("Pages,", "Others,").replace("stop =", OTHERS), code=1)
    assert "JobError: job pages is unfinished and has another spider" in error
    assert "hint: fresh=True (--fresh) discards the unfinished run; job=NAME (--job NAME) keeps both" in error
    assert (tmp_path / "out.jsonl").read_text() == rows, "items of two classes are not mixed"
    _, error = folder.script(program.format("SIGINT") + "# edited")
    assert "program.py:Pages was edited since this run was last worked on" in error
    assert "fresh=True (--fresh) starts from the beginning" in error
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == PAGES


OTHERS = """class Others(Pages):
            label = "another"
        stop ="""


# ---- beside other tools


def test_errors_and_summaries_return_from_a_pool_of_processes(folder: Folder) -> None:
    out, error = folder.script("""
        from concurrent.futures import ProcessPoolExecutor
        from multiprocessing import get_context
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            for call, argument in ((skitter.get, "http://127.0.0.1:1/"), (skitter.get, "nowhere"), (crawl, "pooled")):
                try:
                    print(pool.submit(call, argument).result().items)
                except skitter.SkitterError as error:
                    print(type(error).__name__, getattr(error, "error_class", ""), bool(error.hint))
    """)
    assert out == f"FetchError connect False\nUsageError  True\n{PAGES}\n", error


def test_a_test_of_pytest_sees_what_its_crawl_says(folder: Folder) -> None:
    program = (
        SPIDER.replace("sys.argv[1]", "sys.argv[-1]")
        + """
def test_whole(caplog):
    items = skitter.stream(Pages, **among())
    assert len(list(items)) == items.summary.items
    items.raise_for_state()
    assert caplog.text == ""

def test_without_output(caplog):
    assert skitter.crawl(Pages, **among()).raise_for_state().to_dict()["items"] > 0
    assert "no output: items are counted but not kept; use output=FILE (-o FILE) or stream()" in caplog.text

if __name__ == "__main__":
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", __file__]))
"""
    )
    folder.write("test_crawl.py", "import pytest\n" + program)
    folder.run("test_crawl.py")
