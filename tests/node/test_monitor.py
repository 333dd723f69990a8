"""What a node does each second: how it is read, kept, and read back."""

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from iosweep.node import monitor
from iosweep.node.monitor import QUANTITIES, Monitor, Sample, encoded, series

STAT = b"""cpu  1 1 1 1 1 1 1 1 0 0
cpu0 100 100 50 800 20 5 5 10 0 0
cpu1 300 0 100 700 0 0 0 0 0 0
cpu2 0 0 0 100 0 0 0 0 0 0
intr 5
cpu3 9
"""
NAN = math.nan


def test_cpus_that_measure_and_others() -> None:
    tick_s = monitor._TICK_S
    both = list(monitor.cpus(STAT, frozenset({0, 1})))
    assert both == pytest.approx([tick_s * ticks for ticks in (330, 250, 75, 10, 5, 0, 0, 0, 0, 0)])
    everything = list(monitor.cpus(STAT, frozenset()))
    assert everything[:5] == pytest.approx([tick_s * ticks / 3 for ticks in (660, 500, 150, 20, 10)])
    assert all(map(math.isnan, everything[5:]))


def test_memory_and_disks_are_read_in_bytes_and_shares() -> None:
    text = b"MemTotal: 9 kB\nMemAvailable:   4 kB\nBuffers: 1 kB\nCached: 2 kB\nDirty: 3 kB\nWriteback: 0 kB\nHuge: 5\n"
    assert list(monitor.memory(text)) == [4096, 3072, 0, 3072]
    assert all(map(math.isnan, monitor.memory(b"")))
    one, two = b"1 2 3 4 5 6 7 8 3 1500 11 0 0", b"1 2 3 4 5 6 7 8 1 500 11"
    assert monitor.disks([one, two]) == (1.0, 4.0)
    assert all(map(math.isnan, monitor.disks([])))
    assert all(map(math.isnan, monitor.disks([one, b""])))


def samples(*times: float, **values: list[float]) -> list[Sample]:
    names = [one.name for one in QUANTITIES]
    rows = ([values[name][k] if name in values else NAN for name in names] for k in range(len(times)))
    return [Sample(at_s, tuple(row)) for at_s, row in zip(times, rows, strict=True)]


def test_counts_become_rates_and_levels_stay() -> None:
    seen = samples(
        5.0, 6.01, 7.0, 8.0, 8.3,
        received_bytes_per_s=[1000.0, 2010.0, 3000.0, 5000.0, 6500.0], dirty_bytes=[1.0, 2.0, 3.0, 4.0, 5.0],
    )  # fmt: skip
    made = {one.name: one for one in series(encoded("n1", seen, 1.0))}
    assert set(made) == {"received_bytes_per_s", "dirty_bytes"}
    received = made["received_bytes_per_s"]
    assert received.values == pytest.approx([1000, 1000, 3500 / 1.3], rel=1e-4)
    assert (received.host, received.interval_s, received.begin_s, received.worker) == ("n1", 1.0, 0.0, None)
    assert made["dirty_bytes"].values == (2.0, 3.0, 5.0)


def test_a_counter_that_began_again_and_a_level_that_was_not_read() -> None:
    seen = samples(0.0, 1.0, 2.0, 5.0, sent_bytes_per_s=[50.0, 60.0, 0.0, 30.0], dirty_bytes=[1.0, 2.0, 3.0, 4.0])
    sent, dirty = sorted(series(encoded("", seen, 1.0)), key=lambda one: one.name, reverse=True)
    assert sent.values[0] == 10.0 and math.isnan(sent.values[1]) and sent.values[2:] == (10.0, 10.0, 10.0)
    assert dirty.values[:2] == (2.0, 3.0)
    assert [math.isnan(one) for one in dirty.values[2:]] == [True, True, False]


def test_what_a_node_does_is_read_from_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a set clock: two CPUs for four seconds, one of them busy in user mode for one, and memory in kilobytes."""
    clock = iter((10.0, 14.0))
    monkeypatch.setattr(monitor, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    hertz = round(1 / monitor._TICK_S)
    watched = Monitor(proc=tmp_path)
    (tmp_path / "meminfo").write_text("MemAvailable: 4 kB\nDirty: 3 kB\nWriteback: 2 kB\nCached: 1 kB\n")
    for busy in (0, hertz):
        (tmp_path / "stat").write_text(f"cpu0 {busy} 0 0 9 0 0 0 0 0 0\ncpu1 0 0 0 9 0 0 0 0 0 0\nintr 5\n")
        watched.read()
    found = {one.name: one.values for one in series(watched.stream())}
    assert found["measuring_cpus_busy_share"] == pytest.approx((0.125,) * 4)
    assert found["memory_available_bytes"][-1] == 4096
    assert watched.dirty_bytes() == 5 * 1024
    assert not any(name.startswith("other_cpus") for name in found)


def test_how_long_our_own_process_stood_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for times, still_s in (((0.0, 1.0, 2.0), 0.0), ((0.0, 1.0, 15.0, 16.0), 13.0), ((0.0,), 0.0)):
        clock = iter(times)
        monkeypatch.setattr(monitor, "time", SimpleNamespace(monotonic=clock.__next__))
        watched = Monitor(proc=tmp_path)
        for _ in times:
            watched.read()
        assert watched.still_s() == still_s, times
