"""Events of a crawl: the kinds, their fields and their messages.

Code with an ``on_event`` callback passes events to it; other code calls ``emit``, which uses ``logging``: a worker
process sends them to its supervisor, a script's own logging shows them. The command line formats and writes them.
docs/reference/events.md is generated from this file.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from skitter.model.secrets import without_secrets

logger = logging.getLogger("skitter.events")


class Level(enum.IntEnum):
    """Severity of an event, with the numbers of ``logging``."""

    DEBUG = 10
    """Many a second: with -v only."""
    INFO = 20
    """For a log that is read afterwards."""
    NOTICE = 25
    """Also shown on a terminal."""
    WARNING = 30
    """Somebody may have to do something."""
    ERROR = 40


class Kind(msgspec.Struct, frozen=True):
    """Kind of event; a call makes an event."""

    name: str
    level: Level
    sentence: str
    """Message template with the fields in braces."""
    meaning: str
    """Description for the reference."""
    fields: Mapping[str, str]
    """Names and descriptions of the fields."""

    def __call__(self, **fields: Any) -> Event:
        assert fields.keys() == self.fields.keys(), f"{self.name} has the fields {', '.join(self.fields)}"
        return Event(self, fields, self.level, round(time.time(), 3))


class Event(msgspec.Struct, frozen=True):
    """One event."""

    kind: Kind
    fields: dict[str, Any]
    level: Level
    at: float
    """Time by the clock of the machine that emitted it."""
    job: str = ""
    """Its job, where one log has the events of several."""

    @property
    def text(self) -> str:
        """Return the message."""
        return without_secrets(self.kind.sentence.format_map(_Fields(self.fields)))

    @property
    def first_line(self) -> str:
        """Return the message without the traceback."""
        return self.text.partition("\n")[0] if "traceback" in self.fields else self.text

    @property
    def worker(self) -> str:
        """Return the worker's id; empty for an event of the node."""
        worker: str = self.fields.get("worker", "")
        return worker


class _Fields(dict[str, Any]):
    """Fields of an event, of which a worker of another version may lack some."""

    def __missing__(self, name: str) -> str:
        return "?"


def emit(event: Event) -> None:
    """Emit an event through ``logging``, for code without an ``on_event`` callback and for scripts."""
    origin = logging.getLogger(event.fields["logger"]) if event.kind is LOG else logger
    origin.log(event.level, "%s", event.text, extra={"event": event})


def is_logged(kind: Kind) -> bool:
    """Return whether events of this kind are logged, to skip those that are costly to make."""
    return logger.isEnabledFor(kind.level)


def of_record(record: logging.LogRecord) -> Event:
    """Return the event of a log record; any other record becomes an event of the kind ``log``."""
    event = getattr(record, "event", None)
    if isinstance(event, Event):
        return event
    text = record.getMessage()
    if record.exc_info:
        text += "\n" + logging.Formatter().formatException(record.exc_info)
    return log_line(text, record.name, record.levelno)


def log_line(text: str, logger_name: str, level: int) -> Event:
    """Return the event for a line of ``logging``."""
    known = max((one for one in Level if one <= level), default=Level.DEBUG)
    return Event(LOG, {"logger": logger_name, "text": text}, known, round(time.time(), 3))


def received(name: str, fields: Mapping[str, Any], level: int, at: float) -> Event:
    """Return an event that another process sent; an unknown kind is shown as it is."""
    kind = KINDS.get(name)
    if kind is None:
        known = ", ".join(f"{field}={value}" for field, value in fields.items())
        return log_line(f"{name}: {known}", "skitter.events", level)
    return Event(kind, dict(fields), Level(level) if level in set(Level) else kind.level, at)


KINDS: dict[str, Kind] = {}


def _kind(name: str, level: Level, sentence: str, meaning: str, **fields: str) -> Kind:
    kind = KINDS[name] = Kind(name, level, sentence, meaning, fields)
    return kind


# ---- the job

JOB_BEGUN = _kind(
    "job.begun",
    Level.INFO,
    "run {run} is {begun}",
    "This node began, resumed, reran or joined the job.",
    begun="new, resumed, rerun or joined",
    run="the number of the run",
)
JOB_STATE = _kind(
    "job.state",
    Level.NOTICE,
    "the job is {state}",
    "The state of the job has changed. Each node reports it.",
    state="running, paused, draining, stopped or finished",
    before="the state until now",
    reason="why it stopped: `command`, `max_pages`, or the error of `start()`",
)
JOB_SETTINGS_KEPT = _kind(
    "job.settings_kept",
    Level.NOTICE,
    "the job is running and keeps its settings; ignored: {settings}",
    "This node joined a job whose settings differ from its command line.",
    settings="settings of this command line that have no effect",
)
JOB_SETTINGS_CHANGED = _kind(
    "job.settings_changed",
    Level.NOTICE,
    "settings changed: {settings}",
    "Settings of the running job were changed (docs/how-to/change-a-running-job.md). Each node reports it.",
    settings="as in `delay_seconds=2`",
)
JOB_RUN_KNOWN = _kind(
    "job.run_known",
    Level.NOTICE,
    "run {run} for the key {key} has already finished; no new run is started",
    "A crawl was given a `--run-key` whose run has already ended, so there is nothing to do.",
    key="of the run",
    run="its number",
)
JOB_BLOOM = _kind(
    "job.bloom",
    Level.NOTICE,
    "dedup=bloom: up to {percent} % of new pages are mistaken for duplicates and never fetched",
    "A run with a Bloom filter has begun (docs/how-to/dedup.md).",
    percent="of new pages, from `dedup_error_rate`",
    capacity="pages that the filter is sized for",
)
JOB_IN_SHARDS = _kind(
    "job.in_shards",
    Level.NOTICE,
    "the job has {shards} shards: it has no session pools, login or exclusive sessions, keeps the order of requests "
    "only within a shard, and may lose links between shards if a server fails over without wait_replicas; "
    "see docs/guarantees.md#a-job-in-shards",
    "A command began, resumed or joined a job that was started with `?shards=N` (docs/how-to/redis-setup.md#shards). "
    "A master logs it for its clients.",
    shards="of the job",
)
JOB_FILTER_NEARLY_FULL = _kind(
    "job.filter_nearly_full",
    Level.WARNING,
    "the Bloom filter holds {items} of {capacity} pages; beyond that it grows, with more memory per page",
    "A run with `dedup=bloom` has reached 90 % of `dedup_capacity`.",
    items="pages in the filter",
    capacity="pages that it is sized for",
)
JOB_OTHER_VERSION = _kind(
    "job.other_version",
    Level.WARNING,
    "this is skitter {version}, but the job was started by {begun_by}: the format is the same, but use one version "
    "everywhere",
    "This node runs another version of skitter than the one that started the job. (A different storage format is an "
    "error.)",
    version="of this node",
    begun_by="of the node that started or last resumed the run",
)
JOB_OTHER_CODE = _kind(
    "job.other_code",
    Level.WARNING,
    "{spider} on this node differs from the file that the job was started with; use the same version on all nodes",
    "The spider's file has the right class, but its content differs from that on the node that started the job.",
    spider="file and class on this node",
)
JOB_EDITED_CODE = _kind(
    "job.edited_code",
    Level.WARNING,
    "{spider} was edited since this run was last worked on; pages that are done stay as they are, fresh=True (--fresh) "
    "starts from the beginning",
    "An unfinished run is resumed with other code of its spider: the file, or in a notebook the class, has changed.",
    spider="file and class, or the class of a notebook",
)

JOB_NO_OUTPUT = _kind(
    "job.no_output",
    Level.WARNING,
    "no output: items are counted but not kept; use output=FILE (-o FILE) or stream() to keep them",
    "The job has no output for its items.",
)
JOB_APPENDS = _kind(
    "job.appends",
    Level.WARNING,
    "run {run} appends to {target}, which already has results; to replace them, use overwrite=True (-O {target})",
    "A new run writes to a file that has results of an earlier run. Jobs that recrawl, or remember pages across runs "
    "(`dedup_scope=job`), append by design and do not report it.",
    target="the file",
    run="the number of the run",
)
JOB_PROGRESS = _kind(
    "job.progress",
    Level.INFO,
    "{state}: {pages} pages, {pages_per_second} pages/s, {queued} queued, {in_flight} in flight, {failed} failed",
    "Progress of the job, every ten seconds. In text mode it is a plain line on standard error, or the live display.",
    state="of the job",
    seconds="since the run began",
    pages="done",
    unchanged="of these, pages that had not changed, in a job that recrawls",
    pages_per_second="over the last ten seconds",
    queued="waiting, including delayed requests",
    in_flight="being fetched",
    failed="failed",
    excluded="by a rule",
    items="of all pages",
    bytes="fetched",
    blocked_by="outputs that stop the leasing of requests",
)
JOB_STATS = _kind(
    "job.stats",
    Level.INFO,
    "{pages_per_minute} pages/min, {items_per_minute} items/min; {pages} pages, {items} items, {failed} failed",
    "Speed of the job, every `stats_seconds`.",
    pages="done",
    items="of all pages",
    failed="failed",
    pages_per_minute="since the last of these events",
    items_per_minute="likewise",
    stats="counters of the spider and its hooks, by name",
)
JOB_LIMIT = _kind(
    "job.limit",
    Level.NOTICE,
    "the job is stopped by {limit}: {reached} of {allowed}",
    "A limit on items, errors or seconds (`close_after_…`) has stopped the job.",
    limit="the setting",
    reached="the value reached",
    allowed="its value",
)
JOB_SUMMARY = _kind(
    "job.summary",
    Level.NOTICE,
    "{text}",
    "How the command ended. In text mode these are the last lines on standard error.",
    text="as text",
    summary="the object that `--json` prints",
)

# ---- workers

WORKER_JOINED = _kind(
    "worker.joined",
    Level.INFO,
    "worker {worker} joined: skitter {version}, {spider}",
    "A worker started working on the job.",
    worker="its id",
    host_name="of its machine",
    pid="its process number",
    version="of its skitter",
    spider="file and class, or `built-in spider`",
)
WORKER_LEFT = _kind(
    "worker.left",
    Level.INFO,
    "worker {worker} left: {reason}",
    "A worker ended normally; its requests are committed or returned to the queue.",
    worker="its id",
    reason="the job is over, it was asked to stop, or a new run has begun",
)
WORKER_DIED = _kind(
    "worker.died",
    Level.WARNING,
    "worker {worker} died ({how}); {leases} leases are returned",
    "A worker of this node ended in the middle of its work, while the node was stopping or after it was replaced.",
    worker="its id",
    how="a signal, an exit code, or why its supervisor ended it",
    leases="how many it held",
)
WORKER_REPLACED = _kind(
    "worker.replaced",
    Level.WARNING,
    "worker {worker} died ({how}); {leases} leases are returned, and another worker is started",
    "A worker of this node ended in the middle of its work, and the node starts another one.",
    worker="id of the worker that died",
    how="a signal, an exit code, or why its supervisor ended it",
    leases="how many it held",
)
WORKER_HELD = _kind(
    "worker.held",
    Level.WARNING,
    "worker {worker} has been blocked by one page for {seconds} s; {leases} leases are returned, and another worker "
    "is started",
    "A page blocks the event loop of its worker (a slow callback, a runaway regular expression). The page has until "
    "`callback_seconds` to end; all other requests of its worker continue in another one.",
    worker="id of the blocked worker",
    seconds="for how long",
    leases="how many are returned; the page stays with its worker",
)
WORKER_MEMORY = _kind(
    "worker.memory",
    Level.WARNING,
    "worker {worker} uses {resident_bytes} bytes of memory: {consequence}",
    "A worker process has reached `memory_warning_bytes` or `memory_limit_bytes`.",
    worker="its id",
    resident_bytes="memory in use",
    consequence="what happens next",
)
WORKER_SILENT = _kind(
    "worker.silent",
    Level.WARNING,
    "no heartbeat from worker {worker} for {seconds} s",
    "Only in `skitter logs` without a stream of events: the frontier lists a worker that is not alive.",
    worker="its id",
    seconds="for how long",
)
REQUEST_FAILED = _kind(
    "request.failed",
    Level.INFO,
    "{url} has failed: {error_class}: {error}",
    "Only in `skitter logs` without a stream of events: a request has failed for good. If there are many, only the "
    "newest are reported; `skitter failed` lists all.",
    url="of the request",
    error_class="its [error class](errors.md)",
    error="the last line of its message",
    attempts="how often it was tried",
)
BROWSER_STARTED = _kind(
    "browser.started",
    Level.INFO,
    "a browser was started in {seconds} s: {program}",
    "A worker has started a browser for requests that are rendered.",
    program="Chromium's program",
    seconds="how long it took",
)
BROWSER_RETIRED = _kind(
    "browser.retired",
    Level.INFO,
    "a browser is closed after {pages} pages and {seconds} s: {reason}",
    "A browser has reached `browser_max_pages`, `browser_max_seconds` or `browser_max_bytes`; another one is started "
    "for the next page.",
    reason="why",
    pages="pages that it has rendered",
    seconds="how old it is",
)
BROWSER_LOST = _kind(
    "browser.lost",
    Level.WARNING,
    "a browser was lost with {pages} pages in it, after {served}: {reason}",
    "A browser has crashed, was killed, or was killed because it did not answer. Its pages return to the queue, and "
    "no attempt is counted.",
    reason="what is known about the cause",
    pages="pages that it was rendering",
    served="pages that it has rendered",
)
BROWSER_FAILED = _kind(
    "browser.failed",
    Level.WARNING,
    "no pages are rendered here for {seconds} s: {reason}",
    "A browser could not be started. Requests that need one wait for this worker or another one.",
    reason="what Chromium said",
    seconds="until it is tried again",
)
WORKER_GONE = _kind(
    "worker.gone",
    Level.WARNING,
    "worker {worker} is lost; {leases} leases are returned",
    "A node on the same machine, or one with the same coordinator, has found that a worker died together with its "
    "supervisor; its leases are returned at once.",
    worker="its id",
    leases="how many it held",
)
COORDINATOR_STATE = _kind(
    "coordinator.state",
    Level.WARNING,
    "the coordinator is {state}: {coordinator}",
    "This node has lost its coordinator or reached it again (docs/how-to/coordinator.md). Meanwhile its workers start "
    "no requests; after a while they abort those in flight.",
    coordinator="its address",
    state="connected, suspended (no answer at the moment), or lost (no answer for so long that others may consider "
    "this node lost)",
)
NODE_METRICS = _kind(
    "node.metrics",
    Level.NOTICE,
    "metrics of this node: {url}",
    "This node serves its metrics for Prometheus (`--metrics`, docs/how-to/monitor.md).",
    url="address",
)
NODE_STOPPING = _kind(
    "node.stopping",
    Level.NOTICE,
    "stopping: finishing requests in flight; repeat to exit at once, nothing is lost",
    "This node was asked to stop, by Ctrl-C or SIGTERM.",
    signal="its number",
)

# ---- a fleet

FLEET_SERVES = _kind(
    "fleet.serves",
    Level.INFO,
    "served by this node, workers: {workers}",
    "A node of a fleet (`skitter worker --every-job`) starts serving the job.",
    workers="workers of this node that serve the job",
    priority="of the job",
)
FLEET_LEAVES = _kind(
    "fleet.leaves",
    Level.INFO,
    "left by this node: {reason}",
    "A node of a fleet no longer serves the job.",
    reason="the job is over or paused, its turn is over, nothing is ready, or another job goes first",
)
FLEET_SKIPS = _kind(
    "fleet.skips",
    Level.WARNING,
    "skipped by this node: {reason}",
    "A node of a fleet cannot serve the job: its spider does not load or differs from the file that the job was "
    "started with, or the job cannot be read. Reported once per reason; other nodes and other jobs are not affected.",
    reason="what happened",
    hint="what to do",
)

# ---- the command

COMMAND_NOTE = _kind(
    "command.note",
    Level.NOTICE,
    "{text}",
    "A note of the command, such as its job or the next commands. In text mode it is a plain line on standard error.",
    text="the message",
)
COMMAND_WARNING = _kind(
    "command.warning",
    Level.WARNING,
    "{text}",
    "A setting or a part of a spider may have no effect or an unexpected one. In text mode: `warning: …`.",
    text="the message",
)
COMMAND_FAILED = _kind(
    "command.failed",
    Level.ERROR,
    "{error}",
    "The command ends with an error. In text mode: `error: …` and `hint: …`.",
    error="what happened",
    hint="what to do",
    exit_code="of the command",
)

# ---- requests

CALLBACK_FAILED = _kind(
    "callback.failed",
    Level.ERROR,
    "{url} failed in the spider's code; further failures of this kind are only counted\n{traceback}",
    "A callback, an item function or `start()` raised an exception. Reported for the first page of each kind, which "
    "is the class of the exception and the line that raised it; `skitter failed` lists every page.",
    worker="worker that called it",
    url="of the page, or `start()`",
    failure="the kind: class and line",
    traceback="from where the spider's own code begins",
)
CLOSE_FAILED = _kind(
    "hook.close_failed",
    Level.ERROR,
    "on_close failed, and is not called again: {traceback}",
    "The run has finished, and a hook that is called at its end raised an exception or took too long.",
    worker="the worker that called it",
    traceback="of the hook",
)
LOGIN_BEGUN = _kind(
    "session.login_begun",
    Level.INFO,
    "session {session}: logging in (login {number})",
    "The spider's `login` was called for a session that is new, used up, too old or expired. Its requests are queued.",
    worker="the worker that called it",
    session="its name",
    number="number of the login",
)
LOGIN_FAILED = _kind(
    "session.login_failed",
    Level.ERROR,
    "login of session {session} failed: {traceback}",
    "The spider's `login` raised an exception or took too long. It is called again after a while, three times in all.",
    worker="the worker that called it",
    session="its name",
    traceback="from where the spider's own code begins",
)
CALLBACKS_FAILED_AGAIN = _kind(
    "callback.failed_again",
    Level.NOTICE,
    "{failure}: {pages} pages failed in this way",
    "How many pages failed in the same way. Each worker reports it when it ends, if there was more than one.",
    worker="worker that called it",
    failure="the kind: class and line",
    pages="how many, including the first",
)
LEASES_GRANTED = _kind(
    "leases.granted",
    Level.DEBUG,
    "leases taken: {leases}, hosts: {hosts}",
    "Dispatch: a worker was granted a batch of requests.",
    worker="worker that holds them",
    leases="how many",
    hosts="number of different hosts",
)
LINKS_COMMITTED = _kind(
    "links.committed",
    Level.DEBUG,
    "outcomes committed: {pages}, new links: {new}, duplicates: {duplicates}",
    "Deduplication: the links of a batch of pages.",
    worker="worker that committed",
    pages="outcomes that were accepted",
    refused="outcomes whose lease had been lost",
    new="links that were queued",
    duplicates="links that the job had already seen",
)
PAGES_DUE = _kind(
    "pages.due",
    Level.INFO,
    "{pages} pages of earlier runs are queued again",
    "A job that recrawls has queued pages of earlier runs after its seeds: those that are due, or all.",
    worker="worker that queued them",
    pages="how many",
)
LEASES_RECOVERED = _kind(
    "leases.recovered",
    Level.WARNING,
    "{leases} leases of {lost} had expired: their requests are queued again",
    "Recovery: a worker sent no heartbeat for longer than a lease lasts, and another one returned its requests to the "
    "queue.",
    worker="worker that recovered them",
    lost="worker that held them",
    leases="how many",
)

# ---- hosts

HOST_BACKOFF = _kind(
    "host.backoff",
    Level.INFO,
    "{host} is blocked for {seconds} s: {error_class}, {strikes} in a row",
    "A host asked for a pause (429, 503, Retry-After) or could not be reached. No worker sends it requests until then.",
    worker="worker that reported it",
    host="the host key",
    seconds="how long",
    until="end of the pause, by the clock of the node that reports it",
    error_class="why",
    strikes="how often in a row",
)
HOST_GIVEN_UP = _kind(
    "host.given_up",
    Level.WARNING,
    "{host} is given up: {error_class}, {strikes} in a row; its queued requests failed (skitter retry queues them "
    "again)",
    "A host failed so often that all requests queued for it have failed; `skitter retry` queues them again.",
    worker="worker that reported it last",
    host="the host key",
    error_class="why",
    strikes="how often in a row",
)
HOST_STOPPED = _kind(
    "host.stopped",
    Level.INFO,
    "{host} has reached its budget of {pages} pages ({rule}); its remaining requests are excluded",
    "A host has reached its page budget (docs/how-to/crawler-traps.md). Other hosts are not affected.",
    worker="worker that committed the last page",
    host="the host key",
    rule="setting of the budget: `max_pages_per_host` or `trap_pages`",
    pages="pages fetched",
)
ROBOTS_READ = _kind(
    "robots.read",
    Level.DEBUG,
    "{host}/robots.txt was read: {bytes} bytes, crawl-delay {crawl_delay_seconds} s",
    "The robots.txt of a host was read for the whole cluster.",
    worker="worker that read it",
    host="the host key",
    bytes="its size; 0 if there is none",
    crawl_delay_seconds="the delay that it asks for; 0 if none",
)

# ---- the master

MASTER_STARTED = _kind(
    "master.started",
    Level.NOTICE,
    "serving {frontier} at {url}",
    "A master has started to listen.",
    url="address",
    frontier="the store that it serves",
)
MASTER_OPEN = _kind(
    "master.open",
    Level.WARNING,
    "tokens are sent as plain text: {url} has no TLS",
    "A master accepts connections of other machines without TLS.",
    url="address",
)
MASTER_STOPPED = _kind(
    "master.stopped",
    Level.NOTICE,
    "no longer serving at {url}",
    "A master has finished its running calls and ends. Its clients wait for it, or for another one at the same "
    "address.",
    url="its address",
)
MASTER_REFUSED = _kind(
    "master.refused",
    Level.WARNING,
    "refused a call from {client}: {reason}",
    "A call had no credential, an invalid one, or one that does not permit it. Reported at most once in ten seconds.",
    client="the address of the client",
    status="the HTTP status",
    reason="what was wrong",
)
MASTER_TOKENS_READ = _kind(
    "master.tokens_read",
    Level.NOTICE,
    "the token file has changed: {credentials} credentials",
    "The token file of a master has changed, and applies from now on.",
    credentials="number of credentials",
)
MASTER_TOKENS_REFUSED = _kind(
    "master.tokens_refused",
    Level.ERROR,
    "the changed token file cannot be used, so the previous one still applies: {reason}",
    "The token file of a master has changed and contains an error.",
    reason="what is wrong",
)
MASTER_USERS_READ = _kind(
    "master.users_read",
    Level.NOTICE,
    "the users file has changed: {users} users",
    "The users file of a master has changed, and applies from now on.",
    users="number of users",
)
MASTER_USERS_REFUSED = _kind(
    "master.users_refused",
    Level.ERROR,
    "the changed users file cannot be used, so the previous one still applies: {reason}",
    "The users file of a master has changed and contains an error.",
    reason="what is wrong",
)
MASTER_LOGIN_FAILED = _kind(
    "master.login_failed",
    Level.WARNING,
    "wrong password for {user} from {client}",
    "A login failed: a wrong password or an unknown user. Reported at most once in ten seconds.",
    user="the name that was given",
    client="the address of the client",
)

# ---- the audit trail

AUDIT_UNFINISHED = _kind(
    "audit.unfinished",
    Level.WARNING,
    "the outcome of {action} could not be recorded: {error}",
    "A change was made, but its outcome could not be appended to the audit trail, which shows it as unknown.",
    action="the action",
    error="the error of the store",
)

# ---- the frontier

FRONTIER_AWAY = _kind(
    "frontier.unavailable",
    Level.WARNING,
    "{reason}; waiting until it is back",
    "The frontier does not answer. A node reports it once in an outage, and again after a minute if there is another "
    "reason. A frontier that is back for less than ten seconds is in the same outage.",
    store="address of the frontier",
    reason="what happened",
)
FRONTIER_BACK = _kind(
    "frontier.back",
    Level.WARNING,
    "the frontier is back after {seconds} s",
    "The frontier answers again, and the work continues. A node reports it once in an outage.",
    store="address of the frontier",
    seconds="how long it was unavailable",
)
FRONTIER_REPLACED = _kind(
    "frontier.replaced",
    Level.INFO,
    "the frontier was restarted or replaced; changes that it may have lost are sent again",
    "The store was restarted or failed over, so its newest commits may be missing. Each worker notices it.",
    worker="worker that noticed it",
)
FRONTIER_NEARLY_FULL = _kind(
    "frontier.nearly_full",
    Level.WARNING,
    "{place} is nearly full: {free_bytes} of {total_bytes} bytes are free; free some space before the crawl has to "
    "wait",
    "The disk or server of the job has little space left: less than a tenth, and on a disk also less than 2 GB. Each "
    "node checks once a minute, and reports it once until there is space again.",
    place="disk of the file, or server",
    free_bytes="free bytes",
    total_bytes="total bytes",
)

# ---- sinks

SINK_BLOCKING = _kind(
    "sink.blocking",
    Level.WARNING,
    "the outbox is full: {undelivered} items are undelivered to {target}; no requests are leased until it catches up",
    "An output is too slow, or no process writes to it: run `skitter deliver`.",
    target="name of the output",
    undelivered="undelivered items",
    owner="process that writes to it; empty if none",
)
JOB_STANDSTILL = _kind(
    "job.standstill",
    Level.WARNING,
    "no page has ended for {seconds} s: the workers wait for a full outbox, but no output is in trouble; "
    "run skitter fsck, and report its findings",
    "The outbox keeps items although every output has them, or no process delivers and none is reported missing. "
    "`skitter deliver` writes what is undelivered; `skitter fsck --repair` removes items that every output has.",
    seconds="since the last page ended",
    queued="waiting requests",
)
SINK_CAUGHT_UP = _kind(
    "sink.caught_up",
    Level.NOTICE,
    "{target} has caught up; requests are leased again",
    "The outbox is no longer full.",
    target="name of the output",
    undelivered="undelivered items",
)
SINK_FAILED = _kind(
    "sink.failed",
    Level.ERROR,
    "{reason}; the workers of this node stop",
    "An output of this node cannot be written. Committed items stay in the outbox.",
    reason="what happened",
)
SINK_ELSEWHERE = _kind(
    "sink.elsewhere",
    Level.NOTICE,
    "{target} is being written by {owner}",
    "Another process writes to an output that this command names; this one does not.",
    target="name of the output",
    owner="process that writes to it",
)

SINK_TAKEN_OVER = _kind(
    "sink.taken_over",
    Level.NOTICE,
    "no process was writing to {target}; this node does now",
    "The process that wrote to an output has ended, and this node has taken it over.",
    target="name of the output",
)
SINK_LEFT = _kind(
    "sink.left",
    Level.WARNING,
    "no process writes to {target}, and this node cannot: {reason}",
    "No process writes to an output, and this node cannot open it (its password or its driver is missing).",
    target="name of the output",
    reason="what happened",
)
SINK_FOR_PROGRAM = _kind(
    "sink.for_program",
    Level.WARNING,
    "the job keeps {items} items for a program that is not running: skitter.stream(…, job=NAME) reads them, "
    "fresh=True (--fresh) discards them",
    "A program has left `skitter.stream` or the results of `skitter.connect`, and another command continues its job. "
    "Items are kept for the program; when the outbox is full, no more requests are leased.",
    items="items that wait for the program",
)
SINK_RESUMED = _kind(
    "sink.resumed",
    Level.WARNING,
    "{items} items of this run were returned by an earlier stream() and are not returned again; fresh=True (--fresh) "
    "starts from the beginning",
    "A program calls `skitter.stream` with a job whose run is unfinished, and gets the rest of its items.",
    items="items that were returned earlier",
)
SINK_AWAY = _kind(
    "sink.unavailable",
    Level.WARNING,
    "{target} is unavailable: {reason}; waiting until it is back",
    "The server of an output does not answer. It is tried again after half a second, then less and less often, at "
    "least every 30 seconds; the crawl continues until the outbox is full.",
    target="name of the output",
    reason="what happened",
)
SINK_BACK = _kind(
    "sink.back",
    Level.WARNING,
    "{target} is back after {seconds} s",
    "The server of an output answers again, and undelivered items are written.",
    target="name of the output",
    seconds="how long it was unavailable",
)
ITEMS_REJECTED = _kind(
    "items.rejected",
    Level.WARNING,
    "{target} rejected {items} items, which are in the rejects file: {reason}",
    "Some items of a batch cannot be stored, or the output will never accept them; the others are written. Reported "
    "once per batch.",
    target="name of the output",
    items="how many",
    reason="of the first",
)

PROXIES_REGISTERED = _kind(
    "proxies.registered",
    Level.NOTICE,
    "{proxies} proxies from {sources} sources are registered",
    "This node has read its sources of proxies (`--proxies`) and registered them with the job's pool.",
    proxies="how many",
    sources="how many lists, files, URLs and commands they come from",
)
PROXY_LIST_TROUBLE = _kind(
    "proxies.trouble",
    Level.WARNING,
    "{source} has no new list of proxies: {reason}; the last one remains in use",
    "A source of proxies cannot be read, or is empty. It is read again after `proxy_refresh_seconds`.",
    source="the file, URL or command, without passwords",
    reason="what happened",
)
PROXY_BANNED = _kind(
    "proxy.banned",
    Level.NOTICE,
    "proxy {proxy} is banned at {host}: {reason}",
    "A rule or a hook found that a host does not serve a proxy. The proxy gets no requests to that host until its ban "
    "ends; the page is fetched through another one.",
    worker="worker that fetched the page",
    proxy="its id, as `skitter proxies` lists it",
    host="host key",
    reason="why",
)
PROXY_FAILED = _kind(
    "proxy.failed",
    Level.INFO,
    "proxy {proxy} failed at {host}: {reason}",
    "A request failed because of its proxy, or may have. It is fetched through another one; no attempt is counted "
    "unless two proxies agree that the host is at fault.",
    worker="worker that fetched the page",
    proxy="its id, as `skitter proxies` lists it",
    host="host key",
    reason="what happened",
)
INTAKE_OPENED = _kind(
    "intake.opened",
    Level.NOTICE,
    "reading requests from {source}",
    "This node reads an intake. The job does not finish until the intake is closed.",
    source="name of the intake",
)
INTAKE_READ_ELSEWHERE = _kind(
    "intake.read_elsewhere",
    Level.NOTICE,
    "{source} is read by another process; this one waits",
    "Another process reads an intake that only one process may read at a time, or still gets messages where this one "
    "gets none. This node takes over when that process has ended, and stops when the intake is closed.",
    source="name of the intake",
)
INTAKE_PAUSED = _kind(
    "intake.paused",
    Level.NOTICE,
    "{source} is not read for now: {reason}",
    "Messages wait in their source because the job is paused or has reached `max_queued` requests.",
    source="name of the intake",
    reason="why",
)
INTAKE_RESUMED = _kind(
    "intake.resumed",
    Level.NOTICE,
    "{source} is read again",
    "An intake that was paused is read again.",
    source="name of the intake",
)
INTAKE_DEAD_LETTERS = _kind(
    "intake.dead_letters",
    Level.WARNING,
    "{messages} messages of {source} cannot become requests: {reason}",
    "Messages were moved to the dead letters of their source, with the reason, and acknowledged.",
    source="name of the intake",
    messages="how many",
    reason="of the first",
)
INTAKE_TROUBLE = _kind(
    "intake.trouble",
    Level.WARNING,
    "{source} cannot be read: {reason}; retrying",
    "A source is unavailable, or refuses an acknowledgement or a dead letter. Nothing is acknowledged, so nothing is "
    "lost. It is tried again after half a second, then less and less often, at least every 30 seconds.",
    source="name of the intake",
    reason="what happened",
)
INTAKE_BACK = _kind(
    "intake.back",
    Level.WARNING,
    "{source} is read again after {seconds} s",
    "A source that could not be read is read again.",
    source="name of the intake",
    seconds="how long it was not read",
)
INTAKE_CLOSED = _kind(
    "intake.closed",
    Level.NOTICE,
    "{source} is closed: {read} messages were read, {added} requests were new, {dead_letters} are dead letters",
    "A source has ended, or had no messages for the time of `--until-idle`.",
    source="name of the intake",
    read="messages of this run",
    added="of them, requests that were new",
    dead_letters="of them, messages that could not become requests",
)
INTAKE_UNREAD = _kind(
    "intake.unread",
    Level.WARNING,
    "no process reads {source}, and the job does not finish while it is open: --intake reads it, --no-intake closes it",
    "An earlier command has opened an intake that no process reads now, including this one.",
    source="name of the intake",
)

# ---- alerts

ALERT_FIRING = _kind(
    "alert.firing",
    Level.WARNING,
    "alert {alert}: {figure} is {value}, threshold {threshold}",
    "A figure of the job has been beyond the threshold of an alert for the configured time (docs/how-to/alerts.md).",
    alert="its name",
    figure="its figure",
    value="current value",
    threshold="the threshold",
)
ALERT_RESOLVED = _kind(
    "alert.resolved",
    Level.NOTICE,
    "alert {alert} is resolved: {figure} is {value}",
    "The figure of a firing alert is back within its threshold, or the job has ended.",
    alert="its name",
    figure="its figure",
    value="current value; 0 if the job has ended",
    threshold="the threshold",
)
ALERT_NOT_TOLD = _kind(
    "alert.not_told",
    Level.WARNING,
    "alert {alert}: the {place} failed (attempt {tries}): {reason}",
    "A webhook or a command of an alert has failed. It is tried 20 times in a quarter of an hour; the crawl "
    "continues. Reported once per reason, and when it is given up.",
    alert="its name",
    place="webhook or command",
    reason="what happened",
    tries="how often it was tried",
)
ALERTS_AWAY = _kind(
    "alert.unavailable",
    Level.WARNING,
    "this node does not check alerts now: {reason}",
    "The store of the job's locks is unavailable: it is tried again, and other nodes check the alerts meanwhile. Or "
    "the frontier is a master, which has its own alerts.",
    reason="what happened",
)

# ---- published events

EVENTS_AWAY = _kind(
    "events.unavailable",
    Level.WARNING,
    "events are not published: {reason}; they wait, and the crawl continues",
    "The server that events are published to does not answer, or refuses them. It is tried again at least every 15 "
    "seconds. This event itself is not published.",
    stream="URL without secrets",
    reason="what happened",
)
EVENTS_BACK = _kind(
    "events.back",
    Level.WARNING,
    "{stream} is back after {seconds} s; {dropped} events were dropped meanwhile",
    "Events are published again, beginning with those that waited. This event itself is not published: a gap shows in "
    "`sequence`.",
    stream="URL without secrets",
    seconds="how long it was unavailable",
    dropped="events that did not fit into memory",
)
EVENTS_DROPPED = _kind(
    "events.dropped",
    Level.WARNING,
    "{events} events were not published: {stream}",
    "More events waited than fit into 16 MB of memory, or the crawl ended before they could be published. Reported "
    "once per outage. This event itself is not published.",
    stream="URL without secrets",
    events="how many so far",
)

EGRESS_OPENED = _kind(
    "egress.opened",
    Level.NOTICE,
    "the proxy is open: {proxy}, address {address}",
    "An egress is usable, and registers with the job.",
    proxy="its URL, without the password",
    address="its public address; `unknown` without `--address-url`",
)
EGRESS_DRAINING = _kind(
    "egress.draining",
    Level.NOTICE,
    "no new requests until it is back ({reason}); {in_flight} in flight",
    "An egress leaves the pool to redial or to stop.",
    reason="time, banned or stop",
    in_flight="requests that it waits for",
)
EGRESS_CUT = _kind(
    "egress.cut",
    Level.WARNING,
    "{in_flight} requests are still in flight after {seconds} s; they are cut off, and tried again elsewhere",
    "An egress has waited for `--drain-seconds`.",
    in_flight="requests",
    seconds="how long it has waited",
)
EGRESS_REDIALED = _kind(
    "egress.redialed",
    Level.NOTICE,
    "redialed in {seconds} s",
    "The redial command of an egress has succeeded. The new address is tested next.",
    seconds="how long it took",
)
EGRESS_REDIAL_FAILED = _kind(
    "egress.redial_failed",
    Level.WARNING,
    "the redial command failed: {error}",
    "It is run again, at least `--at-least` seconds after its last start.",
    error="its exit code and last line of output, or that it timed out",
)
EGRESS_NOT_USABLE = _kind(
    "egress.not_usable",
    Level.WARNING,
    "the proxy cannot be used: {error}",
    "An egress has redialed, but the new address does not work or is the banned one. It redials again.",
    error="result of the test",
)
EGRESS_STORE_AWAY = _kind(
    "egress.store_away",
    Level.WARNING,
    "not in the pool until the store and the job are available: {error}",
    "An egress cannot register. It continues to serve requests that it was given.",
    error="what the store said",
)
EGRESS_STORE_BACK = _kind(
    "egress.store_back",
    Level.NOTICE,
    "in the pool again after {seconds} s",
    "Follows `egress.store_away`.",
    seconds="how long it was unavailable",
)
EGRESS_STOPPED = _kind(
    "egress.stopped",
    Level.NOTICE,
    "the egress has stopped after {requests} requests and {redials} redials",
    "An egress has ended normally.",
    requests="requests forwarded; a tunnel counts as one",
    redials="how often the redial command was run",
)

SCHEDULER_STARTED = _kind(
    "scheduler.started",
    Level.NOTICE,
    "scheduler {owner} has started, with {schedules} schedules in {store}",
    "A scheduler has opened its store.",
    owner="the scheduler",
    schedules="number of schedules",
    store="its frontier, without a password",
)
SCHEDULER_LEADS = _kind(
    "scheduler.leads",
    Level.NOTICE,
    "this scheduler is the leader",
    "From now on it starts the ticks of all schedules; the others wait until it ends.",
    owner="the scheduler",
)
SCHEDULER_FOLLOWS = _kind(
    "scheduler.follows",
    Level.NOTICE,
    "another scheduler is the leader: {leader}",
    "This one waits, and takes over when the leader has ended.",
    leader="the scheduler that leads",
)
SCHEDULER_STOPPED = _kind(
    "scheduler.stopped",
    Level.NOTICE,
    "scheduler {owner} has stopped; it started {started} ticks, {taken_over} of them for other schedulers",
    "A scheduler has ended normally. The next leader resumes what its commands left.",
    owner="the scheduler",
    started="ticks that it started",
    taken_over="of these, ticks whose scheduler had died or left",
    not_run="ticks that it recorded as skipped or missed",
)
SCHEDULER_STORE_AWAY = _kind(
    "scheduler.store_away",
    Level.WARNING,
    "no tick starts until the store is back: {error}",
    "The store of schedules is unavailable. Running commands continue.",
    error="what the store said",
)
SCHEDULER_STORE_BACK = _kind(
    "scheduler.store_back",
    Level.NOTICE,
    "the store of schedules is back after {seconds} s",
    "Follows `scheduler.store_away`.",
    seconds="how long it was unavailable",
)
SCHEDULE_FROM_FILE = _kind(
    "schedule.from_file",
    Level.NOTICE,
    "schedule {schedule}: {what} (from {origin})",
    "A scheduler has compared the schedules of the project file with those that are stored.",
    schedule="its name",
    what="added, changed, or kept: it is no longer in the file; `skitter schedule remove` removes it",
    origin="the file",
)
TICK_STARTED = _kind(
    "schedule.tick_started",
    Level.NOTICE,
    "schedule {schedule}: the tick of {scheduled_at} starts: skitter {command}",
    "A command of a schedule has started.",
    schedule="its name",
    scheduled_at="nominal time of the tick, UTC",
    command="the command",
    attempt="1, or more after a failure",
    taken_over="whether another scheduler had started it and died, so that its work is resumed",
)
TICK_ENDED = _kind(
    "schedule.tick_ended",
    Level.NOTICE,
    "schedule {schedule}: the tick of {scheduled_at} is {outcome} after {seconds} s: {reason}",
    "A command of a schedule has ended.",
    schedule="its name",
    scheduled_at="nominal time of the tick, UTC",
    outcome="done or failed",
    reason="why it failed, or the exit code",
    exit_code="of the command",
    seconds="from the start of the tick, with all attempts",
)
TICK_RETRY = _kind(
    "schedule.tick_retry",
    Level.WARNING,
    "schedule {schedule}: the tick of {scheduled_at} failed and is tried again in {seconds} s: {reason}",
    "A command of a schedule has failed, and its schedule has retries.",
    schedule="its name",
    scheduled_at="nominal time of the tick, UTC",
    reason="why it failed",
    seconds="until the next attempt",
)
TICK_NOT_RUN = _kind(
    "schedule.tick_not_run",
    Level.WARNING,
    "schedule {schedule}: the tick of {scheduled_at} is {outcome}: {reason}",
    "A tick did not run. The history shows it.",
    schedule="its name",
    scheduled_at="nominal time of the tick, UTC",
    outcome="skipped or missed",
    reason="why",
)
TICK_LOST = _kind(
    "schedule.tick_lost",
    Level.WARNING,
    "schedule {schedule}: the tick of {scheduled_at} belongs to another scheduler now; its command is stopped here",
    "This scheduler sent no heartbeat for longer than a claim lasts.",
    schedule="its name",
    scheduled_at="nominal time of the tick, UTC",
)
LOG = _kind(
    "log",
    Level.INFO,
    "{text}",
    "A message that a spider, skitter or a library sent through Python's `logging`. The level is that of the record.",
    logger="its name",
    text="the message",
)
