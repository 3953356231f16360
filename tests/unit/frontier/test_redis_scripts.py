"""What Python and Lua share is written once, and gets into the scripts where a name stands for it, and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import pytest

from skitter.dedup import hyperloglog
from skitter.frontier import contract, damage_errors, tables
from skitter.frontier.redis import codec, scripts
from skitter.frontier.tables import RequestState
from skitter.model import counters, host, item, lease, session
from skitter.model.proxy import ProxyFault, ProxyState
from skitter.policy import cookies, generations, host_budgets, lost_leases, politeness, proxy_choice, sessions, shares

MODULES = (
    *(contract, damage_errors, tables, codec, host, lease, generations, host_budgets, lost_leases, politeness, shares),
    *(hyperloglog, counters, proxy_choice, session, cookies, sessions),
)
FILES = sorted(path.stem for path in Path(scripts.__file__).with_name("lua").glob("*.lua"))
METHODS = [name for name in FILES if name not in scripts.SHARED]
NAMES = set(scripts.constants())
OF_ENUMS = {f"AT_{state.name}" for state in RequestState} | set(host.Phase.__members__) | set(lease.Work.__members__)
OF_ENUMS |= {f"HALT_{halt.name}" for halt in host.Halt}
OF_ENUMS |= {f"SESSION_{state.name}" for state in session.SessionState}
OF_ENUMS |= {f"{kind.name}_{what}" for kind in item.ItemKind for what in ("KIND", "COUNTER")}
OF_ENUMS |= {f"PROXY_{state.name}" for state in ProxyState} | {f"FAULT_{fault.name}" for fault in ProxyFault}
_LITERAL = re.compile(r"^local ([A-Z_]+(?:, [A-Z_]+)*) = (?:[0-9.]+|'[^']*')(?:, |$)", re.MULTILINE)


def constants_of(module: ModuleType) -> dict[str, object]:
    return {
        name: value for name, value in vars(module).items() if name.isupper() and isinstance(value, int | float | str)
    }


def without_texts(source: str) -> str:
    """Lua without its comments and strings."""
    return re.sub(r"--[^\n]*|'(?:\\.|[^'\\])*'", "", source)


@pytest.mark.parametrize("name", FILES)
def test_no_lua_file_defines_what_python_has_too(name: str) -> None:
    in_python = NAMES.union(*map(constants_of, MODULES))
    defined = {word for names in _LITERAL.findall(scripts.read(name)) for word in names.split(", ")}
    assert not defined & in_python


def test_a_definition_in_lua_would_be_seen() -> None:
    found = _LITERAL.findall("local BATCH = 1000\nlocal A, BLOCK_LIMIT = 1, 8\nlocal HELD_CLASS = 'callback'\n")
    assert found == ["BATCH", "A, BLOCK_LIMIT", "HELD_CLASS"]


@pytest.mark.parametrize("name", sorted(NAMES - OF_ENUMS))
def test_the_scripts_get_the_values_of_python(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (module,) = (module for module in MODULES if name in constants_of(module))
    changed = "other" if isinstance(getattr(module, name), str) else 987654
    monkeypatch.setattr(module, name, changed)
    assert scripts.constants()[name] == changed, "handed over, not written again"


def test_the_numbers_of_enums_are_those_that_are_stored() -> None:
    found = scripts.constants()
    assert {state: found[f"AT_{state.name}"] for state in RequestState} == {state: int(state) for state in RequestState}
    assert {phase: found[phase.name] for phase in host.Phase} == {phase: int(phase) for phase in host.Phase}
    assert {work: found[work.name] for work in lease.Work} == {work: int(work) for work in lease.Work}
    states = session.SessionState
    assert {state: found[f"SESSION_{state.name}"] for state in states} == {state: int(state) for state in states}
    assert (found["PROXY_ACTIVE"], found["PROXY_REMOVED"]) == (ProxyState.ACTIVE, ProxyState.REMOVED)
    assert {name: number for name, number in found.items() if name.startswith("FAULT_")} == {
        f"FAULT_{fault.name}": int(fault) for fault in ProxyFault if fault is not ProxyFault.PROXY
    }
    for kind in item.ItemKind:
        assert (found[f"{kind.name}_KIND"], found[f"{kind.name}_COUNTER"]) == (int(kind), item.COUNTERS[kind])


def test_all_that_is_handed_over_is_used() -> None:
    used = set(re.findall(r"\b[A-Z_]+\b", "".join(without_texts(scripts.read(name)) for name in FILES)))
    # Every state has its name, whether a rule asks for it or not.
    assert {name for name in NAMES - used if not name.startswith("AT_")} == set()


@pytest.mark.parametrize("name", METHODS)
def test_no_name_of_a_shared_constant_is_left_in_a_script(name: str) -> None:
    source, _ = scripts.script(name)
    assert not NAMES & set(re.findall(r"(?<![\w.])[A-Z_]+\b", without_texts(source.decode())))


@pytest.mark.parametrize(
    "source",
    [
        "return 'BATCH' -- BATCH",
        "return 'it\\'s a BATCH'",
        "return \"a BATCH\" .. ' of BATCH'",
        "return [[BATCH]] .. [==[ ]] BATCH]==]",
        "--[[ BATCH\nBATCH ]] return J.BATCH, MY_BATCH, BATCHES, x.y.BATCH",
    ],
)
def test_texts_comments_fields_and_longer_names_stay(source: str) -> None:
    assert scripts.inline(source, {"BATCH": "1000"}) == source


def test_names_become_their_values_and_lines_keep_their_places() -> None:
    values = {"BATCH": "1000", "HELD_CLASS": "'callback'"}
    source = "local SEQ, HOST = 1, 2\nreturn {row[HOST], BATCH - SEQ, -BATCH, HELD_CLASS, 'it is' .. BATCH}\n"
    wanted = "\nreturn {row[2], 1000 - 1, -1000, 'callback', 'it is' .. 1000}\n"
    assert scripts.inline(source, values) == wanted
    assert values["HOST"] == "2"
