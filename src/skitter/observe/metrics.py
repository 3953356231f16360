"""Metrics: their names, labels and descriptions, and the text in which Prometheus reads them.

docs/reference/metrics.md is generated from this file. No label is a host, a URL or a worker, so the number of series
does not grow with a crawl; a value that is not among those of its label is counted as ``other``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal, NamedTuple

import msgspec

from skitter.model.job import State
from skitter.model.outcome import Ending
from skitter.model.schedule import TickOutcome
from skitter.model.worker import Doing

TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
JOB = "job_name"
"""Label of a job: Prometheus has a label ``job`` of its own, and would rename ours."""
OTHER = "other"
"""Stands for a label's values that have no series of their own."""
FAILED_CLASSES = (
    *("dns", "connect", "tls", "proxy", "timeout", "slow", "truncated", "protocol", "memory", "too_large", "browser"),
    *("http_4xx", "http_5xx", "redirect", "callback", "hook", "dropped", "sitemap", "lost", "given_up"),
    *("internal", OTHER),
)
"""Classes of requests that failed for good (docs/reference/errors.md)."""
ERROR_CLASSES = ("guard", "robots", "host_budget", *FAILED_CLASSES)
"""The same with those of requests that were excluded."""
REQUEST_STATES = ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded")
SINK_STATES = ("open", "closed", "unowned", "blocking", "troubled")
INTAKE_STATES = ("open", "closed", "unread", "paused", "troubled")
INTAKE_RESULTS = ("added", "duplicate", "dead_letter")
PROXY_STATES = ("ready", "resting", "banned", "draining")
SCHEDULE_STATES = ("active", "paused", "running", "waiting", "failing")
WORKER_STATES = (*(doing.replace(" ", "_") for doing in Doing), "silent")
JOB_STATES = (*State, "unreadable")
TICK_OUTCOMES = tuple(outcome for outcome in TickOutcome if outcome is not TickOutcome.RUNNING)
CALLS = ("lease", "commit", "release", "renew")
LATENCY_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds of the buckets of response times; beyond is one more."""


class Metric(msgspec.Struct, frozen=True):
    """A family of series. Labels have all their values in advance, except the name of a job and versions."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: Mapping[str, Sequence[str]]


class Histogram(NamedTuple):
    """Values in buckets, each counted once; one more than there are bounds."""

    counts: Sequence[int]
    total: float
    """The sum of all values."""


class Sample(NamedTuple):
    """One series at one instant."""

    metric: Metric
    labels: tuple[str, ...]
    value: float | Histogram


JOB_METRICS: dict[str, Metric] = {}
"""Figures of jobs and schedules, from the store: on ``skitter serve``."""
NODE_METRICS: dict[str, Metric] = {}
"""Figures of one node, which its supervisor keeps: with ``--metrics``."""
EGRESS_METRICS: dict[str, Metric] = {}
"""Figures of ``skitter egress --metrics``."""
SCHEDULER_METRICS: dict[str, Metric] = {}
"""Figures of ``skitter scheduler --metrics``."""


def _job(
    name: str,
    kind: Literal["counter", "gauge"],
    text: str,
    label: str = "",
    values: Sequence[str] = (),
    of: str = JOB,
) -> Metric:
    labels: dict[str, Sequence[str]] = {of: ()} if of else {}
    metric = Metric(f"skitter_{name}", kind, text, labels | ({label: values} if label else {}))
    JOB_METRICS[metric.name] = metric
    return metric


def _node(
    name: str,
    kind: Literal["counter", "gauge", "histogram"],
    text: str,
    label: str = "",
    values: Sequence[str] = (),
    families: dict[str, Metric] = NODE_METRICS,
) -> Metric:
    metric = Metric(f"skitter_{name}", kind, text, {label: values} if label else {})
    families[metric.name] = metric
    return metric


BUILD_INFO = Metric(
    "skitter_build_info",
    "gauge",
    "Always 1; the labels have the versions of skitter and Python.",
    {"version": (), "python": ()},
)
for _families in (JOB_METRICS, NODE_METRICS, EGRESS_METRICS, SCHEDULER_METRICS):
    _families[BUILD_INFO.name] = BUILD_INFO

# ---- of the store

JOBS = _job("jobs", "gauge", "Jobs that the credential may see, by state.", "state", JOB_STATES, of="")
JOBS_LEFT_OUT = _job(
    "jobs_left_out", "gauge", "Jobs without series of their own, because there are too many jobs.", of=""
)
SCRAPE_SECONDS = _job("scrape_seconds", "gauge", "Time to read these metrics from the store.", of="")
SERVER_MEMORY = _job("server_memory_bytes", "gauge", "Resident memory of the server process.", of="")
SCHEDULES = _job(
    "schedules",
    "gauge",
    "Schedules that the credential may see, by state; each is active or paused, and may also be running, waiting or "
    "failing (its last tick).",
    *("state", SCHEDULE_STATES),
    of="",
)
SCHEDULE_LATE = _job(
    "schedule_late_seconds", "gauge", "Age of the oldest due tick that is waiting; 0 if there is none.", of=""
)

JOB_STATE = _job("job_state", "gauge", "1 for the current state of the job.", "state", tuple(State))
JOB_RUN = _job("job_run", "gauge", "Number of the run.")
JOB_STARTED = _job("job_started_seconds", "gauge", "Start of the run, in seconds since 1970.")
JOB_REQUESTS = _job("job_requests", "gauge", "Requests of the run, by state.", "state", REQUEST_STATES)
JOB_PAGES = _job("job_pages_total", "counter", "Pages of the run that are done; a new run starts at 0.")
JOB_UNCHANGED = _job(
    "job_unchanged_pages_total", "counter", "Of these, pages that had not changed, in a job that recrawls."
)
JOB_ITEMS = _job("job_items_total", "counter", "Items yielded by pages.")
JOB_REJECTED = _job(
    "job_rejected_items_total", "counter", "Items that could not be stored, or that an output rejected."
)
JOB_DROPPED = _job("job_dropped_items_total", "counter", "Items dropped by item functions.")
JOB_BYTES = _job("job_bytes_total", "counter", "Bytes on the wire of committed pages.")
JOB_FAILED = _job("job_failed_requests", "gauge", "Failed requests, by error class.", "class", FAILED_CLASSES)
JOB_FAILURE_RATIO = _job("job_failure_ratio", "gauge", "Share of failed requests among those done or failed.")
JOB_RATE = _job("job_pages_per_second", "gauge", "Pages per second, over the last five to ten seconds.")
JOB_LATENCY = _job("job_latency_seconds", "gauge", "Recent mean response time of the live workers.")
JOB_OVERDUE = _job(
    "job_lease_overdue_seconds", "gauge", "Age of the oldest expired lease that has not been recovered yet."
)
JOB_IN_FLIGHT = _job("job_in_flight", "gauge", "Leases that live workers are working on.")
JOB_SLOTS = _job("job_slots", "gauge", "Leases that the workers can work on at a time.")
JOB_WORKERS = _job(
    "job_workers",
    "gauge",
    "Workers by activity; silent: listed, but without a heartbeat; skipped: fleet nodes that cannot serve the job.",
    *("state", WORKER_STATES),
)
JOB_LINKS = _job(
    "job_links_total",
    "counter",
    "Links and seeds checked for duplicates, by result.",
    "result",
    ("new", "duplicate"),
)
JOB_FILTER_ITEMS = _job("job_filter_items", "gauge", "Pages in the Bloom filter, with dedup=bloom.")
JOB_FILTER_CAPACITY = _job("job_filter_capacity", "gauge", "Pages that the Bloom filter is sized for.")
JOB_FILTER_FILL = _job("job_filter_fill_ratio", "gauge", "Share of the bits of the Bloom filter that are set.")
JOB_UNDELIVERED = _job(
    "job_undelivered_items", "gauge", "Undelivered items: in the outbox, and not yet durable in every output."
)
JOB_SINKS = _job(
    "job_sinks",
    "gauge",
    "Outputs; each is open or closed, and may also be unowned (no process writes to it), blocking or troubled.",
    *("state", SINK_STATES),
)
JOB_INTAKES = _job(
    "job_intakes",
    "gauge",
    "Intakes; each is open or closed, and may also be unread (no process reads it), paused or troubled.",
    *("state", INTAKE_STATES),
)
JOB_MESSAGES = _job("job_intake_messages_total", "counter", "Messages of intakes, by result.", "result", INTAKE_RESULTS)
JOB_BACKLOG = _job("job_intake_backlog_messages", "gauge", "Messages that the sources of intakes still hold.")
JOB_INTAKE_LAG = _job("job_intake_lag_seconds", "gauge", "Age of the oldest message waiting in a source.")
JOB_PROXIES = _job("job_proxies", "gauge", "Proxies of the pool, by state.", "state", PROXY_STATES)
JOB_PROXY_IN_FLIGHT = _job("job_proxy_in_flight", "gauge", "Requests in flight through proxies.")
JOB_PROXY_REQUESTS = _job(
    "job_proxy_requests",
    "gauge",
    "Requests through the proxies now in the pool, by result; those of a proxy that leaves are no longer counted.",
    *("result", ("answer", "failure")),
)
JOB_STORE_FREE = _job(
    "job_store_free_ratio", "gauge", "Free share of the fullest disk or server of the job; 1: no limit."
)

# ---- of a node

NODE_STARTED = _node("node_started_seconds", "gauge", "Start of the node, in seconds since 1970.")
NODE_WORKERS = _node("node_workers", "gauge", "Running worker processes.")
NODE_WORKERS_STARTED = _node("node_workers_started_total", "counter", "Worker processes started.")
NODE_WORKERS_DIED = _node(
    "node_workers_died_total", "counter", "Worker processes that ended in the middle of their work."
)
NODE_IN_FLIGHT = _node("node_in_flight", "gauge", "Leases that the workers hold.")
NODE_SLOTS = _node("node_slots", "gauge", "Leases that the workers can work on at a time.")
NODE_REQUESTS = _node("node_requests_total", "counter", "Committed requests, by outcome.", "ending", tuple(Ending))
NODE_ERRORS = _node(
    "node_errors_total",
    "counter",
    "Commits with the outcome retry, failed or excluded, by error class.",
    "class",
    ERROR_CLASSES,
)
NODE_REFUSED = _node("node_refused_commits_total", "counter", "Commits refused because the lease had been lost.")
NODE_ITEMS = _node("node_items_total", "counter", "Items of committed pages.")
NODE_BYTES = _node("node_bytes_total", "counter", "Bytes on the wire of committed pages.")
NODE_LATENCY = _node("node_latency_seconds", "histogram", "Response times of answered requests.")
NODE_CALLS = _node("node_frontier_calls_total", "counter", "Calls to the frontier.", "call", CALLS)
NODE_CALL_SECONDS = _node("node_frontier_call_seconds_total", "counter", "Total time of the calls.", "call", CALLS)
NODE_LEASES = _node("node_leases_total", "counter", "Leases granted.")
NODE_RECOVERED = _node(
    "node_recovered_leases_total",
    "counter",
    "Leases returned: expired ones that a worker of this node has found (expired), and those of workers of this node "
    "that died (died).",
    *("reason", ("expired", "died")),
)
NODE_LINKS = _node(
    "node_links_total",
    "counter",
    "Links and seeds checked for duplicates, by result.",
    "result",
    ("new", "duplicate"),
)
NODE_MEMORY = _node("node_memory_bytes", "gauge", "Resident memory of processes.", "process", ("supervisor", "workers"))

# ---- of an egress

_egress = partial(_node, families=EGRESS_METRICS)
EGRESS_STARTED = _egress("egress_started_seconds", "gauge", "Start of the egress, in seconds since 1970.")
EGRESS_MEMORY = _egress("egress_memory_bytes", "gauge", "Resident memory of its process.")
EGRESS_REGISTERED = _egress("egress_registered", "gauge", "1 while it is in the pool of its job.")
EGRESS_CONNECTIONS = _egress("egress_connections", "gauge", "Connections of workers that are open.")
EGRESS_REQUESTS = _egress("egress_requests_total", "counter", "Requests and tunnels that were forwarded.")
EGRESS_REDIALS = _egress("egress_redials_total", "counter", "Runs of the redial command.", "result", ("done", "failed"))

# ---- of a scheduler

_scheduler = partial(_node, families=SCHEDULER_METRICS)
SCHEDULER_STARTED = _scheduler("scheduler_started_seconds", "gauge", "Start of the scheduler, in seconds since 1970.")
SCHEDULER_MEMORY = _scheduler("scheduler_memory_bytes", "gauge", "Resident memory of its process, without commands.")
SCHEDULER_LEADS = _scheduler("scheduler_leads", "gauge", "1 for the scheduler that leads, 0 for those that wait.")
SCHEDULER_STORE_UP = _scheduler("scheduler_store_up", "gauge", "0 while the store of the schedules is unavailable.")
SCHEDULER_COMMANDS = _scheduler("scheduler_commands", "gauge", "Commands that this scheduler runs.")
SCHEDULER_TICKS = _scheduler(
    "scheduler_ticks_total",
    "counter",
    "Ticks that this scheduler has completed, by outcome.",
    *("outcome", TICK_OUTCOMES),
)
SCHEDULER_TAKEN_OVER = _scheduler(
    "scheduler_taken_over_total", "counter", "Ticks that it has taken over from a scheduler that ended."
)


def known_value(value: str, values: Sequence[str]) -> str:
    """Return a label's value, or ``other``."""
    return value if value in values else OTHER


def render(samples: Iterable[Sample], metrics: Mapping[str, Metric], *, open_metrics: bool = False) -> str:
    """Return the text of all metrics of an endpoint; one without a sample is named nevertheless."""
    series: dict[str, list[str]] = {name: [] for name in metrics}
    for metric, values, value in samples:
        labels = list(zip(metric.labels, values, strict=True))
        if isinstance(value, Histogram):
            series[metric.name] += _histogram_lines(metric.name, labels, value)
        else:
            series[metric.name].append(f"{metric.name}{_labels(labels)} {_number(value)}")
    lines = []
    for name, metric in metrics.items():
        # In OpenMetrics a counter is named without its suffix, and its series with it.
        family = name.removesuffix("_total") if open_metrics and metric.kind == "counter" else name
        text = metric.help.replace("\\", r"\\").replace("\n", r"\n")
        lines += [f"# HELP {family} {text}", f"# TYPE {family} {metric.kind}", *series[name]]
    if open_metrics:
        lines.append("# EOF")
    return "\n".join(lines) + "\n"


def content_type(accept: str) -> tuple[str, bool]:
    """Return the content type for an Accept header, and whether it is OpenMetrics."""
    wants_open = "application/openmetrics-text" in accept
    return (OPEN_METRICS, True) if wants_open else (TEXT, False)


def _histogram_lines(name: str, labels: Sequence[tuple[str, str]], value: Histogram) -> list[str]:
    lines, so_far = [], 0
    bounds = [*map(_number, LATENCY_SECONDS), "+Inf"]
    for bound, count in zip(bounds, value.counts, strict=True):
        so_far += count
        lines.append(f"{name}_bucket{_labels([*labels, ('le', bound)])} {so_far}")
    return [*lines, f"{name}_sum{_labels(labels)} {_number(value.total)}", f"{name}_count{_labels(labels)} {so_far}"]


def _labels(labels: Sequence[tuple[str, str]]) -> str:
    def quoted(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{quoted(value)}"' for name, value in labels) + "}" if labels else ""


def _number(value: float) -> str:
    return str(value) if isinstance(value, int) else repr(float(value))
