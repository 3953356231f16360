"""A Redis Cluster whose nodes a test may kill, start again, and take slots from."""

from __future__ import annotations

import time
from collections.abc import Callable

from own_redis import OwnRedis
from skitter.frontier.redis.jobs import SLOTS, prefix_of


class RedisCluster:
    """Three masters without replicas, which can be killed and started again."""

    def __init__(self, own_redis: Callable[..., OwnRedis], *settings: str) -> None:
        cluster = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000")
        self.nodes = [own_redis(*settings, *cluster) for _ in range(3)]
        for place, node in enumerate(self.nodes):
            node.say("CLUSTER", "ADDSLOTS", *range(SLOTS * place // 3, SLOTS * (place + 1) // 3))
            node.say("CLUSTER", "MEET", "127.0.0.1", self.nodes[0].port)
        self.wait_until_up()

    @property
    def url(self) -> str:
        return "redis+cluster://" + ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)

    def wait_until_up(self) -> None:
        deadline = time.monotonic() + 30
        while not all("cluster_state:ok" in node.say("CLUSTER", "INFO") for node in self.nodes):
            assert time.monotonic() < deadline

    def owner_of(self, job: str) -> OwnRedis:
        """The node that has the lead of a job: the shard that decides for all."""
        slot = self.nodes[0].say("CLUSTER", "KEYSLOT", prefix_of(job) + "job")
        return next(node for place, node in enumerate(self.nodes) if slot < SLOTS * (place + 1) // 3)

    def move(self, job: str, each: Callable[[int], object]) -> OwnRedis:
        """Move the slot of a job's lead to another node, a few keys at a time; ``each`` is called between them."""
        source = self.owner_of(job)
        target = next(node for node in self.nodes if node is not source)
        slot = source.say("CLUSTER", "KEYSLOT", prefix_of(job) + "job")
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
