"""The store of a campaign, results/<campaign>/: reading and writing its files (docs/store.md).

No measurement is ever deleted. A file is written under a temporary name, synced and renamed: first the archive of a
repetition, then its record, which has the archive's hash and size. Each document contains its digest. A damaged
document is skipped, and `Store.damaged` says why.
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
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import structs

from iosweep.errors import Refused
from iosweep.files import documents, safe_paths
from iosweep.files.documents import Damaged, Document
from iosweep.plan.model import Allocation, Plan
from iosweep.programs.programs import BuildDocument
from iosweep.store import ingested
from iosweep.store.record import (
    FILES,
    FOLDERS,
    Archive,
    ClaimedTarget,
    Marker,
    Missing,
    Record,
    RecordHead,
    Refusal,
)
from iosweep.target import lock
from iosweep.text import human_count, printable, some

#: File name of a record.
RECORD_FILE = re.compile(r"r([0-9]{3,6})-([0-9]{1,6})\.json\Z")
#: File name of a record, even one that no longer counts. An archive without a record is no try: its runner was killed
#: before the commit, and the next runner overwrites it.
_ANY_TRY = re.compile(r"r([0-9]{3,6})-([0-9]{1,6})(\.superseded|\.damaged)?\.json\Z")
#: The end of a point's name.
_POINT = re.compile(r"\.[0-9a-f]{12}\Z")
#: Upper limit for reading an archive. The agent limits its members (process.MOST_PRINTED_BYTES each).
_MAX_ARCHIVE_BYTES = 256 << 20
_CHANGED, _GONE = "its content is not what was stored", "it is gone"
#: Lock file of a Snakemake process. A measuring process takes `lock.NAME`.
SNAKEMAKE_LOCK = "run.lock"

#: Folders that Snakemake tracks.
TRACKED = ("plans", "manifests", "logs")
#: Files of locks, which may exist before the marker does.
_LOCKS = (lock.NAME, SNAKEMAKE_LOCK)
Kind = TypeVar("Kind", bound=Document)
T = TypeVar("T")
#: The depth to which records are read.
Depth = TypeVar("Depth", bound=RecordHead)


class Store:
    """The directory of a campaign's results."""

    def __init__(self, results: Path):
        self.path = results
        self.damaged: dict[str, str] = {}  # path -> reason, of all files that were read so far
        self._lock: lock.Lock | None = None  # while it is held

    # Records

    def points(self) -> list[str]:
        """The points that have a directory, sorted."""
        if not self._is_folder("points"):
            return []
        with os.scandir(self.path / "points") as entries:
            folders = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
        for name, is_folder in folders.items():
            if not is_folder and _POINT.search(name):
                self._is_folder("points", name)
        return sorted(name for name, is_folder in folders.items() if is_folder)

    def repetitions(self) -> dict[str, dict[int, RecordHead]]:
        """Read point -> repetition -> the try that counts. Only the sizes of archives are checked."""
        stored = {point: {r.repetition: r for r in self._records(point, RecordHead)} for point in self.points()}
        return {point: repetitions for point, repetitions in stored.items() if repetitions}

    def repetitions_of(self, point: str) -> dict[int, RecordHead]:
        """Read repetition of a point -> the try that counts."""
        return {r.repetition: r for r in self.records_of(point, RecordHead)}

    def records_of(self, point: str, depth: type[Depth]) -> Iterator[Depth]:
        """The records of a point that count, in the order of repetitions."""
        return self._records(point, depth) if self._is_folder("points", point) else iter(())

    def _records(self, point: str, depth: type[Depth]) -> Iterator[Depth]:
        tries: dict[int, list[int]] = {}
        sizes: dict[str, int] = {}
        with os.scandir(self._file(point)) as files:
            for file in files:
                if match := RECORD_FILE.match(file.name):
                    tries.setdefault(int(match[1]), []).append(int(match[2]))
                elif file.name.endswith(".zip"):
                    status = file.stat(follow_symlinks=False)
                    if stat.S_ISREG(status.st_mode):
                        sizes[file.name] = status.st_size
        for repetition, attempts in sorted(tries.items()):
            latest = [self._read_try(point, repetition, attempt, sizes, depth) for attempt in sorted(attempts)[-2:]]
            last, damage = latest[-1]
            if damage:  # damage to an earlier try does not matter if the last try is intact
                self.damaged.update((error.path, error.reason) for _, error in latest if error)
            previous = latest[0][0]
            if last and last.intact and last.retried and previous and previous.figures > last.figures:
                # the second try of a disturbed repetition gave fewer figures than the first; there is no third
                last = structs.replace(previous, retried=True)
            if last:
                yield last

    def _read_try(
        self, point: str, repetition: int, attempt: int, sizes: Mapping[str, int], depth: type[Depth]
    ) -> tuple[Depth | None, Damaged | None]:
        """Read the record of a try; returns it (None if it cannot be read), and damage to the record or its archive.

        `sizes`: archive -> its size.
        """
        try:
            record = self._read(point, repetition, attempt, depth)
        except FileNotFoundError:
            return None, None
        except Damaged as error:
            return None, error
        size, stored = sizes.get(record.raw.name), record.raw.bytes
        if size == stored:
            return record, None
        reason = _GONE if size is None else f"it has {size:,} bytes, and {stored:,} were stored"
        return structs.replace(record, intact=False), Damaged(self._file(point, record.raw.name), reason)

    def _read(self, point: str, repetition: int, attempt: int, depth: type[Depth]) -> Depth:
        """Read the record of a try. Raises FileNotFoundError, Damaged."""
        file = self._file(point, file_name(repetition, attempt, "json"))
        record = documents.read_as(file, depth)
        if record.raw.name != (archive := file_name(repetition, attempt, "zip")):
            raise Damaged(file, f"it names another archive than {archive}")
        if (record.point, record.repetition, record.attempt) != (point, repetition, attempt):
            raise Damaged(file, f"it is the record of {record.point}, r{record.repetition}-{record.attempt}")
        return record

    def record(self, point: str, repetition: int, attempt: int) -> Record:
        """Read the record of a try to its full depth. Raises FileNotFoundError, Damaged."""
        return self._read(point, repetition, attempt, Record)

    def raw(self, repetition: RecordHead) -> bytes | None:
        """Read the archive of a repetition; None if it is gone or changed (`damaged` says why)."""
        file = self._file(repetition.point, repetition.raw.name)
        data = self._read_intact(documents.content, file, min(repetition.raw.bytes, _MAX_ARCHIVE_BYTES))
        if data is None:
            self.damaged.setdefault(file, _GONE)
        elif hashlib.sha256(data).hexdigest() == repetition.raw.sha256:
            return data
        else:
            self.damaged[file] = _CHANGED
        return None

    def missing(self, points: Iterable[str] | None = None) -> dict[str, Missing]:
        """Read point -> why it could not be measured at the last attempt. `points`: None for all."""
        names = self.points() if points is None else [p for p in points if self._is_folder("points", p)]
        files = {point: self._file(point, "missing.json") for point in names}
        read = {point: self._read_intact(documents.read_as, file, Missing) for point, file in files.items()}
        return {point: missing for point, missing in read.items() if missing}

    def point(self, point: str) -> Path:
        """The directory of a point."""
        return self.path / "points" / point

    def _file(self, point: str, *name: str) -> str:
        return "/".join((str(self.path), "points", point, *name))

    # Storing

    def commit(self, point: str, repetition: int, record: Record, raw: Mapping[str, bytes]) -> Record:
        """Store a repetition atomically. `raw`: member of the archive -> its content. Raises OSError; nothing is
        committed then."""
        self._check_in_place()
        archive = pack_archive(raw)
        with safe_paths.folder(self.path, f"points/{point}", make=True) as place:
            names = place.names()
            for leftover in names:  # from a runner that was killed during a write
                if safe_paths.TEMPORARY.fullmatch(leftover):
                    place.remove(leftover)
            tries = (match for match in map(_ANY_TRY.match, names) if match)
            attempt = 1 + max((int(m[2]) for m in tries if int(m[1]) == repetition), default=0)
            name = file_name(repetition, attempt, "zip")
            stored = Archive(name, hashlib.sha256(archive).hexdigest(), len(archive))
            record = structs.replace(record, point=point, repetition=repetition, attempt=attempt, raw=stored)
            for earlier in tries_of(names, repetition):  # a damaged record is kept, but no longer counts
                with contextlib.suppress(FileNotFoundError):
                    try:
                        self._read(point, repetition, earlier, RecordHead)
                    except Damaged:
                        damaged = file_name(repetition, earlier, "damaged.json")
                        place.rename(file_name(repetition, earlier, "json"), damaged)
            place.write(name, archive, sync_name=False)
            place.write(file_name(repetition, attempt, "json"), documents.dump(record))
        return record

    def keep_rows(self, record: Record) -> None:
        """Replace a stored record by one whose rows were judged again. Raises OSError."""
        name = file_name(record.repetition, record.attempt, "json")
        safe_paths.write(self.path, f"points/{record.point}/{name}", documents.dump(record))

    def supersede(self, repetition: RecordHead) -> Path:
        """Mark a repetition as not measured; returns the new path of its record, which is kept."""
        return self._rename_tries(repetition, "superseded")

    def set_aside(self, repetition: RecordHead) -> bool:
        """Mark a repetition as not measured if its archive was changed; returns whether it did so: False also if
        the results are read-only."""
        try:
            return self.changed(repetition) and bool(self._rename_tries(repetition, "damaged"))
        except OSError:
            return False

    def changed(self, repetition: RecordHead) -> bool:
        """Whether `raw` found that the content of a repetition's archive is not the stored content."""
        return self.damaged.get(self._file(repetition.point, repetition.raw.name)) == _CHANGED

    def _rename_tries(self, repetition: RecordHead, suffix: str) -> Path:
        """Rename the records of all tries of a repetition, so that none counts. `suffix`: for this try; the others get
        `superseded`."""
        number = repetition.repetition
        with safe_paths.folder(self.path, f"points/{repetition.point}") as place:
            # the oldest first: if this process is killed in between, the newest still counts
            for attempt in tries_of(place.names(), number):
                new_suffix = suffix if attempt == repetition.attempt else "superseded"
                place.rename(file_name(number, attempt, "json"), file_name(number, attempt, f"{new_suffix}.json"))
        return self.point(repetition.point) / file_name(number, repetition.attempt, f"{suffix}.json")

    def set_missing(self, point: str, missing: Missing | None) -> None:
        """Record why a point cannot be measured here, or (None) that it can."""
        self._check_in_place()
        if missing:
            safe_paths.write(self.path, f"points/{point}/missing.json", documents.dump(missing))
        elif self._is_folder("points", point):
            safe_paths.remove(self.path, f"points/{point}/missing.json")

    def set_refusal(self, allocation: str, refusal: Refusal | None) -> None:
        """Record why an allocation could not continue, or (None) that it did."""
        if refusal:
            self.put("refusals", allocation, refusal)
        elif self._is_folder("refusals"):
            safe_paths.remove(self.path, f"refusals/{allocation}.json")

    def put(self, folder: str, name: str, document: Document | Mapping[str, object]) -> None:
        """Write a JSON document below the results, unless the file has this content already."""
        file, data = f"{folder}/{name}.json".removeprefix("/"), documents.dump(document, indent=True)
        with contextlib.suppress(FileNotFoundError, Damaged):
            if documents.content(self.path / file, len(data)) == data:
                return
        self._check_in_place()
        safe_paths.write(self.path, file, data)

    def _check_in_place(self) -> None:
        """Raise OSError if the results whose lock we hold were removed or replaced: do not create them again."""
        if self._lock is not None and not self._lock.in_place():
            raise OSError(errno.ESTALE, "the results were removed or replaced while they were measured", str(self.path))

    # Ownership of the results

    @contextmanager
    def locked(self, job: str = "", allocation: str = "") -> Iterator[str | None]:
        """Lock the campaign against other processes; yields a message if other nodes may not see the lock, else None.

        `job`: the Slurm job of this process. `allocation`: the allocation that it measures. Raises Busy, and Refused if
        the results are not ours.
        """
        self.uuid()  # raises Refused before a lock is written
        with safe_paths.folder(self.path, make=True):
            pass
        owner = lock.Owner(self.path.name, str(self.path.absolute()), job, allocation)
        self._lock = lock.take(self.path / lock.NAME, owner, f"campaign {self.path.name}")
        try:
            self.mark()
            yield self._lock.note
        finally:
            self._lock.close()
            self._lock = None

    def uuid(self) -> str | None:
        """UUID of the results, which proves that iosweep made them and the directory on the target: from iosweep.json,
        or if that is lost, from a document in targets. None: there are no results yet. Raises Refused."""
        if marker := self.whole(Marker):
            return marker.uuid
        for claimed in self.documents(ClaimedTarget).values():
            return claimed.uuid
        try:
            with os.scandir(self.path) as entries:
                names = [entry.name for entry in entries]
        except FileNotFoundError:
            return None
        except OSError as error:
            raise Refused(f"{self.path} cannot be read: {error.strerror}") from None
        if all(name in _LOCKS or safe_paths.TEMPORARY.fullmatch(name) for name in names):
            return None
        file = f"{FILES[Marker]}.json"
        damaged = self.damaged.get(f"{self.path}/{file}")
        reason = f"its {file} is damaged ({damaged})" if damaged else f"it has no {file}, so iosweep did not make it"
        raise Refused(f"{self.path} is left alone: {reason}. Move it away, or choose another campaign name")

    def mark(self) -> str:
        """Mark the results, whose lock we hold, as ours; returns their UUID. Raises Refused if they are not ours."""
        results_id = self.uuid() or str(uuid.uuid4())
        if self.whole(Marker) is None:
            self.put("", FILES[Marker], Marker(results_id, self.path.name))
        return results_id

    def check_original(self, directory: str, claimed_by: str) -> None:
        """Raise Refused if these results are a copy, and the original results, which claimed the directory on the
        target, still exist. `claimed_by`: path of the results in the marker; they may have been moved since."""
        original, marker = Path(claimed_by), f"{FILES[Marker]}.json"
        try:
            here, there = ((path / marker).stat() for path in (self.path, original))
            is_original = (here.st_ino, here.st_mtime_ns) == (there.st_ino, there.st_mtime_ns)
            if is_original or Store(original).uuid() != self.uuid():
                return
        except (OSError, Refused):
            return
        raise Refused(f"{self.path} is a copy of {original}, which {directory} belongs to; it is left alone")

    # Documents

    def whole(self, kind: type[Kind]) -> Kind | None:
        """The only document of this type; None if there is none, or it is damaged."""
        return self._read_intact(documents.read_as, self.path / f"{FILES[kind]}.json", kind)

    def document(self, kind: type[Kind]) -> Kind | None:
        """The only document of this type; None if there is none. Raises Damaged."""
        try:
            return documents.read_as(self.path / f"{FILES[kind]}.json", kind)
        except FileNotFoundError:
            return None

    def documents(self, kind: type[Kind]) -> dict[str, Kind]:
        """All documents of this type by name, except damaged documents."""
        return self._all(FOLDERS[kind], lambda file: documents.read_as(file, kind))

    def claimed(self) -> dict[str, ClaimedTarget]:
        """Target -> the campaign's directory on it, of those that were claimed. Raises Refused if a file is damaged."""
        found = self.documents(ClaimedTarget)
        folder = str(self.path / FOLDERS[ClaimedTarget])
        for path, reason in self.damaged.items():
            if path == folder or path.startswith(f"{folder}/"):
                raise Refused(f"{Damaged(path, reason)}{documents.cure(path)}")
        return {claimed.target: claimed for claimed in found.values()}

    def keep_claimed(self, claimed: ClaimedTarget) -> None:
        """Write what is known about the campaign's directory on a target."""
        self.put(FOLDERS[ClaimedTarget], claimed.name, claimed)

    def builds(self) -> dict[str, dict[str, object]]:
        """The build documents by key, except damaged documents."""
        return self._all("builds", lambda file: documents.read(file, BuildDocument))

    def _all(self, folder: str, read: Callable[[Path], T]) -> dict[str, T]:
        """The documents of a folder by name, except damaged documents. `folder`: empty for the results themselves."""
        if folder and not self._is_folder(folder):
            return {}
        whole = ((file.stem, self._read_intact(read, file)) for file in sorted((self.path / folder).glob("[!.]*.json")))
        return {name: document for name, document in whole if document is not None}

    # Damage

    def _read_intact(self, read: Callable[..., T], file: str | Path, *arguments: object) -> T | None:
        """Read a file with a function; None if the file is absent or damaged. Records damage."""
        try:
            return read(file, *arguments)
        except FileNotFoundError:
            return None
        except Damaged as error:
            self.damaged[error.path] = error.reason
            return None

    def _is_folder(self, *names: str) -> bool:
        """Whether a directory exists below the results; follows no symbolic link in its path."""
        path = str(self.path)
        for name in names:
            path += f"/{name}"
            if not self._read_intact(documents.is_folder, path):
                return False
        return True

    def read_campaign_documents(self) -> None:
        """Find damage to the folders and to the documents that are in no folder, such as spent.json."""
        for folder in (*TRACKED, "points"):
            self._is_folder(folder)
        kinds = {name: kind for kind, name in FILES.items()}
        self._all("", lambda file: documents.read(file, kinds.get(file.stem)))

    def read_documents(self) -> None:
        """Find damage to all documents except records."""
        self.read_campaign_documents()
        for kind in FOLDERS:
            self.documents(kind)
        self.builds()

    def differs(self, name: str, data: bytes) -> bool:
        """Whether a file exists with different content than `data`; records that as damage."""
        file = self.path / name
        content = self._read_intact(documents.content, file, max(documents.MOST_DOCUMENT_BYTES, len(data)))
        if content not in (None, data):
            self.damaged[str(file)] = "its content is not what its name says"
        return str(file) in self.damaged

    def damage(self) -> list[str]:
        """Messages about damage to all files that were read so far, with remedies."""
        return [f"{Damaged(path, reason)}{documents.cure(path)}" for path, reason in sorted(self.damaged.items())]


def name_taken(store: Store, plan: Plan, stored: Mapping[str, Mapping[int, RecordHead]]) -> str | None:
    """Why a campaign cannot have its name, or None: the results are not ours, were ingested, belong to another campaign
    (a copy), or were measured by another configuration: on another target, or without a point in common."""
    if ingested.exists(store.path):
        return f"{store.path} is an ingested campaign; choose another name"
    try:
        store.uuid()
    except Refused as error:
        return str(error)
    if (marker := store.whole(Marker)) and marker.campaign != plan.campaign:
        return f"{store.path} holds the results of the campaign `{printable(marker.campaign)}`; choose another name"
    measured = [repetition.target.directory for of_point in stored.values() for repetition in of_point.values()]
    known = [
        (point.target, repetition.target.directory, plan.targets[point.target].directory)
        for point in plan.points
        for repetition in stored.get(point.id, {}).values()
    ]
    moved = [f"{before} ({name} is {now} now)" for name, before, now in known if name and before != now]
    same = all(before == now for _, before, now in known)
    if not measured or (known and same):
        return None
    others = moved or [place for place in measured if place not in {t.directory for t in plan.targets.values()}]
    extent = f"on {some(sorted({*others}), 3)}" if others else "of other points"
    count = human_count(len(others or measured), "repetition")
    return f"{store.path} holds {count} {extent}; choose another name, or move {store.path} away"


def left_out(plan: Plan, stored: Mapping[str, Mapping[int, RecordHead]]) -> list[str]:
    """A line on the results of points that a plan does not have; none without such results."""
    count = sum(map(len, (stored[point] for point in stored.keys() - {point.id for point in plan.points})))
    renamed = "" if "" in plan.targets else " (a target with another name is another target)"
    those = human_count(count, "stored repetition is", "stored repetitions are")
    line = f"{those} of points that the configuration does not have now{renamed}: kept, not in tables and report"
    return [line] if count else []


# The tries of a repetition


def tries_of(names: Iterable[str], repetition: int) -> list[int]:
    """The tries of a repetition that have a record among these file names, sorted."""
    return sorted(int(match[2]) for match in map(RECORD_FILE.match, names) if match and int(match[1]) == repetition)


def file_name(repetition: int, attempt: int, suffix: str) -> str:
    return f"r{repetition:03d}-{attempt}.{suffix}"


# The archive of a repetition: a zip with one member per step and stream


def unpack_archive(archive: bytes) -> dict[str, dict[str, bytes]]:
    """Unpack step -> stream -> its output, without stderr, which is not parsed (its beginning is in the record)."""
    streams: dict[str, dict[str, bytes]] = {}
    with zipfile.ZipFile(io.BytesIO(archive)) as file:
        for info in file.infolist():
            step, _, stream = info.filename.rpartition(".")
            if not stream.startswith("stderr"):
                streams.setdefault(step, {})[stream] = file.read(info)
    return streams


def pack_archive(members: Mapping[str, bytes]) -> bytes:
    """Pack a zip with fixed time stamps, so that the same output gives the same bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as file:
        for name, data in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(info, data)
    return buffer.getvalue()


# Manifests


def manifest_path(results: Path, allocation: str) -> Path:
    """The output file of an allocation for Snakemake."""
    return results / "manifests" / f"{allocation}.jsonl"


def write_manifest(file: Path, allocation: Allocation, store: Store) -> None:
    """Write a line for each repetition that is stored of an allocation's session, with the hash of its raw output.

    A manifest depends only on plan and store, so that Snakemake runs later rules again exactly if it changed.
    """
    stored, missing = store.repetitions(), store.missing()
    lines: list[Mapping[str, object]] = []
    for point in allocation.points:
        if point.id in missing:
            lines.append({"point": point.id, "missing": missing[point.id].reason})
        for number, repetition in sorted(stored.get(point.id, {}).items()):
            if point.repetitions.session_of(number) != allocation.session:
                continue
            raw = repetition.raw.sha256 if repetition.intact else None
            lines.append({"point": point.id, "repetition": number, "attempt": repetition.attempt, "raw_sha256": raw})
    data = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    safe_paths.write(store.path, file.relative_to(store.path), data)
