"""Settings: small frozen groups of typed values, each name unique across all groups.

One name belongs to one group, so ``--set timeout_seconds=5`` needs no prefix. Nothing here
reads a file or the environment: ``cli`` collects the layers and ``Settings.from_layers`` joins
them, lowest first. Durations end in ``_seconds``, sizes in ``_bytes``; ``None`` means no limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from skitter.agent import (
    DEFAULT_USER_AGENT,
    Credential,
    objection_to_contact,
    objection_to_header,
    objection_to_header_name,
    objection_to_user_agent,
    user_agent_header,
)
from skitter.alert_rules import AlertRule
from skitter.errors import SettingsError

Positive = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]


CURL = "curl"
"""Name of the built-in fetcher."""


class Fetch(msgspec.Struct, frozen=True, kw_only=True):
    """How one request is sent and what its answer may cost."""

    fetcher: str = CURL
    """What sends requests: `curl`, or the name of a fetcher that an installed package offers
    (docs/how-to/write-a-fetcher.md)."""
    user_agent: str = DEFAULT_USER_AGENT
    """The honest name sent with every request; its product token is what robots.txt is asked about."""
    contact: str = ""
    """A URL or mail address of whoever runs the crawl, put into the user agent: `skitter/0.2 (+https://…)`."""
    user_agents: tuple[str, ...] = ()
    """Names to send with pages in the place of `user_agent`, each host always the same one. robots.txt is still read
    and obeyed as `user_agent` (docs/how-to/user-agents.md)."""
    headers: tuple[str, ...] = ()
    """Headers of every request, as in `Accept-Language: de`, in the place of the fetcher's own of the same name; those
    of a request go before them."""
    header_order: tuple[str, ...] = ()
    """Names of headers in the order in which they are sent, after Host and Cookie; others follow."""
    timeout_seconds: Positive = 30.0
    """From the start of a request to the last byte of its body."""
    connect_timeout_seconds: Positive = 10.0
    """Name lookup, TCP and TLS together."""
    min_bytes_per_second: NotNegative = 100.0
    """A body slower than this for ten seconds is given up as a timeout; 0 allows any rate."""
    max_body_bytes: Count = 33_554_432
    """Of the decoded body."""
    max_ratio: Positive | None = 200.0
    """A body that is packed (gzip and the like) and grows to more than this many times its size, beyond its first
    megabyte, is given up as too large."""
    max_redirects: Annotated[int, Meta(ge=0)] = 10
    """Hops of one chain."""
    allow_private: bool = False
    """Let found links lead to private, loopback and reserved addresses."""
    verify_tls: bool = True
    """Refuse certificates that do not verify."""
    http2: bool = True
    """Offer HTTP/2 to https servers."""
    cookies: bool = True
    """Keep cookies, for all workers of the job (docs/how-to/log-in.md)."""

    def __post_init__(self) -> None:
        objections = [objection_to_user_agent(self.user_agent), objection_to_contact(self.contact)]
        objections += [objection_to_user_agent(agent) for agent in self.user_agents]
        objections += [objection_to_header(line) for line in self.headers]
        objections += [objection_to_header_name(name) for name in self.header_order]
        if objection := next(filter(None, objections), None):
            raise ValueError(objection)

    @property
    def agent(self) -> str:
        """The user agent as it is sent, and as robots.txt is asked about it."""
        return user_agent_header(self.user_agent, self.contact)


class Politeness(msgspec.Struct, frozen=True, kw_only=True):
    """What every worker of a job together owes a host."""

    delay_seconds: NotNegative = 0.0
    """Between the starts of two requests to one host key."""
    per_host: Count = 8
    """Requests in flight per host key, whole cluster."""
    per_ip: Count | None = None
    """Requests in flight per IP address, over all host keys last seen there, whole cluster; in shards, per shard."""
    obey_robots: bool = True
    """Read and obey robots.txt."""
    robots_seconds: Positive = 86_400.0
    """How long a robots.txt is believed."""
    obey_nofollow: bool = False
    """Follow no links of pages that say `nofollow` or `none`, and none with `rel=nofollow`, `ugc` or `sponsored`."""
    obey_noindex: bool = False
    """Keep no items of pages that say `noindex` or `none`."""
    obey_canonical: bool = False
    """Of a page that names another one in scope by `rel=canonical`, keep no items and fetch that one."""
    obey_tdm: bool = False
    """Keep no items of pages that reserve text and data mining."""
    host_backoff_seconds: Positive = 60.0
    """First block of a host that answers 429 or 503 without Retry-After; doubles, at most a day."""
    burst_pages: Count = 16
    """Requests to one host key in a row, over a connection that stays open, before others of its priority go first."""
    burst_seconds: NotNegative = 5.0
    """After so long a burst ends, however few pages it had."""
    target_concurrency: Positive | None = None
    """Requests that shall be in flight per host key on average: its delay is its latency over this. None: it is not."""
    max_delay_seconds: Positive = 60.0
    """What latency may make of a delay; `delay_seconds` and a Crawl-delay may be longer."""


def read_statuses(text: str, *, lowest: int = 400) -> frozenset[int]:
    """Return the statuses of a text such as ``429,500-504``. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"not a status or a range of them: {part[:50]}")
        low, high = int(first[:5]), int((last or first)[:5])
        if not lowest <= low <= high <= 999:
            raise ValueError(f"not statuses from {lowest} to 999: {part[:50]}")
        found.update(range(low, high + 1))
    return frozenset(found)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """When a request that failed is tried again."""

    max_attempts: Count = 4
    """Attempts before a request is dead."""
    retry_delay_seconds: NotNegative = 1.0
    """Delay before the second attempt; doubles with each, with jitter, at most an hour."""
    retry_statuses: str = "408,425,429,500,502-504,520-524"
    """Statuses that are tried again, with commas; `520-524` is a range. Without 429 or 503 a page is dead that has one,
    and its host is left alone for a while nevertheless."""
    retry_priority: Annotated[int, Meta(ge=-100_000, le=100_000)] = 0
    """Added to the priority of a request each time it is delayed to be tried again: below 0, others of its host go
    first."""

    def __post_init__(self) -> None:
        read_statuses(self.retry_statuses)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a job and of the work inside it."""

    max_pages: Count | None = None
    """Pages (requests that end done) of the whole job."""
    close_after_items: Count | None = None
    """The job is stopped when its pages have yielded so many items; those in flight may add some."""
    close_after_errors: Count | None = None
    """The job is stopped when so many requests are dead, without those that hooks have dropped."""
    close_after_seconds: Positive | None = None
    """The job is stopped so long after the first of the nodes that are at work has begun."""
    max_pages_per_host: Count | None = None
    """Pages of one host key, whole cluster and run; what waits for the host after them is excluded."""
    max_in_flight: Count | None = None
    """Pages in flight in the whole job, whatever its workers could take; in shards, each has an equal part and at least
    one."""
    max_depth: Annotated[int, Meta(ge=0)] | None = None
    """Links from a seed; a seed has depth 0."""
    lease_seconds: Positive = 30.0
    """How long a request belongs to a worker that does not renew it."""
    callback_seconds: Positive = 60.0
    """A spider callback that runs longer makes its page dead."""
    max_outbox_items: Count = 100_000
    """Committed items that wait for a sink; at this number the leasing stops until the sink catches up."""
    max_queued: Count = 100_000
    """Queued requests at which intakes are not read: what waits beyond stays in its queue, where others can see it."""
    max_known_urls: Count = 1_000_000
    """URLs that the workers of a node remember, 16 bytes each, so that a link they have handed in costs nothing."""


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Which links are followed, besides what `allowed_domains` of the spider says. Seeds always are."""

    include: tuple[str, ...] = ()
    """Regular expressions: only links whose URL one of them is found in are followed (include)."""
    exclude: tuple[str, ...] = ()
    """Regular expressions: links whose URL one of them is found in are not followed (exclude)."""

    def __post_init__(self) -> None:
        _check_patterns((*self.include, *self.exclude))


def _check_patterns(patterns: Iterable[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {pattern}: {error}") from error


class Traps(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps a crawl out of sites without an end (docs/how-to/avoid-traps.md)."""

    traps: Literal["off", "normal", "strict"] = "normal"
    """normal: the limits below, which no real site meets. strict: also session ids, calendars, parameters, sameness."""
    max_url_length: Annotated[int, Meta(ge=1, le=4096)] = 4096
    """Characters of a link, beyond which it is not followed (trap_length)."""
    max_path_segments: Count = 64
    """Segments of a link's path (trap_segments)."""
    max_path_repeats: Count = 10
    """How often one segment may stand in a link's path, in a row or not (trap_repeats); strict: 5 at most."""
    endless_depth: Count = 10_000
    """Links from a seed after which a chain is taken for endless (trap_depth); max_depth is your own limit."""
    trap_pages: Count = 500
    """strict: the budget of a host whose pages look like those of a trap."""


class Dedup(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of pages, so that none is fetched twice (docs/how-to/dedup.md). It is fixed for a run."""

    dedup: Literal["exact", "bloom"] = "exact"
    """How pages that are done are remembered: exactly, or in a Bloom filter, which takes a third of the memory and some
    new pages for known. Not with SQLite."""
    dedup_capacity: Count = 10_000_000
    """bloom: pages that the filter is made for; beyond, it grows, and takes more memory for each."""
    dedup_error_rate: Annotated[float, Meta(gt=0, lt=1)] = 0.0001
    """bloom: of new pages, those that may be taken for known and are never fetched."""
    dedup_seconds: Positive | None = None
    """So long after it was done a page is remembered, and up to an eighth longer; then a link to it makes it new. Not
    with SQLite, nor with bloom."""
    dedup_scope: Literal["run", "job"] = "run"
    """run: each run fetches every page. job: pages whose items an earlier run has delivered are not fetched again."""


class Recrawl(msgspec.Struct, frozen=True, kw_only=True):
    """How a job comes back to pages that it knows (docs/how-to/recrawl.md)."""

    recrawl: Literal["off", "due", "all"] = "off"
    """due: keep a record of each page from run to run, fetch seeds and known pages that are due, and parse what has
    changed. all: the same with all known pages, whenever they are due."""
    recrawl_seconds: Positive = 604_800.0
    """A page that changes once in so long is fetched once in so long; others at the geometric mean of this and of the
    time between their changes, from an hour to ninety days. Four times as long means half as many fetches."""

    stay: bool = False
    """With `recrawl`: go on when a run is over, and begin the next one when a page is due. Seeds are fetched when they
    are due too."""

    @property
    def is_on(self) -> bool:
        """Return whether the job keeps page records."""
        return self.recrawl != "off"


class Items(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to items between the spider and the outbox."""

    item_functions: str = ""
    """Functions that every item passes after the spider's own: `module:function`, several in a list or with commas."""
    file_target: str = "files"
    """Where `response.download(…)` stores files: a folder of the machine that fetches them, or `s3://BUCKET/PREFIX/`
    (docs/how-to/download-files.md)."""


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """What looks at requests, answers and events on their way (docs/how-to/hooks.md)."""

    hooks: str = ""
    """Classes of hooks, called in this order after the spider's own: `module:Class`, several in a list or with
    commas."""


class Proxies(msgspec.Struct, frozen=True, kw_only=True):
    """The proxy pool of a job (docs/how-to/proxies.md)."""

    proxy_pool: bool = False
    """Every fetch goes through a proxy of the job's pool, and waits while none is free. `--proxies` sets it."""
    proxy_strategy: Literal["round_robin", "random", "weighted", "least_connections"] = "round_robin"
    """Which proxy of those that are free gets the next request; weighted: by success rate over latency + 1 s."""
    per_proxy: Count = 16
    """Requests in flight per proxy, whole cluster; in shards, each has an equal part."""
    proxy_rotation: Literal["request", "session", "host"] = "request"
    """When another proxy is chosen: for each request; session: a named session keeps its proxy; host: a host keeps it.
    A proxy that fails, is banned or has no room is kept by nobody."""
    proxy_ban_seconds: Positive = 60.0
    """First ban of a proxy at a host; doubles, at most a day."""
    proxy_ban_statuses: str = ""
    """Answers that ban the proxy at their host, with commas: `403,429`; `520-524` is a range."""
    proxy_ban_texts: tuple[str, ...] = ()
    """Texts in the first 64 KB of a body that do so, with case."""
    proxy_ban_headers: tuple[str, ...] = ()
    """Headers of an answer that do so: `x-blocked`, or `server: captcha` for a part of the value."""
    proxy_ban_errors: str = ""
    """Error classes (docs/reference/errors.md) that do so, with commas: `tls,truncated`."""

    def __post_init__(self) -> None:
        read_statuses(self.proxy_ban_statuses, lowest=200)


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that the frontier hands out (docs/how-to/log-in.md)."""

    session_pool: Annotated[int, Meta(ge=0, le=1_000)] = 0
    """Sessions of the pool: each request that names none takes one of them. 0: there is no pool."""
    exclusive_sessions: bool = False
    """A session that has a name is in use by one request at a time, in the whole cluster."""
    max_session_uses: Count | None = None
    """Requests with one session of the pool, or one that is logged in, until it is replaced."""
    max_session_seconds: Positive | None = None
    """How long such a session is used until it is replaced."""
    session_statuses: str = "401,403"
    """Answers that say that a session is of no use any more: it is replaced, and the page is tried again."""

    def __post_init__(self) -> None:
        read_statuses(self.session_statuses)


BLOCKABLE = ("image", "font", "media", "stylesheet")
"""Kinds of sub-requests that ``render_block`` may name."""


class Browser(msgspec.Struct, frozen=True, kw_only=True):
    """Which pages are rendered, and how (docs/how-to/render-pages.md). What a node has for it is in `run`."""

    render_patterns: tuple[str, ...] = ()
    """Regular expressions: pages whose URL one of them is found in are rendered, as with `render=True`."""
    render_wait_until: Literal["domcontentloaded", "load", "networkidle"] = "load"
    """When a page counts as loaded: read, with all that it names, or half a second after its last request."""
    render_wait_seconds: Positive = 10.0
    """So long that is waited for, once the page is read; then it is taken as it is."""
    render_block: str = "media"
    """What is not loaded, with commas: `image`, `font`, `media`, `stylesheet`."""

    def __post_init__(self) -> None:
        _check_patterns(self.render_patterns)
        if unknown := [kind for kind in self.blocked if kind not in BLOCKABLE]:
            raise ValueError(f"not what can be blocked ({', '.join(BLOCKABLE)}): {unknown[0][:50]}")

    @property
    def blocked(self) -> tuple[str, ...]:
        """Return the entries of ``render_block``."""
        return tuple(filter(None, (entry.strip() for entry in self.render_block.split(","))))


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """How a fleet serves the job (docs/how-to/run-a-fleet.md)."""

    job_priority: Annotated[int, Meta(ge=-100_000, le=100_000)] = 0
    """Jobs with the highest get workers first, those of the same take turns; it says nothing of requests."""
    deliver_node: str = ""
    """The node (`--name`) that writes the targets which only one machine has, files above all, of a submitted job."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """This node's share of the work; not stored with the job."""

    workers: Count = 1
    """Worker processes. On the command line, in files and in the environment also `auto`: one for each core that the
    process may use, as far as memory goes."""
    concurrency: Count = 64
    """Requests in flight per worker; what takes four times as long as most stands aside, up to seven times as many."""
    cache_dir: str = ""
    """A folder of answers, for development: what was fetched once comes from there, in any job
    (docs/how-to/cache.md)."""
    cache_seconds: Positive | None = None
    """So old an answer of `cache_dir` may be; none: any age."""
    proxy: str = ""
    """A proxy for all fetches of this node (docs/explanation/safety.md). With a password, better as SKITTER_PROXY."""
    credentials: tuple[Credential, ...] = ()
    """Who the crawler is to which server: tables `[[credentials]]` of the project file
    (docs/how-to/authentication.md)."""
    proxies: tuple[str, ...] = ()
    """Sources of this node for the job's pool of proxies: a proxy, a file, a URL of a list, `command:…`, or
    `registered` for proxies that register themselves (docs/how-to/proxies.md). With passwords, better in a file."""
    proxy_refresh_seconds: Positive = 60.0
    """How often the lists of `proxies` are read again."""
    browser_path: str = ""
    """The program of a Chromium; empty: `chromium-headless-shell`, `chrome-headless-shell`, `chromium`,
    `chromium-browser`, `google-chrome` or `google-chrome-stable`, the first that is on the PATH."""
    browser_pages: Annotated[int, Meta(ge=0)] = 4
    """Pages that one worker renders at a time, in one browser; 0: this node renders nothing."""
    browser_max_pages: Count = 200
    """After so many pages a browser is closed, and another one started."""
    browser_max_seconds: Positive = 1_800.0
    """A browser that is older is closed when its pages are done."""
    browser_max_bytes: Count = 2_147_483_648
    """Memory of one browser with all its processes (Linux): beyond it, it is closed when its pages are done, and at a
    quarter more it is killed."""
    browser_sandbox: bool = True
    """Start Chromium with its sandbox. It is never used as root, whom Chromium refuses it."""
    max_buffered_bytes: Count = 16_777_216
    """Of all bodies that a worker is reading; beyond it, large ones are read one after the other."""
    max_idle_bytes: Count = 134_217_728
    """Of connections that a worker keeps open for the next request of their host: one for each 80 KB, which is what TLS
    takes, and at most a quarter of the files that it may open."""
    shutdown_seconds: NotNegative = 10.0
    """How long a worker that was asked to stop finishes what is in flight."""
    turn_seconds: Positive = 20.0
    """With `--every-job`: so long a job is served while others of its priority wait for a worker."""
    max_worker_bytes: Count | None = 4_294_967_296
    """Memory of one worker process (Linux): a page that would take more costs itself, and not the machine."""
    memory_warning_bytes: Count | None = None
    """A warning is logged when a worker process takes so much memory (Linux)."""
    memory_limit_bytes: Count | None = None
    """A worker process that takes so much finishes what is in flight, and another one is started in its place (Linux).
    `max_worker_bytes` is the hard limit beyond it."""
    stats_seconds: Positive | None = None
    """How often pages and items per minute, and what spiders and hooks have counted, are logged (`job.stats`)."""
    coordinator: str = ""
    """What tells at once that a node is gone: `redis://…`, `zookeeper://…` or `sqlite:PATH`
    (docs/how-to/coordinate-nodes.md). With a password, better as SKITTER_COORDINATOR."""
    coordinator_seconds: Annotated[float, Meta(ge=1)] = 10.0
    """So long without a word to the coordinator, and a node counts as gone. A worker starts nothing while it is away,
    and breaks off what is in flight after two thirds of this time."""
    metrics: str = ""
    """Serve the metrics of this node for Prometheus at `[HOST:]PORT`, on this machine alone without a host
    (docs/how-to/monitor.md)."""
    alerts: tuple[AlertRule, ...] = ()
    """Thresholds on the figures of jobs, and who is told: tables `[[alert]]` of the project file
    (docs/how-to/alerts.md)."""
    trusted_code: str = ""
    """Files, folders and modules outside the project folder whose code a job's record may name, with commas."""

    def __post_init__(self) -> None:
        origins = [credential.origin.lower() for credential in self.credentials]
        if twice := next((origin for origin in origins if origins.count(origin) > 1), None):
            raise ValueError(f"two credentials for one origin: {twice}")

    @property
    def trusted(self) -> tuple[str, ...]:
        """Return the entries of ``trusted_code``."""
        return tuple(filter(None, (entry.strip() for entry in self.trusted_code.split(","))))


class Logging(msgspec.Struct, frozen=True, kw_only=True):
    """What this node writes about what happens (docs/reference/events.md); not stored with the job."""

    log_file: str = "-"
    """Where event lines go: a file, which is appended to, or `-` for standard error."""
    max_log_bytes: Count | None = None
    """At this size log_file is renamed FILE.1, and FILE.1 FILE.2; none: it grows. Several processes may share it."""
    max_log_files: Count = 5
    """With max_log_bytes: renamed files that are kept besides the one that is written."""
    log_format: Literal["text", "json"] = "text"
    """The form of event lines. With json and no log_file, all that a crawl says on standard error is JSON."""
    log_level: Literal["debug", "info", "notice", "warning", "error"] = "info"
    """What matters less is left out, of events and of what spiders say through `logging`; -v is debug. Libraries begin
    at warning, and a terminal shows events from notice on."""
    events: str = ""
    """A stream that events are published to: `amqp://…#exchange`, `kafka://…#topic` or `redis://…#stream`
    (docs/how-to/publish-events.md). With a password, better as SKITTER_EVENTS."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """All groups together."""

    fetch: Fetch = msgspec.field(default_factory=Fetch)
    politeness: Politeness = msgspec.field(default_factory=Politeness)
    retry: Retry = msgspec.field(default_factory=Retry)
    limits: Limits = msgspec.field(default_factory=Limits)
    links: Links = msgspec.field(default_factory=Links)
    traps: Traps = msgspec.field(default_factory=Traps)
    dedup: Dedup = msgspec.field(default_factory=Dedup)
    recrawl: Recrawl = msgspec.field(default_factory=Recrawl)
    items: Items = msgspec.field(default_factory=Items)
    hooks: Hooks = msgspec.field(default_factory=Hooks)
    proxies: Proxies = msgspec.field(default_factory=Proxies)
    sessions: Sessions = msgspec.field(default_factory=Sessions)
    browser: Browser = msgspec.field(default_factory=Browser)
    fleet: Fleet = msgspec.field(default_factory=Fleet)
    run: Run = msgspec.field(default_factory=Run)
    logging: Logging = msgspec.field(default_factory=Logging)

    @classmethod
    def from_layers(cls, layers: Iterable[tuple[str, Mapping[str, Any]]]) -> Settings:
        """Join ``(where it came from, {name: value})`` layers; a later layer wins.

        Values may be text, as the environment and the command line have it.
        """
        groups: dict[str, dict[str, Any]] = {}
        origin: dict[str, str] = {}
        for source, values in layers:
            for name, value in values.items():
                group = _GROUP_OF.get(name)
                if group is None:
                    raise SettingsError(f"unknown setting in {source}: {name}", hint=_nearest(name))
                groups.setdefault(group, {})[name] = _plain(name, value)
                origin[name] = source
        converted: dict[str, Any] = {}
        for group, values in groups.items():
            for name, value in values.items():
                try:
                    msgspec.convert({name: value}, _GROUPS[group], strict=False)
                except msgspec.ValidationError as error:
                    # Errors of a group's own checks already have a message for users.
                    own = isinstance(error.__cause__, ValueError)
                    hint = str(error).split(" - at")[0] if own else f"{name} takes {values_of(name)}"
                    if name in TABLES:
                        # Also not as a cause: the traceback of a conversion may quote what was converted.
                        raise SettingsError(f"bad value in {origin[name]}: {name}", hint=str(error)) from None
                    raise SettingsError(f"bad value in {origin[name]}: {name}={value!r}", hint=hint) from error
            converted[group] = msgspec.convert(values, _GROUPS[group], strict=False)
        settings = cls(**converted)
        if settings.run.proxies and not settings.proxies.proxy_pool:
            # From the beginning of the job, and not from the first proxy on: nothing is sent without one.
            pool = msgspec.structs.replace(settings.proxies, proxy_pool=True)
            settings = msgspec.structs.replace(settings, proxies=pool)
        return settings

    def job_wide(self) -> dict[str, Any]:
        """Return the settings that all workers of a job share, as plain values to store with the job."""
        merged: dict[str, Any] = {}
        groups = "fetch politeness retry limits links traps dedup recrawl items hooks proxies sessions browser fleet"
        for group in groups.split():
            merged |= msgspec.to_builtins(getattr(self, group))
        # As a store gives it back, so that stored and new settings can be compared.
        return {name: list(value) if isinstance(value, tuple) else value for name, value in merged.items()}

    def changed(self, values: Mapping[str, Any], source: str) -> dict[str, Any]:
        """Return the values of ``values``, checked and converted, for a job with these settings that runs.

        SettingsError for what is no setting, no value of it, or cannot be changed while a job runs.
        """
        for name in values:
            if name in _GROUP_OF and name not in CHANGEABLE:
                raise SettingsError(
                    f"cannot be changed while a job runs: {name}, {_reason_to_keep(name)}", hint=_way_to_change(name)
                )
        job_wide = Settings.from_layers([("the job", self.job_wide()), (source, values)]).job_wide()
        return {name: job_wide[name] for name in values}


CHANGEABLE = (
    *("delay_seconds", "per_host", "per_ip", "target_concurrency", "max_delay_seconds", "burst_pages", "burst_seconds"),
    *("host_backoff_seconds", "robots_seconds"),
    *("max_pages", "max_pages_per_host", "max_in_flight", "max_outbox_items", "job_priority"),
    *("close_after_items", "close_after_errors", "close_after_seconds"),
    *("proxy_strategy", "per_proxy", "proxy_ban_seconds"),
)
"""Settings that a running job may be given anew: those that the frontier alone applies, in each of its transactions,
and those that nodes compare with each report. Workers and nodes read the others once, when they start."""


def _reason_to_keep(name: str) -> str:
    group = _GROUP_OF[name]
    if group in ("dedup", "recrawl"):
        return "what is remembered of pages depends on it"
    if group in ("run", "logging"):
        return "each node has its own, which is not stored with the job"
    return "workers read it when they start"


def _way_to_change(name: str) -> str:
    if name == "concurrency":
        return "max_in_flight bounds the pages in flight of the whole job"
    group = _GROUP_OF[name]
    if group in ("run", "logging"):
        return f"start the node again with --set {name}=VALUE"
    if group in ("dedup", "recrawl"):
        return f"a new run may have another: --fresh --set {name}=VALUE"
    return f"stop the job, and run the crawl again with --set {name}=VALUE"


_GROUPS: dict[str, type[msgspec.Struct]] = {
    "fetch": Fetch,
    "politeness": Politeness,
    "retry": Retry,
    "limits": Limits,
    "links": Links,
    "traps": Traps,
    "dedup": Dedup,
    "recrawl": Recrawl,
    "items": Items,
    "hooks": Hooks,
    "proxies": Proxies,
    "sessions": Sessions,
    "browser": Browser,
    "fleet": Fleet,
    "run": Run,
    "logging": Logging,
}
_GROUP_OF = {name: group for group, kind in _GROUPS.items() for name in kind.__struct_fields__}


CREDENTIALS = "credentials"
ALERTS = "alerts"
TABLES = (CREDENTIALS, ALERTS)
"""Settings that are lists of tables, and may have secrets."""
_LISTS = frozenset(
    (
        *Links.__struct_fields__,
        *("user_agents", "headers", "header_order", "render_patterns"),
        *("proxies", "proxy_ban_texts", "proxy_ban_headers"),
    )
)
"""Settings with several values; a text has one a line."""


def _plain(name: str, value: Any) -> Any:
    """Return a value of a layer as the groups are converted from."""
    if name in TABLES:
        return value
    if name in _LISTS:
        values = value.splitlines() if isinstance(value, str) else value
        is_none = values is None or values == ["none"]
        return [] if is_none else list(values) if isinstance(values, (list, tuple)) else values
    listed = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else value
    return None if listed in ("none", "None") else listed


def names() -> list[str]:
    """Return the names of all settings, in the order of the reference page."""
    return list(_GROUP_OF)


def settings_text(values: Mapping[str, Any]) -> str:
    """Return settings as they are typed: ``delay_seconds=2, max_pages=none``."""
    return ", ".join(f"{name}={shown_value(value)}" for name, value in values.items())


def shown_value(value: Any) -> str:
    """Return the value of a setting as it is typed."""
    if isinstance(value, (list, tuple)):
        return " ".join(value) or "none"
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def values_of(name: str) -> str:
    """Return a description of the values of a setting: ``a whole number from 1, or none``."""
    group = _GROUPS[_GROUP_OF[name]]
    return _in_words(msgspec.json.schema(group)["$defs"][group.__name__]["properties"][name])


def _in_words(schema: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        return ", or ".join(_in_words(choice) for choice in schema["anyOf"])
    if "enum" in schema:
        return f"one of: {', '.join(schema['enum'])}"
    kinds = {"string": "text", "boolean": "true or false", "integer": "a whole number", "number": "a number"}
    kinds["array"] = "tables" if "$ref" in schema.get("items", {}) else "a list of texts"
    words = kinds.get(schema["type"], "none")
    bounds = {"exclusiveMinimum": "above", "minimum": "from", "exclusiveMaximum": "below", "maximum": "to"}
    return " ".join([words, *(f"{word} {schema[key]:g}" for key, word in bounds.items() if key in schema)])


def _nearest(name: str) -> str:
    import difflib

    if near := difflib.get_close_matches(name, _GROUP_OF, n=1):
        return f"did you mean {near[0]}?"
    return f"settings with the nearest names: {', '.join(difflib.get_close_matches(name, _GROUP_OF, n=5, cutoff=0.0))}"
