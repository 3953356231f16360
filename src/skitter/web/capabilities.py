"""Capabilities: the kinds of work that clients may bring to a master, and the decision whether a client may.

The owner of a master is whoever has the role admin, and everybody on the machine of a master without credentials. Other
clients control and work as their roles permit. They bring new work only if ``[remote] allow`` of skitter.toml names it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from skitter.frontier.http import wire
from skitter.frontier.http.wire import Role
from skitter.model.capability import MEANINGS, PROXIES, SCHEDULE, SETTINGS, SUBMIT
from skitter.web.credentials import Credential

CONTROL = "control"
"""A call or route that brings no new work: everybody who has its role may use it."""
UNDECIDED = ""
"""A call or route that changes something and is not in a table below: only the owner may use it."""
HINT = "use a token or user of the role admin, or ask the owner of the server for this setting"

_CALLS: Mapping[str, str] = {
    # An intake adds the URLs of its messages.
    **dict.fromkeys(("begin", "add", "open_intake", "tell_intake"), SUBMIT),
    **dict.fromkeys(("change_settings", "add_cookies"), SETTINGS),
    **dict.fromkeys(("register_proxy", "drain_proxy", "remove_proxy", "ban_proxy"), PROXIES),
    **dict.fromkeys(("command", "command_host", "revive", "check_consistency"), CONTROL),
    # A joined worker leaves the intakes of dead readers.
    **dict.fromkeys(("leave_intake", "close_intake"), CONTROL),
}
"""Calls of the frontier protocol that take the role operator. ``open_sink`` takes ``submit`` for a new target."""
_ROUTES: Mapping[str, str] = {
    **dict.fromkeys(("POST /session", "DELETE /session"), CONTROL),
    **dict.fromkeys(("POST /jobs", "POST /jobs/{job}/runs", "POST /jobs/{job}/urls"), SUBMIT),
    "PATCH /jobs/{job}/settings": SETTINGS,
    "POST /jobs/{job}/proxies/{proxy}/ban": PROXIES,
    **dict.fromkeys((f"POST /jobs/{{job}}/{word}" for word in ("pause", "resume", "stop")), CONTROL),
    **dict.fromkeys((f"POST /jobs/{{job}}/hosts/{word}" for word in ("pause", "resume", "give-up")), CONTROL),
    **dict.fromkeys(("POST /jobs/{job}/failures/retry", "POST /jobs/{job}/fsck", "DELETE /jobs/{job}"), CONTROL),
    **dict.fromkeys(("POST /schedules", "PUT /schedules/{name}", "DELETE /schedules/{name}"), SCHEDULE),
    "POST /schedules/{name}/run": SCHEDULE,
    **dict.fromkeys(("POST /schedules/{name}/pause", "POST /schedules/{name}/resume"), CONTROL),
}
"""Routes of the REST API that change something."""


def capability_of_call(name: str) -> str:
    """Return what a call of the frontier protocol takes; the calls of viewers and workers bring no new work."""
    return _CALLS.get(name, CONTROL if wire.ROLES[name] <= Role.WORKER else UNDECIDED)


def capability_of_route(method: str, path: str) -> str:
    """Return what a route of the REST API takes."""
    return CONTROL if method == "GET" else _ROUTES.get(f"{method} {path}", UNDECIDED)


def refusal(what: str, actor: Credential, allowed: Collection[str]) -> str:
    """Return the sentence that refuses something to a client; empty if it is allowed. Every route asks this function.

    ``what`` is a capability, ``CONTROL`` or ``UNDECIDED``; ``allowed`` are the words of ``[remote] allow``.
    """
    if what == CONTROL or actor.role >= Role.ADMIN or what in allowed:
        return ""
    if what == UNDECIDED:
        return "only the owner of this server may do this"
    return f'only the owner of this server may {MEANINGS[what]}, until its skitter.toml has [remote] allow = ["{what}"]'
