"""What a person sees of a running measurement."""

import io
from pathlib import Path

from rich.console import Console

from iosweep.display import Display
from iosweep.runner import Judged
from iosweep.store import Result
from small import make


def lines(tmp_path: Path, *finished: tuple[Result, dict[str, Judged]]) -> list[str]:
    """What is printed, which is what is in the log but for the time."""
    screen, log = io.StringIO(), io.StringIO()
    with Display(Console(file=screen, width=80), Console(file=log, width=80)) as display:
        display.begin(make(tmp_path).allocations[0], len(finished) + 1, 1.0)
        for result, judged in finished:
            display.finished(result, judged, 1.0)
    logged = [
        line.partition(" ")[2].partition(" ")[2] if line.startswith("2") else line
        for line in log.getvalue().splitlines()
    ]
    printed = screen.getvalue().splitlines()
    assert [line.split("  ")[:2] for line in logged] == [line.split("  ")[:2] for line in printed]
    return printed


def result(number: int, retried: bool = False) -> Result:
    return Result("fio.rand_read.1n.1t.4k.qd1.a7067cebd59e", number, 1, True, {}, "t", {}, None, None, retried,
                  (("rand_read", 5000.0),))  # fmt: skip


def test_a_line_for_each_repetition(tmp_path: Path) -> None:
    first, second = lines(tmp_path, (result(1), {"rand_read": ("valid", [])}),
                          (result(1, retried=True), {"rand_read": ("valid", [])}))  # fmt: skip
    assert "   1/3 fio.rand_read.1n.1t.4k.qd1.a7067cebd59e r1  rand_read" in f"  {first}"
    assert "   2/3 fio.rand_read.1n.1t.4k.qd1.a7067cebd59e r1 again  rand_read" in f"  {second}"
    assert first.endswith(" to go")


def test_each_kind_of_reason_is_said_once(tmp_path: Path) -> None:
    busy = [("suspect", [f"other processes used {n}% of [all] CPU time"]) for n in (20, 35, 50)]
    found = lines(
        tmp_path,
        (result(1), {"rand_read": ("suspect", busy[0][1])}),
        (result(2), {"rand_read": ("suspect", busy[1][1])}),
        (result(3), {"rand_read": ("invalid", [*busy[2][1], "no output"])}),
    )
    assert [line.strip() for line in found if "rand_read." not in line] == [
        "suspect: other processes used 20% of [all] CPU time", "invalid: no output",
    ]  # fmt: skip
