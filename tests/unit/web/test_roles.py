"""What each role may do at a master, and that nothing answers without a credential."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from tests.unit.web.conftest import OTHER_WORKER, TOKENS, Service

from skitter.errors import FrontierError, JobError, UsageError
from skitter.frontier.contract import Frontier
from skitter.frontier.http import drop_job, list_jobs, wire
from skitter.frontier.http.wire import Role
from skitter.model.job import Command, JobSpec
from skitter.model.lease import Lease
from skitter.model.outcome import Ending, Outcome
from skitter.model.request import Fingerprinter, Request
from skitter.model.worker import WorkerHeartbeat

SPEC = JobSpec(name="job", spider="", settings={"obey_robots": False, "delay_seconds": 0})


async def begun(service: Service, pages: int = 4) -> None:
    """A job whose pages may be leased."""
    operator = service.client("operator")
    await operator.begin(SPEC)
    (lease,) = (await operator.lease("seeder", 1)).leases
    identity = Fingerprinter((await operator.job()).secret)
    links = [identity.entry(Request(f"http://a.example/{number}")) for number in range(pages)]
    assert (await operator.commit("seeder", [Outcome(lease=lease, ending=Ending.DONE, links=links)])).accepted == [True]


def done(lease: Lease) -> Outcome:
    return Outcome(lease=lease, ending=Ending.DONE)


def test_every_method_of_the_contract_is_served() -> None:
    promised = {name for name in dir(Frontier) if not name.startswith("_")}
    assert promised - {"close"} == set(wire.METHODS)


def test_every_error_of_a_frontier_crosses_the_wire_as_itself() -> None:
    error = wire.unpack_error(wire.pack_error(JobError("no such job: a", hint="begin it")))
    assert (type(error), str(error), error.hint if error else "") == (JobError, "no such job: a", "begin it")
    assert wire.unpack_error(b"<html>") is None


async def test_no_route_answers_without_a_credential(service: Service) -> None:
    routes = {route.resource.canonical for route in service.master.app.router.routes() if route.resource}
    assert len(routes) >= 5
    # The dashboard's files have no secrets; what they show comes from the API.
    public = {route for route in routes if route.startswith("/assets/")}
    public |= {"/", "/favicon.ico", "/healthz", "/readyz", "/api/v1/session"}
    paths = [route.replace("{job}", "job") for route in routes - public]
    paths += [f"/v1/jobs/job/{name}" for name in wire.METHODS]
    for path in [*paths, "/v1/nothing", "/api/v1/nothing"]:
        for token in ("", "wrong-token-0123456789"):
            status, body = await service.post(path, token=token)
            assert status == 401, path
            if path.startswith(("/v1/jobs", "/v1/audit", "/stores")):
                assert isinstance(wire.unpack_error(body), FrontierError)
            else:
                assert json.loads(body)["status"] == 401


async def test_a_call_needs_its_role(service: Service) -> None:
    for method in wire.METHODS.values():
        for role in Role:
            status, _ = await service.post(f"/v1/jobs/job/{method.name}", b"\x80", role.name.lower())
            assert (status == 403) == (role < method.role), (method.name, role)


async def test_a_viewer_reads_and_changes_nothing(service: Service) -> None:
    await begun(service)
    viewer = service.client("viewer")
    assert (await viewer.counts()).queued == 4
    for call in (viewer.lease("w", 1), viewer.command(Command.PAUSE), viewer.begin(SPEC), viewer.add([])):
        with pytest.raises(FrontierError, match="not permitted to a viewer"):
            await call
    assert (await viewer.counts()).queued == 4


async def test_a_worker_neither_commands_begins_adds_nor_drops(service: Service) -> None:
    await begun(service)
    worker = service.client("worker")
    calls: list[Any] = [worker.command(Command.STOP), worker.begin(SPEC, fresh=True), worker.add([]), worker.revive()]
    calls += [worker.check_consistency(), worker.close_sink("out", "me", forget=True)]
    url = service.master.url.replace("://", f"://:{TOKENS['worker']}@")
    calls.append(drop_job(url, "job"))
    for call in calls:
        with pytest.raises(FrontierError, match="not permitted to a worker"):
            await call
    assert (await worker.state()).state == "running"


async def test_repair_and_drop_are_for_an_admin(service: Service) -> None:
    await begun(service)
    with pytest.raises(FrontierError, match="role admin"):
        await service.client("operator").check_consistency(repair=True)
    assert (await service.client("operator").check_consistency()).total == 0
    url = service.master.url.replace("://", f"://:{TOKENS['admin']}@")
    assert await drop_job(url, "job")
    # The file of the store went with it, and is there again.
    assert await list_jobs(url) == []
    assert not await drop_job(url, "job")
    with pytest.raises(JobError):
        await service.client("admin").job()


class TestIdentity:
    async def test_a_worker_cannot_commit_what_another_credential_leased(self, service: Service) -> None:
        await begun(service)
        one, other = service.client("worker"), service.client(OTHER_WORKER)
        (lease,) = (await one.lease("w", 1)).leases
        # Under the same name as well: the name is not who it is.
        assert (await other.commit("w", [done(lease)])).accepted == [False]
        assert await other.renew("w", [lease]) == [False]
        await other.release([lease])
        await other.release_worker("w")
        assert (await one.commit("w", [done(lease)])).accepted == [True]

    async def test_it_is_still_so_at_another_master(self, service: Service, tmp_path: Any) -> None:
        from skitter.web.server import MasterServer, ServerConfig

        await begun(service)
        (lease, second) = (await service.client("worker").lease("w", 2)).leases
        config = ServerConfig(
            frontiers=(f"sqlite:{tmp_path / 'master.db'}",), port=0, token_file=str(service.token_file)
        )
        async with MasterServer(config).listening() as another, contextlib.AsyncExitStack() as stack:
            there = Service(another, stack, service.token_file)
            assert (await there.client(OTHER_WORKER).commit("w", [done(lease)])).accepted == [False]
            assert (await there.client("worker").commit("w", [done(lease)])).accepted == [True]
            assert await there.client("worker").renew("w", [lease, second]) == [False, True]

    async def test_a_worker_finds_its_own_by_their_names_and_others_by_their_credential(self, service: Service) -> None:
        await begun(service)
        one, other = service.client("worker"), service.client(OTHER_WORKER)
        await one.tell("mine", WorkerHeartbeat(pid=1))
        await other.tell("theirs", WorkerHeartbeat(pid=2))
        names = {seen.id for seen in await one.workers()}
        assert "mine" in names
        assert [name for name in names if name.startswith("theirs@")]
        assert {seen.id for seen in (await other.report()).workers} >= {"theirs"}

    async def test_the_owner_of_a_sink_is_a_credentials_too(self, service: Service) -> None:
        await begun(service)
        one, other = service.client("worker"), service.client(OTHER_WORKER)
        assert await one.open_sink("out", "node") is not None
        assert await other.open_sink("out", "node") is None
        assert await other.items("out", "node", 1) is None
        assert await one.items("out", "node", 1) == []
        assert [sink.owner for sink in await one.sinks()] == ["node"]


class TestJobs:
    async def test_a_credential_sees_the_jobs_that_are_listed_for_it(self, service: Service) -> None:
        admin = service.client("admin", "hidden")
        await admin.begin(msgspec.structs.replace(SPEC, name="hidden"))
        await service.client("admin", "shop-1").begin(msgspec.structs.replace(SPEC, name="shop-1"))
        url = service.master.url.replace("://", f"://:{OTHER_WORKER}@")
        assert await list_jobs(url) == ["shop-1"]
        assert (await service.client(OTHER_WORKER, "shop-1").state()).run == 1
        for job in ("hidden", "never-begun"):
            with pytest.raises(FrontierError, match="this credential is not for the job"):
                await service.client(OTHER_WORKER, job).state()

    async def test_a_specification_belongs_to_the_job_of_its_call(self, service: Service) -> None:
        with pytest.raises(FrontierError, match="another job"):
            await service.client("operator", "other").begin(SPEC)


async def test_a_call_that_is_sent_again_begins_one_run(service: Service) -> None:
    body = wire.encode(wire.METHODS["begin"].arguments(SPEC, fresh=True))
    answers = [
        await service.post("/v1/jobs/job/begin", body, "operator", **{wire.CALL_HEADER: "same"}) for _ in range(2)
    ]
    assert answers[0] == answers[1]
    assert (await service.client("viewer").state()).run == 1


async def test_a_client_that_asks_again_is_not_sent_the_specification_again(service: Service) -> None:
    spec = msgspec.structs.replace(SPEC, seeds=[f"http://a.example/{number}" for number in range(2000)])
    operator, viewer = service.client("operator"), service.client("viewer")
    await operator.begin(spec)
    body = wire.encode(wire.METHODS["report"].arguments())
    _, whole = await service.post("/v1/jobs/job/report", body, "viewer")
    _, short = await service.post("/v1/jobs/job/report", body, "viewer", **{wire.SPEC_HEADER: wire.spec_tag(spec)})
    assert len(short) < 2000 < len(whole)
    for _ in range(2):
        assert (await viewer.report()).job.spec == spec
    other = msgspec.structs.replace(spec, seeds=[*spec.seeds, "http://b.example/"])
    await operator.begin(other, fresh=True)
    assert (await viewer.report()).job.spec == other


async def test_a_name_that_is_none_is_refused(service: Service) -> None:
    with pytest.raises(UsageError, match="invalid job name"):
        await service.client("admin", "..%2F..").state()
