"""What a person sees of a running measurement."""

import io
from pathlib import Path
from typing import Any

from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from campaign import document, make
from iosweep.results.committed import Result
from iosweep.results.record import Archive, Target
from iosweep.run.progress_bar import Bar, labels
from iosweep.run.progress_lines import Lines
from iosweep.run.request import Judged


def lines(tmp_path: Path, *finished: tuple[Result, dict[str, Judged]]) -> list[str]:
    """What is printed, which is what is in the log but for the time."""
    screen, log = io.StringIO(), io.StringIO()
    with Lines(screen, log) as display:
        display.begin(make(tmp_path).allocations[0], len(finished) + 1, 1.0)
        for result, judged in finished:
            display.finished(result, judged, 1.0)
    logged = [
        line.partition(" ")[2].partition(" ")[2] if line.startswith("2") else line
        for line in log.getvalue().splitlines()
        if "begins: " not in line
    ]
    printed = screen.getvalue().splitlines()
    assert [line.split("  ")[:2] for line in logged] == [line.split("  ")[:2] for line in printed]
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


LONG = Result("fio.seq_write+3.1n.1t.1m.qd4.67bff9878c65", 1, 1, True, NO_ARCHIVE, "t", TARGET, None, None, False,
              (("seq_write", 2.5 * 2**30), ("seq_read", 844.0 * 2**20), ("rand_write", 2945.0),
               ("rand_read", 850.0)))  # fmt: skip
BUSY = "other processes used 48% of the CPU time of node-with-a-long-name-0001, and the hypervisor withheld 12% of it"


def test_lines_fit_a_terminal_of_80_columns(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=80, force_terminal=True, color_system=None, force_interactive=False)
    judged: dict[str, Judged] = {phase: ("valid", []) for phase, _ in LONG.headlines}
    judged["rand_read"] = ("suspect", [BUSY])
    display = Bar(console, io.StringIO())
    display.begin(make(tmp_path).allocations[0], 4, 240.0)
    for _ in range(4):
        display.finished(LONG, judged, 60.0)
    display.say(f"note: {' '.join(['a long sentence'] * 12)}")
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert all(line == line.rstrip() for line in lines)
    assert lines[:2] == snapshot  # figures are not torn apart, and the later lines are indented


#: Sweeps, and the labels of their points: what all have in common is left out.
LABELS: list[tuple[list[dict[str, Any]], list[str]]] = [
    ([{"axes": {"threads_per_node": [1, 2], "transfer_size": ["64k", "1m"]}}], ["1t 1m", "1t 64k", "2t 1m", "2t 64k"]),
    ([{"axes": {"queue_depth": [1], "transfer_size": ["4k"]}}], [""]),
    # an option that no id names
    ([{"axes": {"o_direct": [True, False]}}], ["o_direct=false", "o_direct=true"]),
    # phases are told apart by their figures
    ([{"phases": ["seq_read"]}, {"phases": ["rand_read"]}], ["", ""]),
]


def test_a_label_is_what_differs(tmp_path: Path) -> None:
    common = {"tool": "fio", "options": {"file_size": "64m"}, "phases": ["seq_read"], "phase_time": "10s"}
    for sweeps, expected in LABELS:
        named = [{"name": f"s{k}"} | common | sweep for k, sweep in enumerate(sweeps)]
        points = make(tmp_path, document() | {"sweeps": named}).allocations[0].points
        assert sorted(labels(points).values()) == expected, sweeps
