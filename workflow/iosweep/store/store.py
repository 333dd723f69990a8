"""results/<campaign>/: what is on disk, and therefore done. The store is the truth; nothing measured is ever deleted.

docs/store.md lists its files. A file is written under a temporary name, synced and renamed; the archive first, the
record (with the archive's hash and size) last. `counting` says which try of a repetition counts.

Each document has its digest inside (documents.py). A damaged one is skipped; `Store.damaged` names it with the reason.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import stat
import uuid
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import structs

from iosweep.errors import Refused
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Damaged, Document
from iosweep.plan.model import Allocation, Plan
from iosweep.store import ingested
from iosweep.store.record import (
    FILES,
    FOLDERS,
    Archive,
    Build,
    ClaimedTarget,
    Marker,
    Missing,
    Record,
    Refusal,
    Repetition,
)
from iosweep.target import lock
from iosweep.text import human_count, printable, some

#: The name of a record.
RECORD_FILE = re.compile(r"r([0-9]{3,6})-([0-9]{1,6})\.json\Z")
#: An archive without its JSON is not a try: its runner was killed before the commit, and the next one overwrites it.
_ANY_TRY = re.compile(r"r([0-9]{3,6})-([0-9]{1,6})(\.superseded|\.damaged)?\.json\Z")
#: How the name of a point ends.
_POINT = re.compile(r"\.[0-9a-f]{12}\Z")
#: What is read of an archive at most. Its members are bounded when they are written (process.MOST_BYTES each).
_ARCHIVE_BYTES = 256 << 20
_CHANGED = "its content is not what was stored"
#: The lock of a Snakemake; `lock.NAME` is that of what measures.
RUN_LOCK = "run.lock"

#: Folders that Snakemake tracks.
TRACKED = ("plans", "manifests", "logs")
#: Folders with documents. "": those of the campaign itself.
LOOKED_AT = ("", "builds", *FOLDERS.values())
#: A file beside the document of a build by Spack -> the key of its SHA-256 in `environment`.
BESIDE_BUILD = {"spack.yaml": "file_sha256", "spack.lock": "lock_sha256"}
#: Files of locks, which are there before the marker.
_LOCKS = (lock.NAME, RUN_LOCK)
Kind = TypeVar("Kind", bound=Document)
T = TypeVar("T")
#: The depth to which records are read.
Depth = TypeVar("Depth", bound=Repetition)


class Noting:
    """Skips damaged and absent documents in a block, and notes the damaged ones."""

    def __init__(self, damaged: dict[str, str]):
        self._damaged = damaged

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if isinstance(error, Damaged):
            self._damaged[error.path] = error.reason
        return isinstance(error, Damaged | FileNotFoundError)


class Store:
    """The directory of one campaign's results.

    `damaged`: path -> why it was skipped, of what was read so far, without tries that a later one, which is whole, took
    the place of.
    """

    def __init__(self, results: Path):
        self.path = results
        self.damaged: dict[str, str] = {}
        self._lock: lock.Lock | None = None  # while it is held

    def points(self) -> list[str]:
        """The points that have a directory, in order."""
        self.damaged.pop(f"{self.path}/points", None)
        self._forget(f"{self.path}/points/", deep=False)
        if not self._there("points"):
            return []
        found = []
        with os.scandir(self.path / "points") as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    found.append(entry.name)
                elif entry.is_symlink():
                    self.damaged[self._file(entry.name)] = "it is a symbolic link, and is not followed"
                elif _POINT.search(entry.name):
                    self.damaged[self._file(entry.name)] = "it is not a directory"
        return sorted(found)

    def repetitions(self) -> dict[str, dict[int, Repetition]]:
        """point -> repetition -> the try that counts. One scan; archives are judged by their size alone."""
        stored = {point: {r.repetition: r for r in self._records(point, Repetition)} for point in self.points()}
        return {point: repetitions for point, repetitions in stored.items() if repetitions}

    def repetitions_of(self, point: str) -> dict[int, Repetition]:
        """repetition -> the try that counts, of one point."""
        return {r.repetition: r for r in self.records_of(point, Repetition)}

    def records_of(self, point: str, depth: type[Depth]) -> Iterator[Depth]:
        """The records of the tries of one point that count, in the order of repetitions."""
        if self._there("points", point):
            yield from self._records(point, depth)

    def missing(self) -> dict[str, Missing]:
        """point -> why it could not be measured when it was last tried."""
        found = ((point, self._missing(point)) for point in self.points())
        return {point: record for point, record in found if record}

    def missing_of(self, point: str) -> Missing | None:
        """The same of one point."""
        return self._missing(point) if self._there("points", point) else None

    def record(self, point: str, repetition: int, attempt: int) -> Record:
        """The whole record of a try. Raises FileNotFoundError, Damaged."""
        return self._read(point, repetition, attempt, Record)

    def raw(self, repetition: Repetition) -> bytes | None:
        """The archive of a repetition, or None if it is not the one that was stored."""
        file = self._file(repetition.point, repetition.raw.name)
        try:
            data = documents.content(file, min(repetition.raw.bytes, _ARCHIVE_BYTES))
            if hashlib.sha256(data).hexdigest() == repetition.raw.sha256:
                return data
            self.damaged[file] = _CHANGED
        except FileNotFoundError:
            self.damaged[file] = "it is gone"
        except Damaged as error:
            self.damaged[error.path] = error.reason
        return None

    def point(self, point: str) -> Path:
        """The directory of a point."""
        return self.path / "points" / point

    def commit(self, point: str, repetition: int, record: Record, raw: Mapping[str, bytes]) -> Record:
        """Store a repetition whole. `raw` maps member names to bytes. Raises OSError; then nothing is committed."""
        self._see_in_place()
        archive = pack(raw)
        with safe_paths.folder(self.path, f"points/{point}", make=True) as place:
            names = place.names()
            for left in names:  # by a runner that was killed while it wrote
                if safe_paths.TEMPORARY.fullmatch(left) and place.size(left) is not None:
                    place.remove(left)
            tries = (match for match in map(_ANY_TRY.match, names) if match)
            attempt = 1 + max((int(m[2]) for m in tries if int(m[1]) == repetition), default=0)
            if attempt > documents.MOST_TRIES:
                last = self._file(point, file_name(repetition, documents.MOST_TRIES, "*"))
                raise OSError(errno.EFBIG, "no higher number is left for another try; remove that file", last)
            name = file_name(repetition, attempt, "zip")
            stored = Archive(name, hashlib.sha256(archive).hexdigest(), len(archive))
            record = structs.replace(record, point=point, repetition=repetition, attempt=attempt, raw=stored)
            self._set_aside(point, repetition, place)
            place.write(name, archive)
            place.write(file_name(repetition, attempt, "json"), documents.dump(record))
        return record

    def keep_rows(self, record: Record) -> None:
        """Store a record again whose rows were judged again. Raises OSError."""
        name = file_name(record.repetition, record.attempt, "json")
        safe_paths.write(self.path, f"points/{record.point}/{name}", documents.dump(record))

    def _see_in_place(self) -> None:
        """Make no new folder where results were that we hold the lock of. Raises OSError."""
        if self._lock is not None and not self._lock.in_place():
            raise OSError(errno.ESTALE, "the results were removed or replaced while they were measured", str(self.path))

    def _set_aside(self, point: str, repetition: int, place: safe_paths.Folder) -> None:
        """Rename what cannot be read of the tries of a repetition: it is measured again, and kept."""
        for attempt in tries_of(place.names(), repetition):
            with contextlib.suppress(FileNotFoundError):
                try:
                    self._read(point, repetition, attempt, Repetition)
                except Damaged:
                    place.rename(file_name(repetition, attempt, "json"), file_name(repetition, attempt, "damaged.json"))

    def set_missing(self, point: str, missing: Missing | None) -> None:
        """Record why a point cannot be measured here, or (None) that it can."""
        self._see_in_place()
        if missing:
            safe_paths.write(self.path, f"points/{point}/missing.json", documents.dump(missing))
        elif self._there("points", point):
            safe_paths.remove(self.path, f"points/{point}/missing.json")

    @contextmanager
    def locked(self, job: str = "", allocation: str = "") -> Iterator[str | None]:
        """Keep other processes off the campaign; yields what is to be said of how far that reaches, or None.

        `job`: of Slurm, which we are in; `allocation`: which we measure. Raises Busy, and Refused if the results are
        not ours.
        """
        self.uuid()  # before a lock is written into them
        with safe_paths.folder(self.path, make=True):
            pass
        mine = lock.Owner(self.path.name, str(self.path.absolute()), job, allocation)
        self._lock = lock.take(self.path / lock.NAME, mine, f"campaign {self.path.name}")
        try:
            self.own()
            yield self._lock.note
        finally:
            self._lock.close()
            self._lock = None

    def uuid(self) -> str | None:
        """UUID of the results, which proves that they are ours, and the directory with it on the target, too: of
        iosweep.json, or where that is lost, of target.json. None: there is nothing yet. Raises Refused."""
        if marker := self.marker():
            return marker.uuid
        with self.noting():
            if claimed := self.document(ClaimedTarget):
                return claimed.uuid
        try:
            with os.scandir(self.path) as entries:
                there = [entry.name for entry in entries]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"{self.path} cannot be read: {error.strerror}") from None
        if all(name in _LOCKS or safe_paths.TEMPORARY.fullmatch(name) for name in there):
            return None
        file = f"{FILES[Marker]}.json"
        damaged = self.damaged.get(f"{self.path}/{file}")
        why = f"its {file} is damaged ({damaged})" if damaged else f"it has no {file}, so iosweep did not make it"
        raise Refused(f"{self.path} is left alone: {why}. Move it away, or choose another campaign name")

    def own(self) -> str:
        """Mark the results as ours, under a lock of them; returns their UUID. Raises Refused if they are not ours."""
        found = self.uuid() or str(uuid.uuid4())
        if self.marker() is None:
            self.put("", FILES[Marker], Marker(found, self.path.name))
        return found

    def marker(self) -> Marker | None:
        """The marker of the results; None where there is none, or it is damaged."""
        with self.noting():
            return self.document(Marker)
        return None

    def check_original(self, directory: str, claimed_by: str) -> None:
        """Raise Refused if these results are a copy of those that claimed a directory on the target, which are there,
        too. `claimed_by`: their path in its marker; ours if we were moved, or are seen by another mount."""
        original, marker = Path(claimed_by), f"{FILES[Marker]}.json"
        try:
            mine, its = ((path / marker).stat() for path in (self.path, original))
            same = (mine.st_ino, mine.st_mtime_ns) == (its.st_ino, its.st_mtime_ns)
            if same or Store(original).uuid() != self.uuid():
                return
        except (OSError, Refused):
            return
        raise Refused(f"{self.path} is a copy of {original}, which {directory} belongs to; it is left alone")

    def set_refusal(self, allocation: str, refusal: Refusal | None) -> None:
        """Record why an allocation could not go on, or (None) that it did."""
        if refusal:
            self.put("refusals", allocation, refusal)
        elif self._there("refusals"):
            safe_paths.remove(self.path, f"refusals/{allocation}.json")

    def supersede(self, repetition: Repetition) -> Path:
        """Open a repetition again; its record stays under another name."""
        with safe_paths.folder(self.path, f"points/{repetition.point}") as place:
            # the oldest first: it must not count again, and were we killed in between, the newest still does
            for attempt in tries_of(place.names(), repetition.repetition):
                if attempt <= repetition.attempt:
                    names = (
                        file_name(repetition.repetition, attempt, suffix) for suffix in ("json", "superseded.json")
                    )
                    place.rename(*names)
        return self.point(repetition.point) / file_name(repetition.repetition, repetition.attempt, "superseded.json")

    def changed(self, repetition: Repetition) -> bool:
        """Whether `raw` found that the archive of a repetition has another content than was stored."""
        return self.damaged.get(self._file(repetition.point, repetition.raw.name)) == _CHANGED

    def set_aside(self, repetition: Repetition) -> bool:
        """Open a repetition again whose archive was changed; its tries stay under other names, so that no other try
        counts instead. False where the archive was not changed, or the results are read-only."""
        if not self.changed(repetition):
            return False
        try:
            with safe_paths.folder(self.path, f"points/{repetition.point}") as place:
                for attempt in tries_of(place.names(), repetition.repetition):
                    suffix = "damaged.json" if attempt == repetition.attempt else "superseded.json"
                    place.rename(*(file_name(repetition.repetition, attempt, end) for end in ("json", suffix)))
        except OSError:
            return False
        return True

    def put(self, folder: str, name: str, document: Document | Mapping[str, object]) -> None:
        """Write a JSON document below the campaign, unless it is there already word for word."""
        self.keep(f"{folder}/{name}.json".removeprefix("/"), documents.dump(document, indent=True))

    def keep(self, file: str, data: bytes) -> None:
        """Write a file below the campaign, unless it is there already byte for byte."""
        with contextlib.suppress(FileNotFoundError, Damaged):
            if documents.content(self.path / file, len(data)) == data:
                return
        self._see_in_place()
        safe_paths.write(self.path, file, data)

    def document(self, kind: type[Kind]) -> Kind | None:
        """The one document of this type, None where there is none. Raises Damaged."""
        try:
            return documents.read_as(self.path / f"{FILES[kind]}.json", kind)
        except FileNotFoundError:
            return None

    def claimed(self) -> ClaimedTarget | None:
        """The campaign's directory on the target, None if none was claimed. Raises Refused if the file is damaged."""
        try:
            return self.document(ClaimedTarget)
        except Damaged as error:
            raise Refused(f"{error}{documents.cure(error.path)}") from None

    def documents(self, kind: type[Kind]) -> dict[str, Kind]:
        """All documents of this type by name; unreadable ones are left out."""
        return dict(self._all(FOLDERS[kind], partial(documents.read_as, kind=kind)))

    def builds(self) -> dict[str, dict[str, object]]:
        """The build documents by their key; unreadable ones are left out."""
        return dict(self._all("builds", self._build))

    def look(self, *folders: str) -> None:
        """Read all documents of some folders, or of all, so that damaged ones are known."""
        kinds = {name: kind for kind, name in (*FOLDERS.items(), *FILES.items())}

        def read(file: Path) -> object:
            if file.parent == self.path / "builds":
                return self._build(file)
            return documents.read(file, kinds.get(file.stem if file.parent == self.path else file.parent.name))

        for folder in folders or LOOKED_AT:
            for _ in self._all(folder, read):
                pass
        if not folders:
            self.see_folders()

    def _build(self, file: Path) -> dict[str, object]:
        """A build document. Damage of Spack's files beside it is noted."""
        document = documents.read(file, Build)
        for name in BESIDE_BUILD:
            beside = file.with_name(f"{file.stem}.{name}")
            with self.noting():
                if not fits_build(document, name, documents.content(beside, documents.MOST_BYTES)):
                    raise Damaged(beside, "its content is not what its build says")
        return document

    def _all(self, folder: str, read: Callable[[Path], T]) -> Iterator[tuple[str, T]]:
        # of the campaign itself only documents: its folders are looked at elsewhere
        self._forget(
            f"{self.path}/{folder}/" if folder else f"{self.path}/", deep=False, suffix="" if folder else ".json"
        )
        if self._there(*filter(None, [folder])):
            for file in sorted((self.path / folder).glob("[!.]*.json")):
                with self.noting():
                    yield file.stem, read(file)

    def see_folders(self) -> None:
        """Note what is in place of a folder without being one."""
        for folder in (*TRACKED, "points"):
            self.damaged.pop(f"{self.path}/{folder}", None)
            self._there(folder)

    def whole(self, file: Path, data: bytes | None = None) -> bool:
        """Whether a document is not there, or is whole. `data`: what it has to be, where that is known."""
        try:
            content = documents.content(file, max(documents.MOST_BYTES, len(data or b"")))
            if content != data:
                documents.load(content, file)
                if data is not None:
                    raise Damaged(file, "its content is not what its name says")
            return True
        except FileNotFoundError:
            return True
        except Damaged as error:
            self.damaged[error.path] = error.reason
            return False

    def damage(self) -> list[str]:
        """What of results and documents is damaged, as sentences."""
        self.repetitions()
        self.missing()
        self.look()
        return self.named()

    def named(self) -> list[str]:
        """The same of what was read so far."""
        return [documents.sentence(path, why) + documents.cure(path) for path, why in sorted(self.damaged.items())]

    def _missing(self, point: str) -> Missing | None:
        file = self._file(point, "missing.json")
        self.damaged.pop(file, None)
        with self.noting():
            return documents.read_as(file, Missing)
        return None

    def _there(self, *names: str) -> bool:
        """Whether there is a directory below the results; a symbolic link is none."""
        path = str(self.path)
        with self.noting():
            for name in names:
                path += f"/{name}"
                documents.see(path)
            return True
        return False

    def _records(self, point: str, depth: type[Depth]) -> Iterator[Depth]:
        self._forget(self._file(point, "r"))
        tries: dict[int, list[int]] = {}
        sizes: dict[str, int] = {}
        with os.scandir(self._file(point)) as files:
            for file in files:
                if match := RECORD_FILE.match(file.name):
                    tries.setdefault(int(match[1]), []).append(int(match[2]))
                elif file.name.endswith(".zip"):
                    about = file.stat(follow_symlinks=False)
                    if stat.S_ISREG(about.st_mode):
                        sizes[file.name] = about.st_size
        for repetition, attempts in sorted(tries.items()):
            newest = [self._whole(point, repetition, attempt, sizes, depth) for attempt in sorted(attempts)[-2:]]
            last = newest[-1]
            if last and last.intact:
                self._forget(self._file(point, f"r{repetition:03d}-"))
            if counts := counting(last, newest[0] if len(newest) > 1 else None):
                yield counts

    def _whole(
        self, point: str, repetition: int, attempt: int, sizes: Mapping[str, int], depth: type[Depth]
    ) -> Depth | None:
        """The record of a try, and whether its archive is there; None where the record is damaged."""
        with self.noting():
            record = self._read(point, repetition, attempt, depth)
            size, stored = sizes.get(record.raw.name), record.raw.bytes
            if size == stored:
                return record
            why = "it is gone" if size is None else f"it has {size:,} bytes, and {stored:,} were stored"
            self.damaged[self._file(point, record.raw.name)] = why
            return structs.replace(record, intact=False)
        return None

    def _read(self, point: str, repetition: int, attempt: int, depth: type[Depth]) -> Depth:
        """The record of a try. Raises FileNotFoundError, Damaged."""
        file = self._file(point, file_name(repetition, attempt, "json"))
        record = documents.read_as(file, depth)
        if record.raw.name != (archive := file_name(repetition, attempt, "zip")):
            raise Damaged(file, f"it names another archive than {archive}")
        if (record.point, record.repetition, record.attempt) != (point, repetition, attempt):
            raise Damaged(file, f"it is the record of {record.point}, r{record.repetition}-{record.attempt}")
        return record

    def _file(self, point: str, *name: str) -> str:
        return "/".join((str(self.path), "points", point, *name))

    def noting(self) -> Noting:
        """Go without what is damaged in a block, and note it in `damaged`; and without what is not there."""
        return Noting(self.damaged)

    def _forget(self, prefix: str, deep: bool = True, suffix: str = "") -> None:
        """What was damaged below a directory before it is read again."""
        below = [path for path in self.damaged if path.startswith(prefix) and path.endswith(suffix)]
        for path in [path for path in below if deep or "/" not in path[len(prefix) :]]:
            del self.damaged[path]


def name_taken(store: Store, plan: Plan, stored: Mapping[str, Mapping[int, Repetition]]) -> str | None:
    """Why a campaign cannot have its name: the results are not ours, were ingested, are another campaign's (a copy), or
    another configuration measured them. A configuration that shares a point with `stored` is the same campaign."""
    if ingested.there(store.path):
        return f"{store.path} is an ingested campaign; choose another name"
    try:
        store.uuid()
    except Refused as error:
        return str(error)
    if (marker := store.marker()) and marker.campaign != plan.campaign:
        return f"{store.path} holds the results of the campaign `{printable(marker.campaign)}`; choose another name"
    targets = {repetition.target.directory for of_point in stored.values() for repetition in of_point.values()}
    if not targets or (plan.target.directory in targets and any(point.id in stored for point in plan.points)):
        return None
    many = human_count(sum(map(len, stored.values())), "repetition")
    what = f"on {some(sorted(targets), 3)}" if plan.target.directory not in targets else "of other points"
    return f"{store.path} holds {many} {what}; choose another name, or move {store.path} away"


# The tries of a repetition


def tries_of(names: Iterable[str], repetition: int) -> list[int]:
    """The tries of a repetition that have a record of this name, in order."""
    return sorted(int(match[2]) for match in map(RECORD_FILE.match, names) if match and int(match[1]) == repetition)


def file_name(repetition: int, attempt: int, suffix: str) -> str:
    return f"r{repetition:03d}-{attempt}.{suffix}"


def counting(last: Depth | None, before: Depth | None) -> Depth | None:
    """Of the newest two tries of a repetition, the one that counts. None stands for a try whose record is damaged, or
    that is not there.

    A second try that went worse than the disturbed first one does not count, and there is no third. A damaged one is no
    reason to go back: it is measured again, so its repetition has no outcome.
    """
    if last and last.intact and last.retried and before and before.figures > last.figures:
        return structs.replace(before, retried=True)
    return last


def fits_build(document: Mapping[str, object], name: str, content: bytes) -> bool:
    """Whether a file beside a build document has the hash that this says, or it says none."""
    environment = document.get("environment")
    known = environment.get(BESIDE_BUILD[name]) if isinstance(environment, dict) else None
    return known is None or known == hashlib.sha256(content).hexdigest()


# The archive of a repetition: a zip with one member per step and stream


def unpack(archive: bytes) -> dict[str, dict[str, bytes]]:
    """step -> stream -> what it printed, without stderr: its first lines are in the record, and nothing is parsed from
    it."""
    found: dict[str, dict[str, bytes]] = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        for info in file.infolist():
            step, _, stream = info.filename.rpartition(".")
            if not stream.startswith("stderr"):
                found.setdefault(step, {})[stream] = file.read(info)
    return found


def pack(members: Mapping[str, bytes]) -> bytes:
    """A zip with a fixed time stamp, so that equal output gives equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return buffer.getvalue()


# Manifests


def manifest_path(results: Path, allocation: str) -> Path:
    """The file that an allocation hands to Snakemake."""
    return results / "manifests" / f"{allocation}.jsonl"


def write_manifest(file: Path, allocation: Allocation, store: Store) -> None:
    """Write a line for each stored repetition of an allocation, with the hash of its raw output.

    A manifest depends on plan and store alone, so Snakemake sees a changed one as new input.
    """
    stored, missing = store.repetitions(), store.missing()
    lines: list[Mapping[str, object]] = []
    for point in allocation.points:
        if point.id in missing:
            lines.append({"point": point.id, "missing": missing[point.id].reason})
        for number, repetition in sorted(stored.get(point.id, {}).items()):
            raw = repetition.raw.sha256 if repetition.intact else None
            lines.append({"point": point.id, "repetition": number, "attempt": repetition.attempt, "raw_sha256": raw})
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    safe_paths.write(store.path, file.relative_to(store.path), data)
