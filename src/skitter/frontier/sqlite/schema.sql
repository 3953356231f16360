-- The SQLite frontier, format 7. Every table belongs to one job (jobs.job); times are seconds of the store's clock.
--
-- jobs      one row a job: its record (msgpack of JobRow without the spec), its spec, and the clock, which
--           never goes back
-- requests  every request of the run: the seen set (by_id), the queues (queue: per host, in order) and the history that
--           `why` and `failed` read, in one table. number is job * 2^40 + seq: an integer key is the fastest there is, and
--           the end of every index. host is hosts.number. place is tables.RequestState, but for LEASED: a request
--           that is leased stands in holds, and here where it was before; and 8 is QUEUED of a request with a need, which has an
--           index of its own (needy), so that the queue of the others is no longer for it. The numbers are written out in the
--           indexes below.
--           Columns for what an index or a filter needs, the rest as msgpack: history is attempts, losses and times
-- hosts     one row a host key: record is msgpack of model.host.Host, what policy/politeness decides on. The indexes hold just
--           the hosts that may be served (ready), that wait for their time (waiting) or whose queue is being buried
--           (given_up), so a lease never scans the others. phase is model.host.Phase; 6 is READY of a host that has only requests
--           with needs
-- ready_for hosts that are ready and have requests with needs, for each need
-- needs     how many requests of each need are queued
-- addresses how many leases are counted under each IP address (the setting per_ip); as young as heartbeats
-- parked    hosts that wait for their address, in the order of promise 5, for each need and for requests without one (empty);
--           as young as heartbeats
-- pages     of jobs that recrawl: every request that they ever had, whichever run. due is when it may be fetched again, record
--           is msgpack of model.page_record.PageRecord; NULL until its first fetch has ended
-- robots    the robots.txt of a host, apart from hosts because it may be large
-- permits   host keys that seeds typed by the user permit, in the order they came
-- holds     the current leases: a commit is accepted only if its epoch stands here. record is msgpack of the rest of
--           tables.LeaseRow, the request's row included, so that a commit need not read it. There is no index of deadlines:
--           JobRow.reap_at tells when it is worth looking through them
-- workers   when each worker was last heard from
-- heartbeats     what workers tell of themselves: msgpack of model.worker.WorkerHeartbeat. Younger than the format: a file that
--           lacks it gets it, and a skitter that does not know it does without
-- staged    items of pages that commit in parts, invisible until the last part. kind is model.item.ItemKind, here and in outbox
-- outbox    committed items that some sink has not made durable
-- sinks     each sink's progress and owner
-- distinct_urls registers of a HyperLogLog of the URLs that were done, of all runs; as young as heartbeats
-- intakes   each source that requests come from: how far it was read, and msgpack of model.intake.IntakeRecord
-- proxies   the proxies of the job's pool: msgpack of model.proxy.ProxyRecord, with their passwords
-- host_proxies bans and failures of proxies at single hosts: msgpack of model.proxy.HostProxies
-- jars      cookies by session and registrable domain: msgpack of a list of model.session.Cookie. They are secrets
-- sessions  those that the frontier hands out: msgpack of model.session.SessionRecord
-- delivered ids of pages whose items every sink holds, of all runs (the setting dedup_scope)
-- audit     mutations of operators, of all jobs of the file: audit.entry.Stored. As young as heartbeats

CREATE TABLE jobs (
    job INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    clock REAL NOT NULL,
    record BLOB NOT NULL,
    spec_version INTEGER NOT NULL,
    spec BLOB NOT NULL
);

CREATE TABLE requests (
    number INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    id INTEGER NOT NULL,
    host INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    place INTEGER NOT NULL,
    not_before REAL NOT NULL,
    error_class TEXT NOT NULL,
    need TEXT NOT NULL,
    history BLOB NOT NULL,
    payload BLOB NOT NULL
);
CREATE UNIQUE INDEX by_id ON requests (job, id);
CREATE INDEX queue ON requests (host, priority DESC) WHERE place = 0;
CREATE INDEX needy ON requests (host, need, priority DESC) WHERE place = 8;
CREATE INDEX delayed ON requests (job, not_before) WHERE place = 1;
CREATE INDEX suspect ON requests (job, need) WHERE place = 7;
CREATE INDEX away ON requests (host) WHERE place IN (1, 7);
CREATE INDEX failed ON requests (job) WHERE place = 5;
CREATE INDEX failed_class ON requests (job, error_class) WHERE place = 5;

CREATE TABLE hosts (
    number INTEGER PRIMARY KEY,
    job INTEGER NOT NULL,
    key TEXT NOT NULL,
    phase INTEGER NOT NULL,
    top INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    due REAL NOT NULL,
    record BLOB NOT NULL
);
CREATE UNIQUE INDEX by_key ON hosts (job, key);
CREATE INDEX ready ON hosts (job, top DESC, turn, key) WHERE phase = 1;
CREATE INDEX waiting ON hosts (job, due, key) WHERE phase = 2;
CREATE INDEX given_up ON hosts (job, key) WHERE phase = 4;

CREATE TABLE ready_for (
    job INTEGER NOT NULL,
    key TEXT NOT NULL,
    need TEXT NOT NULL,
    top INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    PRIMARY KEY (job, key, need)
) WITHOUT ROWID;
CREATE INDEX ready_for_order ON ready_for (job, need, top DESC, turn, key);

CREATE TABLE needs (
    job INTEGER NOT NULL,
    need TEXT NOT NULL,
    queued INTEGER NOT NULL,
    PRIMARY KEY (job, need)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS addresses (
    job INTEGER NOT NULL,
    address TEXT NOT NULL,
    leases INTEGER NOT NULL,
    PRIMARY KEY (job, address)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS parked (
    job INTEGER NOT NULL,
    key TEXT NOT NULL,
    need TEXT NOT NULL,
    address TEXT NOT NULL,
    top INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    PRIMARY KEY (job, key, need)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS parked_order ON parked (job, address, need, top DESC, turn, key);

CREATE TABLE pages (
    job INTEGER NOT NULL,
    id INTEGER NOT NULL,
    host TEXT NOT NULL,
    due REAL NOT NULL,
    payload BLOB NOT NULL,
    record BLOB,
    PRIMARY KEY (job, id)
) WITHOUT ROWID;
CREATE INDEX pages_due ON pages (job, due);

CREATE TABLE robots (
    job INTEGER NOT NULL,
    host TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (job, host)
) WITHOUT ROWID;

CREATE TABLE permits (
    job INTEGER NOT NULL,
    number INTEGER NOT NULL,
    host TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

CREATE TABLE holds (
    job INTEGER NOT NULL,
    work INTEGER NOT NULL,
    id INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    worker TEXT NOT NULL,
    deadline REAL NOT NULL,
    alone INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (job, work, id)
) WITHOUT ROWID;
CREATE INDEX hold_worker ON holds (job, worker, alone);

CREATE TABLE workers (
    job INTEGER NOT NULL,
    worker TEXT NOT NULL,
    heard_at REAL NOT NULL,
    PRIMARY KEY (job, worker)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS heartbeats (
    job INTEGER NOT NULL,
    worker TEXT NOT NULL,
    heartbeat BLOB NOT NULL,
    PRIMARY KEY (job, worker)
) WITHOUT ROWID;

CREATE TABLE staged (
    job INTEGER NOT NULL,
    id INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    place INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (job, id, epoch, place)
) WITHOUT ROWID;

CREATE TABLE outbox (
    job INTEGER NOT NULL,
    position INTEGER NOT NULL,
    id INTEGER NOT NULL,
    place INTEGER NOT NULL,
    kind INTEGER NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (job, position)
) WITHOUT ROWID;

CREATE TABLE sinks (
    job INTEGER NOT NULL,
    target TEXT NOT NULL,
    progress BLOB NOT NULL,
    owner TEXT NOT NULL,
    owned_until REAL NOT NULL,
    PRIMARY KEY (job, target)
) WITHOUT ROWID;

CREATE TABLE intakes (
    job INTEGER NOT NULL,
    source TEXT NOT NULL,
    mark BLOB NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (job, source)
) WITHOUT ROWID;

CREATE TABLE proxies (
    job INTEGER NOT NULL,
    proxy TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (job, proxy)
) WITHOUT ROWID;

CREATE TABLE host_proxies (
    job INTEGER NOT NULL,
    host TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (job, host)
) WITHOUT ROWID;
CREATE TABLE jars (
    job INTEGER NOT NULL,
    session TEXT NOT NULL,
    domain TEXT NOT NULL,
    version INTEGER NOT NULL,
    changed_at REAL NOT NULL,
    cookies BLOB NOT NULL,
    PRIMARY KEY (job, session, domain)
) WITHOUT ROWID;
CREATE TABLE sessions (
    job INTEGER NOT NULL,
    name TEXT NOT NULL,
    record BLOB NOT NULL,
    PRIMARY KEY (job, name)
) WITHOUT ROWID;
CREATE INDEX jars_domain ON jars (job, domain, version);

CREATE TABLE IF NOT EXISTS delivered (
    job INTEGER NOT NULL,
    id INTEGER NOT NULL,
    PRIMARY KEY (job, id)
) WITHOUT ROWID;

CREATE TABLE IF NOT EXISTS distinct_urls (
    job INTEGER PRIMARY KEY,
    registers BLOB NOT NULL
);

CREATE TABLE IF NOT EXISTS audit (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, hash TEXT NOT NULL);
