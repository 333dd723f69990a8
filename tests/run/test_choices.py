"""Real campaigns in which results decide what is measured: best points are confirmed, and ramps end."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from campaign import SWEEP, Allocation, Campaign
from lying_fio import through
from waiting import wait_for

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]

CONFIRMED: dict[str, Any] = SWEEP | {
    "phases": ["rand_read"],
    "axes": {"transfer_size": ["4k", "64k"]},
    "options": {"file_size": "256k"},
    "confirm": 3,
}
#: A closed loop with a latency of 40 ms and a width of 4: the more workers beyond it, the longer each one waits.
CLOSED_LOOP = f"""
case "$*" in *--rw=randread*) {through("closed-loop")};; esac
exec "$fio" "$@"
"""
CLIMBED: dict[str, Any] = SWEEP | {
    "phases": ["rand_read"],
    "axes": {"threads_per_node": [1, 2, 4, 8, 16, 32, 64]},
    "options": {"file_size": "64k", "transfer_size": "4k"},
    "ramp": "threads_per_node",
    "phase_time": "2s",
    "repetitions": 2,
}


def kinds(allocation: Allocation) -> dict[str, list[bool]]:
    """Point -> whether each of its repetitions confirms it."""
    found: dict[str, list[bool]] = {}
    for row in sorted(allocation.rows(), key=lambda row: row["repetition"] or 0):
        found.setdefault(row["point"], []).append(row["confirms"])
    return found


def test_the_best_point_is_measured_again(tmp_path: Path) -> None:
    allocation = Allocation(tmp_path, CONFIRMED)
    told = allocation.measure()
    assert "the best point is measured again" in told or "the 2 best points are measured again" in told
    rows = [row for row in allocation.rows() if not row["confirms"]]
    best = max(rows, key=lambda row: (row["verdict"] == "valid", row["ops_per_s"]))["point"]
    assert kinds(allocation)[best] == [False, True, True, True]
    files = allocation.files()
    allocation.measure()  # nothing is left
    assert allocation.files() == files


def test_a_kill_while_it_is_confirmed(tmp_path: Path) -> None:
    allocation = Allocation(tmp_path, CONFIRMED)
    runner = subprocess.Popen(allocation.command(), env=allocation.environment, cwd=allocation.place,
                              stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    wait_for(lambda: any("r002" in file for file in allocation.files()))  # the first one that confirms
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    before = {file: (allocation.results / "points" / file).stat().st_mtime_ns for file in allocation.files()}
    allocation.measure()
    after = kinds(allocation)
    assert sum(sum(own) for own in after.values()) in (3, 6)  # a point for the rate, and perhaps another one's latency
    assert all(len(own) in (1, 4) for own in after.values())
    kept = [file for file in before if file.endswith(".json")]
    assert all((allocation.results / "points" / f).stat().st_mtime_ns == before[f] for f in kept)
    files = allocation.files()
    allocation.measure()
    assert allocation.files() == files


def test_through_the_snakefile(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, phases=["rand_read"], confirm=2, repetitions=1, options={"file_size": "1m"})
    first = campaign.snakemake("-n")
    assert re.search(r"2 points, [46] repetitions left", first), first
    campaign.snakemake()
    assert "nothing left" in campaign.snakemake("-n") or "Nothing to be done" in campaign.snakemake("-n")
    shown = json.loads(campaign.iosweep("show", "tiny", "--json"))
    rate = next(one for one in shown["headlines"] if one["column"] == "ops_per_s")
    assert (rate["best_of"], rate["confirmed"], rate["figure"]["n"]) == (2, True, 2)
    assert "best of 2 points, confirmed by 2 fresh repetitions" in " ".join(campaign.iosweep("show", "tiny").split())
    assert "confirmed by 2 fresh repetitions" in (campaign.results / "report.html").read_text()
    # the best point is superseded as a whole: another one may be the best then, and is confirmed
    campaign.iosweep("rerun", "--campaign", "tiny", rate["point"])
    campaign.snakemake()
    again = json.loads(campaign.iosweep("show", "tiny", "--json"))
    assert all(one["confirmed"] for one in again["headlines"])
    assert not re.search(r"repetitions? left", campaign.snakemake("-n"))


def test_a_ramp_ends_where_the_device_is_saturated(tmp_path: Path) -> None:
    allocation = Allocation(tmp_path, CLIMBED)
    allocation.fake(CLOSED_LOOP)
    allocation.measure()
    rows = {(row["threads_per_node"], row["repetition"]): row for row in allocation.rows()}
    measured = {threads for (threads, _), row in rows.items() if row["verdict"] != "missing"}
    assert measured in ({1, 2, 4, 8, 16}, {1, 2, 4, 8, 16, 32})  # other load may ask for one step more
    last = rows[64, None]
    assert (last["verdict"], last["left"], last["unneeded"]) == ("missing", False, True)
    assert re.fullmatch("not needed: no certain gain above [48] threads per node", last["reasons"])
    for threads in (1, 2):  # half of the peak at most: once is enough
        second = rows[threads, 2]
        assert (second["verdict"], second["left"], second["unneeded"]) == ("missing", False, True)
        assert second["reasons"] == "not needed: far below 95 % of the peak"
    assert {number for threads, number in rows if threads in (4, 8, 16)} == {1, 2}
    files = allocation.files()
    allocation.measure()
    assert allocation.files() == files


def test_a_ramp_goes_on_after_a_kill(tmp_path: Path) -> None:
    allocation = Allocation(tmp_path, CLIMBED)
    allocation.fake(CLOSED_LOOP)
    runner = subprocess.Popen(allocation.command(), env=allocation.environment, cwd=allocation.place,
                              stderr=subprocess.DEVNULL, start_new_session=True)  # fmt: skip
    wait_for(lambda: len(allocation.files()) >= 4)
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    rows = allocation.rows()
    assert all(row["left"] or "far below" in row["reasons"] for row in rows if row["verdict"] == "missing")
    allocation.measure()
    rows = allocation.rows()
    assert not any(row["left"] for row in rows)
    above = {row["threads_per_node"] for row in rows if "no certain gain" in row["reasons"]}
    assert above <= {16, 32, 64}  # a busy machine is no closed loop
