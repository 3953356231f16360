"""The command line as one table: what is typed, in which folder, and the exit code and the words that come back.

A row is a real command. What cannot be said in a row is tested below the table.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
import os
import shlex
import shutil
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent
from typing import Any, NamedTuple
from unittest.mock import ANY

import pytest

from rig.books_job import RULE, SEED, TRACEBACK, write_books_job
from rig.processes import CommandLine
from skitter import __version__
from skitter.testing.command_line import COMMANDS, main
from skitter.testing.frontiers import open_frontier
from skitter.testing.web import WebSpec, served

URL = "http://127.0.0.1:9/"
"""Nobody listens there; a command with a mistake does not get that far."""
PASSWORD = "hunter2"
"""No row may have it in what it prints."""
NO_TEXT = b"this is no database at all, but it has a few bytes" * 100


class Row(NamedTuple):
    """A command, and parts of what it prints."""

    words: str
    """As typed in a shell, after ``skitter``."""
    code: int = 0
    out: Sequence[str] = ()
    """Parts of standard output, which is empty where there is none and no JSON."""
    json: Sequence[dict[str, Any]] = ()
    """Parts of the objects that standard output has, one a line."""
    note: str = ""
    """A part of standard error."""
    error: str = ""
    """A part of the last line of ``error:``, which the hint follows."""
    hint: str = ""
    files: Sequence[tuple[str, str]] = ()
    """Names and contents of files that are in the folder as well."""
    leaves: str = ""
    """A file that a refused command leaves behind."""


def refused(words: str, error: str, hint: str = "", *files: tuple[str, str], code: int = 2) -> Row:
    return Row(words, code, error=error, hint=hint, files=files)


# ---- the folder is empty

MISTYPED = [
    refused("", "no command given", "skitter --help"),
    refused(f"crwal {URL}", "no such command: crwal", "did you mean crawl ?"),
    refused("crwal", "no such command: crwal", "did you mean crawl ?"),
    refused("--job x", "the command comes first: --job", "skitter COMMAND"),
    refused(URL, f"no such command: {URL}", f"skitter crawl {URL}"),
    refused("spider.py", "no such command: spider.py", "skitter crawl spider.py"),
    refused(f"crawl {URL} --concurency 3", "no such option: --concurency", "did you mean --concurrency ?"),
    refused(f"crawl {URL} --work 3", "no such option: --work", "did you mean --workers ?"),
    refused(f"crawl {URL} --max-pagse=3", "no such option: --max-pagse", "--max-pages ?"),
    # Options are never abbreviated.
    refused(f"crawl {URL} --max-page 3", "no such option: --max-page", "--max-pages ?"),
    refused("status --jsn", "no such option: --jsn", "did you mean --json ?"),
    refused("status a/b", "unexpected argument: a/b", "usage: skitter status"),
    refused("status one two", "unexpected argument: two", "usage: skitter status"),
]
WITHOUT_AN_ARGUMENT = [
    refused("crawl", "nothing to crawl", "URL"),
    refused("crawl -o", "argument -o/--output: expected one argument", "skitter crawl --help"),
    refused(f"crawl {URL} --job", "argument --job: expected one argument", "--help"),
    refused(f"crawl {URL} --max-pages", "argument --max-pages: expected one argument", "--help"),
    refused("submit", "nothing to crawl", "URL"),
    refused("new", "the following arguments are required: NAME", "skitter new --help"),
    refused("new project", "not a name and a URL", "skitter new [project|spider] NAME [URL]"),
    refused("new spider authors", "a spider without a URL", "skitter new spider authors https://example.com/"),
    refused("fetch", "the following arguments are required: URL", "skitter fetch --help"),
    refused("parse", "the following arguments are required: URL", "skitter parse --help"),
    refused("shell -c", "argument -c/--code: expected one argument", "skitter shell --help"),
    refused("list --frontier", "no such option: --frontier", "skitter list --help"),
    refused("check -a", "argument -a/--argument: expected one argument", "skitter check --help"),
    refused("check --connect", "--connect without --frontier", "skitter check --frontier URL --connect"),
    refused("settings --set", "argument --set: expected one argument", "skitter settings --help"),
    refused("jobs --frontier", "argument --frontier: expected one argument", "skitter jobs --help"),
    refused("logs --since", "argument --since: expected one argument", "skitter logs --help"),
    refused("why", "which URL?", "skitter why [JOB] URL"),
    refused("why a.example", "which URL?", "a URL begins with https://"),
    refused("add --job j", "no URLs given", "--file"),
    refused("deliver --job j", "no output given", "-o OUTPUT"),
    refused("drain --job j", "no output given", "-o OUTPUT"),
    refused("export", "no output given", "-o OUTPUT"),
    refused("set", "the following arguments are required: KEY=VALUE", "skitter set --help"),
    refused("set delay_seconds", "not KEY=VALUE: skitter set delay_seconds", "name=value"),
    refused("hosts pause", "no host given: hosts pause", "https://shop.example"),
    refused("proxies ban", "no proxy given: proxies ban", "its id"),
    refused("sessions export", "skitter sessions export takes a FILE", "skitter sessions export c.txt"),
    refused("schedule", "the following arguments are required: ACTION", "skitter schedule --help"),
    refused("schedule show", "no schedule given: schedule show", "skitter schedule list"),
    refused("schedule add nightly", "no command to schedule", "put it after --: skitter schedule add nightly"),
    refused("scheduler --metrics", "argument --metrics: expected one argument", "skitter scheduler --help"),
    refused("serve --bind", "argument --bind: expected one argument", "skitter serve --help"),
    refused("user", "the following arguments are required: ACTION", "skitter user --help"),
    refused("user add", "wrong number of names: user add", "skitter user add NAME"),
    refused("user add ana", "unknown role: --role", "one of viewer, worker, operator, admin"),
    refused("audit --verify --head", "no hash given: --verify --head", "skitter audit --head"),
    refused("demo --bind", "argument --bind: expected one argument", "skitter demo --help"),
    refused("plan", "the following arguments are required: --pages, --days", "skitter plan --help"),
    refused("bench --rounds", "argument --rounds: expected one argument", "skitter bench --help"),
    refused("completion", "the following arguments are required: bash|zsh|fish", "skitter completion --help"),
]
WRONG_ARGUMENTS = [
    # What to crawl.
    refused("crawl example.com", "a URL without a scheme: example.com", "https://example.com"),
    refused("crawl localhost:8000/x", "a URL without a scheme: localhost:8000/x", "http://localhost:8000/x"),
    refused("crawl ftp://example.com/", "ftp://example.com/", "use http or https"),
    refused("crawl 'http://exa mple/'", "not a URL: http://exa mple/", "https://"),
    refused("crawl nope.py", "no such spider file: nope.py", ".py"),
    refused("crawl books", "neither a URL nor a spider: books", "https://books"),
    refused(f"crawl {URL} -a x=1", "arguments without a spider: -a x", "built-in"),
    refused(f"crawl {URL} -a x", "not KEY=VALUE: -a x", "name=value"),
    refused("crawl --sitemap robots", 'the sitemap "robots" needs a host'),
    refused("crawl --sitemap example.com/sitemap.xml", "not an absolute URL: example.com/sitemap.xml"),
    refused("crawl --sitemap ftp://example.com/sitemap.xml", "not a URL to crawl (scheme)"),
    refused("crawl --intake urls.txt", "not a source: urls.txt"),
    refused("crawl --intake redis://localhost", "no key is named"),
    refused("crawl --intake gopher://localhost#q", "no intake for this source"),
    refused("crawl --intake - --intake -", "the same source is named twice: --intake -"),
    refused("crawl --intake - --until-idle soon", "not a number of seconds: soon"),
    refused(f"crawl {URL} --until-idle 5", "--until-idle without --intake"),
    # Settings.
    refused(f"crawl {URL} --workers two", "bad value in --workers: workers='two'", "a whole number from 1"),
    refused(f"crawl {URL} --workers 0", "bad value in --workers"),
    refused(f"crawl {URL} --per-host 0", "bad value in --per-host", "per_host takes a whole number from 1"),
    refused(f"crawl {URL} --delay -1", "bad value in --delay", "delay_seconds takes a number from 0"),
    refused(f"crawl {URL} --set time_out=1", "unknown setting in --set: time_out", "timeout_seconds"),
    refused(f"crawl {URL} --set timeout_seconds=soon", "timeout_seconds='soon'", "a number above 0"),
    refused(f"crawl {URL} --set timeout_seconds", "not KEY=VALUE: --set timeout_seconds", "name=value"),
    refused(f"crawl {URL} --set max_pages=abc", "max_pages", "max_pages takes a whole number from 1, or none"),
    refused(f"crawl {URL} --set per_host=0", "per_host", "per_host takes a whole number from 1"),
    refused(f"crawl {URL} --set obey_robots=maybe", "obey_robots", "obey_robots takes true or false"),
    refused(f"crawl {URL} --set delay_seconds=x", "delay_seconds", "delay_seconds takes a number from 0"),
    refused(f"crawl {URL} --set timeout_seconds=0", "timeout_seconds", "timeout_seconds takes a number above 0"),
    refused(f"crawl {URL} --set log_format=auto", "log_format", "log_format takes one of: json, text"),
    refused(f"crawl {URL} --set max_url_length=9999", "max_url_length", "takes a whole number from 1 to 4096"),
    refused(f"crawl {URL} --set coordinator_seconds=0.1", "coordinator_seconds"),
    refused(f"crawl {URL} --set dedup=bloom", "not available with a SQLite frontier: dedup=bloom")._replace(
        leaves=".skitter/127.0.0.1-9.db"
    ),
    refused(f"crawl {URL} --set dedup_seconds=60", "not available with a SQLite frontier: dedup_seconds")._replace(
        leaves=".skitter/127.0.0.1-9.db"
    ),
    refused(f"crawl {URL} --set dedup_error_rate=0", "bad value in --set: dedup_error_rate='0'"),
    refused(f"crawl {URL} --config missing.py", "no such settings module: missing.py"),
    *(
        refused(f"settings --{option} '{value}'", "", f"not a regular expression: {value}")
        for option in ("include", "exclude")
        for value in ("(", "[a", "*")
    ),
    # Outputs and jobs.
    refused(f"crawl {URL} -o out.xlsx", "out.xlsx", ".jsonl"),
    refused(f"crawl {URL} -o - --json", "both write to standard output", "file"),
    refused(f"crawl {URL} -o a.jsonl -O a.jsonl", "the same output is named twice: a.jsonl", "once"),
    *(
        refused(
            f"crawl {URL} {option} {output}", f"does not exist: {missing}", "create it, or mount its volume"
        )._replace(leaves=".skitter/127.0.0.1-9.db")
        for option, output, missing in (
            ("-o", "new/er/x.jsonl", "new"),
            ("-O", "new/er/x.json.gz", "new"),
            ("-o", "/no-volume/x.csv", "/no-volume"),
            ("-o", "/no-volume/{job}-{part}.jsonl", "/no-volume"),
            ("-o", "new/er/?format=parquet", "new"),
            ("-o", "../no-folder/x.warc.gz", "/"),
            ("-o", "'sqlite:new/er/x.db#pages'", "new"),
        )
    ),
    refused(f"crawl {URL} --job a/b", "invalid job name: a/b", "a-b"),
    refused(f"crawl {URL} --job ..", "invalid job name: .."),
    refused("deliver --job j -o - --json", "both write to standard output"),
    *(
        refused(f"{words} one --job two", "two different jobs: one and two", "name one of them")
        for words in ("items", "status", "failed", "pause", "drop", "audit", "egress --listen 0", "deliver -o x.jsonl")
    ),
    refused("items --most 0", "not a number of items", "--most 1 or more"),
    refused("items --from nowhere.jsonl", "nowhere.jsonl"),
    refused("export --from in.jsonl", "no output given", "-o OUTPUT"),
    refused("failed --limit few", "not a number from 1: --limit few", "--limit 100"),
    # Frontiers and coordinators.
    refused(f"crawl {URL} --frontier sqlit:x.db", "not a frontier: sqlit:x.db", "sqlite:PATH"),
    refused(f"crawl {URL} --frontier memory: --workers 2", "one process only", "SQLite"),
    refused("status --frontier memory:", "memory:", "sqlite:PATH"),
    refused("status --frontier memory: --job x", "memory:", "sqlite:PATH"),
    refused("status --frontier redis:x --job x", "redis:x"),
    refused("status --frontier sqlite:missing.db --job x", "missing.db", code=3),
    refused("why example.com/ --frontier sqlite:x.db", "not an absolute URL: example.com/", "https://example.com/"),
    refused(f"crawl {URL} --coordinator redlock://a,b,c", "this coordinator does not support groups of nodes"),
    refused(f"crawl {URL} --coordinator foo", "not the URL of a coordinator: foo"),
    refused(f"crawl {URL} --coordinator sqlite:c.db --frontier memory:", "--coordinator needs worker processes"),
    refused(
        f"crawl {URL} --coordinator redis://:{PASSWORD}@127.0.0.1:1",
        "the Redis cannot be reached: redis://127.0.0.1:1/0",
        code=3,
    )._replace(leaves=".skitter/127.0.0.1-9.db"),
    refused(f"crawl {URL} --frontier redis://:{PASSWORD}@127.0.0.1:1", "cannot be reached", code=3),
    # Workers and fleets.
    refused("worker --every-job --job x", "not with --every-job: --job"),
    refused("worker --every-job spider.py", "not with --every-job: spider.py"),
    refused("worker --every-job --frontier memory:", "cannot be shared"),
    refused(
        "worker --every-job --frontier sqlite:j.db --coordinator redlock://a,b,c",
        "this coordinator does not support groups of nodes",
    ),
    refused("worker --name x", "--name without --every-job"),
    refused(f"submit {URL} -o x.warc.gz", "a submitted job cannot write to"),
    refused(f"submit {URL} -o -", "a submitted job cannot write to: -"),
    refused(f"submit {URL} --frontier memory:", "exists inside one process only"),
    refused(f"submit {URL} --set stay=true --recrawl", "--stay cannot be submitted"),
    refused(f"submit {URL} --priority soon", "not a priority: soon"),
    refused(
        f"submit spider.py:scrape {URL} -o x.jsonl",
        "no node given to write this: x.jsonl",
        "",
        ("spider.py", "def scrape(url): return {}"),
    ),
    # Actions.
    refused("hosts stop", "neither a job here nor an action: stop", ".skitter has no jobs"),
    refused("hosts one stop", "no such action: hosts stop", "one of list, pause"),
    refused("hosts list http://a.example", "not for hosts list: HOST", "skitter hosts --help"),
    refused("hosts pause http://a.example --state paused", "not for hosts pause: --state", "skitter hosts --help"),
    refused("proxies tset", "neither a job here nor an action: tset", "did you mean test ?"),
    refused("proxies --job one tset", "no such action: proxies tset", "did you mean test ?"),
    refused("sessions list c.txt", "skitter sessions list takes no FILE"),
    refused("sessions lst", "neither a job here nor an action: lst", "did you mean list ?"),
    refused("schedule lst", "no such action: schedule lst", "did you mean list ?"),
    refused("schedule show nightly --every 1h", "only for schedule add: --every", "skitter schedule --help"),
    refused("user lst", "no such action: user lst", "did you mean list ?"),
    refused("user list ana", "wrong number of names: user list ana", "skitter user list takes none"),
    refused("audit --head x", "only with --verify: --head x", "skitter audit --verify --head HASH"),
    refused("audit --verify --export", "cannot be combined: --verify --export"),
    # Servers and tools.
    refused("serve --bind nowhere", "not HOST:PORT", "127.0.0.1"),
    refused("serve --frontier sqlite:m.db --bind 0.0.0.0:8601", "this machine only"),
    refused("serve --frontier sqlite:m.db --token-file missing", "the tokens cannot be read"),
    refused("serve --frontier memory:", "one process only"),
    refused("serve --frontier redis://127.0.0.1:1", "cannot be reached", code=3),
    refused("demo --bind 8600", "not HOST:PORT: --bind 8600"),
    refused("demo --latency -1", "not a number of seconds: -1", "as in 0.2"),
    refused("demo --latency soon", "not a number of seconds: soon", "as in 0.2"),
    refused("plan --pages 0 --days 7", "not a number above zero: 0"),
    refused("completion tcsh", "invalid choice: 'tcsh'", "skitter completion --help"),
    refused("new house shop", "not an absolute URL: shop", "https://shop"),
    refused("new house https://a.example/ more", "not a name and a URL", "[project|spider] NAME [URL]"),
    refused("new spider authors https://a.example/", "not the folder of a project", "skitter new NAME URL"),
    refused("fetch example.com", "not an absolute URL: example.com", "https://example.com"),
    refused(f"parse {URL} --meta 1", "not a JSON object: --meta 1", "as in --meta"),
    refused("shell nowhere.html -c 1", "neither a URL nor a file: nowhere.html"),
    refused("shell -c 'a b'", "invalid Python: a b", "quote it for your shell"),
    refused("check no_such_spider", "neither a URL nor a spider: no_such_spider"),
]
EGRESS = [
    refused(f"egress --job j {words}", error)
    for words, error in [
        ("--frontier sqlite:j.db", "give either --listen or --proxy, not both"),
        ("--frontier sqlite:j.db --listen 1 --proxy http://a:1", "give either --listen or --proxy, not both"),
        ("--frontier sqlite:j.db --listen x", "not [HOST:]PORT: x"),
        ("--frontier sqlite:j.db --listen 0 --every 5", "--every without --redial"),
        ("--frontier sqlite:j.db --listen 0 --every 5 --redial true", "more often than --at-least 60: --every 5"),
        ("--frontier sqlite:j.db --listen 0 --source here", "not a local address for requests: --source here"),
        ("--frontier sqlite:j.db --listen 0 --address-url ftp://a/", "not a URL: --address-url ftp://a/"),
        ("--frontier sqlite:j.db --listen 0 --advertise a:b", "not [HOST:]PORT: a:b"),
        ("--frontier sqlite:j.db --listen 0 --advertise 2001:db8::1", "not HOST[:PORT]: --advertise 2001:db8::1"),
        ("--frontier sqlite:j.db --listen 0 --advertise :3128", "not HOST[:PORT]: --advertise :3128"),
        ("--listen 0 --frontier memory:", "exists inside one process only: memory:"),
    ]
]
BENCH = [
    refused(f"bench {words}", error)
    for words, error in [
        ("frontier --pages 10", "not an option of this bench: --pages"),
        ("frontier --profile", "not an option of this bench: --profile"),
        ("--requests 10", "not an option of this bench: --requests"),
        ("--duplicates 0", "not an option of this bench: --duplicates"),
        ("frontier --duplicates 100", "not a percentage under 100: 100"),
        ("frontier --requests 10 --hosts 11", "more hosts than requests"),
        ("--rounds 0", "not a number above zero: 0"),
        ("--frontier ftp://x", "not a frontier: ftp://x"),
        ("frontier --frontier mysql:x", "not a frontier: mysql:x"),
        ("--profile --frontier memory: --frontier sqlite:", "a profile takes one frontier"),
        ("crawl", "invalid choice: 'crawl'"),
        ("--url example.com", "not an absolute URL: example.com"),
        ("--url http://93.184.216.34/", "not a server on this machine or its network: 93.184.216.34"),
    ]
]

SPIDER = "from skitter import Spider\n\nclass A(Spider):\n"
PARSES = f"{SPIDER}    start_urls = ['http://x/']\n    parse = print\n"
BROKEN_SPIDERS = [
    refused("crawl bad.py", error, hint, ("bad.py", text))
    for text, error, hint in [
        ("class A(:\n    pass\n", "syntax error: bad.py: bad.py, line 1", "class A(:"),
        ("import no_such_package\n", "No module named 'no_such_package'", "install no_such_package"),
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero, line 2 of bad.py", "-v"),
        ("raise SystemExit(3)\n", "cannot be imported: bad.py: SystemExit", "-v"),
        ("x = 1\n", "no spider in the file: bad.py", "skitter.Spider"),
        (f"{SPIDER}    pass\n", "has no start URLs: A", "start_urls"),
        (f"{SPIDER}    start_urls = ['http://x/']\n", "has no parse method: A", "def parse"),
        (f"{SPIDER}    start_urls = 'http://x/'\n    parse = print\n", "start_urls must be a list", "["),
        (f"{SPIDER}    def __init__(self, shelf): pass\n", "cannot be constructed: A: TypeError", "-a"),
        (f"{PARSES}    custom_settings = {{'max_page': 3}}\n", "in bad.py:A: max_page", "did you mean max_pages"),
        (f"{PARSES}    rules = [1]\n", "rules must be of the class skitter.Rule, not int: A", "Rule(LinkExtractor("),
        (f"{PARSES}    parse_start_url = print\n", "parse_start_url of Scrapy's spiders does not work here: A", ""),
    ]
]
BROKEN_FILES = [
    refused(f"crawl {URL}", "invalid TOML: skitter.toml", "", ("skitter.toml", "user_agent = \n")),
    refused(
        f"crawl {URL}", "unknown setting in skitter.toml: user_agnt", "user_agent", ("skitter.toml", "user_agnt = 'x'")
    ),
    refused(
        f"crawl {URL}",
        "unknown table in skitter.toml: fetchs",
        "fetch",
        ("skitter.toml", "[fetchs]\nuser_agent = 'x'"),
    ),
    refused(
        f"crawl {URL}",
        "bad value in skitter.toml: per_host='many'",
        "whole number from 1",
        ("skitter.toml", "per_host = 'many'"),
    ),
    refused(
        "serve --bind 127.0.0.1:0",
        "bad value in [remote] of skitter.toml: 'submitt'",
        "did you mean submit ?",
        ("skitter.toml", "[remote]\nallow = ['schedule', 'submitt']"),
    ),
    refused(
        f"crawl {URL}",
        "bad value in [remote] of skitter.toml: {'alow': ['submit']}",
        'as in allow = ["submit"]; words: submit, schedule, settings, proxies',
        ("skitter.toml", "[remote]\nalow = ['submit']"),
    ),
    refused(
        f"crawl {URL}",
        "a secret must not be in the file itself: [[credentials]] of skitter.toml, number 1: token",
        "name a file of mode 600 in token_file, or an environment variable in token_env",
        (
            "skitter.toml",
            f'[[credentials]]\norigin = "https://a.example"\nkind = "bearer"\ntoken = "{PASSWORD}"\n',
        ),
    ),
    refused(
        f"crawl {URL} --cache pages --recrawl", "cached pages never change, so --cache cannot be used with --recrawl"
    ),
    refused(
        f"crawl {URL} --cache file/pages", "the cache folder cannot be used: cache_dir=file/pages: ", "", ("file", "")
    ),
    refused(
        "export --from in.jsonl -o new/er/out.csv",
        "does not exist: new",
        "create it",
        ("in.jsonl", '{"a": 1}\n{"a": 2}\n'),
    ),
    refused("export --from in.jsonl -o in.jsonl", "the same file", "", ("in.jsonl", '{"a": 1}\n')),
    refused("export --from in.jsonl --job x -o out.jsonl", "--from and --job together", "", ("in.jsonl", '{"a": 1}\n')),
    refused("export --from in.exe -o out.jsonl", "unknown format")._replace(leaves="out.jsonl"),
    refused("export --from bad.jsonl -o out.jsonl", "line 2", "", ("bad.jsonl", '{"a": 1}\n{"a"\n'))._replace(
        leaves="out.jsonl"
    ),
    refused("bench --frontier sqlite:mine.db", "the file already exists", "", ("mine.db", "mine")),
]

OF_A_JOB = {
    "status": "status",
    "failed": "failed",
    "logs": "logs",
    "why": f"why {SEED}",
    "add": f"add {SEED}",
    "pause": "pause",
    "resume": "resume",
    "stop": "stop",
    "set": "set delay_seconds=2",
    "retry": "retry",
    "hosts": "hosts",
    "proxies": "proxies",
    "sessions": "sessions",
    "drop": "drop",
    "items": "items",
    "export": "export -o copy.jsonl",
    "deliver": "deliver -o out.jsonl",
    "worker": "worker",
    "fsck": "fsck",
}
"""Commands on a job, each with the least that it needs."""


def _with_job(command: str, job: str) -> str:
    """A command of ``OF_A_JOB`` with the job as its first word."""
    return OF_A_JOB[command].replace(command, f"{command} {job}", 1)


NO_JOB = [
    *(refused(words, "which job?", f"name it: skitter {name} JOB") for name, words in OF_A_JOB.items()),
    *(refused(f"{words} --job nowhere", "no such job here: nowhere", "--frontier") for words in OF_A_JOB.values()),
    *(refused(_with_job(name, "nowhere"), "nowhere", "--frontier") for name in OF_A_JOB),
    refused("worker --frontier sqlite:j.db --job j", "no such job: j: there is no j.db", "--stay waits"),
    refused("logs --events redis://127.0.0.1:1#events", "which job?", "name it: skitter logs JOB"),
]
NOTHING_HERE = [
    Row("--version", out=[f"skitter {__version__}\n"]),
    *(Row(words, out=[f"  {name} " for name in COMMANDS]) for words in ("--help", "-h", "help")),
    *(Row(f"{name} --help", out=[f"usage: skitter {name}", "\nExamples:\n"]) for name in COMMANDS),
    Row("list", note="no spiders found; skitter new NAME URL creates a project"),
    Row("list --json", json=[{"spiders": [], "broken": []}]),
    Row("check", note="no spiders found; the settings are valid"),
    Row("check --json", json=[{"ok": True, "spiders": [], "findings": [], "warnings": []}]),
    Row("check --frontier redis://127.0.0.1:1", note="the settings are valid"),
    Row("check --frontier sqlite:new.db --connect", note="the settings are valid"),
    Row("check --frontier redis://127.0.0.1:1 --connect", 1, ["error: --frontier redis://127.0.0.1:1: ", "\nhint: "]),
    Row("settings", out=["delay_seconds", "max_pages"]),
    Row("settings --changed", note="all settings have their defaults"),
    Row("jobs", note="no jobs in .skitter"),
    Row("jobs --json"),
    Row("audit", note="no actions are recorded here"),
    Row("audit --json"),
    Row("schedule list --json"),
    Row("user list --json"),
    Row("plan --pages 1e6 --days 1", out=["bottleneck: "]),
    Row("plan --pages 1e6 --days 1 --json", json=[{}]),
    *(Row(f"completion {shell}", out=["skitter"]) for shell in ("bash", "zsh", "fish")),
    Row(
        "shell page.html --url https://a.example/ -c 'response.links()' --json",
        out=['["https://a.example/x"]\n'],
        files=[("page.html", "<a href='/x'>x</a>")],
    ),
    Row(
        "items --from in.jsonl --json",
        json=[{"job": "", "source": "in.jsonl", "items": 2}],
        files=[("in.jsonl", '{"a": 1}\n{"a": 2}\n')],
    ),
    Row(
        "export --from in.jsonl -o out.csv --json",
        json=[{"written": 2, "rejected": 0, "outputs": ["out.csv"]}],
        files=[("in.jsonl", '{"a": 1}\n{"a": 2}\n')],
    ),
    Row(
        "export --from in.jsonl -o new/out.csv -o new/{part}.jsonl -o sqlite:new/x.db#pages",
        note="6 items written to new/out.csv, new/{part}.jsonl, sqlite:new/x.db#pages",
        files=[("in.jsonl", '{"a": 1}\n{"a": 2}\n')],
    ),
    Row("new project shop https://shop.example/", out=["shop/skitter.toml"], note="skitter crawl"),
    Row("new shop https://shop.example/", out=["shop/skitter.toml", "shop/spiders/shop.py"], note="skitter crawl"),
    Row("new shop", out=["shop/skitter.toml"], note="skitter crawl"),
    Row("new project project", out=["project/spiders/project.py"], note="skitter crawl"),
    Row(
        f"submit {URL} --priority high --deliver disk -o x.jsonl --json",
        json=[{"job": "127.0.0.1-9", "begun": "new", "state": "running", "workers": 0, "outputs": ["x.jsonl"]}],
        note="skitter worker --every-job",
    ),
    Row(
        f"submit {URL} -o postgresql://ann:{PASSWORD}@db.example/shop#pages",
        out=["run 1 is new"],
        note="the password is not kept: postgresql://",
    ),
]

# ---- the folder has the job books, which nobody works at

BOOKS = [
    # Which job: the only one needs no name, and a file is named after its job.
    Row("status --json", json=[{"job": "books"}]),
    Row("status --frontier sqlite:.skitter/books.db --json", json=[{"job": "books"}]),
    refused("status --job boks", "no such job here: boks", "did you mean books ?"),
    refused("status boks", "no such job here: boks", "did you mean books ?"),
    refused("hosts boks", "neither a job here nor an action: boks", "did you mean books ?"),
    Row("status books --json", json=[{"job": "books"}]),
    Row("status --json books", json=[{"job": "books"}]),
    Row("status books --job books --json", json=[{"job": "books"}]),
    Row("status books --frontier sqlite:.skitter/books.db --json", json=[{"job": "books"}]),
    Row("failed books --json --limit 1", json=[{}]),
    Row("logs books --json --level warning"),
    Row(f"why books {SEED}missing --json", json=[{"state": "failed", "error_class": "http_4xx", "attempts": 1}]),
    refused(f"why {SEED}missing books", "unexpected argument: books"),
    Row(f"add books {SEED}new {SEED}", out=["books: 1 request added, 1 duplicate\n"]),
    Row("add books --file urls.txt", out=["books: 1 request added"], files=[("urls.txt", f"{SEED}new\n")]),
    refused("add books", "no URLs given", "skitter add [JOB] https://"),
    Row("pause books", out=["books: paused\n"]),
    Row("resume books --json", json=[{"job": "books", "state": "running"}]),
    Row("stop books", out=["books: stopped\n"]),
    Row("set books delay_seconds=2 per_host=3 --json", json=[{"settings": {"delay_seconds": 2.0, "per_host": 3}}]),
    refused("set books", "not KEY=VALUE: skitter set books", "name=value"),
    Row("retry books --json", json=[{"job": "books", "retried": 2}]),
    Row(f"retry books {SEED}broken --json", json=[{"job": "books", "retried": 1}]),
    Row("hosts books --json", json=[{"key": "http://a.example"}]),
    Row("hosts books list --json", json=[{"key": "http://a.example"}]),
    Row("hosts books pause http://a.example", out=["http://a.example: paused"]),
    Row("proxies books --json"),
    Row("sessions books list --json", json=[{"job": "books", "sessions": []}]),
    Row("fsck books --json", json=[{"job": "books", "consistent": True}]),
    Row("export books -o copy.jsonl", note="0 items written to copy.jsonl"),
    refused("deliver books -o out.jsonl", "the job keeps no items for this output: out.jsonl", "started without -o"),
    refused("worker books --set timeout_seconds=5", "applies to the whole job"),
    Row("audit books --json"),
    Row("audit other --json"),
    # Hints are the shortest commands that work here: the only job needs no name.
    Row("failed", out=[SEED], note="to try again: skitter retry\n"),
    Row(f"why {SEED}missing", out=[f"full error: skitter failed --url {SEED}missing\n"]),
    refused("status --frontier sqlite:.skitter/books.db --job other", "no such job: other"),
    refused("fsck --frontier sqlite:.skitter/books.db --job other", "no such job: other"),
    # status
    Row(
        "status --job books --json",
        json=[
            {"state": "running", "run": 1, "queued": 1, "delayed": 0, "leased": 0, "done": 2, "redirected": 0}
            | {"failed": 2, "excluded": 1, "seen": 6, "undelivered": 0, "exact": True, "workers": 0}
            | {"worker_list": [], "errors": {"http_4xx": 1, "callback": 1}}
        ],
    ),
    Row(
        "status",
        out=[
            "job       books, run 1, built-in spider\nstate     interrupted, no live workers, begun ",
            "failed      2  callback 1, http_4xx 1",
        ],
        note="to resume, run the same crawl again",
    ),
    Row("jobs", out=["books", "interrupted, no live workers"]),
    Row("jobs --json", json=[{"job": "books", "state": "running", "workers": 0, "done": 2, "failed": 2}]),
    Row("jobs --distinct --json", json=[{"job": "books"}, {"jobs": 1, "distinct": 2}]),
    # failed: one line of each error, and nothing that a terminal would obey.
    Row(
        "failed",
        out=[
            f"http_4xx 404  {SEED}missing\n    HTTP 404, 1 attempt, found on {SEED}",
            f"callback 200  {SEED}broken\n    ValueError: a [31mred[0m price, 1 attempt",
        ],
        note="skitter retry",
    ),
    Row("failed -v", out=['    |   File "books.py", line 8, in parse']),
    Row(f"failed --url {SEED}broken", out=['    |   File "books.py", line 8, in parse']),
    Row(
        "failed --json --class http_4xx",
        json=[{"url": f"{SEED}missing", "error_class": "http_4xx", "status": 404, "error": "HTTP 404"}],
    ),
    Row(
        "failed --json --class callback", json=[{"url": f"{SEED}broken", "error_class": "callback", "error": TRACEBACK}]
    ),
    Row("failed --json", json=[{}, {}]),
    Row("failed --json --limit 1", json=[{}]),
    Row("failed --limit 1", out=[SEED], note="... and 1 more"),
    Row("failed --class dns", note="nothing failed with class dns\n"),
    Row(f"failed --url {SEED}done", note=f"skitter why {SEED}done"),
    refused("failed --limit few", "not a number from 1: --limit few"),
    refused("failed --class zzz", "no such error class: zzz", "known classes: dns, connect, tls,"),
    refused("failed --class timout", "no such error class: timout", "did you mean timeout ?"),
    # retry
    Row("retry --json", json=[{"job": "books", "state": "running", "retried": 2}]),
    Row(
        "retry --class dns",
        out=["books: 0 requests queued again"],
        note="classes that failed: callback 1, http_4xx 1\n",
    ),
    refused(f"retry {SEED}done", f"no failed request with this URL: {SEED}done")._replace(
        out=["0 requests queued again"]
    ),
    refused("retry --class zzz", "no such error class: zzz", "known classes: dns, connect, tls,"),
    refused("retry --class timout", "no such error class: timout", "did you mean timeout ?"),
    # pause, resume, stop, set
    Row("pause", out=["books: paused\n"]),
    Row("pause --json", json=[{"job": "books", "state": "paused", "run": 1, "reason": "", "workers": 0}]),
    Row("resume", out=["books: running\n"], note="no worker is running"),
    Row("resume --json", json=[{"job": "books", "state": "running"}]),
    Row("stop", out=["books: stopped\n"]),
    Row("stop --json", json=[{"state": "stopped", "reason": "command"}]),
    Row("set delay-seconds=2 --json", json=[{"job": "books", "state": "running", "settings": {"delay_seconds": 2.0}}]),
    Row("set delay_seconds=2", out=["books: delay_seconds=2\n"], note="no worker is running"),
    refused("set delay_secs=3", "delay_secs", "did you mean delay_seconds?"),
    refused(
        "set dedup=bloom",
        "cannot be changed while a job runs: dedup, the record of seen pages depends on it",
        "a new run can have another value: --fresh --set dedup=VALUE",
    ),
    # add
    Row(
        f"add {SEED}new {SEED} example.com mailto:a@b.example",
        out=["books: 1 request added, 1 duplicate\n"],
        note="bad URL: argument 3: not an absolute URL: example.com\nbad URL: argument 4: ",
    ),
    Row(
        f"add {SEED}new {SEED} example.com --json",
        json=[{"job": "books", "added": 1, "duplicates": 1, "known": 1, "bad": 1}],
    ),
    refused("add books nonsense", "no valid URL to add")._replace(out=["0 requests added"]),
    refused("add", "no URLs given", "--file"),
    refused("add --file missing.txt", "cannot be read: missing.txt", "--file takes a text file"),
    *(
        refused(f"add {SEED}new --priority {typed}", f"not a priority: {typed}")
        for typed in ("urgent", "1.5", "9223372036854775808")
    ),
    # why
    *(
        Row(f"why {url}", out=parts)
        for url, parts in [
            (SEED, [": done", "a seed, added "]),
            (f"{SEED}done", ["done: done", "fetched ", "status 200, 1 attempt", f"found on {SEED}, ", "depth 1"]),
            (
                f"{SEED}missing",
                ["missing: failed", "http_4xx, status 404: HTTP 404", f"skitter retry {SEED}missing"],
            ),
            (
                f"{SEED}broken",
                [": failed", "callback, status 200: ValueError: a [31mred[0m price", "skitter failed --url"],
            ),
            (f"{SEED}private", ["excluded ", f"by {RULE}"]),
            (f"{SEED}waiting#part", ["waiting: queued", "no worker is running", "it can be fetched now"]),
            (f"{SEED}private/2", ["never seen", f"excluded by {RULE}"]),
            ("https://other.example/", ["never seen", "outside the scope: https://other.example is not among"]),
            (f"{SEED}elsewhere", ["never seen", "no link to it has been found", "may still be found"]),
            (SEED + "a/" * 11, ["never seen", "rule trap_repeats: its path repeats one segment too often"]),
            ("ftp://a.example/", ["never seen", "can never be crawled: not a URL to crawl (scheme)"]),
        ]
    ),
    Row(f"why {SEED}missing --json", json=[{"state": "failed", "error_class": "http_4xx", "attempts": 1}]),
    Row(f"why {SEED}x --json", json=[{"state": "unseen"}]),
    refused("why a.example/x", "not an absolute URL: a.example/x"),
    # the other commands that only read
    Row("hosts", out=["http://a.example", "active"]),
    Row("hosts --json", json=[{"key": "http://a.example", "queued": 1, "in_flight": 0}]),
    Row("hosts --state paused", note="no hosts in books are paused"),
    Row("proxies", note="no proxies in books"),
    Row("proxies --json"),
    Row("sessions", note="no session has a cookie yet"),
    Row("sessions --json", json=[{"job": "books", "sessions": []}]),
    Row("items", out=["0 items in outbox"]),
    Row("items books --json", json=[{"job": "books", "items": 0, "undelivered": 0, "sample": []}]),
    Row(
        "logs", out=["job.begun: run 1 is begun", f"request.failed: {SEED}broken has failed"], note="from the frontier"
    ),
    Row("logs --json", json=[{"event": "job.begun", "job": "books"}, {"event": "request.failed"}]),
    Row("fsck", out=["books: consistent\n"]),
    Row("fsck --json", json=[{"job": "books", "consistent": True, "found": 0}]),
    Row("export -o copy.jsonl", note="0 items written to copy.jsonl"),
    refused("deliver -o out.jsonl --json", "the job keeps no items for this output: out.jsonl", "started without -o"),
    refused("hosts pause shop.example", "not a host"),
    refused("hosts pause http://shop.example", "no such host in books: http://shop.example", "skitter hosts lists"),
    refused("hosts pause ftp://shop.example", "not a host"),
    refused("proxies ban nobody", "no such proxy: nobody", "skitter proxies lists their ids"),
    refused("drop", "which job?", "dropping it cannot be undone"),
    Row("drop books", out=["books: dropped\n"]),
    Row("drop --job books", out=["books: dropped\n"]),
    Row("drop --job books --json", json=[{"job": "books", "dropped": True}]),
    # crawl
    refused(
        f"crawl {URL} --job books",
        "job books is unfinished and has another spider, other seeds or other arguments",
        "--fresh",
    ),
    refused("worker --set timeout_seconds=5", "applies to the whole job"),
]

# ---- the folder has jobs that have come to their end, and files that are no jobs

ENDED = [
    refused(
        "status",
        "which job?",
        "name it: skitter status JOB; here: dead, done, stopped; --frontier URL names another store",
    ),
    # Of several jobs a hint names its own, and of another store that one.
    Row("failed dead", out=["connect"], note="to try again: skitter retry dead\n"),
    Row("retry dead", out=["dead: 1 request queued again"], note="run the same crawl again, or: skitter worker dead\n"),
    Row(
        "failed dead --frontier sqlite:copy.db", out=["connect"], note="skitter retry dead --frontier sqlite:copy.db\n"
    ),
    Row("status --job done --json", json=[{"job": "done", "state": "finished", "done": 3, "failed": 0, "queued": 0}]),
    Row("status --job done", out=["state     finished"]),
    Row("status --job dead --json", json=[{"job": "dead", "state": "finished", "done": 0, "failed": 1}]),
    Row("failed --job dead --json", json=[{"error_class": "connect", "url": URL}]),
    Row("failed --job done", note="nothing failed\n"),
    Row("failed --job done --json"),
    Row("failed --class timeout --job done", note="nothing failed with class timeout\n"),
    Row(f"why {URL} --job dead", out=["failed", "connect", "skitter retry"]),
    Row("items done --json", json=[{"job": "done", "source": "out.jsonl", "items": 3}]),
    Row("export --job done -o copy.jsonl --json", json=[{"written": 0, "outputs": ["copy.jsonl"]}]),
    Row("pause --job done", out=["done: finished\n"], note="nothing to pause, resume or stop"),
    Row("stop --job done --json", json=[{"state": "finished"}]),
    refused("set delay_seconds=1 --job done", "the job is finished: done"),
    Row("worker --job done --json", json=[{"job": "done", "state": "finished", "pages": 3}]),
    Row("deliver -o out.jsonl --job done --json", json=[{"delivered": 0, "rejected": 0}]),
    Row("set max_pages=2 --job stopped", out=["stopped: max_pages=2\n"], note="the job is stopped"),
    Row(
        "resume --job stopped",
        note="the job stays stopped; to resume, run the crawl again as it was started, with --max-pages 2; or ",
        out=["stopped: stopped\n"],
    ),
    Row(
        f"add {URL}x --job stopped", note="max_pages=1 is reached, so the added requests wait", out=["1 request added"]
    ),
    Row("jobs --json", json=[{"job": "dead"}, {"job": "done"}, {"job": "stopped", "state": "stopped"}]),
    # Files that are no frontiers are said and not touched.
    *(
        refused(f"{words} --frontier sqlite:broken.db --job j", "a damaged one: broken.db", "move it elsewhere", code=3)
        for words in (f"crawl {URL}", "status", "failed", "stop")
    ),
    refused(
        f"crawl {URL} --frontier sqlite:foreign.db --job j", "not a skitter frontier", "another --frontier", code=3
    ),
    refused(f"crawl {URL} --frontier sqlite:. --job j", "cannot use the file", code=3),
    refused("status --frontier sqlite:newer.db", "a newer skitter", "use the skitter that wrote it", code=3),
    refused("status --frontier sqlite:newer.db", "format 99", code=3),
]

PROJECT_FILES = {
    "skitter.toml": 'delay_seconds = 1\nexclude = ["/cart", "a,b"]\n[limits]\nmax_pages = 9\n',
    "spiders/shop.py": """
        from skitter import Request, Spider

        class Base(Spider):
            start_urls = ["https://a.example/"]
            def parse(self, response):
                yield Request("/a", callback="parse")

        class Shop(Base):
            '''Books of the shop.

            And more.'''
            name = "shop"
            custom_settings = {"delay_seconds": 2}
        """,
}
PROJECT = [
    Row("list", out=["-     spiders/shop.py:Base\nshop  spiders/shop.py:Shop  Books of the shop.\n"]),
    Row("list spiders/shop.py --json", json=[{"broken": []}]),
    Row("check", out=["ok: spiders/shop.py:Base\nok: spiders/shop.py:Shop\n"]),
    Row(
        "check shop --json",
        json=[
            {
                "ok": True,
                "spiders": [{"reference": "spiders/shop.py:Shop", "ok": True}],
                "findings": [],
                "warnings": [],
            }
        ],
    ),
    Row(
        "check", 1, ["ok: spiders/shop.py:Base", "error: spiders/broken.py: "], files=[("spiders/broken.py", "class\n")]
    ),
    Row("settings shop --changed", out=["delay_seconds", "spider: spiders/shop.py:Shop"]),
    refused("crawl shpo", "no such spider: shpo", "did you mean shop ?"),
    Row("new spider authors https://a.example/", out=["spiders/authors.py"], note="skitter crawl authors"),
    Row("new authors https://a.example/", out=["spiders/authors.py"], note="skitter crawl authors"),
    Row("new project authors https://a.example/", out=["authors/spiders/authors.py"], note="skitter crawl authors"),
    refused("new authors", "a spider without a URL", "skitter new spider authors https://example.com/"),
]

TABLE = {
    "empty": [
        *MISTYPED,
        *WITHOUT_AN_ARGUMENT,
        *WRONG_ARGUMENTS,
        *EGRESS,
        *BENCH,
        *BROKEN_SPIDERS,
        *BROKEN_FILES,
        *NO_JOB,
        *NOTHING_HERE,
    ],
    "books": BOOKS,
    "ended": ENDED,
    "project": PROJECT,
}
"""What is in the folder to what is typed there."""
ROWS = [
    pytest.param(folder, row, id=f"{folder}: {row.words} {' '.join(name for name, _ in row.files)}".strip())
    for folder, rows in TABLE.items()
    for row in rows
]


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folders of the table."""
    prepared = tmp_path_factory.mktemp("prepared")
    for name in TABLE:
        (prepared / name).mkdir()
    write_books_job(prepared / "books")
    _end_jobs(prepared / "ended")
    for name, text in PROJECT_FILES.items():
        CommandLine(prepared / "project").write(name, text)
    return prepared


def _end_jobs(folder: Path) -> None:
    """One job that is finished, one that failed, one that is stopped by a limit; and files that are no frontiers."""
    skitter = CommandLine(folder)
    with served(WebSpec.plain(hosts=1, pages_per_host=3)) as web:
        skitter.run("crawl", web.urls[0], "--job", "done", "-o", "out.jsonl", "-q")
        skitter.run("crawl", web.urls[0], "--job", "stopped", "--max-pages", 1, "--concurrency", 1, "-q")
    skitter.run("crawl", URL, "--job", "dead", "--set", "max_attempts=1", "-q", code=1)
    (folder / "broken.db").write_bytes(NO_TEXT)
    shutil.copy(folder / ".skitter" / "done.db", folder / "newer.db")
    shutil.copy(folder / ".skitter" / "dead.db", folder / "copy.db")
    for name, statement in (("foreign.db", "CREATE TABLE mine (x)"), ("newer.db", "PRAGMA user_version=99")):
        connection = sqlite3.connect(folder / name)
        connection.execute(statement)
        connection.commit()
        connection.close()


def contents(folder: Path) -> dict[str, bytes]:
    """What is in a folder, without what Python and SQLite keep beside a file. A job records refusals too: its name."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix not in (".pyc", ".db-wal", ".db-shm"))
    return {
        str(path.relative_to(folder)): b"" if path.parent.name == ".skitter" else path.read_bytes() for path in files
    }


def check_answer(done: subprocess.CompletedProcess[str], row: Row) -> None:
    printed = [json.loads(line) for line in done.stdout.splitlines()] if row.json else []
    assert [part | told for part, told in zip(row.json, printed, strict=False)] == printed
    assert len(printed) == len(row.json)
    for part in row.out:
        assert part in done.stdout
    if not row.out and not row.json:
        assert done.stdout == ""
    assert "\x1b" not in done.stdout + done.stderr
    assert row.note in done.stderr


def check_complaint(done: subprocess.CompletedProcess[str], row: Row) -> None:
    """The last error and its hint: the two lines that every failure ends with."""
    lines = done.stderr.splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    assert errors, done.stderr
    error, hint = lines[errors[-1]], lines[errors[-1] + 1]
    assert row.error in error
    assert hint.startswith("hint: ")
    assert row.hint in " ".join(lines[errors[-1] + 1 :])
    assert "job.begun" not in done.stderr, "a mistake is told before a run begins"


@pytest.mark.parametrize(("folder", "row"), ROWS)
def test_the_command_line_answers_as_the_table_says(
    skitter: CommandLine, prepared: Path, folder: str, row: Row
) -> None:
    shutil.copytree(prepared / folder, skitter.folder, dirs_exist_ok=True)
    for name, text in row.files:
        skitter.write(name, text)
    before = contents(skitter.folder)
    done = skitter.run(*shlex.split(row.words), code=row.code)
    assert "Traceback" not in done.stderr
    assert PASSWORD not in done.stdout + done.stderr
    check_answer(done, row)
    is_refused = bool(row.error or row.hint)
    assert is_refused == any(line.startswith("error: ") for line in done.stderr.splitlines())
    if is_refused:
        check_complaint(done, row)
        assert contents(skitter.folder) == before | ({row.leaves: ANY} if row.leaves else {}), "nothing is left behind"


def test_the_table_has_every_command() -> None:
    commands = {row.words.partition(" ")[0] for rows in TABLE.values() for row in rows if row.error}
    assert set(COMMANDS) - commands == set()
    at_a_job = {name for name in COMMANDS if "--job NAME" in _help(name)}
    assert at_a_job - set(OF_A_JOB) == {"crawl", "submit", "egress", "audit", "user"}


def _help(command: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        assert main([command, "--help"]) == 0
    return printed.getvalue()


# ---- what is more than a row


def test_a_traceback_is_shown_only_when_asked_for(skitter: CommandLine) -> None:
    skitter.write("bad.py", "1 / 0\n")
    done = skitter.run("crawl", "bad.py", "-v", code=2)
    assert "Traceback (most recent call last)" in done.stderr
    assert "error: " in done.stderr


@pytest.mark.parametrize("wrong", ["--max-pagse 3", "--max-pages many", "--job a/b"])
@pytest.mark.parametrize("asked", ["--log-format json", "--log-format=json", "--set log_format=json", "--log -"])
def test_a_mistake_before_a_crawl_begins_is_one_line_of_json_where_json_was_asked_for(
    skitter: CommandLine, monkeypatch: pytest.MonkeyPatch, asked: str, wrong: str
) -> None:
    if asked == "--log -":
        monkeypatch.setenv("SKITTER_LOG_FORMAT", "json")
    done = skitter.run("crawl", URL, *wrong.split(), *asked.split(), code=2)
    (line,) = done.stderr.splitlines()
    told = json.loads(line)
    assert (done.stdout, told["event"], told["level"], told["exit_code"]) == ("", "command.failed", "error", 2)
    assert told["error"]
    assert told["hint"]


def test_a_mistake_is_text_where_json_goes_to_a_file(skitter: CommandLine) -> None:
    asked = ("--log", "events.jsonl", "--log-format", "json")
    done = skitter.run("crawl", URL, "--max-pagse", 3, *asked, code=2)
    assert done.stderr.startswith("error: no such option")


def test_a_reader_that_has_gone_is_no_error(skitter: CommandLine) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ended = skitter.run("--help", stdout=writer)
    finally:
        os.close(writer)
    assert ended.stderr == ""


def test_a_file_that_cannot_be_read_does_not_hide_the_jobs_beside_it(skitter: CommandLine, prepared: Path) -> None:
    folder = skitter.folder / ".skitter"
    folder.mkdir()
    shutil.copy(prepared / "ended" / ".skitter" / "done.db", folder / "done.db")
    shutil.copy(prepared / "ended" / "newer.db", folder)
    shutil.copy(prepared / "ended" / "broken.db", folder)
    (folder / "folder.db").mkdir()
    told = {record["job"]: record for record in skitter.records("jobs")}
    assert {job: record["state"] for job, record in told.items()} == {
        "done": "finished",
        "newer": "unreadable",
        "broken": "unreadable",
        "folder": "unreadable",
    }
    assert "format 99" in told["newer"]["problem"]
    assert "damaged" in told["broken"]["problem"]
    shown = skitter.run("jobs")
    assert "unreadable" in shown.stdout
    assert "a newer skitter" in shown.stderr
    assert "hint: restore it from a backup" in shown.stderr


@pytest.fixture
def books(skitter: CommandLine, prepared: Path) -> CommandLine:
    """The command line in the folder of the job ``books``."""
    shutil.copytree(prepared / "books", skitter.folder, dirs_exist_ok=True)
    return skitter


@pytest.mark.parametrize(
    ("words", "retried", "failed"),
    [("", 2, 0), ("--class http_4xx", 1, 1), (f"{SEED}broken", 1, 1), ("--class dns", 0, 2)],
)
def test_retry_queues_what_it_names_and_nothing_else(books: CommandLine, words: str, retried: int, failed: int) -> None:
    assert books.json("retry", *words.split())["retried"] == retried
    status = books.json("status")
    assert (status["failed"], status["queued"]) == (failed, 1 + retried)


def test_why_says_that_the_job_stands_still(books: CommandLine) -> None:
    books.run("pause")
    assert "the job is paused: no requests are started" in books.run("why", f"{SEED}waiting").stdout


def test_add_reads_files_of_any_length(books: CommandLine) -> None:
    lines = ["\ufeff# a comment", "", *(f"{SEED}{number}" for number in range(2500)), "nonsense", SEED + "0"]
    (books.folder / "urls.txt").write_bytes("\r\n".join(lines).encode() + b"\r\nhttp://a.example/\xff\n")
    done = books.run("add", "--file", "urls.txt", "--json")
    assert json.loads(done.stdout) == {"job": "books", "added": 2501, "duplicates": 1, "known": 1, "bad": 1}
    assert "bad URL: line 2503: " in done.stderr
    assert books.json("status")["queued"] == 2502


def test_many_bad_lines_are_counted_and_not_all_shown(books: CommandLine) -> None:
    books.write("urls.txt", "nonsense\n" * 100)
    done = books.run("add", "--file", "urls.txt", code=2)
    assert done.stderr.count("bad URL: ") == 20
    assert "... and 80 more bad URLs" in done.stderr
    assert "error: no valid URL to add" in done.stderr


@pytest.mark.parametrize(
    ("typed", "shown"), [("high", "100 (high)"), ("LOW", "-100 (low)"), ("critical", "1000 (critical)"), ("-7", "-7")]
)
def test_added_urls_have_the_priority_that_was_named(books: CommandLine, typed: str, shown: str) -> None:
    books.run("add", f"{SEED}new", f"--priority={typed}")
    assert f", priority {shown}\n" in books.run("why", f"{SEED}new").stdout


def test_an_added_url_permits_its_host(books: CommandLine) -> None:
    books.run("add", URL)
    assert "a seed, added" in books.run("why", URL).stdout


def test_a_submitted_job_waits_for_a_fleet_and_is_resumed_with_new_settings(skitter: CommandLine) -> None:
    skitter.run("submit", URL, "--priority", "-5")
    status = skitter.json("status")
    assert (status["seeds"], status["seen"], status["seeding"]) == ([URL], 0, True)
    assert "run 1 is resumed" in skitter.run("submit", URL, "--priority", "7", "-q").stdout

    async def priority() -> object:
        frontier = open_frontier(f"sqlite:{skitter.folder}/.skitter/127.0.0.1-9.db", "127.0.0.1-9", create=False)
        try:
            return (await frontier.job()).spec.settings["job_priority"]
        finally:
            await frontier.close()

    assert asyncio.run(priority()) == 7


def test_settings_tell_where_each_value_comes_from(
    skitter: CommandLine, prepared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(prepared / "project", skitter.folder, dirs_exist_ok=True)
    skitter.write("scrapy_settings.py", "DEPTH_LIMIT = 3")
    monkeypatch.setenv("SKITTER_PROXY", f"http://me:{PASSWORD}@127.0.0.1:1")
    words = shlex.split("settings shop --config scrapy_settings.py --include /b --include /c --set per_host=3")
    told = {row["name"]: row for row in json.loads(skitter.run(*words, "--json").stdout)}
    assert told["delay_seconds"] | {"group": ""} == {
        "name": "delay_seconds",
        "group": "",
        "value": 2.0,
        "layer": "spider",
        "place": "spiders/shop.py:Shop",
    }
    assert (told["max_pages"]["value"], told["max_pages"]["layer"]) == (9, "project")
    assert (told["max_depth"]["value"], told["max_depth"]["layer"]) == (3, "config")
    assert (told["exclude"]["value"], told["include"]["value"]) == (["/cart", "a,b"], ["/b", "/c"])
    assert (told["per_host"]["layer"], told["per_host"]["place"]) == ("command line", "--set")
    assert (told["timeout_seconds"]["layer"], told["timeout_seconds"]["value"]) == ("default", 30.0)
    assert told["proxy"]["layer"] == "environment"
    said = skitter.run(*words, "--changed").stdout
    assert PASSWORD not in said + str(told)
    assert said.splitlines()[0].split() == ["delay_seconds", "2", "spider:", "spiders/shop.py:Shop"]
    assert len(said.splitlines()) == 7


def test_list_reads_and_runs_nothing(skitter: CommandLine) -> None:
    text = dedent(PROJECT_FILES["spiders/shop.py"])
    skitter.write("spiders/shop.py", text + "\n    raise RuntimeError('it was run')\n")
    skitter.write("spiders/broken.py", "class\n")
    (skitter.folder / "spiders" / "binary.py").write_bytes(b"\0\xff")
    said = skitter.run("list", code=1)
    assert "warning: cannot be read: spiders/broken.py: line 1: invalid syntax" in said.stderr
    assert "spiders/binary.py" in said.stderr
    told = skitter.json("list", code=1)
    assert told["spiders"][1] == {
        "name": "shop",
        "reference": "spiders/shop.py:Shop",
        "line": 9,
        "about": "Books of the shop.",
    }
    assert [each["file"] for each in told["broken"]] == ["spiders/binary.py", "spiders/broken.py"]


def test_a_named_place_without_spiders_is_an_error(skitter: CommandLine) -> None:
    skitter.write("skitter.toml", 'spiders = ["elsewhere"]')
    assert "elsewhere: No such file or directory" in skitter.run("list", code=1).stderr


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("def parse(self, r): yield Request('/', self.gone)", "Own has no callback of this name: gone"),
        ("def parse(self, r): yield r.follow('/', callback='gone')", "Own has no callback of this name: gone"),
        ("def parse(self, r): yield Request('/', errback=self.gone)", "Own has no errback of this name: gone"),
        ("custom_settings = {'delay_secs': 1}", "unknown setting in spiders/own.py:Own: delay_secs"),
        ("item_functions = ['nowhere:clean']", "cannot be imported: nowhere:clean"),
        ("custom_settings = {'hooks': 'nowhere:Captcha'}", "cannot be imported: nowhere:Captcha"),
        ("sinks = ['what://x']", "what://x"),
        ("start_urls = []", "the spider has no start URLs: Own"),
        ("x = 1 / 0", "a spider cannot be imported: spiders/own.py: ZeroDivisionError"),
        ("custom_settings = {'fetcher': 'gone'}", "no such fetcher: gone"),
    ],
)
def test_check_finds(skitter: CommandLine, body: str, problem: str) -> None:
    skitter.write(
        "spiders/own.py",
        f"""
        from skitter import Request, Spider

        class Own(Spider):
            name = "own"
            start_urls = ["https://a.example/"]
            def parse(self, response): ...
            {body}
        """,
    )
    assert problem in skitter.run("check", "own", code=1).stdout
    (finding,) = skitter.json("check", code=1)["findings"]
    assert problem in finding["problem"]


def test_check_finds_settings_frontiers_and_goes_on_after_a_broken_file(skitter: CommandLine) -> None:
    skitter.write("spiders/broken.py", "class\n")
    skitter.write(
        "spiders/own.py", "from skitter import Spider\nclass Own(Spider):\n    def __init__(self, shelf): ...\n"
    )
    said = skitter.run("check", "--frontier", "redis://a:b:c", code=1)
    assert "error: spiders/broken.py: cannot be read: line 1" in said.stdout
    assert "error: --frontier redis" in said.stdout
    assert "ok: spiders/own.py:Own" in said.stdout
    assert "spiders/own.py:Own: not constructed, because it needs arguments: shelf (-a KEY=VALUE)" in said.stderr
    skitter.write("skitter.toml", "delay_seconds = -1")
    assert "error: settings: bad value in skitter.toml: delay_seconds=-1" in skitter.run("check", code=1).stdout


@pytest.mark.parametrize("target", ["folder.jsonl", "file/out.jsonl", "/proc/out.jsonl", "file/out.csv"])
def test_an_unwritable_output_is_said_before_anything_is_fetched(skitter: CommandLine, site: Any, target: str) -> None:
    (skitter.folder / "folder.jsonl").mkdir()
    skitter.write("file", "in the way")
    site.page("/", "home")
    done = skitter.run("crawl", site.url(), "-o", target, "--job", "j", code=3)
    check_complaint(done, Row("", error=target))
    assert site.seen == []
    if target == "folder.jsonl":
        # The job is as it was: with another target it runs.
        assert skitter.json("crawl", site.url(), "-o", "good.jsonl", "--job", "j")["pages"] == 1
        assert len(skitter.lines("good.jsonl")) == 1
