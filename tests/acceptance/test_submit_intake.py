"""``skitter submit --intake``: reads a source into a job that others work on, until it ends or is interrupted."""

from __future__ import annotations

import json
import signal

import redis

from skitter.testing.web import WebSpec, served

QUICK = ("--set", "retry_delay_seconds=0.05", "--set", "host_backoff_seconds=0.2", "--allow-private", "--max-depth", 0)


def _seen(skitter, place) -> int:
    """How many requests the job has; 0 before it has begun."""
    status = skitter.run("status", "--json", *place, code=None)
    return json.loads(status.stdout)["seen"] if status.returncode == 0 else 0


def test_urls_of_a_pipe_are_submitted_and_crawled_by_a_worker(skitter) -> None:
    place = ("--frontier", "sqlite:jobs.db", "--job", "piped")
    with served(WebSpec(hosts=1, pages_per_host=5)) as web:
        skitter.write("urls", "\n".join([*web.urls, "no URL at all", *web.urls]))
        with (skitter.folder / "urls").open() as urls:
            submitted = skitter.run("submit", "--intake", "-", *place, *QUICK, stdin=urls)
        assert "3 messages were read, 1 requests were new, 1 are dead letters" in submitted.stderr
        skitter.run("worker", *place)
    status = skitter.json("status", *place)
    assert (status["state"], status["done"]) == ("finished", 1)


def test_a_submission_that_is_interrupted_leaves_its_source_open_for_the_next_reader(skitter, services, until) -> None:
    url = services.need("redis")["url"]
    place, source = ("--frontier", "sqlite:jobs.db", "--job", "listed"), f"{url}?type=list#urls-of-a-submission"
    with redis.Redis.from_url(url) as client, served(WebSpec(hosts=1, pages_per_host=30)) as web:
        pages = sorted(web.expected().done)[:20]
        client.rpush("urls-of-a-submission", *pages[:10])
        with skitter.start("submit", "--intake", source, *place, *QUICK, stdout=None, stderr=None) as reader:
            until(lambda: _seen(skitter, place) == 10, reader)
            reader.send_signal(signal.SIGINT)
        assert reader.returncode == 130
        assert not client.exists("urls-of-a-submission")
        client.rpush("urls-of-a-submission", *pages[10:])
        skitter.run("worker", "--intake", source, "--until-idle", 0.5, *place)
        status = skitter.json("status", *place)
        assert status["state"] == "finished"
        assert status["seen"] == 20
        assert not client.exists("urls-of-a-submission")
