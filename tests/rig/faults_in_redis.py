"""Faults that are planted in a job in Redis: by commands, and in packed records by the functions of the scripts.

``{2}`` in a script is the key of the third host.
"""

from __future__ import annotations

from rig.job_at_work import ADDRESS, NEED, Fault
from skitter.testing.redis_jobs import script_on_job


def lua(body: str) -> str:
    """A script that changes the job, which it has loaded. ``{2}`` is the key of the third host."""
    return script_on_job(body)


def host_lua(number: int, change: str) -> str:
    """Change the record of a host, ``h``, whose key is ``key``."""
    return (
        f"local key = '{{{number}}}' local h = unpack_host(call('HGET', BASE .. 'hosts', key)) {change}"
        " call('HSET', BASE .. 'hosts', key, pack_host(h))"
    )


def need_lua(change: str) -> str:
    """Change the ``queue`` of a host for the need."""
    return host_lua(2, f"local queue = h[NEEDS]['{NEED}'] {change}")


def ended_lua(change: str) -> str:
    """Change the ``record`` of the filter or of the generations."""
    return f"local record = seen.load() {change} seen.changed = true seen.save()"


def job_lua(change: str) -> str:
    return f"{change} save_job()"


def row_lua(state: str, change: str) -> str:
    """With the ``id`` and the ``row`` of the first request in this state that has no need."""
    return (
        "local id, row local found = call('HGETALL', RUN .. 'requests') for place = 1, #found, 2 do"
        " local one = unpack_row(found[place + 1], 1)"
        f" if one[PLACE] == AT_{state} and one[NEED] == '' and (not id or found[place] < id) then"
        " id, row = found[place], one end end"
        f" {change}"
    )


def hold_lua(name: str, change: str) -> str:
    """With the lease ``hold`` and its ``key``: of the page that is called so, or of the robots.txt of a host."""
    return (
        "local key, hold local found = call('HGETALL', RUN .. 'holds') for place = 1, #found, 2 do"
        " local one = unpack_hold(found[place + 1])"
        f" local name = work_of(found[place]) == PAGE and row_of(one)[PAYLOAD] or one[HOLD_HOST]"
        f" if string.find(name, '{name}', 1, true) then key, hold = found[place], one end end {change}"
    )


_SET = "save_hold(key, hold)"
_QUEUE_OF_2 = "local queue = RUN .. 'q:0:{2}' local element = call('LINDEX', queue, 0)"
_QUEUE_FOR_2 = f"local queue = RUN .. 'q_for:{NEED}:2:{{2}}' local element = call('LINDEX', queue, 0)"
_SEEN = "for n = 0, J.seen.buckets - 1 do call('SREM', RUN .. 'seen:' .. n, decimal) end"
IN_REDIS: dict[str, Fault] = {
    **{
        f"one more {name}": Fault("count", job_lua(f"J.{name} = J.{name} + 1"))
        for name in ("queued", "delayed", "leased", "done", "failed", "excluded")
    },
    "one more redirected": Fault("ended_count", job_lua("J.redirected = J.redirected + 1"), mendable=False),
    "a class of errors forgotten": Fault("errors_count", "call('DEL', RUN .. 'errors')"),
    "a class of errors of none": Fault("errors_count", "call('HSET', RUN .. 'errors', 'tls', 4)"),
    "paused hosts": Fault("halted_count", job_lua("J.paused_hosts = 7")),
    "hosts given up": Fault("halted_count", job_lua("J.given_up_hosts = 7")),
    "parked hosts": Fault("parked_count", job_lua("J.parked = 7")),
    "a queue shown too long": Fault("crowded", job_lua("J.crowded['{2}'] = 77")),
    "next_seq in use": Fault("sequence", job_lua("J.next_seq = 3")),
    "an epoch of the future": Fault("sequence", hold_lua("/held", f"hold[EPOCH] = J.next_epoch + 300 {_SET}")),
    "one more queued at a host": Fault("host_queue", host_lua(2, "h[QUEUED] = h[QUEUED] + 1")),
    "a list longer than known": Fault("host_queue", host_lua(2, "h[LEVELS][2] = h[LEVELS][2] - 1")),
    "a priority too low": Fault("host_queue", host_lua(2, "h[TOP] = 3")),
    "more delayed and suspect": Fault("host_queue", host_lua(4, "h[AWAY] = h[AWAY] + 1")),
    "a list of unknown priority": Fault(
        "host_queue", f"{_QUEUE_OF_2} call('LPOP', queue) call('RPUSH', RUN .. 'q:9:{{2}}', element)"
    ),
    "a request lost from its list": Fault("host_queue", "call('LPOP', RUN .. 'q:0:{2}')", mendable=False),
    "one more queued for a need": Fault("host_queue", need_lua("queue[QUEUED] = queue[QUEUED] + 1")),
    "a list of a need longer than known": Fault("host_queue", need_lua("queue[LEVELS][2] = queue[LEVELS][2] + 1")),
    "a priority of a need too low": Fault("host_queue", need_lua("queue[TOP] = 1")),
    "a need that its host forgot": Fault("host_queue", host_lua(2, "h[NEEDS] = false")),
    "a need of nothing": Fault(
        "host_queue", host_lua(2, "h[NEEDS].session = {[QUEUED] = 0, [TOP] = 0, [LEVELS] = false}")
    ),
    "a list of unknown priority of a need": Fault(
        "host_queue", f"{_QUEUE_FOR_2} call('LPOP', queue) call('RPUSH', RUN .. 'q_for:{NEED}:9:{{2}}', element)"
    ),
    "not ready for a need": Fault("host_index", f"call('ZREM', RUN .. 'ready_for:{NEED}:82', '{{2}}')"),
    "ready for a need at another turn": Fault("host_index", f"call('ZADD', RUN .. 'ready_for:{NEED}:82', 7, '{{2}}')"),
    "ready for a need that nothing has": Fault("host_index", "call('ZADD', RUN .. 'ready_for:session:3', 7, '{2}')"),
    "a priority of a need not looked at": Fault("host_index", f"call('DEL', RUN .. 'tops_for:{NEED}')"),
    "not parked for a need": Fault(
        "host_index",
        "for _, name in ipairs(call('ZRANGE', RUN .. 'parked', 0, -1)) do local _, need = addresses.parked_key(name)"
        " if need ~= '' then call('ZREM', RUN .. 'parked', name) end end",
    ),
    "a need counted once more": Fault("need_count", f"call('HINCRBY', RUN .. 'needs', '{NEED}', 1)"),
    "a need not counted": Fault("need_count", "call('DEL', RUN .. 'needs')"),
    "a need counted of which nothing is queued": Fault("need_count", "call('HSET', RUN .. 'needs', 'session', 4)"),
    "nobody looks for what has needs": Fault("need_count", job_lua("J.needy = nil")),
    "suspect with a need, and in no index": Fault("no_place", f"call('DEL', RUN .. 'suspects_for:{NEED}')"),
    "suspect with a need, and among those without": Fault(
        "two_places",
        f"local id = call('ZRANGE', RUN .. 'suspects_for:{NEED}', 0, 0)[1] call('ZADD', RUN .. 'suspects', 5, id)",
    ),
    "returned with a need, and in no index": Fault("no_place", f"call('DEL', RUN .. 'returned_for:{NEED}:{{2}}')"),
    "queued with a need and returned": Fault(
        "two_places",
        f"local member = call('ZRANGE', RUN .. 'returned_for:{NEED}:{{2}}', 0, 0)[1]"
        " call('ZADD', RUN .. 'returned:{2}', -82, member)",
    ),
    "queued twice with a need": Fault("two_places", f"{_QUEUE_FOR_2} call('LPUSH', queue, element)"),
    "the seen set counted once more": Fault("set_count", job_lua("J.seen.count = J.seen.count + 1")),
    "one more in flight": Fault("host_in_flight", host_lua(0, "h[IN_FLIGHT] = 3")),
    "one less in flight": Fault("host_in_flight", host_lua(0, "h[IN_FLIGHT] = 1")),
    "in flight without a lease": Fault("host_in_flight", host_lua(2, "h[IN_FLIGHT] = 1")),
    "a gate without a lease": Fault("host_in_flight", host_lua(2, "h[GATE] = 1")),
    "a gate forgotten": Fault("host_in_flight", host_lua(5, "h[GATE] = 0")),
    "idle with a queue": Fault("host_phase", host_lua(2, "h[PHASE] = IDLE call('ZREM', RUN .. 'ready:57', key)")),
    "full with nothing in flight": Fault(
        "host_phase", host_lua(2, "h[PHASE] = FULL call('ZREM', RUN .. 'ready:57', key)")
    ),
    "ready before its pause is over": Fault("host_phase", host_lua(4, "h[PHASE] = READY")),
    "no reason for being given up": Fault("host_reason", "call('DEL', RUN .. 'reasons')"),
    "a reason without being given up": Fault(
        "host_reason", "call('HSET', RUN .. 'reasons', '{2}', pack({'connect', 'refused'}))"
    ),
    "not among the ready": Fault("host_index", "call('ZREM', RUN .. 'ready:57', '{2}')"),
    "ready at another turn": Fault("host_index", "call('ZADD', RUN .. 'ready:57', 7, '{2}')"),
    "ready with two priorities": Fault("host_index", "call('ZADD', RUN .. 'ready:3', 7, '{2}')"),
    "a priority not looked at": Fault("host_index", "call('DEL', RUN .. 'tops')"),
    "not among the waiting": Fault("host_index", "call('ZREM', RUN .. 'waiting', '{4}')"),
    "waiting as well": Fault("host_index", "call('ZADD', RUN .. 'waiting', 7, '{2}')"),
    "not in the list of parked hosts": Fault("host_index", "call('DEL', RUN .. 'parked')"),
    "parked as well": Fault(
        "host_index",
        "local h = unpack_host(call('HGET', BASE .. 'hosts', '{2}'))"
        " call('ZADD', RUN .. 'parked', 0, addresses.parked_name('{2}', h, '', h[TOP]))",
    ),
    "not in the list of those given up": Fault("host_index", "call('DEL', RUN .. 'given_up')"),
    "given up as well": Fault("host_index", "call('ZADD', RUN .. 'given_up', 0, '{2}')"),
    "a host of no record in an index": Fault("host_index", "call('ZADD', RUN .. 'waiting', 7, 'http://ghost.example')"),
    "a host without its record": Fault("host_missing", "call('HDEL', BASE .. 'hosts', '{3}')"),
    "not seen, and queued": Fault("not_seen", f"local decimal = ARGV[2] {_SEEN}"),
    "seen where nobody looks": Fault(
        "seen_bucket", f"local decimal = ARGV[2] {_SEEN} call('SADD', RUN .. 'seen:7', decimal)"
    ),
    "a seen id lost": Fault("ended_count", f"local decimal = ARGV[3] {_SEEN}", mendable=False),
    "delayed, and in no index": Fault("no_place", row_lua("DELAYED", "call('ZREM', RUN .. 'delayed', id)")),
    "delayed, and not found by its host": Fault(
        "no_place", row_lua("DELAYED", "call('ZREM', RUN .. 'away:' .. row[HOST], id)")
    ),
    "delayed until another time": Fault("request_index", row_lua("DELAYED", "call('ZADD', RUN .. 'delayed', 5, id)")),
    "suspect, and in no index": Fault("no_place", "call('DEL', RUN .. 'suspects')"),
    "failed, and not in the list": Fault("no_place", row_lua("FAILED", "call('ZREM', RUN .. 'failed', id)")),
    "failed, and not in that of its class": Fault(
        "no_place", row_lua("FAILED", "call('ZREM', RUN .. 'failed:' .. row[ERROR_CLASS], id)")
    ),
    "returned, and not in its queue": Fault(
        "no_place", row_lua("QUEUED", "call('ZREM', RUN .. 'returned:' .. row[HOST], returned_member(id, row))")
    ),
    "returned with another priority": Fault(
        "request_index",
        row_lua("QUEUED", "call('ZADD', RUN .. 'returned:' .. row[HOST], -1, returned_member(id, row))"),
    ),
    "delayed, and its record is gone": Fault(
        "no_request", row_lua("DELAYED", "call('HDEL', RUN .. 'requests', id)"), mendable=False
    ),
    "failed and delayed": Fault("two_places", row_lua("FAILED", "call('ZADD', RUN .. 'delayed', 5, id)")),
    "queued twice": Fault("two_places", f"{_QUEUE_OF_2} call('LPUSH', queue, element)"),
    "queued and leased": Fault(
        "two_places",
        hold_lua("/held", "call('LPUSH', RUN .. 'q:0:{0}', struct.pack('>I5', 1) .. key .. row_of(hold)[PAYLOAD])"),
    ),
    "delayed and leased": Fault(
        "two_places",
        hold_lua("/held", "local row = row_of(hold) row[PLACE] = AT_DELAYED save_row(key, row)"),
    ),
    "queued and delayed": Fault(
        "two_places",
        row_lua("DELAYED", "call('LPUSH', RUN .. 'q:0:' .. row[HOST], struct.pack('>I5', 1) .. id .. row[PAYLOAD])"),
    ),
    "a lease that its worker forgot": Fault("lease_worker", hold_lua("/held", "call('SREM', RUN .. 'held:w2', key)")),
    "a lease of another worker": Fault("lease_worker", hold_lua("/held", "call('SADD', RUN .. 'held:w1', key)")),
    "a worker that is not alone": Fault("lease_worker", "call('SADD', RUN .. 'alone', 'w2')"),
    "a worker that is never looked at": Fault("lease_deadline", "call('ZREM', RUN .. 'deadlines', 'w2')"),
    "a worker that is looked at too late": Fault("lease_deadline", "call('ZADD', RUN .. 'deadlines', 1e10, 'w2')"),
    "two leases of an epoch": Fault(
        "lease_epoch",
        "local epoch local found = call('HGETALL', RUN .. 'holds') for place = 1, #found, 2 do"
        " local key, hold = found[place], unpack_hold(found[place + 1]) if work_of(key) == ROBOTS then"
        f" if epoch then hold[EPOCH] = epoch {_SET} end epoch = hold[EPOCH] end end",
    ),
    "a lease beside one alone": Fault(
        "lease_alone",
        hold_lua("/held", f"hold[ALONE] = true {_SET} call('SADD', RUN .. 'alone', 'w2')"),
        mendable=False,
    ),
    "a lease of another host": Fault("lease_work", hold_lua("/held", f"hold[HOLD_HOST] = '{{2}}' {_SET}")),
    "staged for nobody": Fault("staged", "call('RPUSH', RUN .. 'staged:77', '\\0x')"),
    "a lease that forgot what it staged": Fault("staged", hold_lua("/staged", f"hold[STAGED] = false {_SET}")),
    "staged items lost": Fault(
        "staged", hold_lua("/staged", "call('DEL', RUN .. 'staged:' .. format('%d', hold[EPOCH]))"), mendable=False
    ),
    "one more at an address": Fault("address_count", f"call('HINCRBY', RUN .. 'addresses', '{ADDRESS}', 1)"),
    "an address forgotten": Fault("address_count", "call('DEL', RUN .. 'addresses')"),
    "an address of no lease": Fault("address_count", "call('HSET', RUN .. 'addresses', '10.0.0.9', 2)"),
    "an item missing": Fault("outbox", "call('RPOP', RUN .. 'items')", mendable=False),
    "a sink ahead of the items": Fault(
        "sink_position", "call('HSET', RUN .. 'sinks', 'b.jsonl', pack({99, false, '', 0, 0, ''}))", mendable=False
    ),
    "items that every sink has": Fault(
        "outbox_leftover",
        "for _, name in ipairs({'a.jsonl', 'b.jsonl'}) do"
        " call('HSET', RUN .. 'sinks', name, pack({2, false, '', 0, 0, ''})) end",
    ),
    "items without a sink": Fault("outbox_leftover", "call('DEL', RUN .. 'sinks')", mendable=False),
    "a robots.txt missing": Fault("robots", "call('HDEL', BASE .. 'robots', '{2}')"),
    "pages of a host": Fault("pages_count", host_lua(0, "h[PAGES] = 40"), mendable=False),
    "a host that cannot be read": Fault("unreadable", "call('HSET', BASE .. 'hosts', '{2}', 'x')", mendable=False),
    "a record that cannot be read": Fault("unreadable", "call('SET', KEYS[1], 'x')", mendable=False),
}
WHOLE_JOB: dict[str, Fault] = {
    "one more open intake": Fault("intakes_count", job_lua("J.intakes = J.intakes + 1")),
    "an open intake forgotten": Fault("intakes_count", job_lua("J.intakes = nil")),
    "an intake that cannot be read": Fault("unreadable", "call('HSET', RUN .. 'intakes', 'x', 'x')", mendable=False),
    "one more jar": Fault("jars_count", job_lua("J.jars = (J.jars or 0) + 1")),
    "a jar that stands in no index": Fault("jars_count", "call('HSET', RUN .. 'jars', ' a.example', pack({7, 1, {}}))"),
    "a jar that cannot be read": Fault("unreadable", "call('HSET', RUN .. 'jars', ' a.example', 'x')", mendable=False),
    "a session in flight without a lease": Fault(
        "session_in_flight", "call('HSET', RUN .. 'sessions', 'alice', pack({0, 2, 1, 0, 0, 0, 0, 0, 0}))"
    ),
    "finished with a queue": Fault("state", job_lua("J.state = 'finished'")),
    "a permit lost": Fault("permit", "call('LREM', RUN .. 'permits', 0, '{0}')"),
    "a permit of a host that is none": Fault("permit", "call('RPUSH', RUN .. 'permits', '{2}')"),
    "a heartbeat of nobody": Fault("worker_heartbeat", "call('ZREM', BASE .. 'workers', 'w1')"),
    "a seeding that is over": Fault(
        "lease_work", "call('HSET', RUN .. 'holds', 's', pack_hold(7, now, now, false, false, 'w2', '', ''))"
    ),
}
"""Where a job is in shards, the lead has these lists."""
ACROSS_SHARDS: dict[str, Fault] = {
    "a shard that is finished": Fault("state", job_lua("J.state = 'finished'"), mendable=False),
    "a shard with another number": Fault("shard", job_lua("J.shard = 2"), mendable=False),
    "a shard that knows more permits": Fault("permit", job_lua("J.permits = 99"), mendable=False),
    "a target that a shard does not know": Fault("shard", "call('HDEL', RUN .. 'sinks', 'a.jsonl')", mendable=False),
    "items that a target lacks and a shard has forgotten": Fault(
        "sink_position",
        "call('HSET', RUN .. 'sinks', 'a.jsonl', pack({3, false, '', 0, 0, ''}))",
        mendable=False,
    ),
    "links that another shard has lost": Fault(
        "lost_links", job_lua("J.relied[#J.relied + 1] = {0, '', 1000000}"), mendable=False
    ),
    "a host of another shard": Fault(
        "host_shard", f"{_QUEUE_OF_2} call('RPUSH', RUN .. 'q:0:{{7}}', element)", mendable=False
    ),
}
_PAGE = "local found = call('HGETALL', BASE .. 'records') local id, record = found[1], found[2]"
WITH_SETTINGS: dict[str, tuple[dict[str, object], Fault]] = {
    **{
        f"a filter: {name}": ({"dedup": "bloom"}, fault)
        for name, fault in {
            "not seen, and queued": IN_REDIS["not seen, and queued"],
            "one more queued": IN_REDIS["one more queued"],
            "more ids than there were": Fault(
                "remembered", ended_lua("record.items[1] = record.items[1] + 9"), mendable=False
            ),
            "fewer bits counted": Fault("filter_bits", ended_lua("record.ones[1] = record.ones[1] - 1")),
            "a block lost": Fault(
                "filter_bits",
                "for block = 0, S.layout[1].blocks - 1 do call('DEL', RUN .. 'filter:1:' .. block) end",
                mendable=False,
            ),
            "one more seed": Fault("set_count", ended_lua("record.kept.count = record.kept.count + 1")),
            "a seed where nobody looks": Fault(
                "seen_bucket",
                "local id = call('SRANDMEMBER', RUN .. 'kept:0') call('SMOVE', RUN .. 'kept:0', RUN .. 'kept:7', id)",
            ),
            "an id of nothing": Fault(
                "ended_count",
                job_lua("J.seen.count = J.seen.count + call('SADD', RUN .. 'seen:0', 7)"),
                mendable=False,
            ),
            "one more done": Fault("pages_count", job_lua("J.done = J.done + 1"), mendable=False),
        }.items()
    },
    **{
        f"generations: {name}": ({"dedup_seconds": 9e6}, fault)
        for name, fault in {
            "one more": Fault("set_count", ended_lua("record.generations[1].count = record.generations[1].count + 1")),
            "more ids than there were": Fault(
                "remembered",
                ended_lua(
                    "local one = record.generations[1] for id = 1, 9 do"
                    " exact.add(one, RUN .. 'generation:' .. one.number .. ':', tostring(id)) end"
                ),
                mendable=False,
            ),
            "an id where nobody looks": Fault(
                "seen_bucket",
                "local prefix = RUN .. 'generation:' .. seen.load().generations[1].number .. ':'"
                " call('SMOVE', prefix .. 0, prefix .. 7, call('SRANDMEMBER', prefix .. 0))",
            ),
        }.items()
    },
    **{
        f"delivered: {name}": ({"dedup_scope": "job"}, fault)
        for name, fault in {
            "one more": Fault("set_count", job_lua("J.delivered.count = J.delivered.count + 1")),
            "an id where nobody looks": Fault(
                "seen_bucket",
                "local key = BASE .. 'delivered:' call('SMOVE', key .. 0, key .. 7, call('SRANDMEMBER', key .. 0))",
            ),
        }.items()
    },
    **{
        f"known pages: {name}": ({"recrawl": "all"}, fault)
        for name, fault in {
            "never due": Fault("known_page", "call('ZREM', BASE .. 'due', call('HKEYS', BASE .. 'pages')[1])"),
            "due at another time": Fault("known_page", f"{_PAGE} call('ZADD', BASE .. 'due', 7, id)"),
            "due, and not known": Fault("known_page", "call('ZADD', BASE .. 'due', 7, 'unknown!')"),
            "a record, and not known": Fault(
                "known_page", f"{_PAGE} call('HSET', BASE .. 'records', 'unknown!', record)"
            ),
        }.items()
    },
}
"""Of jobs with other settings."""
