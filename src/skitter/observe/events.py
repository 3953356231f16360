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
    "This node joined a job with other settings than its own command line has.",
    settings="those of this command line that have no effect",
)
JOB_SETTINGS_CHANGED = _kind(
    "job.settings_changed",
    Level.NOTICE,
    "the job goes on with other settings: {settings}",
    "Settings of the running job were changed (docs/how-to/change-a-running-job.md). Each node reports it.",
    settings="as in `delay_seconds=2`",
)
JOB_RUN_KNOWN = _kind(
    "job.run_known",
    Level.NOTICE,
    "run {run} of this key is finished already, and no other begins: {key}",
    "A crawl was given a --run-key whose run is over: nothing is left to do.",
    key="of the run",
    run="its number",
)
JOB_BLOOM = _kind(
    "job.bloom",
    Level.NOTICE,
    "dedup=bloom: of new pages, up to {percent} % are taken for known and never fetched",
    "A run with a Bloom filter has begun (docs/how-to/dedup.md).",
    percent="of new pages: dedup_error_rate",
    capacity="pages that the filter is made for",
)
JOB_FILTER_NEARLY_FULL = _kind(
    "job.filter_nearly_full",
    Level.WARNING,
    "the Bloom filter has {items} of {capacity} pages: beyond, it grows, and takes more memory for each",
    "A run with `dedup=bloom` has come to 90 % of `dedup_capacity`.",
    items="pages that are in the filter",
    capacity="pages that it was made for",
)
JOB_OTHER_VERSION = _kind(
    "job.other_version",
    Level.WARNING,
    "this is skitter {version}, the job was begun by {begun_by}: same format, but better use one version everywhere",
    "This node runs another skitter than the one that began the job. (Another stored format is an error.)",
    version="of this node",
    begun_by="of the node that began or last resumed the run",
)
JOB_OTHER_CODE = _kind(
    "job.other_code",
    Level.WARNING,
    "{spider} of this node is not the file that the job was begun with; bring all nodes to the same version of it",
    "The spider's file has the right class, and other content than on the node that began the job.",
    spider="file and class on this node",
)

JOB_NO_OUTPUT = _kind(
    "job.no_output",
    Level.NOTICE,
    "no output is named: items are counted, and not kept; -o FILE keeps them",
    "The job has no target for its items.",
)
JOB_PROGRESS = _kind(
    "job.progress",
    Level.INFO,
    "{state}: {pages} pages, {pages_per_second} pages/s, {queued} queued, {in_flight} in flight, {failed} failed",
    "How far the job is, every ten seconds. In text it is a plain line of standard error, or the live display.",
    state="of the job",
    seconds="since the run began",
    pages="done",
    unchanged="of these, in a job that recrawls",
    pages_per_second="over the last ten seconds",
    queued="waiting, those with a delay included",
    in_flight="being fetched",
    failed="dead",
    excluded="by a rule",
    items="of all pages",
    bytes="fetched",
    blocked_by="sinks that stop the leasing",
)
JOB_STATS = _kind(
    "job.stats",
    Level.INFO,
    "{pages_per_minute} pages/min, {items_per_minute} items/min; {pages} pages, {items} items, {failed} failed",
    "How fast the job is, every `stats_seconds`.",
    pages="done",
    items="of all pages",
    failed="dead",
    pages_per_minute="since the last of these events",
    items_per_minute="likewise",
    stats="what the spider and its hooks have counted, by name",
)
JOB_LIMIT = _kind(
    "job.limit",
    Level.NOTICE,
    "the job is stopped by {limit}: {reached} of {allowed}",
    "A setting that closes the job after so many items, errors or seconds has done so.",
    limit="the setting",
    reached="how many there are",
    allowed="its value",
)
JOB_SUMMARY = _kind(
    "job.summary",
    Level.NOTICE,
    "{text}",
    "How the command ended. In text these are the last lines of standard error.",
    text="in words",
    summary="the object that `--json` prints",
)

# ---- workers

WORKER_JOINED = _kind(
    "worker.joined",
    Level.INFO,
    "worker {worker} joined: skitter {version}, {spider}",
    "A worker began to work for the job.",
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
    "A worker ended as it should; what it held is committed or handed back.",
    worker="its id",
    reason="the job is over, it was asked to stop, or a new run has begun",
)
WORKER_DIED = _kind(
    "worker.died",
    Level.WARNING,
    "worker {worker} died ({how}); {leases} leases are returned",
    "A worker of this node ended in the middle of its work, while the node was stopping or after it was relieved.",
    worker="its id",
    how="a signal, an exit code, or why its supervisor ended it",
    leases="how many it held",
)
WORKER_REPLACED = _kind(
    "worker.replaced",
    Level.WARNING,
    "worker {worker} died ({how}); {leases} leases are returned, and another worker is started",
    "A worker of this node ended in the middle of its work, and the node starts another one.",
    worker="the id of the dead one",
    how="a signal, an exit code, or why its supervisor ended it",
    leases="how many it held",
)
WORKER_HELD = _kind(
    "worker.held",
    Level.WARNING,
    "worker {worker} is held by one page for {seconds} s; {leases} leases are returned, and another worker is started",
    "A page holds the event loop of its worker (a slow callback, a runaway regular expression). The page has until "
    "callback_seconds to end; everything else of its worker goes on in another one.",
    worker="the id of the held one",
    seconds="for how long",
    leases="how many are returned; the page stays with it",
)
WORKER_MEMORY = _kind(
    "worker.memory",
    Level.WARNING,
    "worker {worker} has {resident_bytes} bytes of memory: {consequence}",
    "A worker process has reached `memory_warning_bytes` or `memory_limit_bytes`.",
    worker="its id",
    resident_bytes="what it takes",
    consequence="what is done about it",
)
BROWSER_STARTED = _kind(
    "browser.started",
    Level.INFO,
    "a browser was started in {seconds} s: {program}",
    "A worker has started a browser, for requests that are rendered.",
    program="Chromium's program",
    seconds="how long it took",
)
BROWSER_RETIRED = _kind(
    "browser.retired",
    Level.INFO,
    "a browser is closed after {pages} pages and {seconds} s: {reason}",
    "A browser takes no more pages, by `browser_max_pages`, `browser_max_seconds` or `browser_max_bytes`; another one "
    "is started when a page comes.",
    reason="why",
    pages="how many it has had",
    seconds="how old it is",
)
BROWSER_LOST = _kind(
    "browser.lost",
    Level.WARNING,
    "a browser was lost with {pages} pages in it, after {served}: {reason}",
    "A browser has crashed, was killed, or did not answer and was killed. Its pages are handed back without an "
    "attempt.",
    reason="what is known of it",
    pages="pages that it was rendering",
    served="pages that it has had",
)
BROWSER_FAILED = _kind(
    "browser.failed",
    Level.WARNING,
    "nothing is rendered here for {seconds} s: {reason}",
    "A browser could not be started. Requests that are to be rendered wait, for this worker or for another.",
    reason="what Chromium said",
    seconds="until it is tried again",
)
WORKER_GONE = _kind(
    "worker.gone",
    Level.WARNING,
    "worker {worker} is gone; {leases} leases are returned",
    "A worker was found to be dead together with its supervisor, by a node of the same machine or by one with the same "
    "coordinator; its leases are returned at once.",
    worker="its id",
    leases="how many it held",
)
COORDINATOR_STATE = _kind(
    "coordinator.state",
    Level.WARNING,
    "the coordinator is {state}: {coordinator}",
    "This node has lost its coordinator or found it again (docs/how-to/coordinate-nodes.md). Meanwhile its workers "
    "start nothing; after a while they break off what they have in flight.",
    coordinator="its address",
    state="connected, suspended (no answer at the moment), or lost (none for so long that others may take this node "
    "for gone)",
)
NODE_STOPPING = _kind(
    "node.stopping",
    Level.NOTICE,
    "stopping: finishing what is in flight; once more to leave at once, nothing is lost",
    "This node was asked to stop, by Ctrl-C or SIGTERM.",
    signal="its number",
)

# ---- a fleet

FLEET_SERVES = _kind(
    "fleet.serves",
    Level.INFO,
    "served by this node, workers: {workers}",
    "A node of a fleet (`skitter worker --every-job`) begins to serve the job.",
    workers="how many of this node's workers it gets",
    priority="of the job",
)
FLEET_LEAVES = _kind(
    "fleet.leaves",
    Level.INFO,
    "left by this node: {reason}",
    "A node of a fleet serves the job no longer.",
    reason="the job is over or paused, its turn is over, nothing is ready, or another job goes first",
)
FLEET_SKIPS = _kind(
    "fleet.skips",
    Level.WARNING,
    "skipped by this node: {reason}",
    "A node of a fleet cannot serve the job: its spider does not load, or is another file than the one that the job "
    "was begun with; or the job cannot be read. Told once for each reason; other nodes and other jobs go on.",
    reason="what happened",
    hint="what to do",
)

# ---- the command

COMMAND_NOTE = _kind(
    "command.note",
    Level.NOTICE,
    "{text}",
    "A note of the command: its job, the next commands. In text it is a plain line of standard error.",
    text="what was said",
)
COMMAND_WARNING = _kind(
    "command.warning",
    Level.WARNING,
    "{text}",
    "A setting or a part of a spider that may have no effect or an unexpected one. In text: `warning: …`.",
    text="what was said",
)
COMMAND_FAILED = _kind(
    "command.failed",
    Level.ERROR,
    "{error}",
    "The command ends with an error. In text: `error: …` and `hint: …`.",
    error="what happened",
    hint="what to do",
    exit_code="of the command",
)

# ---- requests

CALLBACK_FAILED = _kind(
    "callback.failed",
    Level.ERROR,
    "{url} failed in the spider's code; further failures of this kind are only counted\n{traceback}",
    "A callback, an item function or `start()` raised. Told for the first page of each kind, which is the class of the "
    "exception and the line that raised it; `skitter failed` lists every page.",
    worker="worker that called it",
    url="of the page; `start()`: of the spider's start",
    failure="the kind: class and line",
    traceback="from where the spider's own code begins",
)
CLOSE_FAILED = _kind(
    "hook.close_failed",
    Level.ERROR,
    "on_close failed, and is not called again: {traceback}",
    "The run is finished, and a hook that is called at its end raised or took too long.",
    worker="the worker that called it",
    traceback="of the hook",
)
LOGIN_BEGUN = _kind(
    "session.login_begun",
    Level.INFO,
    "session {session} is logged in (login {number})",
    "The spider's `login` was called for a session that is new, used up, too old or expired. Its requests are queued.",
    worker="the worker that called it",
    session="its name",
    number="counts its logins",
)
LOGIN_FAILED = _kind(
    "session.login_failed",
    Level.ERROR,
    "login of session {session} failed: {traceback}",
    "The spider's `login` raised or took too long. It is called again after a while, three times in all.",
    worker="the worker that called it",
    session="its name",
    traceback="from where the spider's own code begins",
)
CALLBACKS_FAILED_AGAIN = _kind(
    "callback.failed_again",
    Level.NOTICE,
    "{failure}: {pages} pages failed in this way",
    "How many pages failed in the same way. Told by each worker at its end, if it was more than one.",
    worker="worker that called it",
    failure="the kind: class and line",
    pages="how many, the first included",
)
LEASES_GRANTED = _kind(
    "leases.granted",
    Level.DEBUG,
    "leases taken: {leases}, hosts: {hosts}",
    "Dispatch: a worker was granted a batch of requests.",
    worker="worker that holds them",
    leases="how many",
    hosts="of how many hosts they are",
)
LINKS_COMMITTED = _kind(
    "links.committed",
    Level.DEBUG,
    "outcomes committed: {pages}, new links: {new}, already known: {known}",
    "Dedup: what became of the links of a batch of pages.",
    worker="worker that committed",
    pages="outcomes that were accepted",
    refused="outcomes whose lease was lost meanwhile",
    new="links that were queued",
    known="links that the worker or the frontier knew",
)
PAGES_DUE = _kind(
    "pages.due",
    Level.INFO,
    "{pages} known pages are to be fetched again",
    "A job that recrawls has queued pages of earlier runs behind its seeds: those that are due, or all.",
    worker="who queued them",
    pages="how many",
)
LEASES_RECOVERED = _kind(
    "leases.recovered",
    Level.WARNING,
    "{leases} leases of {lost} had expired: their requests are queued again",
    "Recovery: a worker was silent for longer than a lease lasts, and another one returned its requests to the queue.",
    worker="worker that recovered them",
    lost="worker that held them",
    leases="how many",
)

# ---- hosts

HOST_BACKOFF = _kind(
    "host.backoff",
    Level.INFO,
    "{host} is left alone for {seconds} s: {error_class}, {strikes} in a row",
    "A host asked for a pause (429, 503, Retry-After) or could not be reached. All workers leave it alone.",
    worker="worker that reported it",
    host="the host key",
    seconds="how long",
    until="until when, by the clock of the node that tells it",
    error_class="why",
    strikes="how often in a row",
)
HOST_GIVEN_UP = _kind(
    "host.given_up",
    Level.WARNING,
    "{host} is given up: {error_class}, {strikes} in a row; its queue is dead until skitter retry",
    "A host failed so often that what is queued for it is dead; `skitter retry` queues it again.",
    worker="worker that reported it last",
    host="the host key",
    error_class="why",
    strikes="how often in a row",
)
HOST_STOPPED = _kind(
    "host.stopped",
    Level.INFO,
    "{host} has had its {pages} pages ({rule}); what waits for it is excluded",
    "The budget of a host is spent (docs/how-to/avoid-traps.md). Other hosts go on.",
    worker="worker that committed the last page",
    host="the host key",
    rule="the setting that the budget comes from: max_pages_per_host or trap_pages",
    pages="what it was spent on",
)
ROBOTS_READ = _kind(
    "robots.read",
    Level.DEBUG,
    "{host}/robots.txt was read: {bytes} bytes, crawl-delay {crawl_delay_seconds} s",
    "The robots.txt of a host was read for the whole cluster.",
    worker="worker that read it",
    host="the host key",
    bytes="its length; 0: there is none",
    crawl_delay_seconds="the delay it asks for; 0: none",
)

# ---- the master

MASTER_STARTED = _kind(
    "master.started",
    Level.NOTICE,
    "serving {frontier} at {url}",
    "A master listens.",
    url="where",
    frontier="the store behind it",
)
MASTER_OPEN = _kind(
    "master.open",
    Level.WARNING,
    "tokens cross the network as plain text: {url} has no TLS",
    "A master listens beyond this machine, without TLS.",
    url="where",
)
MASTER_STOPPED = _kind(
    "master.stopped",
    Level.NOTICE,
    "no longer serving at {url}",
    "A master has finished its running calls and ends. Its clients wait for it, or for another one at its address.",
    url="where it listened",
)
MASTER_REFUSED = _kind(
    "master.refused",
    Level.WARNING,
    "refused a call of {client}: {reason}",
    "A call without a credential, with one that does not permit it, or that is none. Told once in ten seconds at most.",
    client="the address of the client",
    status="the HTTP status",
    reason="what was wrong",
)
MASTER_TOKENS_READ = _kind(
    "master.tokens_read",
    Level.NOTICE,
    "the token file has changed: {credentials} credentials",
    "The token file of a master has changed, and counts from now on.",
    credentials="how many it has",
)
MASTER_TOKENS_REFUSED = _kind(
    "master.tokens_refused",
    Level.ERROR,
    "the token file has changed and cannot be used, so the old one still counts: {reason}",
    "The token file of a master has changed and has a mistake in it.",
    reason="what is wrong",
)
MASTER_USERS_READ = _kind(
    "master.users_read",
    Level.NOTICE,
    "the file of users has changed: {users} users",
    "The file of a master's users has changed, and counts from now on.",
    users="how many it has",
)
MASTER_USERS_REFUSED = _kind(
    "master.users_refused",
    Level.ERROR,
    "the file of users has changed and cannot be used, so the old one still counts: {reason}",
    "The file of a master's users has changed and has a mistake in it.",
    reason="what is wrong",
)
MASTER_LOGIN_FAILED = _kind(
    "master.login_failed",
    Level.WARNING,
    "a wrong password for {user} from {client}",
    "A login with a wrong password, or of a user that there is not. Told once in ten seconds at most.",
    user="the name that was given",
    client="the address of the client",
)

# ---- the audit trail

AUDIT_UNFINISHED = _kind(
    "audit.unfinished",
    Level.WARNING,
    "how {action} ended could not be recorded: {error}",
    "A mutation was made and its outcome could not be appended to the audit trail, which shows it as unknown.",
    action="the mutation",
    error="the error of the store",
)

# ---- the frontier

FRONTIER_AWAY = _kind(
    "frontier.away",
    Level.WARNING,
    "{reason}; waiting until it is back",
    "The frontier does not answer. A process reports it once for each waiting connection.",
    reason="what happened",
)
FRONTIER_BACK = _kind(
    "frontier.back",
    Level.WARNING,
    "the frontier is back after {seconds} s",
    "The frontier answers again, and the work goes on.",
    seconds="how long it was away",
)
FRONTIER_REPLACED = _kind(
    "frontier.replaced",
    Level.WARNING,
    "the frontier was restarted or replaced: requests that it may have lost are sent again",
    "The store was restarted or failed over: its newest commits may be missing.",
    worker="worker that noticed it",
)
FRONTIER_NEARLY_FULL = _kind(
    "frontier.nearly_full",
    Level.WARNING,
    "{place} is nearly full: {free_bytes} of {total_bytes} bytes are free; make room before the crawl has to wait",
    "What the job is stored on has little room left: less than a tenth, and of a disk less than 2 GB as well. "
    "Each node looks once a minute, and tells it once until there is room again.",
    place="disk of the file, or server",
    free_bytes="bytes that are left",
    total_bytes="bytes that there are",
)

# ---- sinks

SINK_BLOCKING = _kind(
    "sink.blocking",
    Level.WARNING,
    "the outbox is full: {target} lacks {undelivered} items; nothing is leased until it catches up",
    "A sink is too slow, or no process delivers to it: run `skitter drain`.",
    target="of the sink",
    undelivered="items it lacks",
    owner="process that delivers to it; empty: none",
)
SINK_CAUGHT_UP = _kind(
    "sink.caught_up",
    Level.NOTICE,
    "{target} has caught up: the leasing goes on",
    "The outbox is no longer full.",
    target="of the sink",
    undelivered="items it lacks",
)
SINK_FAILED = _kind(
    "sink.failed",
    Level.ERROR,
    "{reason}; the workers of this node stop",
    "A target of this node cannot be written. What is committed stays in the outbox.",
    reason="what happened",
)
SINK_ELSEWHERE = _kind(
    "sink.elsewhere",
    Level.NOTICE,
    "{target} is being written by {owner}",
    "Another process delivers to a target that this command names; this one leaves it alone.",
    target="of the sink",
    owner="process that delivers to it",
)

SINK_TAKEN_OVER = _kind(
    "sink.taken_over",
    Level.NOTICE,
    "no process wrote to {target}: this node does now",
    "The process that delivered to a target is gone, and this node has taken the target over.",
    target="of the sink",
)
SINK_LEFT = _kind(
    "sink.left",
    Level.WARNING,
    "no process writes to {target}, and this node cannot: {reason}",
    "No process delivers to a target, and this node cannot open it (its password or its driver is missing).",
    target="of the sink",
    reason="what happened",
)
SINK_FOR_PROGRAM = _kind(
    "sink.for_program",
    Level.WARNING,
    "the job keeps its items for a program that is not here, and {items} wait: skitter.stream takes them, a fresh run "
    "forgets them",
    "A program has left ``skitter.stream`` or the results of ``skitter.connect``, and another command goes on with its "
    "job. Items are kept for the program; when the outbox is full, leasing stops.",
    items="that wait for the program",
)
SINK_AWAY = _kind(
    "sink.away",
    Level.WARNING,
    "{target} is away: {reason}; waiting until it is back",
    "The server of a target does not answer. It is tried again after half a second, and less and less often, at least "
    "every 30 seconds; meanwhile the crawl goes on until the outbox is full.",
    target="of the sink",
    reason="what happened",
)
SINK_BACK = _kind(
    "sink.back",
    Level.WARNING,
    "{target} is back after {seconds} s",
    "The server of a target answers again, and what waits for it is written.",
    target="of the sink",
    seconds="how long it was away",
)
ITEMS_REJECTED = _kind(
    "items.rejected",
    Level.WARNING,
    "{target} lacks {items} items, which are in the rejects file: {reason}",
    "Some items of a batch cannot be stored, or the target will never take them; the others are written. Said once for "
    "each batch.",
    target="of the sink",
    items="how many",
    reason="of the first",
)

PROXIES_REGISTERED = _kind(
    "proxies.registered",
    Level.NOTICE,
    "{proxies} proxies of {sources} sources are registered",
    "This node has read its sources of proxies (`--proxies`), and the job's pool has them.",
    proxies="how many",
    sources="how many lists, files, URLs and commands they come from",
)
PROXY_LIST_TROUBLE = _kind(
    "proxies.trouble",
    Level.WARNING,
    "{source} gives no new list of proxies: {reason}; the last one stays in force",
    "A source of proxies cannot be read, or is empty. It is read again after `proxy_refresh_seconds`.",
    source="the file, URL or command, without passwords",
    reason="what happened",
)
PROXY_BANNED = _kind(
    "proxy.banned",
    Level.NOTICE,
    "proxy {proxy} is banned at {host}: {reason}",
    "A rule or a hook says that a host does not serve a proxy. It gets nothing of that host until its cool-off is "
    "over; the page is fetched through another one.",
    worker="whose page it was",
    proxy="its id, as `skitter proxies` lists it",
    host="host key",
    reason="why",
)
PROXY_FAILED = _kind(
    "proxy.failed",
    Level.INFO,
    "proxy {proxy} failed at {host}: {reason}",
    "A request failed by its proxy, or may have; it is fetched through another one, and spends no attempt unless two "
    "proxies agree that it was the host.",
    worker="whose page it was",
    proxy="its id, as `skitter proxies` lists it",
    host="host key",
    reason="what happened",
)
INTAKE_OPENED = _kind(
    "intake.opened",
    Level.NOTICE,
    "reading requests from {source}",
    "This node reads an intake. The job does not finish until the intake is closed.",
    source="of the intake",
)
INTAKE_READ_ELSEWHERE = _kind(
    "intake.read_elsewhere",
    Level.NOTICE,
    "{source} is read by another process; this one waits",
    "Another process reads an intake that one process reads at a time, or goes on where nothing came for this one. "
    "This node takes over when that one is gone, and stops when the intake is closed.",
    source="of the intake",
)
INTAKE_PAUSED = _kind(
    "intake.paused",
    Level.NOTICE,
    "{source} is not read for now: {reason}",
    "Messages wait in their source, because the job is paused or as many requests are queued as `max_queued` allows.",
    source="of the intake",
    reason="why",
)
INTAKE_RESUMED = _kind(
    "intake.resumed",
    Level.NOTICE,
    "{source} is read again",
    "An intake that was paused is read again.",
    source="of the intake",
)
INTAKE_DEAD_LETTERS = _kind(
    "intake.dead_letters",
    Level.WARNING,
    "{messages} messages of {source} cannot become requests: {reason}",
    "Messages were put to the dead letters of their source, with the reason, and acknowledged.",
    source="of the intake",
    messages="how many",
    reason="of the first",
)
INTAKE_TROUBLE = _kind(
    "intake.trouble",
    Level.WARNING,
    "{source} cannot be read: {reason}; it is tried again",
    "A source is away, or does not take an acknowledgement or a dead letter. Nothing is acknowledged, so nothing is "
    "lost. It is tried again after half a second, and less and less often, at least every 30 seconds.",
    source="of the intake",
    reason="what happened",
)
INTAKE_BACK = _kind(
    "intake.back",
    Level.WARNING,
    "{source} is read again after {seconds} s",
    "A source that was in trouble is read again.",
    source="of the intake",
    seconds="how long it was not read",
)
INTAKE_CLOSED = _kind(
    "intake.closed",
    Level.NOTICE,
    "{source} is closed: {read} messages were read, {added} requests were new, {dead_letters} are dead letters",
    "A source has come to its end, or nothing came for as long as `--until-idle` says.",
    source="of the intake",
    read="messages of this run",
    added="of them, requests that were new",
    dead_letters="of them, messages that could not become requests",
)
INTAKE_UNREAD = _kind(
    "intake.unread",
    Level.WARNING,
    "nobody reads {source}, and the job does not finish while it is open: --intake reads it, --no-intake closes it",
    "An earlier command has opened an intake that no process reads now, and this one does not either.",
    source="of the intake",
)

# ---- published events

EVENTS_AWAY = _kind(
    "events.away",
    Level.WARNING,
    "events are not published: {reason}; they wait, and the crawl goes on",
    "The server that events are published to does not answer, or refuses them. It is tried again, at least every 15 "
    "seconds. Not published itself.",
    stream="URL without secrets",
    reason="what happened",
)
EVENTS_BACK = _kind(
    "events.back",
    Level.WARNING,
    "{stream} is back after {seconds} s; {dropped} events were dropped meanwhile",
    "Events are published again, those that waited first. Not published itself: a hole shows in `sequence`.",
    stream="URL without secrets",
    seconds="how long it was away",
    dropped="events that did not fit into memory",
)
EVENTS_DROPPED = _kind(
    "events.dropped",
    Level.WARNING,
    "{events} events were not published: {stream}",
    "More events waited than 16 MB of memory hold, or the crawl ended before they could be published. Told once for "
    "each absence. Not published itself.",
    stream="URL without secrets",
    events="how many, until now",
)

EGRESS_OPENED = _kind(
    "egress.opened",
    Level.NOTICE,
    "the proxy is open: {proxy}, address {address}",
    "An egress can be used, and registers itself with the job.",
    proxy="its URL, without the password",
    address="from which it goes out; `unknown` without `--address-url`",
)
EGRESS_DRAINING = _kind(
    "egress.draining",
    Level.NOTICE,
    "no more requests until it is back ({reason}); {in_flight} are in flight",
    "An egress leaves the pool: because it redials, or because it stops.",
    reason="time, banned or stop",
    in_flight="requests that it waits for",
)
EGRESS_CUT = _kind(
    "egress.cut",
    Level.WARNING,
    "{in_flight} requests are still in flight after {seconds} s; they are cut off, and tried again elsewhere",
    "An egress has waited for as long as `--drain-seconds` says.",
    in_flight="requests",
    seconds="how long it has waited",
)
EGRESS_REDIALED = _kind(
    "egress.redialed",
    Level.NOTICE,
    "redialed in {seconds} s",
    "The command of an egress has ended well. Whether the address can be used is tested next.",
    seconds="how long it took",
)
EGRESS_REDIAL_FAILED = _kind(
    "egress.redial_failed",
    Level.WARNING,
    "the redial command has failed: {error}",
    "It is run again, not before `--at-least` seconds after it was begun.",
    error="its exit code and the last line that it wrote, or that its time was over",
)
EGRESS_NOT_USABLE = _kind(
    "egress.not_usable",
    Level.WARNING,
    "the proxy cannot be used: {error}",
    "An egress has redialed, and the new address does not work, or is the one that was banned. It redials again.",
    error="what the test has found",
)
EGRESS_STORE_AWAY = _kind(
    "egress.store_away",
    Level.WARNING,
    "not in the pool until the store and the job are there: {error}",
    "An egress cannot register. It goes on with what it was granted.",
    error="what the store said",
)
EGRESS_STORE_BACK = _kind(
    "egress.store_back",
    Level.NOTICE,
    "in the pool again after {seconds} s",
    "Follows egress.store_away.",
    seconds="how long it was away",
)
EGRESS_STOPPED = _kind(
    "egress.stopped",
    Level.NOTICE,
    "the egress has stopped; it has passed on {requests} requests, and redialed {redials} times",
    "An egress has ended in order.",
    requests="tunnels count as one",
    redials="how often its command was run",
)

SCHEDULER_STARTED = _kind(
    "scheduler.started",
    Level.NOTICE,
    "scheduler {owner} is up, with {schedules} schedules in {store}",
    "A scheduler has opened its store.",
    owner="the scheduler",
    schedules="number of schedules",
    store="its frontier, without a password",
)
SCHEDULER_LEADS = _kind(
    "scheduler.leads",
    Level.NOTICE,
    "this scheduler leads",
    "It starts the ticks of all schedules from now on; others wait until it is gone.",
    owner="the scheduler",
)
SCHEDULER_FOLLOWS = _kind(
    "scheduler.follows",
    Level.NOTICE,
    "another scheduler leads: {leader}",
    "This one waits, and takes over when the leader is gone.",
    leader="the scheduler that leads",
)
SCHEDULER_STOPPED = _kind(
    "scheduler.stopped",
    Level.NOTICE,
    "scheduler {owner} has stopped; it had started {started} ticks, {taken_over} of them for others",
    "A scheduler has ended in order. What its commands left is resumed by the next that leads.",
    owner="the scheduler",
    started="ticks that it started",
    taken_over="of these, ticks whose scheduler had died or left",
    not_run="ticks that it recorded as skipped or missed",
)
SCHEDULER_STORE_AWAY = _kind(
    "scheduler.store_away",
    Level.WARNING,
    "no tick starts until the store is back: {error}",
    "The store of schedules cannot be reached. Commands that run go on.",
    error="what the store said",
)
SCHEDULER_STORE_BACK = _kind(
    "scheduler.store_back",
    Level.NOTICE,
    "the store of schedules is back after {seconds} s",
    "Follows scheduler.store_away.",
    seconds="how long it was away",
)
SCHEDULE_FROM_FILE = _kind(
    "schedule.from_file",
    Level.NOTICE,
    "schedule {schedule}: {what}, as {origin} says",
    "A scheduler has compared the schedules of the project file with those that are stored.",
    schedule="its name",
    what="added, changed; or kept: it is no longer in the file, and `skitter schedule remove` removes it",
    origin="the file",
)
TICK_STARTED = _kind(
    "schedule.tick_started",
    Level.NOTICE,
    "schedule {schedule}: the tick of {scheduled_at} starts: skitter {command}",
    "A command of a schedule begins.",
    schedule="its name",
    scheduled_at="nominal time of the tick, UTC",
    command="what is run",
    attempt="1, or more after a failure",
    taken_over="whether its scheduler died, so that what it had begun is resumed",
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
    "A tick did not run, and the history says so.",
    schedule="its name",
    scheduled_at="nominal time of the tick, UTC",
    outcome="skipped or missed",
    reason="why",
)
TICK_LOST = _kind(
    "schedule.tick_lost",
    Level.WARNING,
    "schedule {schedule}: the tick of {scheduled_at} belongs to another scheduler now, and its command is ended here",
    "This scheduler was not heard of for longer than a claim lasts.",
    schedule="its name",
    scheduled_at="nominal time of the tick, UTC",
)
LOG = _kind(
    "log",
    Level.INFO,
    "{text}",
    "Whatever a spider, skitter or a library said through Python's `logging`. The level is that of the record.",
    logger="its name",
    text="what was said",
)
