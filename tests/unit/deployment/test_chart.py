"""The Helm chart: what was rendered is of these sources, valid by Kubernetes' schemas, and as careful as it must be.

Where helm is on the PATH, it also renders and lints anew, and refuses wrong values.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

import render_chart
from skitter.app.views.metrics import ScaleView
from skitter.settings import Run
from skitter.web.metrics_routes import METRICS_PATH, READY_PATH

ROOT = Path(__file__).parents[3]
CUSTOM = {"ScaledObject", "ServiceMonitor", "TriggerAuthentication"}
"""Kinds of other projects, whose schemas Kubernetes does not have."""
KUBERNETES = ["1.25", "1.31", "1.34"]
needs_helm = pytest.mark.skipif(shutil.which("helm") is None, reason="no helm on the PATH")


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((render_chart.RENDERED / f"{name}.yaml").read_text()))


def deployments(name: str) -> dict[str, dict[str, Any]]:
    found = (document for document in documents(name) if document["kind"] == "Deployment")
    return {document["metadata"]["labels"]["app.kubernetes.io/component"]: document["spec"] for document in found}


@pytest.mark.parametrize("name", render_chart.VALUES)
def test_what_was_rendered_is_of_these_sources(name: str) -> None:
    first, *_ = (render_chart.RENDERED / f"{name}.yaml").read_text().splitlines(keepends=True)
    assert first == render_chart.head(), "render it again: scripts/render_chart.py"


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("name", render_chart.VALUES)
def test_it_is_valid(name: str, version: str) -> None:
    kinds = set()
    for document in documents(name):
        kinds.add(document["kind"])
        if document["kind"] not in CUSTOM:
            kubernetes_validate.validate(document, version, strict=True)
    assert kinds >= {"Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"}
    assert (kinds & CUSTOM == CUSTOM) == (name == "example")


@pytest.mark.parametrize("name", render_chart.VALUES)
def test_every_pod_is_closed_and_has_time_to_end(name: str) -> None:
    for component, spec in deployments(name).items():
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        assert pod["securityContext"]["runAsNonRoot"], component
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert container["resources"]["limits"]["memory"]
        assert container["livenessProbe"]
        assert pod["terminationGracePeriodSeconds"] > Run().shutdown_seconds + 5
        # Pods of one name would take each other's workers for dead.
        assert not pod.get("hostNetwork")
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in pod["volumes"]}


@pytest.mark.parametrize("name", render_chart.VALUES)
def test_commands_are_those_of_the_command_line(name: str, parsed: Any) -> None:
    for component, spec in deployments(name).items():
        words = spec["template"]["spec"]["containers"][0]["args"]
        assert component.startswith(words[0])
        options = parsed(words)
        secret = "?password_file=/etc/skitter/frontier/secret" if name == "example" else ""
        frontier = options.frontier if isinstance(options.frontier, str) else options.frontier[0]
        assert re.fullmatch(r"redis://redis[a-z.]*:6379/0" + re.escape(secret), frontier)


def test_probes_and_the_autoscaler_ask_serve() -> None:
    serve = deployments("example")["serve"]["template"]["spec"]["containers"][0]
    assert serve["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert serve["readinessProbe"]["httpGet"]["path"] == READY_PATH
    (scaled,) = (document for document in documents("example") if document["kind"] == "ScaledObject")
    trigger = scaled["spec"]["triggers"][0]["metadata"]
    assert trigger["url"] == "https://crawl-skitter.crawl.svc:8601/api/v1/jobs/books/scale?per_worker=10000"
    assert trigger["valueLocation"] in ScaleView.__struct_fields__
    (monitor,) = (document for document in documents("example") if document["kind"] == "ServiceMonitor")
    assert monitor["spec"]["endpoints"][0]["path"] == METRICS_PATH
    assert "replicas" not in deployments("example")["worker-books"]
    # Each replica has the figures of all jobs: a second one would double every series and alert.
    assert deployments("example")["serve"]["replicas"] == 1


def test_only_serve_has_the_file_of_users() -> None:
    for component, spec in deployments("example").items():
        pod = spec["template"]["spec"]
        secrets = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
        assert ("skitter-users" in secrets) == (component == "serve")
    assert (
        "--users=/etc/skitter/users/users"
        in deployments("example")["serve"]["template"]["spec"]["containers"][0]["args"]
    )
    assert not any(
        "users" in arg or "allow" in arg
        for arg in deployments("default")["serve"]["template"]["spec"]["containers"][0]["args"]
    )


def test_values_have_a_schema_that_refuses_what_it_does_not_know() -> None:
    schema = json.loads((render_chart.CHART / "values.schema.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    validator.check_schema(schema)
    values = yaml.safe_load((render_chart.CHART / "values.yaml").read_text())
    validator.validate(values)
    assert set(values) | {"global"} == set(schema["properties"])
    for wrong in (
        {"frontier": {"url": "sqlite:x.db"}},
        {"serve": {"replica": 3}},
        {"workers": {"BAD": {}}},
        {"workers": {"a": {"processes": 0}}},
        {"image": {"digest": "sha256:short"}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(values | wrong)


def test_the_version_is_that_of_the_changelog_and_the_image() -> None:
    chart = yaml.safe_load((render_chart.CHART / "Chart.yaml").read_text())
    newest = re.findall(r"(?m)^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text())[0]
    assert chart["version"] == chart["appVersion"] == newest
    assert f"ARG VERSION={newest}\n" in (ROOT / "deploy/docker/Dockerfile").read_text()
    assert f"skitter:{newest}" in (ROOT / "deploy/compose/compose.yaml").read_text()
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dynamic"] == ["version"]


@needs_helm
def test_helm_renders_and_lints_and_refuses() -> None:
    assert render_chart.main(["--check"]) == 0
    chart, version = str(render_chart.CHART), ["--kube-version", render_chart.KUBERNETES]
    subprocess.run(["helm", "lint", "--strict", chart, *version], check=True, capture_output=True)
    for wrong, reason in {
        "shutdownSeconds=50": "15 or more above",
        "workers.a.autoscaling.enabled=true": "needs a job",
        "frontier.url=sqlite:x.db": "does not match",
        "serve.replicas=2,serve.serviceMonitor.enabled=true": "needs serve.replicas: 1",
    }.items():
        done = subprocess.run(
            ["helm", "template", "r", chart, *version, "--set", wrong], capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert reason in done.stderr
