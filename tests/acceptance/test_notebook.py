"""In the kernel of a real notebook: ``stream`` and ``acrawl`` beside its loop, interrupted and resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel

from skitter.testing.web import WebSpec, served

PAGES = 60
SECONDS = 60
DEFINE = """
import signal
import skitter

class Pages(skitter.Spider):
    name = "pages"
    start_urls = ["{url}"]

    def parse(self, response):
        print("from the spider")
        yield {{"url": response.url}}
        yield response.links()

slowly = {{"allow_private": True, "per_host": 1, "delay_seconds": 0.2}}
fast = {{"allow_private": True}}
for_ever = slowly | {{"delay_seconds": 600, "obey_robots": False}}
handler = signal.getsignal(signal.SIGINT)
urls = []
"""


class Notebook:
    """A kernel, and what its cells print."""

    def __init__(self, manager: Any, client: Any) -> None:
        self._manager = manager
        self._client = client

    def cell(self, code: str, *, interrupt_when: Callable[[str], bool] | None = None) -> tuple[str, str, str]:
        """Run a cell: what it printed on standard output and error, and the name of what it raised."""
        request = self._client.execute(code)
        out = {"stdout": "", "stderr": ""}
        raised = ""
        while True:
            message = self._client.get_iopub_msg(timeout=SECONDS)
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if message["msg_type"] in ("stream", "display_data"):
                text = content["text"] if message["msg_type"] == "stream" else content["data"]["text/plain"] + "\n"
                out[content.get("name", "stdout")] += text
                if interrupt_when is not None and interrupt_when(out["stdout"]):
                    interrupt_when = None
                    self._manager.interrupt_kernel()
            elif message["msg_type"] == "error":
                raised = content["ename"]
            elif message["msg_type"] == "status" and content["execution_state"] == "idle":
                assert interrupt_when is None, (out, raised)
                return out["stdout"], out["stderr"], raised


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    manager, client = start_new_kernel(cwd=str(tmp_path), startup_timeout=SECONDS)
    try:
        yield Notebook(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def three_lines(text: str) -> bool:
    return text.count("\n") >= 3


# What zmq and the kernel's client leave behind is theirs.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_stream_and_acrawl_in_a_notebook_are_interrupted_and_resumed(notebook: Notebook) -> None:
    with served(WebSpec.plain(hosts=1, pages_per_host=PAGES)) as web:
        assert notebook.cell(DEFINE.format(url=web.urls[0])) == ("", "", "")
        loop = (
            "in skitter.stream(Pages, settings=slowly, job='p'):\n    print(item['url'])\n    urls.append(item['url'])"
        )
        out, _, raised = notebook.cell(f"async for item {loop}", interrupt_when=three_lines)
        assert raised in ("CancelledError", "KeyboardInterrupt")
        assert "spider" not in out, "what the loop prints is apart from what the spider prints"
        _, _, raised = notebook.cell(f"for item {loop}", interrupt_when=three_lines)
        assert raised == "KeyboardInterrupt"
        beside = """
import asyncio
async def tick():
    while True:
        print("tick")
        await asyncio.sleep(0.2)
ticking = asyncio.create_task(tick())
try:
    await skitter.acrawl(Pages, settings=slowly, output="pages.jsonl", job="p")
finally:
    ticking.cancel()
"""
        _, _, raised = notebook.cell(beside, interrupt_when=three_lines)
        assert raised in ("CancelledError", "KeyboardInterrupt")
        rest = "async for item in skitter.stream(Pages, settings=fast, job='p'):\n    urls.append(item['url'])"
        rest += "\nprint(len(set(urls)))"
        out, error, raised = notebook.cell(rest)
        assert (out, raised) == (f"{PAGES}\n", ""), error
        out, _, raised = notebook.cell(
            "import threading\n"
            "print([thread.name for thread in threading.enumerate() if 'skitter' in thread.name])\n"
            "print(signal.getsignal(signal.SIGINT) is handler, len(urls) - len(set(urls)) <= 2)"
        )
        assert (out, raised) == ("[]\nTrue True\n", "")
        # Again, in one cell after the other.
        out, _, _ = notebook.cell("print((await skitter.acrawl(Pages, settings=fast)).items)")
        assert out == f"{PAGES}\n"
        out, _, _ = notebook.cell("print(skitter.crawl(Pages, settings=fast).items, skitter.get(Pages.start_urls[0]))")
        assert out.startswith(f"{PAGES} <Response 200 ")


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_cell_that_is_stopped_stops_and_an_edited_class_is_noticed(notebook: Notebook) -> None:
    def begun(text: str) -> bool:
        return "from the spider" in text

    with served(WebSpec.plain(hosts=1, pages_per_host=PAGES)) as web:
        # What a spider prints goes to standard error.
        define = DEFINE.format(url=web.urls[0]).replace("print(", "display(")
        assert notebook.cell(define)[2] == ""
        for call, options in (("skitter.crawl", "job='other'"), ("await skitter.acrawl", "output='pages.jsonl'")):
            out, _, raised = notebook.cell(
                f"{call}(Pages, settings=for_ever, {options})\nprint('next line')", interrupt_when=begun
            )
            assert raised in ("CancelledError", "KeyboardInterrupt")
            assert "next line" not in out
        resumed = "print((await skitter.acrawl(Pages, settings=slowly | {'max_pages': 5}, output='pages.jsonl')).begun)"
        out, error, _ = notebook.cell(resumed)
        assert (out[-8:], error) == ("resumed\n", "")
        assert notebook.cell(define.replace('{"url": response.url}', '{"link": response.url}'))[2] == ""
        out, error, _ = notebook.cell(resumed)
        assert out.endswith("resumed\n")
        assert "notebook:Pages was edited since this run was last worked on" in error
        assert "fresh=True" in error
        assert notebook.cell(define.replace("class Pages", "class Others"))[2] == ""
        _, _, raised = notebook.cell(resumed.replace("Pages", "Others"))
        assert raised == "JobError"
