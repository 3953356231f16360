"""Failure of a request, as errbacks and hooks are given it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skitter.model.request import Request

if TYPE_CHECKING:
    from skitter.extract.response import Response


class Failure:
    """What an errback or the hook ``on_error`` is given: ``request`` failed.

    ``error_class`` is its class (docs/reference/errors.md), ``message`` says more, and ``response`` is what the server
    answered; None: it did not.
    """

    def __init__(self, request: Request, error_class: str, message: str, response: Response | None) -> None:
        self.request = request
        self.error_class = error_class
        self.message = message
        self.response = response
