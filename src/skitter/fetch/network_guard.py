"""Network guard of an engine: checks the address and the port of every connection of a found link.

The rules are in ``policy.network_guard``. They are applied when a connection is used, and not when a link is found or
its name is looked up: another lookup in between may give another address.
"""

from __future__ import annotations

from skitter.policy.network_guard import refused, refused_port

_MAX_ANSWERS = 10_000


class Guard:
    """The guard of one engine, asked about every address of an untrusted request.

    It is asked twice: before a socket is opened, and before a request is sent. The second time is for
    connections that were kept alive, which nobody opens again. libcurl reuses one only for the same scheme,
    host name and port, also in HTTP/2 (it never sends a request for one name down a connection made for
    another), so a name that points inside cannot borrow a trusted host's connection. But whether two requests
    of one host key are equally trusted is known to the caller only, so the guard checks each request.
    """

    def __init__(self, *, allow_private: bool) -> None:
        self.allow_private = allow_private
        self._answers: dict[tuple[str, int], str | None] = {}
        self._outside: dict[str, None] = {}

    def objection(self, address: str, port: int) -> str | None:
        """Return why a found link may not lead there, or None."""
        endpoint = (address, port)
        try:
            return self._answers[endpoint]
        except KeyError:
            if len(self._answers) >= _MAX_ANSWERS:
                self._answers.clear()
            answer = self._answers[endpoint] = self._objection(address, port)
            return answer

    def _objection(self, address: str, port: int) -> str | None:
        reason = None if self.allow_private else refused(address)
        if reason is not None:
            return f"a {reason} address ({address})"
        return None if refused_port(port) is None else f"the port of another service ({port})"

    def objection_to_trusted(self, host: str, address: str) -> str | None:
        """Return why a connection to a host that was typed as a seed may not be opened, or None.

        It may be inside, at any port. But a name that was outside once stays there: whoever owns it would
        otherwise have a way in, by giving it another address after the first page.
        """
        if self.allow_private:
            return None
        reason = refused(address)
        if reason is None:
            self._outside.pop(host, None)
            self._outside[host] = None
            if len(self._outside) > _MAX_ANSWERS:
                del self._outside[next(iter(self._outside))]
            return None
        return f"a {reason} address ({address}), which was a public one before" if host in self._outside else None
