"""A statement that stands in several places agrees with the code, with the benchmarks and with the other places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from skitter.agent import DEFAULT_USER_AGENT
from skitter.app.frontiers import is_shared
from skitter.cli import COMMANDS
from skitter.fetch.dns_lookups import MAX_LOOKUPS
from skitter.frontier.rules.report import MOST_COUNTED, MOST_COUNTED_IN_LISTS
from skitter.model.request import EXPECTED, OPTIONS
from skitter.policy.capacity_plan import REDIS_SEEN_BYTES
from skitter.settings import CHANGEABLE
from skitter.spiders import hooks
from skitter.spiders.foreign_settings import READ_BY_ADAPTER, READ_BY_SCHEDULER, counterpart

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
READMES = (ROOT / "README.md", ROOT / "README.zh-CN.md")
PAGES = [*READMES, *sorted(path for path in DOCS.rglob("*.md") if path.parent.name != "adr")]
"""Decisions are left out: they quote what was known on their day."""
BENCHMARKS = (DOCS / "benchmarks.md").read_text(encoding="utf-8")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(page: str, heading: str) -> str:
    """Return the part of a page under a heading, with the smaller headings in it."""
    found = re.search(rf"^(#+) {re.escape(heading)}\n(.*?)(?=^#{{1,6}} |\Z)", page, re.MULTILINE | re.DOTALL)
    assert found, heading
    rest = page[found.start() :].partition("\n")[2]
    return re.split(rf"^#{{1,{len(found[1])}}} ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def cells(table: str, column: int) -> Iterator[str]:
    for line in table.splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield line.split("|")[column]


def code(shown: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", shown))


# ---- settings, hooks, messages


def test_settings_that_change_while_a_job_runs_are_those_on_the_page() -> None:
    table = section(text("docs/how-to/change-a-running-job.md"), "What can be changed")
    assert {name for cell in cells(table, 1) for name in code(cell)} == {*CHANGEABLE}
    command = re.compile(r"skitter set (?:[\w-]+ )?((?:[a-z_]+=\S+ *)+)")
    commands = [words for page in PAGES for words in command.findall(text(str(page)))]
    assert {name for words in commands for name in re.findall(r"(\w+)=", words)} <= {*CHANGEABLE}


def test_hooks_return_what_the_guide_and_their_annotations_say() -> None:
    table = section(text("docs/how-to/hooks.md"), "All hooks")
    kinds = {"Request", "Response", "Answer", "Retry", "Drop", "Ban"}
    for row in table.splitlines():
        if name := re.match(r"\| `(on_\w+)\(", row):
            annotation = str(getattr(hooks.Hooks, name[1]).__annotations__["return"])
            assert code(row.split("|")[3]) & kinds == set(re.findall(r"\w+", annotation)) & kinds, name[1]


def test_fields_of_a_message_are_those_that_an_intake_reads() -> None:
    fields = re.findall(r"`(\w+)`", text("docs/how-to/intakes.md").partition("\nFields: ")[2].partition(". ")[0])
    assert set(fields) == EXPECTED.keys()
    assert set(fields[fields.index("timeout") :]) == set(OPTIONS)


def test_tables_about_scrapy_have_the_names_of_scrapy_only() -> None:
    listed = text("tests/unit/spiders/setting_names.txt").partition("[scrapy]")[2].partition("[")[0]
    table = section(text("docs/how-to/migrate-from-scrapy.md"), "Settings")
    named = {name for cell in cells(table, 1) for name in re.findall(r"`([A-Z_]+)`", cell)}
    assert named <= set(listed.split())


def test_settings_that_the_guides_to_scrapy_support_are_marked_in_the_table_of_foreign_settings() -> None:
    guide = section(text("docs/how-to/migrate-from-scrapy.md"), "What works unchanged")
    row = next(line for line in guide.splitlines() if line.startswith("| settings |"))
    supported = {name for name in re.findall(r"`([A-Z_]{4,})\*?`", row) if counterpart(name)}
    assert [name for name in supported if not any(read.startswith(name) for read in READ_BY_ADAPTER)] == []
    table = section(text("docs/how-to/migrate-from-scrapy-redis.md"), "Settings")
    supported = {name for cell in cells(table, 1) for name in code(cell) if counterpart(name)}
    assert supported - {"SCHEDULER_PERSIST"} <= READ_BY_SCHEDULER
    marked = {name for cell in cells(text("docs/reference/foreign-settings.md"), 3) for name in code(cell)}
    assert {name for name in READ_BY_ADAPTER | READ_BY_SCHEDULER if counterpart(name)} <= marked


def test_the_chinese_page_has_the_default_user_agent() -> None:
    assert f"`{DEFAULT_USER_AGENT}`" in text("docs/zh/settings.md")


# ---- commands


def test_commands_that_end_with_1_are_named_in_the_table_of_exit_codes() -> None:
    (row,) = (line for line in section(text("docs/reference/cli.md"), "Exit codes").splitlines() if "| 1 |" in line)
    ending = [
        command
        for command in COMMANDS
        if (ROOT / f"src/skitter/cli/{command}.py").is_file()
        and re.search(r"import FAILED\b|return 1 ", text(f"src/skitter/cli/{command}.py"))
    ]
    assert {"check", "fetch", "parse"} <= {*ending}
    assert [command for command in ending if not re.search(rf"`{command}[` ]", row)] == []


def test_fields_of_json_stand_on_one_page() -> None:
    page = re.sub(r"\s+", " ", text("docs/reference/cli.md"))
    assert re.findall(r"`[^`]*--json`[^.`]* (?:has|prints)[^.]*`\w+`[^.]*`\w+`[^.]*", page) == []


def test_an_output_whose_name_has_the_job_in_it_is_one_in_parts() -> None:
    places = [*PAGES, ROOT / "Makefile", *(ROOT / "src/skitter/app/templates").rglob("*.template")]
    output = re.compile(r"""(?:-[oO] |target = )['"]([^'"]*\{job\}[^'"]*)['"]""")
    named = [name for place in places for name in output.findall(text(str(place)))]
    assert named
    assert [name for name in named if "{part}" not in name] == []


def test_the_page_about_frontiers_says_which_a_master_cannot_serve() -> None:
    table = section(text("docs/explanation/which-system.md"), "Where is the job stored?")
    frontiers = {url for cell in cells(table, 1) for url in re.findall(r"`([\w+]+:)", cell)}
    assert len(frontiers) > 4
    alone = {url for url in frontiers if not is_shared(f"{url}//host")}
    assert re.findall(r"any of the others but `([^`]+)`", table) == [*alone]


# ---- figures

_NUMBER = re.compile(r"(?<![\w.,#/-])\d[\d,]*(?:\.\d+)?(?: %)?(?![\w/])")


def _sentences(page: str) -> Iterator[str]:
    """Yield each sentence of a page; a cell of a table ends one."""
    for block in re.split(r"\n\n|\n(?=[|-])", re.sub(r"```.*?```", "", page, flags=re.DOTALL)):
        for cell in block.split("|") if block.startswith("|") else [block]:
            yield from re.split(r"(?<=[.;:])\s+", " ".join(cell.split()))


def _measured(anchor: str) -> set[str]:
    """Return the numbers in a part of the benchmarks, or in all of them; shares as percentages too."""
    part = BENCHMARKS
    if anchor:
        headings = re.findall(r"^#+ (.*)$", BENCHMARKS, re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-"): heading for heading in headings}
        part = section(BENCHMARKS, slugs[anchor])
    numbers = set(re.findall(r"\d[\d,]*(?:\.\d+)?", part))
    shares = {f"{float(number) * 100:g} %" for number in numbers if number.startswith("0.")}
    return numbers | shares | {f"{number} %" for number in re.findall(r"([\d.]+) ?%", part)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_figures_beside_a_link_to_the_benchmarks_are_there(page: Path) -> None:
    wrong = []
    for sentence in _sentences(text(str(page))):
        anchors = re.findall(r"\]\([^)]*benchmarks\.md(?:#([\w-]+))?\)", sentence)
        words = re.sub(r"\]\([^)]*\)|`[^`]*`", "]", sentence)
        numbers = _NUMBER.findall(words) if anchors else []
        wrong += [(number, sentence) for number in numbers if not any(number in _measured(each) for each in anchors)]
    assert wrong == []


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md", "docs/explanation/comparison.md"])
def test_tables_of_speeds_have_the_medians_of_the_benchmarks(name: str) -> None:
    parts = [section(BENCHMARKS, heading) for heading in ("A documentation site", "Small pages")]
    rows = [re.findall(r"^\| ([^|]+?)(?: \(Go\))? \| ([\d,]+) \(?([\d,]+ x)?", part, re.MULTILINE) for part in parts]
    measured = [{crawler: speed for crawler, speed, _ in found} for found in rows]
    shown = re.findall(r"^\| ([^|]+?) \| ([\d,]+)(?: \(.*?\))? \| ([\d,]+)(?: \(.*?\))? \|$", text(name), re.MULTILINE)
    assert len(shown) > 7
    for title, *speeds in shown:
        crawler = re.sub(r" [\d.]+ \(Go\)", "", title).replace("裸组件", "bare parts")
        assert speeds == [table[crawler] for table in measured], crawler


def test_the_bytes_of_a_seen_url_stand_on_one_page() -> None:
    assert f"| a URL that was seen | {REDIS_SEEN_BYTES:g} |" in text("docs/how-to/redis-setup.md")
    others = [page for page in PAGES if page.name != "benchmarks.md"]
    sizes = re.compile(r"\b(?:9\.\d+|nine|70) bytes")
    assert {page.name: found for page in others if (found := sizes.findall(text(str(page))))} == {}


def test_every_part_of_the_benchmarks_is_made_by_make_bench_or_is_an_exception() -> None:
    made = {*re.findall(r"^Made by `.*?(?:bench_|BENCH=)(\w+)", BENCHMARKS, re.MULTILINE)}
    (listed,) = re.findall(r"^BENCH \?= (.*)$", text("Makefile"), re.MULTILINE)
    exceptions = re.findall(r"all but `(\w+)`", BENCHMARKS)
    assert made - {*exceptions} == set(listed.split())


def test_queues_are_counted_as_far_as_the_pages_say() -> None:
    limits = {f"{MOST_COUNTED:,}", f"{MOST_COUNTED_IN_LISTS:,}"}
    for name in ("docs/reference/json-output.md", "docs/how-to/change-a-running-job.md"):
        sentences = [one for one in _sentences(text(name)) if "SQLite" in one and "count" in one]
        assert sentences
        assert all(limits <= set(_NUMBER.findall(one)) for one in sentences), name


def test_deployments_let_several_workers_look_up_names() -> None:
    (pids,) = re.findall(r"pids_limit: (\d+)", text("deploy/compose/compose.yaml"))
    (tasks,) = re.findall(r"TasksMax=(\d+)", text("deploy/systemd/skitter-.service.d/hardening.conf"))
    assert min(int(pids), int(tasks)) >= 8 * MAX_LOOKUPS
