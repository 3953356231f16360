"""Routes of the dashboard: the files of ``assets/``, which hold no data and need no credential, each with an ETag."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

from aiohttp import web

_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".json": "application/json",
    ".svg": "image/svg+xml",
}
PAGE = "index.html"
PREFIX = "/assets/"


class _Asset:
    """A file, ready to be sent."""

    def __init__(self, name: str, body: bytes) -> None:
        self.body = body
        self.content_type = _TYPES[name[name.rindex(".") :]]
        self.etag = hashlib.sha256(body).hexdigest()[:32]

    async def answer(self, request: web.Request) -> web.Response:
        """The file, or 304. Browsers ask each time: after an upgrade nobody has half of the old files."""
        headers = {"ETag": f'"{self.etag}"', "Cache-Control": "no-cache"}
        known = request.if_none_match or ()
        if any(tag.value in (self.etag, "*") for tag in known):
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, content_type=self.content_type, charset="utf-8", headers=headers)


def add_dashboard_routes(app: web.Application) -> None:
    """Serve the dashboard at ``/``. Each file has a route of its own, so no path leads to another file."""
    for name, body in _read(files("skitter.web").joinpath("assets"), ""):
        asset = _Asset(name, body)
        app.router.add_get("/" if name == PAGE else PREFIX + name, asset.answer)
        if name == "favicon.svg":
            app.router.add_get("/favicon.ico", asset.answer)


def _read(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read(entry, f"{prefix}{entry.name}/")
        elif any(entry.name.endswith(ending) for ending in _TYPES):
            yield prefix + entry.name, entry.read_bytes()
