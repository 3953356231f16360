"""The frontier behind a master (``skitter serve``): every method of the contract is one HTTP request."""

from __future__ import annotations

from skitter.errors import ExtraMissingError

try:
    import aiohttp  # noqa: F401  everything here needs it
except ImportError as error:
    raise ExtraMissingError("a frontier of http: or https:", "http") from error

from skitter.frontier.http.frontier import drop_job, http_frontier, list_jobs

__all__ = ["drop_job", "http_frontier", "list_jobs"]
