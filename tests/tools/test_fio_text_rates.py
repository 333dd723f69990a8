"""fio's classic text: rates in bits, and runs that were too short, whose time is not printed."""

import pytest

from iosweep.tools.fio.foreign import read
from iosweep.tools.reading import Reading

#: `%s`: the line of the direction, operations
REPORT = """\
j: (g=0): rw=write, bs=(R) 64.0KiB-64.0KiB, (W) 64.0KiB-64.0KiB, (T) 64.0KiB-64.0KiB, ioengine=psync, iodepth=1
fio-3.33
Starting 1 process

j: (groupid=0, jobs=1): err= 0: pid=4711: Sun Nov 22 12:00:00 2026
  write: %s; 0 zone resets
  cpu          : usr=5.00%%, sys=90.00%%, ctx=10, majf=0, minf=9
  IO depths    : 1=100.0%%, 2=0.0%%, 4=0.0%%, 8=0.0%%, 16=0.0%%, 32=0.0%%, >=64=0.0%%
     issued rwts: total=0,%d,0,0 short=0,0,0,0 dropped=0,0,0,0
     latency   : target=0, window=0, percentile=100.00%%, depth=1
"""


def parsed(line: str, ops: int) -> Reading:
    return read({"t.txt": (REPORT % (line, ops)).encode()}, None)


def of_time(ms: int, ops: int) -> Reading:
    moved = ops << 16
    rate = moved * 1000 / ms
    bandwidth = f"BW={rate / 2**20:.0f}MiB/s ({rate / 1e6:.0f}MB/s)({moved / 2**20:.0f}MiB/{ms}msec)"
    return parsed(f"IOPS={ops * 1000 / ms:.0f}, {bandwidth}", ops)


def said(found: Reading) -> list[str]:
    return [f"{problem.severity}: {problem.text}" for problem in found.problems]


@pytest.mark.parametrize(
    "line",
    [
        "IOPS=15.0k, BW=7855Mibit/s (8237Mbit/s)(9829MiB/10010msec)",  # --unit_base=1
        "IOPS=15.0k, BW=8237Mbit/s (7855Mibit/s)(10.3GB/10010msec)",  # and --kb_base=1000
        "IOPS=15.0k, BW=982MiB/s (1030MB/s)(9829MiB/10010msec)",
        "IOPS=15.0k, BW=1030MB/s (982MiB/s)(10.3GB/10010msec)",
    ],
)
def test_rates_are_read_in_every_unit_that_fio_prints(line: str) -> None:
    found = parsed(line.replace("15.0k", "15.7k"), 157_264)
    assert said(found) == []
    assert found.rows[0]["bandwidth_bytes_per_s"] == pytest.approx(1.0296e9, rel=1e-3)


def test_bits_that_would_be_bytes_are_a_contradiction() -> None:
    (problem,) = said(parsed("IOPS=15.7k, BW=982Mibit/s (1030Mbit/s)(9829MiB/10010msec)", 157_264))
    assert problem == "invalid: j: bandwidth, bytes and time do not agree"


@pytest.mark.parametrize(
    ("ms", "ops", "short"),
    [
        (1001, 17_007, "ran for 1.001 s, as with runtime=1: phases of 1 s are too short"),
        (9019, 170_007, "ran for 9.019 s, as with runtime=9: phases of 9 s are too short"),
        (10001, 170_007, ""),
        (1100, 17_007, ""),  # data ended it
        (1001, 16_384, ""),  # 1 GiB
        (400, 7_007, ""),
    ],
)
def test_a_run_of_few_whole_seconds_is_too_short(ms: int, ops: int, short: str) -> None:
    found = of_time(ms, ops)
    assert [text.removeprefix("suspect: j: ").split(" to judge")[0] for text in said(found)] == (
        [short] if short else []
    )
    assert found.verdict(0) == ("suspect" if short else "valid")
