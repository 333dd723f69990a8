"""Figures that are not those of the storage: the check that exists for each fails, and that of the truth passes.
All lies are told by a scripted tool, target or machine."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import pytest

import scripted
from iosweep.node.load import Bound, Throttled
from machine import Scripted

READS: dict[str, Any] = {
    "name": "s", "tool": "fio", "phases": ["rand_read"], "phase_time": "20s", "repetitions": 1,
    "options": {"file_size": "1m", "transfer_size": "4k", "threads_per_node": 2, "queue_depth": 4},
}  # fmt: skip
WRITES = READS | {"phases": ["seq_write"], "options": READS["options"] | {"transfer_size": "64k"}}
RANDOM_DATA = WRITES | {"options": WRITES["options"] | {"data": "random"}}
ONE_PASS = READS | {"phase_time": "one_pass"}
FIVE_TIMES = READS | {"repetitions": 5}
ONE_BY_ONE = READS | {"options": READS["options"] | {"queue_depth": 1}}
FOUR = READS | {"options": READS["options"] | {"threads_per_node": 4}}
RANKS: dict[str, Any] = {
    "name": "i", "tool": "ior", "phases": ["seq_write"], "phase_time": "20s", "repetitions": 1,
    "options": {"threads_per_node": 2, "file_size": "1m", "transfer_size": "64k", "write_mode": "overwrite"},
}  # fmt: skip
#: Of each way to know the rates of ranks: IOR's file, and mdtest's.
ONE_WRITE = RANKS | {"phase_time": "one_pass", "options": RANKS["options"] | {"file_size": "16m"}}
MDTEST: dict[str, Any] = {
    "name": "m", "tool": "mdtest", "phases": ["create", "delete"], "repetitions": 1,
    "options": {"threads_per_node": 2, "files_per_thread": 100},
}  # fmt: skip
SLOWLY = {"ops_per_s": 100}
GIB = 1 << 30
NOTHING: Mapping[str, Any] = MappingProxyType({})


class Lie(NamedTuple):
    """What the tools do (rules) and what the machine shows, and the check that finds it; `verdict`: of its rows."""

    check: str
    rules: Sequence[scripted.Rule] = ()
    sweep: dict[str, Any] = READS
    verdict: str = "suspect"
    load: Mapping[str, Any] = NOTHING
    moved: Mapping[str, Any] = NOTHING


def asked(rule: scripted.Rule, **more: Any) -> Lie:
    return Lie("as_asked", [rule], verdict="invalid", **more)


def shape(*factors: float) -> list[scripted.Rule]:
    return [{"shape": factors}]


LIES: dict[str, Lie] = {
    # of the tool
    "ten times the operations": Lie("in_flight", [{"ops_per_s": 160_000, "waits": 10}], verdict="invalid"),
    "a clock of double the speed": Lie("clock", [{"seconds": 20, "wall_s": 10.2}], verdict="invalid"),
    "a clock of half the speed": Lie("clock", [{"seconds": 20, "wall_s": 40.2}], verdict="invalid"),
    "less time than asked for": Lie("duration", [{"seconds": 10}], verdict="invalid"),
    "dropped O_DIRECT": asked({"options": {"direct": None}}),
    "dropped flush": asked({"options": {"end_fsync": None}}, sweep=WRITES),
    "sequential and not random": asked({"options": {"rw": "read"}}),
    "another directory": asked({"options": {"directory": "/var/tmp/x"}}),
    "half of a pass": Lie("volume", [{"direction": {"total_ios": 256, "io_bytes": 1 << 20}}], ONE_PASS, "invalid"),
    "two passes": Lie("volume", [{"direction": {"total_ios": 1024, "io_bytes": 4 << 20}}], ONE_PASS, "invalid"),
    "a fifth of the latency": Lie("queue_depth", [{"waits": 0.2}], ONE_BY_ONE),
    "one worker told as four": Lie("workers", [{"workers": [1]}], FOUR, "invalid"),
    "another version's output": Lie("output", [{"version": "fio-3.40"}], verdict="invalid"),
    "one report five times": Lie("precise", [{"copies": True}], FIVE_TIMES),
    "fewer ranks": Lie("workers", [{"ranks": 1}], RANKS, "invalid"),
    # of the data
    "a data set of zeros": Lie("incompressible", [{"when": "--name=prepare", "zeros": True}]),
    "random data that is none": Lie("incompressible", [{"zeros": True}], RANDOM_DATA),
    # of the target
    "no byte from a device": Lie("reached", moved={"tool_read_bytes": 0, "device_read_bytes": 0}),
    "a loop device in memory": Lie("reached", moved={"memory": "loop0 is a file on tmpfs"}),
    "others write there": Lie("other_io", moved={"device_written_bytes": GIB}),
    # over time, workers and repetitions
    "a stall": Lie("steady", shape(*[1.0] * 6, *[0.0] * 8, *[1.0] * 6)),
    "burst credit": Lie("steady", shape(*[1.0] * 8, *[0.1] * 12)),
    "a ramp": Lie("steady", shape(*[0.05 * k for k in range(1, 21)])),
    "a decline": Lie("steady", shape(*[1 - 0.045 * k for k in range(20)])),
    "a slow worker": Lie("even", [{"workers": [1, 1, 1, 0.1]}], FOUR),
    "a slow rank of IOR": Lie("even", [{"workers": [1, 0.05], **SLOWLY}], ONE_WRITE),
    "a slow rank of mdtest": Lie("even", [{"workers": [1, 0.05], **SLOWLY}], MDTEST),
    "two modes": Lie("precise", [{"ops_per_s": 8000 * (1 + k % 2), "times": 1} for k in range(5)], FIVE_TIMES),
    "a drift": Lie("precise", [{"ops_per_s": 16000 - 2000 * k, "times": 1} for k in range(5)], FIVE_TIMES),
    # of the machine
    "other processes": Lie("other_load", load={"busy": 0.9, "ours": 0.3}),
    "another process on a worker's CPU": Lie("other_load", load={"bound": Bound(cpus="0", other=0.5)}),
    "a hypervisor": Lie("other_load", load={"steal": 0.3}),
    "a limited control group": Lie("io_limit", moved={"io_limits": {"riops": 1, "wiops": 1}}),
    "a CPU quota": Lie("cpu_quota", load={"throttled": Throttled(periods=200, stopped=100, stopped_s=5.0)}),
}  # fmt: skip


def measured(place: Path, sweep: dict[str, Any], lie: Lie | None = None) -> Scripted:
    place.mkdir(exist_ok=True)
    made = Scripted(place, sweep, pinning="verify")
    if lie:
        made.machine.play(*lie.rules)
        made.machine.load, made.machine.moved = dict(lie.load), dict(lie.moved)
    made.measure("--launcher", "direct" if sweep["tool"] == "fio" else "mpiexec")
    return made


@pytest.mark.parametrize("check", sorted({lie.check for lie in LIES.values()}))
def test_a_lie_is_caught_by_its_check(check: str, tmp_path: Path) -> None:
    for name, lie in LIES.items():
        if lie.check == check:
            made = measured(tmp_path / name, lie.sweep, lie)
            assert check in made.failed(), (name, [(row["outcome"], row["evidence"]) for row in made.checks(check)])
            assert {row["verdict"] for row in made.rows()} == {lie.verdict}, name


def test_the_truth_is_valid(tmp_path: Path) -> None:
    sweeps = (WRITES, RANDOM_DATA, ONE_BY_ONE, ONE_PASS, FIVE_TIMES, FOUR, RANKS, ONE_WRITE, MDTEST)
    for n, sweep in enumerate((*sweeps, RANKS | {"repetitions": 3})):
        truth = Lie("", [SLOWLY] if sweep in (ONE_WRITE, MDTEST) else [])
        made = measured(tmp_path / str(n), sweep, truth)
        assert (made.failed(), {row["verdict"] for row in made.rows()}) == (set(), {"valid"}), sweep


def test_a_slow_node_is_caught_and_two_alike_are_not(tmp_path: Path) -> None:
    for name, rules in (("alike", []), ("slow", [{"node": "n2", "ops_per_s": 2000}])):
        (tmp_path / name).mkdir()
        made = Scripted(tmp_path / name, READS | {"axes": {"nodes": [2]}})
        made.machine.hosts = ("n1", "n2")
        made.machine.play(*rules)
        made.measure()
        [row] = made.rows()
        assert row["nodes"] == 2, row["reasons"]
        found = {one["outcome"] for one in made.checks("even")}
        assert found == {"fail" if rules else "pass"}, made.checks()
        if rules:
            assert (row["verdict"], "node n2" in row["reasons"]) == ("suspect", True)
