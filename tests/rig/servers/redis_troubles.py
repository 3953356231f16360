"""Every kind of trouble that a real redis-server can be put into, and mended from."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from rig.servers.redis import OwnRedis

Trouble = Callable[[OwnRedis], "contextlib.AbstractContextManager[None]"]
"""The server is in it inside, and mended after."""


@contextlib.contextmanager
def out_of_memory(server: OwnRedis) -> Iterator[None]:
    server.say("CONFIG", "SET", "maxmemory", "1")
    yield
    server.say("CONFIG", "SET", "maxmemory", "0")


@contextlib.contextmanager
def read_only(server: OwnRedis) -> Iterator[None]:
    # Of a master that nobody can reach: so it keeps what it has.
    server.say("REPLICAOF", "127.0.0.1", "1")
    yield
    server.say("REPLICAOF", "NO", "ONE")


@contextlib.contextmanager
def without_its_master(server: OwnRedis) -> Iterator[None]:
    server.say("CONFIG", "SET", "replica-serve-stale-data", "no")
    with read_only(server):
        yield


@contextlib.contextmanager
def unable_to_save(server: OwnRedis) -> Iterator[None]:
    server.say("CONFIG", "SET", "save", "3600 1000000")
    # In the way of the file that a snapshot becomes.
    (server.folder / "dump.rdb" / "full").mkdir(parents=True)
    saved(server, "err")
    yield
    (server.folder / "dump.rdb" / "full").rmdir()
    (server.folder / "dump.rdb").rmdir()
    saved(server, "ok")


def saved(server: OwnRedis, how: str) -> None:
    server.say("BGSAVE")
    while "rdb_bgsave_in_progress:1" in (told := server.say("INFO", "persistence")):
        pass
    assert f"rdb_last_bgsave_status:{how}" in told


@contextlib.contextmanager
def without_replicas(server: OwnRedis) -> Iterator[None]:
    server.say("CONFIG", "SET", "min-replicas-to-write", "1")
    yield
    server.say("CONFIG", "SET", "min-replicas-to-write", "0")


@contextlib.contextmanager
def busy(server: OwnRedis) -> Iterator[None]:
    server.say("CONFIG", "SET", "lua-time-limit", "1")
    running = threading.Thread(target=server.say, args=("EVAL", "while true do end", "0"))
    running.start()
    while not str(server.say("PING")).startswith("-BUSY"):
        pass
    yield
    assert server.say("SCRIPT", "KILL") == "OK"
    running.join()


@contextlib.contextmanager
def _set(server: OwnRedis, name: str, value: str, *, before: str) -> Iterator[None]:
    """A setting that only those meet who connect anew: so everybody is cut off."""
    with server.session() as say:
        say("CONFIG", "SET", name, value)
        say("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        yield
        say("CONFIG", "SET", name, before)


def full_of_clients(server: OwnRedis) -> contextlib.AbstractContextManager[None]:
    return _set(server, "maxclients", "1", before="100")


def with_another_password(server: OwnRedis) -> contextlib.AbstractContextManager[None]:
    return _set(server, "requirepass", "other", before="")


@contextlib.contextmanager
def silent(server: OwnRedis) -> Iterator[None]:
    server.freeze()
    yield
    server.thaw()


@contextlib.contextmanager
def loading(server: OwnRedis) -> Iterator[None]:
    # It answers, with a refusal, whenever it has read 2 MB more.
    server.say("CONFIG", "SET", "rdbcompression", "no")
    for number in range(300):
        server.say("SET", f"ballast:{number}", "x" * 120_000)
    server.say("BGREWRITEAOF")
    while "aof_rewrite_in_progress:1" in server.say("INFO", "persistence"):
        pass
    server.kill()
    server.start("--key-load-delay", "6000")
    yield
