"""The table of settings of Scrapy, scrapy-redis and Crawlo: what each upper-case name means here.

``FOREIGN`` has the names that are a setting, ``SWITCHES`` those that turn something off, ``TOGETHER`` those that are
read together with others, ``COUNTERPARTS`` and ``FAMILIES`` all the rest, with what to use instead.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

OFF = (False, 0, "0", "False", "false", "no", "off")
"""Values that turn something off."""


def is_off(value: Any) -> bool:
    """Return whether a value turns a feature off; text counts as in Scrapy's ``-s``."""
    return (value.lower() if isinstance(value, str) else value) in OFF


# ---- how values are read


def _same(value: Any) -> Any:
    return value


def _on_or_off(value: Any) -> Any:
    """Convert text and numbers to true or false."""
    return not is_off(value) if isinstance(value, (int, str)) else value


def _plus_one(value: Any) -> Any:
    """Add one: Scrapy counts the attempts after the first, skitter counts all."""
    return int(value) + 1


def _header_lines(value: Any) -> list[str]:
    """Convert headers to lines; headers with the value None, which removes a default of Scrapy, are left out."""
    if not isinstance(value, Mapping):
        raise TypeError('a dict is expected, as in {"Accept-Language": "en"}')
    return [f"{name}: {text}" for name, text in value.items() if text is not None]


def _zero_is_none(value: Any) -> Any:
    """0 becomes ``none``."""
    return None if float(value) == 0 else value


def _megabytes(value: Any) -> Any:
    """Convert MB to bytes; 0 becomes ``none``."""
    return None if int(value) == 0 else int(value) * 1024 * 1024


def _zero_is_boundless(value: Any) -> Any:
    """0, no limit in Scrapy, becomes a number that is never reached."""
    return 1 << 62 if int(value) == 0 else value


def _url_length(value: Any) -> Any:
    """At most 4096, which is skitter's own limit; so is 0, no limit in Scrapy."""
    return min(int(value) or 4096, 4096)


def pipelines(value: Any) -> Any:
    """Convert ``{"shop.pipelines.Clean": 300}`` to a list of ``module:Class``, ordered by number."""
    if not isinstance(value, Mapping):
        raise TypeError("a mapping of classes to numbers is expected")
    named = sorted((number, _dotted(name)) for name, number in value.items() if number is not None)
    return ",".join(":".join(name.rsplit(".", 1)) for _, name in named)


def _dotted(named: Any) -> str:
    """Return the dotted name of a class that is given itself or by name."""
    return f"{named.__module__}.{named.__qualname__}" if isinstance(named, type) else str(named)


def _crawlo_pipelines(value: Any) -> Any:
    """Convert Crawlo's mapping, or the list of its older versions, without the pipelines of Crawlo itself."""
    listed = value if isinstance(value, Mapping) else {name: place for place, name in enumerate(value)}
    return pipelines({name: number for name, number in listed.items() if not _dotted(name).startswith("crawlo.")})


def _log_level(value: Any) -> Any:
    """Convert a level by name or number; levels above error become error."""
    number = logging.getLevelName(str(value).upper()) if isinstance(value, str) else value
    if not isinstance(number, int):
        raise TypeError("one of DEBUG, INFO, WARNING, ERROR and CRITICAL is expected")
    steps = ((logging.ERROR, "error"), (logging.WARNING, "warning"), (25, "notice"), (logging.INFO, "info"))
    return next((name for least, name in steps if number >= least), "debug")


def _log_file(value: Any) -> Any:
    """None becomes ``-``."""
    return "-" if value is None else str(value)


FOREIGN: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "AUTOTHROTTLE_MAX_DELAY": ("max_delay_seconds", _same),
    "BLOOM_FILTER_CAPACITY": ("dedup_capacity", _same),
    "BLOOM_FILTER_ERROR_RATE": ("dedup_error_rate", _same),
    "CLOSESPIDER_ERRORCOUNT": ("close_after_errors", _zero_is_none),
    "CLOSESPIDER_ITEMCOUNT": ("close_after_items", _zero_is_none),
    "CLOSESPIDER_PAGECOUNT": ("max_pages", _zero_is_none),
    "CLOSESPIDER_TIMEOUT": ("close_after_seconds", _zero_is_none),
    "CLUSTER_GRACEFUL_SHUTDOWN_TIMEOUT": ("shutdown_seconds", _same),
    "CONCURRENCY": ("concurrency", _same),
    "CONCURRENT_REQUESTS": ("concurrency", _same),
    "CONCURRENT_REQUESTS_PER_DOMAIN": ("per_host", _same),
    "CONCURRENT_REQUESTS_PER_IP": ("per_ip", _zero_is_none),
    "CONNECTION_POOL_LIMIT_PER_HOST": ("per_host", _same),
    "COOKIES_ENABLED": ("cookies", _same),
    "DEFAULT_REQUEST_HEADERS": ("headers", _header_lines),
    "DEPTH_LIMIT": ("max_depth", _zero_is_none),
    "DOWNLOAD_DELAY": ("delay_seconds", _same),
    "DOWNLOAD_MAXSIZE": ("max_body_bytes", _zero_is_boundless),
    "DOWNLOAD_TIMEOUT": ("timeout_seconds", _same),
    "DOWNLOAD_VERIFY_CERTIFICATES": ("verify_tls", _on_or_off),
    "HTTPX_HTTP2_ENABLED": ("http2", _on_or_off),
    "INTERVAL": ("stats_seconds", _zero_is_none),
    "ITEM_PIPELINES": ("item_functions", pipelines),
    "LOGSTATS_INTERVAL": ("stats_seconds", _zero_is_none),
    "LOG_BACKUP_COUNT": ("max_log_files", _same),
    "LOG_FILE": ("log_file", _log_file),
    "LOG_FILE_BACKUP_COUNT": ("max_log_files", _same),
    "LOG_LEVEL": ("log_level", _log_level),
    "LOG_MAX_BYTES": ("max_log_bytes", _zero_is_none),
    "MAX_RETRY_TIMES": ("max_attempts", _plus_one),
    "MEMORY_LIMIT_MB": ("memory_limit_bytes", _megabytes),
    "MEMUSAGE_LIMIT_MB": ("memory_limit_bytes", _megabytes),
    "MEMUSAGE_WARNING_MB": ("memory_warning_bytes", _megabytes),
    "METAREFRESH_MAXDELAY": ("max_refresh_seconds", _zero_is_none),
    "PIPELINES": ("item_functions", _crawlo_pipelines),
    "REDIRECT_MAX_TIMES": ("max_redirects", _same),
    "RETRY_HTTP_CODES": ("retry_statuses", _same),
    "RETRY_PRIORITY": ("retry_priority", _same),
    "RETRY_PRIORITY_ADJUST": ("retry_priority", _same),
    "RETRY_TIMES": ("max_attempts", _plus_one),
    "ROBOTSTXT_OBEY": ("obey_robots", _same),
    "STATS_INTERVAL": ("stats_seconds", _zero_is_none),
    "URLLENGTH_LIMIT": ("max_url_length", _url_length),
    "USER_AGENT": ("user_agent", _same),
    "VERIFY_SSL": ("verify_tls", _same),
}
"""Names that are a setting, and how their value is read."""

SWITCHES: dict[str, dict[str, Any]] = {
    "MEMUSAGE_ENABLED": {"memory_limit_bytes": None, "memory_warning_bytes": None},
    "METAREFRESH_ENABLED": {"max_refresh_seconds": None},
    "REDIRECT_ENABLED": {"max_redirects": 0},
    "RETRY_ENABLED": {"max_attempts": 1},
}
"""Names that turn something off: the settings of a value that is false. A true one changes nothing."""

THROTTLE, THROTTLE_TARGET = "AUTOTHROTTLE_ENABLED", "AUTOTHROTTLE_TARGET_CONCURRENCY"
FEEDS = "FEEDS"
CACHE, CACHE_DIR, CACHE_AGE = "HTTPCACHE_ENABLED", "HTTPCACHE_DIR", "HTTPCACHE_EXPIRATION_SECS"
FRONTIER_NAMES = frozenset(
    "REDIS_URL REDIS_HOST REDIS_PORT REDIS_DB REDIS_USER REDIS_USERNAME REDIS_PASSWORD REDIS_SSL REDIS_PARAMS "
    "REDIS_CLUSTER_NODES REDIS_CLUSTER_ENABLED REDIS_SENTINEL_URLS REDIS_SENTINEL_SERVICE SKITTER_FRONTIER".split()
)
"""Names of the place of the job (``redis_settings``)."""
MODE_NAMES = frozenset("SCHEDULER DUPEFILTER_CLASS RUN_MODE CRAWLO_MODE QUEUE_TYPE".split())
"""Names that say whether the job is in that place."""
TOGETHER = frozenset({THROTTLE, THROTTLE_TARGET, FEEDS, CACHE, CACHE_DIR, CACHE_AGE}) | FRONTIER_NAMES | MODE_NAMES
"""Names that are read together with others."""


# ---- what has no setting


def _each(*named: tuple[str, str]) -> dict[str, str]:
    return {name: text for names, text in named for name in names.split()}


_OUTPUT = "use -o OUTPUT, a [[sink]] table or sinks of the spider"
_FORMAT = "the suffix of an output selects its format: -o OUTPUT, a [[sink]] table or sinks of the spider"
_HOOKS = "use hooks = ['module:Class'], classes that see requests, responses and events"
_LOG = "use log_format (text or json) and log_file"
_BASE = "it lists Scrapy's built-in components"
_RESUME = "every crawl can be resumed; its state is in --frontier"
_ONE = "skitter has its own, which cannot be replaced"
_DEDUP = "the frontier remembers every request of the run exactly; dedup=bloom or dedup_seconds change that"
_QUEUE = "the frontier has one queue per host, by priority and then first in, first out"
_USER_AGENTS = "use user_agents, a list of which each session or host gets one, or user_agent, one name for all"
_BROWSER = "use render=True of a Request to render a page in a browser"
_PROXIES = "use proxy, one for all requests of a node, or --proxies, a pool"
_AWS = "-o s3://… and file_target use the credentials of the environment and of AWS's own files"
_FILES = "response.download(link) stores a file in file_target"
_STATS = "self.stats counts, skitter status shows the counters, and on_event sees every event"
_TRAFFIC = "per_host and delay_seconds apply to the whole job, and max_in_flight limits it"
_LEASES = "a lease that is not renewed for lease_seconds goes to another worker"
_END = "a crawl ends exactly when nothing is queued or in flight; --until-idle SECONDS closes an intake"
_INTAKE = "--intake redis://HOST#KEY reads requests from a list, a set, a sorted set or a stream"
_BACKPRESSURE = "the frontier keeps the queue on disk or in Redis; max_queued limits what intakes add"
_PAGE_DELAY = "delay_seconds is exact; there are no random delays"
_MEMORY = "use memory_warning_bytes and memory_limit_bytes, which apply to each worker process"
_MAIL = "use an alert, a hook on_event or a subscriber of --events to send messages"
_SCHEDULES = "use skitter schedule add NAME --cron … to run commands on a schedule"
_IDLE_CONNECTIONS = "max_idle_bytes limits the connections that a worker keeps open"
_DATABASE = "-o mysql://…, postgresql://…, mongodb://…, sqlite:FILE#TABLE and others write to a database"
_NO_TARGET = "there is no such output; write a sink class, or feed it with -o kafka://…"
_SPIDERS = 'outside of a project of Scrapy or Crawlo, spiders = ["FOLDER"] in skitter.toml says where spiders are found'
_CACHE = "use cache_dir and cache_seconds to read fetched pages from a folder"
_STATUSES = "handle_statuses of the spider or of a Request lists statuses besides 2xx that callbacks see"
_TLS = "libcurl's default applies"
_REDIS_POOL = "each process keeps the few connections to Redis that it needs"
_KEYS = "keys are named by the job: --job NAME"

COUNTERPARTS: dict[str, str] = _each(
    # Scrapy
    ("ADDONS EXTENSIONS EXTENSIONS_STRICT DOWNLOADER_MIDDLEWARES MIDDLEWARES", _HOOKS),
    ("ASYNCIO_EVENT_LOOP TWISTED_REACTOR TWISTED_REACTOR_ENABLED FORCE_CRAWLER_PROCESS", "workers use uvloop"),
    ("REACTOR_THREADPOOL_MAXSIZE", "callbacks run in the event loop; plain functions as spiders run in threads"),
    ("AUTOTHROTTLE_DEBUG", "skitter why URL shows what its host waits for"),
    (
        "AUTOTHROTTLE_START_DELAY",
        "hosts that answer 429 or 503 are slowed down automatically; delay_seconds and max_delay_seconds limit a delay",
    ),
    ("BOT_NAME", "user_agent is the name that is sent, --job that of the job"),
    (
        "CLOSESPIDER_PAGECOUNT_NO_ITEM CLOSESPIDER_TIMEOUT_NO_ITEM",
        "close_after_seconds stops a job; a hook counts pages and items",
    ),
    ("COMMANDS_MODULE TEMPLATES_DIR EDITOR NEWSPIDER_MODULE", "skitter --help lists the commands; skitter new project"),
    ("COMPRESSION_ENABLED AIOHTTP_AUTO_DECOMPRESS", "compressed bodies are always accepted; max_ratio limits them"),
    (
        "CONCURRENT_ITEMS SCRAPER_SLOT_MAX_ACTIVE_SIZE",
        "items of a page pass through the item functions one after the other",
    ),
    ("COOKIES_DEBUG", "-v logs more"),
    ("CRAWLSPIDER_FOLLOW_LINKS", "the rules of the spider select the links to follow"),
    ("DEFAULT_DROPITEM_LOG_LEVEL", "dropped items are counted"),
    ("DEFAULT_ITEM_CLASS", "items are dicts, dataclasses, attrs, pydantic and others; skitter shell shows a page"),
    ("DEPTH_PRIORITY", "priority of a Request, which on_request may set by its depth"),
    ("DEPTH_STATS_VERBOSE DOWNLOADER_STATS DOWNLOAD_STATS STATS_CLASS STATS_DUMP LOG_VERSIONS", _STATS),
    (
        "DNSCACHE_ENABLED DNSCACHE_SIZE DNS_RESOLVER TWISTED_DNS_RESOLVER",
        "names are looked up by the system's resolver",
    ),
    ("DNS_TIMEOUT", "connect_timeout_seconds is for name lookup, TCP and TLS together"),
    ("DOWNLOADER DOWNLOAD_HANDLERS DOWNLOAD_HANDLERS_BASE", "fetcher names what sends requests"),
    ("DOWNLOADER_CLIENTCONTEXTFACTORY DOWNLOADER_CLIENT_TLS_CIPHERS DOWNLOADER_CLIENT_TLS_METHOD", _TLS),
    ("DOWNLOADER_CLIENT_TLS_VERBOSE_LOGGING HTTP2_MAX_FRAME_SIZE", _TLS),
    ("DOWNLOAD_TLS_MAX_VERSION DOWNLOAD_TLS_MIN_VERSION", _TLS),
    ("DOWNLOADER_HTTPCLIENTFACTORY", _TLS),
    ("DOWNLOAD_BIND_ADDRESS", "the system chooses the address that requests come from"),
    ("DOWNLOAD_DELAY_JITTER RANDOMIZE_DOWNLOAD_DELAY RANDOMNESS RANDOM_RANGE", _PAGE_DELAY),
    ("DOWNLOAD_FAIL_ON_DATALOSS", "a body that ends too early is fetched again, and failed after max_attempts"),
    ("DOWNLOAD_SLOTS DOWNLOAD_DELAY_OVERRIDES", _TRAFFIC),
    ("DOWNLOAD_WARNSIZE", "max_body_bytes limits a body"),
    ("DUPEFILTER_DEBUG DEDUP_DEBUG FILTER_DEBUG SCHEDULER_DEBUG", "skitter why URL explains what happened to a URL"),
    ("DUPEFILTER_KEY FILTER_CLASS DUPEFILTER_INCLUDE_HEADERS DUPEFILTER_INCLUDE_META", _DEDUP),
    ("REQUEST_FINGERPRINTER_CLASS REQUEST_FINGERPRINTER_IMPLEMENTATION", _DEDUP),
    ("FEED_FORMAT FEED_URI FEED_EXPORTERS FEED_STORAGES FEED_URI_PARAMS FEED_STORE_EMPTY OUTPUT_DIR", _OUTPUT),
    ("HTTPERROR_ALLOWED_CODES HTTPERROR_ALLOW_ALL ALLOWED_RESPONSE_CODES DENIED_RESPONSE_CODES", _STATUSES),
    ("HTTPPROXY_ENABLED HTTPPROXY_AUTH_ENCODING", _PROXIES),
    ("ITEM_PROCESSOR", _ONE),
    ("JOBDIR", _RESUME),
    ("LOG_DATEFORMAT LOG_FORMAT LOG_FORMATTER LOG_SHORT_NAMES LOG_STDOUT LOG_ENCODING LOG_COLOR", _LOG),
    ("LOG_ENABLED", "-q prints errors only"),
    ("LOG_FILE_APPEND", "log_file is always appended to"),
    ("LOG_INSTALL_ROOT_HANDLER", "a script configures logging itself; log_level is skitter's level"),
    (
        "LOG_RETENTION_DAYS LOG_FILE_WHEN LOG_FILE_UTF8_BACKUP LOG_FILE_WORKER_ID",
        "max_log_bytes and max_log_files rotate a log by size",
    ),
    ("MEDIA_ALLOW_REDIRECTS", "a download follows redirects like every request"),
    ("MEMDEBUG_ENABLED MEMUSAGE_CHECK_INTERVAL_SECONDS", _MEMORY),
    ("MEMUSAGE_NOTIFY_MAIL STATSMAILER_RCPTS", _MAIL),
    ("METAREFRESH_IGNORE_TAGS", "a refresh inside noscript or template is none"),
    ("META_COPY_WARN_SKIP_KEYS WARN_ON_GENERATOR_RETURN_VALUE", "such a mistake is an error where it happens"),
    ("REDIRECT_PRIORITY_ADJUST", "a redirect keeps the priority of its request"),
    ("REFERER_ENABLED REFERRER_POLICY REFERRER_POLICIES", "no Referer is sent; headers of a Request may have one"),
    ("RETRY_EXCEPTIONS IGNORE_HTTP_CODES DOWNLOAD_RETRY_TIMES", "max_attempts and retry_statuses control retries"),
    ("RETRY_GIVE_UP_LOG_LEVEL", "skitter failed lists failed requests"),
    ("ROBOTSTXT_PARSER", _ONE),
    ("ROBOTSTXT_USER_AGENT", "robots.txt is evaluated for the first word of user_agent"),
    ("SPIDER_CONTRACTS SPIDER_CONTRACTS_BASE", "skitter check loads spiders; skitter.testing runs them on given pages"),
    ("SPIDER_LOADER_CLASS SPIDER_LOADER_WARN_ONLY SPIDER_MODULES", _SPIDERS),
    ("SPIDER_MIDDLEWARES", "use an item function to change or drop items"),
    ("DOWNLOADER_MIDDLEWARES_BASE SPIDER_MIDDLEWARES_BASE EXTENSIONS_BASE", _BASE),
    ("ITEM_PIPELINES_BASE FEED_EXPORTERS_BASE FEED_STORAGES_BASE", _BASE),
    # scrapy-redis
    ("MAX_IDLE_TIME_BEFORE_CLOSE SCHEDULER_IDLE_BEFORE_CLOSE", _END),
    ("REDIS_ENCODING REDIS_DECODE_RESPONSES DECODE_RESPONSES", "requests are stored as msgpack, and read as UTF-8"),
    ("REDIS_CONCURRENT_REQUESTS REDIS_CLS", _REDIS_POOL),
    ("REDIS_ITEMS_KEY REDIS_ITEMS_SERIALIZER PIPELINE_KEY", "-o redis://HOST#STREAM writes items to a stream"),
    ("REDIS_START_URLS_KEY REDIS_START_URLS_AS_SET REDIS_START_URLS_AS_ZSET REDIS_START_URLS_BATCH_SIZE", _INTAKE),
    ("SCHEDULER_DUPEFILTER_KEY SCHEDULER_DUPEFILTER_CLASS", _DEDUP),
    ("SCHEDULER_FLUSH_ON_START", "--fresh discards an unfinished run"),
    ("SCHEDULER_PERSIST", _RESUME),
    ("SCHEDULER_SERIALIZER", "requests are stored as msgpack, never pickled"),
    ("SCHEDULER_QUEUE_KEY SCHEDULER_QUEUE_NAME STATS_KEY", _KEYS),
    ("SCHEDULER_QUEUE_CLASS SCHEDULER_DISK_QUEUE SCHEDULER_MEMORY_QUEUE SCHEDULER_PRIORITY_QUEUE", _QUEUE),
    ("SCHEDULER_START_DISK_QUEUE SCHEDULER_START_MEMORY_QUEUE", _QUEUE),
    # skitter.contrib.scrapy.Scheduler
    ("SKITTER_JOB", "--job NAME is the name of the job"),
    ("SKITTER_SINKS", _OUTPUT),
    # Crawlo
    ("ALLOWED_DOMAINS", "allowed_domains of the spider limits the links to follow"),
    ("CONNECTION_POOL_LIMIT", _IDLE_CONNECTIONS),
    (
        "DEFAULT_DEDUP_PIPELINE REDIS_DEDUP_CLEANUP",
        "outputs identify items by page and position, so none is written twice",
    ),
    ("DB_DEDUP_TABLE DB_HOST DB_NAME DB_PASSWORD DB_PORT DB_USER", _DATABASE),
    ("DYNAMIC_CONFIG_ENABLED", "skitter set KEY=VALUE --job NAME changes a running job"),
    ("ENABLE_CONTROLLED_REQUEST_GENERATION SPIDER_BATCH_SIZE", "start() is read in parts while the crawl runs"),
    ("LOG_ENABLE_CUSTOM", "log_level is for spiders and their loggers too"),
    ("MAX_RUNNING_SPIDERS", "skitter worker --every-job serves several jobs at a time"),
    ("PIPELINE_BATCH_SIZE PIPELINE_USE_BATCH", "outputs are written in batches"),
    ("PROGRESS_REPORT_INTERVAL", "skitter status --watch shows progress"),
    ("PROJECT_NAME SPIDER_NAME", "--job NAME is the name of the job; without it, the spider's"),
    ("REDIS_MAX_CONNECTIONS REDIS_POOL_SIZE REDIS_POOL_SHARED_MODE REDIS_CONNECTION_POOL_SIZE", _REDIS_POOL),
    ("REDIS_KEY_PREFIX REDIS_KEY", _KEYS),
    ("REDIS_SOCKET_TIMEOUT REDIS_CONNECT_TIMEOUT REDIS_RETRY_ON_TIMEOUT", "calls have time limits of their own"),
    ("REDIS_TTL", "dedup_seconds is how long a done page is remembered"),
    ("REQUEST_DIR", "skitter export and -o write what was crawled"),
    ("RANDOM_UA", _USER_AGENTS),
    ("VERSION WORKER_ID", "skitter names each worker by its machine and process"),
)
"""Names without a setting of the kind, and what to use instead."""

FAMILIES: tuple[tuple[str, str], ...] = (
    ("ADAPTIVE_BACKPRESSURE_", _BACKPRESSURE),
    ("ADAPTIVE_", "a selector that finds nothing stays empty; tests with skitter.testing detect it"),
    ("ATTACHMENT_", _FILES),
    ("AWS_", _AWS),
    ("BACKPRESSURE_", _BACKPRESSURE),
    ("BROWSER_", _BROWSER),
    ("CAMOUFOX_", _BROWSER),
    ("CHECKPOINT_", _RESUME),
    ("CLICKHOUSE_", _NO_TARGET),
    ("CLOAKBROWSER_", _BROWSER),
    ("CLOUDFLARE_BYPASS_", "skitter does not solve challenges; render=True of a Request uses a browser"),
    ("CLUSTER_", _LEASES),
    ("CSV_", "-o FILE.csv writes CSV"),
    ("CURL_BROWSER_", "libcurl sends requests under skitter's own name; no other program is imitated"),
    ("DINGTALK_", _MAIL),
    ("DISTRIBUTED_LOCK_", "use self.lock(NAME), a lock for the whole job"),
    ("DISTRIBUTED_RATE_LIMIT_", _TRAFFIC),
    ("DISTRIBUTED_WORKER_", _END),
    ("DISTRIBUTED_", _LEASES),
    ("DRISSIONPAGE_", _BROWSER),
    ("DYNAMIC_LOADER_", _BROWSER),
    ("DYNAMIC_RENDER_", _BROWSER),
    ("ELASTICSEARCH_", _NO_TARGET),
    ("EMAIL_", _MAIL),
    ("ENQUEUE_", _BACKPRESSURE),
    ("EVENTLOOP_LAG_", "a page that blocks its worker is detected and ended (callback_seconds)"),
    ("FEED_", _FORMAT),
    ("FEISHU_", _MAIL),
    ("FILES_", _FILES),
    ("FTP_", "only http and https are fetched"),
    ("GCS_", "there is no such output; -o s3://… writes to a bucket"),
    ("HBASE_", _NO_TARGET),
    ("HEALTH_CHECK_", "skitter status lists the workers and what each is doing"),
    ("HTTPAUTH_", "use [[credentials]] tables in skitter.toml"),
    ("HTTPCACHE_", _CACHE),
    ("HYBRID_", _BROWSER),
    ("IMAGES_", _FILES),
    ("JSON_", "-o FILE.jsonl or FILE.json writes JSON"),
    ("MAIL_", _MAIL),
    ("MEMORY_BACKPRESSURE_", _BACKPRESSURE),
    ("MEMORY_SCHEDULER_", _BACKPRESSURE),
    ("MEMORY_", _MEMORY),
    ("MONGO_", "-o mongodb://HOST/DATABASE#COLLECTION writes there"),
    ("MYSQL_", "-o mysql://USER@HOST/DATABASE#TABLE writes there"),
    ("NOTIFICATION_", _MAIL),
    ("PERIODIC_LOG_", "stats_seconds logs the counters of spiders and hooks"),
    ("PG_", "-o postgresql://USER@HOST/DATABASE#TABLE writes there"),
    ("PLAYWRIGHT_", _BROWSER),
    ("PROMETHEUS_", _STATS),
    ("PROXY_", _PROXIES),
    ("QUEUE_", _QUEUE),
    ("REDIS_BACKPRESSURE_", _BACKPRESSURE),
    ("REDIS_MONITOR_", "skitter status shows the free space of a store"),
    ("REDIS_SCHEDULER_", _BACKPRESSURE),
    ("REMOTE_CONTROL_", "skitter pause, resume, stop and set control a job from any machine"),
    ("REQUEST_GENERATION_", "start() is read in parts while the crawl runs"),
    ("REQUEST_RECORDER_", _STATS),
    ("SCHEDULER_MAX_QUEUE_", _BACKPRESSURE),
    ("SCHEDULER_", _SCHEDULES),
    ("SELENIUM_", _BROWSER),
    ("SMS_", _MAIL),
    ("SPLASH_", _BROWSER),
    ("SQLITE_", "-o sqlite:FILE#TABLE writes there"),
    ("STATS_", _STATS),
    ("STREAM_", _LEASES),
    ("TELNETCONSOLE_", "skitter status, why and set inspect and change a job"),
    ("THROTTLE_", _TRAFFIC),
    ("USER_AGENT_", _USER_AGENTS),
    ("WECOM_", _MAIL),
)
"""Beginnings of names that belong together, the longer one first where two fit; what to use instead."""


READ_BY_ADAPTER = frozenset(
    """ADDONS CRAWLSPIDER_FOLLOW_LINKS DEFAULT_REQUEST_HEADERS DEPTH_PRIORITY DOWNLOADER_MIDDLEWARES EXTENSIONS
    FEED_EXPORT_FIELDS FEED_FORMAT FEED_URI FILES_EXPIRES FILES_RESULT_FIELD FILES_STORE FILES_STORE_GCS_ACL
    FILES_STORE_S3_ACL FILES_URLS_FIELD HTTPAUTH_DOMAIN HTTPAUTH_PASS HTTPAUTH_USER HTTPERROR_ALLOWED_CODES
    HTTPERROR_ALLOW_ALL HTTPPROXY_ENABLED IMAGES_EXPIRES IMAGES_MIN_HEIGHT IMAGES_MIN_WIDTH IMAGES_RESULT_FIELD
    IMAGES_STORE IMAGES_STORE_GCS_ACL IMAGES_STORE_S3_ACL IMAGES_THUMBS IMAGES_URLS_FIELD ITEM_PIPELINES LOG_FORMATTER
    METAREFRESH_ENABLED METAREFRESH_IGNORE_TAGS METAREFRESH_MAXDELAY REDIRECT_ENABLED REFERER_ENABLED RETRY_ENABLED
    SPIDER_MIDDLEWARES SPIDER_MODULES STATS_CLASS STATS_DUMP URLLENGTH_LIMIT""".split()
)
"""Names that a Scrapy project which runs unchanged may use: the adapter, or Scrapy's own classes in it, read them."""
READ_BY_SCHEDULER = frozenset(
    """MAX_IDLE_TIME_BEFORE_CLOSE REDIS_ENCODING REDIS_START_URLS_KEY SCHEDULER_FLUSH_ON_START
    SCHEDULER_IDLE_BEFORE_CLOSE SKITTER_JOB SKITTER_SINKS""".split()
)
"""Names that ``skitter.contrib.scrapy.Scheduler`` and its ``RedisSpider`` read."""


def counterpart(name: str) -> str:
    """Return what to use instead of a name without a setting; empty: nothing is known of it."""
    if name in COUNTERPARTS:
        return COUNTERPARTS[name]
    return next((text for prefix, text in FAMILIES if name.startswith(prefix)), "")
