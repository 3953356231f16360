"""Health of a container: HEALTH_URL answers 200; without one, the container's skitter is there and not stopped."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request
from pathlib import Path

SECONDS = 4.0


def answers(url: str) -> bool:
    """Whether a URL of this container answers. Its certificate has another name, and is not checked."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=context) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def runs() -> bool:
    """Whether a skitter that is no zombie and not stopped is among the processes."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            state = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            continue  # it has ended meanwhile
        if any(word.endswith(b"/bin/skitter") for word in words) and state not in "TZX":
            return True
    return False


if __name__ == "__main__":
    url = os.environ.get("HEALTH_URL", "")
    sys.exit(0 if (answers(url) if url else runs()) else 1)
