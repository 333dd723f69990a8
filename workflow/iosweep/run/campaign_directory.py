"""The campaign's directory on the target: claiming it, whether there is space for more, and removing what is not kept.

The agent touches the target, with a deadline (target/directory.py, target/trees.py); nothing here does.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Sequence

from msgspec.structs import asdict, replace

from iosweep.errors import Refused, TargetError
from iosweep.node import procfs
from iosweep.node.facts import host_name
from iosweep.plan.forecast import Forecast
from iosweep.plan.model import Plan
from iosweep.store.campaign_documents import ClaimedTarget
from iosweep.store.record import Target
from iosweep.store.store import Store
from iosweep.target import directory, identify, removal, space, trees
from iosweep.target.agent import Agent
from iosweep.target.directory import Place
from iosweep.target.removal import Removed
from iosweep.target.trees import KEPT

#: Time limit for deleted files to become free space (MooseFS: 2 to 5 s).
FREED_S = 10.0
#: Directories below it: new files of the current repetition, and data sets.
FRESH, SETS = "fresh", "sets"


class CampaignDirectory:
    """`<target>/iosweep-<campaign>/`. Raises what Agent.call raises."""

    def __init__(self, plan: Plan, store: Store, agent: Agent):
        self._target = plan.target
        self._limits = asdict(plan.limits)
        self._store = store
        self._agent = agent
        self._campaign = plan.campaign
        self.present_bytes = 0  # our bytes there, without those of the current repetition
        self._deleted: float | None = None  # time of the last deletion
        self.uuid = ""  # of its marker, once it is claimed
        self.file_system = ""  # its identity (identify.identity)
        self.fstype = ""
        self._deleted_bytes = 0
        self._free_without_ours: int | None = None  # free space at the start, plus our bytes
        self.path = directory.directory_of(plan.target.directory, plan.campaign)
        self.layout = ""

    @property
    def place(self) -> Place:
        """As the agent's operations take it."""
        return Place(self.path, self.uuid, self.file_system)

    def claim(self, fstype: str, file_system: str, volume: str, peak: Forecast) -> None:
        """Make it, or check that it is ours. Raises Refused before the first byte if `peak` does not fit.

        `fstype`, `file_system`, `volume`: type, identity and name (identify.known_as) of the file system.
        """
        mine = self._known()
        self.file_system, self.fstype = file_system, fstype
        parent = self._target.directory
        if mine and mine.directory != self.path and not mine.tidied:
            raise Refused(
                f"this campaign has left {mine.directory} on another target; `iosweep clean {self._campaign} --yes`"
                " removes it, or take another campaign name"
            )
        if unsettable := self._target.layout and directory.unsettable(fstype):
            raise Refused(str(unsettable))
        there = mine if mine and self._agent.call(directory.ours, self.path, mine.uuid) else None
        if there:
            marker = self._agent.call(directory.owner_of, self.path) or {}
            self._store.check_original(self.path, str(marker.get("results")))
            self.uuid = there.uuid
            self.present_bytes = self._agent.call(trees.usage, self.place)["bytes"]
        if wrong := self._too_much(parent, peak.peak_bytes, peak.inodes):
            raise Refused(f"refused, nothing was written to {parent}: {wrong}")
        if there and there.layout != self._target.layout:
            # existing files keep the striping that they were made with
            for part in (FRESH, SETS):
                if stays := self._agent.call(removal.remove, self.place, part)["wrong"]:
                    raise TargetError(errno.ENOTEMPTY, f"{self.path} has another layout, and cannot go: {stays[0]}")
            self.recount()
        # a marker found under another name proves that it is the same file system
        seen_as = mine.seen_as if mine else ()
        self.uuid = self._store.own()
        self._agent.call(directory.claim, self.path, self._owner())
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
                file_system=file_system,
                seen_as=seen_as,
                tidied=False,
            ),
        )
        if directory.has_trash(volume):
            self._agent.call(directory.keep_nothing, self.place)
        if self._target.layout:
            self._agent.call(directory.set_layout, self.place, fstype, list(self._target.layout))
        self.layout = self._agent.call(directory.read_layout, self.place, fstype)
        self.remove(FRESH)  # files of an interrupted repetition

    def _owner(self) -> dict[str, object]:
        return {
            "uuid": self.uuid,
            "uid": os.getuid(),
            "user": procfs.user_name(os.getuid()),
            "host": host_name(),
            "results": str(self._store.path.absolute()),
            "campaign": self._campaign,
        }

    def _known(self) -> ClaimedTarget | None:
        """target.json; None before the directory was claimed."""
        return self._store.claimed()

    @property
    def seen_as(self) -> list[str]:
        """Names (identify.volume) of its file system on the nodes, in the order in which they were seen."""
        mine = self._known()
        return list(mine.seen_as) if mine else []

    def is_there(self) -> bool:
        """Whether it is on the target, with the marker that the results name."""
        mine = self._known()
        if mine is None or mine.directory != self.path:
            return False
        return self._agent.call(directory.ours, self.path, mine.uuid)

    def seen(self, names: Sequence[str]) -> None:
        """Keep the names that its file system has on the nodes, which have all found the marker."""
        mine = self._known()
        assert mine
        known = mine.seen_as if names[0] in mine.seen_as else ()
        self._store.put("", "target", replace(mine, seen_as=tuple(dict.fromkeys([*known, *names]))))

    @property
    def left_over(self) -> bool:
        """Whether it was claimed, and not tidied up since."""
        mine = self._known()
        return bool(mine and mine.directory == self.path and not mine.tidied)

    def tidy_up(self) -> Removed:
        """Remove what target.keep does not keep."""
        mine = self._known()
        assert mine
        self.uuid = mine.uuid
        if KEPT not in self._agent.call(trees.parts, self.place):  # what an earlier run kept, `clean` alone removes
            gone = self._agent.call(removal.remove_all, self.place)
        else:
            self._agent.call(removal.remove, self.place, FRESH)
            gone = self._agent.call(removal.remove, self.place, SETS)
            self._agent.call(directory.remove_probes, self.place)
        self._store.put("", "target", replace(mine, tidied=True))
        return gone

    def copied(self, facts: identify.FileSystem) -> str | None:
        """Why what is there now may be a copy on another file system, or None. `facts`: of the target."""
        mine = self._known()
        if not mine or mine.directory != self.path or not self.is_there():
            return None
        same = identify.same_as_claimed(facts, mine.file_system)
        return None if same else mine.elsewhere(identify.identity(facts))

    def check(self) -> None:
        """Check that tools may be started on paths in it, right before that."""
        self._agent.call(directory.check, self.place)

    def may_write(self, size: int, inodes: int) -> None:
        """Raise Refused if there is no space for `size` more bytes, or for so many files."""
        if wrong := self._too_much(self.path, self.present_bytes + size, inodes):
            raise Refused(wrong)

    def deleted(self) -> None:
        """Note that a tool has deleted files there."""
        self._deleted = time.monotonic()

    def _too_much(self, where: str, size: int, inodes: int) -> str | None:
        """Why `size` bytes, with ours that are there already, do not fit; None if they do."""
        room = self._agent.call(space.room, where)
        now = room["space"]
        # each time: after an unmount the kernel reuses the device number for another file system
        if identify.identity(room["file_system"]) != self.file_system:
            return f"{where} is on another file system than when it began; is the target still mounted?"
        if size > self.present_bytes and space.says_nothing(now):
            raise Refused(
                f"{where}: {space.too_much(now, self.present_bytes, size, inodes, self._limits)}", lasting=False
            )
        if self._free_without_ours is None:
            self._free_without_ours = now["free_bytes"] + self.present_bytes
        end = time.monotonic() + FREED_S
        while True:
            expected = self._free_without_ours - self.present_bytes
            kept = space.not_free(self._deleted_bytes, expected, now["free_bytes"])
            if not (wrong := space.too_much(now, self.present_bytes, size, inodes, self._limits, kept)):
                if not kept:  # what lacks later, others have taken
                    self._deleted_bytes, self._free_without_ours = 0, now["free_bytes"] + self.present_bytes
                break
            if not kept:
                return str(wrong)
            if time.monotonic() > end:
                return f"{wrong}. {space.not_freed(self._deleted_bytes, kept)}"
            time.sleep(1)
            room = self._agent.call(space.room, where)
            now = room["space"]
        over = space.over_quota(room["quotas"], max(0, size - self.present_bytes), inodes)
        return str(over) if over else None

    def state(self, data: bool = True) -> str | None:
        """Why it cannot be used any more, or None. `data`: write and read data, too (directory.state)."""
        return self._agent.call(directory.state, self.place, "", data)

    def ensure(self, below: str, empty: bool) -> str:
        """Make a directory below it (and empty it); returns its absolute path."""
        if empty and (wrong := self.remove(below)["wrong"]):
            raise TargetError(errno.ENOTEMPTY, f"{below} cannot be emptied: {wrong[0]}")
        return self.ensure_each([below])[0]

    def ensure_each(self, below: list[str]) -> list[str]:
        """Make directories below it; returns their absolute paths."""
        return self._agent.call(trees.ensure_each, self.place, below)

    def recount(self) -> None:
        """Measure how much stays there."""
        self.present_bytes = sum(self._agent.call(trees.usage, self.place, part)["bytes"] for part in (SETS, KEPT))

    def remove(self, below: str, seconds: float | None = None) -> Removed:
        """Remove a tree below it, as far as that is done in some seconds."""
        removed = self._agent.call(removal.remove, self.place, below, seconds)
        if removed["files"]:
            self._deleted = time.monotonic()
            self._deleted_bytes += removed["bytes"]
            if not below.startswith(f"{FRESH}/"):  # files of the current repetition are not in present_bytes
                self.present_bytes = max(0, self.present_bytes - removed["bytes"])
        return removed

    def keep(self, below: str, name: str) -> None:
        """Move `below` aside, where no run removes it."""
        self.present_bytes += self._agent.call(trees.usage, self.place, FRESH)["bytes"]  # of this repetition only
        self._agent.call(trees.keep, self.place, below, name)

    def settle(self) -> float | None:
        """Wait until target.settle has passed since the last deletion; returns the seconds since then, or None."""
        if self._deleted is None:
            return None
        rest = self._target.settle - (time.monotonic() - self._deleted)
        if rest > 0:
            time.sleep(rest)
        return round(time.monotonic() - self._deleted, 3)

    def recorded(self, facts: identify.FileSystem, volume: str) -> Target:
        """The target as results record it. `volume`: name of its file system (identify.known_as)."""
        return Target(
            directory=self._target.directory,
            source=facts["source"],
            fstype=facts["fstype"],
            layout=self._target.layout,
            layout_is=self.layout,
            fsid=facts["fsid"],
            volume=volume,
            mount=facts["mount"],
        )
