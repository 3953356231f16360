"""Sphinx's configuration of the rendered documentation (``make site``).

The source folder is the root of the project, so that links between docs/ and the pages next to it (README, CHANGELOG)
stay as they are in the repository. The navigation is made of docs/index.md: its links say the order.
"""

from __future__ import annotations

import functools
import html
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent

project = "skitter"
version = release = re.findall(r'__version__ = "(.+)"', (ROOT / "src/skitter/_version.py").read_text(encoding="utf-8"))[
    0
]

extensions = ["myst_parser", "sphinx_copybutton"]
root_doc = "docs/index"
include_patterns = ["*.md", "docs/**.md", "examples/*/README.md"]
exclude_patterns = [".*", "build", "dist", "src", "tests", "bench", "deploy", "scripts"]
templates_path = ["site/templates"]
html_static_path = ["site/static"]

myst_enable_extensions: list[str] = []
myst_heading_anchors = 6
nitpicky = True
# The lexers know more than they must: JSON lines, shortened output, placeholders.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = f"skitter {version}"
html_css_files = ["skitter.css"]
html_search_scorer = str(DOCS / "site" / "scorer.js")
html_js_files = ["../../versions.js", "versions.js"]
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/versions.html",
        "sidebar/scroll-end.html",
    ]
}
pygments_style = "friendly"
pygments_dark_style = "native"
copybutton_prompt_text = r"\$ |>>> |\.\.\. "
copybutton_prompt_is_regexp = True

PARTS = {
    "": "Start",
    "tutorial": "Tutorials",
    "how-to": "How-to guides",
    "reference": "Reference",
    "explanation": "Explanation",
    "zh": "中文",
}
PROJECT_PAGES = ["README", "README.zh-CN", "CHANGELOG", "CONTRIBUTING", "SECURITY"]


@functools.cache
def navigation() -> list[tuple[str, list[str]]]:
    """The parts of the sidebar: a title and its pages. docs/index.md says the order by its links."""
    linked = [f"docs/{name}" for name in _linked(DOCS / "index.md")]
    parts = [(title, _ordered(_pages(DOCS / folder), linked)) for folder, title in PARTS.items()]
    project_pages = [page for page in PROJECT_PAGES if (ROOT / f"{page}.md").exists()]
    examples = [_name(path) for path in sorted((ROOT / "examples").glob("*/README.md"))]
    return [*parts, ("Project", ["docs/adr/index", *project_pages, *examples])]


@functools.cache
def children(page: str) -> list[str]:
    """The pages beside an index of a folder, unless the folder is a part of the sidebar."""
    index = ROOT / f"{page}.md"
    if index.name != "index.md" or index.parent in [DOCS / folder for folder in PARTS]:
        return []
    linked = [str(Path(page).with_name(name)) for name in _linked(index)]
    return _ordered([name for name in _pages(index.parent) if name != page], linked)


def _linked(page: Path) -> list[str]:
    return re.findall(r"\]\(([\w/-]+)\.md", page.read_text(encoding="utf-8"))


def _ordered(pages: list[str], linked: list[str]) -> list[str]:
    return sorted(pages, key=(linked + pages).index)


def _pages(folder: Path) -> list[str]:
    """The pages of a folder, and indexes of those in it."""
    found = [*sorted(folder.glob("*.md")), *(sorted(folder.glob("*/index.md")) if folder != DOCS else [])]
    return [name for name in map(_name, found) if name != root_doc]


def _name(path: Path) -> str:
    return path.relative_to(ROOT).with_suffix("").as_posix()


def add_toctrees(_app: Any, name: str, source: list[str]) -> None:
    """Append hidden tables of contents, by which Sphinx knows which page follows which."""
    listed = [pages for _, pages in navigation()] if name == root_doc else [children(name)]
    for pages in filter(None, listed):
        lines = ["", "", "```{toctree}", ":hidden:", "", *(f"/{page}" for page in pages), "```", ""]
        source[0] += "\n".join(lines)


def add_sidebar(app: Any, name: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """Write the sidebar by titles alone: Sphinx copies every heading of every page for it, half of a build's time."""
    to = context["pathto"]

    def item(page: str, level: int) -> str:
        below = children(page) if name == page or str(Path(page).parent) == str(Path(name).parent) else []
        inner = "".join(item(child, level + 1) for child in below)
        link = f'<a class="reference internal" href="{to(page)}">{html.escape(app.env.titles[page].astext())}</a>'
        current = " current current-page" if page == name else " current" if name in below else ""
        return f'<li class="toctree-l{level}{current}">{link}{f"<ul>{inner}</ul>" if inner else ""}</li>'

    def tree(**_options: Any) -> str:
        parts = []
        for title, pages in navigation():
            parts.append(f'<p class="caption" role="heading"><span class="caption-text">{title}</span></p>')
            parts.append(f"<ul>{''.join(item(page, 1) for page in pages)}</ul>")
        return "".join(parts)

    context["toctree"] = tree


def setup(app: Any) -> dict[str, Any]:
    app.connect("source-read", add_toctrees)
    app.connect("html-page-context", add_sidebar, priority=400)  # before the theme asks for it
    return {"parallel_read_safe": True, "parallel_write_safe": True}
