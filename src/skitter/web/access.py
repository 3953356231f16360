"""Access of requests to a master: who sends them, from where, and which pages a browser may send them from."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

from aiohttp import web

from skitter.errors import UsageError
from skitter.server_url import is_loopback
from skitter.web.credentials import EVERYBODY, Credential, TokenFile
from skitter.web.frontier_routes import RefusedError
from skitter.web.users import Session, UserFile

COOKIE = "skitter_session"
PUBLIC_PATHS = frozenset(("/", "/healthz", "/readyz", "/favicon.ico", "/api/v1/session"))
PUBLIC_PREFIX = "/assets/"
"""The dashboard's own files, which hold no data."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self';"
        " connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Strangers need not know which versions of Python and its packages answer.
    "Server": "skitter",
}
_HOST = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([\w.-]+))(?::\d+)?", re.ASCII)
_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Access:
    """Knows the credentials of a master, and the proxies that it believes."""

    def __init__(
        self,
        tokens: TokenFile | None,
        users: UserFile | None,
        trusted_proxies: Sequence[str] = (),
        *,
        tls: bool = False,
    ) -> None:
        self.users = users
        self._tokens = tokens
        self._tls = tls
        self._proxies = [_network(text) for text in trusted_proxies]

    @property
    def is_open(self) -> bool:
        """There are no credentials: everybody on this machine may do everything."""
        return self._tokens is None and self.users is None

    def credential_of(self, request: web.Request) -> Credential | None:
        """Who sends a request; None: nobody that is known. 401 for a token that nobody has."""
        if self.is_open:
            return EVERYBODY
        if (token := _bearer_token(request)) is not None:
            found = self._tokens.of_token(token) if self._tokens else None
            if found is None:
                raise not_known("the master does not know this credential")
            return found
        if (session := self.session_of(request)) is not None:
            return session[0]
        if self._tokens and request.transport and (certificate := request.transport.get_extra_info("peercert")):
            return self._tokens.of_certificate(certificate)
        return None

    def session_of(self, request: web.Request) -> tuple[Credential, Session] | None:
        """The user of a request's cookie."""
        cookie = request.cookies.get(COOKIE, "")
        return self.users.session_of(cookie) if self.users is not None and cookie else None

    def check_place(self, request: web.Request) -> None:
        """Refuse what a page of another site has a browser send here.

        Without credentials the Host header must be this machine's: a name that is rebound to it is another site's. What
        changes something must come from our own page, unless it carries a token, which no other page has.
        """
        host = request.headers.get("Host", "")
        if self.is_open and not is_loopback(_host_name(host)):
            raise RefusedError(
                421,
                "the Host header does not name this machine",
                hint="use 127.0.0.1 or localhost, or start the master with users",
            )
        # Where there are no credentials, the header proves nothing.
        has_token = _bearer_token(request) is not None and not self.is_open
        if request.method in _SAFE_METHODS or has_token:
            return
        origin, site = request.headers.get("Origin"), request.headers.get("Sec-Fetch-Site", "same-origin")
        if (origin is not None and origin.lower() != self.origin_of(request)) or site not in ("same-origin", "none"):
            raise RefusedError(
                403, "the change comes from a page of another site", hint="use the dashboard, or send a token"
            )

    def origin_of(self, request: web.Request) -> str:
        """Our own origin, as the browser that sends a request sees it."""
        host = request.headers.get("Host", "")
        if self._is_proxied(request):
            host = request.headers.get("X-Forwarded-Host", host).partition(",")[0].strip()
        return f"{'https' if self.is_secure(request) else 'http'}://{host}".lower()

    def is_secure(self, request: web.Request) -> bool:
        """Whether the browser speaks TLS, with us or with a proxy that we believe."""
        told = request.headers.get("X-Forwarded-Proto", "") if self._is_proxied(request) else ""
        return self._tls or told.partition(",")[0].strip().lower() == "https"

    def address_of(self, request: web.Request) -> str:
        """The address of the client: what a believed proxy tells, or the connection's own."""
        if self._is_proxied(request):
            # From the right: what stands before was sent by the client itself, if it likes.
            for part in reversed(request.headers.get("X-Forwarded-For", "").split(",")):
                address = part.strip()
                if address and not self._is_trusted(address):
                    return address[:64]
        return request.remote or ""

    def _is_proxied(self, request: web.Request) -> bool:
        return bool(self._proxies) and self._is_trusted(request.remote or "")

    def _is_trusted(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._proxies)


def is_public(path: str) -> bool:
    """Whether a path needs no credential."""
    return path in PUBLIC_PATHS or path.startswith(PUBLIC_PREFIX)


def not_known(message: str = "the master requires a credential") -> RefusedError:
    """The error for a request without a known credential."""
    hint = "log in, or set SKITTER_TOKEN, or name a file with the token: https://HOST:PORT?token_file=FILE"
    return RefusedError(401, message, hint=hint)


def _bearer_token(request: web.Request) -> str | None:
    """The token of a request. Other schemes are a reverse proxy's own: browsers send them along with a session."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _host_name(host: str) -> str:
    """The name in a Host header, without its port."""
    found = _HOST.fullmatch(host)
    return (found[1] or found[2]) if found else ""


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise UsageError(
            f"not an address: --trusted-proxy {text}",
            hint="give the address of the proxy itself, as in 10.0.0.7 or 10.0.0.0/24",
        ) from error
