"""Completion scripts for bash, zsh and fish. Jobs are the files in .skitter; spiders are asked of ``skitter list``."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from skitter.cli.completion_words import ANY, FILE, FOLDER, JOB, SETTING, SPIDER, Command, Option, Value, settings_words

_BASH = """\
# Completion of skitter for bash. Use: source <(skitter completion bash)

_skitter_jobs() {
    local file
    for file in .skitter/*.db; do
        [[ -e $file ]] || continue
        file=${file#.skitter/}
        printf '%s\\n' "${file%.db}"
    done
}

_skitter_spiders() {
    local name rest
    "${COMP_WORDS[0]:-skitter}" list 2>/dev/null | while read -r name rest; do
        [[ $name == - ]] || printf '%s\\n' "$name"
    done
}

_skitter_reply() {
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen "$@" -- "$current")
}

_skitter_value() {
    # Several kinds are separated by |.
    local kind kinds settings=SETTINGS
    IFS='|' read -ra kinds <<< "$1"
    for kind in "${kinds[@]}"; do
        case $kind in
            file) _skitter_reply -f; compopt -o filenames 2>/dev/null ;;
            folder) _skitter_reply -d; compopt -o filenames 2>/dev/null ;;
            job) _skitter_reply -W "$(_skitter_jobs)" ;;
            spider) _skitter_reply -f -W "$(_skitter_spiders)"; compopt -o filenames 2>/dev/null ;;
            setting) _skitter_reply -W "$settings"; compopt -o nospace 2>/dev/null ;;
            =*) _skitter_reply -W "${kind#=}" ;;
        esac
    done
}

_skitter() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options values arguments
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        _skitter_reply -W NAMES
        return
    fi
    # Each option with a value is OPTION:KIND; arguments are kinds, by place.
    case ${COMP_WORDS[1]} in
COMMANDS
        *) return ;;
    esac
    local pair
    for pair in "${values[@]}"; do
        if [[ $before == "${pair%%:*}" ]]; then
            _skitter_value "${pair#*:}"
            return
        fi
    done
    if [[ $current == -* ]]; then
        _skitter_reply -W "$options"
        return
    fi
    local place=0 index word
    for ((index = 2; index < COMP_CWORD; index++)); do
        word=${COMP_WORDS[index]}
        [[ $word == -* ]] && continue
        for pair in "${values[@]}"; do
            [[ ${COMP_WORDS[index-1]} == "${pair%%:*}" ]] && continue 2
        done
        ((place += 1))
    done
    ((${#arguments[@]})) || return
    ((place < ${#arguments[@]})) || place=$((${#arguments[@]} - 1))
    _skitter_value "${arguments[place]}"
}

complete -F _skitter skitter
"""


def bash_script(commands: Sequence[Command]) -> str:
    """Return a function for bash's ``complete``."""
    cases = []
    for command in commands:
        options = " ".join(name for option in command.options for name in option.names)
        values = " ".join(
            shlex.quote(f"{name}:{_bash_kind(option.value)}")
            for option in command.options
            if option.value is not None
            for name in option.names
        )
        arguments = " ".join(shlex.quote("|".join(map(_bash_kind, values))) for values in command.arguments)
        cases.append(
            f"        {command.name}) options={shlex.quote(options)} values=({values}) arguments=({arguments}) ;;"
        )
    script = _BASH.replace("SETTINGS", shlex.quote(" ".join(settings_words())))
    script = script.replace("NAMES", shlex.quote(" ".join(command.name for command in commands)))
    return script.replace("COMMANDS", "\n".join(cases))


def _bash_kind(value: Value) -> str:
    return "=" + " ".join(value.choices) if value.choices else value.kind


_ZSH = """\
#compdef skitter
# Completion of skitter for zsh. Use: source <(skitter completion zsh), after compinit

_skitter_jobs() {
    local -a jobs
    jobs=(.skitter/*.db(N:t:r))
    compadd -a jobs
}

_skitter_spiders() {
    local -a spiders
    spiders=(${${(f)"$(skitter list 2>/dev/null)"}%% *})
    spiders=(${spiders:#-})
    compadd -a spiders
    _files -g '*.py'
}

_skitter_settings() {
    local -a settings
    settings=(SETTINGS)
    compadd -S '' -a settings
}

_skitter() {
    local -a commands
    commands=(
NAMES
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    local command=$words[2]
    shift words
    (( CURRENT-- ))
    case $command in
COMMANDS
    esac
}

if [[ $funcstack[1] == _skitter ]]; then
    _skitter "$@"
else
    compdef _skitter skitter
fi
"""
_ZSH_ACTIONS = {
    ANY: " ",
    FILE: "_files",
    FOLDER: "_files -/",
    JOB: "_skitter_jobs",
    SPIDER: "_skitter_spiders",
    SETTING: "_skitter_settings",
}


def zsh_script(commands: Sequence[Command]) -> str:
    """Return a function for zsh's completion system."""
    names = "\n".join(f"        {shlex.quote(f'{one.name}:{one.help}')}" for one in commands)
    cases = []
    for command in commands:
        specs = [spec for option in command.options for spec in _zsh_option(option)]
        specs += [f"{place}{_zsh_value(*values)}" for place, values in _zsh_places(command.arguments)]
        lines = " \\\n".join(f"                {shlex.quote(spec)}" for spec in specs)
        cases.append(f"        {command.name})\n            _arguments -s \\\n{lines}\n            ;;")
    script = _ZSH.replace("SETTINGS", " ".join(settings_words()))
    return script.replace("NAMES", names).replace("COMMANDS", "\n".join(cases))


def _zsh_places(arguments: Sequence[Sequence[Value]]) -> list[tuple[str, Sequence[Value]]]:
    """Return each argument with its number; the last one is for all that follow."""
    places = [(str(number), values) for number, values in enumerate(arguments[:-1], 1)]
    return [*places, *(("*", values) for values in arguments[-1:])]


def _zsh_option(option: Option) -> list[str]:
    about = option.help.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    value = "" if option.value is None else _zsh_value(option.value)
    return [f"*{name}[{about}]{value}" for name in option.names]


def _zsh_value(value: Value, *others: Value) -> str:
    action = f"({' '.join(value.choices)})" if value.choices else _ZSH_ACTIONS[value.kind]
    if others:
        # Every one in the braces is carried out.
        calls = (
            f"compadd {' '.join(one.choices)}" if one.choices else _ZSH_ACTIONS[one.kind] for one in (value, *others)
        )
        action = f"{{{'; '.join(calls)}}}"
    return f":{value.metavar.replace(':', ' ') or 'value'}:{action}"


_FISH = """\
# Completion of skitter for fish. Use: skitter completion fish | source

function __skitter_command
    set -l words (commandline -opc)
    test (count $words) -gt 1; and test $words[2] = $argv[1]
end

function __skitter_no_command
    test (count (commandline -opc)) -eq 1
end

function __skitter_place
    # Whether the argument at the cursor is the one with this number; options are not counted.
    set -l words (commandline -opc | string match -v -- '-*')
    test (math (count $words) - 1) -eq $argv[1]
end

function __skitter_jobs
    for file in .skitter/*.db
        string replace -r '^.skitter/(.*)\\.db$' '$1' $file
    end
end

function __skitter_spiders
    skitter list 2>/dev/null | string match -r '^[^- ]\\S*'
end

complete -c skitter -f
LINES
"""
_FISH_VALUES = {
    ANY: "-x",
    FILE: "-r -F",
    FOLDER: "-x -a '(__fish_complete_directories)'",
    JOB: "-x -a '(__skitter_jobs)'",
    SPIDER: "-r -F -a '(__skitter_spiders)'",
}


def fish_script(commands: Sequence[Command]) -> str:
    """Return the ``complete`` calls for fish."""
    lines = []
    for command in commands:
        about = _fish_quote(command.help)
        lines.append(f"complete -c skitter -n __skitter_no_command -a {command.name} -d {about}")
        here = f"complete -c skitter -n '__skitter_command {command.name}'"
        for option in command.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            value = "" if option.value is None else f" {_fish_value(option.value)}"
            lines.append(f"{here} {names}{value} -d {_fish_quote(option.help)}")
        for place, arguments in enumerate(command.arguments, 1):
            condition = f"'__skitter_command {command.name}; and __skitter_place {place}'"
            for argument in arguments:
                if argument.kind != ANY or argument.choices:
                    value = _fish_value(argument).replace("-x ", "").replace("-r ", "")
                    lines.append(f"complete -c skitter -n {condition} {value}")
    return _FISH.replace("LINES", "\n".join(lines))


def _fish_value(value: Value) -> str:
    if value.choices or value.kind == SETTING:
        return f"-x -a {_fish_quote(' '.join(value.choices or settings_words()))}"
    return _FISH_VALUES[value.kind]


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
