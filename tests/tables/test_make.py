"""The tables that are made of the store: what stands in them, in which units, and what is made of damage."""

import csv
import fcntl
import json
import os
import shlex
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from msgspec.structs import replace

from campaign import FOUR_AND_EIGHT, Made, document, make
from iosweep.files import documents
from iosweep.programs import programs
from iosweep.store.record import Missing, Needs, Refusal
from iosweep.tables import columns, reader, writer
from iosweep.tables import make as maker
from iosweep.tables.make import RecordReader, make_tables
from iosweep.tools import Parsed, tools

NODE = {"host": "h", "kernel": "6.1", "os": "Debian", "cpu_model": "x", "cpus": 2, "cpus_allowed": "0-1",
        "memory_bytes": 1 << 30, "mount": "/dev/x on /t type ext4 (rw)"}  # fmt: skip

TARGET = {"directory": "/scratch/me", "source": "/dev/x", "fstype": "ext4", "fsid": "1", "layout": None,
          "layout_is": "not recorded"}  # fmt: skip


def measurable(place: Path, **sweep: Any) -> Made:
    """A campaign of which nothing is measured; keys of FOUR_AND_EIGHT replaced."""
    made = Made(place, make(place, document(**(FOUR_AND_EIGHT | sweep))))
    made.store.put("nodes", "n1", NODE)
    return made


def again(campaign: Made, name: str) -> list[dict[str, Any]]:
    """Another table as it was made last."""
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(campaign.results / f"{name}.parquet").to_pylist()
    return rows


def about(campaign: Made) -> Any:
    """campaign.json as it was made last."""
    return documents.read(campaign.results / "campaign.json")


@pytest.fixture
def campaign(tmp_path: Path) -> Made:
    return measurable(tmp_path)


def test_a_row_of_figures_in_si_units(campaign: Made) -> None:
    campaign.measured()
    row = campaign.table()[0]
    point = campaign.plan.points[0]
    expected = {
        "campaign": "quick", "sweeps": "tiny", "point": point.id, "repetition": 1, "phase": "rand_read", "kind": "data",
        "tool": "fio", "metric": "ops_per_s", "nodes": 1, "threads_per_node": 2, "transfer_size_bytes": 4096,
        "queue_depth": 4, "file_size_bytes": 1 << 20, "files_per_thread": 1, "o_direct": True, "ioengine": "libaio",
        "phase_time_s": 1.0, "bandwidth_bytes_per_s": 267901314.0, "ops_per_s": 65405.594406, "ops": 65471,
        "bytes_read": 268169216, "runtime_s": 1.001, "wall_s": 1.4, "completion_latency_p99_s": 0.0014336,
        "verdict": "valid",
        "reasons": "", "host": "h", "node": "n1", "tool_version": "fio-3.33", "tool_sha256": "build",
        "target_directory": "/scratch/me", "target_source": "/dev/x", "target_fstype": "ext4",
        "raw": f"points/{point.id}/r001-1.zip",
    }  # fmt: skip
    assert {k: row[k] for k in expected} == expected
    # what does not apply is absent, never 0
    absent = [
        name for name in row if name.startswith("write") or name in ("fsync", "data", "read_percent", "bytes_written")
    ]
    assert len(absent) >= 7
    assert {row[name] for name in absent} == {None}
    assert row["started"].isoformat() == "2030-01-02T03:04:05.678901+00:00"
    assert shlex.split(row["command"])[2] == "--directory=/scratch/me/a b"


def test_csv_says_what_parquet_says(campaign: Made) -> None:
    campaign.measured(0, 1)
    campaign.measured(0, 2, exit_code=1, stderr='a "quoted", word')
    rows = campaign.table()
    with (campaign.results / "results.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(rows) == 3
    types = {c.name: c.type for c in columns.result_columns()}
    for line, row in zip(lines, rows, strict=True):
        for name, value in row.items():
            if value is None:
                assert line[name] == ""
            elif types[name] in ("int", "float"):
                assert float(line[name]) == value
            elif types[name] == "bool":
                assert line[name] == str(value).lower()
            elif types[name] == "string":
                assert line[name] == value


def test_a_repetition_that_a_check_fails_is_not_valid(campaign: Made) -> None:
    changes: list[tuple[dict[str, Any], str, str]] = [
        ({"exit_code": 1, "stderr": "no space left"}, "invalid", "exit_status"),
        ({"sample": "e2_enospc_write"}, "invalid", "tool_errors"),
        ({"load": {"other": 0.9, "steal": 0.0}}, "suspect", "other_load"),
    ]
    for change, verdict, check in changes:
        campaign.measured(0, 1, **change)
        row = campaign.table()[0]
        fails = {one["check"] for one in again(campaign, "checks") if one["outcome"] == "fail"}
        assert (row["verdict"], check in fails, row["checks_failed"]) == (verdict, True, len(fails)), change
    campaign.measured(exit_code=1, stderr="one; two", load={"other": 0.9, "steal": 0.0})
    assert len(campaign.table()[0]["reasons"].split(" | ")) == 2


def test_why_an_allocation_could_not_go_on(campaign: Made) -> None:
    first, second = campaign.plan.points
    campaign.measured(0)
    campaign.store.set_refusal("1-node", Refusal("the target is full"))
    campaign.store.set_refusal("2-nodes", Refusal("another one"))
    # the second repetition of the one that was measured, and the other point
    assert [r["reasons"] for r in campaign.table()] == ["", "the target is full", "the target is full"]
    assert [r["left"] for r in campaign.table()] == [False, True, True]
    campaign.store.set_missing(second.id, Missing(Needs(tool="fio"), "fio is not on PATH"))  # more exactly
    assert [r["reasons"] for r in campaign.table()] == ["", "the target is full", "fio is not on PATH"]
    assert [r["left"] for r in campaign.table()] == [False, True, False]
    make_tables(replace(campaign.plan, optional=("fio",)), campaign.results)
    assert [row["unneeded"] for row in again(campaign, "results")] == [False, False, True]
    campaign.store.set_missing(second.id, None)
    campaign.store.set_refusal("1-node", None)
    assert [(r["point"], r["repetition"], r["reasons"]) for r in campaign.table()] == [
        (first.id, 1, ""),
        (first.id, 2, "not measured yet"),
        (second.id, None, "not measured yet"),
    ]


def test_results_on_the_target_are_recorded(campaign: Made) -> None:
    campaign.measured()
    campaign.table()
    assert about(campaign)["results_on_target"] is False
    fsid = f"{os.statvfs(campaign.results).f_fsid:016x}"
    campaign.measured(0, 2, record={"target": TARGET | {"fsid": fsid}})
    campaign.table()
    assert about(campaign)["results_on_target"] is (int(fsid, 16) != 0)  # 0: the file system has none


def test_batches_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign = measurable(tmp_path, axes={"queue_depth": [4, 8, 16]}, repetitions=1)
    campaign.measured(1)
    for batch in (1, 2):
        monkeypatch.setattr(writer, "_BATCH", batch)
        rows = campaign.table()
        assert [(r["queue_depth"], r["verdict"] == "missing") for r in rows] == [
            (p.options["queue_depth"], p != campaign.plan.points[1]) for p in campaign.plan.points
        ]
        with (campaign.results / "results.csv").open(newline="") as file:
            assert len(list(csv.reader(file))) == 4


def test_a_merge_that_fails_leaves_the_old_tables(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign.measured()
    campaign.table()
    before = {f.name: f.read_bytes() for f in campaign.results.iterdir() if f.is_file()}

    def fails(*_: Any) -> None:
        raise RuntimeError("halfway")

    monkeypatch.setattr(maker, "_base_values", fails)
    with pytest.raises(RuntimeError, match="halfway"):
        make_tables(campaign.plan, campaign.results)
    assert {f.name: f.read_bytes() for f in campaign.results.iterdir() if f.is_file()} == before


def test_what_describes_the_tables_is_there_after_them(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between two tables, `make_tables` leaves no campaign.json that describes others than are there."""
    names: list[str] = []
    real = os.replace

    def noted(temporary: str, name: str, **handles: int) -> None:
        names.append(name)
        real(temporary, name, **handles)

    campaign.measured()
    campaign.table()  # judges it
    monkeypatch.setattr(os, "replace", noted)
    campaign.table()
    assert names[-1] == "campaign.json"
    assert sorted(names) == ["campaign.json", "checks.parquet", "histograms.parquet", "node_rates.parquet",
                             "nodes.parquet", "results.csv", "results.parquet", "series.parquet"]  # fmt: skip


def test_several_nodes_of_a_slurm_job(tmp_path: Path) -> None:
    campaign = measurable(tmp_path, options=FOUR_AND_EIGHT["options"] | {"o_direct": False})
    for host, memory in (("n1", 4 << 30), ("n2", 1 << 20), ("n3", None)):
        campaign.store.put("nodes", f"key-{host}", NODE | {"host": host, "memory_bytes": memory})
    for number, job, day, hosts in ((1, "7", 2, ["n2", "n1"]), (2, "8", 1, ["n3", "n1"])):
        record = {"host": hosts[0], "hosts": hosts, "node": f"key-{hosts[0]}", "launcher": {"name": "srun"},
                  "nodes": {host: f"key-{host}" for host in hosts}, "started": f"2030-01-0{day}T00:00:00+00:00",
                  "ended": f"2030-01-0{day}T01:00:00+00:00",
                  "slurm": {"job": job, "allocation_hosts": ["n1", "n2", "n3"]}}  # fmt: skip
        campaign.measured(0, number, record=record, ran_on={host: 2 for host in hosts if host != "n3"})
    first, second = campaign.table()[:2]
    assert [first[name] for name in ("host", "hosts", "node", "slurm_job", "ran_on")] == [
        "n2", "n2,n1", "key-n2", "7", "n2:2,n1:2",
    ]  # fmt: skip
    assert (second["hosts"], second["ran_on"]) == ("n3,n1", "n1:2")
    # a point of one node here, of which any may have read: the largest memory caches most
    said = {c["repetition"]: c["evidence"] for c in again(campaign, "checks") if c["check"] == "client_cache"}
    assert "4.0 GiB of memory" in said[1]
    assert "4.0 GiB of memory" in said[2]
    assert {node["host"] for node in again(campaign, "nodes")} == {"h", "n1", "n2", "n3"}
    assert about(campaign)["results_of_nodes"] == {"key-n1": 2, "key-n2": 1, "key-n3": 1}
    common = {"launcher": "srun", "hosts": ["n1", "n2", "n3"], "node_counts": [1], "points": 1, "repetitions": 1}
    assert about(campaign)["jobs"] == [  # in the order of their times
        common | {"job": "8", "started": "2030-01-01T00:00:00Z", "ended": "2030-01-01T01:00:00Z"},
        common | {"job": "7", "started": "2030-01-02T00:00:00Z", "ended": "2030-01-02T01:00:00Z"},
    ]


def test_two_builds_or_targets_share_no_mean(campaign: Made) -> None:
    campaign.measured(0, 2)
    for other in (
        {"tool": {"path": "/x", "sha256": "old", "version": "fio-3.1"}},
        {"target": TARGET | {"fsid": "2"}},
    ):
        campaign.measured(0, 1, record=other | {"started": "2000-01-01T00:00:00+00:00"})
        rows = [r for r in campaign.table() if r["repetition"] is not None]
        found = [(r["repetition"], r["verdict"], r["left"]) for r in rows]
        assert found == [(1, "missing", True), (2, "valid", False)], other
        assert "another" in rows[0]["reasons"]


def seen(hosts: list[str], masks: list[list[str]], **changes: Any) -> dict[str, Any]:
    """What was seen of the CPUs of some nodes: workers with these masks, and others that do not measure."""
    roles = [("worker", own) for own in masks] + [("helper", ["0-7"]), ("agent", ["0-7"])]
    processes = [{"role": r, "count": 1, "threads": 2, "masks": m, "thread_masks": m, "ran_on": "0"} for r, m in roles]
    found = {"hosts": hosts, "usable": "0-3", "reserved": "6-7", "by": ["weka"], "problems": [], "expected": 2,
             "seen": 2, "looks": 9, "gap_s": 0.2, "cost_s": 0.01, "wall_s": 2.1, "processes": processes}  # fmt: skip
    return found | changes


def test_cpus_that_a_tool_ran_on_are_in_the_table(tmp_path: Path) -> None:
    campaign = measurable(tmp_path)
    nodes = {host: f"key-{host}" for host in ("n2", "n1")}
    for host, key in nodes.items():
        campaign.store.put("nodes", key, NODE | {"host": host})
    record = {"host": "n2", "hosts": [*nodes], "node": "key-n2", "nodes": nodes}
    both = [seen(["n1"], [["0"], ["1"]]), seen(["n2"], [["2"], ["1", "3"]], reserved="")]
    asked = {"pinning": "enforce", "placement": "pack", "width": "cpu", "planned": {"0": 1, "1": 1}}
    campaign.measured(0, 1, record=record, cpus=asked | {"nodes": both})
    names = ("pinning", "placement", "cpus", "reserved_cpus")
    assert [campaign.table()[0][name] for name in names] == ["enforce", "pack", "1-3", ""]
    used = {node["host"]: node["used_cpus"] for node in again(campaign, "nodes")}
    assert used == {"h": None, "n1": "0-1", "n2": "1-3"}


BUILD: dict[str, Any] = {
    "provider": "path",
    "tools": {"fio": {"path": "/sw/bin/fio", "sha256": "build", "version": "fio-3.33", "package": None}},
}  # fmt: skip


def test_rows_say_which_build_they_are_of_and_a_changed_document_tells_nothing(campaign: Made) -> None:
    """Its name is the hash of its content."""
    key = programs.build_key(BUILD)
    file = campaign.results / "builds" / f"{key}.json"
    campaign.store.put("builds", key, BUILD)
    campaign.store.put("builds", programs.build_key({"tools": {}}), {"tools": {}})  # of nothing that was measured
    for number in (1, 2):
        campaign.measured(0, number, record={"build": key})
    assert [row["build"] for row in campaign.table()] == [key, key, None]  # the last one is missing
    assert about(campaign)["builds"][key]["results"] == 2
    file.write_text(json.dumps(BUILD | {"provider": "spack"}))
    assert (campaign.table()[0]["build"], about(campaign)["builds"]) == (key, {})


def test_a_record_that_cannot_be_judged_is_a_reason_and_the_other_rows_are_there(campaign: Made) -> None:
    """Its digest is right, and the part that decides what is left can be read; what it ran cannot."""
    campaign.measured(0, 1)
    campaign.measured(0, 2)
    file = campaign.store.point(campaign.plan.points[0].id) / "r001-1.json"
    file.write_bytes(documents.dump(documents.read(file) | {"phases": []}))
    first, second = campaign.table()[:2]
    assert (first["verdict"], file.name in first["reasons"], first["left"]) == ("missing", True, False)
    assert (second["verdict"], second["repetition"]) == ("valid", 2)
    assert [name for name in about(campaign)["damaged"] if name.endswith(file.name)]


def test_a_new_judgment_that_another_try_cannot_help_leaves_nothing_to_try(campaign: Made) -> None:
    campaign.measured(0, 1, record={"retry": "an older check failed"})
    campaign.table()
    assert campaign.store.repetitions()[campaign.plan.points[0].id][1].retry is None


def test_a_repetition_that_is_tried_again_is_left(campaign: Made) -> None:
    busy = {"load": {"other": 0.9, "steal": 0.0}}
    for retried in (False, True):
        campaign.measured(0, 1, record={"retry": "busy", "retried": retried}, **busy)
        first = campaign.table()[0]
        assert (first["verdict"], first["left"]) == ("suspect", not retried)


def test_a_figure_that_no_table_can_hold_is_a_reason(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign.measured()
    for number in (1e308, float("inf"), float("nan"), 1 << 64):
        monkeypatch.setattr(tools()["fio"], "parse", lambda *_, n=number: Parsed("fio-3.33", {"ops_per_s": n}))
        row = campaign.table()[0]
        assert (row["verdict"], row["ops_per_s"], "ops_per_s" in row["reasons"]) == ("invalid", None, True), number


def test_what_was_not_counted_is_null(campaign: Made) -> None:
    values = [1.0, None, None, None]
    node = {"host": "n1", "interval_s": 1.0, "series": {"device_read_bytes_per_s": values}}
    campaign.measured(streams={"monitor": json.dumps(node).encode() + b"\n"})
    campaign.table()
    [row] = again(campaign, "series")
    assert (row["quantity"], row["values"]) == ("device_read_bytes_per_s", values)
    wanted = {(row["point"], row["phase"]): 1}
    assert len(reader.load_series(campaign.results, wanted)) == 1


def test_records_of_another_version_are_judged_again_once(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign.measured(0)
    campaign.measured(1)
    rows = campaign.table()
    assert [row["verdict"] for row in rows if row["verdict"] != "missing"] == ["valid", "invalid"]
    last = campaign.store.record(campaign.plan.points[1].id, 1, 1)
    campaign.store.keep_rows(replace(last, rows=(), judged="by another version"))
    assert campaign.table() == rows
    make_tables(campaign.plan, campaign.results, judge_again=True)
    monkeypatch.setattr(RecordReader, "_judge_again", None)
    assert campaign.table() == rows


def test_tables_have_turns_and_what_a_killed_process_left_goes(campaign: Made) -> None:
    campaign.measured()
    campaign.table()
    (campaign.results / ".results.csv.77.tmp").touch()
    (campaign.results / ".results.csv.mine").touch()
    held = os.open(campaign.results, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(make_tables, campaign.plan, campaign.results)
        with pytest.raises(TimeoutError):
            other.result(0.2)
        os.close(held)
        other.result()
    assert {file.name for file in campaign.results.glob(".results*")} == {".results.csv.mine"}
