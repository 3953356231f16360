"""A failure is one plain sentence, whatever its class, and says nothing twice."""

from __future__ import annotations

import pytest

from skitter.app.failure_sentence import failure_sentence

URL = "http://a.example/page"
ROBOTS = "http://a.example/robots.txt"


@pytest.mark.parametrize(
    ("error_class", "error", "sentence"),
    [
        ("connect", "connection refused", f"{URL} could not be reached: connection refused"),
        ("connect", "the host is down: connection refused", f"{URL} could not be reached: connection refused"),
        (
            "dns",
            "the host is down: the host name cannot be resolved (Name or service not known)",
            f"{URL} could not be reached: the host name cannot be resolved (Name or service not known)",
        ),
        (
            "tls",
            "its certificate is refused (self-signed certificate)",
            f"{URL} could not be reached: its certificate is refused (self-signed certificate)",
        ),
        (
            "timeout",
            "Operation timed out after 1001 milliseconds with 0 bytes received",
            f"{URL} did not answer in time: Operation timed out after 1001 milliseconds with 0 bytes received",
        ),
        ("timeout", f"Operation timed out: {ROBOTS}", f"{ROBOTS} did not answer in time: Operation timed out"),
        ("http_5xx", f"HTTP 503: {ROBOTS}", f"{ROBOTS} answered HTTP 503"),
        ("http_4xx", "HTTP 404", f"{URL} answered HTTP 404"),
        (
            "robots",
            "robots.txt line 2: Disallow: /page (group: *)",
            f"{URL} is excluded by robots.txt line 2: Disallow: /page (group: *)",
        ),
        ("protocol", "HTTP/2 framing error", f"{URL} could not be fetched: HTTP/2 framing error"),
        # Stored by an earlier version, with the URL behind it.
        ("connect", f"the host is down: Failed to connect: {URL}", f"{URL} could not be reached: Failed to connect"),
        (
            "callback",
            "Traceback (most recent call last):\n  File …\nValueError: not a price: https://b.example/",
            f"{URL} failed in the spider's code: ValueError: not a price: https://b.example/",
        ),
        ("guard", "refused to connect to 10.0.0.1", f"{URL} could not be fetched: refused to connect to 10.0.0.1"),
    ],
)
def test_a_failure_is_one_sentence(error_class: str, error: str, sentence: str) -> None:
    assert failure_sentence(URL, error_class, error) == sentence


def test_a_failure_shows_no_secret() -> None:
    assert "hunter2" not in failure_sentence("http://me:hunter2@a.example/", "connect", "connection refused")
