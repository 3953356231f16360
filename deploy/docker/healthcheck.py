"""Health check of a container: HEALTH_URL answers 200 or, without one, a skitter process is running."""

from __future__ import annotations

import os
import ssl
import sys
import urllib.request
from pathlib import Path

SECONDS = 4.0


def answers(url: str) -> bool:
    """Return whether a URL of this container answers 200. The certificate has another name and is not verified."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=SECONDS, context=context) as answer:  # noqa: S310
            return bool(answer.status == 200)
    except OSError:
        return False


def runs() -> bool:
    """Return whether a skitter process runs that is neither a zombie nor stopped."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
            state = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        except OSError:
            continue  # the process has ended
        if any(word.endswith(b"/bin/skitter") for word in words) and state not in "TZX":
            return True
    return False


if __name__ == "__main__":
    url = os.environ.get("HEALTH_URL", "")
    sys.exit(0 if (answers(url) if url else runs()) else 1)
