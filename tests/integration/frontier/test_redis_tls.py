"""rediss:// in all its forms, on real servers with certificates of an authority of our own."""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from certificates import Authority
from rig.servers.own_server import free_port
from rig.servers.redis import OwnRedis
from skitter.errors import FrontierError, UsageError
from skitter.frontier.redis import redis_frontier
from skitter.redis_driver import connections
from skitter.testing.contract import Client

UNKNOWN = "certificate is refused: (unable to get local issuer|self-signed certificate)"
_numbers = itertools.count()


class Certificates(NamedTuple):
    ca: Path
    other_ca: Path
    server: tuple[Path, Path]
    expired: tuple[Path, Path]
    elsewhere: tuple[Path, Path]
    client: tuple[Path, Path]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not on the PATH")
    folder = tmp_path_factory.mktemp("certificates")
    authority, other = Authority(folder), Authority(folder, "other-ca")
    return Certificates(
        ca=authority.file,
        other_ca=other.file,
        server=authority.issue("server"),
        expired=authority.issue("expired", days=-1),
        elsewhere=authority.issue("elsewhere", names="DNS:redis.example"),
        client=authority.issue("client"),
    )


class TlsRedis(NamedTuple):
    server: OwnRedis
    port: int


@pytest.fixture
def tls_redis(own_redis: Callable[..., OwnRedis], certificates: Certificates) -> Callable[..., TlsRedis]:
    """A server with a port for TLS besides the one that the test commands it by."""

    def make(certificate: tuple[Path, Path], *more: str, clients: str = "no", config: str = "") -> TlsRedis:
        port = free_port()
        files = (
            "--tls-cert-file",
            certificate[0],
            "--tls-key-file",
            certificate[1],
            "--tls-ca-cert-file",
            certificates.ca,
        )
        settings = ("--tls-port", port, *files, "--tls-auth-clients", clients, "--save", "", *more)
        try:
            return TlsRedis(own_redis(*map(str, settings), config=config), port)
        except OSError as error:
            if "Bad directive" in str(error):
                pytest.skip("this redis-server was built without TLS")
            raise

    return make


@contextlib.asynccontextmanager
async def begun(url: str) -> AsyncIterator[Client]:
    job = f"job-{next(_numbers)}"
    frontier = redis_frontier(url, job)
    try:
        client = Client(frontier, job, set())
        await client.seeded("a/1", "a/2")
        yield client
    finally:
        await frontier.close()


async def refused(url: str, text: str) -> FrontierError:
    frontier = redis_frontier(url, "job")
    with pytest.raises(FrontierError, match=text) as caught:
        await frontier.counts()
    await frontier.close()
    assert (caught.value.exit_code, bool(caught.value.hint)) == (3, True)
    return caught.value


class TestCertificates:
    async def test_one_of_an_own_authority_is_believed(self, tls_redis: Any, certificates: Certificates) -> None:
        port = tls_redis(certificates.server).port
        for host in ("127.0.0.1", "localhost"):
            async with begun(f"rediss://{host}:{port}?ca={certificates.ca}") as client:
                await client.end_all(await client.lease())
                assert (await client.counts()).done == 2

    async def test_one_of_another_authority_is_refused(self, tls_redis: Any, certificates: Certificates) -> None:
        port = tls_redis(certificates.server).port
        await refused(f"rediss://127.0.0.1:{port}?ca={certificates.other_ca}", UNKNOWN)
        error = await refused(f"rediss://127.0.0.1:{port}", UNKNOWN)
        assert "?ca=FILE" in error.hint

    async def test_one_that_has_expired_is_refused(self, tls_redis: Any, certificates: Certificates) -> None:
        port = tls_redis(certificates.expired).port
        await refused(f"rediss://127.0.0.1:{port}?ca={certificates.ca}", "certificate is refused: .*expired")

    async def test_one_of_another_host_is_refused(self, tls_redis: Any, certificates: Certificates) -> None:
        port = tls_redis(certificates.elsewhere).port
        await refused(f"rediss://127.0.0.1:{port}?ca={certificates.ca}", "certificate is refused: .*mismatch")
        await refused(f"rediss://localhost:{port}?ca={certificates.ca}", "certificate is refused: .*mismatch")

    async def test_the_client_has_one_where_the_server_asks(self, tls_redis: Any, certificates: Certificates) -> None:
        port = tls_redis(certificates.server, clients="yes").port
        url = f"rediss://127.0.0.1:{port}?ca={certificates.ca}"
        error = await refused(url, "requires a client certificate|closed the connection")
        assert "?cert=FILE&key=FILE" in error.hint
        async with begun(f"{url}&cert={certificates.client[0]}&key={certificates.client[1]}") as client:
            assert (await client.counts()).queued == 2

    async def test_a_file_that_is_not_there_is_a_mistake_of_the_user(self) -> None:
        with pytest.raises(UsageError, match=r"cannot be read: \?ca=/nowhere.pem: No such file"):
            redis_frontier("rediss://127.0.0.1?ca=/nowhere.pem", "job")


class TestMixedUp:
    async def test_a_server_without_tls_is_told_apart(
        self, tls_redis: Any, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(connections, "CONNECT_SECONDS", 0.5)
        server, port = tls_redis(certificates.server)
        error = await refused(f"rediss://127.0.0.1:{server.port}", "no answer in time")
        assert "does it use TLS" in error.hint
        error = await refused(f"redis://127.0.0.1:{port}", "closed the connection")
        assert "rediss://" in error.hint


def secured_sentinel(tls_redis: Any, certificates: Certificates, master: TlsRedis, *more: str, config: str = "") -> int:
    watched = f"sentinel monitor main 127.0.0.1 {master.port} 1\n{config}"
    return tls_redis(certificates.server, "--tls-replication", "yes", *more, "--sentinel", config=watched).port


class TestSentinels:
    async def test_tls_is_spoken_with_the_sentinels_and_the_master(
        self, tls_redis: Any, certificates: Certificates
    ) -> None:
        sentinel = secured_sentinel(tls_redis, certificates, tls_redis(certificates.server))
        async with begun(f"rediss+sentinel://127.0.0.1:{sentinel}/main?ca={certificates.ca}") as client:
            assert (await client.counts()).queued == 2
        await refused(
            f"rediss+sentinel://127.0.0.1:{sentinel}/main?ca={certificates.other_ca}",
            UNKNOWN,
        )

    async def test_sentinels_have_a_password_of_their_own(
        self, own_redis: Callable[..., OwnRedis], tmp_path: Path
    ) -> None:
        master = own_redis("--save", "", "--requirepass", "masters")
        config = f"sentinel monitor main 127.0.0.1 {master.port} 1\nsentinel auth-pass main masters\n"
        sentinel = own_redis("--requirepass", "watchers", "--sentinel", config=config)
        place = f"redis+sentinel://:masters@127.0.0.1:{sentinel.port}/main"
        async with begun(f"{place}?sentinel_password=watchers") as client:
            assert (await client.counts()).queued == 2
        (tmp_path / "watchers").write_text("watchers\n")
        async with begun(f"{place}?sentinel_password_file={tmp_path / 'watchers'}") as client:
            assert (await client.counts()).queued == 2
        for wrong in ("", "?sentinel_password=secret"):
            error = await refused(place + wrong, "sentinels that refuse the password")
            assert "secret" not in str(error)

    async def test_a_master_that_is_not_known_is_named(self, services: Any) -> None:
        await refused(services.need("redis-sentinel")["url"].replace("/main", "/other"), "do not know this master")


async def test_a_cluster_is_spoken_to_with_tls(tls_redis: Any, certificates: Certificates) -> None:
    settings = ("--cluster-enabled", "yes", "--tls-cluster", "yes")
    nodes = [tls_redis(certificates.server, *settings) for _ in range(3)]
    for place, (node, _) in enumerate(nodes):
        first, last = 16384 * place // 3, 16384 * (place + 1) // 3 - 1
        node.say("CLUSTER", "ADDSLOTS", *range(first, last + 1))
        node.say("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
    deadline = time.monotonic() + 60
    while not all("cluster_state:ok" in node.say("CLUSTER", "INFO") for node, _ in nodes):
        assert time.monotonic() < deadline
    # Whichever node is named, two of three jobs are on another one.
    for _, port in nodes:
        async with begun(f"rediss+cluster://127.0.0.1:{port}?ca={certificates.ca}") as client:
            assert (await client.counts()).queued == 2


@pytest.mark.parametrize("how", ["other-authority", "expired"])
def test_the_command_line_says_so_with_exit_code_3(
    skitter: Any, tls_redis: Any, certificates: Certificates, how: str
) -> None:
    port = tls_redis(certificates.expired if how == "expired" else certificates.server).port
    ca = certificates.ca if how == "expired" else certificates.other_ca
    ended = skitter.run("crawl", "http://127.0.0.1:9/", "--frontier", f"rediss://127.0.0.1:{port}?ca={ca}", code=3)
    assert "certificate is refused" in ended.stderr
    assert "hint:" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_openssl_made_what_the_tests_need(certificates: Certificates) -> None:
    checked = subprocess.run(
        ["openssl", "verify", "-CAfile", certificates.ca, certificates.expired[0]],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "expired" in checked.stdout + checked.stderr
