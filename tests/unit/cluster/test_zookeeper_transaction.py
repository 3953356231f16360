"""Steps as operations of a ZooKeeper transaction."""

from __future__ import annotations

from skitter.cluster.contract import Check, Delete, Put
from skitter.cluster.zookeeper.transaction import Operation, plan


def short(operations: list[Operation]) -> list[str]:
    return [f"{operation.kind} {operation.path} {operation.version}" for operation in operations]


def test_missing_parents_are_made_once() -> None:
    operations = plan([Put("a/b/c", b"1"), Put("a/b/d", b"2")], {"a"})
    assert short(operations) == ["create a/b -1", "create a/b/c -1", "create a/b/d -1"]


def test_versions_are_conditions_and_one_less_than_the_contracts() -> None:
    operations = plan([Put("a", b"", 3), Delete("b", 1), Check("c", 2), Put("d", b"", 0), Delete("e")], {"a", "d"})
    assert short(operations) == ["set a 2", "delete b 0", "check c 1", "create d -1", "delete e -1"]
    assert all(operation.is_condition for operation in operations)


def test_a_put_without_a_version_is_no_condition() -> None:
    operations = plan([Put("a", b""), Put("b", b"")], {"a"})
    assert short(operations) == ["set a -1", "create b -1"]
    assert not any(operation.is_condition for operation in operations)


def test_a_step_sees_those_before_it() -> None:
    operations = plan([Delete("a"), Put("a/b", b"")], {"a"})
    assert short(operations) == ["delete a -1", "create a -1", "create a/b -1"]


def test_an_absent_key_is_checked_by_making_and_deleting_it() -> None:
    operations = plan([Check("a/b", 0), Put("a/b/c", b"")], set())
    assert short(operations) == [
        *("create a -1", "create a/b -1", "delete a/b -1", "delete a -1"),
        *("create a -1", "create a/b -1", "create a/b/c -1"),
    ]
    assert [operation.is_condition for operation in operations] == [False, True, False, False, False, False, False]
