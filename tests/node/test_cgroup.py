"""CPU quotas, by the files of control groups."""

from pathlib import Path

from iosweep.node.cgroup import quotas, throttled
from iosweep.node.cpu_record import Throttled

V2 = "usage_usec 9\nnr_periods 50\nnr_throttled 5\nthrottled_usec 1500000\n"
V1 = "nr_periods 50\nnr_throttled 5\nthrottled_time 1500000000\n"


def group(folder: Path, stat: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cpu.stat").write_text(stat)
    return folder / "cpu.stat"


def test_groups_of_both_versions_and_those_above(tmp_path: Path) -> None:
    counted, nothing = Throttled(50, 5, 1.5), Throttled(0, 0, 0.0)
    job, top = group(tmp_path / "system/job_7", V2), group(tmp_path, "usage_usec 9\n")
    step = group(tmp_path / "system/job_7/step_0", V2)
    group(tmp_path / "system/job_8", V2)
    assert quotas("0::/system/job_7/step_0\n", tmp_path) == {step: counted, job: counted, top: nothing}
    assert quotas("0::/../x\n", tmp_path) == {top: nothing}, "a container that sees its own groups only"
    old = group(tmp_path / "cpu,cpuacct/slurm", V1)
    assert quotas("4:memory:/a\n3:cpu,cpuacct:/slurm\n2:cpuset:/\n", tmp_path) == {old: counted}
    assert quotas("", tmp_path) == {}


def test_what_stopped_longest() -> None:
    a, b, new = Path("a"), Path("b"), Path("new")
    before = {a: Throttled(10, 5, 1.0), b: Throttled(10, 0, 0.0)}
    after = {a: Throttled(60, 10, 2.0), b: Throttled(60, 40, 9.0), new: Throttled(60, 60, 60.0)}
    assert throttled(before, after) == Throttled(50, 40, 9.0)
    assert throttled(before, before) == Throttled(0, 0, 0.0)
    assert throttled({}, {}) is None
