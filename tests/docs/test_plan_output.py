"""The figures of ``skitter plan`` on the pages about capacity are those that it prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
SHOWN = re.compile(r"```bash\n(skitter plan [^\n]*)\n```\n+```text\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", ["docs/explanation/scale.md", "docs/how-to/capacity.md"])
def test_the_output_on_the_page_is_that_of_the_command(skitter: Any, page: str) -> None:
    samples = SHOWN.findall((ROOT / page).read_text(encoding="utf-8"))
    assert samples
    for command, output in samples:
        printed = skitter.run(*command.split()[1:]).stdout.splitlines()
        assert [line for line in output.splitlines() if line != "..." and line not in printed] == []
