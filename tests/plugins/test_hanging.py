"""A plugin whose probe hangs: the user gets an error after the time limit, and everything else goes on."""

from __future__ import annotations

import json
import time
from typing import Any

BAD = "tp.ones(2, device='bad')"
HANGS = """
import time
@hookimpl
def tensorplay_probe():
    time.sleep(600)
"""
PROGRAM = """
import threading, time

def timed():
    start = time.monotonic()
    told = raised(lambda: tp.ones(2, device="bad"))[1]
    return told, time.monotonic() - start

results = []
worker = threading.Thread(target=lambda: results.append(timed()))
worker.start()
time.sleep(0.2)
start = time.monotonic()
cpu_works()
meanwhile = time.monotonic() - start
waited = worker.is_alive()
worker.join()
results.append(timed())
cpu_works()
record = tp.backends.info("bad")
give([results, meanwhile, waited, str(record.state), record.stage, tp.ones(2, device="good").tolist()])
"""


def test_a_probe_that_hangs_is_given_up_after_the_time_limit_and_everything_else_works(environment: Any) -> None:
    environment.install("bad", HANGS, device=False)
    environment.install("good")
    (first, second), meanwhile, waited, state, stage, good = environment.gives(
        PROGRAM, timeout=60, TENSORPLAY_BACKEND_TIMEOUT="1"
    )
    assert first[0] == second[0]
    assert first[0].startswith("Device 'bad' cannot be used: its backend (tensorplay-bad 1.0) is "), first[0]
    assert "1 s" in first[0] and "probe" in first[0]
    fix = first[0].partition("\nfix: ")[2]
    assert "TENSORPLAY_BACKENDS_BLOCK=bad" in fix and "tensorplay-bad" in fix
    assert 0.9 < first[1] < 20 and second[1] < 0.9  # the second try does not wait again
    assert waited and meanwhile < 0.7  # the CPU did not wait for the load
    assert (state, stage, good) == ("error", "probe", [1.0, 1.0])


def test_a_listing_gives_each_backend_its_time_and_shows_the_rest(environment: Any) -> None:
    environment.install("bad", HANGS, device=False)
    environment.install("good")
    start = time.monotonic()
    listed = environment.tensorplay("backends", "list", "--json", "--timeout", "1")
    assert time.monotonic() - start < 30
    assert listed.code == 0
    rows = {row["name"]: row for row in json.loads(listed.out)}
    assert (rows["bad"]["state"], rows["good"]["state"], rows["cpu"]["state"]) == ("error", "active", "active")
    assert "1 s" in rows["bad"]["reason"] and "TENSORPLAY_BACKENDS_BLOCK=bad" in rows["bad"]["fix"]
    assert environment.tensorplay("backends", "list", TENSORPLAY_BACKENDS_BLOCK="bad").code == 0
