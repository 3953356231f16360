"""The command line: it finds the command, runs it, and maps errors to messages and exit codes.

One file per command, each with ``configure(parser)`` and ``run(options)``. Only the file of the command
that was typed is imported, and only when it runs does it import the rest of skitter: ``skitter --help``
stays as fast as Python itself. Data goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence

from skitter.cli.exit_codes import FAILED, INTERRUPTED
from skitter.errors import SkitterError, UsageError

COMMAND_GROUPS = {
    "Write spiders": {
        "new": "Create a project, or add a spider to one",
        "list": "List the spiders of the project",
        "check": "Check that spiders and settings load, and that everything they name exists",
        "shell": "Try selectors and requests on a page interactively",
        "fetch": "Fetch one page as a crawl would and print it",
        "parse": "Fetch one page and print what a callback extracts from it",
        "settings": "List every setting with its value and origin",
    },
    "Run": {
        "crawl": "Crawl a site or run a spider; resumes an unfinished run",
        "submit": "Create or resume a job and leave the work to a fleet",
        "worker": "Join a job, or serve every job as a node of a fleet",
        "add": "Add URLs to a job",
    },
    "Inspect": {
        "jobs": "List jobs and their states",
        "status": "Show the state of a job, its workers and its hosts",
        "logs": "Print or follow the events of a job on all its nodes",
        "failed": "List failed requests and the reasons",
        "why": "Explain what happened to a URL, and why",
    },
    "Steer": {
        "pause": "Pause a job: start no new requests until resume",
        "resume": "Continue a job after pause or stop",
        "stop": "Stop a job after the requests in flight have ended",
        "set": "Change settings of a running job",
        "retry": "Queue failed requests again",
        "hosts": "List the hosts of a job; pause, resume or give up one",
        "proxies": "List, test, ban and unban the proxies of a job",
        "sessions": "List the sessions of a job; export and import their cookies",
        "drop": "Delete a job and all its data",
    },
    "Results": {
        "items": "Show sample items of a job, and how often each field is filled",
        "export": "Copy items from a job or a results file to another output",
        "deliver": "Write undelivered items that no running crawl will write",
    },
    "Cluster and operations": {
        "serve": "Serve the dashboard, the REST API and remote workers over HTTP",
        "user": "Manage the users who can log in to a master",
        "schedule": "Manage schedules and show their history",
        "scheduler": "Run scheduled commands when they are due",
        "egress": "Run a proxy for a job on a machine whose address changes",
        "audit": "List and verify the audit trail of operator actions",
        "fsck": "Check a job's stored data for consistency, and repair it",
    },
    "Tools": {
        "demo": "Serve a sample bookshop to try crawls on",
        "plan": "Estimate the workers, shards and machines that a crawl needs",
        "bench": "Measure crawls and frontiers on this machine",
        "completion": "Print a completion script for your shell",
    },
}
COMMANDS = {name: summary for group in COMMAND_GROUPS.values() for name, summary in group.items()}

RENAMED = {"drain": "deliver"}
"""Former names of commands, which still work."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command, and return the exit code. ``argv`` is without the program's name."""
    # Not list(argv): once its command has run, `list` is a module of this package.
    arguments = sys.argv[1:] if argv is None else [*argv]
    code = 0
    try:
        code = _dispatch(arguments)
        # Inside the try: a closed pipe raises here, and not while the interpreter exits.
        sys.stdout.flush()
        return code
    except SystemExit as end:  # argparse, after --help
        return end.code if isinstance(end.code, int) else 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _abandon_stdout()
        return code
    except Exception as error:  # noqa: BLE001  the last place where anything can be said in words
        return _explain(error, arguments)


def _dispatch(arguments: list[str]) -> int:
    name = arguments[0] if arguments else ""
    name = RENAMED.get(name, name)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Characters that the terminal's encoding lacks are shown as escapes instead of raising.
        sys.stdout.reconfigure(errors="backslashreplace")
    if name in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if name == "--version":
        from skitter._version import __version__

        print(f"skitter {__version__}")
        return 0
    if name in COMMANDS:
        from importlib import import_module

        from skitter.cli.arguments import Parser

        module = import_module(f"skitter.cli.{name}")
        parser = Parser(prog=f"skitter {name}", description=COMMANDS[name])
        module.configure(parser)
        code: int = module.run(parser.parse(arguments[1:]))
        return code
    raise _unknown_command(name)


def _unknown_command(name: str) -> UsageError:
    if not name:
        return UsageError("no command given", hint="skitter --help lists the commands")
    if name.startswith("-"):
        return UsageError(f"the command comes first: {name}", hint="skitter COMMAND [options]; see skitter --help")
    if "://" in name or name.endswith(".py"):
        return UsageError(f"no such command: {name}", hint=f"did you mean skitter crawl {name} ?")
    from skitter.errors import did_you_mean

    return UsageError(
        f"no such command: {name}", hint=did_you_mean(name, COMMANDS) or "skitter --help lists the commands"
    )


def _overview() -> str:
    groups = "\n\n".join(
        "\n".join([f"{title}:", *(f"  {name:<10} {summary}" for name, summary in commands.items())])
        for title, commands in COMMAND_GROUPS.items()
    )
    return (
        "usage: skitter COMMAND [options]\n\n"
        "A distributed web crawler that loses nothing, repeats nothing and is polite as a whole.\n\n"
        f"{groups}\n\n"
        "Options:\n"
        "  -h, --help  show this text; after a command, its options and examples\n"
        "  --version   show the version\n\n"
        "Examples:\n"
        "  skitter demo\n"
        "      Serve a sample site at http://127.0.0.1:8600/ to try the examples of all commands on\n"
        "  skitter crawl http://127.0.0.1:8600/ -o pages.jsonl\n"
        "      Crawl a site and write one JSON object per page; run it again to resume\n"
        "  skitter crawl --help\n"
        "      Show the options of crawl, in groups, and more examples"
    )


def _explain(error: Exception, arguments: Sequence[str]) -> int:
    """Print ``error: what happened: value``, the hint, and with -v the traceback; return the exit code."""
    from skitter.cli.terminal_text import clean, clean_block
    from skitter.model.secrets import concealed

    message, hint, code = described(error, arguments)
    if _wants_json(arguments):
        from skitter.observe import events
        from skitter.observe.log_lines import json_line

        print(json_line(events.COMMAND_FAILED(error=message, hint=hint, exit_code=code), job=""), file=sys.stderr)
        return code
    if isinstance(_innermost(error), OSError) and not sys.stdout.closed:
        _abandon_stdout()  # it may be the one that failed, and must not fail again at exit
    if _is_verbose(arguments):
        import traceback

        trace = "".join(traceback.format_exception(_innermost(error)))
        print(clean_block(concealed(trace, _typed_secrets(arguments))), file=sys.stderr)
    print(f"error: {clean(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {clean(hint)}", file=sys.stderr)
    return code


def described(error: Exception, arguments: Sequence[str]) -> tuple[str, str, int]:
    """Return an error's message, hint and exit code, without secrets that were typed."""
    from skitter.model.secrets import concealed

    known = _typed_secrets(arguments)
    error = _innermost(error)
    if isinstance(error, SkitterError):
        message, hint, code = str(error), error.hint, error.exit_code
    else:
        message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        hint, code = "" if _is_verbose(arguments) else "run the same command with -v for the details", FAILED
    return concealed(message, known), concealed(hint, known), code


def _typed_secrets(arguments: Sequence[str]) -> list[str]:
    """Return the passwords of typed addresses, also of malformed ones, so that no message shows them."""
    import os

    from skitter.model.secrets import of_address

    given = [*arguments, *(value for name, value in os.environ.items() if name.startswith("SKITTER_"))]
    return [secret for text in given for secret in of_address(text)]


def _innermost(error: Exception) -> Exception:
    """Return the error to show from an exception group of tasks that failed together."""
    while isinstance(error, ExceptionGroup):
        known = error.subgroup(SkitterError)
        error = (known or error).exceptions[0]
    return error


def _is_verbose(arguments: Sequence[str]) -> bool:
    # Also called when the arguments could not be parsed.
    return any(argument in ("-v", "-vv", "--verbose") for argument in arguments)


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether standard error is to be JSON, as far as the arguments and the environment say it.

    An error of a command whose settings are known is printed by ``run_messages``.
    """
    import os
    from itertools import pairwise

    if not arguments or arguments[0] not in ("crawl", "worker"):
        return False
    chosen = {name: os.environ.get(f"SKITTER_{name.upper()}", "") for name in ("log_format", "log_file")}
    words = [word for typed in arguments for word in (typed.split("=", 1) if typed.startswith("--") else [typed])]
    for option, value in pairwise(words):
        name, _, of_set = value.partition("=")
        if option == "--log":
            chosen["log_file"] = value
        elif option == "--log-format":
            chosen["log_format"] = value
        elif option == "--set" and name in chosen:
            chosen[name] = of_set
    return chosen["log_format"] == "json" and chosen["log_file"] in ("", "-")


def _abandon_stdout() -> None:
    """Discard buffered output: the reader of stdout has gone, and flushing at exit would raise again."""
    import os
    from contextlib import suppress

    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
