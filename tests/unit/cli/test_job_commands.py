"""The commands that look at a job and steer it, on a real file."""

from __future__ import annotations

import io
import json
import sys

import pytest

from skitter.app.views.status import status_view
from skitter.cli.status import as_json, as_text

SEED = "http://a.example/"


@pytest.fixture
def status(skitter, job):
    def read() -> dict:
        return json.loads(skitter("status", "--job", job, "--json").out)

    return read


# ---- which job


def test_the_only_job_here_needs_no_name(skitter, job) -> None:
    assert json.loads(skitter("status", "--json").out)["job"] == "books"


def test_a_file_is_named_after_its_job(skitter, job) -> None:
    assert json.loads(skitter("status", "--frontier", "sqlite:.skitter/books.db", "--json").out)["job"] == "books"


def test_of_several_jobs_one_has_to_be_named(skitter, job, folder) -> None:
    (folder / ".skitter" / "other.db").touch()
    code, _, err = skitter("status")
    assert code == 2
    assert "books, other" in err


@pytest.mark.parametrize("command", ["status", "failed", "retry", "pause", "resume", "stop", "worker"])
def test_no_job_at_all(skitter, command) -> None:
    said = skitter(command)
    assert said.code == 2
    assert said.err.startswith("error: which job?\nhint: ")


def test_a_name_that_is_nearly_right(skitter, job) -> None:
    said = skitter("status", "--job", "boks")
    assert (said.code, said.err) == (2, "error: no such job here: boks\nhint: did you mean books ?\n")


def test_another_job_in_the_file(skitter, job) -> None:
    assert skitter("status", "--frontier", "sqlite:.skitter/books.db", "--job", "other").code == 2


@pytest.mark.parametrize(
    ("frontier", "code"), [("memory:", 2), ("redis:x", 2), ("sqlite:missing.db", 3), ("sqlite:text.db", 3)]
)
def test_a_frontier_that_cannot_be_asked(skitter, folder, frontier, code) -> None:
    (folder / "text.db").write_text("this is no database at all, but it has a few bytes")
    said = skitter("status", "--frontier", frontier, "--job", "x")
    assert said.code == code
    assert said.err.count("\nhint: ") == 1


# ---- status


def test_status_has_every_key_that_was_promised(status) -> None:
    answer = status()
    promised = "job state run queued delayed leased done redirected failed excluded seen undelivered exact workers"
    assert answer.keys() >= set(promised.split())
    places = ("queued", "delayed", "leased", "done", "redirected", "failed", "excluded")
    assert [answer[place] for place in places] == [1, 0, 0, 2, 0, 2, 1]
    assert answer["seen"] == 6
    assert answer["exact"] is True
    assert (answer["workers"], answer["worker_list"]) == (0, [])
    assert answer["errors"] == {"http_4xx": 1, "callback": 1}


def test_status_in_words(skitter, job) -> None:
    out = skitter("status").out
    assert out.startswith(
        "job       books, run 1, built-in spider\nstate     interrupted, no live workers, begun 0:00:0"
    )
    assert "failed      2  callback 1, http_4xx 1" in out


# ---- failed and retry


def test_failed_lists_what_failed(skitter, job) -> None:
    out = skitter("failed").out
    assert "http_4xx 404  http://a.example/missing\n    HTTP 404, 1 attempt, found on http://a.example/" in out
    # One line of the error, and nothing that a terminal would obey.
    assert "callback 200  http://a.example/broken\n    ValueError: a [31mred[0m price, 1 attempt" in out
    assert "Traceback" not in out
    assert "\x1b" not in out


@pytest.mark.parametrize("words", [["-v"], ["--url", SEED + "broken"]])
def test_the_traceback_is_shown_when_asked_for(skitter, job, words) -> None:
    assert '    |   File "books.py", line 8, in parse' in skitter("failed", *words).out


def test_failed_as_lines_of_json(skitter, job) -> None:
    records = [json.loads(line) for line in skitter("failed", "--json").out.splitlines()]
    assert {record["url"]: record["error_class"] for record in records} == {
        SEED + "missing": "http_4xx",
        SEED + "broken": "callback",
    }
    assert "Traceback" in records[-1]["error"] + records[0]["error"]


def test_failed_by_class_and_limit(skitter, job) -> None:
    assert len(skitter("failed", "--json", "--class", "callback").out.splitlines()) == 1
    assert len(skitter("failed", "--json", "--limit", 1).out.splitlines()) == 1
    assert "... and 1 more" in skitter("failed", "--limit", 1).err
    assert skitter("failed", "--class", "dns").err == "nothing failed with class dns\n"
    assert skitter("failed", "--limit", "few").code == 2


def test_failed_of_a_url_that_did_not_fail(skitter, job) -> None:
    said = skitter("failed", "--url", SEED + "done")
    assert said.out == ""
    assert "skitter why http://a.example/done" in said.err


@pytest.mark.parametrize(
    ("words", "retried", "failed"),
    [([], 2, 0), (["--class", "http_4xx"], 1, 1), ([SEED + "broken"], 1, 1), (["--class", "dns"], 0, 2)],
)
def test_retry(skitter, status, job, words, retried, failed) -> None:
    said = skitter("retry", *words, "--json")
    assert said.code == 0
    assert json.loads(said.out)["retried"] == retried
    assert (status()["failed"], status()["queued"]) == (failed, 1 + retried)


def test_retry_of_a_url_that_did_not_fail_revives_nothing(skitter, status, job) -> None:
    said = skitter("retry", SEED + "done")
    assert said.code == 2
    assert "error: no failed request with this URL: http://a.example/done" in said.err
    assert status()["failed"] == 2


def test_retry_says_which_classes_there_are(skitter, job) -> None:
    assert skitter("retry", "--class", "dns").err == "classes that failed: callback 1, http_4xx 1\n"


# ---- pause, resume, stop


def test_steering_prints_the_state_after(skitter, job) -> None:
    assert skitter("pause").out == "books: paused\n"
    assert skitter("resume").out == "books: running\n"
    assert skitter("stop").out == "books: stopped\n"
    assert json.loads(skitter("stop", "--json").out)["reason"] == "command"


# ---- add


def test_add_counts_new_known_and_bad(skitter, status, job) -> None:
    code, out, err = skitter("add", SEED + "new", SEED, "example.com", "mailto:a@b.example")
    assert (code, out) == (0, "books: 1 request added, 1 duplicate\n")
    assert err.startswith("bad URL: argument 3: not an absolute URL: example.com\nbad URL: argument 4: ")
    assert status()["queued"] == 2


def test_add_reads_files_of_any_length(skitter, status, job, folder) -> None:
    lines = ["\ufeff# a comment", "", *(f"{SEED}{number}" for number in range(2500)), "nonsense", SEED + "0"]
    (folder / "urls.txt").write_bytes("\r\n".join(lines).encode() + b"\r\nhttp://a.example/\xff\n")
    said = skitter("add", "--file", "urls.txt", "--json")
    assert json.loads(said.out) == {"job": "books", "added": 2501, "duplicates": 1, "known": 1, "bad": 1}
    assert "bad URL: line 2503: " in said.err
    assert status()["queued"] == 2502


def test_add_reads_a_pipe(skitter, job, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"http://b.example/\n")))
    assert skitter("add", "--file", "-").out == "books: 1 request added, 0 duplicates\n"


def test_many_bad_lines_are_counted_and_not_all_shown(skitter, job, folder) -> None:
    (folder / "urls.txt").write_text("nonsense\n" * 100)
    code, _, err = skitter("add", "--file", "urls.txt")
    assert code == 2
    assert err.count("bad URL: ") == 20
    assert "... and 80 more bad URLs" in err
    assert "error: no valid URL to add" in err


@pytest.mark.parametrize("words", [[], ["--file", "missing.txt"]])
def test_add_of_nothing(skitter, job, words) -> None:
    assert skitter("add", *words).code == 2


@pytest.mark.parametrize(
    ("typed", "shown"), [("high", "100 (high)"), ("LOW", "-100 (low)"), ("critical", "1000 (critical)"), ("-7", "-7")]
)
def test_added_urls_have_the_priority_that_was_named(skitter, job, typed, shown) -> None:
    skitter("add", SEED + "new", f"--priority={typed}")
    assert f", priority {shown}\n" in skitter("why", SEED + "new").out


@pytest.mark.parametrize("typed", ["urgent", "1.5", "9223372036854775808"])
def test_a_priority_that_there_is_not_is_refused(skitter, job, typed) -> None:
    code, _, err = skitter("add", SEED + "new", "--priority", typed)
    assert (code, err.splitlines()[0]) == (2, f"error: not a priority: {typed}")


def test_an_added_url_permits_its_host(skitter, job) -> None:
    skitter("add", "http://127.0.0.1:9/")
    assert "a seed, added" in skitter("why", "http://127.0.0.1:9/").out


# ---- why


@pytest.mark.parametrize(
    ("url", "words"),
    [
        (SEED + "done", ["done: done", "fetched ", "status 200, 1 attempt", "found on http://a.example/, ", "depth 1"]),
        (SEED, [": done", "a seed, added "]),
        (
            SEED + "missing",
            ["missing: failed", "http_4xx, status 404: HTTP 404", "skitter retry http://a.example/missing"],
        ),
        (SEED + "broken", [": failed", "callback, status 200: ValueError: a [31mred[0m price", "skitter failed --url"]),
        (SEED + "private", ["excluded ", "by robots.txt line 2: Disallow: /private (group: *)"]),
        (SEED + "waiting#part", ["waiting: queued", "no worker is running", "it can be fetched now"]),
        (SEED + "private/2", ["never seen", "excluded by robots.txt line 2: Disallow: /private (group: *)"]),
        ("https://other.example/", ["never seen", "outside the scope: https://other.example is not among"]),
        (SEED + "elsewhere", ["never seen", "no link to it has been found", "may still be found"]),
        (SEED + "a/" * 11, ["never seen", "rule trap_repeats: its path repeats one segment too often"]),
        ("ftp://a.example/", ["never seen", "can never be crawled: not a URL to crawl (scheme)"]),
    ],
)
def test_why(skitter, job, url, words) -> None:
    said = skitter("why", url)
    assert said.code == 0
    assert "\x1b" not in said.out
    for word in words:
        assert word in said.out


def test_why_says_that_the_job_stands_still(skitter, job) -> None:
    skitter("pause")
    assert "the job is paused: no requests are started" in skitter("why", SEED + "waiting").out


def test_why_as_json(skitter, job) -> None:
    answer = json.loads(skitter("why", SEED + "missing", "--json").out)
    assert (answer["state"], answer["error_class"], answer["attempts"]) == ("failed", "http_4xx", 1)
    assert json.loads(skitter("why", SEED + "x", "--json").out)["state"] == "unseen"


@pytest.mark.parametrize("words", [["a.example/x"], []])
def test_why_of_no_url(skitter, job, words) -> None:
    said = skitter("why", *words)
    assert said.code == 2
    assert "hint: " in said.err


def test_status_says_when_its_counts_are_not_from_one_instant(make_report) -> None:
    for exact in (True, False):
        status = status_view(make_report(exact=exact), "redis+cluster://…")
        assert as_json(status)["exact"] is exact
        assert ("not exact" in "\n".join(as_text(status, 0.0))) is not exact
