"""Redis streams: each item once, whatever others do to the stream, and what a Redis may answer instead."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
import redis

from certificates import Authority
from rig.servers.own_server import free_port
from rig.servers.redis import DURABLE, IN_MEMORY
from skitter.errors import BadItemsError, SinkError, SinkUnavailableError, UsageError


class Stream:
    """A stream of its own on a server that all tests share, read by a plain client."""

    def __init__(self, url):
        self.url, self.name = url, f"books-{uuid4().hex[:12]}"
        self.target = f"{url}#{self.name}"
        self.client = redis.Redis.from_url(url, decode_responses=True)

    def entries(self):
        return [(fields["key"], json.loads(fields["item"])) for _, fields in self.client.xrange(self.name)]

    def numbers(self):
        return [record["n"] for _, record in self.entries()]

    def notes(self):
        return list(self.client.scan_iter(f"{self.name}:skitter:*"))


@pytest.fixture(params=["redis", "redis-6.2"])
def stream(request, services):
    made = Stream(services.need(request.param)["url"])
    yield made
    made.client.close()


@pytest.fixture
def new_stream(services):
    made = Stream(services.need("redis")["url"])
    yield made
    made.client.close()


def test_an_entry_has_the_key_and_the_record(stream, run):
    run(stream.target).open().write({"title": "Über", "price": 12.5, "tags": ["a"], "none": None}, {"n": 2}).finish()
    assert stream.entries() == [
        ("0000000000000007-0", {"title": "Über", "price": 12.5, "tags": ["a"], "none": None}),
        ("0000000000000007-1", {"n": 2}),
    ]
    assert [name.partition("-")[2] for name, _ in stream.client.xrange(stream.name)] == ["1", "2"]


def test_a_batch_that_comes_again_is_added_once(stream, run):
    each = run(stream.target).open().write({"n": 1}).write({"n": 2}, {"n": 3}, page=8, recorded=False)
    each.open().write({"n": 2}, {"n": 3}, {"n": 4}, page=8).open().write({"n": 5}, page=9).finish()
    assert stream.numbers() == [1, 2, 3, 4, 5]


def test_a_batch_whose_answer_was_lost_comes_again_to_the_same_writer(stream, run):
    each = run(stream.target).open()
    items = each.items({"n": 1}, {"n": 2})
    each.sink.write(items)
    each.sink._batch -= 1  # as if it had raised before it knew
    each.sink.write(items)
    assert stream.numbers() == [1, 2]


def test_it_is_known_also_when_readers_have_deleted_it_and_others_have_added(stream, run):
    each = run(stream.target).open().write({"n": 1}, {"n": 2}, recorded=False)
    for name, _ in stream.client.xrange(stream.name):
        stream.client.xdel(stream.name, name)
    stream.client.xadd(stream.name, {"key": "somebody's", "item": '{"n": 0}'})
    each.open().write({"n": 1}, {"n": 2}).write({"n": 3}, page=8)
    assert stream.numbers() == [0, 3]


def test_ids_grow_whatever_the_clock_of_another_producer_says(new_stream, run):
    ahead = 4_000_000_000_000
    new_stream.client.xadd(new_stream.name, {"key": "x", "item": '{"n": 0}'}, id=f"{ahead}-99")
    run(new_stream.target).open().write({"n": 1}).write({"n": 2}, page=8).finish()
    assert new_stream.numbers() == [0, 1, 2]
    assert [int(name.partition("-")[0]) - ahead for name, _ in new_stream.client.xrange(new_stream.name)] == [0, 1, 2]


def test_several_jobs_and_runs_share_a_stream(new_stream, run):
    one, other = run(new_stream.target, job="one").open(), run(new_stream.target, job="other").open()
    one.write({"n": 1}, recorded=False)
    other.write({"n": 2}, recorded=False)
    one.open().write({"n": 1}).write({"n": 3}, page=8).finish()
    other.open().write({"n": 2}).finish()
    run(new_stream.target, job="one").open().write({"n": 4}).finish()
    assert new_stream.numbers() == [1, 2, 3, 4]


def test_two_that_write_the_same_batch_add_it_once(new_stream, run):
    first = run(new_stream.target).open()
    second = run(new_stream.target, job="books")
    items = first.items({"n": 1}, {"n": 2})
    # One that stood still while another took over: the lock of a machine does not reach that far.
    second.sink.open(first.progress)
    second.sink.write(items)
    first.sink.write(items)
    assert new_stream.numbers() == [1, 2]


def test_what_served_the_resuming_goes_when_the_run_is_complete(new_stream, run):
    each = run(new_stream.target).open().write({"n": 1})
    assert len(new_stream.notes()) == 1
    each.finish()
    assert new_stream.notes() == []
    each.open().write({"n": 2}, page=8).finish()
    assert new_stream.numbers() == [1, 2]


def test_a_new_run_empties_only_if_it_is_told_to(new_stream, run):
    run(new_stream.target).open().write({"n": 1}).finish()
    new_stream.client.xgroup_create(new_stream.name, "readers", id="0")
    each = run(new_stream.target, overwrite=True).open().write({"n": 2}, page=8)
    each.open().write({"n": 3}, page=9).finish()
    assert new_stream.numbers() == [2, 3], "a run that goes on empties nothing"
    assert [group["name"] for group in new_stream.client.xinfo_groups(new_stream.name)] == ["readers"]


def test_maxlen_keeps_about_the_last_entries(new_stream, run):
    each = run(new_stream.target.replace("#", "?maxlen=200#")).open()
    for page in range(10):
        each.write(*({"n": n} for n in range(100)), page=page)
    assert 200 <= new_stream.client.xlen(new_stream.name) <= 400


def test_large_batches_and_large_items_arrive(new_stream, run):
    texts = ["x" * 6_000_000, *("ü" * 400_000 for _ in range(15))]
    each = run(new_stream.target).open().write(*({"text": text} for text in texts), recorded=False)
    each.open().write(*({"text": text} for text in texts)).finish()
    assert [len(record["text"]) for _, record in new_stream.entries()] == [len(text) for text in texts]


def test_a_key_may_be_made_of_fields(new_stream, run):
    each = run(new_stream.target.replace("#", "?key=sku#")).open()
    items = each.items({"sku": "x", "n": 1}, {"n": 2}, {"sku": "x", "n": 3})
    with pytest.raises(BadItemsError) as bad:
        each.sink.write(items)
    assert list(bad.value.reasons) == [2]
    each.sink.write([items[0], items[2]])
    # A stream keeps what happened: both are there.
    assert new_stream.entries() == [("x", {"sku": "x", "n": 1}), ("x", {"sku": "x", "n": 3})]


def test_a_socket_file_and_sentinels_lead_there_too(services, run):
    for url in (services.need("redis")["unix"], services.need("redis-sentinel")["url"]):
        each = run(f"{url}#books-{uuid4().hex}").open().write({"n": 1}, recorded=False).open().write({"n": 1}).finish()
        assert each.progress.closed


def test_items_go_over_tls_and_a_stranger_is_refused(own_redis, run, tmp_path):
    authority, stranger = Authority(tmp_path), Authority(tmp_path, "stranger")
    (server, its_key), (client, client_key) = authority.issue("server"), authority.issue("client")
    port = free_port()
    files = ("--tls-cert-file", server, "--tls-key-file", its_key, "--tls-ca-cert-file", authority.file)
    settings = ("--tls-port", port, *files, "--tls-auth-clients", "yes", *IN_MEMORY)
    try:
        redis_server = own_redis(*map(str, settings))
    except AssertionError as error:
        if "Bad directive" in str(error):
            pytest.skip("this redis-server was built without TLS")
        raise
    own = f"client_cert={client}&client_key={client_key}"
    run(f"rediss://127.0.0.1:{port}?ca={authority.file}&{own}#books").open().write({"n": 1}).finish()
    assert redis_server.say("XLEN", "books") == 1
    with pytest.raises(SinkError, match="certificate of the server is refused") as error:
        run(f"rediss://127.0.0.1:{port}?ca={stranger.file}&{own}#books").open()
    assert not isinstance(error.value, SinkUnavailableError), "waiting would not help"


# ---- trouble


def test_a_server_that_is_not_there_is_away(run):
    with pytest.raises(SinkUnavailableError) as unavailable:
        run("redis://me:hush@127.0.0.1:1/0#books").open()
    assert "127.0.0.1:1" in str(unavailable.value)
    assert "hush" not in str(unavailable.value) + unavailable.value.hint


def test_a_server_that_comes_back_goes_on(own_redis, run):
    server = own_redis(*DURABLE)
    each = run(f"{server.url}#books").open().write({"n": 1})
    items = each.items({"n": 2}, page=8)
    server.kill()
    with pytest.raises(SinkUnavailableError):
        each.sink.write(items)
    server.start()
    while server.say("PING") != "PONG":  # it is loading its data
        pass
    each.sink.write(items)
    assert server.say("XLEN", "books") == 2


def test_a_server_that_has_lost_its_data_is_an_error_and_no_hole(own_redis, run):
    server = own_redis(*IN_MEMORY)
    each = run(f"{server.url}#books").open().write({"n": 1})
    items = each.items({"n": 2}, page=8)
    server.kill()
    server.start()
    with pytest.raises(SinkError, match="has lost") as error:
        each.sink.write(items)
    assert not isinstance(error.value, SinkUnavailableError)
    with pytest.raises(SinkError, match="has lost"):
        each.open()
    assert server.say("EXISTS", "books") == 0


def test_a_full_server_is_waited_for(own_redis, run):
    server = own_redis(*IN_MEMORY)
    each = run(f"{server.url}#books").open()
    server.say("CONFIG", "SET", "maxmemory", "1")
    with pytest.raises(SinkUnavailableError, match="out of memory"):
        each.write({"n": 1})
    server.say("CONFIG", "SET", "maxmemory", "0")
    each.write({"n": 1})
    assert server.say("XLEN", "books") == 1


def test_a_wrong_password_is_an_error_without_the_password(own_redis, run):
    server = own_redis(*IN_MEMORY, "--requirepass", "pa55")
    for written in ("", ":hush@"):
        with pytest.raises(SinkError) as error:
            run(f"redis://{written}127.0.0.1:{server.port}#books").open()
        assert not isinstance(error.value, SinkUnavailableError)
        assert "password" in error.value.hint
        assert "hush" not in f"{error.value}{error.value.hint}{error.value.__cause__}"
    run(f"redis://:pa55@127.0.0.1:{server.port}#books").open().write({"n": 1}).finish()


def test_a_key_of_another_kind_is_refused(new_stream, run):
    new_stream.client.set(new_stream.name, "text")
    with pytest.raises(SinkError, match="not a stream, but a string"):
        run(new_stream.target, overwrite=True).open()
    assert new_stream.client.get(new_stream.name) == "text"


@pytest.mark.parametrize(
    "target",
    [
        "redis://127.0.0.1",
        "redis://127.0.0.1/x#books",
        "redis://a,b#books",
        "redis+sentinel://a#books",
        "redis://127.0.0.1?maxlen=many#books",
        "redis://127.0.0.1?color=red#books",
    ],
)
def test_what_is_no_stream_is_a_usage_error(run, target):
    with pytest.raises(UsageError) as error:
        run(target)
    assert error.value.hint
