"""What pages, servers and spiders write cannot forge a line or drive a terminal: on a real one, and in pipes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import threading
from typing import Any

from rig.processes import HANG_SECONDS

EVIL = (
    "\x1b]52;c;RVZJTA==\x07",  # puts text into the clipboard
    "\x1b]8;;http://evil.test/\x07EVIL\x1b]8;;\x07",  # a link
    "\x1b[2J\x1b[31mEVIL",
    "\x9b31mEVIL",  # the same in one character
    "\x90qEVIL\x9c",
    "\rEVIL\x08\x7f\x07\x00",
    "\u202eLIVE\u2066\u200b\u2028\u2029\x85\xad\u180e\u3164\ufe0f\U000e0041",
    "[bold red]EVIL[/] [link=http://evil.test/]",
    '\n2026-01-01T00:00:00.000Z error   worker.died: forged (job=j)\n{"event": "worker.died"}\n',
)
PAYLOAD = " ".join(EVIL)
# What the live display itself sends: colours, the cursor up, down and to a column, erase, hide and show the cursor.
OWN = re.compile(r"\x1b\[(?:[0-9;]*[mABGJKH]|\?25[lh])")
FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\xad\u180e\u3164\ufe0f\U000e0041]"
)

SPIDER = """
    import logging

    from skitter import Request, Spider

    EVIL = {payload!r}


    class Evil(Spider):
        name = "evil"

        def start(self):
            for path in ("/", "/raises", "/location", "/status", "/slow"):
                yield Request(self.base + path)
            yield Request(self.base + "/" + EVIL)
            yield Request("http://evil\\x1b[31m.test" + EVIL)

        def parse(self, response):
            logging.getLogger("own" + EVIL).warning("%s %s", response.title, response.headers.get("x-evil"))
            if response.url.endswith("/raises"):
                raise RuntimeError(EVIL + (response.title or ""))
            yield {{"url": response.url, "title": response.title, "evil": EVIL}}
            yield response.links()
"""


class Drawings:
    """Counts how often the live display of a command is drawn on its terminal; servers wait for it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._count = 0
        self._is_watched = False

    def watched(self, *, is_watched: bool) -> None:
        with self._changed:
            self._is_watched = is_watched
            self._count = 0
            self._changed.notify_all()

    def seen(self, count: int) -> None:
        with self._changed:
            self._count = count
            self._changed.notify_all()

    def wait_for(self, more: int) -> None:
        """Wait until it is drawn so often again; where no display is watched, not at all."""
        with self._changed:
            goal = self._count + more
            self._changed.wait_for(lambda: self._count >= goal or not self._is_watched, HANG_SECONDS)


def _site(site: Any, drawings: Drawings) -> None:
    evil = PAYLOAD.encode()
    page = (
        b"<title>"
        + evil
        + b"</title><a href='/"
        + evil.replace(b"'", b"")
        + b"'>x</a><a href='http://h"
        + evil
        + b"'>y"
    )
    header = "".join(character for character in PAYLOAD if character not in "\r\n\0").encode("latin-1", "replace")

    def answered(status: bytes, more: bytes) -> Any:
        def answer(_seen: Any, connection: Any) -> None:
            lines = [
                b"HTTP/1.1 " + status,
                b"Content-Length: %d" % len(page),
                b"Content-Type: text/html; charset=utf-8",
            ]
            connection.send(b"\r\n".join([*lines, b"Server: " + header, b"X-Evil: " + header, more, b"", b""][:5]))
            connection.send((b"\r\n" + more if more else b"") + b"\r\n\r\n" + page)

        return answer

    for path in ("/", "/raises"):
        site.on(path, answered(b"200 OK", b""))
    site.on("/location", answered(b"302 " + header, b"Location: http://[" + header))
    site.on("/status", answered(b"404 " + header, b""))

    def slow(seen: Any, connection: Any) -> None:
        drawings.wait_for(3)
        answered(b"200 OK", b"")(seen, connection)

    site.on("/slow", slow)


def _on_a_terminal(skitter: Any, *words: str, drawings: Drawings | None = None) -> str:
    """All that a command writes to a terminal of its own."""
    drawings = drawings or Drawings()
    drawings.watched(is_watched=True)
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120", "LINES": "40"}
    process = skitter.start(*words, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    written = b""
    # EIO: the other end was closed.
    with contextlib.suppress(OSError):
        while piece := os.read(ours, 65536):
            written += piece
            drawings.seen(written.count(b"pages/s"))
    drawings.watched(is_watched=False)
    process.wait()
    os.close(ours)
    return written.decode("utf-8")


def _harmless(text: str, *, own: bool = False) -> None:
    """``own``: the sequences of the live display may be in it, and the terminal's carriage returns."""
    rest = OWN.sub("", text) if own else text
    found = FORBIDDEN.search(rest if own else rest.replace("\r\n", "\r"))
    assert found is None, repr(rest[max(0, found.start() - 100) : found.start() + 100])
    assert own or "\r" not in text


def test_a_terminal_shows_and_obeys_nothing(skitter: Any, site: Any) -> None:
    drawings = Drawings()
    _site(site, drawings)
    skitter.write("evil.py", SPIDER.format(payload=PAYLOAD))
    crawl = ["crawl", "evil.py", "-a", f"base={site.base}", "--job", "j"]
    shown = _on_a_terminal(skitter, *crawl, "-vv", drawings=drawings)
    assert "\x1b[" in shown, "the live display was not drawn: nothing was tested"
    assert "EVIL" in shown
    _harmless(shown, own=True)
    for words in (
        ["failed", "-v"],
        ["failed", "--json"],
        ["status", "-v"],
        ["status", "--json"],
        ["why", site.url("/raises")],
    ):
        _harmless(_on_a_terminal(skitter, *words, "--job", "j"), own=True)
    printed = _on_a_terminal(skitter, *crawl, "--fresh", "-o", "-", "-q")
    assert "EVIL" in printed
    _harmless(printed, own=True)


def test_what_a_spider_prints_stands_above_the_live_display(skitter: Any, site: Any) -> None:
    drawings = Drawings()

    def answer(_seen: Any, _connection: Any) -> tuple[int, dict[str, str], bytes]:
        drawings.wait_for(1)
        return 200, {"Content-Type": "text/html"}, b"x"

    for number in range(8):
        site.on(f"/{number}", answer)
    skitter.write(
        "chatty.py",
        """
        import os, sys

        from skitter import Request, Spider

        class Chatty(Spider):
            name = "chatty"

            def start(self):
                for number in range(8):
                    yield Request(f"{self.base}/{number}")

            def parse(self, response):
                print("PRINTED", response.url[-1])
                sys.stderr.write("WRITTEN \x1b[2J\\n")
                os.system("echo ECHOED")
        """,
    )
    words = ("crawl", "chatty.py", "-a", f"base={site.base}", "--per-host", "1")
    shown = _on_a_terminal(skitter, *words, drawings=drawings)
    assert "pages/s" in shown, "the live display was not drawn: nothing was tested"
    for words in [*(f"PRINTED {number}" for number in range(8)), "WRITTEN", "ECHOED"]:
        before = [shown[: found.start()] for found in re.finditer(words, shown)]
        assert before, f"not shown: {words}"
        # At the beginning of a line: after its end, or after what erases it.
        assert all(re.search(r"(?:\n|\x1b\[2K)$", text) for text in before), words
    _harmless(shown, own=True)


def test_a_line_in_a_pipe_or_a_log_is_one_line(skitter: Any, site: Any) -> None:
    _site(site, Drawings())
    skitter.write("evil.py", SPIDER.format(payload=PAYLOAD))
    crawl = ["crawl", "evil.py", "-a", f"base={site.base}", "--job", "j", "-o", "out.jsonl", "-o", "out.csv", "-vv"]
    text = skitter.run(*crawl, "--log-format", "text")
    _harmless(text.stderr)
    moments = [line for line in text.stderr.splitlines() if re.match(r"\d{4}-\d\d-\d\dT", line)]
    assert len(moments) > 5
    assert not [line for line in moments if "forged" in line and " worker.died: " in line.split("forged")[0][:60]]
    as_json = skitter.run(*crawl, "--fresh", "--log-format", "json", "--log", "log.jsonl")
    _harmless(as_json.stderr)
    log = (skitter.folder / "log.jsonl").read_text()
    _harmless(log)
    records = [json.loads(line) for line in log.split("\n") if line]
    assert len(records) > 5
    assert {record["job"] for record in records} == {"j"}
    assert "worker.died" not in {record["event"] for record in records}
    # What the page had is still in the results, whole.
    results = [json.loads(line) for line in (skitter.folder / "out.jsonl").read_text().split("\n") if line]
    assert {"\x9b31mEVIL" in record["title"] for record in results} == {True}
    for words in (["failed", "-v"], ["failed", "--json"], ["status", "-v"], ["why", site.url("/raises"), "--json"]):
        answer = skitter.run(*words, "--job", "j")
        _harmless(answer.stdout)
        _harmless(answer.stderr)


def test_names_on_the_command_line_are_no_way_in_either(skitter: Any) -> None:
    for words in (
        ["crawl", "http://h" + EVIL[2] + "/"],
        ["crawl", EVIL[2] + ".py"],
        ["status", "--job", EVIL[0] + EVIL[6]],
        ["status", "--frontier", "redis://" + EVIL[2], "--job", "j"],
        ["crawl", "http://h/", "--set", EVIL[2] + "=1"],
        [EVIL[1]],
        ["crawl", "http://h/", "-a", EVIL[3]],
    ):
        done = skitter.run(*words, code=None)
        assert done.returncode in (1, 2, 3)
        _harmless(done.stderr)
        _harmless(done.stdout)
