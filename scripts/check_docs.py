"""Check that every relative link in the Markdown files leads to a file, and that no file is half merged.

An anchor of a link must be a heading. Links to other hosts are left alone: a check must not fail because somebody's
server is down. Markers of a merge conflict are looked for in every text file that git tracks or would track.
Prints one line for each finding; the exit status is 1 when there is any.
"""

from __future__ import annotations

import re
import shutil
import subprocess
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
# The line of seven equals signs between the two sides is a heading in other formats; the other three are never alone.
_CONFLICT = re.compile(rb"^(?:<{7}|\|{7}|>{7})(?: |\r?$)", re.MULTILINE)


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


def project_files(root: Path) -> list[Path]:
    """The files that git tracks or would track; without git, all that are in no hidden or built folder."""
    git = shutil.which("git")
    if git and (root / ".git").exists():
        command = [git, "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return [path for name in listed.split("\0") if name and (path := root / name).is_file()]
    skipped = {*SKIPPED_FOLDERS, "__pycache__"}
    return [
        path
        for path in root.rglob("*")
        if path.is_file()
        and not any(
            (folder.startswith(".") and folder != ".ci") or folder in skipped
            for folder in path.relative_to(root).parts[:-1]
        )
    ]


def conflict_markers(root: Path) -> list[str]:
    """``file:line`` for each line that a merge has left behind."""
    found = []
    for path in project_files(root):
        content = path.read_bytes()
        if b"\0" in content[:8000]:
            continue  # not text, as git judges it
        for marker in _CONFLICT.finditer(content):
            line = content.count(b"\n", 0, marker.start()) + 1
            found.append(f"{path.relative_to(root)}:{line}")
    return found


def main() -> int:
    links_broken, conflicts = broken_links(ROOT), conflict_markers(ROOT)
    for problem in links_broken:
        print(f"error: broken link: {problem}", file=sys.stderr)
    for place in conflicts:
        print(f"error: marker of a merge conflict: {place}", file=sys.stderr)
    if links_broken or conflicts:
        return 1
    print(f"links of {len(markdown_files(ROOT))} Markdown files lead somewhere, and no file is half merged")
    return 0


if __name__ == "__main__":
    sys.exit(main())
