"""What a plan takes: time, bytes, space, files and memory, counted by hand; and what the limits refuse."""

from pathlib import Path
from typing import Any

import pytest

from campaign import METADATA, document, make, problems, read
from iosweep.errors import ConfigError
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan

KIB, MIB, GIB, TIB = 1 << 10, 1 << 20, 1 << 30, 1 << 40


def test_forecast_of_reads(tmp_path: Path) -> None:
    cost = forecast.of(make(tmp_path))
    # 12 points of 1 s and 0.45 s of start-up, and two files of 16 MiB written at 1 GiB/s
    assert cost.time_s == pytest.approx(12 * 1.45 + 1 / 32)
    assert (cost.points, cost.repetitions, cost.allocations) == (12, 12, 1)
    assert cost.node_hours == pytest.approx(cost.time_s / 3600)
    assert cost.bytes_written == cost.peak_bytes == 2 * 16 * MIB
    assert cost.inodes == 2
    assert cost.memory_per_node_bytes == 2 * 4 * 64 * KIB
    # workers x depth x size in every 50 us, at most 4 GiB/s
    rates = [min(4 * GIB, t * q * s * 20_000) for t in (1, 2) for s in (4 * KIB, 64 * KIB) for q in (1, 2, 4)]
    assert sorted(rates)[-3:] == [4 * GIB] * 3
    assert cost.bytes_read == sum(rates)


@pytest.mark.parametrize(("keep", "gib"), [("none", 16), ("failed", 16), ("all", 3 * 16 + 2 * 8)])
def test_new_files_that_are_kept_add_up(tmp_path: Path, keep: str, gib: int) -> None:
    """Of two points, three repetitions of one with 16 GiB and two of one with 8 GiB; otherwise one at a time."""
    made = document(
        phases=["seq_write"], options={"file_size": "8g", "write_mode": "new"}, axes={"threads_per_node": [1, 2]}
    )
    made["target"]["keep"] = keep
    cost = forecast.of(make(tmp_path, made), {"1-node": {p.id: p.tasks + 1 for p in make(tmp_path, made).points}})
    assert (cost.peak_bytes, cost.inodes) == (gib * GIB, gib // 8)


ON_NODES: dict[str, Any] = {
    "axes": {"nodes": [1, 2]}, "phase_time": "10s", "repetitions": 3,
    "options": {"threads_per_node": 4, "files_per_thread": 2, "queue_depth": 2},
}  # fmt: skip


def test_forecast_of_writes_on_nodes(tmp_path: Path) -> None:
    cost = forecast.of(make(tmp_path, document(**ON_NODES | {"phases": ["seq_write", "rand_mixed"]})))
    assert (cost.points, cost.repetitions, cost.allocations) == (2, 6, 2)
    # three times two phases, and 8 GiB of files a node at 1 GiB/s
    alone = 3 * 2 * 10.45 + 8
    assert cost.time_s == pytest.approx(2 * alone)
    assert cost.node_hours == pytest.approx((alone + 2 * alone) / 3600)
    # a phase moves 40 GiB a node; 70 % of rand_mixed are reads; 3 repetitions on 1 + 2 nodes; sets of 8 and 16 GiB
    assert cost.bytes_written == pytest.approx((40 + 12) * 9 * GIB + 24 * GIB, abs=10)
    assert cost.bytes_read == pytest.approx(28 * 9 * GIB, abs=10)
    assert cost.peak_bytes == 16 * GIB  # at once: both nodes' sets
    assert cost.inodes == 16
    assert cost.memory_per_node_bytes == 4 * 2 * MIB


def test_forecast_of_new_files(tmp_path: Path) -> None:
    options = ON_NODES["options"] | {"write_mode": "new"}
    cost = forecast.of(
        make(tmp_path, document(**ON_NODES | {"options": options, "phases": ["seq_write", "rand_write", "rand_read"]}))
    )
    # the files of both writing phases are there until the repetition ends, beside the set that is read
    assert cost.peak_bytes == 2 * 16 * GIB + 16 * GIB
    assert cost.inodes == 2 * 16 + 16
    assert cost.bytes_written == pytest.approx(2 * 40 * 9 * GIB + 24 * GIB, abs=10)


def test_forecast_of_metadata(tmp_path: Path) -> None:
    cost = forecast.of(make(tmp_path, document(**METADATA)))
    # 1,000 and 2,000 files at 20,000/s, three times
    assert cost.time_s == pytest.approx(6 * 0.45 + 3 * 3000 / 20_000)
    assert cost.bytes_written == cost.bytes_read == cost.peak_bytes == 0
    assert cost.inodes == 2000
    assert cost.memory_per_node_bytes == 0


ONE_PASS: dict[str, Any] = {"phase_time": "one_pass", "repetitions": 3}


def test_forecast_of_one_pass(tmp_path: Path) -> None:
    """What is moved is known: each file once, whatever the assumptions."""
    options = {"threads_per_node": 4, "files_per_thread": 2, "file_size": "1g"}
    text = document(phases=["seq_write", "rand_read"], axes={"nodes": [1, 2]}, options=options, **ONE_PASS)
    cost = forecast.of(make(tmp_path, text))
    # 8 GiB a node: three times on 1 + 2 nodes, and before them the sets that are written over and that are read
    assert cost.bytes_written == 3 * 3 * 8 * GIB + 2 * (1 + 2) * 8 * GIB
    assert cost.bytes_read == 3 * 3 * 8 * GIB
    assert cost.peak_bytes == 2 * 16 * GIB
    # each node moves its 8 GiB in 2 s at 4 GiB/s; its sets of 16 GiB at 1 GiB/s
    assert cost.time_s == pytest.approx(2 * (3 * 2 * (2 + 0.45) + 16))
    # half the links, twice the time, and not one byte more
    text["target"]["node_bandwidth"] = "2g"
    slow = forecast.of(make(tmp_path, text))
    assert (slow.bytes_written, slow.bytes_read) == (cost.bytes_written, cost.bytes_read)
    assert slow.time_s == pytest.approx(2 * (3 * 2 * (4 + 0.45) + 16))


def test_forecast_of_one_pass_by_small_transfers(tmp_path: Path) -> None:
    # one I/O of 4 KiB in 50 us: 16 MiB take 4,096 of them
    text = document(axes=None, options={"file_size": "16m", "transfer_size": "4k"}, phase_time="one_pass")
    cost = forecast.of(make(tmp_path, text))
    assert (cost.bytes_read, cost.bytes_written) == (16 * MIB, 16 * MIB)
    assert cost.time_s == pytest.approx(4096 * 50e-6 + 0.45 + 1 / 64)


def test_forecast_of_one_mixed_pass(tmp_path: Path) -> None:
    cost = forecast.of(make(tmp_path, document(phases=["rand_mixed"], axes=None, phase_time="one_pass")))
    assert cost.bytes_read == pytest.approx(0.7 * 16 * MIB, abs=1)
    assert cost.bytes_written - 16 * MIB == pytest.approx(0.3 * 16 * MIB, abs=1)  # less the set


def test_limits_hold_for_one_pass(tmp_path: Path) -> None:
    text = document(axes=None, phases=["seq_write"], options={"file_size": "5t"}, **ONE_PASS)
    [wrong] = problems(tmp_path, text, fits)
    assert (
        "limits.bytes_written: is missing: 20.0 TiB would be written; more than 10 TiB must be allowed by it" in wrong
    )
    assert "node_bandwidth" not in wrong  # it would change nothing


def test_forecast_of_what_is_left(tmp_path: Path) -> None:
    made = make(tmp_path, document(repetitions=3))
    first, second = made.points[:2]
    cost = forecast.of(made, {"1-node": {first.id: 2, second.id: 1}})
    assert (cost.points, cost.repetitions) == (2, 3)
    assert cost.time_s == pytest.approx(3 * 1.45 + 1 / 64)  # both work on the one file of the first worker
    assert forecast.sentence(cost, 1) == "1 node: 2 points, 3 repetitions left, 4 s, 16.0 MiB written"
    assert forecast.sentence(forecast.of(made, {}), 2) == "2 nodes: nothing left"
    whole = "3 nodes: 12 points, 36 repetitions, 52 s, 32.0 MiB written"
    assert forecast.sentence(forecast.of(made), 3, word="") == whole


def test_node_bandwidth_replaces_the_assumption(tmp_path: Path) -> None:
    text = document(axes=None, phases=["seq_write"], options={"transfer_size": "1m", "file_size": "16m"})
    cost = forecast.of(make(tmp_path, text))
    assert cost.writes("written") == "about 4.0 GiB written at up to 4.0 GiB/s per node (assumed)"
    text["target"]["node_bandwidth"] = "100m"
    cost = forecast.of(make(tmp_path, text))
    assert cost.bytes_written == 100 * MIB + 16 * MIB
    assert cost.writes() == "about 116 MiB at up to 100 MiB/s per node (target.node_bandwidth)"


def test_sets_are_shared(tmp_path: Path) -> None:
    made = make(tmp_path, document(phases=["rand_read", "seq_read", "rand_write"]))
    assert {(k, len(s.files), s.role) for k, s in forecast.data_sets(made.points).items()} == {
        ("sets/fio-read-16m-1", 2, "read"),
        ("sets/fio-write-16m-1", 2, "write"),  # nobody reads what writes have touched
    }


def fits(directory: Path, text: Any) -> None:
    forecast.refuse(make(directory, text), read(directory, text))


@pytest.mark.parametrize(
    ("limits", "wrong"),
    [
        ({}, "limits.bytes_written: is missing: about 42.2 TiB would be written at up to 4.0 GiB/s per node (assumed);"
             " more than 10 TiB must be allowed by it (or give target.node_bandwidth, if the nodes are slower)"),
        ({"bytes_written": "42t"}, "limits.bytes_written: 42.0 TiB is not enough: about 42.2 TiB would be written at up"
                                   " to 4.0 GiB/s per node (assumed); raise it, or measure less"),
        ({"bytes_written": "43t"}, None),
        ({"bytes_written": "43t", "time": "2h"}, "limits.time: 2 h is not enough: about 3 h are needed; raise it,"
                                                 " measure less, or set limits.over_time to trim"),
        ({"bytes_written": "43t", "time": "2h", "over_time": "trim"}, None),
        ({"bytes_written": "43t", "time": "4h"}, None),
    ],
)  # fmt: skip
def test_limits(tmp_path: Path, limits: dict[str, Any], wrong: str | None) -> None:
    text = document(axes=None, phases=["seq_write"], phase_time="1h", repetitions=3) | {"limits": limits}
    found = problems(tmp_path, text, fits)
    assert [p.partition(": ")[2] for p in found] == ([wrong] if wrong else [])


def test_slow_nodes_need_no_limit(tmp_path: Path) -> None:
    text = document(axes=None, phases=["seq_write"], phase_time="1h", repetitions=3)
    text["target"]["node_bandwidth"] = "500m"
    assert forecast.of(make(tmp_path, text)).bytes_written < 10 * TIB
    assert problems(tmp_path, text, fits) == []


def test_limits_hold_for_the_most_repetitions(tmp_path: Path) -> None:
    text = document(axes=None, phases=["seq_write"], phase_time="1h", repetitions={"min": 1, "max": 3})
    [wrong] = problems(tmp_path, text | {"limits": {"bytes_written": "42t"}}, fits)
    assert "about 42.2 TiB would be written" in wrong


MDTEST: dict[str, Any] = {
    "tool": "mdtest", "phases": ["create", "read", "delete"], "axes": {"threads_per_node": [2]},
    "options": {"files_per_thread": 100, "file_size": "1m"}, "phase_time": None, "repetitions": 3,
}  # fmt: skip


def test_what_mdtest_writes_to_its_files_counts(tmp_path: Path) -> None:
    cost = forecast.of(make(tmp_path, document(**MDTEST)))
    assert cost.bytes_written == cost.bytes_read == 3 * 200 << 20
    assert cost.peak_bytes == 200 << 20 and cost.time_s > 3 * 400 / 1024
    empty = forecast.of(make(tmp_path, document(**MDTEST | {"options": {"files_per_thread": 100}})))
    assert empty.bytes_written == empty.bytes_read == empty.peak_bytes == 0
    made = document(**MDTEST) | {"limits": {"bytes_written": "1m"}}
    configured = read(tmp_path, made)
    with pytest.raises(ConfigError, match=r"limits.bytes_written: 1.0 MiB is not enough: 600 MiB would be written;"):
        forecast.refuse(make_plan(configured), configured)
