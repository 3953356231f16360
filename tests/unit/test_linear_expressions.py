"""Every regular expression that sees a stranger's text is linear, on input that is made to prove the opposite."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import skitter
from rig.pumps import Attack, Pump
from skitter.extract import open_elements_scan

SOURCE = Path(skitter.__file__).parent
MATCHING = frozenset(("match", "fullmatch", "search", "sub", "subn", "findall", "finditer", "split"))

OPERATOR = "what the operator typed: options, settings, targets, names of files"
AUTHOR = "what the author of a spider wrote: its selectors and its own expressions"
OURSELVES = "what this package wrote itself"
SERVER = "what a server of the operator says: a broker, a database"
NEVER_A_STRANGERS = {
    "skitter.agent": OPERATOR,
    "skitter.alert_rules": OPERATOR,
    "skitter.app.new_project": OPERATOR,
    "skitter.app.remote_limits": OPERATOR,
    "skitter.app.schedules": OPERATOR,
    "skitter.cluster.zookeeper.locks": SERVER,
    "skitter.contrib.scrapy.outputs": AUTHOR,
    "skitter.dedup.redis_sets": AUTHOR,
    "skitter.model.job_name": OPERATOR,
    "skitter.model.request:_NEED": AUTHOR,
    "skitter.cli.what_to_crawl": OPERATOR,
    "skitter.demo_site.site": OPERATOR,
    "skitter.extract.css_selectors": AUTHOR,
    "skitter.extract.link_filter": AUTHOR,
    "skitter.extract.selector:_matches": AUTHOR,
    "skitter.frontier.redis.scripts": OURSELVES,
    "skitter.model.secrets:_ADDRESS_BEGIN": OPERATOR,
    "skitter.model.secrets:_BETWEEN_PARTS": OPERATOR,
    "skitter.model.secrets:_HOSTS": OPERATOR,
    "skitter.policy.schedule_times": OPERATOR,
    "skitter.policy.scope": AUTHOR,
    "skitter.server_url": OPERATOR,
    "skitter.spiders.foreign_project": AUTHOR,
    "skitter.spiders.loading": AUTHOR,
    "skitter.settings": AUTHOR,
    "skitter.sinks.page_spool": OURSELVES,
    "skitter.sinks.part_files": OPERATOR,
    "skitter.sinks.streams.amqp": SERVER,
    "skitter.extract.downloads": AUTHOR,
    "skitter.testing.pytest_plugin": AUTHOR,
    "skitter.testing.web_pages": OURSELVES,
    "skitter.web.api.openapi": OURSELVES,
    "skitter.web.stores": OPERATOR,
}
"""Modules, or expressions, whose input no stranger chooses."""

PRESCAN, WINDOW, HREF, URL, HEADER, ROBOTS = 1_024, 384, 262_144, 4_096, 102_400, 512_000
TEXT = 200_000
HEAD = 65_536
"""Of a request to a proxy, or of an answer to it."""
BODY = 1_048_576
"""Pages can be larger; what is linear up to here is linear beyond."""
ERROR = 65_536


class Reach(NamedTuple):
    """How long a text can be that an expression is given."""

    chars: int
    make: Callable[[], re.Pattern[Any]] | None = None
    """For one that a function makes."""


STRANGERS = {
    "skitter.app.proxy_sources:_HOST": Reach(URL),
    "skitter.audit.entry:_SECRET_NAME": Reach(HEADER),
    "skitter.web.access:_HOST": Reach(HEADER),
    "skitter.web.users:_NAME": Reach(HEADER),
    "skitter.egress.request_head:_AUTHORITY": Reach(HEAD),
    "skitter.egress.request_head:_HEADER": Reach(HEAD),
    "skitter.egress.request_head:_LINE": Reach(HEAD),
    "skitter.egress.request_head:_PATH_BEGIN": Reach(HEAD),
    "skitter.egress.request_head:_STATUS": Reach(HEAD),
    "skitter.fetch.browser.guarded_proxy:_CHUNKED": Reach(HEAD),
    "skitter.fetch.browser.guarded_proxy:_HOP_BY_HOP": Reach(HEAD),
    "skitter.fetch.browser.guarded_proxy:_LENGTH": Reach(HEAD),
    "skitter.fetch.browser.net_errors:_NAME": Reach(ERROR),
    "skitter.fetch.digest:_ESCAPE": Reach(4_096),
    "skitter.fetch.digest:_PART": Reach(4_096),
    "skitter.model.request:_PROXY": Reach(BODY),
    "skitter.model.session:_NAME": Reach(BODY),
    "skitter.extract.pathological_markup:_MARKUP_IN_VALUE": Reach(WINDOW),
    "skitter.extract.pathological_markup:_SOUND": Reach(WINDOW),
    "skitter.extract.pathological_markup:_TAG": Reach(WINDOW),
    "skitter.extract.robots_directives:_IS_CANONICAL": Reach(HEADER),
    "skitter.extract.robots_directives:_LINK": Reach(HEADER),
    "skitter.extract.robots_directives:_WORD": Reach(4_096),
    "skitter.extract.encoding:_PARAMETER": Reach(HEADER),
    "skitter.extract.charset_guess:_HIGH": Reach(16_384),
    "skitter.extract.charset_guess:_HIGH_BEFORE_HIGH": Reach(16_384),
    "skitter.extract.charset_guess:_RUN": Reach(BODY),
    "skitter.extract.charset_labels:_PUNCTUATION": Reach(HEADER),
    "skitter.extract.form_controls:_COLOR": Reach(HREF),
    "skitter.extract.form_controls:_LINE_ENDS": Reach(BODY),
    "skitter.extract.meta_prescan:_BEFORE_META": Reach(PRESCAN),
    "skitter.extract.meta_prescan:_CHARSET": Reach(BODY),
    "skitter.extract.meta_prescan:_META_ATTRIBUTE": Reach(PRESCAN),
    "skitter.extract.meta_prescan:_META_END": Reach(PRESCAN),
    "skitter.extract.meta_prescan:_XML": Reach(PRESCAN),
    "skitter.extract.links:_NOT_ASCII": Reach(HREF),
    "skitter.extract.links:_REFRESH": Reach(BODY),
    "skitter.extract.open_elements_scan:ATTRIBUTE": Reach(BODY),
    "skitter.extract.open_elements_scan:_raw_end": Reach(BODY, lambda: open_elements_scan._raw_end(b"script")),
    "skitter.extract.open_elements_scan:_token": Reach(BODY, open_elements_scan._token),
    "skitter.extract.content_fingerprint:_MARKUP": Reach(TEXT),
    "skitter.extract.content_fingerprint:_WORD": Reach(TEXT),
    "skitter.extract.selector:_ENTITY": Reach(BODY),
    "skitter.fetch.header_lines:_CONTROL": Reach(HEADER),
    "skitter.fetch.header_lines:_TOKEN": Reach(HEADER),
    "skitter.model.secrets:_BEARER": Reach(ERROR),
    "skitter.model.secrets:_CREDENTIAL_HEADER": Reach(HEADER),
    "skitter.model.secrets:_HEADER": Reach(ERROR),
    "skitter.model.secrets:_OPTION": Reach(ERROR),
    "skitter.model.secrets:_OWN_USERINFO": Reach(URL),
    "skitter.model.secrets:_SECRET_NAME": Reach(HEADER),
    "skitter.model.secrets:_USERINFO": Reach(ERROR),
    "skitter.model.session_ids:_ASP_NET": Reach(URL),
    "skitter.model.session_ids:_CERTAIN": Reach(URL),
    "skitter.model.session_ids:_IN_PATH": Reach(URL),
    "skitter.model.session_ids:_LIKELY": Reach(URL),
    "skitter.model.session_ids:_RANDOM": Reach(URL),
    "skitter.model.url:_ESCAPE": Reach(URL),
    "skitter.model.url:_HOST": Reach(BODY),
    "skitter.model.url:_PLAIN_HREFS": Reach(BODY),
    "skitter.model.url:_PORT": Reach(URL),
    "skitter.model.url:_SCHEME": Reach(HEADER),
    "skitter.model.form_data:_LINE_END": Reach(BODY),
    "skitter.model.control_characters:_UNSAFE": Reach(BODY),
    "skitter.model.control_characters:_UNSAFE_IN_JSON": Reach(BODY),
    "skitter.policy.politeness:_HOST_NAME": Reach(URL),
    "skitter.policy.politeness:_PRIVATE_NAME": Reach(URL),
    "skitter.policy.retry:_DELTA": Reach(HEADER),
    "skitter.policy.robots:_EVERYBODY": Reach(ROBOTS),
    "skitter.policy.robots:_FIELD": Reach(ROBOTS),
    "skitter.policy.robots:_LINE_END": Reach(ROBOTS),
    "skitter.testing.recorded_pages:_NOT_IN_NAMES": Reach(URL),
    "skitter.policy.robots:_NAME": Reach(ROBOTS),
    "skitter.policy.robots:_PLAIN": Reach(ROBOTS),
    "skitter.policy.robots:_TO_NORMALISE": Reach(ROBOTS),
    "skitter.policy.robots:_WIDER_NAME": Reach(ROBOTS),
    "skitter.policy.set_cookie:CONTROL": Reach(HEADER),
    "skitter.policy.set_cookie:_DATE_TOKEN": Reach(1_024),
    "skitter.policy.set_cookie:_DAY": Reach(1_024),
    "skitter.policy.set_cookie:_MAX_AGE": Reach(1_024),
    "skitter.policy.set_cookie:_MONTH": Reach(1_024),
    "skitter.policy.set_cookie:_TIME": Reach(1_024),
    "skitter.policy.set_cookie:_YEAR": Reach(1_024),
    "skitter.policy.traps:_PATH_DATE": Reach(URL),
    "skitter.policy.traps:_QUERY_DATE": Reach(URL),
    "skitter.sinks.type_inference:_TIME": Reach(BODY),
    "skitter.sinks.csv_table:_FORMULA": Reach(BODY),
    "skitter.sinks.json_records:_SURROGATE": Reach(BODY),
    "skitter.sinks.warc_records:_BREAKS": Reach(HEADER),
    "skitter.worker.callback_failure_log:_FRAME": Reach(ERROR),
    "skitter.worker.callback_failure_log:_RAISED": Reach(ERROR),
}
"""Everything else, and the longest text that reaches it."""

LONGEST_SECONDS = 1.0


@cache
def trees() -> dict[str, ast.Module]:
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        name = ".".join(("skitter", *file.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        found[name] = ast.parse(file.read_text())
    return found


def expressions() -> Iterator[str]:
    """``module:name`` of each place that makes or uses an expression; without a name of its own, its function's."""
    for module, tree in trees().items():
        yield from (f"{module}:{name}" for name in _made_in(tree, ""))


def _made_in(node: ast.AST, name: str) -> Iterator[str]:
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        name = node.name
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not name:
        name = node.targets[0].id
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not name:
        name = node.target.id
    elif isinstance(node, ast.Call) and _is_of_re(node.func):
        yield name
    for child in ast.iter_child_nodes(node):
        yield from _made_in(child, name)


def _is_of_re(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "re"
        and function.attr in {*MATCHING, "compile"}
    )


class Use(NamedTuple):
    """A call of a matching method in the source: `value.operation`."""

    module: str
    value: ast.expr
    operation: str


@cache
def uses() -> list[Use]:
    """Read once for all expressions: a walk through the whole source takes most of a second."""
    found = []
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in MATCHING:
                value = node.value.func if isinstance(node.value, ast.Call) else node.value
                found.append(Use(module, value, node.attr))
    return found


def operations(expression: str) -> set[str]:
    """How it is used, as the source says; every way where that cannot be seen."""
    module, _, name = expression.partition(":")
    found = set()
    for use in uses():
        own = use.module == module and isinstance(use.value, ast.Name) and use.value.id == name
        elsewhere = use.module != module and isinstance(use.value, ast.Attribute) and use.value.attr == name
        if own or elsewhere:
            found.add(use.operation if use.operation in {"match", "fullmatch", "search"} else "finditer")
    return found or {"match", "fullmatch", "search", "finditer"}


def pattern_of(expression: str) -> re.Pattern[Any]:
    module, _, name = expression.partition(":")
    make = STRANGERS[expression].make
    pattern = make() if make is not None else getattr(importlib.import_module(module), name)
    assert isinstance(pattern, re.Pattern)
    return pattern


def test_each_expression_is_in_one_of_the_two_lists() -> None:
    found = set(expressions())
    exempt = {one for one in found if one in NEVER_A_STRANGERS or one.partition(":")[0] in NEVER_A_STRANGERS}
    assert sorted(found - exempt) == sorted(STRANGERS), "an expression is new, gone, or in both lists"
    used = {one for one in NEVER_A_STRANGERS if one in found or any(name.startswith(one + ":") for name in found)}
    assert used == set(NEVER_A_STRANGERS)


def test_expressions_are_used_by_the_name_that_this_test_looks_for() -> None:
    for module, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "re":
                assert {alias.name for alias in node.names} <= {"Pattern", "Match"}, module
            elif isinstance(node, ast.Import):
                assert not any(alias.name == "re" and alias.asname for alias in node.names), module


@pytest.mark.parametrize("expression", sorted(STRANGERS))
def test_no_input_makes_an_expression_cost_more_than_its_length(expression: str) -> None:
    for operation in sorted(operations(expression)):
        attack = Attack(pattern_of(expression), operation)
        assert attack.finding is None, f"{expression}: {attack.finding}"
        seconds, pump = attack.longest(chars := STRANGERS[expression].chars)
        assert seconds < LONGEST_SECONDS, f"{expression}: {seconds:.2f} s for {chars} characters of {pump}"


# ---- the attack itself: it finds what was found by hand, and more

QUADRATIC = {
    "charset of a header": (r"""(?i)charset\s*=\s*["']?\s*([^\s"';,]+)""", "search"),
    "charset of a page": (rb"""(?i)<meta\s[^>]*?charset\s*=\s*["']?\s*([a-z0-9_:.-]+)""", "search"),
    "only the search is": (rb"""(?i)<meta\s[^>]*?charset=(\w+)""", "search"),
    "dates of a query": (r"(?i)[?&][^=&]*=([12]\d{3})-|[?&][^=&]*(?:year|jahr)\]?=([12]\d{3})(?=&|$)", "finditer"),
    "an unclosed comment": (r"(?s)<!--.*?-->", "finditer"),
    "white space before the end": (r"\s+$", "search"),
    "two of the same": (r"a.*b.*c", "match"),
    "in a lookahead": (r"(?=[^&]*[0-9])[0-9a-z_-]{16,}!", "search"),
    "nested": (r"(?:[a-z]+)+!", "match"),
    "alternatives that overlap": (r"(?:aa|a)*c", "fullmatch"),
    "three times": (r"x*x*x*y", "match"),
}
LINEAR = {
    "charset of a header": (r"""(?i)charset\s*+=\s*+["']?+\s*+([^\s"';,]++)""", "search"),
    "a comment that may end with the text": (r"(?s)<!--.*?(?:-->|\Z)", "finditer"),
    "possessive": (r"\s++$", "match"),
    "atomic": (r"(?>(?:[a-z]++)+)!", "match"),
    "words": (r"\b[^\W\d_]{3,}\b", "finditer"),
}


@pytest.mark.parametrize("name", QUADRATIC)
def test_the_attack_finds_what_is_not_linear(name: str) -> None:
    written, operation = QUADRATIC[name]
    assert Attack(re.compile(written), operation).finding is not None


@pytest.mark.parametrize("name", LINEAR)
def test_the_attack_leaves_alone_what_is_linear(name: str) -> None:
    written, operation = LINEAR[name]
    finding = Attack(re.compile(written), operation).finding
    assert finding is None, str(finding)


def test_the_family_of_a_pump_has_members_of_any_length() -> None:
    assert Pump("<", "ab", ">").of(1) == "<ab>"
    assert len(Pump("", "ab", "").of(10_000)) == 10_000
