"""``skitter user``: adds, lists and removes the users who log in to a master with a password."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from skitter.cli.arguments import Parser, add_verbosity_options, check_action
from skitter.errors import UsageError, did_you_mean

ACTIONS = ("add", "list", "password", "remove")
ROLES = ("viewer", "worker", "operator", "admin")


def configure(parser: Parser) -> None:
    parser.describe(
        "add NAME --role ROLE [--job NAME]... [options]",
        "list",
        "password|remove NAME [options]",
        text="Manage the users who log in to a master with a password. A running master applies changes within a\n"
        "second; a changed password or a removed user ends open sessions.",
        examples=[
            ("skitter user add ana --role operator", "Add a user, and ask for the password"),
            ("skitter user remove ana", "Remove a user and end the sessions"),
        ],
    )
    parser.add_argument("action", metavar="ACTION", help=", ".join(ACTIONS))
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="name of the user")
    parser.group("Users").add_argument("--role", metavar="ROLE", help=f"add: {', '.join(ROLES)}")
    parser.group("Users").add_argument(
        "--job",
        dest="jobs",
        action="append",
        metavar="NAME",
        help="add: only this job, or a pattern such as shop-* (repeatable)",
    )
    parser.group("Users").add_argument(
        "--password-file",
        metavar="FILE",
        help='add, password: read the password from its first line; "-" is standard input (default: ask for it)',
    )
    parser.group("Users").add_argument("--users", metavar="FILE", help="the file of users (default: .skitter/users)")
    add_verbosity_options(parser)


def run(options: argparse.Namespace) -> int:
    from skitter.cli.actor import cli_actor
    from skitter.cli.output import print_json
    from skitter.cli.terminal_text import table
    from skitter.web.users import DEFAULT_FILE, UserFile

    _check(options)
    path = Path(options.users or DEFAULT_FILE)
    users = UserFile(path, create=options.action in ("add", "list"))
    known = {user.name: user for user in users.users}
    if options.action == "list":
        if options.json:
            for user in known.values():
                print_json({"name": user.name, "role": user.role, "jobs": user.jobs})
        elif known:
            rows = [(user.name, user.role, " ".join(user.jobs) or "all jobs") for user in known.values()]
            print("\n".join(table([("user", "role", "jobs"), *rows])))
        return 0
    actor = cli_actor().name
    if options.action == "add":
        if options.name in known:
            raise UsageError(
                f"the user already exists: {options.name}", hint="skitter user password changes the password"
            )
        users.put(options.name, _password(options), options.role, options.jobs or [], by=actor)
    elif options.name not in known:
        raise UsageError(f"no such user: {options.name}", hint=did_you_mean(options.name, known) or "skitter user list")
    elif options.action == "password":
        user = known[options.name]
        users.put(user.name, _password(options), user.role, user.jobs, by=actor)
    else:
        users.remove(options.name, by=actor)
    done = {"add": "added", "password": "password changed", "remove": "removed"}[options.action]
    if options.json:
        print_json({"name": options.name, "action": options.action, "file": str(path)})
    else:
        print(f"{options.name}: {done}: {path}")
    return 0


def _check(options: argparse.Namespace) -> None:
    """UsageError for what does not belong to the action: none is silently ignored."""
    action = options.action
    check_action(action, ACTIONS, "user")
    if bool(options.name) == (action == "list"):
        hint = "skitter user list takes none" if options.name else f"skitter user {action} NAME"
        raise UsageError(f"wrong number of names: user {action} {options.name}".rstrip(), hint=hint)
    if action != "add" and (options.role or options.jobs):
        raise UsageError(f"only for user add: {'--role' if options.role else '--job'}", hint="skitter user --help")
    if action == "add" and options.role not in ROLES:
        raise UsageError(f"unknown role: --role {options.role or ''}".rstrip(), hint=f"one of {', '.join(ROLES)}")
    if action in ("list", "remove") and options.password_file:
        raise UsageError(f"not for user {action}: --password-file", hint="skitter user --help")


def _password(options: argparse.Namespace) -> str:
    import getpass

    from skitter import private_files

    if options.password_file == "-":  # noqa: S105  the name of standard input
        return sys.stdin.readline().rstrip("\r\n")
    if options.password_file:
        try:
            return private_files.read(Path(options.password_file)).partition("\n")[0].rstrip("\r")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"cannot read the password: {options.password_file}: {error}",
                hint="use chmod 600, or - for standard input",
            ) from error
    if not sys.stdin.isatty():
        raise UsageError("no password: standard input is not a terminal", hint="--password-file - reads it from there")
    password = getpass.getpass("password: ")
    if getpass.getpass("again: ") != password:
        raise UsageError("the passwords differ", hint="try again")
    return password
