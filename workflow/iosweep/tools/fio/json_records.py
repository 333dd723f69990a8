"""fio's JSON as records: the fields that are read, whichever release wrote them. fio prints other fields beside them.

Latencies are in ns (before 3.0 in us), `runtime` in ms, `bw` in KiB/s, `bw_bytes` in bytes/s.
"""

from __future__ import annotations

from typing import Annotated, Generic, TypeVar

import msgspec

from iosweep.files.documents import misfit

#: Largest whole number of the tables.
LARGEST = 2**63 - 1
#: Job name of fio's sum over all reports of client mode, also over unlike tests.
ALL_CLIENTS = "All clients"
Count = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]
Number = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Kind = TypeVar("Kind")


class Wrong(ValueError):
    """Why figures cannot be trusted, as a sentence."""


class Latencies(msgspec.Struct, frozen=True):
    """A block such as `clat_ns`."""

    min: Number
    max: Number
    mean: Number
    stddev: Number
    count: Count = msgspec.field(default=-1, name="N")  # -1: not printed, before 3.18
    percentile: dict[str, Number] = {}
    bins: dict[str, Count] | None = None  # json+ only


class Direction(msgspec.Struct, frozen=True):
    """`read`, `write`, `trim` or `mixed` of an entry."""

    total_ios: Count
    io_bytes: Count
    bw: Count
    iops: Number
    runtime: Count
    short_ios: Count
    drop_ios: Count
    bw_bytes: Count | None = None  # from 3.2 on
    io_kbytes: Count | None = None  # from 2.21 on
    iops_mean: Number = 0.0
    iops_stddev: Number = 0.0
    iops_samples: Count = 0
    slat_ns: Latencies | None = None
    clat_ns: Latencies | None = None
    lat_ns: Latencies | None = None
    slat: Latencies | None = None  # before 3.0
    clat: Latencies | None = None
    lat: Latencies | None = None

    def block(self, name: str) -> Latencies:
        """`slat_ns`, `clat_ns` or `lat_ns` with its count. Raises Wrong where one of them is missing."""
        block: Latencies = printed(getattr(self, name), name)
        printed(None if block.count < 0 else block.count, "N")
        return block

    @property
    def completion(self) -> Latencies:
        """clat_ns with its count. Raises Wrong where it is missing."""
        return self._counted(printed(self.clat_ns, "clat_ns"))

    @property
    def whole(self) -> Latencies | None:
        """lat_ns with its count; None where it is not printed."""
        return self.lat_ns and self._counted(self.lat_ns)

    def _counted(self, block: Latencies) -> Latencies:
        """A block with its count, which fio prints from 3.18 on; 0 where nothing was timed."""
        if block.count >= 0:
            return block
        return msgspec.structs.replace(block, count=self.total_ios if block.max else 0)


class SteadyState(msgspec.Struct, frozen=True):
    attained: int = 0


class Entry(msgspec.Struct, frozen=True):
    """An entry of `jobs` or `client_stats`: a job, or several that were merged."""

    jobname: str
    error: Count
    groupid: Count = 0
    hostname: str = ""
    port: Count = 0
    job_runtime: Count | None = None  # of all workers together
    job_start: Count | None = None  # ms since 1970, from 3.36 on
    elapsed: Count | None = None  # s
    read: Direction | None = None
    write: Direction | None = None
    trim: Direction | None = None
    mixed: Direction | None = None  # with unified_rw_reporting, in place of the others
    iodepth_level: dict[str, Number] | None = None  # `1`, `2` ... `>=64` -> percent
    latency_depth: Count = 0
    latency_target: Count = 0
    steadystate: SteadyState = SteadyState()
    options: dict[str, str] | None = msgspec.field(default=None, name="job options")

    @property
    def directions(self) -> dict[str, Direction]:
        """Those that are there, by name."""
        found = {"read": self.read, "write": self.write, "trim": self.trim, "mixed": self.mixed}
        return {name: part for name, part in found.items() if part is not None}

    def direction(self, name: str) -> Direction:
        """Raises Wrong where it is missing."""
        return printed(self.directions.get(name), name)


class Document(msgspec.Struct, Generic[Kind], frozen=True):
    """What fio prints. `jobs` of a local run, `client_stats` of one in client mode."""

    version: str = msgspec.field(default="", name="fio version")
    timestamp_ms: Count | None = None
    time: str = ""  # the date of the report by the clock of its node
    jobs: list[Kind] | None = None
    client_stats: list[Kind] | None = None
    global_options: dict[str, str | int] | list[dict[str, str | int]] = msgspec.field(default={}, name="global options")


class Host(msgspec.Struct, frozen=True):
    """A node in `hosts` of Streams. Times are seconds; `address` and `port` of its server in client mode."""

    host: str
    started: float | None = None
    ended: float | None = None
    clock_offset_s: float | None = None
    clock_error_s: float = 0.0
    exit_code: int | None = None
    address: str = ""
    port: int = 0


def printed(value: Kind | None, name: str) -> Kind:
    """A value that may be absent. Raises Wrong where it is."""
    if value is None:
        raise Wrong(f"`{name}` is missing in the JSON")
    return value


#: What the values of a document can raise beside Wrong: keys that are not numbers, numbers that are too large.
UNREADABLE = (ValueError, ArithmeticError)


def reason(error: BaseException) -> str:
    """Why a document could not be read, without the words of an exception."""
    return str(error) if isinstance(error, Wrong) else "the JSON does not have the form that fio writes"


def converted(value: object, kind: type[Kind]) -> Kind:
    """A part of a decoded document as a record. Raises Wrong."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise Wrong(f"fio's JSON has another form: {misfit(error)}") from None
