"""Render the documentation with Sphinx to build/site/VERSION/ and list all versions there: ``make site``.

A warning fails the build: a link or an anchor that does not exist, a page that no other leads to. Nothing is loaded
from another host, and pages also work when they are opened as files. Builds of other versions in build/site/ are kept:
copy them there, and the list of versions has them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
INDEX = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>skitter: versions of the documentation</title>
<style>:root {{ color-scheme: light dark; }} body {{ margin: 3rem auto; max-width: 40rem; padding: 0 1rem;
font: 1rem/1.6 system-ui, sans-serif; }}</style>
<h1>skitter documentation</h1>
<ul>
{items}
</ul>
</html>
"""
_REDIRECT = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">\n'
_LOADED = re.compile(
    r'<(?:script|img|iframe)\b[^>]*\bsrc="(?:https?:)?//'
    r'|<link\b(?=[^>]*\brel="stylesheet")[^>]*\bhref="(?:https?:)?//'
)


def version() -> str:
    text = (ROOT / "src" / "skitter" / "_version.py").read_text(encoding="utf-8")
    found = re.search(r'^__version__ = "(.+)"', text, re.MULTILINE)
    assert found is not None
    return found[1]


def build(folder: Path) -> int:
    """Run Sphinx; its exit status."""
    options = ["-q", "-W", "--keep-going", "-j", str(os.cpu_count() or 1), "-b", "html"]
    places = ["-c", str(ROOT / "docs"), "-d", str(ROOT / "build" / "site-cache"), str(ROOT), str(folder)]
    return subprocess.run([sys.executable, "-m", "sphinx", *options, *places], check=False).returncode


def versions() -> dict[str, list[str]]:
    """The versions in build/site/ with their pages, newest first."""
    folders = [path for path in SITE.iterdir() if (path / "docs" / "index.html").is_file()]
    folders.sort(key=lambda path: [int(number) for number in re.findall(r"\d+", path.name)], reverse=True)
    return {
        folder.name: sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))
        for folder in folders
    }


def foreign_resources(folder: Path) -> list[str]:
    """Pages that load a script, a style or an image from another host."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*.html"))
        if _LOADED.search(path.read_text(encoding="utf-8"))
    ]


def main() -> int:
    folder = SITE / version()
    if status := build(folder):
        return status
    (folder / "index.html").write_text(_REDIRECT, encoding="utf-8")
    if foreign := foreign_resources(folder):
        print(f"error: pages that need another host: {', '.join(foreign)}", file=sys.stderr)
        return 1
    known = versions()
    listed = f"const versions = {json.dumps(list(known))};\nconst versionPages = {json.dumps(known)};\n"
    (SITE / "versions.js").write_text(listed, encoding="utf-8")
    items = "\n".join(f'<li><a href="{name}/docs/index.html">{name}</a></li>' for name in known)
    (SITE / "index.html").write_text(INDEX.format(items=items), encoding="utf-8")
    print(f"{len(known[folder.name])} pages: {folder.relative_to(ROOT)}/docs/index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
