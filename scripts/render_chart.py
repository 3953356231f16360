"""Render the Helm chart into the files that the tests check: scripts/render_chart.py [--check]

Tests run where no helm is, so what it made of the chart is committed. Each file names the hash of its sources: a chart
that was changed and not rendered again is found without helm.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CHART = ROOT / "deploy" / "helm" / "skitter"
RENDERED = ROOT / "tests" / "unit" / "deployment" / "rendered"
VALUES: dict[str, Path | None] = {"default": None, "example": ROOT / "deploy" / "helm" / "values-example.yaml"}
KUBERNETES = "1.31.0"


def sources_hash() -> str:
    """Return the hash of the chart and of the values that it is rendered with."""
    paths = [*(path for path in CHART.rglob("*") if path.is_file()), *(path for path in VALUES.values() if path)]
    digest = hashlib.sha256()
    for path in sorted(paths):
        digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def head() -> str:
    """Return the first line of a rendered file."""
    return f"# By scripts/render_chart.py, from sources with the SHA-256 {sources_hash()}\n"


def rendered(name: str) -> str:
    """Return what helm makes of the chart with the values of this name."""
    values = VALUES[name]
    words = ["helm", "template", "crawl", str(CHART), "--namespace", "crawl", "--kube-version", KUBERNETES]
    words += ["-f", str(values)] if values else []
    return head() + subprocess.run(words, check=True, capture_output=True, text=True).stdout


def main(arguments: list[str]) -> int:
    stale = []
    for name in VALUES:
        path, text = RENDERED / f"{name}.yaml", rendered(name)
        if "--check" not in arguments:
            path.write_text(text, encoding="utf-8")
        elif not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(name)
    for name in stale:
        print(f"error: not what helm renders: {name}.yaml", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
