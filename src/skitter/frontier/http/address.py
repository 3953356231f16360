"""The address of a master: ``https://HOST:8601?token_file=FILE``, and the credentials to come with."""

from __future__ import annotations

import ssl
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec

from skitter import private_files
from skitter.errors import UsageError
from skitter.model.secrets import shown_frontier

DEFAULT_PORT = 8601
_FORM = (
    "https://HOST:8601, with ?token_file=FILE or SKITTER_TOKEN; ?ca=FILE&cert=FILE&key=FILE for your own certificates"
)


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A master and the credentials of a client."""

    url: str
    """Without credentials and options: what may be shown."""
    token: str = ""
    ca: str = ""
    cert: str = ""
    key: str = ""

    @property
    def tls(self) -> bool:
        return self.url.startswith("https:")

    def ssl_context(self) -> ssl.SSLContext | bool:
        """What to trust: the system's authorities or ``ca``; and the client's own certificate, if it has one."""
        if not self.tls:
            return True
        try:
            context = ssl.create_default_context(cafile=self.ca or None)
            if self.cert:
                context.load_cert_chain(self.cert, self.key or None)
        except (OSError, ssl.SSLError) as error:
            raise UsageError(
                f"the certificates cannot be used: {self.url}: {error}", hint="check ?ca=, ?cert= and ?key="
            ) from error
        return context


def parse_address(url: str) -> Address:
    """The address of a frontier's URL; UsageError if it is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or DEFAULT_PORT
        options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
    except ValueError as error:
        raise _not_an_address(url) from error
    if not host or parts.fragment:
        raise _not_an_address(url)
    shown_host = f"[{host}]" if ":" in host else host
    token = unquote(parts.password or parts.username or "")
    if "token_file" in options:
        token = read_token(Path(options.pop("token_file")))
    files = {name: options.pop(name, "") for name in ("ca", "cert", "key")}
    if options or (parts.scheme == "http" and any(files.values())):
        raise _not_an_address(url)
    return Address(url=f"{parts.scheme}://{shown_host}:{port}{parts.path.rstrip('/')}", token=token, **files)


def read_token(path: Path) -> str:
    """The token of a client's file, which holds nothing else and is its owner's alone."""
    try:
        text = private_files.read(path)
    except OSError as error:
        raise UsageError(
            f"the token cannot be read: {path}: {error.strerror or error}",
            hint="check ?token_file= and the file's owner",
        ) from error
    words = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if len(words) != 1 or len(words[0].split()) != 1:
        raise UsageError(f"the file does not have one token: {path}", hint="put the token alone in one line")
    return words[0]


def _not_an_address(url: str) -> UsageError:
    return UsageError(f"not the address of a master: {shown_frontier(url)}", hint=_FORM)
