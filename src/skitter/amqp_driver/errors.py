"""Errors of a broker: its reply code and its words, and what a user can do."""

from __future__ import annotations

import ssl
from typing import Any, TypeVar

from pika import exceptions

from skitter.errors import BackendError

E = TypeVar("E", bound=BackendError)

REFUSED = 403
NOT_FOUND = 404
PRECONDITION_FAILED = 406
_HINTS = {
    REFUSED: "check the user, the password and the permissions of the user",
    NOT_FOUND: "declare the exchange, or the queue, first",
    PRECONDITION_FAILED: "a limit of the broker forbids it, or it already exists with other properties",
    530: "check the name of the virtual host: amqp://HOST/VHOST; write / in it as %2F",
}
"""By the reply codes of AMQP. Any other end of a connection may be over soon."""
_MAY_PASS = ("is down or inaccessible", "delivery acknowledgement on channel")
"""In the words of a broker: a node of its cluster is down, or a message was not acknowledged for half an hour."""
_CERTIFICATE = "certificate verify failed: "


class BrokerError(Exception):
    """The connection or the channel is over, or could not be opened. ``code``: the broker's reply code, or 0."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.text, self.code = text, code

    @property
    def may_pass(self) -> bool:
        """Whether waiting may help."""
        if any(words in self.text for words in _MAY_PASS):
            return True
        return self.code not in _HINTS and _CERTIFICATE not in self.text


def broker_error(error: Any, password: str) -> BrokerError:
    """Return the innermost reason of a driver's error, without the password."""
    while (inner := _inner(error)) is not None:
        error = inner
    if isinstance(error, exceptions.ProbableAuthenticationError | exceptions.AuthenticationError):
        made = BrokerError("it refuses the user or the password", REFUSED)
    elif isinstance(error, exceptions.ConnectionClosed | exceptions.ChannelClosed):
        made = BrokerError(_one_line(error.reply_text, password), error.reply_code)
    elif isinstance(error, exceptions.ProbableAccessDeniedError):
        made = BrokerError("it refuses the virtual host", 530)
    elif isinstance(error, OSError) and not isinstance(error, ssl.SSLError) and error.strerror:
        made = BrokerError(error.strerror)
    else:
        made = BrokerError(_one_line(str(error) or type(error).__name__, password))
    made.__cause__ = error if isinstance(error, BaseException) else None
    return made


def explained(error: BrokerError, name: str, *, refused: type[E], unavailable: type[E]) -> E:
    """Return an error of skitter's for a broker's: ``refused`` if waiting does not help, else ``unavailable``."""
    _, found, reason = error.text.partition(_CERTIFICATE)
    if found:
        return refused(
            f"the certificate of the server is refused: {name}: {reason.partition(' (_ssl')[0]}",
            hint="?ca=FILE names the certificate authority to trust",
        )
    if not error.may_pass:
        return refused(f"the broker says: {error.text}: {name}", hint=_HINTS[error.code])
    return unavailable(
        f"the broker cannot be reached: {name}: {error.text}",
        hint="is it running? check host, port and network; nothing is lost",
    )


def _inner(error: Any) -> BaseException | None:
    """Return the error that the driver has wrapped, in one of the ways it has for that."""
    wrapped = getattr(error, "exceptions", None) or getattr(error, "exception", None) or getattr(error, "args", ())
    last = wrapped[-1] if isinstance(wrapped, tuple) and wrapped else wrapped
    return last if isinstance(last, BaseException) else None


def _one_line(text: str, password: str) -> str:
    text = " ".join(text.split())
    return text.replace(password, "…") if len(password) > 3 and password != "guest" else text  # noqa: S105
