"""The table of results: one row per point and phase, with its repetitions behind it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iosweep.report import caveats, formats, titles
from iosweep.report.data import Row
from iosweep.report.slices import of_points
from iosweep.report.summary import OUTCOMES, Result, hosts_of, phase_order
from iosweep.results.reasons import ROOTS
from iosweep.text import human_count
from iosweep.tools import Option, parameters
from iosweep.tools.axes import PHASE_TIME

#: Figures: column -> (title, unit, size of the unit). One unit per column, so that it can be read down and copied.
_FIGURES = {
    "bandwidth_bytes_per_s": ("throughput", "MiB/s", 2**20),
    "ops_per_s": ("operations", "1/s", 1.0),
    "latency_mean_s": ("mean latency", "µs", 1e-6),
    "latency_p50_s": ("p50", "µs", 1e-6),
    "latency_p99_s": ("p99", "µs", 1e-6),
    "latency_p99_9_s": ("p99.9", "µs", 1e-6),
}
_ONE_REPETITION = {
    **_FIGURES,
    "latency_max_s": ("max", "µs", 1e-6),
    "runtime_s": ("time", "s", 1.0),
    "open_s": ("open", "s", 1.0),
    "io_s": ("transfers", "s", 1.0),
    "close_s": ("close", "s", 1.0),
    "start_skew_s": ("start skew", "ms", 1e-3),
}


@dataclass(frozen=True)
class Check:
    """One check over all rows of the results."""

    name: str
    severity: str
    counts: Mapping[str, int]  # outcome -> rows
    failed: tuple[tuple[str, int], ...]  # commonest evidence of a fail, with counts
    not_checked: tuple[tuple[str, int], ...]  # commonest reasons, with counts


def ordered(results: Iterable[Result], sweeps: Iterable[Mapping[str, Any]]) -> list[Result]:
    """Results by sweep, then by parameters and phase: neighbours in the table differ as little as they can."""
    place: dict[str, int] = {}
    for number, sweep in enumerate(sweeps):
        for point in sweep["points"]:
            place.setdefault(point, number)
    listed = list(results)
    # A point's phases stand together, whichever parameters each of them uses.
    of_point = [result.parameters for result in of_points(listed)]

    def key(i: int) -> tuple[Any, ...]:
        result, own = listed[i], of_point[i]
        values = ((own[name] is not None, own[name]) for name, option in parameters().items() if not _is_words(option))
        return (place.get(result.point, len(place)), result.kind, *values, result.point, phase_order(result.phase))

    return [listed[i] for i in sorted(range(len(listed)), key=key)]


def payload(results: Sequence[Result], checks: Iterable[Row]) -> dict[str, Any]:
    """The table for the page's script: columns, rows, and what is behind each row."""
    texts: dict[str, int] = {}  # evidence repeats: it is carried once, and referred to
    open_checks = _open_checks(checks, texts)
    columns = _columns(results)
    return {
        "columns": columns,
        "rows": [[_cell(result, column["key"]) for column in columns] for result in results],
        "repetition_columns": _repetition_columns(),
        "details": [_details(result, open_checks, texts) for result in results],
        "names": names({result.point for result in results}),
        "texts": list(texts),
    }


def names(points: Collection[str]) -> dict[str, str]:
    """Id of a point -> the parts of it that not all points have: `64k.qd4` of `fio.seq_write+3.1n.1t.64k.qd4.0a1b2c3d`.

    The hash at the end is left out where the rest is clear without it.
    """
    parts = {point: point.split(".") for point in points}
    shared = set.intersection(*map(set, parts.values())) if len(parts) > 1 else set()
    differing = {point: [part for part in own if part not in shared] for point, own in parts.items()}
    without = {point: ".".join(own[:-1]) for point, own in differing.items()}
    counts = Counter(without.values())
    return {
        point: without[point] if without[point] and counts[without[point]] == 1 else ".".join(own)
        for point, own in differing.items()
    }


def varying(results: Sequence[Result]) -> list[str]:
    """Parameters that get a column: those that vary among the results of a kind, and those one always looks for."""
    kinds: dict[str, list[Result]] = {}
    for result in results:
        kinds.setdefault(result.kind, []).append(result)
    return [
        name
        for name, option in parameters().items()
        if any(len(_found(own, name)) > 1 for own in kinds.values())
        or (option.id_form and _found(results, name))
        # none is a value of its own: one pass over the files
        or (option is PHASE_TIME and len({r.parameters[name] for r in kinds.get("data", ())}) > 1)
    ]


def _is_words(option: Option) -> bool:
    """Whether its values are words, not numbers."""
    return option.kind in ("flag", "choice")


def constant(results: Sequence[Result]) -> dict[str, str]:
    """The other parameters in words, by kind of phase: `data`, `metadata`; `IOR data` where several tools measured."""
    shown = varying(results)
    texts = {}
    for kind in ("data", "metadata"):
        of_kind = [result for result in results if result.kind == kind]
        tools = list(dict.fromkeys(result.tool for result in of_kind))
        for tool in tools:
            own = [result for result in of_kind if result.tool == tool]
            values = {name: _found(own, name) for name in parameters() if name not in shown}
            parts = [" or ".join(titles.named(name, v) for v in found) for name, found in values.items() if found]
            if parts:
                texts[f"{titles.tool(tool)} {kind}" if len(tools) > 1 else kind] = ", ".join(parts)
    return texts


def _found(results: Iterable[Result], name: str) -> dict[Any, None]:
    """Distinct values of a parameter where it has an effect, in order of appearance."""
    found = (r.parameters for r in results if r.parameters[name] is not None)
    return dict.fromkeys(own[name] for own in found if titles.applies(name, own))


def having(results: Iterable[Result]) -> dict[str, int]:
    """Outcome -> how many results have a repetition with it."""
    counts = Counter(one for result in results for one in result.outcomes)
    return {one: counts[one] for one in OUTCOMES}


def summarise_checks(checks: Iterable[Row]) -> list[Check]:
    """Per check how often it passed, failed, could not be made or did not apply: causes of failures first, then the
    most doubtful."""
    by_name: dict[str, list[Row]] = {}
    for row in checks:
        by_name.setdefault(row["check"], []).append(row)
    found = [
        Check(
            name=name,
            severity=rows[0]["severity"],
            counts=Counter(row["outcome"] for row in rows),
            failed=_commonest(rows, "fail"),
            not_checked=_commonest(rows, "not checked"),
        )
        for name, rows in by_name.items()
    ]

    def key(check: Check) -> tuple[Any, ...]:
        # checks whose failure explains others come before those, however many fail
        cause = ROOTS.index(check.name) if check.counts["fail"] and check.name in ROOTS else len(ROOTS)
        return cause, -check.counts["fail"], -check.counts["not checked"], check.name

    return sorted(found, key=key)


def not_checked(checks: Sequence[Row]) -> tuple[int, int]:
    """How many checks could not be made, of how many that applied."""
    outcomes = Counter(row["outcome"] for row in checks)
    return outcomes["not checked"], len(checks) - outcomes["not applicable"]


def exclusion(checks: Iterable[Row]) -> list[tuple[str, str, int]]:
    """What kept other benchmarks off, or why nothing did: outcome, evidence, on how many rows."""
    own = [row for row in checks if row["check"] == "exclusive" and row["outcome"] != "not applicable"]
    outcomes = dict.fromkeys(row["outcome"] for row in own)
    return [
        (o, *found) for o in outcomes for found in caveats.commonest(r["evidence"] for r in own if r["outcome"] == o)
    ]


def _commonest(rows: Iterable[Row], outcome: str) -> tuple[tuple[str, int], ...]:
    return tuple(caveats.commonest(row["evidence"] or "" for row in rows if row["outcome"] == outcome)[:3])


def _columns(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Columns of the table: `type` says how the script shows and sorts a cell."""
    columns: list[dict[str, Any]] = [
        {"key": "verdict", "title": "verdict", "type": "verdict"},
        {"key": "phase", "title": "phase", "type": "text"},
    ]
    if len({result.tool for result in results}) > 1:
        columns.append({"key": "tool", "title": "tool", "type": "text"})
    for name in varying(results):
        option = parameters()[name]
        kind = "text" if _is_words(option) else option.kind
        columns.append({"key": name, "title": option.shown, "type": kind, "parameter": True})
    columns.append({"key": "n", "title": "n", "type": "count"})
    if any(result.lacking for result in results):
        columns.append({"key": "planned", "title": "of", "type": "count"})
    if any(result.host_sets > 1 for result in results):
        columns.append({"key": "hosts", "title": "hosts", "type": "count"})
    if caveats.several_builds(results):
        columns.append({"key": "build", "title": "build", "type": "text"})
    for name, (title, unit, _) in _FIGURES.items():
        if any(name in result.statistics for result in results):
            columns.append({"key": name, "title": title, "unit": unit, "type": "number"})
            if name == "ops_per_s":
                columns.append({"key": "ci95", "title": "95\u00a0% CI", "unit": "± %", "type": "number"})
    columns.append({"key": "point", "title": "point", "type": "point"})
    return columns


def _cell(result: Result, key: str) -> Any:
    if option := parameters().get(key):
        value = result.parameters[key]
        if value is None or not titles.applies(key, result.parameters):
            return None
        return titles.parameter(key, value) if _is_words(option) else value  # numbers stay numbers, to sort as such
    if key in _FIGURES:
        return _scaled(result.typical(key), _FIGURES[key][2])
    if key == "ci95":
        best = result.headline
        return _scaled(best.ci95, best.mean / 100) if best and best.ci95 is not None and best.mean else None
    return {
        "verdict": result.state,
        "phase": titles.phase(result.phase),
        "tool": titles.tool(result.tool),
        "n": result.used,
        "planned": result.measured + result.lacking if result.measured else None,
        "hosts": len(result.hosts) or None,
        "build": ", ".join(result.builds) or None,
        "point": result.point,
    }[key]


def _details(result: Result, open_checks: Mapping[tuple[Any, ...], list[int]], texts: dict[str, int]) -> dict[str, Any]:
    first = result.rows[0]
    return {
        "sweeps": first["sweeps"],
        "command": first["command"],
        "each": _each(result),
        "reasons": list(result.reasons),
        "outcomes": list(result.outcomes),
        "repetitions": [_repetition(row) for row in result.rows if row["repetition"] is not None],
        "where": {
            row["repetition"]: [texts.setdefault(where, len(texts))]
            for row in result.rows
            if (where := _where(row, told=len(result.builds) > 1))
        },
        "checks": {
            row["repetition"]: found
            for row in result.rows
            if (found := open_checks.get((row["point"], row["phase"], row["repetition"])))
        },
    }


def _each(result: Result) -> bool:
    """Whether its command is that of the first of several nodes, on each of which the tool was started by itself."""
    several = (result.parameters["nodes"] or 1) > 1
    return several and not titles.is_mpi(result.tool) and "--client=" not in (result.rows[0]["command"] or "")


def _repetition_columns() -> list[dict[str, Any]]:
    figures = [{"title": t, "unit": unit, "type": "number"} for t, unit, _ in _ONE_REPETITION.values()]
    return [
        {"title": "repetition", "type": "count"},
        {"title": "verdict", "type": "verdict"},
        *figures,
        {"title": "checks", "unit": "pass, fail, not checked", "type": "text"},
        {"title": "started (UTC)", "type": "text"},
        {"title": "reasons", "type": "text"},
    ]


def _repetition(row: Row) -> list[Any]:
    return [
        row["repetition"],
        row["verdict"],
        *(_scaled(row[name], unit) for name, (_, _, unit) in _ONE_REPETITION.items()),
        f"{row['checks_passed']}, {row['checks_failed']}, {row['checks_not_checked']}",
        row["started"].strftime("%Y-%m-%d %H:%M:%S") if row["started"] else None,
        row["reasons"],
    ]


def _where(row: Row, told: bool = False) -> str:
    """`on node[01-04], 32 processes seen on each, Slurm job 104`; "" for what was not measured. `told`: with which
    build, too."""
    hosts, seen = formats.hosts(hosts_of(row)), _processes(row)
    parts = [f"on {hosts}" if hosts else "", seen, f"Slurm job {row['slurm_job']}" if row["slurm_job"] else ""]
    parts.append(f"build {row['tool_build']}" if told and row["tool_build"] else "")
    return ", ".join(part for part in parts if part)


def _processes(row: Row) -> str:
    """`32 processes seen on each`, or which nodes had how many: `processes seen: 32 on n[1-3], 31 on n4`; "" where none
    was seen."""
    seen: dict[str, list[str]] = {}
    for host, _, count in (part.rpartition(":") for part in (row["ran_on"] or "").split(",") if part):
        seen.setdefault(count, []).append(host)
    if not seen:
        return ""
    lacking = sorted(set(hosts_of(row)) - {host for found in seen.values() for host in found}, key=formats.natural)
    if len(seen) == 1 and not lacking:
        ((count, found),) = seen.items()
        return f"{human_count(int(count), 'process', 'processes')} seen" + (" on each" if len(found) > 1 else "")
    parts = [f"{count} on {formats.hosts(found)}" for count, found in seen.items()]
    return "processes seen: " + ", ".join([*parts, *([f"none on {formats.hosts(lacking)}"] if lacking else [])])


def _open_checks(checks: Iterable[Row], texts: dict[str, int]) -> dict[tuple[Any, ...], list[int]]:
    """(point, phase, repetition) -> checks that failed or could not be made, and what kept others off. Other passes are
    counted, not carried."""
    found: dict[tuple[Any, ...], list[int]] = {}
    for row in checks:
        if row["outcome"] in ("fail", "not checked") or (row["check"], row["outcome"]) == ("exclusive", "pass"):
            key = (row["point"], row["phase"], row["repetition"])
            evidence = f", {row['evidence']}" if row["evidence"] else ""
            text = f"{row['check']}: {row['outcome']}{evidence}"
            found.setdefault(key, []).append(texts.setdefault(text, len(texts)))
    return found


def _scaled(value: float | None, unit: float) -> float | None:
    """In the unit, with six significant digits: more would be noise, and bytes in the page."""
    return None if value is None else float(f"{value / unit:.6g}")
