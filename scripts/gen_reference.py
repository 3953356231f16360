"""Write the pages of docs/reference that are made from the source; --check compares them.

Names, types and defaults of settings are asked of the structs. The descriptions are the string literals under
the fields, which exist only in the source and are read with ``ast``. Events describe themselves.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

import cli_reference
import json_reference
import project_reference
import python_reference
import rest_reference
from skitter import settings
from skitter.model import consistency
from skitter.observe import events, metrics
from skitter.spiders import foreign_settings

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "settings.md"
EVENTS_PAGE = ROOT / "docs" / "reference" / "events.md"
FOREIGN_PAGE = ROOT / "docs" / "reference" / "foreign-settings.md"
REST_PAGE = ROOT / "docs" / "reference" / "rest.md"
FINDINGS_PAGE = ROOT / "docs" / "reference" / "findings.md"
METRICS_PAGE = ROOT / "docs" / "reference" / "metrics.md"

HEAD = """\
# Settings

<!-- Written by scripts/gen_reference.py from src/skitter/settings.py. Change the source, then run `make docs`. -->

A setting has the same name wherever it is set: in a file, in a spider, in the environment, on the command line or in a
script.

## Which value wins

From the lowest precedence to the highest:

1. the default on this page
2. the project file: `skitter.toml` in the current folder or, if there is none, `[tool.skitter]` in `pyproject.toml`
3. the settings module of `--config FILE`, [in the style of Scrapy or Crawlo](foreign-settings.md)
4. the spider's `custom_settings`
5. the environment: `SKITTER_` and the name in upper case, e.g. `SKITTER_TIMEOUT_SECONDS=5`; an empty variable counts as
   not set
6. the command line: `--set timeout_seconds=5`, or the option of the setting; the last one wins

In a script: the default, then the spider's `custom_settings`, then `skitter.crawl(…, settings={…})`.
[`skitter settings`](cli.md#settings) shows every value and where it comes from.

An unknown name is an error, and so is a value outside its range. `none` removes a limit where the type allows it.
Durations are in seconds and sizes in bytes. Groups are only for reading: a name belongs to one group, and needs no
prefix.

## The project file

Names are at the top level, or in a table of their group:

```toml
# skitter.toml
spiders = ["spiders", "news.py"]
user_agent = "bookshop-bot/1.0"

[politeness]
delay_seconds = 0.5

[[sink]]
target = "books.jsonl"
overwrite = true
```

The project file may also have these entries:

| entry | meaning |
| --- | --- |
| `spiders` | Files and folders in which spiders are found by name. Default: the folder `spiders`. |
| `[[sink]]` | An output: `target`, and optionally `overwrite`, `key` and [its options](../how-to/outputs.md). |
| `[[schedule]]` | A [schedule](../how-to/schedules.md#in-the-project-file), which `skitter scheduler` stores. |
| `[[credentials]]` | [Credentials](../how-to/authentication.md) for a server. |
| `[[alert]]` | An [alert](../how-to/alerts.md). |

Outputs come from one place only: `-o` and `-O`, or else the spider's `sinks`, or else `FEEDS` of `--config`, or else
`[[sink]]`. The frontier is that of `--frontier`, or else the Redis server of `--config`, or else a SQLite file.
"""

FOREIGN_HEAD = """\
# Settings of Scrapy, scrapy-redis and Crawlo

<!-- Written by scripts/gen_reference.py from the table `foreign_settings.py`; then run `make docs`. -->

Upper-case names are read in the module of `--config`, in `custom_settings`, and in `skitter.crawl(…, settings={…})`. A
Crawlo module may create them with `CrawloConfig.standalone(…)`, `.distributed(…)` or `.auto(…)`, whose keywords are the
same names in lower case; Crawlo need not be installed. No name is ignored silently: it is mapped to a setting, or a
warning says what to use instead. Names that are not on this page are listed in one warning.

This page is about spiders that skitter runs itself: its own, and those of Crawlo. For Scrapy's spiders, which keep
Scrapy's classes, see [Migrate from Scrapy](../how-to/migrate-from-scrapy.md#what-works-unchanged).

## Names with an equivalent setting

| name | setting | conversion |
| --- | --- | --- |
"""

FOREIGN_SWITCHES_HEAD = """
## Switches

A true value changes nothing.

| name | effect if false |
| --- | --- |
"""

FOREIGN_TOGETHER_HEAD = """
## Names that are combined

| name | |
| --- | --- |
"""

FOREIGN_TOGETHER = {
    "AUTOTHROTTLE_ENABLED AUTOTHROTTLE_TARGET_CONCURRENCY": (
        "`target_concurrency`: the number if it is enabled (default 1), else `none`"
    ),
    "FEEDS": (
        "outputs: files in `csv`, `json`, `jsonlines`, `jsonl` or `jl`, with `overwrite`; a warning names a feed that "
        "cannot be written that way"
    ),
    "HTTPCACHE_ENABLED HTTPCACHE_DIR HTTPCACHE_EXPIRATION_SECS": (
        "`cache_dir` (default `.skitter/cache`) and `cache_seconds` (0: `none`)"
    ),
    "SKITTER_FRONTIER": "`--frontier`, unless it is on the command line",
    "REDIS_URL REDIS_HOST REDIS_PORT REDIS_DB REDIS_USER REDIS_USERNAME REDIS_PASSWORD REDIS_SSL REDIS_PARAMS": (
        "`--frontier redis://…`, unless it is on the command line, if the job is in Redis: see the last row"
    ),
    "REDIS_CLUSTER_NODES REDIS_CLUSTER_ENABLED": "`--frontier redis+cluster://…`",
    "REDIS_SENTINEL_URLS REDIS_SENTINEL_SERVICE": "`--frontier redis+sentinel://…`",
    "SCHEDULER DUPEFILTER_CLASS RUN_MODE CRAWLO_MODE QUEUE_TYPE": (
        "the job is in Redis with a class of `scrapy_redis` or `skitter.contrib.scrapy`, the mode `distributed`, or a "
        "queue `redis` or `redis_stream`; otherwise a warning shows the `--frontier` to use"
    ),
}

FOREIGN_REST_HEAD = """
## Names without an equivalent

A skitter spider uses what the second column says. The third column lists names that work for Scrapy's own spiders:
*unchanged* in a project that [runs unchanged](../how-to/migrate-from-scrapy.md#what-works-unchanged), *scheduler* with
[Scrapy's engine on skitter's frontier](../how-to/migrate-from-scrapy-redis.md#settings), where Scrapy itself reads all
of its other settings too.

| name | instead | works for Scrapy's spiders |
| --- | --- | --- |
"""

EVENTS_HEAD = """\
# Events

<!-- Written by scripts/gen_reference.py from src/skitter/observe/events.py. Change that, then run `make docs`. -->

`skitter crawl` and `skitter worker` write what happens in a crawl as events, one line each: as text, or as JSON with
`--log-format json`.

- On a terminal, only events from `notice` on are shown above the live display; `-v` adds `info`, `-vv` adds everything.
- Elsewhere, standard error has a line of text for each event from `info` on, between progress and summary.
- `--log FILE` (setting `log_file`) appends the lines to a file. Standard error then has none, unless it is a terminal.
- With `--log-format json`, each line is one object. Without a log file, this applies to everything on standard error,
  also on a terminal: progress, summary, hints and errors are events too (`job.progress`, `job.summary`, `command.note`,
  `command.warning`, `command.failed`). What a spider prints is passed on unchanged.

Messages sent through Python's `logging` are events too (`log`), from `log_level` on for skitter, spiders and other code
of yours. Libraries begin at `warning`, unless your code sets the level of their logger. This applies to a terminal as
well.

`--set log_level=warning` leaves out lower levels, `-v` adds `debug`, and `-q` silences standard error but not a log
file. A log file is rotated by the settings `max_log_bytes` and `max_log_files` ([how to](../how-to/log-files.md)), or
by tools that truncate it while it is written (`copytruncate`).

Every line has these fields, in addition to those of its event:

| field | meaning |
| --- | --- |
| `time` | time of the event in UTC, by the clock of the machine that wrote it |
| `level` | `debug`, `info`, `notice`, `warning` or `error` |
| `event` | name of the event, as below |
| `job` | name of the job |
| `node` | name of the machine that wrote the line |
| `worker` | the worker of the event; empty if it concerns the node |
| `message` | the event as a sentence |

Text from a page or a server cannot forge a line: control characters are escaped in JSON and removed from text, and
further lines of a message, such as a traceback, begin with a bar. Passwords in URLs are never written. A worker that
cannot write a line at once drops it: a log never makes a crawl wait.
"""

FINDINGS_HEAD = """\
# Findings of the consistency check

<!-- Written by scripts/gen_reference.py from src/skitter/model/consistency.py. Change that, then run `make docs`. -->

The problems that [`skitter fsck`](cli.md#fsck) can find. Each finding names its place, the expected and the actual
value, and whether `--repair` can repair it without loss; this depends on the other data, and may differ from store to
store.

| code | meaning |
| --- | --- |
"""

METRICS_HEAD = """\
# Metrics

<!-- Written by scripts/gen_reference.py from src/skitter/observe/metrics.py. Change that, then run `make docs`. -->

Metrics for Prometheus, in its text format or as OpenMetrics: `/metrics` of `skitter serve` has those of a store and its
jobs, and the address of `--metrics` those of one node ([how to](../how-to/monitor.md)). No label is a host, a URL or a
worker, and all values of a label exist from the start, at zero. The number of series therefore depends only on the
number of jobs, of which 100 have series of their own.

A job's metric has the same value as in [`skitter status --json`](cli.md#status). Counters of a job start at 0 with
each run. An [alert without Prometheus](../how-to/alerts.md) names a metric without `skitter_job_`, with the value of
its label after a colon: `requests:queued`.
"""


def descriptions(source: str) -> dict[tuple[str, str], str]:
    """``(class, field)`` to the string literal that follows the field."""
    found = {}
    for node in ast.parse(source).body:
        if not isinstance(node, ast.ClassDef):
            continue
        for field, after in zip(node.body, node.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(after, ast.Expr)
                and isinstance(after.value, ast.Constant)
                and isinstance(after.value.value, str)
            ):
                found[node.name, field.target.id] = " ".join(after.value.value.split())
    return found


def groups() -> list[tuple[str, type[msgspec.Struct]]]:
    """The fields of ``Settings`` and their structs, in order."""
    return [(field.name, type(field.default_factory())) for field in msgspec.structs.fields(settings.Settings)]


def page() -> str:
    texts = descriptions(Path(settings.__file__).read_text(encoding="utf-8"))
    parts = [HEAD]
    for name, struct in groups():
        parts.append(f"\n## {name}\n\n{_sentence(struct.__doc__)}\n\n| setting | type | default | meaning |\n")
        parts.append("| --- | --- | --- | --- |\n")
        for field in msgspec.structs.fields(struct):
            text = texts.get((struct.__name__, field.name))
            if text is None:
                raise SystemExit(f"error: a setting without a description: {struct.__name__}.{field.name}")
            meaning = _cell(_sentence(text))
            parts.append(
                f"| `{field.name}` | {settings.values_of(field.name)} | {_value(field.default)} | {meaning} |\n"
            )
    return "".join(parts)


def events_page() -> str:
    parts = [EVENTS_HEAD]
    for kind in events.KINDS.values():
        parts.append(f"\n## {kind.name}\n\n{kind.meaning} Level `{kind.level.name.lower()}`.\n\n")
        parts.append("> " + kind.sentence.replace("\n", "\n>\n> ") + "\n")
        parts.append("\n| field | meaning |\n| --- | --- |\n" if kind.fields else "")
        parts += [f"| `{name}` | {_cell(text)} |\n" for name, text in kind.fields.items()]
    return "".join(parts)


def metrics_page() -> str:
    parts = [METRICS_HEAD]
    for title, found in (
        ("On `skitter serve`", metrics.JOB_METRICS),
        ("On a node with `--metrics`", metrics.NODE_METRICS),
        ("On `skitter egress --metrics`", metrics.EGRESS_METRICS),
        ("On `skitter scheduler --metrics`", metrics.SCHEDULER_METRICS),
    ):
        parts.append(f"\n## {title}\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n")
        for metric in found.values():
            labels = "; ".join(f"`{name}`" + _listed(values) for name, values in metric.labels.items())
            parts.append(f"| `{metric.name}` | {metric.kind} | {labels} | {_cell(metric.help)} |\n")
    return "".join(parts)


def _listed(values: Sequence[str]) -> str:
    return f": {', '.join(values)}" if values else ""


def findings_page() -> str:
    return FINDINGS_HEAD + "".join(f"| `{code}` | {_cell(meaning)} |\n" for code, meaning in consistency.CODES.items())


def foreign_page() -> str:
    """Every name of other frameworks: the setting it is, or what to use instead."""
    parts = [FOREIGN_HEAD]
    for name, (setting, convert) in sorted(foreign_settings.FOREIGN.items()):
        parts.append(f"| `{name}` | `{setting}` | {_cell(_sentence(convert.__doc__))} |\n")
    parts.append(FOREIGN_SWITCHES_HEAD)
    for name, values in sorted(foreign_settings.SWITCHES.items()):
        named = ", ".join(f"`{setting}={settings.shown_value(value)}`" for setting, value in values.items())
        parts.append(f"| `{name}` | {named} |\n")
    parts.append(FOREIGN_TOGETHER_HEAD)
    parts += [f"| {_code(listed.split())} | {text} |\n" for listed, text in FOREIGN_TOGETHER.items()]
    parts.append(FOREIGN_REST_HEAD)
    by_text: dict[str, list[str]] = {}
    for name, text in foreign_settings.COUNTERPARTS.items():
        by_text.setdefault(text, []).append(name)
    for prefix, text in foreign_settings.FAMILIES:
        by_text.setdefault(text, []).append(f"{prefix}…")
    rows = sorted((sorted(names), text) for text, names in by_text.items())
    parts += [f"| {_code(names)} | {_cell(text)} | {_readers(names)} |\n" for names, text in rows]
    return "".join(parts)


def _readers(names: list[str]) -> str:
    """Which of the names Scrapy's spiders may use: in a project that runs unchanged, or with skitter's scheduler."""
    found = []
    readers = (foreign_settings.READ_BY_ADAPTER, "unchanged"), (foreign_settings.READ_BY_SCHEDULER, "scheduler")
    for read, reader in readers:
        others = read - foreign_settings.COUNTERPARTS.keys()
        prefixes = tuple(name[:-1] for name in names if name.endswith("…"))
        if listed := sorted(name for name in read if name in names or (name in others and name.startswith(prefixes))):
            found.append(f"{_code(listed)}: {reader}")
    return "; ".join(found)


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _value(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.15g}"
    return f"`{value}`" if isinstance(value, str) else _cell(str(value))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _sentence(doc: str | None) -> str:
    return python_reference.linked(" ".join((doc or "").split()), PAGE.parent)


def main(arguments: list[str]) -> int:
    pages = {
        PAGE: page(),
        EVENTS_PAGE: events_page(),
        FINDINGS_PAGE: findings_page(),
        METRICS_PAGE: metrics_page(),
        FOREIGN_PAGE: foreign_page(),
        REST_PAGE: rest_reference.page(),
        cli_reference.PAGE: cli_reference.page(),
        json_reference.PAGE: json_reference.page(),
        project_reference.EXCLUSIONS_PAGE: project_reference.exclusions_page(),
        project_reference.ENVIRONMENT_PAGE: project_reference.environment_page(),
        project_reference.FILES_PAGE: project_reference.files_page(),
        **python_reference.pages(),
    }
    left_over = [path for path in sorted(python_reference.FOLDER.glob("*.md")) if path not in pages]
    if arguments == ["--check"]:
        old = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        old += left_over
        for path in old:
            print(f"error: not up to date: {path.relative_to(ROOT)}", file=sys.stderr)
            print("hint: make docs", file=sys.stderr)
        return 1 if old else 0
    if arguments:
        print(f"error: unknown arguments: {' '.join(arguments)}", file=sys.stderr)
        print("hint: gen_reference.py [--check]", file=sys.stderr)
        return 2
    for path in left_over:
        path.unlink()
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
