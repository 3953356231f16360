"""Numbers in the options of ``skitter bench``, the names of its frontiers, and the servers that it may measure."""

from __future__ import annotations

import pytest

from skitter.bench import bench_frontiers, sites
from skitter.cli.arguments import whole
from skitter.errors import UsageError


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("1e6", 1_000_000), ("1E4", 10_000), ("2.5e3", 2500)])
def test_numbers_may_be_written_short(text: str, number: int) -> None:
    assert whole(text) == number


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1e-3", "x", "", "nan", "inf", "1e18"])
def test_what_is_no_number_of_things_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        whole(text)


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
