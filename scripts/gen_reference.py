"""Write the pages of docs/reference that are made from the source; --check compares them.

Names, types and defaults of settings are asked of the structs. The descriptions are the string literals under
the fields, which exist only in the source and are read with ``ast``. Events describe themselves.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import msgspec

import python_reference
import rest_reference
from skitter import settings
from skitter.model import consistency
from skitter.observe import events
from skitter.spiders import foreign_settings

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference" / "settings.md"
EVENTS_PAGE = ROOT / "docs" / "reference" / "events.md"
FOREIGN_PAGE = ROOT / "docs" / "reference" / "foreign-settings.md"
REST_PAGE = ROOT / "docs" / "reference" / "rest.md"
FINDINGS_PAGE = ROOT / "docs" / "reference" / "findings.md"

HEAD = """\
# Settings

<!-- Written by scripts/gen_reference.py from src/skitter/settings.py. Change the source, then run `make docs`. -->

A setting has one name, whichever way it is given. From the lowest rank to the highest:

1. the default on this page
2. `skitter.toml`, or `[tool.skitter]` in `pyproject.toml`
3. the settings module of `--config`, [in the style of Scrapy](cli.md#settings-of-other-frameworks)
4. the spider's `custom_settings`
5. the environment: `SKITTER_` and the name in upper case, as in `SKITTER_TIMEOUT_SECONDS=5`
6. the command line: `--set timeout_seconds=5`, or the option that stands for the setting

In a script it is the default, the spider's `custom_settings`, and `skitter.crawl(…, settings={…})`.

A name that does not exist is an error, and so is a value outside its range. `none` takes a limit away where the
type allows it. Durations are in seconds and sizes in bytes.
"""

FOREIGN_HEAD = """\
# Settings of Scrapy, scrapy-redis and Crawlo

<!-- Written by scripts/gen_reference.py from the table `foreign_settings.py`; then run `make docs`. -->

Upper-case names are read in the module of `--config`, in `custom_settings`, and in `skitter.crawl(…, settings={…})`. A
module of Crawlo may make them by `CrawloConfig.standalone(…)`, `.distributed(…)` or `.auto(…)`, whose keyword names are
the same in lower case; the package need not be installed. No name is ignored in silence: it is a setting, or a warning
names it with what to use instead. A name that is nowhere on this page is listed in one warning.

## Names that are a setting

| name | setting | how it is read |
| --- | --- | --- |
"""

FOREIGN_SWITCHES_HEAD = """
## Names that turn something off

A value that is true changes nothing.

| name | if it is false |
| --- | --- |
"""

FOREIGN_TOGETHER_HEAD = """
## Names that are read together

| name | |
| --- | --- |
"""

FOREIGN_TOGETHER = {
    "AUTOTHROTTLE_ENABLED AUTOTHROTTLE_TARGET_CONCURRENCY": (
        "`target_concurrency`: the number if it is enabled (1 without one), else none"
    ),
    "FEEDS": (
        "outputs: files in `csv`, `json`, `jsonlines`, `jsonl` or `jl`, with `overwrite`; a warning names a feed that "
        "cannot be written as it is meant"
    ),
    "HTTPCACHE_ENABLED HTTPCACHE_DIR HTTPCACHE_EXPIRATION_SECS": (
        "`cache_dir` (`.skitter/cache` without one) and `cache_seconds` (0: none)"
    ),
    "SKITTER_FRONTIER": "`--frontier`, unless the command line has it",
    "REDIS_URL REDIS_HOST REDIS_PORT REDIS_DB REDIS_USER REDIS_USERNAME REDIS_PASSWORD REDIS_SSL REDIS_PARAMS": (
        "`--frontier redis://…`, unless the command line has it, of a job that is in Redis: see the last row"
    ),
    "REDIS_CLUSTER_NODES REDIS_CLUSTER_ENABLED": "`--frontier redis+cluster://…`",
    "REDIS_SENTINEL_URLS REDIS_SENTINEL_SERVICE": "`--frontier redis+sentinel://…`",
    "SCHEDULER DUPEFILTER_CLASS RUN_MODE CRAWLO_MODE QUEUE_TYPE": (
        "a job is in Redis by a class of `scrapy_redis` or `skitter.contrib.scrapy`, by the mode `distributed`, or a "
        "queue `redis` or `redis_stream`. Otherwise a warning shows the `--frontier` to give"
    ),
}

FOREIGN_REST_HEAD = """
## Names without a setting

| name | instead |
| --- | --- |
"""

EVENTS_HEAD = """\
# Events

<!-- Written by scripts/gen_reference.py from src/skitter/observe/events.py. Change that, then run `make docs`. -->

What happens to a crawl, one line each, written by `skitter crawl` and `skitter worker`: text, or JSON with
`--log-format json`.

- On a terminal, a few lines stand above the live display: `notice` and what matters more; with `-v` also `info`, with
  `-vv` all.
- Elsewhere, standard error has a line of text for each event from `info` on, between those of progress and summary.
- `--log FILE` (setting `log_file`) appends the lines to a file. Standard error then has none, unless it is a terminal.
- With `--log-format json`, each line is one object. Where there is no log file, that is so for everything on standard
  error, a terminal included: progress, summary, hints and errors are events there (`job.progress`, `job.summary`,
  `command.note`, `command.warning`, `command.failed`). What a spider prints is passed on as it is.

What is said through Python's `logging` is an event too, `log`. From which level on, `log_level` says, for skitter,
spiders and other code of yours; libraries begin at `warning`, unless your code sets the level of their logger. It
counts on a terminal as well.

`--set log_level=warning` leaves out what matters less, `-v` adds `debug`, and `-q` silences standard error but not a
file. A file is rotated by the settings `max_log_bytes` and `max_log_files` ([how to](../how-to/log-to-a-file.md)), or
by tools that cut it while it is written (`copytruncate`).

Every line has these fields, and besides those of its event:

| field | meaning |
| --- | --- |
| `time` | when it was told, UTC, by the clock of the machine that tells it |
| `level` | `debug`, `info`, `notice`, `warning` or `error` |
| `event` | its name, as below |
| `job` | the name of the job |
| `node` | the name of the machine that wrote the line |
| `worker` | whose event it is; empty: the node's |
| `message` | the same in words |

Nothing that a page or a host has put into a line can pass for another: control characters are escaped in JSON and left
out of text, and further lines of a text, those of a traceback, begin with a bar. Passwords in URLs are never written. A
worker that cannot get rid of a line at once drops it: no log is a reason to wait.
"""

FINDINGS_HEAD = """\
# Findings of the consistency check

<!-- Written by scripts/gen_reference.py from src/skitter/model/consistency.py. Change that, then run `make docs`. -->

What [`skitter fsck`](cli.md#fsck) may find. Each finding names its place, what was expected there and what was found,
and whether `--repair` can mend it without loss; that depends on what else is there, and may differ from store to store.

| code | meaning |
| --- | --- |
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
            parts.append(
                f"| `{field.name}` | {settings.values_of(field.name)} | {_value(field.default)} | {_cell(text)} |\n"
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
    parts += [f"| {_code(names)} | {_cell(text)} |\n" for names, text in rows]
    return "".join(parts)


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
    return " ".join((doc or "").split())


def main(arguments: list[str]) -> int:
    pages = {
        PAGE: page(),
        EVENTS_PAGE: events_page(),
        FINDINGS_PAGE: findings_page(),
        FOREIGN_PAGE: foreign_page(),
        REST_PAGE: rest_reference.page(),
        python_reference.PAGE: python_reference.page(),
    }
    if arguments == ["--check"]:
        old = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        for path in old:
            print(f"error: not up to date: {path.relative_to(ROOT)}", file=sys.stderr)
            print("hint: make docs", file=sys.stderr)
        return 1 if old else 0
    if arguments:
        print(f"error: unknown arguments: {' '.join(arguments)}", file=sys.stderr)
        print("hint: gen_reference.py [--check]", file=sys.stderr)
        return 2
    for path, text in pages.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
