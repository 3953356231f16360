"""The reference has every name that a user can meet: compared with the code, and not with the generator."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import msgspec
import pytest

import gen_reference
import json_reference
import project_reference
from skitter.agent import Credential
from skitter.alert_rules import AlertRule
from skitter.app.schedules import ScheduleSettings
from skitter.cli import COMMANDS, fetch, parse, settings_layers, why
from skitter.cli.arguments import Parser
from skitter.errors import SitemapError, UrlError
from skitter.model.capability import MEANINGS
from skitter.model.url import _flaw
from skitter.observe import events, metrics
from skitter.policy import host_budgets, traps
from skitter.policy.scope import LinkPatterns, Scope
from skitter.settings import Settings, names
from skitter.web.access import Access
from skitter.web.api.routes import ApiRoutes
from skitter.worker.page_directives import DirectivePolicy

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "docs" / "reference"
SOURCES = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py"))}
SOURCE = "".join(text for path, text in SOURCES.items() if "testing" not in path.parts)


def page(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def rows(name: str) -> set[str]:
    """The words in code style in the first column of a page's tables."""
    cells = re.findall(r"^\| ([^|]*) \|", page(name), re.MULTILINE)
    return {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}


def strings(function: object) -> set[str]:
    """The texts that a function returns, or compares and returns."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))  # type: ignore[arg-type]
    found = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return) and node.value is not None]
    constants = [part for value in found for part in ast.walk(value) if isinstance(part, ast.Constant)]
    return {part.value for part in constants if isinstance(part.value, str) and part.value}


def test_every_page_of_the_generator_is_listed_and_up_to_date() -> None:
    assert gen_reference.main(["--check"]) == 0


# ---- exclusion rules


def test_every_rule_that_excludes_a_link_is_documented() -> None:
    rules = strings(Scope.rule_against) | strings(LinkPatterns.rule_against) | traps.RULES.keys()
    rules |= strings(DirectivePolicy.against_link)
    assert {"offsite", "depth", "include", "exclude", "nofollow"} < rules
    assert project_reference.LINK_RULES.keys() == rules
    assert rules <= rows("exclusion-rules.md")


def test_every_rule_that_skips_a_url_is_documented() -> None:
    rules = set(re.findall(r'UrlError\(\s*"(\w+)"', SOURCE)) | {word for word in strings(_flaw) if word.isidentifier()}
    assert project_reference.URL_RULES.keys() == rules
    assert rules == set(re.findall(r"\w+", (UrlError.__doc__ or "").partition("one of: ")[2]))
    assert rules <= rows("exclusion-rules.md")


def test_every_rule_that_excludes_a_request_is_documented() -> None:
    rules = set(re.findall(r'Ending\.EXCLUDED, error_class="(\w+)"', SOURCE)) | {host_budgets.HOST_BUDGET}
    assert project_reference.REQUEST_RULES.keys() == rules
    assert rules <= rows("exclusion-rules.md")


def test_every_rule_that_withholds_items_is_documented() -> None:
    rules = strings(DirectivePolicy.__dict__["against_items"].func)
    assert project_reference.ITEM_RULES.keys() == rules
    assert rules <= rows("exclusion-rules.md")


def test_every_rule_against_a_sitemap_is_named_by_its_error() -> None:
    raised = set(re.findall(r'SitemapError\(\s*"(\w+)"', SOURCE))
    assert raised <= set(re.findall(r"\w+", (SitemapError.__doc__ or "").partition("``rule``: ")[2]))


# ---- environment


def test_every_variable_that_is_read_is_documented() -> None:
    read = set(re.findall(r'environ(?:\.get\(|\[)"(\w+)"', SOURCE))
    read |= set(re.findall(r'_VARIABLE = "(\w+)"', SOURCE))
    # Those that a Scrapy project has are names of its settings.
    own = "".join(text for path, text in SOURCES.items() if not {"testing", "contrib", "spiders"} & set(path.parts))
    read |= set(re.findall(r'"(SKITTER_[A-Z_]+)"', own)) - {settings_layers.PREFIX}
    assert read <= rows("environment.md")
    assert {f"SKITTER_{name.upper()}" for name in names()} <= rows("environment.md")


# ---- project files


def test_everything_of_a_project_file_is_documented() -> None:
    documented = rows("project-files.md")
    source = inspect.getsource(settings_layers.read_project)
    (tables,) = re.findall(r'for name in \("sink", "schedule", CREDENTIALS, "alert"\)', source)
    assert tables
    assert {"spiders", *(f"[{group}]" for group in Settings.__struct_fields__)} <= documented
    for name in ("sink", "schedule", "credentials", "alert"):
        assert f"\n## `[[{name}]]`\n" in page("project-files.md")
    assert "\n## `[remote]`\n" in page("project-files.md")
    assert {*MEANINGS} <= documented
    fields = {*AlertRule.__struct_fields__, *ScheduleSettings.__struct_fields__, *Credential.__struct_fields__}
    secrets = {"password", "token", "key_password"}
    assert fields - secrets <= documented
    assert {f"{secret}_{place}" for secret in secrets for place in ("file", "env")} <= documented


# ---- JSON output


def _with_json() -> Iterator[str]:
    for command in COMMANDS:
        parser = Parser(prog=command, description="")
        import_module(f"skitter.cli.{command}").configure(parser)
        if any("--json" in action.option_strings for action in parser._actions):
            yield command


def test_every_command_that_prints_json_is_documented() -> None:
    assert set(json_reference.OUTPUTS) == set(_with_json())
    assert all(f"\n## {command}\n" in page("json-output.md") for command in json_reference.OUTPUTS)


@pytest.mark.parametrize("command", json_reference.OUTPUTS)
def test_every_json_field_is_documented(command: str) -> None:
    text = page("json-output.md").partition(f"\n## {command}\n")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    for output in json_reference.OUTPUTS[command]:
        if output.type:
            view = json_reference.resolved(output.type)
            is_struct = issubclass(view, msgspec.Struct)
            found = msgspec.structs.fields(view) if is_struct else dataclasses.fields(view)
            fields = {getattr(field, "encode_name", field.name) for field in found}
            assert fields - {*output.without} <= documented
    assert _printed(command) <= documented


def _printed(command: str) -> set[str]:
    """The keys of dicts that the source of a command hands to ``print_json``, by itself or through a variable."""
    module = {"pause": "job_commands", "resume": "job_commands", "stop": "job_commands"}.get(command, command)
    tree = ast.parse(SOURCES[ROOT / "src" / "skitter" / "cli" / f"{module}.py"])
    printed = [
        node.args[1 if node.func.id == "_answer" else 0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print_json", "_answer")
    ]
    dicts = [part for value in printed for part in ([value, *_operands(value)]) if isinstance(part, ast.Dict)]
    return {key.value for part in dicts for key in part.keys if isinstance(key, ast.Constant)}  # type: ignore[misc]


def _operands(value: ast.expr) -> list[ast.expr]:
    return [value.left, value.right] if isinstance(value, ast.BinOp) else []


@pytest.mark.parametrize(
    ("command", "function"), [("fetch", fetch.page_fields), ("parse", parse.as_json), ("why", why._as_json)]
)
def test_fields_of_objects_that_a_function_makes_are_documented(command: str, function: object) -> None:
    tree = ast.parse(inspect.getsource(function))  # type: ignore[arg-type]
    keys = {
        key.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Dict)
        for key in node.keys
        if isinstance(key, ast.Constant)
    }
    assert keys
    assert keys <= {name for output in json_reference.OUTPUTS[command] for name in output.fields}


@pytest.mark.parametrize("name", ["json-output.md", "project-files.md", "environment.md", "exclusion-rules.md"])
def test_every_row_says_what_its_name_means(name: str) -> None:
    assert re.findall(r"^\| .*\|  \|$", page(name), re.MULTILINE) == []


# ---- events, metrics, routes


def test_every_event_and_its_fields_are_documented() -> None:
    text = page("events.md")
    for kind in events.KINDS.values():
        section = text.partition(f"\n## {kind.name}\n")[2].partition("\n## ")[0]
        assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == set(kind.fields)


def test_every_metric_is_documented() -> None:
    assert {*metrics.JOB_METRICS, *metrics.NODE_METRICS} <= rows("metrics.md")


def test_every_route_is_documented() -> None:
    text = page("rest.md")
    table = ApiRoutes({}, Access(None, None), lambda _store, _job, report: report).table
    assert len(table) > 30
    headings = set(re.findall(r"^### (\w+ /\S+)$", text, re.MULTILINE))
    assert [route.path for route in table if f"{route.method} /api/v1{route.path}" not in headings] == []
