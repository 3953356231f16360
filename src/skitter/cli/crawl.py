"""``skitter crawl``: crawls a site or runs a spider, and resumes an unfinished run."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

from skitter.cli.arguments import (
    CACHE_OPTIONS,
    COORDINATOR_OPTION,
    LOG_OPTIONS,
    METRICS_OPTIONS,
    PROXIES_OPTION,
    AddAction,
    Parser,
    add_frontier_option,
    add_intake_options,
    add_output_options,
    add_setting_options,
    add_spider_argument_option,
    add_verbosity_options,
    key_value,
)

if TYPE_CHECKING:
    from skitter.app import CrawlConfig
    from skitter.app.crawl_source import CrawlSource
    from skitter.settings import Settings


JOB_OPTIONS = [
    ("--per-host", "per_host", "N", "requests in flight per host, all workers together (default 8; of public hosts 2)"),
    ("--delay", "delay_seconds", "SECONDS", "delay between two requests to a host (default 0; of public hosts 0.5)"),
    ("--max-pages", "max_pages", "N", "stop after this many pages; a later run with a higher limit resumes"),
    ("--max-depth", "max_depth", "N", "follow links at most this far from a seed, which has depth 0"),
    (
        "--recrawl",
        "recrawl=due",
        "",
        "keep a record of each page; fetch pages again only when due, and parse only those that changed",
    ),
    ("--recrawl-all", "recrawl=all", "", "like --recrawl, but fetch all recorded pages, due or not"),
    ("--ignore-robots", "obey_robots=false", "", "do not read or obey robots.txt"),
    (
        "--allow-private",
        "allow_private=true",
        "",
        "follow links to private addresses; the hosts of seeds may be private anyway",
    ),
]
"""Options for ``add_setting_options`` that belong to the job and to no node."""
CRAWL_OPTIONS = [
    ("--workers", "workers", "N", "worker processes (default 1); auto: one per usable core, as far as memory allows"),
    ("--concurrency", "concurrency", "N", "requests in flight per worker (default 64)"),
    COORDINATOR_OPTION,
    *METRICS_OPTIONS,
    *JOB_OPTIONS,
    ("--stay", "stay=true", "", "with --recrawl: never finish; fetch recorded pages whenever they are due"),
    *CACHE_OPTIONS,
    *LOG_OPTIONS,
]
"""All options of ``crawl`` that stand for one setting each."""
LIST_OPTIONS = [
    PROXIES_OPTION,
    ("--include", "include", "REGEX", "follow only links whose URL contains a match (repeatable; one match is enough)"),
    (
        "--exclude",
        "exclude",
        "REGEX",
        "do not follow links whose URL contains a match (repeatable; one match is enough)",
    ),
]


def configure(parser: Parser) -> None:
    parser.describe(
        "URL... [options]",
        "SPIDER [options]",
        "file.py:function URL... [options]",
        "--sitemap URL [options]",
        "[SPIDER] --intake URL [options]",
        text="Crawl a site with the built-in spider, or run a spider of yours. The job is stored in a frontier:\n"
        "run the same command again to resume an unfinished run, or to start a new one after a finished run.\n"
        "The first Ctrl-C finishes the requests in flight; a second one exits at once. Neither loses anything.",
        examples=[
            (
                "skitter crawl http://127.0.0.1:8600/ --max-pages 100 -o pages.jsonl",
                "Crawl at most 100 pages and write one JSON object per page",
            ),
            (
                "skitter crawl books.py -a category=poetry --delay 1 -O books.csv",
                "Run the spider of a file with an argument, one request per second to each host",
            ),
            (
                "skitter crawl http://127.0.0.1:8600/ --workers 4 --frontier redis://127.0.0.1:6379",
                "Crawl with four processes; other machines can join with skitter worker",
            ),
        ],
    )
    add_definition_options(parser)
    add_output_options(parser, overwrite=True)
    add_job_setting_options(parser, CRAWL_OPTIONS)
    add_verbosity_options(parser, quiet=True, json_help="print a JSON summary at the end; not with -o -")


def add_job_setting_options(parser: Parser, options: Iterable[tuple[str, str, str, str]]) -> None:
    """Add options of settings, --include, --exclude and --proxies, --set and --config."""
    for option, setting, metavar, help_text in LIST_OPTIONS:
        parser.add_argument(option, action=AddAction, setting=setting, metavar=metavar, help=help_text)
    add_setting_options(parser, options)


def add_definition_options(parser: Parser) -> None:
    """Add what defines a job: its spider or seeds, its name and its frontier."""
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="URL|SPIDER",
        help="URLs; or a spider: its name, file.py or file.py:Class; or file.py:function and URLs",
    )
    parser.add_argument(
        "--sitemap",
        action="append",
        default=[],
        metavar="URL",
        help='crawl the pages of a sitemap; "robots": of the sitemaps in robots.txt of each seed\'s host (repeatable)',
    )
    add_intake_options(parser)
    parser.add_argument(
        "--job",
        metavar="NAME",
        help="name of the job (default: the spider's name, the first seed's host, or the intake's key or file)",
    )
    add_frontier_option(
        parser,
        "the store of the job (default: sqlite:.skitter/NAME.db); redis://HOST:PORT and https://MASTER can be shared "
        "by machines; memory: keeps nothing",
    )
    parser.add_argument("--fresh", action="store_true", help="discard an unfinished run instead of resuming it")
    parser.add_argument(
        "--run-key", default="", metavar="KEY", help="start at most one run for this key; given again, resume that run"
    )
    add_spider_argument_option(parser)


def run(options: argparse.Namespace) -> int:
    import msgspec

    from skitter import app
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.job_ref import JobRef
    from skitter.cli.output import stdout_for_data
    from skitter.cli.run_messages import RunOutput
    from skitter.cli.run_node import check_outputs, run_node
    from skitter.cli.summary import print_summary

    check_outputs(options)
    with stdout_for_data():
        config, warnings, host_note, worker_note = make_config(options)
    job_ref = JobRef(config.frontier, config.spec.name)
    prints_items = any(target.name == "-" for target in config.outputs)
    output = RunOutput(config.settings.logging, job=job_ref.job, quiet=options.quiet)
    with output.errors_in_form(options.command_line):
        for warning in warnings:
            output.warn(warning)
        output.note(f"job {job_ref.job}, frontier {job_ref.shown}{host_note}")
        if worker_note:
            output.note(worker_note)
        log_options = {"job": job_ref.job, "quiet": options.quiet, "verbose": options.verbose}
        with (
            output.progress(prints_items=prints_items) as progress,
            event_log_lines(config.settings.logging, progress, **log_options) as log,
        ):
            config = msgspec.structs.replace(config, event_level=log.level, print_fd=progress.print_fd)
            node = app.make_crawl_node(config, on_report=progress.view, on_event=log.event)
            summary, number = run_node(node, log.event)
    return print_summary(summary, number, job_ref, options, output)


def _note_on_public_hosts(source: CrawlSource, settings: Settings) -> str:
    """Return what the first line says if a seed is public: its pace, and how to give a contact if there is none."""
    from skitter.policy.politeness import PUBLIC_PACE, has_own_pace, is_public

    own, agent = getattr(source.instance, "start_urls", ()), settings.fetch.agent
    seeds = [*source.seeds, *source.sitemaps, *(own if isinstance(own, (list, tuple)) else ())]
    if not any(is_public(seed) for seed in seeds if isinstance(seed, str)):
        return ""
    pace = "" if has_own_pace(settings.politeness) else f"; {PUBLIC_PACE} (--delay or --per-host sets another pace)"
    has_contact = "://" in agent or "@" in agent
    return pace if has_contact else f"{pace}; no contact in the user agent (--set contact=URL, or a mail address)"


def make_config(options: argparse.Namespace) -> tuple[CrawlConfig, list[str], str, str]:
    """Return the checked configuration, warnings, what the first line adds, and why there are so many workers."""
    from pathlib import Path

    from skitter.app import crawl_config
    from skitter.cli import settings_layers, what_to_crawl
    from skitter.cli.actor import cli_actor

    folder = Path.cwd()
    arguments = dict(key_value(text, "-a") for text in options.argument)
    project = settings_layers.read_project(folder)
    source = what_to_crawl.find_source(
        *(options.targets, arguments, folder, project.spider_paths, options.sitemap, options.intakes),
        job=options.job,
        closes_intakes=options.no_intake,
    )
    settings, warnings, sinks, worker_note, _, frontier = settings_layers.collect(
        spider=(source.spider or "", dict(source.settings)),
        project=project,
        environment=os.environ,
        config=options.config,
        overrides=options.overrides,
        one_process="memory: is for one process" if (options.frontier or "").startswith("memory:") else "",
    )
    config = crawl_config(
        source,
        settings,
        job=options.job,
        frontier=options.frontier or frontier or None,
        outputs=options.outputs,
        project_sinks=sinks,
        sink_password=settings_layers.sink_password(os.environ),
        intakes=options.intakes,
        until_idle_seconds=options.until_idle,
        closes_unread_intakes=options.no_intake,
        fresh=options.fresh,
        run_key=options.run_key,
        verbosity=-1 if options.quiet else options.verbose,
        actor=cli_actor(),
    )
    return config, [*source.warnings, *warnings], _note_on_public_hosts(source, settings), worker_note
