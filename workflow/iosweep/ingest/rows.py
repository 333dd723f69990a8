"""Rows that tools' readers made of outputs of others -> rows of the result table, with points and sweeps. Pure.

Rows of one tool with the same parameters are one point, and several runs of it are its repetitions, in the order of
their dates. What a text does not tell is null, and makes a group of its own: it is never mixed with what is known. What
a text tells beside the parameters (`Job`: fio's other options, or a job's name) tells points apart, too.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import orjson

from iosweep.ingest import contents, io500
from iosweep.ingest.fitting import fitted
from iosweep.plan.sweep_facts import RepetitionFacts, SweepFacts
from iosweep.results import judging
from iosweep.results.checks import CHECKS
from iosweep.results.checks.finding import Finding, failed, passed, unchecked
from iosweep.results.ingested import IngestedFile
from iosweep.results.judging import Row, Values
from iosweep.results.reasons import REASONS
from iosweep.text import printable, some
from iosweep.tools import Option, parameters, phases, tools
from iosweep.tools.axes import PHASE_TIME
from iosweep.tools.reading import Cell, Job, Reading

#: What checks say that a reader makes without a name.
_OF_THE_WHOLE = "an output alone does not tell, or the reader has judged it with the whole output (check `output`)"
#: Columns that tell points apart, beside the parameters: a mean over two versions would describe neither.
_ALSO = ("tool_version", "target_directory", "segments", "tasks")
#: Kind -> columns without which nothing tells that two outputs are of the same thing: each is a point of its own,
#: unless its text has all options of its job. Queue depth where the tool has one.
_ESSENTIAL = {
    "data": {"tasks": "ranks", "transfer_size_bytes": "transfer size", "queue_depth": "queue depth"},
    "metadata": {"tasks": "ranks"},
}
#: Options that a description names.
_NAMED = 6
#: Characters of a file or an option in a sweep's name.
_WORD = 40
#: Columns that tell when a row was measured.
_WHEN = ("started", "began_local", "ended_local")
_NO_JOB = Job(())
#: Columns of a row that this module sets itself.
_OWN = frozenset({"campaign", "sweeps", "point", "repetition", "attempt", "verdict", "reasons", "raw", "raw_sha256"})


class Found(NamedTuple):
    """A row as a reader made it. `invalid`, `suspect`: what is said against it."""

    values: Mapping[str, Cell]
    invalid: Sequence[str]
    suspect: Sequence[str]
    job: Job


class _Sweep(NamedTuple):
    """What a sweep's points have in common. `alone`: the file of rows that are repetitions of nothing, and `unknown`:
    what it does not tell; else empty. `job`: its options, where columns do not tell all points of a sweep apart.
    `io500`: `ior-hard`, of outputs of IO500."""

    tool: str
    kind: str
    version: str
    directory: str
    alone: str = ""
    unknown: str = ""
    job: tuple[str, ...] = ()
    io500: str = ""


@dataclass(frozen=True)
class Made:
    """The rows of a campaign in the order of its points, and its sweeps. `left_out`: why rows are not there -> how
    many."""

    rows: Sequence[Row]
    sweeps: tuple[SweepFacts, ...]
    left_out: Mapping[str, int]


class _Placed(NamedTuple):
    """A row with what decides where it goes. `order`: of the repetitions."""

    values: Values
    found: Found
    sweep: _Sweep
    point: str
    order: tuple[bool, str, int]


def campaign_rows(campaign: str, read: Iterable[tuple[IngestedFile, contents.Contents]]) -> Made:
    """The rows of all outputs (file, content)."""
    placed: list[_Placed] = []
    left_out: Counter[str] = Counter()
    seen: set[object] = set()
    for file, content in read:
        if file.sha256 in seen:
            continue
        seen.add(file.sha256)
        for of, found in ((reading, one) for reading in content.readings for one in _whole(reading)):
            if why := _unusable(found):
                left_out[why] += 1
                continue
            values = _values(found.values)
            if (same := _fingerprint(values, of)) and same in seen:
                left_out["it is there twice, with the same figures"] += 1
                continue
            seen.update([same] if same else [])
            values |= {"campaign": campaign, "raw": printable(file.path), "raw_sha256": file.sha256}
            placed.append(_place(values, found, len(placed)))
    return _made(placed, left_out)


def _whole(reading: Reading) -> Iterator[Found]:
    """The rows of a reading, a sum in place of its parts."""
    summed = {part for one in reading.sums for part in one.parts}
    for index, row in enumerate(reading.rows):
        if index not in summed:
            job = reading.jobs.get(index, _NO_JOB)
            yield Found(row, reading.against(index, "invalid"), reading.against(index, "suspect"), job)
    for one in reading.sums:
        against = {
            severity: [text for part in one.parts for text in reading.against(part, severity)]
            for severity in ("invalid", "suspect")
        }
        suspect = _distinct([*against["suspect"], *one.doubts])
        yield Found(one.row, _distinct(against["invalid"]), suspect, one.job or _NO_JOB)


def _distinct(texts: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(texts))


def _unusable(found: Found) -> str | None:
    """Why a row has no place in the tables, or None."""
    tool, phase = found.values.get("tool"), found.values.get("phase")
    if tool not in tools():
        return "no tool of iosweep made it"
    if phase is None:
        unknown = "its output does not tell the phase (sequential or random, read or write)"
        return f"{tool}: {printable(found.invalid[0]) if found.invalid else unknown}"
    if phase not in tools()[str(tool)].phases:
        return f"{tool}: the tables have no phase {printable(str(phase))[:40]}"
    return None


def _values(read: Mapping[str, Cell]) -> Values:
    """The columns of a row that have the right type and size."""
    values: Values = {}
    for name, value in read.items():
        if name not in _OWN and (fit := fitted(name, value)) is not None:
            values[name] = fit
    tasks, each = values.get("tasks"), values.get("threads_per_node")
    if isinstance(tasks, int) and isinstance(each, int) and each and not tasks % each:
        values.setdefault("nodes", tasks // each)  # the Lustre notes' table has both
    if values.get("nodes") == 1 and values.get("host"):
        values.setdefault("hosts", values["host"])
    phase = tools()[str(read["tool"])].phases[str(read["phase"])]
    values |= {"kind": phase.kind, "metric": values.get("metric") or phase.metric, "left": False, "unneeded": False}
    return values


def _fingerprint(values: Values, reading: Reading) -> tuple[object, ...] | None:
    """What two rows share only if one output was saved twice; None where that is not sure. `reading`: the row's."""
    names = ("bandwidth_bytes_per_s", "ops_per_s", "runtime_s", "latency_mean_s", "io_s", "max_ops_per_s")
    figures = tuple(values.get(name) for name in names)
    same = (values["tool"], values["phase"], values.get("tasks"), *figures)
    if values["tool"] == "mdtest":  # its mean and maximum are one figure where it had one iteration
        rates = [row.get("ops_per_s") for row in reading.rows]
        if not values.get("ops_per_s"):
            return None
        if values.get("began_local"):
            return (*same, values["began_local"], values.get("ended_local"))
        return (*same, *rates) if sum(map(bool, rates)) > 1 else None
    return same if sum(value is not None for value in figures) >= 2 else None


def _place(values: Values, found: Found, number: int) -> _Placed:
    tool, phase, kind = (str(values[name]) for name in ("tool", "phase", "kind"))
    workload = io500.workload_of(str(values["raw"]), tool)
    known = {name: values[name] for name in (*parameters(), *_ALSO) if values.get(name) is not None}
    known |= {"io500": workload} if workload else {}
    if found.job.options:
        known["job"] = [*map(printable, found.job.options)]
    unknown = [] if found.job.whole else _unknown(tool, kind, values)
    if unknown:
        known |= {"raw_sha256": values["raw_sha256"], "run": found.values.get("repetition")}
    point = _point_id(tool, kind, known)
    version, directory = (str(values.get(name) or "") for name in ("tool_version", "target_directory"))
    sweep = _Sweep(tool, kind, version, directory, io500=workload)
    if unknown:
        sweep = sweep._replace(alone=str(values["raw"]), unknown=" or ".join(unknown))
    when = next((str(value) for name in _WHEN if (value := found.values.get(name))), "")
    return _Placed(values | {"phase": phase}, found, sweep, point, (not when, when, number))


def _unknown(tool: str, kind: str, values: Values) -> list[str]:
    """What a row does not tell without which it is a repetition of nothing, in words."""
    has_depth = any(option.column == "queue_depth" for option in tools()[tool].options.values())
    return [
        words
        for name, words in _ESSENTIAL[kind].items()
        if values.get(name) is None and (name != "queue_depth" or has_depth)
    ]


def _point_id(tool: str, kind: str, known: Mapping[str, object]) -> str:
    """`ior.data.2n.32t.1m.0f3a91c2d4e5`: as the plan makes them, with the kind in place of the phases, so that an id
    does not depend on which of its phases were ingested."""
    content = orjson.dumps({"ingested": tool, "kind": kind, **known}, option=orjson.OPT_SORT_KEYS)
    parts = [tool, kind]
    for option in parameters().values():
        value = known.get(option.column)
        form = "{}n" if option.name == "nodes" else option.id_form
        if form and isinstance(value, bool | int | str):
            parts.append(re.sub(r"[^A-Za-z0-9+-]", "-", form.format(option.text(value)))[:40])
    return ".".join([*parts, hashlib.sha256(content).hexdigest()[:12]])


def _made(found: Sequence[_Placed], left_out: Mapping[str, int]) -> Made:
    placed = _split(found)
    shared: dict[_Family, set[str]] = {}
    for one in placed:
        shared[_family(one.sweep)] = shared.get(_family(one.sweep), set(one.sweep.job)) & set(one.sweep.job)
    names = _sweep_names(dict.fromkeys(one.sweep for one in placed), shared)
    ordered = sorted(placed, key=lambda one: (one.sweep, one.point, one.order))
    numbers: Counter[tuple[str, str]] = Counter()
    rows: list[Row] = []
    for one in ordered:
        numbers[one.point, str(one.values["phase"])] += 1
        number = numbers[one.point, str(one.values["phase"])]
        named: Values = {"sweeps": names[one.sweep], "point": one.point, "repetition": number, "attempt": 1}
        row = Row(one.values | named, _findings(one.found))
        row.values["verdict"] = "invalid" if one.found.invalid else "suspect" if one.found.suspect else "valid"
        rows.append(row)
    agreements = judging.agreements(map(judging.headline, rows))
    for row in rows:
        judging.compare_row(row, agreements)
    own: dict[_Sweep, list[Values]] = {}
    for one, row in zip(ordered, rows, strict=True):
        own.setdefault(one.sweep, []).append(row.values)
    sweeps = tuple(_sweep(name, key, own[key], shared[_family(key)]) for key, name in names.items())
    return Made(rows, sweeps, left_out)


#: A sweep before it was split by the options of its jobs, and whether these are names alone.
_Family = tuple[_Sweep, bool]
_NAME = "name="


def _family(key: _Sweep) -> _Family:
    return key._replace(job=()), any(option.startswith(_NAME) for option in key.job)


def _own(key: _Sweep, shared: Collection[str]) -> list[str]:
    """What tells a sweep from others of its family: options of its jobs that not all of these have, or their names."""
    return [printable(option.removeprefix(_NAME)) for option in key.job if option not in shared or _family(key)[1]]


def _split(placed: Sequence[_Placed]) -> list[_Placed]:
    """The same, with the sweeps split by the options of their jobs in which columns do not tell all points apart."""
    points: dict[tuple[_Sweep, object], set[str]] = {}
    for one in placed:
        columns = tuple(one.values.get(name) for name in ("phase", *parameters()))
        points.setdefault((one.sweep, columns), set()).add(one.point)
    mixed = {sweep for (sweep, _), alike in points.items() if len(alike) > 1}
    return [
        one._replace(sweep=one.sweep._replace(job=one.found.job.options)) if one.sweep in mixed else one
        for one in placed
    ]


def _findings(found: Found) -> list[Finding]:
    """What an output of others says of each check."""
    own = {
        "output": _said(found.invalid, "the output is complete and agrees with itself"),
        "tool_doubts": _said(found.suspect, "nothing in the text speaks against the figures"),
    }
    return [own.get(name, common) for name, common in _common().items()]


def _said(texts: Sequence[str], otherwise: str) -> Finding:
    return failed(REASONS.join(map(_one, texts))) if texts else passed(otherwise)


@cache
def _common() -> Mapping[str, Finding]:
    """Check -> what is said of every row alike: readers do not tell which check finds something."""
    reasons = {"exit_status": "the exit code is not known"}
    return {check.name: unchecked(reasons.get(check.name, _OF_THE_WHOLE)) for check in CHECKS}


def _one(text: str) -> str:
    return text.replace(REASONS, " / ")


def _sweep_names(keys: Iterable[_Sweep], shared: Mapping[_Family, Collection[str]]) -> dict[_Sweep, str]:
    """Sweep -> its name: tool and kind, and where several have these the file or the options that a sweep has alone
    (`fio-data-size-1g`), else a number."""
    ordered = sorted(keys)
    several = Counter(key.io500 or key[:2] for key in ordered)
    numbers: Counter[str] = Counter()
    taken: set[str] = set()
    names = {}
    for key in ordered:
        name = key.io500 or "-".join(key[:2])
        if several[key.io500 or key[:2]] > 1:
            own = "-".join(sorted(_own(key, shared[_family(key)]), key=len))  # `size=1g` before a long path
            word = re.sub(r"[^A-Za-z0-9._+]+", "-", re.split("[/!]", key.alone)[-1] or own).strip("-.")[:_WORD]
            base, name = f"{name}-{word}" if word else name, f"{name}-{word}" if word else ""
            while not name or name in taken:
                numbers[base] += 1
                name = f"{base}-{numbers[base] + bool(word)}"
            taken.add(name)
        names[key] = name
    return names


def _sweep(name: str, key: _Sweep, rows: Sequence[Values], shared: Collection[str]) -> SweepFacts:
    measured = {str(row["phase"]) for row in rows}
    most = max((number for row in rows if isinstance(number := row["repetition"], int)), default=1)
    return SweepFacts(
        name=name,
        tool=key.tool,
        phases=tuple(phase for phase in phases() if phase in measured),
        axes=dict(_axes(rows)),
        points=tuple(dict.fromkeys(str(row["point"]) for row in rows)),
        repetitions=RepetitionFacts(min=1, max=most, until_ci95_half_width=None),
        description=_described(key, shared),
    )


def _described(key: _Sweep, shared: Collection[str]) -> str:
    """`Ingested: fio 3.36, jobs with size=1g.` `shared`: options of all jobs that are not named."""
    version = key.version.removeprefix(f"{key.tool}-")
    about = [f"{tools()[key.tool].title or key.tool} {version}"] if version else []
    about = [f"{key.io500} of IO500", *about] if key.io500 else about
    about += [f"in {key.directory}"] if key.directory else []
    if key.job:
        own = _own(key, shared)
        named = "named" if _family(key)[1] else "with"
        about += [f"jobs {named} {some(own, _NAMED)}" if own else "jobs without the options of those beside them"]
    about += [f"{key.alone} alone: it does not tell {key.unknown}"] if key.alone else []
    return f"Ingested: {', '.join(about)}." if about else "Ingested."


def _axes(rows: Sequence[Values]) -> Iterator[tuple[str, tuple[bool | int | str, ...]]]:
    """The parameters that vary, with their values."""
    for option in parameters().values():
        found = {value for row in rows if (value := _value(option, row.get(option.column))) is not None}
        if len(found) > 1:
            yield option.name, tuple(sorted(found))


def _value(option: Option, value: object) -> bool | int | str | None:
    """A parameter of a row as a value of an axis; None where it is none."""
    if option is PHASE_TIME and isinstance(value, float):
        value = int(value) if value.is_integer() else None
    wanted = {"flag": bool, "choice": str}.get(option.kind, int)
    return value if isinstance(value, bool | int | str) and type(value) is wanted else None
