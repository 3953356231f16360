"""ZooKeeper's sessions: expired, cut, stopped and killed ones, and what holders, members and watches make of it."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from uuid import uuid4

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from rig.relay import Relay
from rig.servers.coordinators import OwnZookeeper
from skitter.cluster import connect
from skitter.cluster.contract import SessionState
from skitter.errors import ClusterUnavailableError, LockLostError

# The first test may have to install the server.
pytestmark = pytest.mark.timeout(900)

WAIT_SECONDS = 60.0
HOLDER = """
import asyncio, sys
from skitter.cluster import connect
from skitter.errors import LockLostError

async def main(url):
    async with connect(url, session_seconds=2) as cluster:
        held = await cluster.lock("lock").acquire()
        print(held.token, flush=True)
        while await asyncio.to_thread(sys.stdin.readline):
            try:
                held.check()
            except LockLostError:
                print("lost", flush=True)
            else:
                print("held", flush=True)

asyncio.run(main(sys.argv[1]))
"""


@pytest.fixture
def root():
    return f"/{uuid4().hex}"


@pytest.fixture
def url(services, root):
    return services.need("zookeeper")["url"] + root


@contextlib.contextmanager
def plain_client(url, **options):
    """A client that knows nothing of skitter."""
    client = KazooClient(url.removeprefix("zookeeper://").partition("/")[0], **options)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


async def until_waiting(client, root, count):
    """Wait until the queue of the lock has so many nodes."""
    async with asyncio.timeout(WAIT_SECONDS):
        while True:
            try:
                found = len(client.get_children(f"{root}/locks/lock"))
            except NoNodeError:
                found = 0
            if found == count:
                return
            await asyncio.sleep(0.02)


async def expire(url, cluster):
    """End a session as the server does it when it has expired: from a second connection that has its id."""
    connection = cluster.coordinator._connection
    first, client_id = connection.session_id, connection._client.client_id

    def close():
        with plain_client(url, client_id=client_id):
            pass

    while connection.session_id == first:
        await asyncio.to_thread(close)
        # The server gives the session to the newest connection: the first client, back before the second one has
        # closed the session, takes it away again, and nothing is closed.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3):
                while connection.session_id == first:  # noqa: ASYNC110  polled: it is the driver's thread that changes it
                    await asyncio.sleep(0.02)


async def test_an_expired_session_is_seen_holds_are_lost_and_members_join_again(url, root):
    async with connect(url, session_seconds=60) as cluster, connect(url) as other:
        states = cluster.states()
        assert await anext(states) == SessionState.CONNECTED
        held = await cluster.lock("lock", lifetime_seconds=60).acquire()
        await cluster.join("group", "member", b"data")
        watched = cluster.watch("key")
        async with asyncio.timeout(WAIT_SECONDS):
            assert (await anext(watched)).entry is None
            first = cluster.coordinator._connection.session_id
            await expire(url, cluster)
            # No renewal is due for a quarter of a minute: it is the server that tells.
            await held.lost.wait()
            seen = [await anext(states)]
            while seen[-1] != SessionState.CONNECTED:
                seen.append(await anext(states))
            assert SessionState.LOST in seen
            with plain_client(url) as client:
                while True:
                    found = client.exists(f"{root}/members/group/member")
                    if found is not None and found.ephemeralOwner != first:
                        break
                    await asyncio.sleep(0.02)
            assert await other.members("group") == {"member": b"data"}
            await other.put("key", b"new")
            assert (await anext(watched)).entry.value == b"new"
            second = await other.lock("lock").acquire()
            assert second.token > held.token
            with pytest.raises(LockLostError):
                await held.release()
            second.check()
            await second.release()


async def test_tokens_grow_when_the_parent_of_a_lock_is_made_again(url, root):
    async with connect(url) as cluster:
        tokens, nodes = [], []
        for _ in range(3):
            async with cluster.lock("lock") as held:
                tokens.append(held.token)
                with plain_client(url) as client:
                    nodes += client.get_children(f"{root}/locks/lock")
            with plain_client(url) as client, contextlib.suppress(NoNodeError):
                client.delete(f"{root}/locks/lock")
        assert tokens == sorted(set(tokens))
        assert [node[-10:] for node in nodes] == ["0000000000"] * 3


async def test_a_queue_that_is_empty_is_removed_by_the_server(url, root):
    async with connect(url) as cluster:
        async with cluster.lock("lock"):
            pass
        with plain_client(url) as client:
            async with asyncio.timeout(WAIT_SECONDS):
                while client.exists(f"{root}/locks/lock"):  # noqa: ASYNC110  a server has no event
                    await asyncio.sleep(0.05)
        async with cluster.lock("lock"):
            pass


async def test_a_lock_is_had_in_the_order_of_arrival(url, root):
    async with connect(url) as cluster, connect(url) as other:
        order = []

        async def wait_for(number):
            async with (cluster, other)[number % 2].lock("lock"):
                order.append(number)

        async with cluster.lock("lock"):
            tasks = []
            with plain_client(url) as client:
                for number in range(8):
                    tasks.append(asyncio.create_task(wait_for(number)))
                    await until_waiting(client, root, number + 2)
        await asyncio.gather(*tasks)
    assert order == list(range(8))


async def test_waiting_leaves_no_watches_behind(url):
    async with connect(url) as cluster:
        connection, keys = cluster.coordinator._connection, cluster.coordinator.keys
        known = await keys.snapshot("key")
        for _ in range(20):
            await keys.wait_for_change("key", known, wait_seconds=0.01)
        assert connection._watches == {}
        assert sum(map(len, connection._client._data_watchers.values())) == 1


async def test_lost_answers_leave_one_holder_at_a_time_and_no_node(services, url, root):
    with Relay("127.0.0.1", services.need("zookeeper")["port"], seed=7) as network:
        bad = f"zookeeper://{network.address}{root}"
        async with connect(bad, session_seconds=20) as cluster, connect(bad, session_seconds=20) as other:
            network.cut_answers = network.cut_requests = 0.03
            inside, tokens = 0, []

            async def count(place):
                nonlocal inside
                for _ in range(8):
                    async with place.lock("lock", lifetime_seconds=20, retry_seconds=0.01) as held:
                        assert inside == 0
                        inside += 1
                        tokens.append(held.token)
                        await asyncio.sleep(0.002)
                        held.check()
                        inside -= 1

            await asyncio.gather(*(count(place) for place in (cluster, other, cluster, other)))
            assert network.cuts > 0
            network.cut_answers = network.cut_requests = 0.0
            assert len(tokens) == 32
            assert tokens == sorted(set(tokens))
            with plain_client(url) as client:
                await until_waiting(client, root, 0)


async def test_a_server_that_does_not_answer_never_blocks_the_loop(own_server, root):
    server = own_server(OwnZookeeper)
    async with connect(server.url + root, session_seconds=2) as cluster:
        server.freeze()
        try:
            # More than the socket holds by which kazoo is told of each.
            reads = asyncio.gather(*(cluster.read("key") for _ in range(2_000)), return_exceptions=True)
            turns = 0
            while not reads.done():
                await asyncio.sleep(0.02)
                turns += 1
        finally:
            server.thaw()
        assert turns > 3
        assert {type(answer) for answer in await reads} == {ClusterUnavailableError}
        async with asyncio.timeout(WAIT_SECONDS):
            while True:
                with contextlib.suppress(ClusterUnavailableError):
                    assert await cluster.read("key") is None
                    break


async def test_a_held_lock_outlives_a_restart_of_the_server(own_server, root):
    server = own_server(OwnZookeeper)
    async with connect(server.url + root, session_seconds=40) as cluster:
        async with cluster.lock("lock", lifetime_seconds=40) as held:
            await cluster.put("key", b"value")
            await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
            async with asyncio.timeout(WAIT_SECONDS):
                while True:
                    with contextlib.suppress(ClusterUnavailableError):
                        await held.extend()
                        break
                    await asyncio.sleep(0.05)
        assert (await cluster.read("key")).value == b"value"
        async with cluster.lock("lock") as second:
            assert second.token > held.token


class Nonsense:
    """A request that kazoo cannot send, in place of an answer that it cannot read."""

    type = 1

    def serialize(self):
        raise RuntimeError("on purpose")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_the_end_of_kazoos_thread_is_survived(url):
    async with connect(url, session_seconds=2) as cluster:
        client = cluster.coordinator._connection._client
        for number in range(2):
            held = await cluster.lock("lock", timeout_seconds=WAIT_SECONDS).acquire()
            client._call(Nonsense(), client.handler.async_result())
            async with asyncio.timeout(WAIT_SECONDS):
                await held.lost.wait()
            await cluster.put(f"key{number}", b"value")


class Holder:
    """A process that has the lock."""

    def __init__(self, url):
        command = [sys.executable, "-c", HOLDER, url]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.token = int(self.process.stdout.readline())

    def says(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture
def holder(url):
    holder = Holder(url)
    yield holder
    holder.process.kill()
    holder.process.communicate()


async def test_a_stopped_holder_knows_of_its_loss_before_it_goes_on(url, holder):
    async with connect(url) as cluster:
        assert await asyncio.to_thread(holder.says) == "held"
        holder.process.send_signal(signal.SIGSTOP)
        second = await cluster.lock("lock", timeout_seconds=WAIT_SECONDS).acquire()
        holder.process.send_signal(signal.SIGCONT)
        assert await asyncio.to_thread(holder.says) == "lost"
        assert second.token > holder.token
        second.check()
        await second.release()
