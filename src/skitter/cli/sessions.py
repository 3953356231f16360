"""``skitter sessions``: lists the sessions of a job without their cookies, and writes and reads cookie files."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skitter.cli.arguments import Parser, add_job_options, add_verbosity_options, check_action
from skitter.errors import UsageError

if TYPE_CHECKING:
    from skitter.model.session import SessionSeen

ACTIONS = ("list", "export", "import")
UNNAMED = "(the job's own)"


def configure(parser: Parser) -> None:
    parser.describe(
        "[JOB] [list] [options]",
        "[JOB] export|import FILE [--session NAME] [options]",
        text="List the sessions of a job and the number of their cookies; write the cookies of a session to a\n"
        "new private file, or read them from one.",
        examples=[
            ("skitter sessions books", "List the sessions of a job"),
            (
                "skitter sessions books import cookies.txt --session demo",
                "Use the cookies of a browser in the session demo",
            ),
        ],
    )
    add_job_options(parser, ACTIONS)
    parser.add_argument("action", nargs="?", default="list", metavar="ACTION", help="list (default), export or import")
    parser.add_argument(
        "file",
        nargs="?",
        metavar="FILE",
        help="cookie file to write or read: Netscape format, or JSON if it is named NAME.json",
    )
    parser.group("Actions").add_argument(
        "--session", metavar="NAME", default="", help="export, import: this session (default: the job's own)"
    )
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.job_ref import act, ask, locate
    from skitter.cli.output import note, print_json
    from skitter.model.session import is_session_name

    check_action(options.action, ACTIONS, "sessions")
    if (options.file is None) != (options.action == "list"):
        wanted = "no FILE" if options.action == "list" else "a FILE"
        raise UsageError(
            f"skitter sessions {options.action} takes {wanted}", hint="as in skitter sessions export c.txt"
        )
    if options.session and not is_session_name(options.session):
        raise UsageError(f"invalid session name: {options.session}", hint="use letters, digits and . _ @ + -")
    job_ref = locate(options)
    if options.action == "list":
        found = ask(job_ref, lambda frontier: frontier.sessions())
        if options.json:
            from skitter.app.views.sessions import session_view

            print_json({"job": job_ref.job, "sessions": [session_view(one) for one in found]})
            return 0
        for one in found:
            print(_described(one))
        if not found:
            note("no session has a cookie yet")
        return 0
    # Imported on demand: a list is shown at once.
    from skitter.app.cookie_files import export_cookies, import_cookies

    path = Path(options.file)
    if options.action == "export":
        count = ask(job_ref, lambda frontier: export_cookies(frontier, options.session, path))
        told: dict[str, Any] = {"job": job_ref.job, "session": options.session, "file": str(path), "cookies": count}
        text = f"{count} cookies written to a file that only its owner can read: {path}"
    else:
        count, left_out = act(job_ref, lambda frontier: import_cookies(frontier, options.session, path))
        told = {"job": job_ref.job, "session": options.session, "cookies": count, "left_out": left_out}
        text = f"{count} cookies read" + (f", {left_out} left out" if left_out else "")
    if options.json:
        print_json(told)
    else:
        print(text)
    return 0


def _described(seen: SessionSeen) -> str:
    from skitter.cli.terminal_text import clean, count, instant

    domains = ", ".join(seen.domains[:3]) + (" …" if len(seen.domains) > 3 else "")
    parts = [f"{clean(seen.name) or UNNAMED}: {count(seen.cookies, 'cookie')}" + (f" of {domains}" if domains else "")]
    if (record := seen.record) is not None:
        parts += [record.state.name.lower().replace("_", " "), count(record.uses, "use")]
        parts.append(f"{record.in_flight} in flight, since {instant(record.born_at)}")
        if record.failures:
            parts.append(count(record.failures, "failed login"))
    return ", ".join(parts)
