"""``skitter worker``: works on a job until it is finished; it needs the frontier's URL and the job's name only.

With ``--every-job`` it is a node of a fleet, which serves all jobs of the frontier until it is stopped.
"""

from __future__ import annotations

import argparse
import os

from skitter.cli.arguments import (
    CACHE_OPTIONS,
    COORDINATOR_OPTION,
    LOG_OPTIONS,
    METRICS_OPTIONS,
    PROXIES_OPTION,
    AddAction,
    Parser,
    add_intake_options,
    add_job_options,
    add_setting_options,
    add_verbosity_options,
)
from skitter.errors import UsageError


def configure(parser: Parser) -> None:
    parser.describe(
        "JOB [SPIDER] --frontier URL [options]",
        "--every-job [--frontier URL] [--name NODE] [options]",
        text="Work on a job until it is finished, together with its other workers. The worker needs the frontier,\n"
        "the name of the job and the spider's code; the settings of the job come with the job.",
        examples=[
            (
                "skitter worker books --frontier redis://127.0.0.1:6379 --workers auto",
                "Join the job books with one process per usable core",
            ),
            (
                "skitter worker --every-job --frontier redis://127.0.0.1:6379 --name node1",
                "Serve all jobs of a Redis server as the node node1 of a fleet",
            ),
        ],
    )
    add_job_options(parser)
    parser.add_argument(
        "spider",
        nargs="?",
        default="",
        metavar="SPIDER",
        help="location of the spider on this machine (default: that of the job)",
    )
    parser.group("Job").add_argument(
        "--stay", action="store_true", help="wait for the job to appear, and for new runs after it has finished"
    )
    add_intake_options(parser)
    parser.group("Job").add_argument(
        "--every-job",
        action="store_true",
        help="serve all jobs of the frontier, or of .skitter, by priority and in turns, until stopped",
    )
    parser.group("Job").add_argument(
        "--name", metavar="NODE", help="with --every-job: the name for submit --deliver NODE (default: the host name)"
    )
    option, setting, metavar, help_text = PROXIES_OPTION
    parser.add_argument(option, action=AddAction, setting=setting, metavar=metavar, help=help_text)
    add_setting_options(
        parser,
        [
            (
                "--workers",
                "workers",
                "N",
                "worker processes (default 1); auto: one per usable core, as far as memory allows",
            ),
            ("--concurrency", "concurrency", "N", "requests in flight per worker (default 64)"),
            *CACHE_OPTIONS,
            COORDINATOR_OPTION,
            *METRICS_OPTIONS,
            *LOG_OPTIONS,
        ],
    )
    add_verbosity_options(parser, quiet=True, json_help="print a JSON summary at the end")


def run(options: argparse.Namespace) -> int:
    if options.every_job:
        from skitter.cli.fleet import run_fleet

        return run_fleet(options)
    if options.name is not None:
        raise UsageError("--name without --every-job", hint="--name is for nodes of a fleet")
    from pathlib import Path

    import msgspec

    from skitter import app
    from skitter.app.frontiers import sqlite_file
    from skitter.app.intakes import intake_config
    from skitter.cli import settings_layers, what_to_crawl
    from skitter.cli.actor import cli_actor
    from skitter.cli.event_log import event_log_lines
    from skitter.cli.job_ref import locate
    from skitter.cli.output import stdout_for_data
    from skitter.cli.run_messages import RunOutput
    from skitter.cli.run_node import run_node
    from skitter.cli.summary import print_summary
    from skitter.spiders.loading import full_reference, load_spider

    folder = Path.cwd()
    # With --stay the job may not be there yet, and neither its file.
    job_ref = locate(options, must_exist=not options.stay)
    path = sqlite_file(job_ref.frontier)[0]
    if job_ref.frontier.startswith("sqlite:") and not options.stay and not os.path.lexists(path):
        # For a worker that is a job which nobody has started yet, and no fault of the store.
        raise UsageError(
            f"no such job: {job_ref.job}: there is no {path}", hint="skitter crawl starts it; --stay waits"
        )
    intakes = intake_config(
        options.intakes,
        job=job_ref.job,
        until_idle_seconds=options.until_idle,
        closes_unread=options.no_intake,
    )
    project = settings_layers.read_project(folder)
    own, warnings, _, worker_note, _, _ = settings_layers.collect_run(
        project=project, environment=os.environ, config=options.config, overrides=options.overrides
    )
    spider = ""
    if options.spider:
        reference = what_to_crawl.find_spider(options.spider, folder, project.spider_paths)
        with stdout_for_data():
            spider = full_reference(reference, load_spider(reference, folder), folder)
    output = RunOutput(own.logging, job=job_ref.job, quiet=options.quiet)
    with output.errors_in_form(options.command_line):
        for warning in warnings:
            output.warn(warning)
        output.note(f"job {job_ref.job}, frontier {job_ref.shown}")
        if worker_note:
            output.note(worker_note)
        log_options = {"job": job_ref.job, "quiet": options.quiet, "verbose": options.verbose}
        with (
            output.progress(prints_items=False) as progress,
            event_log_lines(own.logging, progress, **log_options) as log,
        ):
            node = app.make_worker_node(
                frontier=job_ref.frontier,
                job=job_ref.job,
                spider=spider,
                settings_overrides=msgspec.to_builtins(app.trusting_own_code(own).run),
                stay=options.stay,
                on_event=log.event,
                on_report=progress.view,
                verbosity=-1 if options.quiet else options.verbose,
                event_level=log.level,
                print_fd=progress.print_fd,
                sink_password=settings_layers.sink_password(os.environ),
                intakes=intakes,
                actor=cli_actor(),
            )
            summary, number = run_node(node, log.event)
    return print_summary(summary, number, job_ref, options, output)
