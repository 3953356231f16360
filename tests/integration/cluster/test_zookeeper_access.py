"""Who may use a ZooKeeper: digest credentials and ACLs, TLS with host names, root nodes."""

from __future__ import annotations

from contextlib import contextmanager
from uuid import uuid4

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from certificates import Authority
from rig.servers.coordinators import OwnZookeeper
from rig.services import OwnServers
from skitter.cluster import connect
from skitter.errors import ClusterError, ClusterUnavailableError

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def place(services):
    """HOST:PORT/PATH of an empty root node."""
    return f"{services.need('zookeeper')['url'].removeprefix('zookeeper://')}/{uuid4().hex}/b"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def secured(services, authority):
    with OwnServers(services) as servers:
        # Its certificate has its address, and not the name localhost.
        yield servers(OwnZookeeper, authority.issue("server", names="IP:127.0.0.1"))


@contextmanager
def closed(place):
    """Let nobody read, or make children of, a node for a while."""
    address, _, path = place.partition("/")
    client = KazooClient(address)
    client.start()
    try:
        client.set_acls(path, [make_acl("world", "anyone", admin=True)])
        yield
    finally:
        client.stop()
        client.close()


async def uses(url):
    """Everything that a cluster does."""
    async with connect(url, session_seconds=2) as cluster:
        await cluster.put("key/below", b"value")
        async with cluster.lock("lock"), await cluster.join("group"):
            assert await cluster.rate("limit", per_second=100).take()
        assert await cluster.delete("key", recursive=True)


async def test_a_root_node_is_made_where_it_is_missing(place):
    await uses(f"zookeeper://{place}")
    async with connect(f"zookeeper://{place}") as one, connect(f"zookeeper://{place}/below") as other:
        await one.put("key", b"one")
        assert await other.read("key") is None


async def test_nodes_are_their_creators_own(place):
    url = f"zookeeper://me:secret@{place}"
    await uses(url)
    async with connect(url) as cluster:
        await cluster.put("key", b"value")
        async with connect(url) as again:
            assert (await again.read("key")).value == b"value"
    for other in (f"zookeeper://{place}", f"zookeeper://me:wrong@{place}"):
        with pytest.raises(ClusterError, match="NoAuth") as refused:
            await uses(other)
        assert "credentials" in refused.value.hint
        assert "secret" not in str(refused.value)


async def test_a_root_may_lie_below_a_node_that_is_closed(place):
    async with connect(f"zookeeper://owner:secret@{place}?acl=open"):
        pass
    with closed(place.removesuffix("/b")):
        await uses(f"zookeeper://{place}")


@pytest.mark.parametrize(("acl", "may_write"), [("readable", False), ("open", True)])
async def test_an_acl_lets_others_read_or_write(place, acl, may_write):
    async with connect(f"zookeeper://me:secret@{place}?acl={acl}") as cluster, connect(f"zookeeper://{place}") as other:
        await cluster.put("key", b"value")
        assert (await other.read("key")).value == b"value"
        if may_write:
            await other.put("key", b"other")
        else:
            with pytest.raises(ClusterError, match="NoAuth"):
                await other.put("key", b"other")
            with pytest.raises(ClusterError, match="NoAuth"):
                await other.lock("lock").acquire(timeout_seconds=5)


async def test_an_acl_for_the_creator_needs_one(place):
    with pytest.raises(ClusterError, match="InvalidACL"):
        await uses(f"zookeeper://{place}?acl=creator")


async def test_a_server_that_wants_credentials_gets_them(own_server):
    server = own_server(OwnZookeeper, needs_digest=True)
    await uses(f"zookeeper://me:secret@{server.address}")
    with pytest.raises(ClusterError) as refused:
        await uses(f"zookeeper://{server.address}")
    assert "it requires credentials" in refused.value.hint


async def test_tls_is_spoken_with_a_known_authority(secured, authority):
    await uses(f"{secured.url}/{uuid4().hex}?ca={authority.file}")


async def test_a_certificate_of_another_authority_is_refused(secured, tmp_path):
    with pytest.raises(ClusterError, match="certificate is refused"):
        await uses(f"{secured.url}?ca={Authority(tmp_path).file}")
    with pytest.raises(ClusterError, match="certificate is refused"):
        await uses(secured.url)


async def test_a_certificate_of_another_host_is_refused(secured, authority):
    with pytest.raises(ClusterError, match=r"certificate is refused.*localhost"):
        await uses(f"zookeeper+ssl://localhost:{secured.port}?ca={authority.file}")


async def test_a_server_that_wants_a_certificate_gets_it(own_server, authority):
    server = own_server(OwnZookeeper, certificate=authority.issue("mutual"), client_authority=authority.file)
    certificate, key = authority.issue("client")
    # The certificate is who the creator is.
    await uses(f"{server.url}?acl=creator&ca={authority.file}&client_cert={certificate}&client_key={key}")
    with pytest.raises(ClusterUnavailableError) as refused:
        await uses(f"{server.url}?ca={authority.file}")
    assert "client certificate" in refused.value.hint
