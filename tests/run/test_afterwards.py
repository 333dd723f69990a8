"""The files of a phase after it, with the real fio: sets that change while they are read, and what was written."""

from pathlib import Path
from typing import Any

import pytest

from campaign import Allocation
from records import plain_records_of

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]

READ: dict[str, Any] = {
    "name": "s",
    "tool": "fio",
    "phases": ["rand_read"],
    "options": {"file_size": "1m", "transfer_size": "4k"},
    "phase_time": "1s",
    "repetitions": 2,
}
WRITE: dict[str, Any] = READ | {"phases": ["seq_write"], "phase_time": "200ms", "repetitions": 1}
#: Done once, while the first phase reads.
WHILE_READING = """
case " $* " in *--rw=randread*) ;; *) exec "$fio" "$@" ;; esac
if [ -e {once} ]; then exec "$fio" "$@"; fi
touch {once}
cd {sets}/*
"$fio" "$@" & sleep 0.6
{harm}
wait $!
"""


def checked(allocation: Allocation, name: str) -> list[tuple[str, str]]:
    """Outcome and evidence of a check, by repetition."""
    allocation.rows()
    found = merged_checks(allocation)
    return [(row["outcome"], row["evidence"]) for row in found if row["check"] == name]


def merged_checks(allocation: Allocation) -> list[dict[str, Any]]:
    import pyarrow.parquet

    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(allocation.results / "checks.parquet").to_pylist()
    return sorted(rows, key=lambda row: row["repetition"])


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        ("fallocate --punch-hole -o 8192 -l 65536 0.0", "0.0 has unwritten extents"),
        (
            "fallocate --punch-hole -o 8192 -l 65536 0.0; dd if=/dev/urandom of=0.0 bs=4k seek=2 count=16 conv=notrunc",
            "files were written to or truncated (0.0 was the last)",
        ),
        ("truncate -s 512k 0.0", "0.0 has 524288 of 1048576 bytes"),
        ("cp -p 0.0 x; mv x 0.0", "files "),  # replaced, or, on an overlay, whose ctime changed
        ("cp -p 0.0 x; printf x | dd of=0.0 conv=notrunc; touch -r x 0.0; rm x", "files changed (ctime; 0.0 was the"),
        ("rm 0.0", "0.0 is missing"),
    ],
)
def test_a_set_that_changes_while_it_is_read(tmp_path: Path, harm: str, reason: str) -> None:
    allocation = Allocation(tmp_path, READ)
    allocation.fake(
        WHILE_READING.format(once=f"'{tmp_path}/once'", sets=f"'{allocation.ours}/sets'", harm=f"{{ {harm}; }} 2>&-")
    )
    allocation.measure()
    first, second = allocation.rows()
    assert first["verdict"] == "invalid"
    assert f"the files changed while they were read: {reason}" in first["reasons"]
    # written anew for the next repetition
    assert second["verdict"] != "invalid"
    outcome, evidence = checked(allocation, "unchanged")[1]
    assert (outcome, evidence) == ("pass", "the same files with the same times after the phase, without holes")
    assert second["passes"] == second["bytes_read"] / (1 << 20)


def written(tmp_path: Path, data: str, script: str = "", **options: Any) -> tuple[str, str]:
    """Outcome and evidence of `incompressible` after a write."""
    allocation = Allocation(tmp_path, WRITE | {"options": WRITE["options"] | {"data": data} | options})
    if script:
        allocation.fake(script)
    allocation.measure()
    return checked(allocation, "incompressible")[0]


@pytest.mark.parametrize("mode", ["overwrite", "new"])
@pytest.mark.parametrize("transfer", ["4k", "64k"])
def test_random_data_is_seen_to_be_random(tmp_path: Path, mode: str, transfer: str) -> None:
    outcome, evidence = written(tmp_path, "random", write_mode=mode, transfer_size=transfer, file_size="8m")
    assert (outcome, "1.0" in evidence, "no duplicates" in evidence) == ("pass", True, True), evidence


def test_fios_own_buffers_are_measured(tmp_path: Path) -> None:
    outcome, evidence = written(tmp_path, "tool_default", queue_depth=4)
    assert outcome == "not checked"
    assert "(data: tool_default); it matters" in evidence
    assert " blocks of 1 file" in evidence


def test_new_files_that_are_not_full_are_judged_by_what_they_hold(tmp_path: Path) -> None:
    sweep = WRITE | {"phases": ["rand_write"], "options": WRITE["options"] | {
        "data": "random", "write_mode": "new", "file_size": "1g", "transfer_size": "512"}}  # fmt: skip
    allocation = Allocation(tmp_path, sweep)
    allocation.measure()
    outcome, evidence = checked(allocation, "incompressible")[0]
    assert outcome in ("pass", "not checked"), evidence
    ((_, record),) = plain_records_of(allocation.store, allocation.plan.points[0].id)
    sample = record["phases"][0]["files"]["sample"]
    assert sample["zero_bytes"] < sample["bytes"] or outcome == "not checked"
