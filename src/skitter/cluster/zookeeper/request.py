"""Requests to ZooKeeper. Each is a function that puts it into a kazoo client's queue and returns its result to come."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.serialization import Create2
from kazoo.protocol.states import WatchedEvent

Request = Callable[[KazooClient], Any]
Watch = Callable[[WatchedEvent], None]
_CONTAINER = 4


class _CreateContainer(Create2):  # type: ignore[misc]  # kazoo has no types
    """The message for which kazoo has no call."""

    type = 19


def sync(client: KazooClient) -> Any:
    """Have the server catch up with the leader."""
    return client.sync_async("/")


def exists(path: str, watch: Watch | None = None) -> Request:
    return lambda client: client.exists_async(path, watch=watch)


def get(path: str, watch: Watch | None = None) -> Request:
    return lambda client: client.get_async(path, watch=watch)


def children(path: str, watch: Watch | None = None) -> Request:
    """Ask for the names of the children, and the stat of the node."""
    return lambda client: client.get_children_async(path, watch=watch, include_data=True)


def create(path: str, value: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> Request:
    """Ask for a node; the answer is its path and its stat."""
    return lambda client: client.create_async(path, value, ephemeral=ephemeral, sequence=sequence, include_data=True)


def create_container(path: str) -> Request:
    """Ask for a node that the server deletes some time after it has lost its last child."""

    def request(client: KazooClient) -> Any:
        result = client.handler.async_result()
        client._call(_CreateContainer(path, b"", client.default_acl, _CONTAINER), result)  # noqa: SLF001
        return result

    return request


def write(path: str, value: bytes, version: int = -1) -> Request:
    return lambda client: client.set_async(path, value, version)


def delete(path: str) -> Request:
    return lambda client: client.delete_async(path)
