"""Sources of proxies: lists in settings, files, URLs, commands and entry points, each read to a list of proxy URLs."""

from __future__ import annotations

import re
import shlex
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote, urlsplit

from skitter.entry_points import PROXY_PROVIDERS, entry_point_names, find_entry_point, load_entry_point, unusable
from skitter.errors import BackendError, SettingsError, SkitterError
from skitter.model.secrets import shown_address, without_secrets

REGISTERED = "registered"
"""The source that has no list: proxies register themselves (``skitter egress``)."""
SOURCE_SECONDS = 30.0
"""For a URL or a command to answer."""
MAX_LIST_BYTES = 1_048_576
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_SCHEMES = ("http", "https", "socks4", "socks4a", "socks5", "socks5h")


def is_proxy(source: str) -> bool:
    """Whether a source is itself the URL of a proxy: such a one has no path."""
    parts = urlsplit(source)
    return parts.scheme in _SCHEMES and not (parts.path.strip("/") or parts.query)


def shown_source(source: str) -> str:
    """A source for messages: without passwords, and of a command without its arguments."""
    if source.startswith("command:"):
        return source.split(maxsplit=1)[0]
    return shown_address(source.removeprefix("url:"), is_server=is_proxy(source))


def read_sources(sources: Sequence[str]) -> dict[str, list[str]]:
    """The proxies of each source. It blocks. BackendError for one that cannot be read or has none."""
    return {source: read_source(source) for source in sources if source != REGISTERED}


def read_source(source: str) -> list[str]:
    """The proxies of one source, each once; BackendError if it cannot be read, or has none."""
    if is_proxy(source):
        lines = [source]
    else:
        try:
            lines = _reader_of(source)()
        except SkitterError:
            raise
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            reason = without_secrets(str(getattr(error, "strerror", None) or error))
            raise BackendError(
                f"a list of proxies cannot be read: {shown_source(source)}: {reason}",
                hint="give a file, the URL of a list, or command:… that prints one proxy per line",
            ) from error
    proxies = list(dict.fromkeys(proxy for line in lines if (proxy := proxy_of_line(line))))
    if not proxies:
        raise BackendError(f"a list of proxies is empty: {shown_source(source)}", hint="give one proxy per line")
    return proxies


def _reader_of(source: str) -> Callable[[], list[str]]:
    kind, _, rest = source.partition(":")
    if kind == "command":
        return lambda: _run(rest)
    if kind == "url":
        return lambda: _download(rest)
    if kind in ("http", "https"):
        return lambda: _download(source)
    if kind == "file":
        return lambda: _read_file(Path(rest))
    if rest and (found := find_entry_point(PROXY_PROVIDERS, kind)) is not None:
        factory = load_entry_point(found)

        def call() -> list[str]:
            try:
                return [str(proxy) for proxy in factory(rest)]
            except Exception as error:
                raise unusable(found, f"it returned no list: {type(error).__name__}: {error}") from error

        return call
    if rest and kind.isalnum() and len(kind) > 1 and not Path(source).exists():
        known = ", ".join(["command", "file", "url", "http", "https", *entry_point_names(PROXY_PROVIDERS)])
        raise SettingsError(f"unknown source of proxies: {shown_source(source)}", hint=f"known kinds: {known}")
    return lambda: _read_file(Path(source))


def _read_file(path: Path) -> list[str]:
    with path.open("rb") as file:
        return _lines(file.read(MAX_LIST_BYTES + 1))


def _download(url: str) -> list[str]:
    if urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("only http and https are supported")
    try:
        with urllib.request.urlopen(url, timeout=SOURCE_SECONDS) as answer:  # noqa: S310  the scheme was checked
            return _lines(answer.read(MAX_LIST_BYTES + 1))
    except urllib.error.HTTPError as error:
        error.close()
        raise


def _run(command: str) -> list[str]:
    ended = subprocess.run(  # noqa: S603  the user's own command
        shlex.split(command), capture_output=True, timeout=SOURCE_SECONDS, check=False, stdin=subprocess.DEVNULL
    )
    if ended.returncode:
        told = ended.stderr.decode(errors="replace").strip().splitlines()
        raise ValueError(f"exit code {ended.returncode}{': ' + told[-1][:200] if told else ''}")
    return _lines(ended.stdout)


def _lines(content: bytes) -> list[str]:
    if len(content) > MAX_LIST_BYTES:
        raise ValueError(f"more than {MAX_LIST_BYTES:,} bytes")
    return content.decode(errors="replace").splitlines()


def proxy_of_line(line: str) -> str:
    """The URL of a proxy in a line of a list; empty for an empty line or a comment. SettingsError for anything else.

    Besides URLs, ``host:port`` and ``host:port:user:password`` are usual.
    """
    text = line.strip()
    if not text or text.startswith("#"):
        return ""
    if "://" not in text:
        host, _, rest = text.partition(":")
        parts = rest.split(":", 2)
        if len(parts) == 3 and parts[0].isdecimal():
            text = f"http://{quote(parts[1], safe='')}:{quote(parts[2], safe='')}@{host}:{parts[0]}"
        else:
            text = f"http://{text}"
    # Drags in the fetch engine, which a process without proxies does not need.
    from skitter.fetch.proxy import read_proxy

    proxy = read_proxy(text)
    if proxy is None or _HOST.fullmatch(proxy.host) is None:
        # A provider that is in trouble may answer with a page.
        raise SettingsError(
            f"bad value: proxy={shown_address(text, is_server=True)!r:.100}", hint="give one proxy per line"
        )
    return text
