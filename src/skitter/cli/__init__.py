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

COMMANDS = {
    "new": "make a project, or a spider in one",
    "list": "which spiders there are here, and where each is",
    "check": "whether spiders and settings load, and what they name exists",
    "shell": "try selectors and requests on a page, at a prompt",
    "fetch": "fetch one page as a crawl would, and print it",
    "parse": "fetch one page, and print what a callback makes of it",
    "settings": "every setting, its value and where it comes from",
    "crawl": "crawl a site, or run a spider; goes on where an earlier run was left",
    "submit": "begin a job, and leave the work to a fleet",
    "worker": "join a job of another crawl, or serve every job as one of a fleet",
    "add": "add URLs to a job",
    "status": "what a job is doing",
    "failed": "what failed, and why",
    "retry": "queue again what failed",
    "pause": "start nothing new until resume",
    "resume": "go on after pause or stop",
    "stop": "let what is in flight end, then stop",
    "set": "change settings of a job while it runs",
    "proxies": "the proxies of a job: how they do, tests and bans",
    "sessions": "which sessions a job has; writes and reads cookie files",
    "drain": "write out items that no running crawl will write",
    "items": "some of a job's items, and how full their fields are",
    "export": "write what a job's outbox or a file of results holds to another target",
    "why": "what became of one URL, and why",
    "jobs": "which jobs there are, and how they stand",
    "audit": "what operators did, when and to which job; verifies that nothing of it was changed",
    "fsck": "whether everything stored of a job agrees; repairs it",
    "drop": "remove a job and everything of it",
    "schedule": "add, list, pause and remove schedules of commands; their history",
    "scheduler": "run the commands of schedules when they are due; any number, one leads",
    "serve": "serve stores to browsers, programs, workers and commands, over HTTP",
    "user": "add, list and remove the users who log in to a master",
    "egress": "be a proxy of a job on a machine whose address changes, and redial",
    "plan": "how many workers, shards and machines a crawl needs",
    "completion": "a script with which your shell completes commands and options",
    "bench": "what a page costs on this machine, and what a frontier carries",
}


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
    from skitter.cli.arguments import did_you_mean

    return UsageError(
        f"no such command: {name}", hint=did_you_mean(name, COMMANDS) or "skitter --help lists the commands"
    )


def _overview() -> str:
    commands = "\n".join(f"  {name:<10} {summary}" for name, summary in COMMANDS.items())
    return (
        "usage: skitter COMMAND [options]\n\n"
        "A web crawler that loses nothing, repeats nothing and is polite as a whole.\n\n"
        f"commands:\n{commands}\n\n"
        "options:\n  -h, --help  this text; after a command, its options\n  --version   the version\n\n"
        "for a start:\n  skitter crawl https://example.com/ -o pages.jsonl"
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
