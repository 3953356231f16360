"""Choice of a user agent from a list, by what a page belongs to: the same worker or another chooses the same one."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from skitter.model.url import host_name

_MAX_KNOWN = 10_000


def user_agent_of(agents: Sequence[str], key: str) -> str:
    """Return the user agent of a session or a host; another list gives another."""
    return agents[int.from_bytes(blake2b(key.encode(), digest_size=8).digest()) % len(agents)]


class UserAgents:
    """The user agents of a job's pages. robots.txt is not one of them: it is asked for under the honest name."""

    def __init__(self, agents: Sequence[str]) -> None:
        self._agents = agents
        self._known: dict[str, str] = {}

    def of(self, url: str, session: str = "") -> str:
        """Return the user agent of a page: each named session has one, and without one each host name."""
        key = session or host_name(url)
        agent = self._known.get(key)
        if agent is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            agent = self._known[key] = user_agent_of(self._agents, key)
        return agent

    def headers(self, given: dict[str, str], url: str, session: str = "") -> dict[str, str]:
        """Return the headers of a request with its user agent, unless they have one."""
        if any(name.lower() == "user-agent" for name in given):
            return given
        return {"User-Agent": self.of(url, session), **given}
