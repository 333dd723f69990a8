"""What a person sees of a running measurement."""

import io
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from iosweep.run.progress import Lines
from iosweep.store.record import Record
from records import record


def lines(tmp_path: Path, *finished: Record) -> list[str]:
    """What is printed, which is what is in the log but for the time."""
    screen, log = io.StringIO(), io.StringIO()
    display = Lines(screen, log)
    display.begin(len(finished) + 1, 1.0)
    for each in finished:
        display.finished(each, 1.0)
    logged = [
        line.partition(" ")[2].partition(" ")[2] if line.startswith("2") else line
        for line in log.getvalue().splitlines()
        if "begins: " not in line
    ]
    printed = screen.getvalue().splitlines()
    assert len(logged) == len(printed)
    return printed


def repetition(number: int, verdict: str = "valid", *reasons: str, attempt: int = 1) -> Record:
    phase = {"phase": "rand_read", "headline": 5000.0, "verdict": verdict, "reasons": reasons}
    return record("fio.rand_read.1n.1t.4k.qd1.a7067cebd59e", [phase], repetition=number, attempt=attempt)


def test_lines_of_repetitions_and_each_kind_of_reason_once(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    busy = [f"other processes used {n}% of [all] CPU time" for n in (20, 35, 50)]
    found = lines(
        tmp_path,
        repetition(1),
        repetition(1, attempt=2),
        repetition(1, "suspect", busy[0]),
        repetition(2, "suspect", busy[1]),
        repetition(3, "invalid", busy[2], "no output"),
    )
    assert sum("other processes" in line for line in found) == 1
    assert "\n".join(found) == snapshot
