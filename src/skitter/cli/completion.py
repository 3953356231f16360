"""``skitter completion``: a script with which a shell completes commands, options, jobs, spiders and settings."""

from __future__ import annotations

import argparse

from skitter.cli.arguments import Parser
from skitter.errors import UsageError

SHELLS = ("bash", "zsh", "fish")


def configure(parser: Parser) -> None:
    parser.describe(
        "bash|zsh|fish",
        text="Print a script that completes commands, options, settings, jobs and spiders in your shell.",
        examples=[
            (
                "skitter completion bash > ~/.local/share/bash-completion/completions/skitter",
                "Install completion for bash",
            ),
            ("skitter completion fish > ~/.config/fish/completions/skitter.fish", "Install completion for fish"),
        ],
    )
    parser.add_argument("shell", choices=SHELLS, metavar="bash|zsh|fish", help="the shell")


def run(options: argparse.Namespace) -> int:
    from skitter.cli import completion_scripts
    from skitter.cli.completion_words import command_words

    scripts = {
        "bash": completion_scripts.bash_script,
        "zsh": completion_scripts.zsh_script,
        "fish": completion_scripts.fish_script,
    }
    if options.shell not in scripts:
        raise UsageError(f"no script for this shell: {options.shell}", hint=f"one of {', '.join(SHELLS)}")
    print(scripts[options.shell](command_words()), end="")
    return 0
