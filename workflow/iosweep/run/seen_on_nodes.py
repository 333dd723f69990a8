"""What was seen on the nodes while a command ran there, as one. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from iosweep.node import load, monitor, progress
from iosweep.node.cpu_record import Load, Looks
from iosweep.node.io_record import Moved
from iosweep.node.process import Completed
from iosweep.node.watching import Watched


class SeenOnNodes(NamedTuple):
    """What was seen on the nodes while a command ran: the most ranks at once, the load by others, what sampling saw,
    what each host moved, what they did each second, and what each rank had moved at times."""

    ranks: dict[str, int]
    load: Load | None
    cpus: dict[str, Looks] | None
    moved: dict[str, Moved]
    monitor: bytes
    progress: bytes

    def onto(self, done: Completed) -> Completed:
        seen = replace(done, load=self.load, cpus=self.cpus, moved=self.moved)
        return replace(seen, monitor=self.monitor, progress=self.progress)


def of_nodes(seen: Mapping[str, Watched]) -> SeenOnNodes:
    return SeenOnNodes(
        ranks={host: one.ranks for host, one in seen.items()},
        load=load.of_nodes({host: one.load for host, one in seen.items()}),
        cpus={host: one.cpus for host, one in seen.items() if one.cpus} or None,
        moved={host: one.moved for host, one in seen.items()},
        monitor=monitor.of_nodes({host: one.monitor for host, one in seen.items()}),
        progress=progress.of_nodes({host: one.progress for host, one in seen.items()}),
    )


def together(done: Mapping[str, Completed]) -> Completed:
    """The commands that hosts ran at the same time as one: the worst of each figure.

    Lines of stderr are joined, each with its host; stdout is in the streams.
    """
    every = list(done.values())
    failed = next((one for one in every if one.exit_code), every[0])
    return Completed(
        argv=failed.argv,
        exit_code=failed.exit_code,
        timed_out=any(one.timed_out for one in every),
        flooded=any(one.flooded for one in every),
        wall_s=max(one.wall_s for one in every),
        left_behind=tuple(f"{each} on {host}" for host, one in done.items() for each in one.left_behind),
        argvs=tuple(one.argv for one in every) if len(every) > 1 else (),
        stderr=b"".join(
            f"{host}: ".encode() + line for host, one in done.items() for line in one.stderr.splitlines(keepends=True)
        ),
    )
