"""The rules for code blocks are kept: what breaks one is named by its line and the reason."""

from __future__ import annotations

import os
import select
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from sample_blocks import blocks_of, commands_of, violations
from sample_runner import BlockFailedError, PageRun

FENCE = "`" * 3

Run = Callable[[str], Path]


def page(text: str) -> str:
    """Code blocks written with ''' instead of their fences."""
    return textwrap.dedent(text).replace("'''", FENCE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("'''\nskitter status\n'''", "without a language"),
        ("'''console\n$ skitter status\n'''", "does not use: console"),
        ("'''python\nprint(\n'''", "not python: "),
        ("<!-- not run: a notebook -->\n'''python\nprint(\n'''", "not python: "),
        ("'''toml\nworkers =\n'''", "not toml: "),
        ("'''json\n{'a': 1}\n'''", "not json: "),
        ("'''yaml\na: [\n'''", "not yaml: "),
        ("<!-- not run: -->\n'''bash\nskitter status\n'''", "needs a reason"),
        ("<!-- needs: oracle -->\n'''bash\nskitter status\n'''", "do not have: oracle"),
        ("<!-- fails -->\n'''text\nerror\n'''", "never run: text"),
        ("'''bash\nskitter crawl shop --frontier redis://127.0.0.1:6379\n'''", "<!-- needs: redis -->"),
        ("<!-- not run: x -->\n'''bash\nskitter crawl shop --wrokers 2\n'''", "no such option: --wrokers"),
        ("<!-- not run: x -->\n'''bash\nskitter crwal shop\n'''", "no such command"),
        ("<!-- not run: x -->\n'''bash\nsudo skitter crawl a \\\n  --nope\n'''", "no such option: --nope"),
        ("<!-- not run: x -->\n'''bash\nA=1 skitter jobs --nope | jq . > out\n'''", "no such option: --nope"),
        ("'''text\n$ skitter status --nope\njob shop\n'''", "no such option: --nope"),
    ],
)
def test_a_violation_is_named_with_its_line(text: str, reason: str) -> None:
    text = page(text)
    (found,) = violations(f"# Title\n\n{text}\n")
    assert found.startswith(f"{3 + text.startswith('<!--')}: ")
    assert reason in found


def test_blocks_that_keep_the_rules_have_no_violations() -> None:
    text = page(
        """
        <!-- not run: needs Docker -->
        '''bash
        docker run skitter crawl http://127.0.0.1:8600/ --max-pages 5 2>/dev/null && echo done
        pip install skitter
        $ skitter schedule add nightly --cron "0 3 * * *" -- crawl shop
        '''

        - in a list:

          '''python
          print("indented")
          '''

        <!-- signature -->
        '''python
        async save_file(data: bytes, *, name: str = "") -> str
        '''

        '''json
        {"a": 1}
        {"a": 2}
        '''
        """
    )
    assert violations(text) == []
    assert [block.code for block in blocks_of(text)][1] == 'print("indented")\n'


def test_commands_are_found_behind_other_words() -> None:
    script = (
        "cd shop && skitter list; sudo -u crawler skitter status -v >log 2>&1\npip install skitter\nskitter --help\n"
    )
    assert list(commands_of(script)) == [["list"], ["status", "-v"], ["--help"]]


@pytest.fixture
def run(tmp_path: Path, demo_address: str) -> Run:
    def run(text: str) -> Path:
        made = PageRun(tmp_path, demo=demo_address, servers={})
        for block in blocks_of(page(text)):
            made.run(block)
        made.check_files()
        return made.folder

    return run


def test_blocks_run_in_order_in_one_folder(run: Run) -> None:
    folder = run(
        """
        '''bash
        mkdir shop
        cd shop
        export ANSWER=42
        '''
        '''python
        # answers/given.py
        ANSWER = 42
        '''
        '''toml
        # skitter.toml
        timeout_seconds = 5
        '''
        '''bash
        [ "$ANSWER" = 42 ]
        skitter settings | grep timeout_seconds > printed
        '''
        '''python
        from answers.given import ANSWER
        open("python", "w").write(str(ANSWER))
        '''
        <!-- fails -->
        '''bash
        false
        echo no > never
        '''
        """
    )
    names = {str(path.relative_to(folder / "shop")) for path in (folder / "shop").rglob("*") if path.is_file()}
    assert {name for name in names if "__pycache__" not in name} == {
        "answers/given.py",
        "skitter.toml",
        "printed",
        "python",
    }
    assert "skitter.toml" in (folder / "shop" / "printed").read_text()


def test_the_demo_site_is_the_one_of_the_tests(run: Run) -> None:
    run(
        """
        '''bash
        skitter fetch http://127.0.0.1:8600/books/1.html | grep '<h1>The'
        skitter demo &
        '''
        """
    )


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ("'''bash\nskitter status --job none\n'''", "2: exit status 2, it must not fail\n"),
        ("<!-- fails -->\n'''bash\ntrue\n'''", "3: exit status 0, it must fail"),
        ("'''python\nraise ValueError('why')\n'''", "ValueError: why"),
        ("'''python\n# spider.py\nimport no_such_module\n'''", "No module named 'no_such_module'"),
        ("'''bash\npip install skitter\n'''", "write <!-- not run: ... -->: it calls pip"),
    ],
)
def test_a_block_that_does_not_do_what_it_promises_is_named(run: Run, block: str, reason: str) -> None:
    with pytest.raises(BlockFailedError) as raised:
        run(f"\n{block}")
    assert reason in str(raised.value)


def test_what_a_block_starts_in_the_background_ends_with_it(run: Run) -> None:
    folder = run("'''bash\nsleep 600 &\necho $! > pid\n'''")
    try:
        ended = os.pidfd_open(int((folder / "pid").read_text()))
    except ProcessLookupError:
        return
    try:
        assert select.select([ended], [], [], 10)[0], "it still runs"
    finally:
        os.close(ended)
