"""What a node moved while the real fio ran, and figures that the check `reached` does not believe."""

from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import mounts
from campaign import Allocation
from iosweep.node.load import Around
from iosweep.results.campaign_documents import DataSet
from iosweep.target import identify
from iosweep.target.agent import Agent
from iosweep.target.mounts import at, of_mount, table

pytestmark = pytest.mark.local
needs_mounts = pytest.mark.skipif(bool(mounts.missing()), reason=mounts.missing() or "")

MIB = 1 << 20
SWEEP: dict[str, Any] = {
    "name": "lies", "tool": "fio", "phases": ["rand_read"], "phase_time": "200ms", "repetitions": 1,
    "options": {"file_size": "2m", "transfer_size": "4k", "threads_per_node": 2},
}  # fmt: skip
#: The same command with what would be read in the page cache, and nothing that keeps fio from reading there.
CACHED = """case "$*" in *--rw=randread*)
  for directory in $(printf '%s\\n' "$@" | sed -n 's/^--directory=//p'); do cat "$directory"/* > /dev/null; done
  set -- $(printf '%s\\n' "$@" | sed 's/^--direct=1$/--direct=0/') --invalidate=0
esac
exec "$fio" "$@"
"""
#: Holes in what is read, from after it was looked at.
HOLES = """case "$*" in *--rw=randread*)
  for directory in $(printf '%s\\n' "$@" | sed -n 's/^--directory=//p'); do
    for file in "$directory"/*; do fallocate --punch-hole --offset 0 --length 2097152 "$file"; done
  done
esac
exec "$fio" "$@"
"""


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """A directory on a block device that counts."""
    mount = at(str(tmp_path), table())
    counters = of_mount(mount.point, mount.fstype)
    if not counters.devices or counters.memory:
        pytest.skip(f"a block device below {tmp_path}: it is on {mount.fstype}")
    return tmp_path


def findings(made: Allocation) -> list[tuple[str, str, str]]:
    """Phase, outcome and evidence of the check, of all rows."""
    made.rows()
    rows = pyarrow.parquet.read_table(made.results / "checks.parquet").to_pylist()
    return [(row["phase"], row["outcome"], row["evidence"]) for row in rows if row["check"] == "reached"]


def measured(place: Path, script: str = "", **options: Any) -> tuple[str, str]:
    """Outcome and evidence of one phase that was measured, by a fio that a script stands before."""
    made = Allocation(place, SWEEP | {"options": SWEEP["options"] | options})
    if script:
        made.fake(script)
    made.measure()
    [(_, outcome, evidence)] = findings(made)
    return outcome, evidence


def test_what_fio_reads_and_writes_is_seen_by_the_kernel(disk: Path) -> None:
    phases = ["seq_write", "seq_read", "rand_write", "rand_read", "rand_mixed"]
    made = Allocation(disk, SWEEP | {"phases": phases})
    made.measure()
    assert [(phase, outcome) for phase, outcome, _ in findings(made)] == [(phase, "pass") for phase in phases]
    for document in made.store.documents(DataSet).values():
        assert document.counted and document.counted.tool == pytest.approx(1, abs=0.05)


def test_through_the_page_cache_too(disk: Path) -> None:
    phases = ["seq_write", "seq_read", "rand_write"]
    made = Allocation(disk, SWEEP | {"phases": phases, "options": SWEEP["options"] | {"o_direct": False}})
    made.measure()
    assert [(phase, outcome) for phase, outcome, _ in findings(made)] == [(phase, "pass") for phase in phases]


@pytest.mark.parametrize("script", [CACHED, HOLES], ids=["cached", "holes"])
def test_what_came_from_memory_is_no_read(disk: Path, script: str) -> None:
    outcome, evidence = measured(disk, script)
    assert outcome == "fail"
    assert " % of " in evidence and "read came from block devices, by the kernel's account of the tool" in evidence


@needs_mounts
def test_a_target_in_memory_is_named(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with mounts.tmpfs(tmp_path / "target", "64m"):
        assert measured(tmp_path) == ("fail", "the target is memory (tmpfs): nothing gets to a device")


@needs_mounts
def test_a_loop_device_in_memory_is_named(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    with mounts.tmpfs(tmp_path / "memory", "100m"):
        disk = tmp_path / "memory/target"
        disk.mkdir()
        with mounts.ext4(disk):
            outcome, evidence = measured(tmp_path / "memory")
    assert outcome == "fail"
    assert evidence.startswith("the target is memory (loop") and "is a file on tmpfs" in evidence


@pytest.mark.parametrize("threads", [(), ("--thread",)], ids=["processes", "threads"])
def test_the_bytes_of_a_command_and_of_its_children(disk: Path, threads: tuple[str, ...]) -> None:
    facts = identify.identify(str(disk))
    around = Around(facts["fstype"], at(facts["real"], table()).point)
    argv = ["fio", "--name=x", f"--directory={disk}", "--size=2m", "--numjobs=2", "--fallocate=none", *threads]
    with Agent() as agent:
        done = agent.run([*argv, "--rw=write", "--end_fsync=1"], 60, disk, around=around)
        assert done.exit_code == 0 and done.watched
        assert 4 * MIB <= (done.watched.moved.tool_written_bytes or 0) < 5 * MIB
        assert (done.watched.moved.device_written_bytes or 0) >= 4 * MIB
        done = agent.run([*argv, "--rw=read", "--direct=1"], 60, disk, around=around)
        assert done.watched and 4 * MIB <= (done.watched.moved.tool_read_bytes or 0) < 5 * MIB
        done = agent.run(["true"], 60, disk, around=around)
        assert done.watched and (done.watched.moved.tool_written_bytes, done.watched.moved.memory) == (0, "")
