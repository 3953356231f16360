"""The sampler finds CPU where it was burnt. In processes of its own: it takes a signal and a timer."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from skitter.bench.sampling import uncertainty

BURN = """
import random, sys, threading, time
import msgspec
from skitter.bench.sampling import Sampler

def made(name):
    place = {"__name__": name, "time": time}
    exec('''
def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
''', place)
    return place["burn"]

chance = random.Random(1)
alpha, beta, unknown = made("alpha"), made("beta.inside"), made("unknown")
with Sampler({"alpha": "parse", "beta": "join"}) as sampler:
    for _ in range(40):
        # Uneven, and a rest anywhere, so that nobody keeps time with the ticks.
        share = chance.uniform(0.002, 0.008)
        steps = [(alpha, share), (beta, 0.02 - share), (time.sleep, 0.002)]
        for step, seconds in chance.sample(steps, 3):
            step(seconds)
    thread = threading.Thread(target=unknown, args=(0.1,), name="sink-0")
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
    unknown(0.1)
sys.stdout.buffer.write(msgspec.json.encode(sampler.result()))
"""


def test_cpu_is_found_where_it_was_burnt() -> None:
    ended = subprocess.run([sys.executable, "-c", BURN], capture_output=True, check=True)
    found = json.loads(ended.stdout)
    parts = found["parts"]
    # By samples, which are few on a busy machine: five standard errors.
    error = 5 * 0.9 * uncertainty(0.25, found["samples"])
    assert parts["parse"] == pytest.approx(0.2, abs=error)
    assert parts["join"] == pytest.approx(0.6, abs=error)
    # A thread by its own clock, but for its last tick.
    assert parts["sink"] == pytest.approx(0.1, abs=0.025)
    assert parts["overhead"] == pytest.approx(0.1, abs=error)
    assert sum(parts.values()) == pytest.approx(found["cpu_seconds"])
    assert found["samples"] > 20


def test_a_tick_that_comes_late_ends_nothing() -> None:
    code = (
        "import signal; from skitter.bench.sampling import Sampler\n"
        "with Sampler() as sampler: pass\n"
        "signal.raise_signal(signal.SIGPROF); print(sampler.result().samples)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ended.stdout.strip() == b"0"
