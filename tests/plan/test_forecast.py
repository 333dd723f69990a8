"""What a plan takes: time, bytes, space, files and memory, counted by hand; and what the limits refuse."""

from pathlib import Path
from typing import Any

import pytest

from campaign import METADATA, document, make, problems, read
from iosweep.errors import ConfigError
from iosweep.plan import forecast

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40


def of(tmp_path: Path, **sweep: Any) -> forecast.Forecast:
    return forecast.forecast_of(make(tmp_path, document(**sweep)))


def test_reads_take_their_time_and_the_files_that_they_read(tmp_path: Path) -> None:
    cost = of(tmp_path)
    # 12 points of 1 s and 0.45 s of start-up, and two files of 16 MiB written at 1 GiB/s
    assert cost.time_s == pytest.approx(12 * 1.45 + 1 / 32)
    assert (cost.points, cost.repetitions, cost.allocations) == (12, 12, 1)
    assert cost.node_hours == pytest.approx(cost.time_s / 3600)
    assert cost.bytes_written == cost.peak_bytes == 2 * 16 * MIB
    assert cost.inodes == 2


ON_NODES: dict[str, Any] = {
    "axes": {"nodes": [1, 2]}, "phase_time": "10s", "repetitions": 3,
    "options": {"threads_per_node": 4, "files_per_thread": 2, "queue_depth": 2},
}  # fmt: skip


def test_writes_on_nodes_add_up_and_their_sets_are_there_at_once(tmp_path: Path) -> None:
    cost = of(tmp_path, **ON_NODES | {"phases": ["seq_write", "rand_mixed"]})
    assert (cost.points, cost.repetitions, cost.allocations) == (2, 6, 2)
    # three times two phases, and 8 GiB of files a node at 1 GiB/s
    alone = 3 * 2 * 10.45 + 8
    assert cost.time_s == pytest.approx(2 * alone)
    assert cost.node_hours == pytest.approx((alone + 2 * alone) / 3600)
    # a phase moves 40 GiB a node; 70 % of rand_mixed are reads; 3 repetitions on 1 + 2 nodes; sets of 8 and 16 GiB
    assert cost.bytes_written == pytest.approx((40 + 12) * 9 * GIB + 24 * GIB, abs=10)
    assert (cost.peak_bytes, cost.inodes) == (16 * GIB, 16)
    # new files of both writing phases are there until the repetition ends, beside the set that is read
    new = ON_NODES["options"] | {"write_mode": "new"}
    cost = of(tmp_path, **ON_NODES | {"options": new, "phases": ["seq_write", "rand_write", "rand_read"]})
    assert (cost.peak_bytes, cost.inodes) == (3 * 16 * GIB, 3 * 16)
    assert cost.bytes_written == pytest.approx(2 * 40 * 9 * GIB + 24 * GIB, abs=10)


def test_metadata_takes_files_and_mdtest_also_their_bytes(tmp_path: Path) -> None:
    cost = of(tmp_path, **METADATA)
    # 1,000 and 2,000 files at 20,000/s, three times
    assert cost.time_s == pytest.approx(6 * 0.45 + 3 * 3000 / 20_000)
    assert cost.bytes_written == cost.peak_bytes == 0
    assert cost.inodes == 2000
    mdtest: dict[str, Any] = {
        "tool": "mdtest", "phases": ["create", "read", "delete"], "axes": {"threads_per_node": [2]},
        "options": {"files_per_thread": 100}, "phase_time": None, "repetitions": 3,
    }  # fmt: skip
    cost = of(tmp_path, **mdtest)
    assert cost.bytes_written == cost.peak_bytes == 0
    cost = of(tmp_path, **mdtest | {"options": {"files_per_thread": 100, "file_size": "1m"}})
    assert cost.bytes_written == 3 * 200 * MIB
    assert cost.peak_bytes == 200 * MIB
    assert cost.time_s > 3 * 400 / 1024


ONE_PASS: dict[str, Any] = {"phase_time": "one_pass", "repetitions": 3}


def test_one_pass_moves_each_file_once_whatever_the_assumptions(tmp_path: Path) -> None:
    options = {"threads_per_node": 4, "files_per_thread": 2, "file_size": "1g"}
    text = document(phases=["seq_write", "rand_read"], axes={"nodes": [1, 2]}, options=options, **ONE_PASS)
    text["target"]["node_bandwidth"] = "2g"  # half the links, twice the time, and not one byte more
    cost = forecast.forecast_of(make(tmp_path, text))
    # 8 GiB a node: three times on 1 + 2 nodes, and before them the sets that are written over and that are read
    assert cost.bytes_written == 3 * 3 * 8 * GIB + 2 * (1 + 2) * 8 * GIB
    assert cost.peak_bytes == 2 * 16 * GIB
    # each node moves its 8 GiB in 4 s at 2 GiB/s; its sets of 16 GiB at 1 GiB/s
    assert cost.time_s == pytest.approx(2 * (3 * 2 * (4 + 0.45) + 16))
    cost = of(tmp_path, phases=["rand_mixed"], axes=None, phase_time="one_pass")
    assert cost.bytes_written - 16 * MIB == pytest.approx(0.3 * 16 * MIB, abs=1)  # less the set


def test_only_what_is_left_is_counted(tmp_path: Path, snapshot: Any) -> None:
    made = make(tmp_path, document(repetitions=3))
    first, second = made.points[:2]
    cost = forecast.forecast_of(made, {"1-node": {first.id: 2, second.id: 1}})
    assert (cost.points, cost.repetitions) == (2, 3)
    assert cost.time_s == pytest.approx(3 * 1.45 + 1 / 64)  # both work on the one file of the first worker
    text = document(axes=None, phases=["seq_write"], options={"transfer_size": "1m", "file_size": "16m"})
    assumed = forecast.forecast_of(make(tmp_path, text))
    text["target"]["node_bandwidth"] = "100m"
    given = forecast.forecast_of(make(tmp_path, text))
    assert given.bytes_written == 100 * MIB + 16 * MIB
    said = [
        *(forecast.sentence(cost, "1 node"), forecast.sentence(forecast.forecast_of(made, {}), "2 nodes")),
        *(forecast.sentence(forecast.forecast_of(made), "3 nodes", word=""), assumed.writes("written"), given.writes()),
    ]
    assert "\n".join(said) == snapshot


def test_a_set_is_shared_by_reads_and_never_read_after_writes(tmp_path: Path) -> None:
    made = make(tmp_path, document(phases=["rand_read", "seq_read", "rand_write"]))
    assert {(k, len(s.files), s.role) for k, s in forecast.data_sets(made.points).items()} == {
        ("sets/fio-read-16m-1", 2, "read"),
        ("sets/fio-write-16m-1", 2, "write"),
    }


def fits(directory: Path, text: Any) -> None:
    if found := forecast.over_limits(make(directory, text), read(directory, text).documents[0]):
        raise ConfigError(found)


#: 42.2 TiB in three hours.
LARGE: dict[str, Any] = {"axes": None, "phases": ["seq_write"], "phase_time": "1h", "repetitions": 3}
LIMITS: list[tuple[dict[str, Any], dict[str, Any], str | None]] = [
    ({}, LARGE, "limits.bytes_written"),
    ({"bytes_written": "42t"}, LARGE | {"repetitions": {"min": 1, "max": 3}}, "limits.bytes_written"),  # the most
    ({"bytes_written": "43t"}, LARGE, None),
    ({"bytes_written": "43t", "time": "2h"}, LARGE, "limits.time"),
    # 20 TiB, and the bandwidth of the nodes would change nothing
    ({}, {"axes": None, "phases": ["seq_write"], "options": {"file_size": "5t"}, **ONE_PASS}, "limits.bytes_written"),
]


def test_no_more_is_planned_than_the_limits_allow(tmp_path: Path, snapshot: Any) -> None:
    said = []
    for limits, sweep, key in LIMITS:
        found = problems(tmp_path, document(**sweep) | {"limits": limits}, fits)
        assert [p.split(": ")[1] for p in found] == ([key] if key else []), limits
        said += found
    assert "\n".join(said) == snapshot
    text = document(**LARGE)
    text["target"]["node_bandwidth"] = "500m"  # slow nodes write less
    assert forecast.forecast_of(make(tmp_path, text)).bytes_written < 10 * TIB
    assert problems(tmp_path, text, fits) == []


def test_targets_have_their_own_needs_and_together_all_of_them(tmp_path: Path) -> None:
    made = document(phases=["seq_write", "rand_read"], axes={"queue_depth": [1, 2]})
    single = forecast.forecast_of(make(tmp_path, made))
    del made["target"]
    made["targets"] = {"a": {"directory": "/a", "node_bandwidth": "1m"}, "b": {"directory": "/b"}}
    plan = make(tmp_path, made)
    a, b, both = (forecast.forecast_of(plan, targets=names) for names in (["a"], ["b"], None))
    assert [x.peak_bytes for x in (a, b, both)] == [single.peak_bytes, single.peak_bytes, 2 * single.peak_bytes]
    assert [x.inodes for x in (a, b, both)] == [single.inodes, single.inodes, 2 * single.inodes]
    assert (a.points, both.points, both.allocations) == (2, 4, 1)
    assert (b.bytes_written, both.bytes_written) == (single.bytes_written, a.bytes_written + b.bytes_written)
    assert a.bytes_written < b.bytes_written  # its links are slower
