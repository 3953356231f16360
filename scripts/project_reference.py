"""The pages about exclusion rules, the environment and project files, from the tables and structs of the code.

What the code has no description for is described here; ``tests/meta/test_reference_complete.py`` compares the names
with those that the code uses.
"""

from __future__ import annotations

import importlib
from pathlib import Path

import msgspec

import python_reference
from skitter import settings
from skitter.agent import Credential
from skitter.alert_rules import AlertRule
from skitter.app.schedules import ScheduleSettings
from skitter.cli.arguments import TOKEN_VARIABLE, Parser
from skitter.cli.credential_tables import _PLACES as SECRET_PLACES
from skitter.cli.settings_layers import PASSWORD_VARIABLE, PREFIX
from skitter.model import url
from skitter.model.capability import MEANINGS
from skitter.model.schedule import SCHEDULE_VARIABLE
from skitter.policy import traps

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
EXCLUSIONS_PAGE = FOLDER / "exclusion-rules.md"
ENVIRONMENT_PAGE = FOLDER / "environment.md"
FILES_PAGE = FOLDER / "project-files.md"

_NOTE = "<!-- Written by scripts/project_reference.py. Change that or its sources, then run `make docs`. -->"

LINK_RULES = {
    "offsite": "The host is not in the scope: not a host of the seeds, or not in `allowed_domains`.",
    "depth": "The link is farther from its seed than `max_depth`.",
    "include": "No pattern of the setting `include` is found in the URL.",
    "exclude": "A pattern of the setting `exclude` is found in the URL.",
    "nofollow": "The page, its headers or the link itself says `nofollow` (setting `obey_nofollow`).",
    **{name: f"{text[0].upper()}{text[1:]}." for name, text in traps.RULES.items()},
}
"""Counted as ``outside:RULE``."""
URL_RULES = {
    "scheme": "Not http or https: `mailto:`, `tel:`, `javascript:` and the like.",
    "unparsable": "Not a URL.",
    "too_long": f"Longer than {url.MAX_URL_CHARS:,} characters, or its host name is too long.",
}
"""Counted as ``skipped:RULE``."""
REQUEST_RULES = {
    "robots": "robots.txt disallows the URL (setting `obey_robots`).",
    "guard": "A link leads to a private address, which [the network guard](../explanation/safety.md) forbids.",
    "host_budget": "The host has reached its budget: `max_pages_per_host`, or `trap_pages` if it looks like a trap.",
}
"""The class of requests that end as excluded."""
ITEM_RULES = {
    "noindex": "The page says `noindex` (setting `obey_noindex`).",
    "tdm": "The page reserves text and data mining (setting `obey_tdm`).",
    "canonical": "The page names another one as canonical, which is fetched instead (setting `obey_canonical`).",
}
"""Counted as ``withheld:RULE``."""

EXCLUSIONS_HEAD = f"""\
# Exclusion rules

{_NOTE}

The rules by which a crawl skips links, requests and items, with the names that `skitter status`,
`skitter why URL`, `skitter parse` and JSON output use.

"""

OTHER_VARIABLES = {
    TOKEN_VARIABLE: "The token for `--frontier http://…` and `https://…`, sent to the master. Never shown.",
    PASSWORD_VARIABLE: "The password for outputs whose URL names a user and no password.",
    SCHEDULE_VARIABLE: (
        "Set by a scheduler for the commands that it runs: the name of the schedule. The audit trail records it."
    ),
    "SKITTER_ALERT": "Set for the command of an alert: the name of the alert.",
    "SKITTER_ALERT_STATUS": "Set for the command of an alert: `firing` or `resolved`.",
    "TERM": "`dumb` or empty disables the live display.",
    "PATH": "Where Chromium and the programs of alerts and proxy lists are found.",
    "SCRAPY_SETTINGS_MODULE": "The settings module of a Scrapy project, instead of the one in `scrapy.cfg`.",
    "SCRAPY_PROJECT": "Which project of `scrapy.cfg`; default: `default`.",
    "http_proxy": "Read for Scrapy projects only, as Scrapy does. For all other crawls, use the setting `proxy`.",
    "https_proxy": "As `http_proxy`.",
    "AWS_ACCESS_KEY_ID": "Credentials of `s3://…`, with `AWS_SECRET_ACCESS_KEY` and other variables that boto3 reads.",
}

ENVIRONMENT_HEAD = f"""\
# Environment variables

{_NOTE}

## Settings

Every [setting](settings.md) is also a variable: `{PREFIX}` and its name in upper case. It outranks project files and
the spider, and the command line outranks it. An empty variable counts as not set. A variable whose name is no setting
is an error.

```bash
export SKITTER_TIMEOUT_SECONDS=5
skitter settings --changed
```

| variable | setting |
| --- | --- |
"""

SINK_FIELDS = {
    "target": "The output, as after `-o`: a file or a URL. Required.",
    "overwrite": "`true`: a new run starts with an empty output, as with `-O`. Default: false.",
    "key": "Fields that identify an item, in outputs that keep one record per key.",
}

REMOTE = (
    'The new work that `skitter serve` takes from tokens and users that are not `admin`, as in `allow = ["submit"]`'
    " ([guide](../how-to/masters.md#new-work-from-operators)). Default: none. It is read when the server starts."
)

FILES_HEAD = f"""\
# Project files

{_NOTE}

skitter reads `skitter.toml` in the current folder. Without one, it reads the table `[tool.skitter]` in
`pyproject.toml`, with the same names. `skitter new` writes one; `skitter check` reads all of it.

```toml
# skitter.toml
spiders = ["spiders"]        # where spiders are looked for by name
timeout_seconds = 20         # a setting, at the top level

[politeness]                 # or in a table of its group
delay_seconds = 0.5

[[sink]]
target = "books.jsonl"
```

```bash
skitter settings --changed
```

An unknown name is an error.

## Top level

| name | meaning |
| --- | --- |
| `spiders` | A list of files and folders where spiders are looked for by name. Default: `["spiders"]`. |
| a [setting](settings.md) | Any setting, by its name. |
"""


def exclusions_page() -> str:
    return EXCLUSIONS_HEAD + "\n".join(
        [
            _table(
                "Links that are not followed",
                "Counted as `outside:RULE` in `tally`.",
                ("rule", "why"),
                LINK_RULES,
            ),
            _table(
                "Links whose URL cannot be crawled", "Counted as `skipped:RULE` in `tally`.", ("rule", "why"), URL_RULES
            ),
            _table(
                "Requests that end as excluded",
                "The rule is the class of the request: it was queued, and nothing was fetched. These are not failures.",
                ("rule", "why"),
                REQUEST_RULES,
            ),
            _table(
                "Items that are withheld",
                "The page was fetched and its links are followed. Counted as `withheld:RULE` in `tally`.",
                ("rule", "why"),
                ITEM_RULES,
            ),
        ]
    )


def environment_page() -> str:
    rows = "".join(f"| `{PREFIX}{name.upper()}` | `{name}` |\n" for name in settings.names())
    others = _table("Other variables", "", ("variable", "meaning"), OTHER_VARIABLES)
    return f"{ENVIRONMENT_HEAD}{rows}\n{others}"


def files_page() -> str:
    """Tables of settings, then each ``[[table]]``."""
    parts = [FILES_HEAD]
    for field in msgspec.structs.fields(settings.Settings):
        meaning = python_reference.linked(" ".join((type(field.default_factory()).__doc__ or "").split()), FOLDER)
        parts.append(f"| `[{field.name}]` | {_cell(meaning)} [Settings](settings.md#{field.name}). |\n")
    secrets = {
        name: f"Location of the {name.rpartition('_')[0].replace('_', ' ')}: {_place(name)}." for name in SECRET_PLACES
    }
    own = {name: text for name, text in _fields(Credential).items() if f"{name}_file" not in SECRET_PLACES}
    own |= {"kind": "`basic`, `digest`, `bearer` or `certificate`.", "user": "The user of `basic` and `digest`."}
    own |= {"key": "A PEM file with the key of the certificate, if it is not in the same file."}
    alerts = _fields(AlertRule) | {"webhook_env": "Environment variable with the URL of the webhook."}
    alerts |= {"name": "The name of the alert.", "below": "Fires when the figure is below this value."}
    schedule = {"name": "The name of the schedule. Required.", "command": "The command, as after `skitter`. Required."}
    tables = (
        (
            "sink",
            "An output, used if `-o` names none ([guide](../how-to/outputs.md)). Other fields are its options.",
            SINK_FIELDS,
        ),
        (
            "schedule",
            "A command, and when it runs ([guide](../how-to/schedules.md)).",
            schedule | _of_options("schedule", ScheduleSettings),
        ),
        ("credentials", "Credentials for one origin ([guide](../how-to/authentication.md)).", own | secrets),
        ("alert", "A threshold on a figure of a job ([guide](../how-to/alerts.md)).", alerts),
    )
    parts += ["\n" + _table(f"`[[{name}]]`", text, ("field", "meaning"), fields) for name, text, fields in tables]
    words = {word: f"{text[0].upper()}{text[1:]}." for word, text in MEANINGS.items()}
    parts.append("\n" + _table("`[remote]`", REMOTE, ("word of `allow`", "what operators may do"), words))
    return "".join(parts)


def _of_options(command: str, struct: type) -> dict[str, str]:
    """Fields that are options of a command as well, with their help where the struct has no text."""
    parser = Parser(prog=command, description="")
    importlib.import_module(f"skitter.cli.{command}").configure(parser)
    told = {
        text.removeprefix("--").replace("-", "_"): (action.help or "").removeprefix("add: ")
        for action in parser._actions  # noqa: SLF001  argparse has no public list of them
        for text in action.option_strings
    }
    return {name: text or f"{told[name][0].upper()}{told[name][1:]}." for name, text in _fields(struct).items()}


def _place(name: str) -> str:
    return "a file that only its owner may read" if name.endswith("_file") else "an environment variable"


def _fields(struct: type) -> dict[str, str]:
    return {name: text.replace("../../", "../") for name, _, _, text in python_reference.fields(struct)}


def _table(title: str, text: str, heads: tuple[str, str], rows: dict[str, str]) -> str:
    introduction = f"{text}\n\n" if text else ""
    lines = "".join(f"| `{name}` | {_cell(meaning)} |\n" for name, meaning in rows.items())
    return f"## {title}\n\n{introduction}| {heads[0]} | {heads[1]} |\n| --- | --- |\n{lines}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
