"""The options of ``skitter bench``: mistakes are told before anything is begun."""

from __future__ import annotations

import pytest

from skitter.bench import bench_frontiers, sites
from skitter.cli import main
from skitter.cli.arguments import whole
from skitter.errors import UsageError


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("1e6", 1_000_000), ("1E4", 10_000), ("2.5e3", 2500)])
def test_numbers_may_be_written_short(text: str, number: int) -> None:
    assert whole(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1e-3", "x", "", "nan", "inf", "1e18"])
def test_what_is_no_number_of_things_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        whole(text)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["frontier", "--pages", "10"], "not an option of this bench: --pages"),
        (["frontier", "--profile"], "not an option of this bench: --profile"),
        (["--requests", "10"], "not an option of this bench: --requests"),
        (["--duplicates", "0"], "not an option of this bench: --duplicates"),
        (["frontier", "--duplicates", "100"], "not a percentage under 100: 100"),
        (["frontier", "--requests", "10", "--hosts", "11"], "more hosts than requests"),
        (["--rounds", "0"], "not a number above zero: 0"),
        (["--frontier", "ftp://x"], "not a frontier: ftp://x"),
        (["frontier", "--frontier", "mysql:x"], "not a frontier: mysql:x"),
        (["--profile", "--frontier", "memory:", "--frontier", "sqlite:"], "a profile takes one frontier"),
        (["crawl"], "invalid choice: 'crawl'"),
        (["--url", "example.com"], "not an absolute URL: example.com"),
        (["--url", "http://93.184.216.34/"], "not a server on this machine or its network: 93.184.216.34"),
    ],
)
def test_a_mistake_is_told(words: list[str], problem: str, capsys) -> None:
    assert main(["bench", *words]) == 2
    told = capsys.readouterr()
    assert problem in told.err.splitlines()[0]
    assert told.out == ""


def test_a_file_that_is_there_is_left_alone(tmp_path, capsys) -> None:
    path = tmp_path / "mine.db"
    path.write_bytes(b"mine")
    assert main(["bench", "--frontier", f"sqlite:{path}"]) == 2
    assert "the file already exists" in capsys.readouterr().err
    assert path.read_bytes() == b"mine"


def test_frontiers_are_told_apart_by_short_names_without_secrets() -> None:
    first, second = "redis://one:6379", "redis://:sesame@two:6379"
    names = bench_frontiers.names_of(["memory:", "sqlite:", first, second, first])
    assert list(names) == ["memory:", "sqlite:", first, second]
    assert list(names.values())[:3] == ["memory", "sqlite", "redis"]
    assert "two" in names[second]
    assert "sesame" not in names[second]


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://localhost/", "http://[::1]:8000/x", "http://10.1.2.3/"])
def test_servers_of_this_network_may_be_measured(url: str) -> None:
    with sites.opened(url, 10) as site:
        assert (site.url, site.pages, site.is_own) == (url, 10, False)
