"""Every class of error that a fetch can end with is on the page about them."""

from __future__ import annotations

import re
from pathlib import Path

from skitter.fetch import curl_errors
from skitter.policy import retry

ROOT = Path(__file__).resolve().parents[2]


def test_every_class_of_a_fetch_error_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE))))
    sources = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    raised = set(re.findall(r'FetchError\(\s*"(\w+)"', sources))
    ended = set(re.findall(r'ending=Ending\.(?:FAILED|EXCLUDED), error_class="(\w+)"', sources))
    known = (
        raised | ended | retry.RETRY_ERROR_CLASSES | set(curl_errors._ERROR_CLASSES.values()) | {"http_4xx", "http_5xx"}
    )
    assert known - documented == set()
