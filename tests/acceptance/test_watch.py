"""``status --watch``: redrawn on a terminal, block after block elsewhere, until the job ends."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
from typing import Any

from rig.processes import HANG_SECONDS


def read_terminal(ours: int, process: Any) -> str:
    """All that a command writes to its terminal until it ends."""
    written = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end was closed
            break
        if not piece:
            break
        written += piece
    process.wait(HANG_SECONDS)
    os.close(ours)
    return written.decode()


def test_a_job_is_watched_until_it_ends(skitter: Any, site: Any, until: Any) -> None:
    site.page("/", "".join(f"<a href='/{n}'>" for n in range(200)))
    for n in range(200):
        site.page(f"/{n}", "page")
    crawl = skitter.start("crawl", site.url(), "--job", "j", "--delay", 0.2, "-q", "-o", "out.jsonl")
    until(lambda: (skitter.folder / "out.jsonl").exists() and len(site.paths()) > 2, crawl)
    blocks = skitter.start("status", "--job", "j", "--watch", 0.2)
    lines = skitter.start("status", "--job", "j", "--watch", 0.2, "--json")
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "60", "LINES": "12"}
    on_terminal = {"stdin": theirs, "stdout": theirs, "stderr": theirs, "env": environment}
    drawn = skitter.start("status", "--job", "j", "--watch", 0.2, **on_terminal)
    interrupted = skitter.start("status", "--job", "j", "--watch", "--json")
    os.close(theirs)
    assert interrupted.stdout is not None
    assert json.loads(interrupted.stdout.readline())["state"] == "running"
    interrupted.send_signal(signal.SIGINT)
    interrupted.communicate(timeout=HANG_SECONDS)
    assert interrupted.returncode == 130
    seen = len(site.paths())
    until(lambda: len(site.paths()) > seen + 5, crawl)
    skitter.run("stop", "--job", "j")
    crawl.communicate(timeout=HANG_SECONDS)

    printed, errors = blocks.communicate(timeout=HANG_SECONDS)
    assert (blocks.returncode, errors) == (0, "")
    states = re.findall(r"^state +(.*)$", printed, re.MULTILINE)
    assert len(states) >= 3
    assert "running" in states[0]
    assert "stopped by command" in states[-1]
    assert "\x1b" not in printed
    printed, _ = lines.communicate(timeout=HANG_SECONDS)
    reports = [json.loads(line) for line in printed.splitlines()]
    assert [reports[0]["state"], reports[-1]["state"]] == ["running", "stopped"]
    assert reports[0]["done"] < reports[-1]["done"]

    shown = read_terminal(ours, drawn)
    assert drawn.returncode == 0
    # 11 lines each, of 59 columns at most: the cursor goes up by as many as were drawn.
    assert shown.count("\x1b[11A\r\x1b[J") == shown.count("job       j") - 1 >= 2
    assert all(len(line) < 60 for line in re.sub(r"\x1b\[[0-9]*[AJ]|\r", "", shown).split("\n"))
