"""``skitter check``: whether spiders and settings load, and whether what they name exists."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from skitter.cli.arguments import (
    Parser,
    add_frontier_option,
    add_spider_argument_option,
    add_verbosity_options,
    key_value,
)
from skitter.cli.crawl import CRAWL_OPTIONS, add_job_setting_options
from skitter.cli.exit_codes import FAILED

if TYPE_CHECKING:
    from skitter.app.crawl_source import CrawlSource
    from skitter.app.outputs import Described
    from skitter.app.project_check import Finding, SpiderCheck
    from skitter.settings import Settings


def configure(parser: Parser) -> None:
    parser.describe(
        "[SPIDER...] [options]",
        text="Check that settings and spiders load, that callbacks and item functions exist and that outputs are\n"
        "valid. Loading a spider runs its file; nothing is fetched and no output is opened.",
        examples=[
            ("skitter check", "Check all spiders of the project"),
            (
                "skitter check books.py --frontier redis://127.0.0.1:6379 --connect",
                "Check one spider, and that Redis answers",
            ),
        ],
    )
    parser.add_argument(
        "spiders",
        nargs="*",
        metavar="SPIDER",
        help="a name, file.py or file.py:Class (default: all spiders of the project)",
    )
    add_spider_argument_option(parser)
    add_frontier_option(parser, "also check that this store URL is valid")
    parser.group("Job").add_argument(
        "--connect", action="store_true", help="with --frontier: also check that the store answers"
    )
    add_job_setting_options(parser, CRAWL_OPTIONS)
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    import asyncio

    from skitter.app.project_check import frontier_finding
    from skitter.cli.output import print_json
    from skitter.errors import UsageError

    if options.connect and options.frontier is None:
        raise UsageError("--connect without --frontier", hint="skitter check --frontier URL --connect")
    findings, checks = _check_project(options)
    if options.frontier is not None:
        found = asyncio.run(frontier_finding(options.frontier, connect=options.connect))
        findings += [found] if found is not None else []
    findings += [finding for check in checks for finding in check.findings]
    if options.json:
        spiders = [{"reference": each.reference, "ok": not each.findings} for each in checks]
        warnings = [warning for check in checks for warning in check.warnings]
        print_json({"ok": not findings, "spiders": spiders, "findings": findings, "warnings": warnings})
    else:
        _print(findings, checks)
    return FAILED if findings else 0


def _check_project(options: argparse.Namespace) -> tuple[list[Finding], list[SpiderCheck]]:
    """Check the settings, the project file and each spider; an error of one is told, and the others go on."""
    import os
    from pathlib import Path

    from skitter.app.project_check import Finding, check_spider_reference
    from skitter.cli import settings_layers
    from skitter.cli.list import listed
    from skitter.cli.output import stdout_for_data
    from skitter.cli.what_to_crawl import find_spider
    from skitter.errors import SkitterError

    folder = Path.cwd()
    arguments = dict(key_value(text, "-a") for text in options.argument)
    findings: list[Finding] = []

    def collect(source: CrawlSource | None) -> tuple[Settings, Described]:
        collected = settings_layers.collect(
            spider=(source.spider or "", dict(source.settings)) if source is not None else ("", {}),
            project=settings_layers.read_project(folder),
            environment=os.environ,
            config=options.config,
            overrides=options.overrides,
        )
        return collected.settings, collected.sinks

    try:
        project = settings_layers.read_project(folder)
        collect(None)
    except SkitterError as error:
        # Each spider would be told the same again.
        return [Finding(where="settings", problem=str(error), hint=error.hint)], []
    if options.spiders:
        references = [find_spider(word, folder, project.spider_paths) for word in options.spiders]
    else:
        listing = listed(folder, [])
        findings += [Finding(where=each.file, problem=f"cannot be read: {each.problem}") for each in listing.broken]
        references = [each.reference for each in listing.spiders]
    with stdout_for_data():
        return findings, [check_spider_reference(each, folder, arguments, collect) for each in references]


def _print(findings: list[Finding], checks: list[SpiderCheck]) -> None:
    from skitter.cli.output import note, warn
    from skitter.cli.terminal_text import clean, count

    for finding in findings:
        print(f"error: {clean(finding.where)}: {clean(finding.problem)}")
        if finding.hint:
            print(f"hint: {clean(finding.hint)}")
    for check in checks:
        if not check.findings:
            print(f"ok: {clean(check.reference)}")
        for warning in check.warnings:
            warn(warning)
    if not checks and not findings:
        note("no spiders found; the settings are valid")
    elif findings:
        note(f"{count(len(findings), 'finding')}")
