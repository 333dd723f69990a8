"""Which nodes, CPUs and Slurm jobs the rows of a campaign come from."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from iosweep.node.cpus import listed, parse
from iosweep.node.pinning import NodesCpus
from iosweep.plan.model import Point
from iosweep.store.record import Record


class Job(msgspec.Struct, array_like=True):
    """What a Slurm job measured. points: id -> nodes."""

    hosts: tuple[str, ...]
    launcher: str
    started: datetime
    ended: datetime
    repetitions: int
    points: dict[str, int]

    def join(self, other: Job) -> None:
        """Add what another part of the campaign says of the same job."""
        self.started, self.ended = min(self.started, other.started), max(self.ended, other.ended)
        self.repetitions += other.repetitions
        self.points.update(other.points)


class Origins(msgspec.Struct, array_like=True):
    """Collects, repetition by repetition, which nodes, CPUs and Slurm jobs the rows come from.

    rows: key of a node's facts -> rows; fsids: of the targets, where the file system has one; masks: key of a node's
    facts -> CPU lists of ranks and workers.
    """

    rows: dict[str, int] = msgspec.field(default_factory=dict)
    fsids: set[str] = msgspec.field(default_factory=set)
    masks: dict[str, set[str]] = msgspec.field(default_factory=dict)
    by_job: dict[str, Job] = msgspec.field(default_factory=dict)

    def add(self, point: Point, record: Record) -> None:
        """Count a repetition."""
        if (fsid := record.target.fsid) and int(fsid, 16):
            self.fsids.add(fsid)
        keys = record.facts_of
        for key in keys.values():
            self.rows[key] = self.rows.get(key, 0) + len(record.phases)
        for run in record.phases:
            for node in run.cpus.nodes if run.cpus else ():
                allowed = masks(node)
                cpu_list(allowed)  # raises ValueError here, where the repetition is known
                for host in node.hosts:
                    self.masks.setdefault(keys.get(host, ""), set()).update(allowed)
        if slurm := record.slurm:
            launcher = record.launcher.name if record.launcher else slurm.launcher
            new = Job(slurm.allocation_hosts, launcher, record.started, record.ended, 1, {point.id: point.nodes})
            self._add_job(slurm.job, new)

    def join(self, other: Origins) -> None:
        """Add what was collected of another part of the campaign."""
        for key, rows in other.rows.items():
            self.rows[key] = self.rows.get(key, 0) + rows
        self.fsids |= other.fsids
        for key, masks in other.masks.items():
            self.masks.setdefault(key, set()).update(masks)
        for name, job in other.by_job.items():
            self._add_job(name, job)

    def _add_job(self, name: str, job: Job) -> None:
        if known := self.by_job.get(name):
            known.join(job)
        else:
            self.by_job[name] = replace(job, points=dict(job.points))

    def used_cpus(self, key: str) -> str | None:
        """CPUs that ranks and workers had on a node, None where no masks were read."""
        return cpu_list(frozenset(self.masks.get(key, ())))

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
            for name, job in sorted(self.by_job.items(), key=lambda found: found[1].started)
        ]


def masks(node: NodesCpus) -> frozenset[str]:
    """CPU lists that the ranks and workers of a node, and their threads, were allowed on."""
    own = (p for p in node.processes if p.role in ("rank", "worker"))
    return frozenset(mask for p in own for mask in (*p.masks, *p.thread_masks))


@lru_cache(10_000)
def cpu_list(masks: frozenset[str]) -> str | None:
    """The union of CPU lists, None if it is empty."""
    return listed(parse(",".join(masks))) or None
