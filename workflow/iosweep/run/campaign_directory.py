"""The runner's side of the campaign's directory on the target: what may be written there, and what becomes of it.

Nothing here touches the target; the agent does (target/ownership.py, target/trees.py), with a deadline.
"""

from __future__ import annotations

import errno
import os
import pwd
import time
from collections.abc import Mapping, Sequence
from typing import Any

from iosweep.errors import Refused, TargetError
from iosweep.node import node_facts
from iosweep.plan.forecast import Forecast
from iosweep.plan.model import Plan
from iosweep.results import target_file
from iosweep.results.store import Store
from iosweep.target import free_space, marker, quota, striping, target_lock
from iosweep.target.agent import Agent
from iosweep.target.handle import Place
from iosweep.target.trees import KEPT

#: Some file systems count deleted files as used for some seconds (MooseFS: 2 to 5 s).
FREED_S = 10.0
#: Names below it: new files of the repetition in flight, and data sets.
FRESH, SETS = "fresh", "sets"


class CampaignDirectory:
    """`<target>/iosweep-<campaign>/`. Raises what Agent.call raises."""

    def __init__(self, plan: Plan, store: Store, agent: Agent):
        self._target = plan.target
        self._limits = plan.limits
        self._store = store
        self._agent = agent
        self._campaign = plan.campaign
        self._present = 0  # bytes of ours that stay there
        self._deleted: float | None = None  # when we last deleted something
        self.uuid = ""  # what its marker says, once it is claimed
        self._file_system = ""
        self._deleted_bytes = 0
        self._free_without_ours: int | None = None  # at first, had nothing of ours been there
        self.path = marker.directory_of(plan.target["directory"], plan.campaign)
        self.layout = ""
        self.trusted: list[str] = []  # other users who could lead tools elsewhere

    @property
    def place(self) -> Place:
        """As the agent's operations take it."""
        return Place(self.path, self.uuid, self._file_system, self._target["trust_other_writers"])

    def claim(self, fstype: str, file_system: str, volume: str, peak: Forecast) -> None:
        """Make it, or see that it is ours. What cannot fit is refused before the first byte.

        `fstype`, `file_system`, `volume`: type, exclusive.identity and filesystem.known_as of the file system it is on.
        """
        mine = self._known()
        if not mine and (shows := target_file.proof(self._store)):
            for place in sorted({self.path, *target_file.places(self._store)}):
                if self._agent.call("owner_of", place) is not None:
                    raise Refused(target_file.gone(self._store, shows, place))
        self._file_system = file_system
        parent = self._target["directory"]
        if mine and mine["directory"] != self.path and not mine["tidied"]:
            raise Refused(
                f"this campaign has left {mine['directory']} on another target; `iosweep clean {self._campaign} --yes`"
                " removes it, or take another campaign name"
            )
        if unsettable := self._target["layout"] and striping.unsettable(fstype):
            raise Refused(unsettable)
        there = bool(mine) and self._agent.call("ours", self.path, mine["uuid"])
        if there:
            self.uuid = mine["uuid"]
            self._present = self._agent.call("usage", self.place)["bytes"]
        if wrong := self._too_much(parent, peak.peak_bytes, peak.inodes):
            raise Refused(f"refused, nothing was written to {parent}: {wrong}")
        if there and mine["layout"] != self._target["layout"]:
            # striping is that of when a file was made
            if wrong := self._agent.call("remove_all", self.place)["wrong"]:
                raise TargetError(errno.ENOTEMPTY, f"{self.path} has another layout, and cannot be removed: {wrong[0]}")
            self._present = 0
        # one UUID is on one file system only: it proves that another name is of the same one
        same = volume in (mine.get("seen_as") or [volume])
        self.uuid = self._agent.call(
            "claim", self.path, self._owner(mine.get("uuid") if same else None), self._target["trust_other_writers"]
        )
        told = {name: self._target[name] for name in ("layout", "deadline", "lock")}
        where = {
            "campaign": self._campaign,
            "uuid": self.uuid,
            "directory": self.path,
            "file_system": file_system,
            "tidied": False,
        }
        where["seen_as"] = mine.get("seen_as", [])
        self._store.put("", "target", where | told)
        if self._target["layout"]:
            self._agent.call("set_layout", self.place, fstype, list(self._target["layout"]))
        self.layout = self._agent.call("read_layout", self.place, fstype)
        if self._target["trust_other_writers"]:
            self.trusted = self._agent.call("trusted", self.place)
        self.remove(FRESH)  # what an interrupted repetition left

    def _owner(self, uuid: str | None) -> dict[str, Any]:
        try:
            user = pwd.getpwuid(os.getuid()).pw_name
        except KeyError:
            user = str(os.getuid())
        return {
            "uuid": uuid,
            "uid": os.getuid(),
            "user": user,
            "host": node_facts.host(),
            "results": str(self._store.path.absolute()),
            "campaign": self._campaign,
        }

    def _known(self) -> dict[str, Any]:
        """What the results know of it; nothing before it was claimed."""
        return target_file.read(self._store) or {}

    @property
    def seen_as(self) -> list[str]:
        """Names (filesystem.volume) under which nodes saw the file system that it is on, the first one first."""
        return list(self._known().get("seen_as", ()))

    def is_there(self) -> bool:
        """Whether the target has it, with the marker that the results know."""
        mine = self._known()
        return bool(mine and mine["directory"] == self.path and self._agent.call("ours", self.path, mine["uuid"]))

    def seen(self, names: Sequence[str]) -> None:
        """Note under which names nodes see the file system that it is on: all have found its marker."""
        mine = self._known()
        known = mine["seen_as"] if names[0] in mine["seen_as"] else []
        self._store.put("", "target", mine | {"seen_as": list(dict.fromkeys([*known, *names]))})

    @property
    def left_over(self) -> bool:
        """Whether it was claimed, and has not been tidied up since."""
        mine = self._known()
        return bool(mine and mine["directory"] == self.path and not mine["tidied"])

    def found_on(self, file_system: str) -> None:
        """It is on this file system (exclusive.identity) now, where it was not claimed by this run."""
        self._file_system = file_system

    def tidy_up(self) -> dict[str, Any]:
        """Remove what target.keep does not keep; returns what removal.remove does."""
        mine = self._known()
        self.uuid = mine["uuid"]
        gone: dict[str, Any]
        if self._target["keep"] == "none" or KEPT not in self._agent.call("parts", self.place):
            gone = self._agent.call("remove_all", self.place)
        else:
            self._agent.call("remove", self.place, FRESH)
            gone = self._agent.call("remove", self.place, SETS)
            self._agent.call("remove_probes", self.place)
        self._store.put("", "target", mine | {"tidied": True})
        return gone

    def check(self) -> None:
        """See that a tool may be started on paths in it, right before that."""
        self._agent.call("check", self.place)

    def may_write(self, size: int, inodes: int) -> None:
        """Raise Refused if so much more must not be written now; that ends the allocation, and is not a result."""
        if wrong := self._too_much(self.path, self._present + size, inodes):
            raise Refused(wrong)

    def deleted(self) -> None:
        """A tool has deleted files there."""
        self._deleted = time.monotonic()

    def _too_much(self, where: str, size: int, inodes: int) -> str | None:
        """`size`: with what is there of ours already."""
        now = self._agent.call("space", where)
        # each time: the kernel gives the number of a device to another file system after an unmount
        if target_lock.identity(self._agent.call("identify", where)) != self._file_system:
            return f"{where} is on another file system than when it began; is the target still mounted?"
        if size > self._present and free_space.says_nothing(now):
            raise Refused(
                f"{where}: {free_space.too_much(now, self._present, size, inodes, self._limits)}", lasting=False
            )
        if self._free_without_ours is None:
            self._free_without_ours = now["free_bytes"] + self._present
        end = time.monotonic() + FREED_S
        while wrong := free_space.too_much(now, self._present, size, inodes, self._limits):
            expected = self._free_without_ours - self._present
            if not (kept := free_space.not_freed(self._deleted_bytes, expected, now["free_bytes"])):
                return wrong
            if time.monotonic() > end:
                return f"{wrong}. {kept}"
            time.sleep(1)
            now = self._agent.call("space", where)
        return quota.too_much(self._agent.call("quota", where), max(0, size - self._present), inodes)

    def state(self, data: bool = True) -> str | None:
        """Why it cannot be worked in any more, or None. `data`: whether data is written and read (target.state)."""
        why: str | None = self._agent.call("state", self.place, "", data)
        return why

    def ensure(self, below: str, empty: bool) -> str:
        """Make a directory below it (and empty it); returns its absolute path."""
        if empty and (wrong := self.remove(below)["wrong"]):
            raise TargetError(errno.ENOTEMPTY, f"{below} cannot be emptied: {wrong[0]}")
        path: str = self._agent.call("ensure", self.place, below)
        return path

    @property
    def present_bytes(self) -> int:
        """Bytes of ours that stay there for the next run."""
        return self._present

    def recount(self) -> None:
        """See how much stays there."""
        self._present = sum(self._agent.call("usage", self.place, part)["bytes"] for part in (SETS, KEPT))

    def remove(self, below: str, seconds: float | None = None) -> dict[str, Any]:
        """Remove a tree below it, as much as can be in some seconds; returns what removal.remove does."""
        removed: dict[str, Any] = self._agent.call("remove", self.place, below, seconds)
        if removed["files"]:
            self._deleted = time.monotonic()
            self._deleted_bytes += removed["bytes"]
            if not below.startswith(f"{FRESH}/"):  # the files of a repetition in flight do not count as staying
                self._present = max(0, self._present - removed["bytes"])
        return removed

    def keep(self, below: str, name: str) -> None:
        """Put what is in `below` aside, so that no run takes it away."""
        self._present += self._agent.call("usage", self.place, FRESH)["bytes"]  # nothing else is there
        self._agent.call("keep", self.place, below, name)

    def settle(self) -> float | None:
        """Wait until target.settle has passed since the last deletion; seconds since then, None if there was none."""
        if self._deleted is None:
            return None
        rest = self._target["settle"] - (time.monotonic() - self._deleted)
        if rest > 0:
            time.sleep(rest)
        return round(time.monotonic() - self._deleted, 3)

    def recorded(self) -> Mapping[str, Any]:
        """What a result keeps of it."""
        return {
            "directory": self._target["directory"],
            "layout": self._target["layout"],
            "layout_is": self.layout,
            "trusted_writers": self.trusted,
        }
