"""Documents: what MongoDB will not take, and several servers on a ring."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter

import pymongo
import pytest

from rig.servers.databases import QUOTED, USER
from skitter.errors import BadItemsError, SinkError, SinkUnavailableError, UsageError
from skitter.sinks.databases.mongodb_sharding import document_ring

pytestmark = pytest.mark.timeout(900)


def ring_of(servers, options=""):
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in servers)
    return f"mongodb+ring://{USER}:{QUOTED}@{hosts}/items{options}#books"


def held(server):
    """The keys of a server's documents."""
    with pymongo.MongoClient(server.url) as client:
        return [document["_id"] for document in client["items"]["books"].find({}, {"_id": 1})]


def spread(servers):
    """Who holds what; a document in two places fails."""
    homes = {key: f"127.0.0.1:{server.port}" for server in servers for key in held(server)}
    assert len(homes) == sum(len(held(server)) for server in servers), "a document is in two places"
    return homes


def books(count, first=0):
    return [{"sku": f"book {number}", "n": number} for number in range(first, first + count)]


# ---- documents


@pytest.mark.parametrize("place", ["mongodb"], indirect=True)
def test_what_cannot_be_a_document_is_bad_and_the_rest_is_written(place, run):
    each = run(place.target).open()
    items = each.items({"n": 1}, {"text": "x" * (17 << 20)}, {"a.b": 1, "a\uff0eb": 2}, {"zero\0": 1}, {"n": 2})
    with pytest.raises(BadItemsError) as error:
        each.sink.write(items)
    assert list(error.value.reasons) == [2, 3, 4]
    assert "16 MB" in error.value.reasons[2]
    each.sink.write([items[0], items[4]])
    assert sorted(row["n"] for row in place.rows()) == [1, 2]


@pytest.mark.parametrize("place", ["mongodb"], indirect=True)
def test_of_several_items_of_a_key_only_the_bad_one_is_bad(place, run):
    each = run(place.with_options("key=sku")).open()
    items = each.items({"sku": "x", "n": 1}, {"sku": "x", "text": "x" * (17 << 20)}, {"sku": "x", "m": 2})
    with pytest.raises(BadItemsError) as error:
        each.sink.write(items)
    assert list(error.value.reasons) == [2]
    each.sink.write([items[0], items[2]])
    assert place.rows() == [{"_id": "x", "sku": "x", "n": 1, "m": 2}]


@pytest.mark.parametrize("place", ["mongodb"], indirect=True)
def test_dots_and_dollars_are_widened_and_an_id_of_the_item_steps_aside(place, run):
    run(place.target).open().write({"a.b": {"$c": {"d.e": 1}}, "_id": "own", "$x": 2}).finish()
    ((key, document),) = place.records().items()
    assert key.endswith("-0")
    assert document == {"a\uff0eb": {"\uff04c": {"d\uff0ee": 1}}, "_id_": "own", "\uff04x": 2}


@pytest.mark.parametrize("place", ["mongodb"], indirect=True)
def test_what_others_have_put_into_a_document_stays(place, run):
    each = run(place.with_options("key=sku")).open().write({"sku": "x", "n": 1})
    with pymongo.MongoClient(place.url) as client:
        place.collection(client).update_one({"_id": "x"}, {"$set": {"reviewed": True}})
    each.write({"sku": "x", "n": 2}).finish()
    assert place.rows() == [{"_id": "x", "sku": "x", "n": 2, "reviewed": True}]


# ---- a ring


def test_documents_are_spread_over_the_servers_by_their_keys(own_mongodb, run):
    servers = [own_mongodb() for _ in range(3)]
    run(ring_of(servers, "?key=sku")).open().write(*books(300)).finish()
    homes = spread(servers)
    ring = document_ring([f"127.0.0.1:{server.port}" for server in servers])
    assert homes == {f"book {n}": ring.home(f"book {n}") for n in range(300)}
    assert all(50 < count < 150 for count in Counter(homes.values()).values())


def test_the_order_in_which_servers_are_named_does_not_matter(own_mongodb, run):
    servers = [own_mongodb() for _ in range(2)]
    each = run(ring_of(servers, "?key=sku")).open().write(*books(50)).finish()
    turned = run(ring_of(servers[::-1], "?key=sku"))
    assert turned.sink.target == each.sink.target
    turned.open().write(*books(50)).finish()
    assert len(spread(servers)) == 50


def test_a_server_that_joins_gets_its_share_and_nothing_else_moves(own_mongodb, run):
    servers = [own_mongodb() for _ in range(2)]
    each = run(ring_of(servers, "?key=sku")).open().write(*books(400))
    before = spread(servers)
    servers.append(own_mongodb())
    new = f"127.0.0.1:{servers[-1].port}"
    # In the middle of a run: its progress is that of the ring.
    bigger = run(ring_of(servers, "?key=sku"))
    assert bigger.sink.target == each.sink.target
    each.sink.close()
    bigger.progress = each.progress
    bigger.open()
    after = spread(servers)
    moved = {key for key, home in after.items() if before[key] != home}
    assert {after[key] for key in moved} == {new}
    assert 80 < len(moved) < 190, "about a third"
    bigger.write(*books(400)).finish()
    assert spread(servers) == after, "what is written again is found where it was moved to"


def test_a_server_that_leaves_gives_its_documents_to_the_others(own_mongodb, run):
    servers = [own_mongodb() for _ in range(3)]
    run(ring_of(servers, "?key=sku")).open().write(*books(200)).finish()
    before = spread(servers)
    run(ring_of(servers[:2], "?key=sku")).open().write(*books(10)).finish()
    after = spread(servers)
    assert held(servers[2]) == []
    gone = f"127.0.0.1:{servers[2].port}"
    assert {key for key in after if after[key] != before[key]} == {key for key in before if before[key] == gone}


def test_export_and_items_read_a_whole_ring_and_each_document_once(own_mongodb, run, skitter):
    servers = [own_mongodb() for _ in range(3)]
    records = [*books(1200), {"sku": "odd", "a.b": {"$c": [1, 2.5, None, True]}, "n": 2**40, "_id": "own"}]
    run(ring_of(servers, "?key=sku")).open().write(*records).finish()
    # As a move leaves it that was killed: at home already, and with an older copy elsewhere.
    ring = document_ring([f"127.0.0.1:{server.port}" for server in servers])
    elsewhere = next(server for server in servers if f"127.0.0.1:{server.port}" != ring.home("book 7"))
    with pymongo.MongoClient(elsewhere.url) as client:
        client["items"]["books"].insert_one({"_id": "book 7", "sku": "book 7", "n": -1})
    skitter.run("export", "--from", ring_of(servers), "-O", "all.jsonl")
    assert sorted(skitter.lines("all.jsonl"), key=str) == sorted(records, key=str)
    told = skitter.json("items", "--from", ring_of(servers), "-n", 1)
    assert (told["items"], told["fields"]["sku"]["filled"]) == (1201, 1201)
    assert "mongodb+ring" in told["source"]
    assert QUOTED not in told["source"]


def test_a_server_that_left_and_cannot_be_reached_is_waited_for(own_mongodb, run):
    servers = [own_mongodb() for _ in range(2)]
    run(ring_of(servers, "?key=sku")).open().write(*books(40)).finish()
    servers[1].kill()
    options = "?key=sku&serverSelectionTimeoutMS=300"
    with pytest.raises(SinkUnavailableError, match=str(servers[1].port)):
        run(ring_of(servers[:1], options)).open()
    servers[1].start()
    run(ring_of(servers[:1], options)).open().finish()
    assert len(held(servers[0])) == 40


def test_a_new_run_that_overwrites_empties_every_server(own_mongodb, run):
    servers = [own_mongodb() for _ in range(3)]
    run(ring_of(servers, "?key=sku")).open().write(*books(60)).finish()
    run(ring_of(servers[:2], "?key=sku"), overwrite=True).open().write(*books(5)).finish()
    assert len(spread(servers)) == 5


def test_a_ring_without_its_servers_is_a_usage_error(run):
    with pytest.raises(UsageError, match="servers of the ring"):
        run("mongodb+ring:///items#books")


def test_an_error_names_the_server_of_the_ring(own_mongodb, run):
    servers = [own_mongodb() for _ in range(2)]
    each = run(ring_of(servers, "?key=sku&serverSelectionTimeoutMS=300")).open().write(*books(20))
    servers[1].kill()
    with pytest.raises(SinkUnavailableError, match=f"at 127.0.0.1:{servers[1].port}"):
        each.write(*books(20))
    servers[1].start()
    each.write(*books(20)).finish()
    assert len(spread(servers)) == 20
    wrong = ring_of(servers).replace(QUOTED, "hush")
    with pytest.raises(SinkError) as error:
        run(wrong).open()
    assert "hush" not in f"{error.value}{error.value.hint}"


MOVER = """
    import sys
    from skitter.model.job import SinkProgress
    from skitter.sinks.databases import mongodb_sharding
    from skitter.sinks.targets import parse_target, sink_of

    mongodb_sharding._MOVED_AT_ONCE = 5
    sink = sink_of(parse_target(sys.argv[1], job="books"))
    sink.take()
    print("moving", flush=True)
    sink.open(SinkProgress())
    print("moved", flush=True)
"""


@pytest.mark.parametrize("kills", [2, pytest.param(30, marks=pytest.mark.soak)])
def test_a_move_that_is_killed_goes_on_and_ends_with_everything_once(own_mongodb, run, kills):
    chance = random.Random(kills)
    servers = [own_mongodb() for _ in range(2)]
    run(ring_of(servers, "?key=sku")).open().write(*books(600)).finish()
    servers.append(own_mongodb())
    finished = False
    for _ in range(kills):
        mover = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(MOVER), ring_of(servers, "?key=sku")],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert mover.stdout
        assert mover.stdout.readline() == "moving\n"
        try:
            mover.wait(chance.random() * 0.4)  # the instant of the fault
            finished = True
        except subprocess.TimeoutExpired:
            os.kill(mover.pid, signal.SIGKILL)
            mover.wait()
        mover.stdout.close()
        if finished:
            break
        everywhere = {key for server in servers for key in held(server)}
        assert len(everywhere) == 600, "nothing is lost on the way"
    run(ring_of(servers, "?key=sku")).open().finish()
    homes = spread(servers)
    ring = document_ring([f"127.0.0.1:{server.port}" for server in servers])
    assert homes == {f"book {n}": ring.home(f"book {n}") for n in range(600)}
