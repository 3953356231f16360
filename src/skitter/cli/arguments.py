"""The argument parser, with skitter's error messages, and the options that commands share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, NoReturn

from skitter.errors import UsageError, did_you_mean

TOKEN_VARIABLE = "SKITTER_TOKEN"  # noqa: S105  the name of a variable


GENERAL = "General options"
OPTION_GROUPS = {
    "What to crawl": ("--sitemap", "--intake", "--until-idle", "--no-intake", "--include", "--exclude", "--argument"),
    "Job": ("--job", "--frontier", "--fresh", "--run-key"),
    "Output": ("--output", "--overwrite-output", "--deliver", "--from"),
    "Politeness and limits": ("--per-host", "--delay", "--max-pages", "--max-depth", "--ignore-robots"),
    "Network": ("--allow-private", "--proxies"),
    "Recrawl and cache": ("--recrawl", "--recrawl-all", "--stay", "--cache", "--cache-seconds"),
    "Workers and cluster": ("--workers", "--concurrency", "--coordinator", "--metrics", "--metrics-token-file"),
    "Settings": ("--set", "--config"),
    "Logging": ("--log", "--log-format", "--events"),
}
"""Title of a group of options to the options that are in it in every command, in the order of ``--help``.

A command puts options of its own into groups by ``Parser.group``; all others are general ones.
"""
_GROUP_OF = {option: title for title, options in OPTION_GROUPS.items() for option in options}


class Override(NamedTuple):
    """A setting given on the command line. Later ones win, whichever option they came by."""

    origin: str
    name: str
    value: Any


class Parser(argparse.ArgumentParser):
    """An argument parser without abbreviations, which break scripts when options are added; it raises UsageError."""

    def __init__(self, *, prog: str, description: str) -> None:
        self.examples: Sequence[tuple[str, str]] = ()
        self.takes_command = False
        """Whether a command of its own follows ``--``; its words are ``options.command``."""
        self._job_word: argparse.Action | None = None
        super().__init__(
            prog=prog,
            usage=f"{prog} [options]",
            description=f"{description}.",
            allow_abbrev=False,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self._positionals.title = "Arguments"
        self._optionals.title = GENERAL

    def describe(self, *usages: str, text: str = "", examples: Sequence[tuple[str, str]]) -> None:
        """Set what follows the program's name in each usage line, a description, and ``(command, purpose)`` pairs."""
        self.usage = "\n       ".join(f"{self.prog} {usage}".rstrip() for usage in usages)
        if text:
            self.description = text
        self.examples = examples
        self.epilog = "Examples:\n" + "\n".join(f"  {command}\n      {purpose}" for command, purpose in examples)

    def take_job_word(self, actions: Sequence[str] = ()) -> None:
        """Take the job as the first word, like the value of ``--job``; call this before other words are added.

        A word with ``/``, ``:`` or ``=``, a spider's file, an action and, beside another ``--job``, any word is no job.
        """
        self._actions_of_command = actions
        self._job_word = self.add_argument("job_word", nargs="?", metavar="JOB", help="the job, as with --job")

    def group(self, title: str) -> argparse._ArgumentGroup:
        """Return the group of this title, which is made if there is none yet."""
        for group in self._action_groups:
            if group.title == title:
                return group
        return self.add_argument_group(title)

    def add_argument(self, *names: Any, **rest: Any) -> argparse.Action:
        """Add an argument to its group of ``OPTION_GROUPS``, or to the general ones."""
        title = next((_GROUP_OF[name] for name in names if name in _GROUP_OF), "")
        return self.group(title).add_argument(*names, **rest) if title else super().add_argument(*names, **rest)

    def option_groups(self) -> list[argparse._ArgumentGroup]:
        """Return the groups in the order of ``--help``: arguments, the command's own, the shared ones, general ones."""
        order = ["Arguments", *OPTION_GROUPS, GENERAL]
        return sorted(self._action_groups, key=lambda group: order.index(group.title) if group.title in order else 0)

    def format_help(self) -> str:
        self._action_groups = self.option_groups()
        return super().format_help()

    def parse(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Options may stand before, between and after the other arguments."""
        command: list[str] | None = None
        if self.takes_command and "--" in arguments:
            place = list(arguments).index("--")
            arguments, command = arguments[:place], list(arguments[place + 1 :])
        options, unknown = self.parse_known_intermixed_args(arguments)
        if self._job_word is not None and not self._names_job(options):
            # The first word is not the job, so the command's own words begin with it.
            self._actions.remove(self._job_word)
            options, unknown = self.parse_known_intermixed_args(arguments)
        if unknown:
            raise self._unknown(unknown)
        # The summary prints this command again.
        options.command_line = [*self.prog.split(), *arguments]
        if self.takes_command:
            options.command = command
        return options

    def _names_job(self, options: argparse.Namespace) -> bool:
        """Return whether the first word may be the job; if so, it becomes the value of ``--job``."""
        word = options.job_word
        if word is None:
            return True
        if any(mark in word for mark in "/:=") or word.endswith(".py") or word in self._actions_of_command:
            return False
        if options.job not in (None, word):
            if len(self._get_positional_actions()) > 1:
                return False
            raise UsageError(f"two different jobs: {word} and {options.job}", hint="name one of them")
        options.job, options.instead_of_job = word, self._actions_of_command
        return True

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"{self.prog} --help lists the options")

    def _unknown(self, unknown: Sequence[str]) -> UsageError:
        wrong = next((word for word in unknown if word.startswith("-") and len(word) > 1), None)
        if wrong is None:
            return UsageError(f"unexpected argument: {unknown[0]}", hint=self.format_usage().strip())
        name = wrong.partition("=")[0]
        known = [text for action in self._actions for text in action.option_strings]
        return UsageError(
            f"no such option: {name}", hint=did_you_mean(name, known) or f"{self.prog} --help lists the options"
        )


def check_action(action: str, actions: Sequence[str], command: str) -> None:
    """Raise UsageError for an action that the command does not have."""
    if action not in actions:
        hint = did_you_mean(action, actions) or f"one of {', '.join(actions)}"
        raise UsageError(f"no such action: {command} {action}", hint=hint)


def key_value(text: str, option: str) -> tuple[str, str]:
    """Split ``KEY=VALUE``."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise UsageError(f"not KEY=VALUE: {option} {text}", hint=f"as in {option} name=value, without spaces around =")
    return key.strip(), value


def positive(text: str) -> float:
    """Parse a number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < 1e18:
        raise UsageError(f"not a number above zero: {text}", hint="as in 1000, 1e9 or 0.5")
    return value


def whole(text: str) -> int:
    """Parse a whole number above zero, which may be written as 1e6."""
    value = positive(text)
    if value != int(value):
        raise UsageError(f"not a whole number: {text}", hint="as in 1000 or 1e6")
    return int(value)


def host_and_port(text: str, *, option: str, example: str) -> tuple[str, int]:
    """Split the address that a server listens on."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(
            f"not HOST:PORT: {option} {text}", hint=f"as in {example} or [::1]:{example.rpartition(':')[2]}"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def priority(text: str) -> int:
    """Parse a whole number of 64 bits, or the name of one."""
    from skitter.model.request import Priority

    if text.upper() in Priority.__members__:
        return Priority[text.upper()].value
    try:
        number = int(text)
    except ValueError:
        number = 2**63
    if not -(2**63) <= number < 2**63:
        raise UsageError(f"not a priority: {text}", hint="low, normal, high, critical, or a whole number of 64 bits")
    return number


class SetAction(argparse.Action):
    """An option that stands for a setting: appends an Override to ``options.overrides``."""

    def __init__(self, option_strings: Sequence[str], setting: str = "", flag: Any = None, **rest: Any) -> None:
        if flag is not None:
            rest["nargs"] = 0
        super().__init__(option_strings, **(rest | {"dest": "overrides", "default": []}))
        self._setting = setting
        self._flag = flag

    def __call__(self, _parser: Any, namespace: Any, values: Any, option: str | None = None) -> None:
        option = option or self.option_strings[0]
        if self._flag is not None:
            override = Override(option, self._setting, self._flag)
        elif self._setting:
            override = Override(option, self._setting, values)
        else:
            name, value = key_value(values, option)
            override = Override(option, name.replace("-", "_"), value)
        # A new list: the default belongs to the parser.
        namespace.overrides = [*namespace.overrides, override]


class AddAction(SetAction):
    """An option that adds one value to a setting with several; all that were given count as one Override."""

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: str | None = None) -> None:
        before = [each.value for each in namespace.overrides if each.origin == self.option_strings[0]]
        added = Override(self.option_strings[0], self._setting, [*(before[-1] if before else []), values])
        namespace.overrides = [*namespace.overrides, added]


class _OutputAction(argparse.Action):
    """An option that appends ``(target, overwrite)`` for ``-o`` and ``-O``, in the order given."""

    def __init__(self, option_strings: Sequence[str], overwrite: bool = False, **rest: Any) -> None:
        super().__init__(option_strings, **(rest | {"dest": "outputs", "default": []}))
        self._overwrite = overwrite

    def __call__(self, _parser: Any, namespace: Any, values: Any, _option: str | None = None) -> None:
        namespace.outputs = [*namespace.outputs, (values, self._overwrite)]


def add_setting_options(parser: Parser, options: Iterable[tuple[str, str, str, str]]) -> None:
    """Add ``(option, setting, metavar, help)``; without a metavar it is a flag, and ``setting`` reads NAME=VALUE."""
    for option, setting, metavar, help_text in options:
        if metavar:
            parser.add_argument(option, action=SetAction, setting=setting, metavar=metavar, help=help_text)
        else:
            name, _, value = setting.partition("=")
            parser.add_argument(option, action=SetAction, setting=name, flag=value, help=help_text)
    parser.add_argument(
        "--set",
        action=SetAction,
        metavar="KEY=VALUE",
        help="set any setting, e.g. timeout_seconds=5 (repeatable)",
    )
    parser.add_argument("--config", metavar="FILE", help="read a Scrapy-style or Crawlo-style settings module")


CACHE_OPTIONS = [
    ("--cache", "cache_dir", "DIR", "for development: read pages from this folder, and store fetched pages in it"),
    ("--cache-seconds", "cache_seconds", "SECONDS", "with --cache: maximum age of a cached page (default: any age)"),
]
"""Options for ``add_setting_options``."""
COORDINATOR_OPTION = (
    "--coordinator",
    "coordinator",
    "URL",
    "detect lost nodes at once: redis://…, zookeeper://… or sqlite:PATH; the same for every node of the job",
)
"""For ``add_setting_options``."""
METRICS_OPTIONS = [
    (
        "--metrics",
        "metrics",
        "[HOST:]PORT",
        "serve metrics for Prometheus; without HOST on this machine only",
    ),
    (
        "--metrics-token-file",
        "metrics_token_file",
        "FILE",
        "file with the bearer token of --metrics; required unless HOST is loopback",
    ),
]
"""Options for ``add_setting_options``."""
PROXIES_OPTION = (
    "--proxies",
    "proxies",
    "SOURCE",
    "fetch everything through proxies: a file or URL with one per line, command:…, a proxy, or registered (repeatable)",
)
"""For a parser with ``AddAction``."""
LOG_OPTIONS = [
    ("--log", "log_file", "FILE", 'append event lines to this file; "-" is standard error (default)'),
    (
        "--log-format",
        "log_format",
        "FORM",
        "text (default) or json; json without a log file makes every line on standard error a JSON object",
    ),
    ("--events", "events", "URL", "publish events to amqp://…#exchange, kafka://…#topic or redis://…#stream"),
]
"""Options for ``add_setting_options``."""


def add_metrics_options(parser: Parser) -> None:
    """Add --metrics and its token to a command that has no settings."""
    for option, dest, metavar, help_text in METRICS_OPTIONS:
        parser.add_argument(option, dest=dest, default="", metavar=metavar, help=help_text)


def add_intake_options(parser: Parser) -> None:
    parser.add_argument(
        "--intake",
        dest="intakes",
        action="append",
        default=[],
        metavar="URL",
        help='read requests from redis://…#KEY, amqp://…#QUEUE, kafka://…#TOPIC, file:PATH or "-" (standard input); '
        "the job does not finish while an intake is open (repeatable)",
    )
    parser.add_argument(
        "--until-idle",
        type=seconds,
        metavar="SECONDS",
        help="close an intake that has been empty for this long (default: it stays open)",
    )
    parser.add_argument("--no-intake", action="store_true", help="close the job's intakes that no process reads")


def seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise UsageError(f"not a number of seconds: {text}", hint="give a number above 0")
    return number


def add_output_options(parser: Parser, *, overwrite: bool) -> None:
    parser.add_argument(
        "-o",
        "--output",
        action=_OutputAction,
        metavar="OUTPUT",
        help='write results to a file, whose suffix selects the format, or to a URL; "-" writes JSON lines to standard '
        "output (repeatable)",
    )
    if overwrite:
        parser.add_argument(
            "-O",
            "--overwrite-output",
            action=_OutputAction,
            overwrite=True,
            metavar="OUTPUT",
            help="like -o, but a new run empties the output first; a resumed run appends to it",
        )


def add_frontier_option(parser: Parser, help_text: str, *, required: bool = False) -> None:
    """Add --frontier. The URL of a master gets the token of SKITTER_TOKEN, as a password that is never shown."""
    parser.add_argument("--frontier", type=_with_token, required=required, metavar="URL", help=help_text)


def _with_token(url: str) -> str:
    import os

    scheme, separator, rest = url.partition("://")
    token = os.environ.get(TOKEN_VARIABLE, "").strip()
    host = rest.partition("/")[0].partition("?")[0]
    if not token or not separator or scheme.lower() not in ("http", "https") or "@" in host or "token_file=" in rest:
        return url
    from urllib.parse import quote

    return f"{scheme}://:{quote(token, safe='')}@{rest}"


def add_spider_argument_option(parser: Parser) -> None:
    parser.add_argument(
        "-a",
        "--argument",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="pass an argument to the spider (repeatable)",
    )


def add_job_options(parser: Parser, actions: Sequence[str] = ()) -> None:
    """Add --frontier, --job and the job as the first word (``Parser.take_job_word``)."""
    parser.take_job_word(actions)
    add_frontier_option(parser, "the store of the job (default: sqlite:.skitter/NAME.db)")
    parser.add_argument(
        "--job", metavar="NAME", help="the job (default: the name of the frontier's file, or the only job in .skitter)"
    )


def add_verbosity_options(parser: Parser, *, quiet: bool = False, json_help: str = "print the result as JSON") -> None:
    """Add --json, -q and -v."""
    parser.add_argument("--json", action="store_true", help=json_help)
    if quiet:
        parser.add_argument("-q", "--quiet", action="store_true", help="print errors only; a log file is still written")
    parser.add_argument("-v", "--verbose", action="count", default=0, help="print more, and tracebacks of errors")
