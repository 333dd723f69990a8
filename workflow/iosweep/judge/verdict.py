"""The verdict on a repetition: record, raw output and facts of the nodes -> rows, one for each phase. Pure.

The runner judges each repetition, and stores the rows in the record with the judgment key. `iosweep tables` judges
again only if the key has changed, so that a fix of a parser or check needs no new measurement. `agreement` compares the
repetitions of a point.
"""

from __future__ import annotations

import hashlib
import math
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

import msgspec

import iosweep
from iosweep.histograms import FACTOR, NodeRate
from iosweep.judge.checks import CHECKS, SEVERITIES, caches, stragglers
from iosweep.judge.findings import NOT_APPLICABLE, Observation, chained
from iosweep.node import monitor
from iosweep.plan.model import Plan, Point
from iosweep.store.record import Finding, JudgedPhase, Record, Value, Verdict
from iosweep.tools import Parsed, Phase, Step, Streams, tools

#: Upper bound of figures: integers of the tables have 64 bits, and the square of a float must be finite.
_LIMIT = float(1 << 63)
#: Maximum number of values of a stored series: a plot has no pixels for more.
MOST_VALUES = 300
#: Maximum number of workers per node whose rates are stored.
MOST_RATES = 64
#: Packages and files whose code affects no report, no tables, no judgment. If other code changes, report, tables or
#: judgments are outdated and regenerated; nothing is measured again.
NOT_REPORT = frozenset({"__main__.py", "commands", "dag.py", "jobs", "run"})
NOT_TABLES = NOT_REPORT | {"analysis", "report"}
NOT_JUDGING = NOT_TABLES | {"ingest", "programs", "slurm", "tables"}


def key(plan: Plan, point: Point) -> str:
    """Judgment key: digest of what determines the rows besides record, raw output and facts: the judging code and
    settings of the plan."""
    code = code_digest(NOT_JUDGING)
    settings = msgspec.json.encode((code, plan.target_of(point), plan.shortest_steady_s(point)), order="deterministic")
    return hashlib.sha256(settings).hexdigest()[:16]


@cache
def code_digest(without: frozenset[str]) -> str:
    """Digest of the files of this package, without some files and subpackages."""
    package, total = Path(iosweep.__file__).parent, hashlib.sha256()
    names = (file.relative_to(package) for file in package.rglob("*") if file.is_file())
    for name in sorted(n for n in names if n.parts[0] not in without and "__pycache__" not in n.parts):
        data = (package / name).read_bytes()
        total.update(b"%b %d " % (os.fsencode(name), len(data)) + data)
    return total.hexdigest()[:12]


def judge(
    plan: Plan,
    point: Point,
    record: Record,
    printed: Mapping[str, Streams],
    memory_bytes: Mapping[str, int | None],
) -> tuple[JudgedPhase, ...]:
    """The rows of a repetition, in the order of its phases.

    printed: step -> its streams; memory_bytes: host -> its memory, None if unknown. Raises KeyError, ValueError and
    others if the record is not of this point.
    """
    steps = {phase.name: (step, phase) for step in point.steps for phase in step.phases}
    rows = []
    for run in record.phases:
        step, phase = steps[run.phase]
        parsed = _parse(point, step, phase, printed.get(step.name, {}), record.hosts or (record.host,))
        observation = Observation(
            point,
            phase,
            run,
            parsed,
            plan.target_of(point),
            memory_bytes,
            record.target.fstype,
            record.target.mount,
            plan.shortest_steady_s(point),
            record.tool.version,
        )
        rows.append(_make_row(observation, record.host))
    return tuple(rows)


def _parse(point: Point, step: Step, phase: Phase, streams: Streams, hosts: Sequence[str]) -> Parsed:
    """Parse the output of a phase, and add the series and rates that the nodes counted.

    hosts: the nodes of the run, in order. A figure that a column cannot hold is a problem of the output.
    """
    if not streams:
        return Parsed()
    parsed = tools()[point.tool].parse(streams, step, phase)
    evidence = replace(
        parsed.evidence,
        series=[*parsed.evidence.series, *monitor.series(streams.get("monitor", b""))],
        node_rates=stragglers.rates_of_run(parsed, streams, hosts),
    )
    overflow = {name: value for name, value in parsed.figures.items() if not -_LIMIT <= value < _LIMIT}  # also NaN
    problems = [*parsed.problems, *(f"{name} is {value:g}" for name, value in overflow.items())]
    figures = {name: value for name, value in parsed.figures.items() if name not in overflow}
    return replace(parsed, evidence=evidence, figures=figures, problems=problems)


def _make_row(observation: Observation, host: str) -> JudgedPhase:
    """Judge a phase, and build its row. host: the first node."""
    phase, run, parsed = observation.phase, observation.run, observation.parsed
    evidence, figures = parsed.evidence, parsed.figures
    findings = judge_phase(observation)
    verdict, reasons = verdict_of(findings)
    usable = figures if verdict != "invalid" else {}
    histogram = evidence.latencies
    cpus: dict[str, Value] = {}
    if run.cpus:
        node_cpus = next((node for node in run.cpus.nodes if host in node.hosts), None)
        cpus = {
            "pinning": run.cpus.pinning,
            "placement": run.cpus.placement if run.cpus.planned else None,
            "cpus": node_cpus.allowed if node_cpus else None,
            "reserved_cpus": node_cpus.reserved if node_cpus else None,
        }
    return JudgedPhase(
        phase=phase.name,
        verdict=verdict,
        reasons=reasons,
        headline=usable.get(phase.metric),
        latency_mean_s=usable.get("latency_mean_s"),
        started=run.started,
        values={
            **figures,
            "label": parsed.label,
            "passes": caches.passes(observation),
            "wall_s": run.wall_s,
            "ran_on": ",".join(f"{node}:{count}" for node, count in run.ran_on.items()) or None,
            **cpus,
            "command": " ".join(map(_quote, run.argv)),
        },
        findings=findings,
        series=tuple(
            (s.host, s.name, s.begin_s, s.interval_s, tuple(map(_round, s.values)))
            for s in (s.coarser(MOST_VALUES) for s in evidence.series)
        ),
        node_rates=tuple(
            (r.host, r.worker, r.bandwidth_bytes_per_s, r.ops_per_s) for r in _select(evidence.node_rates)
        ),
        histogram=(histogram.lowest_s, FACTOR, histogram.counts) if histogram else None,
        used_cpus={",".join(node.hosts): node.allowed for node in (run.cpus.nodes if run.cpus else ())},
    )


def _select(rates: Sequence[NodeRate]) -> list[NodeRate]:
    """The rates of whole nodes, and on each node those of the slowest and fastest workers, MOST_RATES together."""
    by_host: dict[str, list[NodeRate]] = {}
    for rate in sorted((rate for rate in rates if rate.worker is not None), key=stragglers.rate):
        by_host.setdefault(rate.host, []).append(rate)
    selected: set[NodeRate] = set()
    for ranked in by_host.values():
        selected.update(ranked[: MOST_RATES - MOST_RATES // 2], ranked[-(MOST_RATES // 2) :])
    return [rate for rate in rates if rate.worker is None or rate in selected]


def _round(value: float) -> float | None:
    return None if math.isnan(value) else float(f"{value:.6g}")


def judge_phase(observation: Observation) -> dict[str, Finding]:
    """check -> its finding, for the checks that apply, in the order of CHECKS.

    For a phase that was not run, only the checks that explain why apply: those of its files, or `exit_status`.
    """
    explaining = ("data_complete", "no_holes") if observation.run.files.wrong else ("exit_status",)
    checks = [check for check in CHECKS if not observation.run.not_run or check.name in explaining]
    findings = ((check.name, check.find(observation)) for check in checks)
    return {name: finding for name, finding in findings if finding.outcome != NOT_APPLICABLE.outcome}


def verdict_of(findings: Mapping[str, Finding]) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict of a row and its reasons: those that make it invalid first, causes before their consequences."""
    failures = [(check, finding.evidence) for check, finding in findings.items() if finding.outcome == "fail"]
    failures.sort(key=lambda failure: SEVERITIES[failure[0]] != "invalid")
    reasons = tuple(chained(failures))
    if any(SEVERITIES[check] == "invalid" for check, _ in failures):
        return "invalid", reasons
    return ("suspect" if failures else "valid"), reasons


def retry(findings: Iterable[Finding]) -> str | None:
    """Why a retry of a repetition may help; None if it will not. findings: those of all its rows."""
    return next((f.evidence for f in findings if f.outcome == "fail" and f.retry), None)


#: Cached, because most arguments occur in many commands.
_quote = lru_cache(10_000)(shlex.quote)
