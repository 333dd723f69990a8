"""What each rank had moved at each look: read from the kernel, kept, and made into rates."""

import json
from pathlib import Path

import pytest

from iosweep.node import ranks
from iosweep.node.ranks import Progress, rates

MIB = 1 << 20


def stream(at_s: list[float], **moved: list[int]) -> bytes:
    looks = {"host": "n1", "at_s": at_s, "moved_bytes": {name[1:]: own for name, own in moved.items()}}
    return json.dumps(looks).encode() + b"\n"


def test_rates_are_those_of_whole_intervals() -> None:
    # they start at 1.5 s and end at 7.5 s; before, each has read its libraries
    at_s = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]
    fast = [9, 900, 50 * MIB, *(MIB * (50 + 100 * k) for k in range(1, 6)), 600 * MIB]
    slow = [9, 900, *(own // 10 for own in fast[2:])]
    found = rates(stream(at_s, r0=fast, r1=slow))
    assert found["n1"][0] == pytest.approx(100 * MIB)
    assert found["n1"][1] == pytest.approx(10 * MIB, rel=1e-3)


def test_a_rank_that_stands_still_has_no_rate() -> None:
    found = rates(stream([float(k) for k in range(7)], r0=[k * MIB for k in range(7)], r1=7 * [5]))
    assert found["n1"] == {0: MIB, 1: 0.0}


SEVEN = [float(k) for k in range(7)]


def test_what_tells_no_rates_is_left_out() -> None:
    for told in (
        b"",
        stream([0.0, 1.0, 2.0, 3.0], r0=[0, 1, 2, 3]),  # one whole interval: too few
        stream([0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0], r0=[0, 1, 2, 3, 4, 5, 6]),
        stream(SEVEN, r0=[1000 - k for k in range(7)]),  # another process of that number
        stream(SEVEN, r0=7 * [0]),
    ):
        assert rates(told) == {}, told[-200:]


class Proc:
    """A made-up /proc of ranks: what they have moved, and who has numbered them."""

    def __init__(self, root: Path):
        self.root = root

    def write(self, pid: int, moved: int, **environ: str) -> None:
        (self.root / f"{pid}").mkdir(exist_ok=True)
        io = f"rchar: {moved // 4}\nwchar: {moved - moved // 4}\nsyscr: 7\nread_bytes: 512\nwrite_bytes: 1024\n"
        (self.root / f"{pid}/io").write_text(io)
        if environ:
            (self.root / f"{pid}/environ").write_text("".join(f"{name}={text}\0" for name, text in environ.items()))


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(ranks.procfs, "PROC", str(tmp_path))
    return Proc(tmp_path)


def test_the_kernel_tells_what_each_rank_has_moved(proc: Proc) -> None:
    """By the number that whoever started it gave it: hydra's ranks have Slurm's of their proxy."""
    proc.write(10, 0, SLURM_PROCID="0", PMI_RANK="4")
    proc.write(11, 0, SLURM_PROCID="5")
    seen = Progress("n1")
    for at_s in range(7):
        proc.write(10, at_s * MIB)
        proc.write(11, at_s * MIB // 4)
        seen.look(float(at_s), {"10", "11"})
    assert rates(seen.stream()) == {"n1": {4: MIB, 5: MIB / 4}}
    before = seen.stream()
    (proc.root / "11/io").unlink()  # it has ended: this look does not count
    seen.look(8.0, {"10", "11"})
    assert seen.stream() == before
