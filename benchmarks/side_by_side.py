"""Does `compare --over target` find what is there, and nothing else? Of two real file systems with known rates.

Two loop devices with ext4 are throttled by the kernel (cgroup blkio): the second to the rate of the first, or to 15 or
20 % less. Each campaign measures both side by side. A loss must be found, with its size; without a loss, nothing must
be. The machine may be busy: what disturbs both targets alike is not in their ratio.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from campaigns import written
from iosweep.analysis.comparison import NamedCampaign, versus_over
from iosweep.analysis.summary import summarize_campaign
from iosweep.config import sweep_file
from iosweep.plan.expand import make_plan
from iosweep.tables.make import make_tables
from iosweep.tables.reader import load
from measure import IOSWEEP, ROOT, CannotRun, Row, Size, child

sys.path.append(str(ROOT / "tests/support"))
import mounts

#: Losses of the second target, and by how much the found one may differ from them.
LOSSES, ALLOWED = (0.0, 0.15, 0.20), 0.03
#: Of the first target, in I/Os and bytes per second: less than the devices do on a busy machine.
IOPS, BANDWIDTH = 3000, 60 << 20
CGROUP = Path("/sys/fs/cgroup/blkio")

CONFIGURATION = """\
campaign: {name}
targets:
  a: {{directory: {work}/a}}
  b: {{directory: {work}/b}}
limits: {{fill: 99%, share_of_free: 90%, shortest_phase: 0.5s}}
sweeps:
  - name: both
    tool: fio
    phases: [seq_write, rand_read]
    axes: {{transfer_size: [4k, 1m]}}
    options: {{file_size: 8m}}
    phase_time: 1s
    repetitions: 5
"""


def run(size: Size, work: Path) -> Iterator[Row]:
    """A row for each loss."""
    if shutil.which("fio") is None:
        raise CannotRun("fio is not on PATH")
    if mounts.missing() or not (CGROUP / "blkio.throttle.read_iops_device").exists():
        raise CannotRun("throttled devices need root and the blkio controller of cgroup v1")
    with ExitStack() as stack:
        for name in "ab":
            (work / name).mkdir()
            stack.enter_context(mounts.disk(work / name))
        devices = [mounts.device(work / name) for name in "ab"]
        for loss in LOSSES:
            with _throttled(devices, (1.0, 1 - loss)) as group:
                found = [_measure(work, f"loss-{loss:.2f}-{number}", group) for number in range(size.campaigns)]
            yield _row(loss, found)


def _row(loss: float, found: Sequence[Sequence[tuple[str, float]]]) -> Row:
    """found: the explained differences of each campaign, as (verdict, share)."""
    if loss:
        right = [one for one in found if one and all(v == "worse" and abs(s + loss) <= ALLOWED for v, s in one)]
    else:
        right = [one for one in found if not one]
    shares = sorted(share for one in found for _, share in one)
    told = f"; {shares[0]:+.1%} to {shares[-1]:+.1%}" if shares else ""
    what = f"a loss of {loss:.0%} is found with its size" if loss else "without a loss nothing is found"
    measured = f"{len(right)}{told}"
    return Row("side by side", what, f"{len(found)} campaigns", measured, budget="all", met=len(right) == len(found))


def _measure(work: Path, name: str, group: Path) -> list[tuple[str, float]]:
    """Measure a campaign as Snakemake starts it, throttled; returns its explained differences."""
    file = work / f"{name}.yaml"
    file.write_text(CONFIGURATION.format(name=name, work=work), encoding="utf-8")
    made = make_plan(sweep_file.read(file))
    plan_file = written(made, work, name)
    results = plan_file.parent.parent
    (group / "cgroup.procs").write_text(str(os.getpid()))
    try:
        command = [*IOSWEEP, "measure", plan_file, "--allocation", made.allocations[0].name]
        child([*command, "--manifest", results / "m.jsonl", "--log", results / "m.log"], work)
    finally:
        (CGROUP / "cgroup.procs").write_text(str(os.getpid()))
    make_tables(made, results)
    campaign = load(results)
    named = NamedCampaign(name, results, campaign, tuple(summarize_campaign(campaign)))
    (versus,) = versus_over(named, "target")
    return [(diff.verdict, diff.estimate.share) for diff in versus.found.explained if diff.estimate]


@contextmanager
def _throttled(devices: Sequence[Path], shares: Sequence[float]) -> Iterator[Path]:
    """A cgroup whose processes reach these shares of IOPS and BANDWIDTH on the devices."""
    group = CGROUP / "iosweep-bench"
    group.mkdir()
    try:
        for device, share in zip(devices, shares, strict=True):
            number = device.stat().st_rdev
            for direction in ("read", "write"):
                for limit, rate in (("iops", IOPS), ("bps", BANDWIDTH)):
                    text = f"{os.major(number)}:{os.minor(number)} {int(rate * share)}"
                    (group / f"blkio.throttle.{direction}_{limit}_device").write_text(text)
        yield group
    finally:
        group.rmdir()
