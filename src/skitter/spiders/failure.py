"""Failure of a request, as passed to errbacks and hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.model.request import Request

if TYPE_CHECKING:
    from skitter.extract.response import Response


class Failure:
    """Failure of ``request``, passed to an errback and to the hook ``on_error``.

    ``error_class`` is the class of the error (docs/reference/errors.md) and ``message`` describes it. ``response`` is
    the response of the server, or None if the server did not respond.
    """

    def __init__(self, request: Request, error_class: str, message: str, response: Response | None) -> None:
        self.request = request
        self.error_class = error_class
        self.message = message
        self.response = response
