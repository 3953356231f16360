"""The Redis driver: errors are classified once, and the frontier and the stream sink agree about them."""

from __future__ import annotations

from pathlib import Path

import pytest
from redis import exceptions

from skitter.errors import FrontierError, SinkError, SinkUnavailableError, UsageError
from skitter.frontier.redis.errors import explain
from skitter.redis_driver.address import Address
from skitter.redis_driver.errors import TROUBLES, CheckFailedError, Remedy, reply_code
from skitter.sinks.streams.redis_stream import RedisSink
from skitter.sinks.targets import parse_target

IN_A_SCRIPT = " script: 0123, on @user_script:1."
REPLIES = [
    (exceptions.OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), "OOM"),
    (exceptions.ResponseError("-OOM command not allowed" + IN_A_SCRIPT), "OOM"),
    (exceptions.ResponseError("MISCONF Redis is configured to save RDB snapshots"), "MISCONF"),
    (exceptions.BusyLoadingError("Redis is loading the dataset in memory"), "LOADING"),
    (exceptions.ReadOnlyError("You can't write against a read only replica."), "READONLY"),
    (exceptions.ResponseError("NOREPLICAS Not enough good replicas to write."), "NOREPLICAS"),
    (exceptions.ResponseError("BUSY Redis is busy running a script."), "BUSY"),
    (exceptions.ClusterDownError("CLUSTERDOWN The cluster is down"), "CLUSTERDOWN"),
    (
        exceptions.ResponseError("Script attempted to access a non local key in a cluster" + IN_A_SCRIPT),
        "TRYAGAIN",
    ),
    (exceptions.AuthenticationError("Authentication required."), "NOAUTH"),
    (exceptions.AuthenticationError("invalid username-password pair or user is disabled."), "WRONGPASS"),
    (exceptions.AuthenticationError("AUTH called without any password configured"), "WRONGPASS"),
    (exceptions.NoPermissionError("this user has no permissions to run 'eval'"), "NOPERM"),
    (exceptions.ResponseError("ACL failure in script: can't run this command"), "NOPERM"),
    (exceptions.ResponseError("CROSSSLOT Keys in request don't hash to the same slot"), "CROSSSLOT"),
    (exceptions.ConnectionError("max number of clients reached"), "MAXCLIENTS"),
    (CheckFailedError("TOOOLD", "5.0.14"), "TOOOLD"),
    (exceptions.ResponseError("WRONGTYPE Operation against a key"), "WRONGTYPE"),
    (exceptions.ResponseError("ODD something else"), "ODD"),
    (exceptions.ConnectionError("Connection refused"), ""),
]
each_reply = pytest.mark.parametrize(("error", "code"), REPLIES)


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sink_of(text: str) -> RedisSink:
    return RedisSink(parse_target(text))


@each_reply
def test_an_error_reply_has_one_code(error: Exception, code: str) -> None:
    assert reply_code(error) == code


@each_reply
def test_both_wait_for_what_waiting_helps_and_the_frontier_also_for_credentials(error: Exception, code: str) -> None:
    remedy = TROUBLES[code].remedy if code in TROUBLES else Remedy.CHANGE if code else Remedy.WAIT
    failure = explain(error, Address(hosts=(("h", 6379),)))
    assert isinstance(failure.error, FrontierError)
    assert failure.passes == (remedy is not Remedy.CHANGE)
    refused = sink_of("redis://h#s")._explain(error)
    assert isinstance(refused, SinkError)
    assert isinstance(refused, SinkUnavailableError) == (remedy is Remedy.WAIT)
    assert failure.error.hint
    assert refused.hint


def test_no_hint_of_the_sink_names_what_only_the_frontier_accepts() -> None:
    for code in TROUBLES:
        refused = sink_of("redis://h#s")._explain(CheckFailedError(code))
        assert "redis+cluster" not in refused.hint
        assert "docs/" not in refused.hint


@pytest.mark.parametrize("error", [exceptions.ConnectionError("hush is wrong"), exceptions.ResponseError("ODD hush")])
def test_what_the_sink_says_has_no_password(error: Exception) -> None:
    refused = sink_of("redis://me:hush@h#s")._explain(error)
    assert "hush" not in f"{refused}{refused.hint}"


@pytest.mark.parametrize(
    ("target", "options"),
    [
        ("redis://h#s", {"host": "h", "port": 6379, "db": 0}),
        ("redis://u:p%40@[::1]:7/3#s", {"host": "::1", "port": 7, "db": 3, "username": "u", "password": "p@"}),
        ("redis://h/%32#s", {"db": 2}),
        ("redis://h?db=5#s", {"db": 0}),
        ("unix:///run/x.sock?db=2#s", {"path": "/run/x.sock", "db": 2}),
        ("unix://:p@/run/x.sock#s", {"path": "/run/x.sock", "db": 0, "password": "p"}),
        (
            "rediss://h?ca=/a&client_cert=/b&client_key=/c#s",
            {"ssl_ca_certs": "/a", "ssl_certfile": "/b", "ssl_keyfile": "/c"},
        ),
        ("rediss://h?client_cert=/b#s", {"ssl_certfile": "/b", "ssl_keyfile": None, "ssl_check_hostname": True}),
        ("redis+sentinel://u:p@a,b:2/main/4#s", {"db": 4, "username": "u", "password": "p"}),
    ],
)
def test_a_stream_target_leads_to_its_server(target: str, options: dict[str, object]) -> None:
    connection = sink_of(target)._client.connection_pool.connection_kwargs
    assert {name: connection[name] for name in options} == options


def test_sentinels_are_asked_without_the_password_of_the_server() -> None:
    pool = sink_of("rediss+sentinel://u:p@a,b:2/main?ca=/a#s")._client.connection_pool
    asked = [sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels]
    assert [(each["host"], each["port"], each["password"]) for each in asked] == [("a", 26379, None), ("b", 2, None)]
    assert [each["ssl_ca_certs"] for each in asked] == ["/a", "/a"]
    assert pool.service_name == "main"


@pytest.mark.parametrize("written", ["h:", "a:,b/m", "a,b", "h/x", "h/1/2", "", "h:x"])
def test_what_is_no_address_of_a_stream_is_a_usage_error(written: str) -> None:
    with pytest.raises(UsageError):
        sink_of(f"redis://{written}#s")
