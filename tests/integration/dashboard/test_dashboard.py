"""The dashboard in a real browser: every page and action, hostile sites, the stream of events, logins."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import axe_playwright_python
import pytest
from playwright.sync_api import expect

from skitter.web.users import UserFile

AXE = (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
TABS = ("hosts", "workers", "failures", "items", "why", "settings", "intakes", "network", "check")
JOB, HOSTILE = "#/jobs/demo/catalogue", "#/jobs/demo/hostile"
PAGES = {
    "jobs": "#/jobs",
    "overview": JOB,
    **{name: f"{JOB}/{name}" for name in TABS},
    "hosts-all": f"{JOB}/hosts?kind=all",
    "submit": "#/submit",
    "schedules": "#/schedules",
    "schedule": "#/schedules/demo/nightly",
    "schedule-form": "#/schedule-form?store=demo&name=nightly",
    "audit": "#/audit",
}
RULED = {"jobs", "overview", "failures", "settings", "schedule", "schedule-form", "submit"}
"""Pages that axe-core looks at in `make test`: each kind of element is on one of them."""
HOSTILE_PAGES = ["#/jobs?search=hostile", HOSTILE, f"{HOSTILE}/hosts?kind=all", *(f"{HOSTILE}/{name}" for name in TABS)]


def check_page(page: Any, *, rules: bool = True) -> None:
    """No scrolling to the side, nothing without a text, and no serious finding of axe-core."""
    width, shown = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= shown, f"{page.url}: {width} px wide"
    # A key in place of a text.
    assert page.evaluate("document.body.innerText.match(/^(nav|tab|jobs|tile|top|act|keys)\\.\\w+$/m)") is None
    if not rules:
        return
    if page.evaluate("typeof axe") == "undefined":
        page.evaluate(AXE)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = [
        (one["id"], [node["html"][:200] for node in one["nodes"]])
        for one in found
        if one["impact"] in ("serious", "critical")
    ]
    assert serious == [], page.url


def test_every_page_is_drawn_and_has_no_serious_finding(tab: Callable[..., Any]) -> None:
    """Narrow and light, and wide and dark in turns, axe-core on some of them; the soak has everything."""
    narrow, wide = tab(width=400, color_scheme="light"), tab(color_scheme="dark")
    for place, (name, address) in enumerate(PAGES.items()):
        watched = (narrow, wide)[place % 2]
        check_page(watched.open(address), rules=name in RULED)


@pytest.mark.soak
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 760, 1600])
def test_every_page_in_every_look(tab: Callable[..., Any], width: int, theme: str, language: str) -> None:
    watched = tab(width=width, color_scheme=theme, language=language)
    for address in PAGES.values():
        check_page(watched.open(address))
        assert watched.page.evaluate("document.documentElement.lang").startswith(language)


def test_what_a_hostile_site_writes_is_text_everywhere(tab: Callable[..., Any], demo: Any) -> None:
    watched = tab(width=400)
    shown = ""
    for address in HOSTILE_PAGES:
        page = watched.open(address)
        page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), address
        assert page.locator("main script, main [onerror], main img").count() == 0
        watched.check()
        shown += page.inner_text("main")
    assert "<script>window.attacked=1</script>" in shown
    assert 'onerror="window.attacked=1"' in shown
    for failure in demo.get("/jobs/hostile/failures")["rows"]:
        page = watched.open(f"{HOSTILE}/why?url={failure['url']}")
        assert failure["url"] in page.inner_text("main")
    # A scheme that runs code does not become a link, wherever it comes from.
    page = watched.open(f"{HOSTILE}/why?url=javascript:attacked=1")
    page.locator(".reasons li").first.wait_for()
    assert page.locator("a[href^='javascript' i]").count() == 0
    watched.check()


def test_the_theme_and_the_language_are_the_systems_until_they_are_chosen(tab: Callable[..., Any]) -> None:
    watched = tab(color_scheme="dark", language="zh-CN")
    page = watched.open("#/jobs")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    assert page.inner_text("h1") == "任务"
    page.get_by_label("语言").select_option("en")
    page.get_by_role("heading", name="Jobs").wait_for()
    page.get_by_label("Theme").select_option("light")
    light = page.evaluate(background)
    assert light != dark
    page.keyboard.press("Escape")
    page = watched.open("#/schedules")
    assert page.inner_text("h1") == "Schedules"
    assert page.evaluate(background) == light
    page.locator("body").press("t")
    assert page.evaluate(background) == dark


# ---- what can be done, by the keyboard


def press_until(page: Any, key: str, selector: str, most: int = 60) -> None:
    """Press a key until an element has the focus, which must be seen there."""
    for _ in range(most):
        page.keyboard.press(key)
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
            return
    pytest.fail(f"not reached by {key}: {selector}")


def state_of(demo: Any, job: str) -> str:
    return str(demo.get(f"/jobs/{job}")["state"])


def test_a_job_is_steered_by_the_keyboard_alone(tab: Callable[..., Any], demo: Any) -> None:
    watched = tab()
    page = watched.open("#/jobs")
    press_until(page, "Tab", "#skip")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("?")
    page.get_by_role("dialog").get_by_text("Next row").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="hidden")
    page.keyboard.press("/")
    page.wait_for_function("() => document.activeElement.tagName === 'INPUT'")
    page.keyboard.type("cata")
    page.locator("tbody tr").nth(1).wait_for(state="detached")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="catalogue").wait_for()
    page.keyboard.press("p")
    page.get_by_role("button", name="Resume").wait_for()
    assert state_of(demo, "catalogue") == "paused"
    page.keyboard.press("p")
    page.get_by_role("button", name="Pause").wait_for()
    assert state_of(demo, "catalogue") == "running"
    page.keyboard.press("4")
    page.wait_for_url("**/failures")
    press_until(page, "Tab", "td button")
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.get_by_role("heading", name="Schedules").wait_for()
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.locator("tbody tr", has_text="pause").filter(has_text="catalogue").first.wait_for()
    page.get_by_role("button", name="Verify").press("Enter")
    page.get_by_text("The trail is intact").wait_for()


def test_what_is_asked_before_a_job_is_stopped_and_begun_anew(tab: Callable[..., Any], demo: Any) -> None:
    page = tab(width=400).open("#/jobs/demo/archive")
    page.get_by_role("button", name="New run").click()
    page.get_by_role("dialog").get_by_role("button", name="New run").click()
    page.get_by_text("Run 2").wait_for()
    # No worker is at it: what to do is said.
    page.get_by_text("skitter worker --job archive").wait_for()
    page.get_by_role("button", name="Stop").click()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert state_of(demo, "archive") == "running"
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("dialog").get_by_role("button", name="Stop").click()
    page.get_by_role("button", name="Resume").wait_for()
    assert state_of(demo, "archive") == "stopped"


def test_a_job_that_its_limit_stopped_resumes_with_a_larger_one(tab: Callable[..., Any], demo: Any) -> None:
    demo.run(demo.limited_crawl("limited", 5))
    page = tab(width=400).open("#/jobs/demo/limited")
    page.get_by_role("button", name="Resume").click()
    page.get_by_text("max_pages=5 is reached").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert state_of(demo, "limited") == "stopped"
    page.get_by_role("button", name="Resume").click()
    assert page.get_by_label("max_pages").input_value() == "10"
    page.get_by_label("max_pages").fill("8")
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()
    assert state_of(demo, "limited") == "running"


def test_failures_are_found_and_tried_again(tab: Callable[..., Any], demo: Any) -> None:
    page = tab().open("#/jobs/demo/failing/failures")
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    rows.nth(62).wait_for()
    assert len({row.get_attribute("href") for row in page.locator("tbody td:first-child a.url").all()}) == 63
    page.get_by_role("button", name="callback 1").click()
    rows.nth(1).wait_for(state="detached")
    rows.get_by_text("ValueError").first.click()
    rows.get_by_text("Traceback").wait_for()
    rows.get_by_role("button", name="Retry").click()
    page.get_by_text("Queued again: 1").wait_for()
    page.get_by_role("button", name="callback").wait_for(state="detached")
    page.evaluate("location.hash = '#/jobs/demo/failing/failures?order=oldest'")
    page.get_by_role("button", name="Retry all").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    page.get_by_text("Nothing has failed.").wait_for()
    assert demo.get("/jobs/failing")["queued"] == 63


def test_a_host_is_paused_resumed_and_given_up(tab: Callable[..., Any], demo: Any) -> None:
    watched = tab()
    page = watched.open("#/jobs/demo/catalogue/hosts?kind=all")
    rows = page.locator("tbody tr")
    rows.nth(4).wait_for()
    host = str(rows.nth(1).locator(".name").inner_text())
    row = rows.filter(has=page.get_by_text(host, exact=True))
    row.get_by_role("button", name="Pause").click()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert demo.get("/jobs/catalogue")["paused_hosts"] == 0, "nothing is done that was not confirmed"
    row.get_by_role("button", name="Pause").click()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    page.get_by_text(f"Paused: {host}").wait_for()
    assert demo.get("/jobs/catalogue")["paused_hosts"] == 1
    page.get_by_label("Show").select_option("paused")
    rows.nth(1).wait_for(state="detached")
    row.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    page.get_by_text("No hosts to show.").wait_for()
    page.get_by_label("Show").select_option("all")
    row.get_by_role("button", name="Give up").click()
    page.get_by_role("dialog").get_by_role("button", name="Give up").click()
    page.get_by_text(f"Given up: {host}").wait_for()
    row.get_by_role("button", name="Resume").click()
    page.get_by_role("dialog").get_by_role("button", name="Resume").click()
    page.get_by_text(f"Resumed: {host}").first.wait_for()
    assert demo.get("/jobs/catalogue")["errors"]["given_up"] > 0
    chinese = tab(language="zh").open("#/jobs/demo/catalogue/hosts?kind=all")
    chinese.locator("tbody tr").first.get_by_role("button", name="暂停").wait_for()
    memory = tab().open("#/jobs/demo/catalogue/workers").locator('td[data-label="Memory"]').first
    expect(memory).to_contain_text("MB")


def test_a_setting_is_changed_while_the_job_runs(tab: Callable[..., Any], demo: Any) -> None:
    page = tab().open("#/jobs/demo/catalogue/settings")
    page.get_by_role("button", name="Change delay_seconds", exact=True).click()
    page.get_by_role("textbox", name="delay_seconds").fill("many")
    page.keyboard.press("Enter")
    page.locator(".toast.bad").wait_for()
    page.get_by_role("button", name="Close", exact=True).click()
    page.get_by_role("button", name="Change delay_seconds", exact=True).click()
    page.get_by_role("textbox", name="delay_seconds").fill("0.3")
    page.keyboard.press("Enter")
    page.get_by_text("Changed while running").wait_for()
    assert demo.get("/jobs/catalogue")["changed_settings"]["delay_seconds"]["value"] == pytest.approx(0.3)


def test_a_job_is_submitted_fed_explained_checked_and_dropped(tab: Callable[..., Any], demo: Any) -> None:
    page = tab().open("#/submit")
    page.get_by_label("URLs").fill("https://example.com/")
    page.get_by_label("Name").fill("submitted")
    page.get_by_label("Settings").fill("delay_seconds=2")
    page.get_by_role("button", name="Submit").click()
    page.get_by_role("heading", name="submitted").wait_for()
    page.get_by_role("button", name="Add URLs").click()
    page.get_by_label("URLs, one per line").fill("https://example.com/more")
    page.get_by_role("dialog").get_by_role("button", name="Add URLs").click()
    page.get_by_text("Added: 1 new of 1").wait_for()
    page.get_by_role("link", name="Why").click()
    page.get_by_label("URL").fill("https://example.com/more")
    page.keyboard.press("Enter")
    page.get_by_text("No worker is running.").wait_for()
    page.get_by_role("link", name="Check").click()
    page.get_by_role("button", name="Check now").click()
    page.get_by_text("Consistent").wait_for()
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Drop").click()
    page.get_by_label("Type submitted to confirm").fill("another")
    page.keyboard.press("Enter")
    page.get_by_text("the name does not match").wait_for()
    page.get_by_role("button", name="Drop").click()
    page.get_by_label("Type submitted to confirm").fill("submitted")
    page.keyboard.press("Enter")
    page.wait_for_url("**/#/jobs")
    assert "submitted" not in [row["job"] for row in demo.get("/jobs")["rows"]]


def test_a_schedule_is_paused_run_and_removed(tab: Callable[..., Any], demo: Any) -> None:
    demo.run(demo.schedule("weekly"))
    page = tab(width=400).open("#/schedules/demo/weekly")
    page.get_by_role("button", name="Pause").click()
    page.get_by_role("button", name="Resume").click()
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Run now").click()
    page.get_by_text("a run was requested").wait_for()
    page.get_by_role("button", name="Remove").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.wait_for_url("**/#/schedules")
    assert [row["name"] for row in demo.get("/schedules")["rows"]] == ["nightly"]


def test_a_schedule_is_added_and_changed(tab: Callable[..., Any], demo: Any) -> None:
    page = tab(width=400).open("#/schedules")
    page.locator("body").press("n")
    page.get_by_role("heading", name="New schedule").wait_for()
    page.get_by_label("Name").fill("hourly")
    page.get_by_label("Command").fill("export --job news")
    page.get_by_label("Interval").fill("1h")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("users of a server cannot schedule this command").wait_for()
    page.get_by_label("Command").fill("crawl https://example.com/ --job hourly -o 'two words.jsonl'")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("heading", name="hourly").wait_for()
    page.get_by_text("every 1 h").wait_for()
    page.get_by_role("link", name="Change").click()
    page.get_by_role("heading", name="Change hourly").wait_for()
    assert page.get_by_label("Command").input_value().endswith("-o 'two words.jsonl'")
    page.get_by_label("Interval").fill("")
    page.get_by_label("Cron expression").fill("30 6 * * 1")
    page.get_by_label("Time zone").fill("Asia/Shanghai")
    page.get_by_label("Retries").fill("3")
    page.get_by_role("button", name="Save").click()
    page.get_by_text("30 6 * * 1").wait_for()
    found = demo.get("/schedules/hourly")
    assert (found["cron"], found["timezone"], found["retries"]) == ("30 6 * * 1", "Asia/Shanghai", 3)
    assert found["command"][-1] == "two words.jsonl"
    demo.run(demo.unschedule("hourly"))


def test_proxies_sessions_and_intakes_are_shown_as_they_are(tab: Callable[..., Any], demo: Any) -> None:
    """A crawl with two proxies, of which one is away, two sessions with cookies, and an intake with a bad line."""
    proxy, away = demo.crawl_through_proxies("networked", pages=6)
    page = tab(width=400).open("#/jobs/demo/networked/network")
    rows = page.locator("table", has_text="Banned at").locator("tbody tr")
    expect(rows).to_have_count(2)
    good, bad = rows.filter(has_text=proxy), rows.filter(has_text=away)
    told = {row["proxy"]: row for row in demo.get("/jobs/networked/proxies")["rows"]}
    assert "Ready" in good.inner_text()
    assert str(told[proxy]["answers"]) in good.inner_text()
    assert told[away]["error"] in bad.inner_text()
    good.get_by_role("button", name=f"Ban {proxy}").click()
    page.get_by_label("Seconds").fill("600")
    page.keyboard.press("Enter")
    good.locator(".badge", has_text="Banned").wait_for()
    good.get_by_role("button").click()
    page.keyboard.press("Enter")
    good.locator(".badge", has_text="Ready").wait_for()
    sessions = page.locator("table", has_text="Logins").locator("tbody tr")
    known = demo.get("/jobs/networked/sessions")["rows"]
    assert known
    expect(sessions).to_have_count(len(known))
    expect(sessions.first).to_contain_text("shop.example")
    check_page(page)
    page.get_by_role("link", name="Intakes").click()
    page.locator("tbody tr", has_text="urls.txt").wait_for()
    (intake,) = demo.get("/jobs/networked/intakes")["rows"]
    assert (intake["read"], intake["added"], intake["dead_letters"]) == (7, 6, 1)
    cells = page.locator("tbody tr").locator("th, td").all_inner_texts()
    assert cells[0] == intake["source"]
    assert cells[-3:] == ["7", "6", "1"]
    check_page(page)


# ---- charts, and the stream of events


def test_a_chart_can_be_read_by_keys_and_as_a_table(tab: Callable[..., Any]) -> None:
    page = tab().open("#/jobs/demo/catalogue")
    chart = page.locator("figure", has_text="Queued and in flight")
    chart.locator("path.line").first.wait_for()
    label = re.compile(r"^Queued and in flight: Queued [\d,.K]+, In flight \d+$")
    expect(chart.locator("svg")).to_have_attribute("aria-label", label)
    chart.locator("svg").focus()
    page.keyboard.press("ArrowLeft")
    expect(chart.locator("output")).to_contain_text(re.compile(r"\d\d:\d\d:\d\d"))
    chart.get_by_text("As a table").click()
    # A browser tells that the table was opened some time after the click, and only then is it drawn.
    chart.locator("tbody tr").nth(1).wait_for()
    expect(chart.locator("thead th")).to_have_text(["Time", "Queued", "In flight"])


def show(page: Any, state: str) -> None:
    """What a browser does when its tab is hidden or shown."""
    page.evaluate(
        "state => { Object.defineProperty(document, 'visibilityState', {get: () => state, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        state,
    )


def test_a_tab_has_one_stream_which_is_closed_while_it_is_hidden(tab: Callable[..., Any]) -> None:
    watched = tab()
    page = watched.open("#/jobs")
    page.get_by_text("Live", exact=True).wait_for()
    for address in ("#/jobs/demo/catalogue", "#/jobs/demo/catalogue/workers", "#/jobs"):
        watched.open(address)
        page.get_by_text("Live", exact=True).wait_for()
    watched.wait_for_streams(1)
    # Two tabs of a job share its stream: one for each of jobs, catalogue and jobs.
    assert sum("/api/v1/events" in url for url in watched.requests) == 3
    show(page, "hidden")
    page.get_by_text("Paused", exact=True).first.wait_for()
    watched.wait_for_streams(0)
    show(page, "visible")
    page.get_by_text("Live", exact=True).wait_for()
    watched.wait_for_streams(1)


def test_a_restart_of_the_server_is_survived(tab: Callable[..., Any], demo: Any) -> None:
    page = tab().open("#/jobs/demo/news")
    page.get_by_text("Live", exact=True).wait_for()
    done = page.locator(".tile", has_text="Done").inner_text()
    demo.end_server()
    page.get_by_text("Reconnecting", exact=True).wait_for()
    page.get_by_role("link", name="Hosts").click()
    page.get_by_text("The server cannot be reached").first.wait_for()
    demo.start_server()
    page.get_by_role("button", name="Try again").first.click()
    page.get_by_role("link", name="Overview").click()
    page.get_by_text("Live", exact=True).wait_for()
    expect(page.locator(".tile", has_text="Done")).to_have_text(done, use_inner_text=True)


# ---- who may do what


def test_a_viewer_logs_in_sees_and_changes_nothing(browser: Any, demo: Any, tmp_path: Path) -> None:
    users = UserFile(tmp_path / "users", create=True)
    users.put("vera", "a long password", "viewer", [])
    context = browser.new_context(viewport={"width": 400, "height": 900})
    page = context.new_page()
    with demo.another_server("--users", str(tmp_path / "users")) as url:
        page.goto(f"{url}/#/jobs/demo/news")
        page.get_by_label("User").fill("vera")
        page.get_by_label("Password").fill("wrong")
        page.keyboard.press("Enter")
        page.get_by_text("Wrong user or password.").wait_for()
        check_page(page)
        page.get_by_label("Password").fill("a long password")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="news").wait_for()
        page.locator(".tile").first.wait_for()
        assert page.locator(".actions button").count() == 0
        assert page.get_by_role("link", name="Audit").count() == 0
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("link", name="Check").click()
        page.get_by_text("needs the role operator").wait_for()
        page.get_by_role("button", name="Log out").click()
        page.get_by_label("Password").wait_for()
        page.reload()
        page.get_by_label("Password").wait_for()
    context.close()
