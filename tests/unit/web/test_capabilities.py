"""Which clients may bring new work to a master: a table over every route of it that changes something."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import pytest_asyncio
from tests.unit.web.conftest import HEADERS, TOKENS, Service

from skitter.errors import FrontierError, JobError
from skitter.frontier.http import wire
from skitter.frontier.http.wire import Role
from skitter.model.capability import MEANINGS
from skitter.model.job import Command, JobSpec, SinkProgress
from skitter.web.capabilities import CONTROL, UNDECIDED, capability_of_call, refusal
from skitter.web.credentials import EVERYBODY, Credential
from skitter.web.server import MasterServer, ServerConfig

JOB, SCHEDULE = "/api/v1/jobs/{job}", "/api/v1/schedules/{name}"
ROUTES = {
    "submit": ["POST /api/v1/jobs", f"POST {JOB}/runs", f"POST {JOB}/urls"],
    "settings": [f"PATCH {JOB}/settings"],
    "proxies": [f"POST {JOB}/proxies/{{proxy}}/ban"],
    "schedule": ["POST /api/v1/schedules", f"PUT {SCHEDULE}", f"DELETE {SCHEDULE}", f"POST {SCHEDULE}/run"],
    "control": [
        *("POST /api/v1/session", "DELETE /api/v1/session", f"DELETE {JOB}"),
        *(f"POST {JOB}/{word}" for word in ("pause", "resume", "stop", "fsck", "failures/retry")),
        *(f"POST {JOB}/hosts/{word}" for word in ("pause", "resume", "give-up")),
        *(f"POST {SCHEDULE}/{word}" for word in ("pause", "resume")),
        # The frontier protocol, which is POST alone: reading, waiting for work, dropping (admin), and its calls below.
        *("POST /v1/jobs", "POST /v1/audit", "POST /v1/jobs/{job}/wait_for_work", "POST /v1/jobs/{job}/drop"),
        "POST /v1/jobs/{job}/{method}",
    ],
}
"""Every route that is not GET, by the capability that it takes."""
CALLS = {
    "submit": ["begin", "add", "open_intake", "tell_intake"],
    "settings": ["change_settings", "add_cookies"],
    "proxies": ["register_proxy", "drain_proxy", "remove_proxy", "ban_proxy"],
    "control": [
        *("command", "command_host", "revive", "check_consistency", "leave_intake", "close_intake"),
        # Calls of workers. ``open_sink`` of a new target and ``close_sink`` that forgets one take ``submit``.
        *("lease", "renew", "commit", "release", "tell", "robots", "proxies", "jars", "log_in", "known_pages"),
        *("count_distinct", "release_worker", "relieve_worker", "reap"),
        *("open_sink", "items", "items_done", "close_sink", "claim_close"),
        # Calls that read.
        *("capacity", "counts", "failures", "distinct_urls", "hosts", "intakes", "job", "page_record", "peek"),
        *("report", "sinks", "sessions", "state", "trace", "workers"),
    ],
}
"""Every call of the frontier protocol, by the capability that it takes."""
SPEC = JobSpec(name="job", spider="", settings={"obey_robots": False})


@pytest_asyncio.fixture
async def masters(tmp_path: Path) -> AsyncIterator[dict[str, Service]]:
    """Masters by what they allow. ``open`` has no credentials, and allows nothing either."""
    tokens = tmp_path / "tokens"
    tokens.touch(0o600)
    tokens.write_text("".join(f"{role} {token}\n" for role, token in TOKENS.items()))
    configs = {"open": ServerConfig(port=0, frontiers=(f"sqlite:{tmp_path / 'open.db'}",))}
    for name in ("", *MEANINGS):
        store = f"sqlite:{tmp_path / 'jobs.db'}"
        allow = frozenset({name} - {""})
        configs[name] = ServerConfig(port=0, frontiers=(store,), token_file=str(tokens), allow=allow)
    async with AsyncExitStack() as stack:
        yield {
            name: Service(await stack.enter_async_context(MasterServer(config).listening()), stack, tokens)
            for name, config in configs.items()
        }


async def _asked(session: aiohttp.ClientSession, service: Service, role: str, route: str) -> tuple[int, str]:
    """The status of a request without a body that means anything, and the sentence and the hint that came."""
    method, _, path = route.partition(" ")
    path = path.format(job="nothing", name="nothing", proxy="nothing", method="counts")
    headers = {"Authorization": f"Bearer {TOKENS[role]}"} if role else {}
    is_rest = path.startswith("/api/")
    headers |= {"Content-Type": "application/json"} if is_rest else HEADERS
    body = b"[]" if is_rest else b"\x80"
    async with session.request(method, service.master.url + path, data=body, headers=headers) as answer:
        told = await answer.read()
    if answer.status != 403:
        return answer.status, ""
    if is_rest:
        problem = json.loads(told)
        return 403, f"{problem['detail']}; {problem['hint']}"
    error = wire.unpack_error(told)
    assert error is not None
    return 403, f"{error}; {error.hint}"


def test_somebody_has_decided_about_every_route_and_call(tmp_path: Path) -> None:
    """A new one that changes something is refused to all but the owner until it is in the tables."""
    master = MasterServer(ServerConfig(port=0, frontiers=(f"sqlite:{tmp_path / 'jobs.db'}",)))
    served = {
        f"{route.method} {route.resource.canonical}"
        for route in master.app.router.routes()
        if route.resource is not None and route.method not in ("GET", "HEAD", "OPTIONS")
    }
    stores = {route.replace("/stores/jobs/v1", "/v1") for route in served}
    assert stores == {route for routes in ROUTES.values() for route in routes}
    assert set(wire.METHODS) == {name for names in CALLS.values() for name in names}
    assert {name: capability_of_call(name) for name in wire.METHODS} == {
        name: word for word, names in CALLS.items() for name in names
    }


def test_what_nobody_has_decided_about_is_for_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(wire.ROLES, "new_call", Role.OPERATOR)
    assert capability_of_call("new_call") == UNDECIDED
    operator = Credential(name="one", role=Role.OPERATOR)
    assert refusal(UNDECIDED, operator, {*MEANINGS})
    assert not refusal(UNDECIDED, Credential(name="two", role=Role.ADMIN), set())
    assert not refusal(UNDECIDED, EVERYBODY, set())


async def test_new_work_is_taken_from_the_owner_until_it_is_allowed(masters: dict[str, Service]) -> None:
    """Every route and call: from nobody on loopback, admin, operator, worker and viewer; allowed or not."""
    rows = [(word, route) for word, routes in ROUTES.items() for route in routes]
    rows += [(word, f"POST /v1/jobs/nothing/{name}") for word, names in CALLS.items() for name in names]
    async with aiohttp.ClientSession() as session:
        for word, route in rows:
            assert (await _asked(session, masters["open"], "", route))[0] != 403, route
            assert (await _asked(session, masters[""], "admin", route))[0] != 403, route
            status, told = await _asked(session, masters[""], "operator", route)
            if word == CONTROL:
                assert "[remote]" not in told, (route, told)
                assert status != 403 or "takes the role admin" in told or "for all jobs" in told, (route, told)
                continue
            assert status == 403, route
            assert f'skitter.toml has [remote] allow = ["{word}"]; use a token or user of the role admin' in told, told
            assert (await _asked(session, masters[word], "operator", route))[0] != 403, route
            other = "schedule" if word == "submit" else "submit"
            assert (await _asked(session, masters[other], "operator", route))[0] == 403, route
            for role in ("worker", "viewer"):
                # An allowance gives nobody another role.
                status, told = await _asked(session, masters[word], role, route)
                assert status == 403, (role, route)
                assert f"not permitted to a {role}" in told


async def test_an_output_that_the_job_does_not_have_is_new_work(masters: dict[str, Service]) -> None:
    owner, guarded = masters[""].client("admin"), masters[""]
    await owner.begin(SPEC, sinks=["own.jsonl", "pages.warc.gz@here"])
    for role in ("operator", "worker"):
        client = guarded.client(role)
        with pytest.raises(FrontierError, match=r'may .* add URLs and outputs to them, .* allow = \["submit"\]'):
            await client.open_sink("other.jsonl", "node")
        with pytest.raises(JobError):
            await guarded.client(role, "never-begun").open_sink("own.jsonl", "node")
        # Deliveries of the job's own outputs go on, and each machine opens its own archive of pages.
        for target in ("own.jsonl", "pages.warc.gz@here", "pages.warc.gz@there"):
            assert await client.open_sink(target, "node") is not None
            assert await client.items(target, "node", 1) == []
            await client.items_done(target, "node", SinkProgress(0))
            await client.close_sink(target, "node")
    with pytest.raises(FrontierError, match=r'allow = \["submit"\]'):
        await guarded.client("operator").close_sink("own.jsonl", "node", forget=True)
    assert await masters["submit"].client("operator").open_sink("other.jsonl", "node") is not None


async def test_an_operator_controls_what_the_owner_has_begun(masters: dict[str, Service]) -> None:
    await masters[""].client("admin").begin(SPEC)
    operator = masters[""].client("operator")
    for command, state in ((Command.PAUSE, "paused"), (Command.RESUME, "running"), (Command.STOP, "stopped")):
        assert (await operator.command(command)).state == state
    await operator.command(Command.RESUME)
    assert await operator.revive() == 0
    worker = masters[""].client("worker")
    (lease,) = (await worker.lease("w", 1)).leases
    assert await worker.renew("w", [lease]) == [True]
    await worker.release([lease])
    calls: list[Any] = [operator.begin(SPEC), operator.begin(SPEC, fresh=True), operator.add([])]
    for call in calls:
        with pytest.raises(FrontierError, match=r'allow = \["submit"\]') as refused:
            await call
        assert "role admin" in refused.value.hint
    spec = (await operator.job()).spec
    assert msgspec.structs.asdict(spec) == msgspec.structs.asdict(SPEC)
