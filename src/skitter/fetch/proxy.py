"""Proxy of a worker or of one request: its URL, its libcurl options and its network guard checks.

The guard looks at addresses of connections, and behind a proxy the only one is the proxy's own, which the user typed.
So what a found link says is looked at before it is sent: an address, a name that only means something inside, a port.
Where names are resolved on this side (``socks4``, ``socks5``), the engine does it itself, and hands the checked address
over. Where the proxy resolves them, only the proxy knows where they lead (docs/explanation/safety.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

import msgspec
import pycurl

from skitter.errors import SettingsError
from skitter.fetch.network_guard import Guard
from skitter.model.secrets import shown_address
from skitter.model.url import host_name, port

_DEFAULT_PORTS = {"http": 80, "https": 443, **dict.fromkeys(("socks4", "socks4a", "socks5", "socks5h"), 1080)}
_INSIDE_NAMES = ("localhost", "localdomain", "local", "internal", "intranet", "lan", "home", "corp", "private", "arpa")
_SUPPRESS_CONNECT_HEADERS = 265  # pycurl has no name for it
_SAID_OF_THE_SERVER = frozenset({19, 20, 21, 22, 24, 27})
"""Of CURLproxycode: refused, failed, host or network unreachable, too far, no such name."""


class Proxy(msgspec.Struct, frozen=True, kw_only=True):
    """Address and credentials of a proxy; no text that this returns has the credentials."""

    scheme: str
    host: str
    port: int
    user: str = ""
    password: str = ""

    @property
    def url(self) -> str:
        """Return the URL without credentials, for messages."""
        return f"{self.scheme}://{self.host}:{self.port}"

    @property
    def resolves_here(self) -> bool:
        """Return whether names are resolved locally."""
        return self.scheme in ("socks4", "socks5")

    def usable(self, addresses: Sequence[str]) -> list[str]:
        """Return the addresses of a server that it can be asked for: SOCKS 4 knows the old ones only."""
        return [address for address in addresses if self.scheme != "socks4" or ":" not in address]

    def __repr__(self) -> str:
        return f"Proxy({self.url})"

    def configure(self, curl: pycurl.Curl, *, ca_file: str | None, verify_tls: bool) -> None:
        """Set the proxy options of a handle."""
        setopt = curl.setopt
        setopt(pycurl.PROXY, self.url)
        setopt(_SUPPRESS_CONNECT_HEADERS, 1)
        if self.user or self.password:
            setopt(pycurl.PROXYUSERNAME, self.user)
            setopt(pycurl.PROXYPASSWORD, self.password)
            setopt(pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC)
        if ca_file is not None:
            setopt(pycurl.PROXY_CAINFO, ca_file)
        if not verify_tls:
            setopt(pycurl.PROXY_SSL_VERIFYPEER, 0)
            setopt(pycurl.PROXY_SSL_VERIFYHOST, 0)


def read_proxy(text: str) -> Proxy | None:
    """Return the proxy of a setting; None when it is empty. Errors do not repeat a password."""
    if not text:
        return None
    try:
        parts = urlsplit(text)
        proxy = Proxy(
            scheme=parts.scheme,
            host=f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or "",
            port=parts.port or _DEFAULT_PORTS[parts.scheme],
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
        )
        more = parts.path.strip("/") + parts.query + parts.fragment
    except (ValueError, KeyError):
        proxy, more = None, ""
    if proxy is None or not proxy.host or proxy.scheme not in _DEFAULT_PORTS or more or not text.isprintable():
        raise SettingsError(
            f"bad value: proxy={shown_address(text, is_server=True)!r}",
            hint="use http, https, socks4, socks4a, socks5 or socks5h, as in http://user:password@proxy.example:3128",
        )
    return proxy


def objection(guard: Guard, url: str) -> str | None:
    """Return why a found link may not be sent to a proxy, judged by its URL, or None."""
    name, number = host_name(url), port(url)
    bare = name.rstrip(".").lower()
    last = bare.rpartition(".")[2]
    if name.startswith("[") or last.isdigit() or last.startswith("0x"):
        return guard.objection(name.strip("[]"), number)
    if not guard.allow_private and ("." not in bare or last in _INSIDE_NAMES):
        return f"a local name ({name})"
    # Any public address will do: it is the port that is asked about.
    return guard.objection("8.8.8.8", number)


def failed_at_proxy(curl: pycurl.Curl, code: int, url: str) -> bool:
    """Return whether a transfer failed at the proxy; a server's failure that the proxy reports is the server's."""
    if code == 5:  # its name
        return True
    if code == 97:  # its handshake; SOCKS replies about the server have other codes
        return curl.getinfo(pycurl.PROXY_ERROR) not in _SAID_OF_THE_SERVER
    if not curl.getinfo(pycurl.CONNECT_TIME):
        return code in (7, pycurl.E_OPERATION_TIMEDOUT)
    if url.startswith("https:") and not curl.getinfo(pycurl.APPCONNECT_TIME):
        told = curl.getinfo(pycurl.HTTP_CONNECTCODE)
        # The handshake behind a tunnel that is there fails with other codes.
        return told not in (0, 200, 500, 502, 503, 504) or (told in (0, 200) and code in (1, 7, 8, 43, 52, 56))
    return False
