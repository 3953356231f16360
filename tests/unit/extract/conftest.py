"""Responses made of a body and a Content-Type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skitter.extract.response import Response
from skitter.model.page import Page
from skitter.model.request import Request


def make_response(
    body: str | bytes,
    content_type: str | None = "text/html",
    url: str = "http://site.test/dir/page.html",
    **request_fields: Any,
) -> Response:
    raw = body.encode() if isinstance(body, str) else body
    headers = [] if content_type is None else [("content-type", content_type)]
    return Response(Page(url=url, status=200, headers=headers, body=raw), Request(url, **request_fields))


@pytest.fixture(scope="session")
def respond() -> Callable[..., Response]:
    return make_response
