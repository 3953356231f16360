"""Check that every relative link in the Markdown files leads to a file, and every anchor to a heading.

Links to other hosts are left alone: a check must not fail because somebody's server is down.
Prints one line for each broken link; the exit status is 1 when there is any.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SKIPPED_FOLDERS = {"build", "dist", "node_modules"}

_FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_DEFINITION = re.compile(r"^\[[^\]]+\]:\s+<?(\S+?)>?\s*$", re.MULTILINE)
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)
_ABSOLUTE = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*:|//")


def markdown_files(root: Path) -> list[Path]:
    """Every Markdown file of the project; hidden folders (an environment, caches) do not belong to it."""
    found = []
    for path in root.rglob("*.md"):
        folders = path.relative_to(root).parts[:-1]
        if not any(folder.startswith(".") or folder in SKIPPED_FOLDERS for folder in folders):
            found.append(path)
    return sorted(found)


def anchors(text: str) -> set[str]:
    """The names that headings can be linked by: lower case, spaces as hyphens, punctuation dropped."""
    names: set[str] = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
        unique, repeat = name, 0
        while unique in names:
            repeat += 1
            unique = f"{name}-{repeat}"
        names.add(unique)
    return names


def links(text: str) -> list[str]:
    """The targets of all links outside code."""
    prose = _CODE.sub("", _FENCE.sub("", text))
    return _LINK.findall(prose) + _DEFINITION.findall(prose)


def broken_links(root: Path) -> list[str]:
    """``file: link: reason`` for each relative link that leads nowhere."""
    problems = []
    for page in markdown_files(root):
        for link in links(page.read_text(encoding="utf-8")):
            reason = _flaw(root, page, link)
            if reason:
                problems.append(f"{page.relative_to(root)}: {link}: {reason}")
    return problems


def _flaw(root: Path, page: Path, link: str) -> str | None:
    if _ABSOLUTE.match(link):
        return None
    name, _, anchor = link.partition("#")
    target = (page.parent / name).resolve() if name else page
    if not target.is_relative_to(root.resolve()):
        return "leads out of the project"
    if not target.exists():
        return "no such file"
    if anchor and target.suffix == ".md" and anchor not in anchors(target.read_text(encoding="utf-8")):
        return "no such heading"
    return None


def main() -> int:
    problems = broken_links(ROOT)
    for problem in problems:
        print(f"error: broken link: {problem}", file=sys.stderr)
    if not problems:
        print(f"links of {len(markdown_files(ROOT))} Markdown files lead somewhere")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
