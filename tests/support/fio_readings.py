"""Readings of fio's samples, and documents of theirs that are changed."""

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from fio_samples import ALL, Sample
from iosweep.tools.fio.foreign import read
from iosweep.tools.reading import Reading


def reading(sample: Sample, report: bytes | None = None) -> Reading:
    return read(sample.files | ({} if report is None else {sample.report: report}), sample.exit_code)


Some = Callable[[Iterable[Any]], Iterator[Any]]


class Readings(dict[str, Reading]):
    """Sample -> its reading, made when it is first asked for."""

    def __missing__(self, name: str) -> Reading:
        return self.setdefault(name, reading(ALL[name]))


WHOLE = Readings()


# ---- what stands around, instead and beside


def edited(name: str, change: Callable[[Any], None]) -> Reading:
    """Reading of a sample whose JSON document was changed."""
    document = json.loads(ALL[name].files[ALL[name].report])
    change(document)
    return reading(ALL[name], json.dumps(document, indent=2).encode())


def first(document: Any) -> Any:
    return document["jobs" if "jobs" in document else "client_stats"][0]


def at_time(ran_s: float, name: str = "own_rand_read") -> bytes:
    """What fio would have printed after a part of the run's time: counters in proportion, and no histogram."""
    document = json.loads(report_of(name))
    (job,) = document["jobs"]
    begun_s = document["timestamp_ms"] / 1000 - job["elapsed"]
    part = job["read"]
    share = ran_s * 1000 / part["runtime"]
    ops = int(part["total_ios"] * share)
    part |= {"total_ios": ops, "io_bytes": ops * 4096, "io_kbytes": ops * 4}
    part["runtime"] = round(ran_s * 1000)
    part["bw_bytes"] = part["io_bytes"] * 1000 // part["runtime"]
    part["bw"], part["iops"] = part["bw_bytes"] // 1024, part["total_ios"] * 1000 / part["runtime"]
    for key in ("slat_ns", "clat_ns", "lat_ns"):
        part[key] = {"min": 0, "max": 0, "mean": 0.0, "stddev": 0.0, "N": 0}
    job["job_runtime"] = round(job["job_runtime"] * share)
    job["elapsed"] = int(ran_s) + 1
    document["timestamp_ms"] = round((begun_s + ran_s + 0.3) * 1000)
    return json.dumps(document, indent=2).encode() + b"\n"


def put(*path: str) -> Callable[[Any], Callable[[Any], None]]:
    """A change of one value in the first entry of a document."""

    def to(value: Any) -> Callable[[Any], None]:
        def change(document: Any) -> None:
            place = first(document)
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = value

        return change

    return to


def without(*path: str) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        place = first(document)
        for key in path[:-1]:
            place = place[key]
        del place[path[-1]]

    return change


def report_of(name: str) -> bytes:
    return ALL[name].files[ALL[name].report]
