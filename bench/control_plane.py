"""Calls and bytes that a node costs its Redis beside the pages, busy and idle.

control_plane.py [--seeds 20000] [--seconds 10] [--json FILE]

A private Redis, the synthetic web and one ``skitter crawl`` with two workers, as in life. The job has many seeds on the
command line, of which its record keeps a copy. Commands and the bytes that the server sends are counted by the server
(INFO) while the crawl runs, and while it is paused. Calls are scripts and MGET: what scripts call themselves cannot be
told from other commands of a client, such as the GET that reads the state.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from rig.servers.redis import IN_MEMORY, OwnRedis
from skitter.testing.web import WebSpec, served

SETTLE_SECONDS = 5.0
"""After the start and after the pause, before it is counted."""
SKITTER = [sys.executable, "-m", "skitter"]


def counted(redis: OwnRedis, seconds: float) -> dict[str, float]:
    """Scripts and reads that clients have sent, and bytes that they were sent, a second."""
    first, began = _figures(redis), time.monotonic()
    time.sleep(seconds)
    last, took = _figures(redis), time.monotonic() - began
    return {name: round((last[name] - first[name]) / took, 1) for name in first}


def _figures(redis: OwnRedis) -> dict[str, int]:
    stats, commands = _info(redis, "stats"), _info(redis, "commandstats")
    of_clients = ("cmdstat_evalsha", "cmdstat_mget")
    calls = {name: int(commands.get(name, "calls=0").partition("=")[2].partition(",")[0]) for name in of_clients}
    return {"calls": sum(calls.values()), "bytes": int(stats["total_net_output_bytes"])}


def _info(redis: OwnRedis, section: str) -> dict[str, str]:
    return dict(line.split(":", 1) for line in redis.say("INFO", section).splitlines() if ":" in line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, served(WebSpec(hosts=4)) as web:
        redis = OwnRedis(Path(folder, "redis"), *IN_MEMORY)
        seeds = [f"{web.urls[n % 4]}?seed={n}" for n in range(options.seeds)]
        place = ["--frontier", redis.url, "--job", "control"]
        settings = ["--workers", "2", "--delay", "0.05", "--allow-private", "--max-depth", "0", "-o", "out.jsonl"]
        with Path(folder, "log").open("wb") as log:
            crawl = subprocess.Popen([*SKITTER, "crawl", *place, *settings, *seeds], cwd=folder, stdout=log, stderr=log)
            try:
                time.sleep(SETTLE_SECONDS)
                assert crawl.poll() is None, Path(folder, "log").read_text()[-2000:]
                found = {"busy": counted(redis, options.seconds)}
                subprocess.run([*SKITTER, "pause", *place], cwd=folder, check=True, stdout=log, stderr=log)
                time.sleep(SETTLE_SECONDS)
                found["idle"] = counted(redis, options.seconds)
                assert crawl.poll() is None, Path(folder, "log").read_text()[-2000:]
            finally:
                crawl.terminate()
                crawl.wait()
                redis.kill()
    for condition, figures in found.items():
        print(f"{condition}: {figures['calls']:,.1f} calls/s, {figures['bytes'] / 1000:,.1f} KB/s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
