"""What a person sees of a running measurement."""

import io
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from campaign import make
from iosweep.run.progress import Lines
from iosweep.run.work import Judged
from iosweep.store.committed import Result
from iosweep.store.record import Archive, Target


def lines(tmp_path: Path, *finished: tuple[Result, dict[str, Judged]]) -> list[str]:
    """What is printed, which is what is in the log but for the time."""
    screen, log = io.StringIO(), io.StringIO()
    display = Lines(screen, log)
    display.begin(make(tmp_path).allocations[0], len(finished) + 1, 1.0)
    for result, judged in finished:
        display.finished(result, judged, 1.0)
    logged = [
        line.partition(" ")[2].partition(" ")[2] if line.startswith("2") else line
        for line in log.getvalue().splitlines()
        if "begins: " not in line
    ]
    printed = screen.getvalue().splitlines()
    assert len(logged) == len(printed)
    return printed


NO_ARCHIVE = Archive("", "", 0)
TARGET = Target(directory="/t", source="s", fstype="ext4", layout_is="")


def result(number: int, retried: bool = False) -> Result:
    return Result("fio.rand_read.1n.1t.4k.qd1.a7067cebd59e", number, 1, True, NO_ARCHIVE, "t", TARGET, None, None,
                  retried, (("rand_read", 5000.0),))  # fmt: skip


def test_lines_of_repetitions_and_each_kind_of_reason_once(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    valid: dict[str, Judged] = {"rand_read": ("valid", [])}
    busy = [f"other processes used {n}% of [all] CPU time" for n in (20, 35, 50)]
    found = lines(
        tmp_path,
        (result(1), valid),
        (result(1, retried=True), valid),
        (result(1), {"rand_read": ("suspect", busy[:1])}),
        (result(2), {"rand_read": ("suspect", busy[1:2])}),
        (result(3), {"rand_read": ("invalid", [*busy[2:], "no output"])}),
    )
    assert sum("other processes" in line for line in found) == 1
    assert "\n".join(found) == snapshot
