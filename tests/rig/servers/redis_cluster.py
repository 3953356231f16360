"""Several redis-servers that belong together: a Redis Cluster, and a master with its replica and sentinels."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from rig.servers.own_server import START_SECONDS
from rig.servers.redis import IN_MEMORY, OwnRedis

MASTERS = 3
SENTINELS = 3
SLOTS = 16384
FAILOVER_SECONDS = 2.5
"""After this time a replica that was not promoted is asked again."""
AT_ONCE = ("--repl-diskless-sync-delay", "0")
"""A replica gets the data of its master without delay."""


class RedisCluster:
    """Three masters, each with so many replicas, which can be killed and started again."""

    def __init__(self, make: Callable[..., OwnRedis], *settings: str, replicas: int = 0) -> None:
        """``make`` starts a redis-server with settings."""
        cluster = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
        self.masters = [make(*cluster, *settings) for _ in range(MASTERS)]
        self.replicas = [make(*cluster, *settings) for _ in range(MASTERS * replicas)]
        self._make()

    @property
    def nodes(self) -> list[OwnRedis]:
        return [*self.masters, *self.replicas]

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def _make(self) -> None:
        for place, node in enumerate(self.masters):
            node.say("CLUSTER", "ADDSLOTS", *range(SLOTS * place // MASTERS, SLOTS * (place + 1) // MASTERS))
            node.say("CLUSTER", "SET-CONFIG-EPOCH", place + 1)
        for node in self.nodes:
            node.say("CLUSTER", "MEET", "127.0.0.1", self.masters[0].port)
        self.wait_until_up()
        for place, replica in enumerate(self.replicas):
            words = ("CLUSTER", "REPLICATE", self.masters[place % MASTERS].say("CLUSTER", "MYID"))
            _wait_until(partial(_agrees, replica, *words))
        for replica in self.replicas:
            _wait_until(partial(_has_its_data, replica))
        _wait_until(self._replicas_are_known)

    def wait_until_up(self) -> None:
        """Wait until every node knows of every slot who has it."""
        _wait_until(lambda: all("cluster_state:ok" in node.say("CLUSTER", "INFO") for node in self.nodes))

    def wait_for_replica(self, master: OwnRedis) -> OwnRedis:
        """Wait until the first replica of a master has everything that was written before, and return it."""
        replica = self.replicas[self.masters.index(master)]
        reached = offset_of(master, "master_repl_offset")
        _wait_until(lambda: offset_of(replica, "slave_repl_offset") >= reached)
        return replica

    def _replicas_are_known(self) -> bool:
        """To every node: a client may ask any of them."""
        return all(node.say("CLUSTER", "NODES").count("slave ") == len(self.replicas) for node in self.nodes)

    def owner_of(self, key: str) -> OwnRedis:
        """The master that has the slot of a key, as they were divided at first."""
        slot = self.masters[0].say("CLUSTER", "KEYSLOT", key)
        return next(node for place, node in enumerate(self.masters) if slot < SLOTS * (place + 1) // MASTERS)

    def fail_over_to(self, replica: OwnRedis) -> None:
        """Promote a replica as an operator does before maintenance. Masters refuse a vote soon after another one."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            replica.say("CLUSTER", "FAILOVER")
            asked_at = time.monotonic()
            while time.monotonic() - asked_at < FAILOVER_SECONDS:
                if is_master(replica):
                    return
                time.sleep(0.02)
        raise OSError("the replica is not promoted")

    def move(self, key: str, each: Callable[[int], object]) -> OwnRedis:
        """Move the slot of a key to another node, a few keys at a time; ``each`` is called between them."""
        source = self.owner_of(key)
        target = next(node for node in self.masters if node is not source)
        slot = source.say("CLUSTER", "KEYSLOT", key)
        source_id, target_id = source.say("CLUSTER", "MYID"), target.say("CLUSTER", "MYID")
        assert target.say("CLUSTER", "SETSLOT", slot, "IMPORTING", source_id) == "OK"
        assert source.say("CLUSTER", "SETSLOT", slot, "MIGRATING", target_id) == "OK"
        each(0)
        moved = 0
        while keys := source.say("CLUSTER", "GETKEYSINSLOT", slot, 3):
            assert source.say("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys) in ("OK", "NOKEY")
            moved += len(keys)
            each(moved)
        for node in (target, source, *self.nodes):
            assert node.say("CLUSTER", "SETSLOT", slot, "NODE", target_id) == "OK"
        return target


class WatchedRedis:
    """A master and its replica, which keep nothing on disk, and three sentinels that watch them."""

    def __init__(self, make: Callable[..., OwnRedis]) -> None:
        """``make`` starts a redis-server with settings."""
        self.master = make(*IN_MEMORY, *AT_ONCE)
        self.replica = make(*IN_MEMORY, *AT_ONCE, "--replicaof", "127.0.0.1", str(self.master.port))
        _wait_until(partial(_has_its_data, self.replica))
        watch = (
            f"sentinel monitor main 127.0.0.1 {self.master.port} 2\n"
            "sentinel down-after-milliseconds main 1000\nsentinel failover-timeout main 5000\n"
        )
        self.sentinels = [make("--sentinel", config=watch) for _ in range(SENTINELS)]

    def wait_for_replica(self) -> None:
        """Wait until the replica has everything that was written before."""
        reached = offset_of(self.master, "master_repl_offset")
        _wait_until(lambda: offset_of(self.replica, "slave_repl_offset") >= reached)

    def is_promoted(self) -> bool:
        """Whether the replica is a master now."""
        return is_master(self.replica)

    @property
    def url(self) -> str:
        return f"redis+sentinel://{','.join(f'127.0.0.1:{one.port}' for one in self.sentinels)}/main"


def is_master(server: OwnRedis) -> bool:
    """Whether a server says that it is a master. One that changes its role cuts its connections."""
    try:
        return bool(server.say("ROLE")[0] == "master")
    except OSError:
        return False


def offset_of(server: OwnRedis, name: str) -> int:
    """A position in the stream of replication, by its name in INFO."""
    lines = server.say("INFO", "replication").splitlines()
    return next(int(line.partition(":")[2]) for line in lines if line.startswith(f"{name}:"))


def _agrees(server: OwnRedis, *words: object) -> bool:
    return bool(server.say(*words) == "OK")


def _has_its_data(replica: OwnRedis) -> bool:
    return "master_link_status:up" in replica.say("INFO", "replication")


def _wait_until(question: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not question():
        if time.monotonic() > deadline:
            raise OSError(f"the servers do not find together within {START_SECONDS:.0f} s")
        time.sleep(0.02)
