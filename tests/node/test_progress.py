"""What each rank had moved at each look: read from the kernel, kept, and made into rates."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from iosweep.node import progress
from iosweep.node.progress import Progress, of_nodes, rates

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
    at_s = [float(k) for k in range(7)]
    found = rates(stream(at_s, r0=[k * MIB for k in range(7)], r1=7 * [5]))
    assert found["n1"] == {0: MIB, 1: 0.0}


@pytest.mark.parametrize(
    "told",
    [
        b"",
        b"no JSON\n",
        b"\xff\n",
        stream([0.0, 1.0, 2.0, 3.0], r0=[0, 1, 2, 3]),  # one whole interval: too few
        stream([0.0, 1.0, 1.0, 2.0, 3.0, 4.0, 5.0], r0=[0, 1, 2, 3, 4, 5, 6]),
        stream([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], r0=[0, 1, 2]),
        stream([float(k) for k in range(7)], r0=[1000 - k for k in range(7)]),  # another process of that number
        stream([float(k) for k in range(7)], r0=7 * [0]),
        stream([float(k) for k in range(7)]),
        stream([float("nan")] * 7, r0=list(range(7))),
        stream([float(k) for k in range(7)], r0=[10**400 * k for k in range(7)]),
        stream([float(k) for k in range(7)], r0=[10**18 * k for k in range(7)]),
        stream([5e-324 * k for k in range(7)], r0=list(range(7))),
        stream([float(k) for k in range(7)], r0=[k - 3 for k in range(7)]),
        stream([float(k) for k in range(7)], **{f"r{'1' * 5000}": list(range(7))}),
        b" " * (16 << 20) + stream([float(k) for k in range(7)], r0=list(range(7))),
        b'{"host":"n1","at_s":[0,1,2,3,4,5],"moved_bytes":{"x":[0,1,2,3,4,5]}}\n',
    ],
)
def test_what_tells_no_rates(told: bytes) -> None:
    assert rates(told) == {}


def test_a_node_without_rates_does_not_hide_others() -> None:
    whole = stream([float(k) for k in range(7)], r2=[k * MIB for k in range(7)])
    assert rates(of_nodes({"n1": stream([0.0], r0=[1]), "n2": whole, "n3": b""})) == {"n2": {2: MIB}}


def rank(number: str) -> subprocess.Popen[str]:
    """A process that writes a given number of bytes."""
    work = (
        "import sys, os\nout = os.open(os.devnull, os.O_WRONLY)\n"
        "for line in sys.stdin: os.write(out, bytes(int(line))); print(flush=True)"
    )
    return subprocess.Popen(
        [sys.executable, "-c", work],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PMI_RANK": number, "SLURM_PROCID": "0"},
    )


@pytest.mark.local
def test_the_kernel_tells_what_a_process_has_moved() -> None:
    ranks = {number: rank(number) for number in ("4", "5")}
    seen = Progress()
    for at_s in range(7):
        for number, process in ranks.items():
            assert process.stdin and process.stdout
            print(MIB if number == "4" else MIB // 4, file=process.stdin, flush=True)
            process.stdout.readline()
        seen.look(float(at_s), {str(process.pid) for process in ranks.values()})
    found = rates(of_nodes({"n1": seen.stream()}))["n1"]
    assert found[4] == pytest.approx(MIB, rel=0.01)
    assert found[5] == pytest.approx(MIB / 4, rel=0.01)
    ended = str(ranks["4"].pid)
    for process in ranks.values():
        process.communicate(timeout=10)
    before = seen.stream()
    seen.look(8.0, {ended})  # it has ended: this look does not count
    assert seen.stream() == before


def test_there_are_never_many_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter(range(0, 10_000_000, 1000))
    monkeypatch.setattr(progress.procfs, "read", lambda pid, name: b"rchar: %d\nwchar: 0\n" % next(counted))
    monkeypatch.setattr(progress.procfs, "variable", lambda pid, name: "0" if name == "SLURM_PROCID" else "")
    seen = Progress()
    for at_s in range(1000):
        seen.look(float(at_s), {"1"})
    looks = json.loads(seen.stream())
    assert progress._MOST / 2 <= len(looks["at_s"]) <= progress._MOST
    assert rates(seen.stream()) == {"": {0: pytest.approx(1000)}}


def test_a_process_without_a_number_is_no_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress.procfs, "read", lambda pid, name: b"rchar: 1\nwchar: 0\n")
    monkeypatch.setattr(progress.procfs, "variable", lambda pid, name: "")
    seen = Progress()
    seen.look(0.0, {"1"})
    assert seen.stream() == b""
