"""Which nodes, CPUs and Slurm jobs the rows of a campaign come from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from iosweep.node.cpu_record import NodesCpus
from iosweep.node.cpus import listed, parse
from iosweep.plan.model import Point
from iosweep.results.record import Record
from iosweep.target.filesystem import on_root


@dataclass
class _Job:
    """What a Slurm job measured."""

    hosts: Sequence[str]
    launcher: str
    started: datetime
    ended: datetime
    repetitions: int = 0
    points: dict[str, int] = field(default_factory=dict)  # id -> nodes


class Origins:
    """Collects, repetition by repetition, which nodes, CPUs and Slurm jobs the rows come from."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()  # key of a node's facts -> rows
        self.trusted: set[str] = set()  # users who could have redirected tools (target.trust_other_writers)
        self.on_root = False  # according to the results: the file of a node may be gone
        self.fsids: set[str] = set()  # of the targets, where the file system has one
        self._masks: dict[str, set[str]] = {}  # key of a node's facts -> CPU lists of ranks and workers
        self._jobs: dict[str, _Job] = {}

    def add(self, point: Point, record: Record) -> None:
        """Count a repetition."""
        self.trusted.update(record.target.trusted_writers)
        self.on_root = self.on_root or on_root(record.target.mount)
        if (fsid := record.target.fsid) and int(fsid, 16):
            self.fsids.add(fsid)
        keys = record.facts_of
        for key in keys.values():
            self.rows[key] += len(record.phases)
        for run in record.phases:
            for node in run.cpus.nodes if run.cpus else ():
                allowed = masks(node)
                cpu_list(allowed)  # raises ValueError here, where the repetition is known
                for host in node.hosts:
                    self._masks.setdefault(keys.get(host, ""), set()).update(allowed)
        if slurm := record.slurm:
            launcher = record.launcher.name if record.launcher else slurm.launcher
            new = _Job(slurm.allocation_hosts, launcher, record.started, record.ended)
            job = self._jobs.setdefault(slurm.job, new)
            job.started, job.ended = min(job.started, record.started), max(job.ended, record.ended)
            job.repetitions += 1
            job.points[point.id] = point.nodes

    def used_cpus(self, key: str) -> str | None:
        """CPUs that ranks and workers had on a node, None where no masks were read."""
        return cpu_list(frozenset(self._masks.get(key, ())))

    def jobs(self) -> list[dict[str, object]]:
        """The Slurm jobs, ordered by the start of their first repetition; hosts in Slurm's order."""
        return [
            {
                "job": name,
                "launcher": job.launcher,
                "hosts": job.hosts,
                "node_counts": sorted(set(job.points.values())),
                "points": len(job.points),
                "repetitions": job.repetitions,
                "started": job.started.isoformat(),
                "ended": job.ended.isoformat(),
            }
            for name, job in sorted(self._jobs.items(), key=lambda found: found[1].started)
        ]


def masks(node: NodesCpus) -> frozenset[str]:
    """CPU lists that the ranks and workers of a node, and their threads, were allowed on."""
    own = (p for p in node.processes if p.role in ("rank", "worker"))
    return frozenset(mask for p in own for mask in (*p.masks, *p.thread_masks))


@lru_cache(10_000)
def cpu_list(masks: frozenset[str]) -> str | None:
    """The union of CPU lists, None if it is empty."""
    return listed(parse(",".join(masks))) or None
