"""The campaign's directory on the target: claiming it, whether there is space for more, and removing what is not kept.

The agent touches the target, with a deadline (target/directory.py, target/trees.py); nothing here does.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence

from msgspec.structs import asdict, replace

from iosweep.errors import ExitCode, Refused, TargetError
from iosweep.node import procfs
from iosweep.node.facts import host_name
from iosweep.plan.forecast import Forecast
from iosweep.plan.model import Plan
from iosweep.run.agents import RemoteAgents
from iosweep.run.preflight import unfit
from iosweep.store.record import ClaimedTarget, MeasuredTarget
from iosweep.store.store import Store
from iosweep.target import directory, identify, space, trees
from iosweep.target.agent import Agent
from iosweep.target.directory import FRESH, SETS, Place
from iosweep.target.identify import FileSystem
from iosweep.target.space import Room
from iosweep.target.trees import Removed

#: Time limit for deleted files to become free space (MooseFS: 2 to 5 s).
FREED_S = 10.0
#: Time until one node sees what another one has made: the longest time that NFS caches names (30 s), and a margin.
NAME_CACHE_S = 35.0


class CampaignDirectory:
    """`<target>/iosweep-<campaign>/`. Raises what Agent.call raises."""

    def __init__(self, plan: Plan, store: Store, agent: Agent, remote: RemoteAgents | None = None):
        self._target = plan.target
        self._limits = asdict(plan.limits)
        self._store = store
        self._agent, self._remote = agent, remote
        self._campaign = plan.campaign
        self.path = directory.directory_of(plan.target.directory, plan.campaign)
        self.uuid = ""  # of its marker, once it is claimed
        self.file_system = ""  # its identity (identify.identity)
        self.fstype = ""
        self.layout = ""
        self.present_bytes = 0  # our bytes there, without those of the current repetition
        self._deleted_bytes = 0  # which may not be free yet

    @property
    def place(self) -> Place:
        """As the agent's operations take it."""
        return Place(self.path, self.uuid)

    def claim(self, facts: FileSystem, peak: Forecast) -> None:
        """Make it, or check that it is ours. Raises Refused before the first byte if `peak` does not fit.

        `facts`: of the target's file system.
        """
        mine = self._store.claimed()
        self.file_system, self.fstype = identify.identity(facts), facts["fstype"]
        parent = self._target.directory
        if mine and mine.directory != self.path and not mine.tidied:
            raise Refused(
                f"this campaign has left {mine.directory} on another target; `iosweep clean {self._campaign} --yes`"
                " removes it, or take another campaign name"
            )
        if unsettable := self._target.layout and directory.unsettable(self.fstype):
            raise Refused(str(unsettable))
        there = mine if mine and self._agent.call(directory.has_marker, self.path, mine.uuid) else None
        if there:
            self.uuid = there.uuid
            marker, usage = self._agent.call_all(
                (directory.read_owner, (self.path,)), (trees.measure_usage, (self.place,))
            )
            self._store.check_original(self.path, str(marker.get("results")))
            self.present_bytes = usage["bytes"]
        if wrong := self._too_much(parent, peak.peak_bytes, peak.inodes):
            raise Refused(f"refused, nothing was written to {parent}: {wrong}")
        if there and there.layout != self._target.layout:
            # existing files keep the striping that they were made with
            for part in (FRESH, SETS):
                if stays := self._agent.call(trees.remove, self.place, part)["wrong"]:
                    raise TargetError(errno.ENOTEMPTY, f"{self.path} has another layout, and cannot go: {stays[0]}")
            self.recount()
        self.uuid = self._store.mark()
        owner = {
            "uuid": self.uuid,
            "uid": os.getuid(),
            "user": procfs.user_name(os.getuid()),
            "host": host_name(),
            "results": str(self._store.path.absolute()),
            "campaign": self._campaign,
        }
        self._agent.call(directory.claim, self.path, owner)
        self._store.put(
            "",
            "target",
            ClaimedTarget(
                campaign=self._campaign,
                directory=self.path,
                uuid=self.uuid,
                layout=self._target.layout,
                deadline=self._target.deadline,
                lock=self._target.lock,
                file_system=self.file_system,
                source=facts["source"],
                tidied=False,
            ),
        )
        if self._target.layout:
            self._agent.call(directory.set_layout, self.place, self.fstype, list(self._target.layout))
        self.layout = self._agent.call(directory.read_layout, self.place, self.fstype)
        self.remove(FRESH)  # files of an interrupted repetition

    @property
    def left_over(self) -> bool:
        """Whether it was claimed, and not tidied up since."""
        mine = self._store.claimed()
        return bool(mine and mine.directory == self.path and not mine.tidied)

    def copied(self, facts: FileSystem) -> str | None:
        """Why what is there now may be a copy on another file system, or None. `facts`: of the target."""
        mine, here = self._store.claimed(), identify.identity(facts)
        if not mine or mine.directory != self.path or mine.file_system == here:
            return None
        return mine.elsewhere(here) if self._agent.call(directory.has_marker, self.path, mine.uuid) else None

    def tidy_up(self) -> Removed:
        """Remove the campaign's directory from the target."""
        mine = self._store.claimed()
        assert mine
        self.uuid = mine.uuid
        gone = self._agent.call(trees.remove_all, self.place)
        self._store.put("", "target", replace(mine, tidied=True))
        return gone

    # Space

    def may_write(self, size: int, inodes: int, room: Room | None = None) -> None:
        """Raise Refused if there is no space for `size` more bytes, or for so many files. `room`: as seen just now."""
        if (size or inodes) and (wrong := self._too_much(self.path, self.present_bytes + size, inodes, room)):
            raise Refused(wrong)

    def _too_much(self, where: str, size: int, inodes: int, room: Room | None = None) -> str | None:
        """Why `size` bytes, with ours that are there already, do not fit; None if they do. Waits a few seconds for what
        was deleted to become free."""
        end = time.monotonic() + (FREED_S if self._deleted_bytes else 0.0)
        while True:
            room = room or self._agent.call(space.read_room, where)
            now = room["space"]
            if identify.identity(room["file_system"]) != self.file_system:
                return f"{where} is on another file system than when it began; is the target still mounted?"
            wrong = space.too_much(now, self.present_bytes, size, inodes, self._limits)
            wrong = wrong or space.over_quota(room["quotas"], max(0, size - self.present_bytes), inodes)
            if wrong is None:
                self._deleted_bytes = 0
                return None
            if not now["used_bytes"] + now["free_bytes"]:  # are its data servers down?
                raise Refused(f"{where}: {wrong}", lasting=False)
            if time.monotonic() > end:
                return f"{wrong}{space.not_freed(self._deleted_bytes) if self._deleted_bytes else ''}"
            time.sleep(1)
            room = None

    def recount(self) -> None:
        """Measure how much stays there."""
        self.present_bytes = self._agent.call(trees.measure_usage, self.place, SETS)["bytes"]

    # The nodes. Where there are agents on them, AllocationError is raised; else Refused, and what Agent.call raises

    def see_shared(self) -> None:
        """Check that every node sees this directory: a node may have another file system mounted at the same path."""
        end = time.monotonic() + NAME_CACHE_S
        while self._remote and (found := unfit(self._remote.answers(directory.check_marker, self.place))):
            if found.code == ExitCode.HANGS or time.monotonic() > end:
                raise found
            time.sleep(0.5)

    def see_usable(self, data: bool = True) -> None:
        """See that every node can write to it and read from it. `data`: as in directory.probe."""
        if self._remote is None:
            if why := self._agent.call(directory.probe, self.place, "", data):
                raise Refused(why)
        # each under a name of its own, because all nodes write at the same time
        elif found := unfit(
            self._remote.answers(directory.probe, each={h: (self.place, h, data) for h in self._remote.hosts})
        ):
            raise found

    def see_unchanged(self, hosts: Sequence[str]) -> None:
        """See that tools may be started on paths in it on these nodes, right before that."""
        if self._remote is None:
            self._agent.call(directory.check_marker, self.place)
        elif found := unfit(self._remote.answers(directory.check_marker, each=dict.fromkeys(hosts, (self.place,)))):
            raise found

    # Files

    def prepare(self, below: list[str], size: int, inodes: int, empty: bool) -> list[str]:
        """Make directories below it (and empty them), for `size` more bytes and so many files; returns their absolute
        paths. One request. Raises Refused where there is no space."""
        emptied = below if empty else []
        *removed, room, paths = self._agent.call_all(
            *((trees.remove, (self.place, each)) for each in emptied),
            (space.read_room, (self.path,)),
            (trees.make_directories, (self.place, below)),
        )
        for each, gone in zip(emptied, removed, strict=True):
            if wrong := self._count(each, gone)["wrong"]:
                raise TargetError(errno.ENOTEMPTY, f"{each} cannot be emptied: {wrong[0]}")
        self.may_write(size, inodes, room)
        return list(paths)

    def remove(self, below: str) -> Removed:
        """Remove a tree below it."""
        return self._count(below, self._agent.call(trees.remove, self.place, below))

    def _count(self, below: str, removed: Removed) -> Removed:
        """Count what was removed."""
        if removed["files"]:
            self._deleted_bytes += removed["bytes"]
            if not below.startswith(f"{FRESH}/"):  # files of the current repetition are not in present_bytes
                self.present_bytes = max(0, self.present_bytes - removed["bytes"])
        return removed

    def recorded(self, facts: FileSystem) -> MeasuredTarget:
        """The target as results record it."""
        return MeasuredTarget(
            directory=self._target.directory,
            source=facts["source"],
            fstype=facts["fstype"],
            layout=self._target.layout,
            layout_is=self.layout,
            fsid=facts["fsid"],
            mount=facts["mount"],
        )
