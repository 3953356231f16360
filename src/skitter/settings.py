"""Settings: small frozen groups of typed values, each name unique across all groups.

One name belongs to one group, so ``--set timeout_seconds=5`` needs no prefix. Nothing here
reads a file or the environment: ``cli`` collects the layers and ``Settings.from_layers`` joins
them, lowest first. Durations end in ``_seconds``, sizes in ``_bytes``; ``None`` means no limit, or not set.
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
REFRESH_SECONDS = 10.0
"""Pages that send their readers on wait for a few seconds. Pages that only show something new wait longer."""


class Fetch(msgspec.Struct, frozen=True, kw_only=True):
    """How a request is sent, and the limits of its response."""

    fetcher: str = CURL
    """What sends requests: `curl`, or the name of a fetcher from an installed package
    (docs/how-to/write-a-fetcher.md)."""
    user_agent: str = DEFAULT_USER_AGENT
    """The user agent of every request. robots.txt is evaluated for its product token."""
    contact: str = ""
    """A URL or mail address of the operator of the crawl, added to the user agent: `skitter/0.2 (+https://…)`."""
    user_agents: tuple[str, ...] = ()
    """User agents to send with pages instead of `user_agent`; each host always gets the same one. robots.txt is
    still evaluated for `user_agent` (docs/how-to/user-agents.md)."""
    headers: tuple[str, ...] = ()
    """Headers of every request, e.g. `Accept-Language: de`. They replace the fetcher's own headers of the same name;
    headers of a `Request` take precedence."""
    header_order: tuple[str, ...] = ()
    """Names of headers in the order in which they are sent, after Host and Cookie. Other headers follow."""
    timeout_seconds: Positive = 30.0
    """Maximum time from the start of a request to the last byte of its body."""
    connect_timeout_seconds: Positive = 10.0
    """Maximum time for name lookup, TCP and TLS together."""
    min_bytes_per_second: NotNegative = 100.0
    """A body that arrives more slowly than this for ten seconds ends as a timeout; 0 allows any rate."""
    max_body_bytes: Count = 33_554_432
    """Maximum size of the decoded body."""
    max_ratio: Positive | None = 200.0
    """Maximum compression ratio: a compressed body that grows to more than this many times its size, beyond its
    first megabyte, ends as too large. `none` disables the check."""
    max_redirects: Annotated[int, Meta(ge=0)] = 10
    """Maximum number of redirects in one chain."""
    allow_private: bool = False
    """Follow links to private, loopback and reserved addresses."""
    verify_tls: bool = True
    """Refuse TLS certificates that cannot be verified."""
    http2: bool = True
    """Offer HTTP/2 to https servers."""
    cookies: bool = True
    """Keep cookies, shared by all workers of the job (docs/how-to/login.md)."""

    def __post_init__(self) -> None:
        objections = [objection_to_user_agent(self.user_agent), objection_to_contact(self.contact)]
        objections += [objection_to_user_agent(agent) for agent in self.user_agents]
        objections += [objection_to_header(line) for line in self.headers]
        objections += [objection_to_header_name(name) for name in self.header_order]
        if objection := next(filter(None, objections), None):
            raise ValueError(objection)

    @property
    def agent(self) -> str:
        """The user agent as it is sent, and as it is matched in robots.txt."""
        return user_agent_header(self.user_agent, self.contact)


class Politeness(msgspec.Struct, frozen=True, kw_only=True):
    """How the workers of a job together treat a host."""

    delay_seconds: NotNegative | None = None
    """Minimum time between the starts of two requests to one host key. `none`: 0 for private hosts; 0.5 for public
    ones, if their robots.txt has no Crawl-delay and `per_host` and `target_concurrency` are `none` too
    (docs/how-to/politeness.md)."""
    per_host: Count | None = None
    """Requests in flight per host key, in the whole cluster. `none`: 8, or 2 where the delay of public hosts
    applies."""
    per_ip: Count | None = None
    """Requests in flight per IP address, over all host keys last seen there, in the whole cluster; in shards, per
    shard."""
    obey_robots: bool = True
    """Read and obey robots.txt."""
    robots_seconds: Positive = 86_400.0
    """How long a robots.txt stays valid before it is fetched again."""
    obey_nofollow: bool = False
    """Follow no links of pages marked `nofollow` or `none`, and no links with `rel=nofollow`, `ugc` or `sponsored`."""
    obey_noindex: bool = False
    """Keep no items of pages marked `noindex` or `none`."""
    obey_canonical: bool = False
    """If a page names another page in scope by `rel=canonical`, keep no items of it and fetch the other page."""
    obey_tdm: bool = False
    """Keep no items of pages that reserve text and data mining."""
    host_backoff_seconds: Positive = 60.0
    """First block of a host that answers 429 or 503 without Retry-After. It doubles each time, up to a day."""
    burst_pages: Count = 16
    """Requests to one host key in a row, over one open connection, before other hosts of the same priority are
    served."""
    burst_seconds: NotNegative = 5.0
    """Maximum duration of such a burst, however few pages it had."""
    target_concurrency: Positive | None = None
    """Requests in flight per host key to aim for on average: delay = latency / this. `none` disables it."""
    max_delay_seconds: Positive = 60.0
    """Maximum delay that `target_concurrency` may set; `delay_seconds` and a Crawl-delay may be longer."""


def read_statuses(text: str, *, lowest: int = 400) -> frozenset[int]:
    """Return the statuses of a text such as ``429,500-504``. Raises ValueError."""
    found: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"not a status or a range of statuses: {part[:50]}")
        low, high = int(first[:5]), int((last or first)[:5])
        if not lowest <= low <= high <= 999:
            raise ValueError(f"not a status from {lowest} to 999: {part[:50]}")
        found.update(range(low, high + 1))
    return frozenset(found)


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """When a request that failed is tried again."""

    max_attempts: Count = 4
    """Attempts per request before it counts as failed."""
    retry_delay_seconds: NotNegative = 1.0
    """Delay before the second attempt. It doubles with each attempt, with jitter, up to an hour."""
    retry_statuses: str = "408,425,429,500,502-504,520-524"
    """HTTP statuses to try again, separated by commas; `520-524` is a range. If 429 or 503 is left out, a page with
    that status fails at once, and its host is still blocked for a while."""
    retry_priority: Annotated[int, Meta(ge=-100_000, le=100_000)] = 0
    """Added to the priority of a request each time it is delayed for a retry. Below 0, other requests of its host go
    first."""

    def __post_init__(self) -> None:
        read_statuses(self.retry_statuses)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a job and of the work in it."""

    max_pages: Count | None = None
    """Maximum number of pages (requests that end as done) of the whole job."""
    close_after_items: Count | None = None
    """Stop the job when its pages have yielded this many items; pages in flight may add some."""
    close_after_errors: Count | None = None
    """Stop the job when this many requests have failed, not counting those dropped by hooks."""
    close_after_seconds: Positive | None = None
    """Stop the job this long after the first of the nodes now at work has started."""
    max_pages_per_host: Count | None = None
    """Maximum number of pages per host key, in the whole cluster and run; further requests of the host are excluded."""
    max_in_flight: Count | None = None
    """Maximum number of pages in flight in the whole job, however many its workers could take. In shards, each shard
    gets an equal part, at least one."""
    max_depth: Annotated[int, Meta(ge=0)] | None = None
    """Maximum number of links from a seed; a seed has depth 0."""
    lease_seconds: Positive = 30.0
    """How long a request stays with a worker that does not renew its lease."""
    callback_seconds: Positive = 60.0
    """Maximum duration of a spider callback; a page whose callback takes longer fails."""
    max_outbox_items: Count = 100_000
    """Committed items that may wait for an output. At this number no new requests are leased until the output
    catches up."""
    max_queued: Count = 100_000
    """Queued requests at which intakes are no longer read. Further requests stay in their source, where others can
    see them."""
    max_known_urls: Count = 1_000_000
    """URLs that the workers of a node remember, at 16 bytes each, so that links they have already submitted cost
    nothing."""


class Links(msgspec.Struct, frozen=True, kw_only=True):
    """Which links are followed, within `allowed_domains` of the spider. Seeds are always fetched."""

    include: tuple[str, ...] = ()
    """Regular expressions: only links whose URL contains a match of one of them are followed (rule `include`)."""
    exclude: tuple[str, ...] = ()
    """Regular expressions: links whose URL contains a match of one of them are not followed (rule `exclude`)."""
    max_refresh_seconds: NotNegative | None = REFRESH_SECONDS
    """Longest wait of a refresh (`<meta http-equiv="refresh">` or the header `Refresh`) whose target is a link of its
    page; `none`: no refresh is a link."""

    def __post_init__(self) -> None:
        _check_patterns((*self.include, *self.exclude))


def _check_patterns(patterns: Iterable[str]) -> None:
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"not a regular expression: {pattern}: {error}") from error


class Traps(msgspec.Struct, frozen=True, kw_only=True):
    """Rules that keep a crawl out of sites without an end (docs/how-to/crawler-traps.md)."""

    traps: Literal["off", "normal", "strict"] = "normal"
    """`off` disables the trap rules. `normal` applies the limits below, which no real site reaches. `strict` also
    detects session ids, calendars, endless parameters and near-identical pages."""
    max_url_length: Annotated[int, Meta(ge=1, le=4096)] = 4096
    """Maximum length of a link in characters (rule `trap_length`)."""
    max_path_segments: Count = 64
    """Maximum number of segments in a link's path (rule `trap_segments`)."""
    max_path_repeats: Count = 10
    """How often one segment may occur in a link's path, consecutively or not (rule `trap_repeats`); with `strict` at
    most 5."""
    endless_depth: Count = 10_000
    """Links from a seed after which a chain counts as endless (rule `trap_depth`); `max_depth` is your own limit."""
    trap_pages: Count = 500
    """With `strict`: page budget of a host whose pages look like those of a trap."""


class Dedup(msgspec.Struct, frozen=True, kw_only=True):
    """How pages are remembered, so that none is fetched twice (docs/how-to/dedup.md). Fixed for a run."""

    dedup: Literal["exact", "bloom"] = "exact"
    """How done pages are remembered: `exact`, or `bloom`, a Bloom filter that takes a third of the memory and
    mistakes some new pages for duplicates. `bloom` is not available with SQLite."""
    dedup_capacity: Count = 10_000_000
    """With `bloom`: pages that the filter is sized for. Beyond that it grows, with more memory per page."""
    dedup_error_rate: Annotated[float, Meta(gt=0, lt=1)] = 0.0001
    """With `bloom`: share of new pages that may be mistaken for duplicates and are never fetched."""
    dedup_seconds: Positive | None = None
    """How long a done page is remembered, and up to an eighth longer; after that, a link to it is new again. Not
    available with SQLite or `bloom`."""
    dedup_scope: Literal["run", "job"] = "run"
    """`run`: each run fetches every page. `job`: pages whose items an earlier run has delivered are not fetched
    again."""


class Recrawl(msgspec.Struct, frozen=True, kw_only=True):
    """How a job fetches pages again in later runs (docs/how-to/recrawl.md)."""

    recrawl: Literal["off", "due", "all"] = "off"
    """`due`: keep a record of each page from run to run, fetch seeds and recorded pages that are due, and parse
    those that have changed. `all`: the same with all recorded pages, due or not."""
    recrawl_seconds: Positive = 604_800.0
    """A page that changes once in this time is fetched once in this time. Other pages are fetched at the geometric
    mean of this and the time between their changes, from an hour to ninety days. Four times as long means half as
    many fetches."""

    stay: bool = False
    """With `recrawl`: do not finish; start the next run when a page is due. Seeds are fetched when they are due too."""

    @property
    def is_on(self) -> bool:
        """Return whether the job keeps page records."""
        return self.recrawl != "off"


class Items(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to items between the spider and the outbox."""

    item_functions: str = ""
    """Functions that every item passes after the spider's own: `module:function`, several as a list or separated by
    commas."""
    file_target: str = "files"
    """Where `response.download(…)` stores files: a folder of the machine that fetches them, or `s3://BUCKET/PREFIX/`
    (docs/how-to/download-files.md)."""


class Hooks(msgspec.Struct, frozen=True, kw_only=True):
    """Hooks: code that sees and changes requests, responses and items (docs/how-to/hooks.md)."""

    hooks: str = ""
    """Hook classes, called in this order after the spider's own: `module:Class`, several as a list or separated by
    commas."""


class Proxies(msgspec.Struct, frozen=True, kw_only=True):
    """The proxy pool of a job (docs/how-to/proxies.md)."""

    proxy_pool: bool = False
    """Send every request through a proxy of the job's pool, and wait while none is free. Set by `--proxies`."""
    proxy_strategy: Literal["round_robin", "random", "weighted", "least_connections"] = "round_robin"
    """Which of the free proxies gets the next request. `weighted` chooses by success rate / (latency + 1 s)."""
    per_proxy: Count = 16
    """Requests in flight per proxy, in the whole cluster; in shards, each gets an equal part."""
    proxy_rotation: Literal["request", "session", "host"] = "request"
    """When another proxy is chosen: `request`, for each request; `session`, a named session keeps its proxy; `host`,
    a host keeps its proxy. A proxy that fails, is banned or is full is always replaced."""
    proxy_ban_seconds: Positive = 60.0
    """First ban of a proxy at a host. It doubles each time, up to a day."""
    proxy_ban_statuses: str = ""
    """Statuses that ban the proxy at that host, separated by commas: `403,429`; `520-524` is a range."""
    proxy_ban_texts: tuple[str, ...] = ()
    """Texts in the first 64 KB of a body that ban the proxy at that host; case-sensitive."""
    proxy_ban_headers: tuple[str, ...] = ()
    """Response headers that ban the proxy at that host: `x-blocked`, or `server: captcha` for a part of the value."""
    proxy_ban_errors: str = ""
    """Error classes (docs/reference/errors.md) that ban the proxy at that host, separated by commas:
    `tls,truncated`."""

    def __post_init__(self) -> None:
        read_statuses(self.proxy_ban_statuses, lowest=200)


class Sessions(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions that the frontier hands out (docs/how-to/login.md)."""

    session_pool: Annotated[int, Meta(ge=0, le=1_000)] = 0
    """Sessions in the pool; each request without a named session takes one of them. 0 means no pool."""
    exclusive_sessions: bool = False
    """A named session is used by one request at a time, in the whole cluster."""
    max_session_uses: Count | None = None
    """Requests with one session of the pool, or one that is logged in, before it is replaced."""
    max_session_seconds: Positive | None = None
    """How long such a session is used before it is replaced."""
    session_statuses: str = "401,403"
    """Statuses that mean that a session is no longer valid: it is replaced, and the page is tried again."""

    def __post_init__(self) -> None:
        read_statuses(self.session_statuses)


BLOCKABLE = ("image", "font", "media", "stylesheet")
"""Kinds of sub-requests that ``render_block`` may name."""


class Browser(msgspec.Struct, frozen=True, kw_only=True):
    """Which pages are rendered in a browser, and how (docs/how-to/browser.md). The browser of a node is set in
    `run`."""

    render_patterns: tuple[str, ...] = ()
    """Regular expressions: pages whose URL contains a match of one of them are rendered, as with `render=True`."""
    render_wait_until: Literal["domcontentloaded", "load", "networkidle"] = "load"
    """When a page counts as loaded: `domcontentloaded`, when it is parsed; `load`, with all its resources;
    `networkidle`, half a second after its last request."""
    render_wait_seconds: Positive = 10.0
    """Maximum time to wait for that once the page is parsed; then it is used as it is."""
    render_block: str = "media"
    """Resources that are not loaded, separated by commas: `image`, `font`, `media`, `stylesheet`."""

    def __post_init__(self) -> None:
        _check_patterns(self.render_patterns)
        if unknown := [kind for kind in self.blocked if kind not in BLOCKABLE]:
            raise ValueError(f"not one of {', '.join(BLOCKABLE)}: {unknown[0][:50]}")

    @property
    def blocked(self) -> tuple[str, ...]:
        """Return the entries of ``render_block``."""
        return tuple(filter(None, (entry.strip() for entry in self.render_block.split(","))))


class Fleet(msgspec.Struct, frozen=True, kw_only=True):
    """How a fleet serves the job (docs/how-to/fleets.md)."""

    job_priority: Annotated[int, Meta(ge=-100_000, le=100_000)] = 0
    """Jobs with the highest priority get workers first; jobs of the same priority take turns. It does not affect the
    order of requests."""
    deliver_node: str = ""
    """For a submitted job: the node (`--name`) that writes the outputs that exist on one machine only, such as
    files."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """This node's share of the work; not stored with the job."""

    workers: Count = 1
    """Worker processes. On the command line, in files and in the environment also `auto`: one for each core that the
    process may use, as far as memory allows."""
    concurrency: Count = 64
    """Requests in flight per worker. Requests that take four times as long as most do not count, up to seven times
    this number."""
    cache_dir: str = ""
    """For development: a folder of responses. A page that was fetched once is read from there, in any job
    (docs/how-to/cache.md)."""
    cache_seconds: Positive | None = None
    """Maximum age of a response in `cache_dir`; `none` allows any age."""
    proxy: str = ""
    """A proxy for all requests of this node (docs/explanation/safety.md). If it has a password, use SKITTER_PROXY."""
    credentials: tuple[Credential, ...] = ()
    """Credentials for servers: `[[credentials]]` tables of the project file (docs/how-to/authentication.md)."""
    proxies: tuple[str, ...] = ()
    """Sources of this node for the job's proxy pool: a proxy, a file, the URL of a list, `command:…`, or
    `registered` for proxies that register themselves (docs/how-to/proxies.md). Proxies with passwords belong in a
    file."""
    proxy_refresh_seconds: Positive = 60.0
    """How often the lists of `proxies` are read again."""
    browser_path: str = ""
    """Path of a Chromium program. If empty, the first of `chromium-headless-shell`, `chrome-headless-shell`,
    `chromium`, `chromium-browser`, `google-chrome` and `google-chrome-stable` on the PATH."""
    browser_pages: Annotated[int, Meta(ge=0)] = 4
    """Pages that one worker renders at a time, in one browser; 0: this node renders nothing."""
    browser_max_pages: Count = 200
    """A browser is replaced after this many pages."""
    browser_max_seconds: Positive = 1_800.0
    """A browser that is older than this is replaced when its pages are done."""
    browser_max_bytes: Count = 2_147_483_648
    """Memory of one browser with all its processes (Linux). Above it, the browser is replaced when its pages are
    done; at a quarter more it is killed."""
    browser_sandbox: bool = True
    """Start Chromium with its sandbox. As root it is always off, because Chromium refuses it."""
    max_buffered_bytes: Count = 16_777_216
    """Memory for all bodies that a worker is reading. Above it, large bodies are read one after the other."""
    max_idle_bytes: Count = 134_217_728
    """Memory for connections that a worker keeps open for the next request to their host: one per 80 KB, which is
    what TLS takes, and at most a quarter of the files that it may open."""
    shutdown_seconds: NotNegative = 10.0
    """How long a worker that was asked to stop may take to finish requests in flight."""
    turn_seconds: Positive = 20.0
    """With `--every-job`: how long a job is served while others of its priority wait for a worker."""
    max_worker_bytes: Count | None = 4_294_967_296
    """Hard memory limit of one worker process (Linux): a page that would take more fails, and does not harm the
    machine."""
    memory_warning_bytes: Count | None = None
    """Log a warning when a worker process uses this much memory (Linux)."""
    memory_limit_bytes: Count | None = None
    """A worker process that uses this much memory finishes its requests in flight and is replaced (Linux).
    `max_worker_bytes` is the hard limit."""
    stats_seconds: Positive | None = None
    """How often to log pages and items per minute, and the counters of spiders and hooks (`job.stats`)."""
    coordinator: str = ""
    """Detects lost nodes at once: `redis://…`, `zookeeper://…` or `sqlite:PATH` (docs/how-to/coordinator.md). If it
    has a password, use SKITTER_COORDINATOR."""
    coordinator_seconds: Annotated[float, Meta(ge=1)] = 10.0
    """A node that has not reached the coordinator for this long counts as lost. While the coordinator is
    unavailable, a worker starts nothing, and it aborts requests in flight after two thirds of this time."""
    metrics: str = ""
    """Serve this node's metrics for Prometheus at `[HOST:]PORT`; without a host, on this machine only
    (docs/how-to/monitor.md)."""
    metrics_token_file: str = ""
    """File with the bearer token that a client of `metrics` must send. Required unless the address is loopback."""
    alerts: tuple[AlertRule, ...] = ()
    """Thresholds on the figures of jobs, and who is notified: `[[alert]]` tables of the project file
    (docs/how-to/alerts.md)."""
    trusted_code: str = ""
    """Files, folders and modules outside the project folder whose code a job's record may name, separated by commas."""

    def __post_init__(self) -> None:
        origins = [credential.origin.lower() for credential in self.credentials]
        if twice := next((origin for origin in origins if origins.count(origin) > 1), None):
            raise ValueError(f"two credentials for the same origin: {twice}")

    @property
    def trusted(self) -> tuple[str, ...]:
        """Return the entries of ``trusted_code``."""
        return tuple(filter(None, (entry.strip() for entry in self.trusted_code.split(","))))


class Logging(msgspec.Struct, frozen=True, kw_only=True):
    """Event lines of this node (docs/reference/events.md); not stored with the job."""

    log_file: str = "-"
    """Where event lines go: a file, which is appended to, or `-` for standard error."""
    max_log_bytes: Count | None = None
    """At this size, `log_file` is renamed to FILE.1, FILE.1 to FILE.2, and so on; `none` lets it grow. Several
    processes may share the file."""
    max_log_files: Count = 5
    """With `max_log_bytes`: renamed files to keep besides the current one."""
    log_format: Literal["text", "json"] = "text"
    """Format of event lines. With `json` and no `log_file`, everything that a crawl prints to standard error is
    JSON."""
    log_level: Literal["debug", "info", "notice", "warning", "error"] = "info"
    """Lowest level of events and of messages that spiders send through `logging`; `-v` is `debug`. Libraries begin
    at `warning`, and a terminal shows events from `notice` on."""
    events: str = ""
    """A stream to publish events to: `amqp://…#exchange`, `kafka://…#topic` or `redis://…#stream`
    (docs/how-to/publish-events.md). If it has a password, use SKITTER_EVENTS."""


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
        return "the record of seen pages depends on it"
    if group in ("run", "logging"):
        return "each node has its own value, which is not stored with the job"
    return "workers read it when they start"


def _way_to_change(name: str) -> str:
    if name == "concurrency":
        return "max_in_flight limits the pages in flight of the whole job"
    group = _GROUP_OF[name]
    if group in ("run", "logging"):
        return f"restart the node with --set {name}=VALUE"
    if group in ("dedup", "recrawl"):
        return f"a new run can have another value: --fresh --set {name}=VALUE"
    return f"stop the job and run the crawl again with --set {name}=VALUE"


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
        *("include", "exclude"),
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
    return f"settings with similar names: {', '.join(difflib.get_close_matches(name, _GROUP_OF, n=5, cutoff=0.0))}"
