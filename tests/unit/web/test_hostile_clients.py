"""Broken and hostile clients cost a master nothing that it cannot bear."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sqlite3
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from tests.unit.web.conftest import TOKENS, Service
from tests.unit.web.test_roles import begun

from rig.web import Site
from skitter.errors import FrontierError
from skitter.frontier.http import wire
from skitter.frontier.http.address import Address
from skitter.frontier.http.client import MasterClient
from skitter.frontier.rules import consistency
from skitter.model.job import JobSpec
from skitter.web import call_limits, connections, frontier_routes
from skitter.web.call_limits import BusyError, CallLimits


async def raw(service: Service, data: bytes) -> bytes:
    """All that is said to these bytes, until the master closes."""
    place = urlsplit(service.master.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 60)
    finally:
        writer.close()


def head(path: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: a", f"Authorization: Bearer {TOKENS['admin']}"]
    return "\r\n".join([*lines, f"{wire.VERSION_HEADER}: {wire.VERSION}", *headers, "", ""]).encode()


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        b"\xdf\xff\xff\xff\xff",
        b"\xdd\xff\xff\xff\xff",
        b"[" * 100_000,
        b"\x91" * 100_000,
        b"\x81\xa1x\x01",
    ],
    ids=["empty", "reserved", "huge-map", "huge-list", "text", "deep", "unknown-field"],
)
async def test_garbage_is_answered_with_400_and_changes_nothing(service: Service, body: bytes) -> None:
    await begun(service)
    for method in ("lease", "commit", "add", "begin"):
        status, answer = await service.post(f"/v1/jobs/job/{method}", body, "admin")
        assert status == 400, method
        assert len(answer) < 1000
    assert (await service.client("viewer").counts()).queued == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"worker": 7, "limit": 1},
        {"worker": "w", "limit": "many"},
        {"worker": "w", "limit": 1, "call": {"round_trip_seconds": 1e9}},
        {"worker": "w", "limit": 1, "call": {"round_trip_seconds": float("nan")}},
        {"worker": "w", "limit": 1, "call": {"round_trip_seconds": -1.0}},
    ],
)
async def test_wrong_types_and_values_are_refused(service: Service, arguments: Any) -> None:
    await begun(service)
    status, _ = await service.post("/v1/jobs/job/lease", wire.encode(arguments), "worker")
    assert status == 400


async def test_another_version_of_the_wire_format_is_refused(service: Service) -> None:
    status, body = await service.post("/v1/jobs/job/state", b"\x80", "viewer", **{wire.VERSION_HEADER: "0"})
    assert status == 426
    assert "this master uses" in str(wire.unpack_error(body))


async def test_a_body_without_a_length_or_with_too_much_of_it_is_not_read(service: Service) -> None:
    chunked = await raw(service, head("/v1/jobs/job/add", "Transfer-Encoding: chunked", "Connection: close") + b"5\r\n")
    assert b" 411 " in chunked.partition(b"\r\n")[0]
    large = await raw(service, head("/v1/jobs/job/add", f"Content-Length: {2**40}", "Connection: close"))
    assert b" 413 " in large.partition(b"\r\n")[0]


async def test_headers_that_do_not_end_are_cut_off(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FIRST_REQUEST_SECONDS", 0.2)
    assert await raw(service, b"POST /v1/jobs HTTP/1.1\r\nHost: a\r\nX: ") == b""
    assert await raw(service, b"") == b""
    answer = await raw(service, b"POST /v1/jobs HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n")
    assert b" 400 " in answer.partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/9\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\nrubbish after a good request\r\n\r\n",
    ],
    ids=["length", "version", "header", "tls", "second-request"],
)
async def test_what_is_no_http_is_refused_and_not_logged(
    service: Service, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    assert b" 400 " in await raw(service, data)
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []


@pytest.mark.parametrize(
    "lines",
    [
        ["GET /healthz HTTP/1.1"],
        ["GET /nothing HTTP/1.1"],
        ["GET /api/v1/jobs HTTP/1.1"],
        ["GET /api/v1/jobs HTTP/1.1", "Expect: something"],
        ["GET / HTTP/1.1", "no header"],
        ["GET /api/v1/events?jobs=true HTTP/1.1", f"Authorization: Bearer {TOKENS['viewer']}"],
    ],
    ids=str,
)
async def test_every_answer_is_protected_and_tells_no_versions(service: Service, lines: list[str]) -> None:
    place = urlsplit(service.master.url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    writer.write("\r\n".join([*lines, "Host: a", "", ""]).encode())
    try:
        answer = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 60)).decode()
    finally:
        writer.close()
    assert "Content-Security-Policy: default-src 'none'" in answer, answer
    assert "X-Content-Type-Options: nosniff" in answer
    assert "Server: skitter\r\n" in answer


async def test_a_client_that_reads_nothing_is_cut_off(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "TAKE_SECONDS", 0.2)
    place = urlsplit(service.master.url)
    before = connections.Connection.count
    with socket.create_connection((place.hostname, place.port)) as client:
        client.setblocking(False)
        request = b"GET /assets/texts/en.json HTTP/1.1\r\nHost: a\r\n\r\n"
        await asyncio.get_running_loop().sock_sendall(client, request * 500)
        async with asyncio.timeout(60):
            while connections.Connection.count == before:  # noqa: ASYNC110  nothing tells of it
                await asyncio.sleep(0.01)
            while connections.Connection.count > before:  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_a_connection_too_many_is_closed_and_the_others_go_on(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(service)
    viewer = service.client("viewer")
    await viewer.state()
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", connections.Connection.count)
    assert await raw(service, head("/v1/jobs", "Content-Length: 0")) == b""
    assert (await viewer.counts()).queued == 4


async def test_a_body_that_does_not_come_is_not_waited_for(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frontier_routes, "BODY_SECONDS", 0.2)
    answer = await raw(service, head("/v1/jobs/job/add", "Content-Length: 100", "Connection: close") + b"abc")
    assert b" 408 " in answer.partition(b"\r\n")[0]


async def test_a_compressed_body_stays_as_small_as_it_is(service: Service) -> None:
    status, _ = await service.post("/v1/jobs/job/state", b"\x80", "viewer", Content_Encoding="gzip")
    assert status in (200, 422), "it is read as it came"


def test_calls_are_limited_of_one_credential_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_limits, "MAX_CALLS_OF_ONE", 1)
    monkeypatch.setattr(call_limits, "MAX_BYTES", 100)
    limits = CallLimits()
    with limits.admitted("a", 60):
        with pytest.raises(BusyError), limits.admitted("a", 1):
            pass
        with pytest.raises(BusyError), limits.admitted("b", 60):
            pass
        with limits.admitted("b", 40):
            assert limits.calls == 2
    assert limits.calls == 0


async def test_a_busy_master_is_waited_for(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    await begun(service)
    viewer = service.client("viewer")
    await viewer.state()
    monkeypatch.setattr(call_limits, "MAX_CALLS", 0)
    waiting = asyncio.create_task(viewer.counts())
    done, _ = await asyncio.wait([waiting], timeout=0.3)
    assert not done
    monkeypatch.setattr(call_limits, "MAX_CALLS", 10)
    assert (await asyncio.wait_for(waiting, 60)).queued == 4


async def test_what_is_no_master_is_said_to_be_none() -> None:
    with Site({"*": (200, {}, b"hi")}) as site:
        client = MasterClient(Address(url=site.base))
        with pytest.raises(FrontierError, match="not a master"):
            await client.call("/v1/jobs", b"", 60)
        await client.close()


@pytest.mark.parametrize(
    ("role", "method", "arguments"),
    [
        ("viewer", "peek", {"after": 0, "limit": -1}),
        ("viewer", "peek", {"after": 0, "limit": 10**9}),
        ("viewer", "failures", {"limit": 2**64 - 1}),
        ("worker", "lease", {"worker": "w", "limit": 10**9}),
        ("worker", "robots", {"host_keys": [""] * 100_001}),
        ("worker", "known_pages", {"after": float("nan"), "until": 1.0, "limit": 1}),
        ("worker", "count_distinct", {"changes": b"abc"}),
    ],
)
async def test_what_no_client_asks_for_never_reaches_the_store(
    service: Service, role: str, method: str, arguments: Any
) -> None:
    await begun(service)
    status, body = await service.post(f"/v1/jobs/job/{method}", wire.encode(arguments), role)
    assert status == 400
    assert "damaged" not in str(wire.unpack_error(body))


async def test_a_worker_that_waits_cannot_leave_a_large_body_behind(service: Service) -> None:
    await begun(service)
    body = wire.encode(wire.WaitForWork("w" * 10_000, 20.0))
    assert (await service.post("/v1/jobs/job/wait_for_work", body, "worker"))[0] == 413


async def test_workers_of_one_credential_that_wait_have_a_limit() -> None:
    limits = CallLimits()
    with contextlib.ExitStack() as stack:
        for _ in range(call_limits.MAX_WAITERS_OF_ONE):
            stack.enter_context(limits.waiting("one"))
        with pytest.raises(BusyError), limits.waiting("one"):
            pass
        with limits.waiting("another"):
            pass
    with limits.waiting("one"):
        pass


async def test_jobs_are_dropped_one_by_one_with_and_without_an_id(service: Service) -> None:
    for job in ("a", "b", "c"):
        await service.client("admin", job).begin(JobSpec(name=job, spider=""))
    dropped = wire.encode(True)
    assert (await service.post("/v1/jobs/a/drop", token="admin"))[1] == dropped
    assert (await service.post("/v1/jobs/b/drop", token="admin"))[1] == dropped
    for _ in range(2):
        # The second time the same call is sent again.
        assert (await service.post("/v1/jobs/c/drop", token="admin", **{wire.CALL_HEADER: "1"}))[1] == dropped
    assert wire.read_names((await service.post("/v1/jobs", token="viewer"))[1]) == []


async def test_answers_are_kept_for_calls_that_a_store_does_not_know_again_and_for_no_others(service: Service) -> None:
    await begun(service)
    for number in range(5):
        await service.post("/v1/jobs/job/report", b"\x80", "viewer", **{wire.CALL_HEADER: str(number)})
    kept = {key[2] for key in service.master._work["master"]._answers}
    assert kept <= {"begin"}


async def test_a_call_of_minutes_holds_up_no_other_call_of_its_job(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(service)
    under_way, go_on = threading.Event(), threading.Event()
    check = consistency.check

    def slow(*arguments: Any, **options: Any) -> Any:
        under_way.set()
        assert go_on.wait(100)
        return check(*arguments, **options)

    monkeypatch.setattr(consistency, "check", slow)
    checking = asyncio.create_task(service.client("operator").check_consistency())
    await asyncio.to_thread(under_way.wait, 60)
    async with asyncio.timeout(60):
        (lease,) = (await service.client("worker").lease("w", 1)).leases
        assert await service.client("worker").renew("w", [lease]) == [True]
    assert not checking.done()
    go_on.set()
    assert not (await checking).findings


async def test_a_locked_file_does_not_hold_up_the_masters_loop(service: Service, tmp_path: Path) -> None:
    await begun(service)
    with contextlib.closing(sqlite3.connect(tmp_path / "master.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        listing = asyncio.create_task(service.post("/v1/jobs", token="viewer"))
        beginning = asyncio.create_task(service.client("admin", "another").begin(JobSpec(name="another", spider="")))
        async with asyncio.timeout(60), aiohttp.ClientSession() as session:
            for _ in range(20):
                async with session.get(service.master.url + "/healthz") as answer:
                    assert answer.status == 200
        assert not listing.done()
        other.execute("ROLLBACK")
    assert (await listing)[0] == 200
    await beginning
