"""Manages the campaign's directory on a target: claims it, checks its space and the nodes that see it, removes it.

Only agents access the target, with a deadline (target/directory.py, target/trees.py).
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
from iosweep.target.trees import Removed

#: Time limit for deleted files to become free space (MooseFS: 2 to 5 s).
FREED_S = 10.0
#: Time limit for a file of one node to become visible on another: NFS caches names for up to 30 s; the rest is margin.
NAME_CACHE_S = 35.0


class CampaignDirectory:
    """`<target>/iosweep-<campaign>/`. Raises what Agent.call raises."""

    def __init__(self, plan: Plan, store: Store, agent: Agent, remote: RemoteAgents | None = None, target: str = ""):
        self.target, self.settings = target, plan.targets[target]
        self._plan = plan
        self._limits = asdict(plan.limits)
        self._store = store
        self._agent, self._remote = agent, remote
        self._campaign = plan.campaign
        self.path = plan.directory_on(target)
        self.uuid = ""  # of the marker, once the directory is claimed
        self.file_system = ""  # identity of the file system (identify.identity)
        self.fstype = ""
        self.layout = ""
        self.present_bytes = 0  # bytes of our files, without those of the current repetition
        self._deleted_bytes = 0  # bytes that were deleted, but may not be free yet
        self._existing: ClaimedTarget | None = None  # of an earlier run, whose directory is there
        #: The campaign's directories on this file system: its targets may share one.
        self.together: Sequence[CampaignDirectory] = [self]

    @property
    def place(self) -> Place:
        """The directory, as an argument of the agent's operations."""
        return Place(self.path, self.uuid)

    def examine(self, facts: FileSystem) -> None:
        """Check that the directory is ours, or can be created. Writes nothing. Raises Refused.

        `facts`: of the target's file system.
        """
        known = self._store.claimed()
        self.file_system, self.fstype = identify.identity(facts), facts["fstype"]
        self._source = facts["source"]
        planned = {self._plan.directory_on(name) for name in self._plan.targets}
        for claimed in known.values():
            if claimed.directory not in planned and not claimed.tidied:
                raise Refused(
                    f"this campaign has left {claimed.directory} on another target; `iosweep clean"
                    f" {self._campaign} --yes` removes it, or take another campaign name"
                )
        if identify.contains_results(facts, self.path, self._store.path):
            raise Refused(f"the results {self._store.path} are inside the campaign's directory {self.path}")
        if problem := self.copy_problem(facts):
            raise Refused(problem)
        if unsettable := self.settings.layout and directory.unsettable(self.fstype):
            raise Refused(str(unsettable))
        if (ours := known.get(self.target)) and self._agent.call(directory.has_marker, self.path, ours.uuid):
            self._existing, self.uuid = ours, ours.uuid
            owner = self._agent.call(directory.read_owner, self.path) or {}
            self._store.check_original(self.path, str(owner.get("results")))
            self.present_bytes = self._agent.call(trees.measure_usage, self.place)["bytes"]
        self._agent.call(directory.check_claim, self.path, self._store.mark())

    def check_room(self, peak: Forecast) -> None:
        """Check that the campaign fits. Raises Refused. `peak`: of its targets on this file system."""
        parent = self.settings.directory
        if shortage := self._find_shortage(parent, peak.peak_bytes, peak.inodes):
            raise Refused(f"refused, nothing was written to {parent}: {shortage}")

    def claim(self) -> None:
        """Create the directory that was examined, or take it over as an earlier run left it. Raises Refused."""
        if self._existing and self._existing.layout != self.settings.layout:
            # files keep the striping with which they were created
            for part in (FRESH, SETS):
                if errors := self._agent.call(trees.remove, self.place, part)["wrong"]:
                    raise TargetError(errno.ENOTEMPTY, f"{self.path} has another layout, and cannot go: {errors[0]}")
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
        self._store.keep_claimed(
            ClaimedTarget(
                campaign=self._campaign,
                target=self.target,
                directory=self.path,
                uuid=self.uuid,
                layout=self.settings.layout,
                deadline=self.settings.deadline,
                lock=self.settings.lock,
                file_system=self.file_system,
                source=self._source,
                tidied=False,
            )
        )
        if self.settings.layout:
            self._agent.call(directory.set_layout, self.place, self.fstype, list(self.settings.layout))
        self.layout = self._agent.call(directory.read_layout, self.place, self.fstype)
        self.remove(FRESH)  # files of an interrupted repetition

    @property
    def is_claimed(self) -> bool:
        """Whether the directory was claimed, and not tidied up since."""
        claimed = self._store.claimed().get(self.target)
        return bool(claimed and claimed.directory == self.path and not claimed.tidied)

    def copy_problem(self, facts: FileSystem) -> str | None:
        """Why the directory may be a copy of ours on another file system, or None. `facts`: of the target."""
        claimed, file_system = self._store.claimed().get(self.target), identify.identity(facts)
        if not claimed or claimed.directory != self.path or claimed.file_system == file_system:
            return None
        is_marked = self._agent.call(directory.has_marker, self.path, claimed.uuid)
        return claimed.elsewhere(file_system) if is_marked else None

    def tidy_up(self) -> Removed:
        """Remove the campaign's directory from the target."""
        claimed = self._store.claimed()[self.target]
        self.uuid = claimed.uuid
        removed = self._agent.call(trees.remove_all, self.place)
        self._store.keep_claimed(replace(claimed, tidied=True))
        return removed

    # Space

    def may_write(self, size: int, inodes: int) -> None:
        """Raise Refused if `size` more bytes and `inodes` more files do not fit."""
        if (size or inodes) and (shortage := self._find_shortage(self.path, self._ours_bytes + size, inodes)):
            raise Refused(shortage if shortage.startswith(self.path) else f"{self.path}: {shortage}")

    def _find_shortage(self, where: str, size: int, inodes: int) -> str | None:
        """Why `size` bytes (including those already there) do not fit; None if they do. Waits a few seconds for the
        space of deleted files."""
        deleted_bytes = sum(each._deleted_bytes for each in self.together)
        end = time.monotonic() + (FREED_S if deleted_bytes else 0.0)
        while True:
            room = self._agent.call(space.read_room, where)
            usage = room["space"]
            if identify.identity(room["file_system"]) != self.file_system:
                return f"{where} is on another file system than when it began; is the target still mounted?"
            shortage = space.shortage(room, self._ours_bytes, size, inodes, self._limits)
            if shortage is None:
                for each in self.together:
                    each._deleted_bytes = 0
                return None
            if not usage["used_bytes"] + usage["free_bytes"]:  # are its data servers down?
                raise Refused(f"{where}: {shortage}", lasting=False)
            if time.monotonic() > end:
                return f"{shortage}{space.not_freed(deleted_bytes) if deleted_bytes else ''}"
            time.sleep(1)

    @property
    def _ours_bytes(self) -> int:
        """Bytes of the campaign's files on this file system, without those of the current repetition."""
        return sum(each.present_bytes for each in self.together)

    def recount(self) -> None:
        """Measure the bytes of the data sets in the directory."""
        self.present_bytes = self._agent.call(trees.measure_usage, self.place, SETS)["bytes"]

    # Checks on all nodes. In a job they raise AllocationError; otherwise Refused, and what Agent.call raises

    def check_shared(self) -> None:
        """Check that every node sees this directory: a node may have another file system mounted at the same path."""
        end = time.monotonic() + NAME_CACHE_S
        while self._remote and (error := unfit(self._remote.answers(directory.check_marker, self.place))):
            if error.code == ExitCode.HANGS or time.monotonic() > end:
                raise error
            time.sleep(0.5)

    def check_usable(self, data: bool = True) -> None:
        """Check that every node can write to this directory and read from it. `data`: as in directory.probe."""
        if self._remote is None:
            if problem := self._agent.call(directory.probe, self.place, "", data):
                raise Refused(problem)
        # under different names, because all nodes write at the same time
        elif error := unfit(
            self._remote.answers(directory.probe, each={h: (self.place, h, data) for h in self._remote.hosts})
        ):
            raise error

    def check_unchanged(self, hosts: Sequence[str]) -> None:
        """Check that this directory is still ours on these nodes, right before tools are started on its paths."""
        if self._remote is None:
            self._agent.call(directory.check_marker, self.place)
        elif error := unfit(self._remote.answers(directory.check_marker, each=dict.fromkeys(hosts, (self.place,)))):
            raise error

    # Files

    def prepare(self, below: list[str], size: int, inodes: int, empty: bool) -> list[str]:
        """Create directories below this one (`empty`: without files), and check that `size` more bytes and `inodes`
        more files fit; returns absolute paths. Raises Refused."""
        for path in below if empty else []:
            if errors := self.remove(path)["wrong"]:
                raise TargetError(errno.ENOTEMPTY, f"{path} cannot be emptied: {errors[0]}")
        self.may_write(size, inodes)
        try:
            return self._agent.call(trees.make_directories, self.place, below)
        except TargetError as error:  # there may be no inode where there is space
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise Refused(f"{self.path}: {error.strerror}; make room, or measure less") from None

    def remove(self, below: str) -> Removed:
        """Remove a tree below this directory."""
        removed = self._agent.call(trees.remove, self.place, below)
        if removed["files"]:
            self._deleted_bytes += removed["bytes"]
            if not below.startswith(f"{FRESH}/"):  # files of the current repetition are not in present_bytes
                self.present_bytes = max(0, self.present_bytes - removed["bytes"])
        return removed

    def recorded(self, facts: FileSystem) -> MeasuredTarget:
        """The target, as records describe it."""
        return MeasuredTarget(
            directory=self.settings.directory,
            source=facts["source"],
            fstype=facts["fstype"],
            layout=self.settings.layout,
            layout_is=self.layout,
            fsid=facts["fsid"],
            mount=facts["mount"],
        )
