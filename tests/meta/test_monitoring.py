"""Alert rules and the Grafana dashboard: they parse, behave as tested, and name only metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import gen_reference
from skitter.observe.metrics import ERROR_CLASSES, FAILED_CLASSES, JOB_METRICS, NODE_METRICS, OTHER

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "monitoring"
RULES, TESTS, DASHBOARD = (
    FOLDER / name for name in ("skitter.rules.yml", "skitter.rules.test.yml", "grafana-dashboard.json")
)
KNOWN = {*JOB_METRICS, *NODE_METRICS}


def queries() -> list[str]:
    """The queries of the dashboard, with its variables filled in."""
    dashboard = json.loads(DASHBOARD.read_text())
    found = [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    return [query.replace("$__rate_interval", "5m").replace("$job_name", ".*") for query in found]


def used(text: str) -> set[str]:
    return {re.sub("_(bucket|sum|count)$", "", name) for name in re.findall(r"\bskitter_\w+", text)}


def promtool(services: Any, *arguments: object) -> str:
    program = services.need("prometheus")["promtool"]
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_alert_rules_fire_stay_silent_and_resolve(services: Any, tmp_path: Path) -> None:
    promtool(services, "check", "rules", RULES)
    promtool(services, "test", "rules", TESTS)
    shutil.copytree(FOLDER, tmp_path / "monitoring")
    for name in ("skitter-token", "skitter-metrics-token"):
        (tmp_path / "monitoring" / name).write_text("token")
    promtool(services, "check", "config", tmp_path / "monitoring" / "prometheus.yml")


def test_every_alert_is_tested_silent_firing_and_resolved() -> None:
    alerts = re.findall(r"- alert: (\w+)", RULES.read_text())
    tests = TESTS.read_text()
    assert len(alerts) > 10
    for alert in alerts:
        assert len(re.findall(rf"alertname: {alert}\b", tests)) == 3
        assert len(re.findall(rf"alertname: {alert}, exp_alerts: \[\]", tests)) == 2


def test_the_dashboard_asks_valid_queries(services: Any, tmp_path: Path) -> None:
    rules = [{"record": f"panel:{number}", "expr": query} for number, query in enumerate(queries())]
    assert len(rules) > 20
    # JSON is YAML too.
    (tmp_path / "queries.yml").write_text(json.dumps({"groups": [{"name": "panels", "rules": rules}]}))
    promtool(services, "check", "rules", tmp_path / "queries.yml")


def test_rules_and_dashboard_name_only_metrics_that_there_are() -> None:
    assert used(RULES.read_text()) <= KNOWN
    assert used(TESTS.read_text()) <= KNOWN
    assert used("\n".join(queries())) <= KNOWN


def test_the_metrics_page_is_up_to_date() -> None:
    text = gen_reference.metrics_page()
    assert gen_reference.METRICS_PAGE.read_text(encoding="utf-8") == text, "run `make docs`"
    assert all(f"| `{name}` |" in text for name in KNOWN)


def test_every_class_of_errors_has_a_series_of_its_own() -> None:
    page = (ROOT / "docs" / "reference" / "errors.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE))))
    assert documented - {*ERROR_CLASSES} == set()
    assert {*FAILED_CLASSES} - documented == {"lost", OTHER} & ({*FAILED_CLASSES} - documented)
