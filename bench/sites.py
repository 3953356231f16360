"""The sites that crawlers are compared on: a real documentation site and small synthetic pages, on this machine.

nginx serves both, one process on free ports, with its files in a temporary folder; without nginx there are only
the small pages, from the synthetic web of skitter's own tests.
"""

from __future__ import annotations

import contextlib
import getpass
import random
import resource
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from skitter.testing.web import WebSpec, served

PACKAGE = "cppreference-doc-en-html"
PACKAGE_START = "/en/index.html"
INSTALL = f"apt install nginx-light {PACKAGE}"

DOCUMENTATION, SMALL = "a documentation site", "small pages"
LINKS = 20
CHILDREN = 10
PAGE_BYTES = 7600
READY_SECONDS = 10.0

NGINX = """\
worker_processes 1; daemon off; user {user}; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on; tcp_nodelay on; keepalive_requests 1000000;
  types {{ text/html html htm; text/css css; application/javascript js; image/png png; image/svg+xml svg; }}
  default_type application/octet-stream;
  open_file_cache max={cached} inactive=600s; open_file_cache_valid 600s;
  {folders}
  {servers}
  server {{ listen 127.0.0.1:{status_port}; location / {{ stub_status; }} }}
}}
"""


@dataclass(frozen=True, kw_only=True)
class Site:
    name: str
    """One word, for files."""
    about: str
    """What it is, in a table's words."""
    start_url: str
    source: str
    """Where its pages come from, in a sentence."""
    server: str = "nginx"


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running nginx."""

    origins: list[str]
    """One for each root."""
    status_port: int
    """Its counters: of connections and requests."""
    pid: int


@contextlib.contextmanager
def sites(*, small_pages: int, folder: Path | None = None, start: str = "") -> Iterator[list[Site]]:
    """What can be served here: the documentation first, if there is any."""
    small_source = (
        f"{small_pages:,} pages of {PAGE_BYTES / 1000:.1f} KB with {LINKS} links each, made up but always the same."
    )
    if not shutil.which("nginx"):
        spec = WebSpec.plain(hosts=1, pages_per_host=small_pages, links_per_page=LINKS, page_bytes=PAGE_BYTES)
        with served(spec) as web:
            start_url, server = web.urls[0], "a server in Python"
            yield [Site(name="small", about=SMALL, start_url=start_url, source=small_source, server=server)]
        return
    found = documentation(folder, start)
    with tempfile.TemporaryDirectory(prefix="bench-sites-") as temporary:
        small = Path(temporary, "small")
        write_small_pages(small, small_pages)
        roots = [*(root for root, _, _ in found), small]
        with nginx(Path(temporary), roots) as server:
            origins = server.origins
            served_sites = [
                Site(name="documentation", about=DOCUMENTATION, start_url=origin + path, source=source)
                for (_, path, source), origin in zip(found, origins, strict=False)
            ]
            start_url = origins[-1] + path_of(0)
            yield [*served_sites, Site(name="small", about=SMALL, start_url=start_url, source=small_source)]


def documentation(folder: Path | None, start: str) -> list[tuple[Path, str, str]]:
    """Root, first page and source of the documentation: the folder that was named, or the package."""
    if folder:
        page = folder / start.lstrip("/")
        if not page.is_file():
            raise SystemExit(f"error: no such page: {page}\nhint: name the first page with --start /PATH")
        return [(folder.resolve(), "/" + start.lstrip("/"), f"The pages in {folder.name}.")]
    root = packaged_site()
    return [(root, PACKAGE_START, f"The pages of the Debian package {PACKAGE}.")] if root else []


def packaged_site() -> Path | None:
    """The folder of the documentation package, if it is installed."""
    if not shutil.which("dpkg"):
        return None
    listed = subprocess.run(["dpkg", "-L", PACKAGE], capture_output=True, text=True, check=False).stdout
    index = next((line for line in listed.splitlines() if line.endswith(PACKAGE_START)), "")
    return Path(index.removesuffix(PACKAGE_START)) if index else None


def write_small_pages(root: Path, pages: int) -> None:
    """Pages of the same size with twenty links each, the same ones every time."""
    choose = random.Random(1)
    words = " ".join(f"w{choose.randrange(10_000):04d}" for _ in range(10_000))
    for page in range(pages):
        text = html_of(page, pages, words)
        file = root / path_of(page)[1:]
        if page % 1000 == 0:
            file.parent.mkdir(parents=True)
        file.write_text(text)


def path_of(page: int) -> str:
    return f"/{page // 1000}/{page}.html"


def links_of(page: int, pages: int) -> list[int]:
    """Its children in a tree, so that every page can be reached, and after them pages from all over the site."""
    targets = dict.fromkeys(child for child in range(page * CHILDREN + 1, (page + 1) * CHILDREN + 1) if child < pages)
    place = page
    while len(targets) < min(LINKS, pages):
        # A prime step visits every page before it comes back.
        place = (place + 7919) % pages
        targets.setdefault(place)
    return list(targets)


def html_of(page: int, pages: int, words: str) -> str:
    targets = links_of(page, pages)
    begin = (page * 131) % (len(words) - PAGE_BYTES)
    share = (PAGE_BYTES - 200) // max(1, len(targets)) - 60
    items = (
        f'<div class="item"><p>{words[begin + place * share : begin + (place + 1) * share]}</p>'
        f'<a href="{path_of(target)}">Page {target}</a></div>\n'
        for place, target in enumerate(targets)
    )
    head = f'<!doctype html><html><head><meta charset="utf-8"><title>Page {page}</title></head>'
    return f"{head}<body><h1>Page {page}</h1>\n{''.join(items)}</body></html>\n"


@contextlib.contextmanager
def nginx(folder: Path, roots: list[Path]) -> Iterator[Server]:
    """Serve each root at an origin of its own until the end of the block."""
    built = subprocess.run(["nginx", "-V"], capture_output=True, text=True, check=True).stderr
    kinds = [kind for kind in ("proxy", "fastcgi", "uwsgi", "scgi") if f"--without-http_{kind}_module" not in built]
    *ports, status_port = free_ports(len(roots) + 1)
    # Each file in the cache is an open one, and nginx needs some for its connections.
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    config = NGINX.format(
        folder=folder,
        cached=200_000 if files == resource.RLIM_INFINITY else min(200_000, files // 2),
        user=getpass.getuser(),
        status_port=status_port,
        # Also what is never used must lie where this user may write.
        folders=" ".join(f"{kind}_temp_path {folder}/{kind};" for kind in kinds)
        + f" client_body_temp_path {folder}/body;",
        servers="\n  ".join(
            f'server {{ listen 127.0.0.1:{port}; root "{root}"; }}' for port, root in zip(ports, roots, strict=True)
        ),
    )
    file = folder / "nginx.conf"
    file.write_text(config)
    process = subprocess.Popen(["nginx", "-c", str(file), "-e", f"{folder}/error.log"], stderr=subprocess.DEVNULL)
    try:
        for port in ports:
            wait_for(port, process, folder / "error.log")
        origins = [f"http://127.0.0.1:{port}" for port in ports]
        yield Server(origins=origins, status_port=status_port, pid=process.pid)
    finally:
        process.terminate()
        process.wait()


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + READY_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                said = log.read_text().strip() if log.exists() else "nothing"
                raise SystemExit(f"error: nginx does not serve: {said}") from None
        time.sleep(0.02)
