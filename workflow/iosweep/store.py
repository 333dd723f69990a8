"""results/<campaign>/: what is on disk, and therefore done. The store is the truth; nothing measured is ever deleted.

    points/<point>/r001-1.json              a repetition's result: repetition 1, try 1. That it is there is the commit.
    points/<point>/r001-1.zip               its raw output, one member per phase and stream
    points/<point>/r001-1.superseded.json   a result that another try replaces (kept)
    points/<point>/missing.json             why the point cannot be measured here
    nodes/<hash>.json                       facts of a node
    sets/<name>.json                        how a data set was prepared
    refusals/<allocation>.json              why an allocation could not go on
    lock                                    held by the runner that measures
    manifests/, plans/                      what Snakemake tracks
    results.parquet ... report.html         what merge and report make of it

A file is written under a temporary name, synced and renamed; the archive first, the result (with the archive's hash and
size) last. The last try
of a repetition counts, unless it was to cure a disturbed one and has fewer figures than that.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import orjson

from iosweep import campaign_lock, safe_paths

_RESULT = re.compile(r"^r(\d{3,})-(\d+)\.json$")
#: An archive alone is none: its runner was killed before it committed the result, and the next one writes over it.
_ANY_TRY = re.compile(r"^r(\d{3,})-(\d+)(\.superseded)?\.json$")


@dataclass(frozen=True, slots=True)
class Result:
    """What has to be known of a committed repetition to decide what is left; `Store.record` has the rest.

    intact: the archive is there with the size that was committed. headlines: (phase, its headline figure or None).
    """

    point: str
    repetition: int
    attempt: int
    intact: bool
    raw: Mapping[str, Any]  # name, sha256, bytes
    tool_sha256: str
    target: Mapping[str, Any]  # directory, source, fstype, fsid, volume
    bound: str | None  # how its ranks were bound (pinning.bound)
    retry: str | None  # why another try may help
    retried: bool  # it is that other try
    headlines: tuple[tuple[str, float | None], ...]


class Store:
    """The directory of one campaign's results."""

    def __init__(self, results: Path):
        self.path = results
        self._lock: campaign_lock.Lock | None = None  # while it is held

    def results(self) -> dict[str, dict[int, Result]]:
        """point -> repetition -> its highest try. One scan; archives are judged by their size alone."""
        found = {entry.name: _results_of(entry.path) for entry in _directories(self.path / "points")}
        return {point: repetitions for point, repetitions in found.items() if repetitions}

    def results_of(self, point: str) -> dict[int, Result]:
        """repetition -> its highest try, of one point."""
        return _results_of(f"{self.path}/points/{point}")

    def records_of(self, point: str) -> Iterator[tuple[Result, dict[str, Any]]]:
        """The results of one point with their whole JSON, in the order of repetitions."""
        return _records(f"{self.path}/points/{point}")

    def missing(self) -> dict[str, dict[str, Any]]:
        """point -> why it could not be measured when it was last tried: {needs, reason}."""
        found = {entry.name: self.missing_of(entry.name) for entry in _directories(self.path / "points")}
        return {point: record for point, record in found.items() if record}

    def missing_of(self, point: str) -> dict[str, Any] | None:
        """The same of one point."""
        return _read_json(f"{self.path}/points/{point}/missing.json")

    def raw(self, result: Result) -> bytes | None:
        """The archive of a result, or None if it is not the one that was committed."""
        data = _read(f"{self.path}/points/{result.point}/{_name(result.repetition, result.attempt, 'zip')}")
        return data if data and hashlib.sha256(data).hexdigest() == result.raw["sha256"] else None

    def point(self, point: str) -> Path:
        """The directory of a point."""
        return self.path / "points" / point

    def commit(self, point: str, repetition: int, record: dict[str, Any], raw: Mapping[str, bytes]) -> Result:
        """Store a repetition whole. `raw` maps member names to bytes. Raises OSError; then nothing is committed."""
        if self._lock is not None and not self._lock.in_place():
            raise OSError(errno.ESTALE, "the results were removed or replaced while they were measured", str(self.path))
        archive = _archive(raw)
        with safe_paths.folder(self.path, f"points/{point}", make=True) as place:
            names = place.names()
            for left in names:  # by a runner that was killed while it wrote
                if left.startswith(".") and left.endswith(".tmp"):
                    place.remove(left)
            tries = (match for match in map(_ANY_TRY.match, names) if match)
            attempt = 1 + max((int(m[2]) for m in tries if int(m[1]) == repetition), default=0)
            name = _name(repetition, attempt, "zip")
            record = record | {
                "attempt": attempt,
                "raw": {"name": name, "sha256": hashlib.sha256(archive).hexdigest(), "bytes": len(archive)},
            }
            place.write(name, archive)
            place.write(_name(repetition, attempt, "json"), orjson.dumps(record))
        return _result(point, repetition, attempt, record, intact=True)

    def set_missing(self, point: str, needs: Mapping[str, Any] | None, reason: str = "") -> None:
        """Record why a point cannot be measured here, or (None) that it can."""
        file = self.point(point) / "missing.json"
        if needs is None:
            file.unlink(missing_ok=True)
            return
        safe_paths.write(self.path, f"points/{point}/missing.json", orjson.dumps({"needs": needs, "reason": reason}))

    def holder(self) -> str:
        """Who holds the campaign, or held it when it was killed; empty where nothing does."""
        return campaign_lock.read(self.path / campaign_lock.NAME).partition("\n")[0]

    @contextmanager
    def locked(
        self, job: str | None = None, lives: Callable[[str], bool] = lambda _: False, certain: bool = False
    ) -> Iterator[str | None]:
        """Hold the campaign (campaign_lock.hold); yields what is to be said of how far that reaches, or None."""
        with safe_paths.folder(self.path, make=True):
            pass
        with campaign_lock.hold(self.path / campaign_lock.NAME, job, lives, certain) as self._lock:
            try:
                yield self._lock.note
            finally:
                self._lock = None

    def set_refusal(
        self,
        allocation: str,
        reason: str | None,
        lasting: bool = False,
        after: str | None = None,
        nodes: Sequence[str] = (),
        short_of_time: bool = False,
        stopped: bool = False,
    ) -> None:
        """Record why an allocation could not go on, or (None) that it did.

        `lasting`: another job would not help. `after`: the Slurm job that must end first. `nodes`: those at fault.
        `short_of_time`: its job was too short. `stopped`: its job was ended by a signal, or canceled.
        """
        if reason is None:
            (self.path / "refusals" / f"{allocation}.json").unlink(missing_ok=True)
        else:
            said = {"reason": reason, "lasting": lasting, "after": after}
            said |= {"nodes": list(nodes), "short_of_time": short_of_time, "stopped": stopped}
            self.put("refusals", allocation, said)

    def supersede(self, result: Result) -> Path:
        """Open a repetition again; its result stays under another name."""
        directory = self.point(result.point)
        # the oldest first: it must not count again, and were we killed in between, the newest still does
        for attempt in range(1, result.attempt + 1):
            old = directory / _name(result.repetition, attempt, "json")
            if old.exists():
                old.rename(old.with_suffix(".superseded.json"))
        return directory / _name(result.repetition, result.attempt, "superseded.json")

    def put(self, folder: str, name: str, document: Any) -> None:
        """Write a JSON document below the campaign, unless it is there already word for word."""
        file = self.path / folder / f"{name}.json"
        data = orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
        if not file.exists() or file.read_bytes() != data:
            safe_paths.write(self.path, Path(folder) / f"{name}.json", data)

    def document(self, folder: str, name: str) -> dict[str, Any] | None:
        """A JSON document below the campaign; None where there is none that can be read."""
        return _read_json(f"{self.path}/{folder}/{name}.json")

    def documents(self, folder: str) -> dict[str, Any]:
        """All JSON documents of a folder by name; unreadable ones are left out."""
        found = {}
        for file in sorted((self.path / folder).glob("*.json")):
            document = _read_json(str(file))
            if document is not None:
                found[file.stem] = document
        return found


def unpack(archive: bytes) -> dict[str, dict[str, bytes]]:
    """step -> stream -> what it printed, without stderr, from an archive that `Store.raw` vouched for.

    Any unzip reads these archives. We wrote them ourselves and know their hash, so the members can be read one after
    the other: a third of what merge takes would else be zipfile's look-ups.
    """
    found: dict[str, dict[str, bytes]] = {}
    position = 0
    while archive.startswith(b"PK\3\4", position):
        method, size, name_length, extra_length = _MEMBER.unpack_from(archive, position)
        position += _MEMBER.size
        step, _, stream = archive[position : position + name_length].decode().rpartition(".")
        position += name_length + extra_length
        if not stream.startswith("stderr"):  # its first lines are in the JSON, and nothing is parsed from it
            data = archive[position : position + size]
            found.setdefault(step, {})[stream] = (
                zlib.decompress(data, -zlib.MAX_WBITS) if method == zipfile.ZIP_DEFLATED else data
            )
        position += size
    return found


#: A member's header: its method, packed size, and the lengths of its name and extra field.
_MEMBER = struct.Struct("<4x2x2xH4x4xL4xHH")


def _name(repetition: int, attempt: int, suffix: str) -> str:
    return f"r{repetition:03d}-{attempt}.{suffix}"


def _archive(members: Mapping[str, bytes]) -> bytes:
    """A zip with a fixed time stamp, so that equal output gives equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return buffer.getvalue()


def _directories(path: Path) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            yield from sorted((e for e in entries if e.is_dir(follow_symlinks=False)), key=lambda e: e.name)
    except FileNotFoundError:
        return


def _results_of(directory: str) -> dict[int, Result]:
    return {result.repetition: result for result, _ in _records(directory)}


def _records(directory: str) -> Iterator[tuple[Result, dict[str, Any]]]:
    """Results of a point's directory with their JSON. Paths are strings here: there may be 100,000."""
    tries: dict[int, list[int]] = {}
    sizes: dict[str, int] = {}
    try:
        with os.scandir(directory) as files:
            for file in files:
                if match := _RESULT.match(file.name):
                    tries.setdefault(int(match[1]), []).append(int(match[2]))
                elif file.name.endswith(".zip") and file.is_file():
                    sizes[file.name] = file.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return
    for repetition, attempts in sorted(tries.items()):
        found = [_whole(directory, repetition, attempt, sizes) for attempt in sorted(attempts)[-2:]]
        last = found[-1]
        if last and len(found) > 1 and last[0].retried and found[0] and _figures(found[0][0]) > _figures(last[0]):
            # the second try went worse than the disturbed first: that one counts, and there is no third
            last = (replace(found[0][0], retried=True), found[0][1])
        if last:
            yield last


def _whole(
    directory: str, repetition: int, attempt: int, sizes: Mapping[str, int]
) -> tuple[Result, dict[str, Any]] | None:
    point = directory.rpartition("/")[2]
    record = _read_json(f"{directory}/{_name(repetition, attempt, 'json')}")
    if not record or record.get("point") != point or not isinstance(record.get("raw"), dict):
        return None
    intact = sizes.get(_name(repetition, attempt, "zip")) == record["raw"].get("bytes")
    try:
        return _result(point, repetition, attempt, record, intact), record
    except (KeyError, TypeError):  # not written by us
        return None


def _figures(result: Result) -> int:
    return sum(value is not None for _, value in result.headlines) if result.intact else 0


def _result(point: str, repetition: int, attempt: int, record: Mapping[str, Any], intact: bool) -> Result:
    return Result(
        point,
        repetition,
        attempt,
        intact,
        raw=record["raw"],
        tool_sha256=record["tool"]["sha256"],
        target=record["target"],
        bound=record.get("bound"),
        retry=record["retry"],
        retried=record["retried"],
        headlines=tuple((run["phase"], run["headline"]) for run in record["phases"]),
    )


def _read(file: str) -> bytes | None:
    try:
        with open(file, "rb") as handle:
            return handle.read()
    except OSError:
        return None


def _read_json(file: str) -> dict[str, Any] | None:
    data = _read(file)
    try:
        document = orjson.loads(data) if data else None
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None
