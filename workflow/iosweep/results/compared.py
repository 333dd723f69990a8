"""Rows that were judged one by one, with what all repetitions of their point's phase show together. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iosweep.results import statistics
from iosweep.results.checks import CHECKS
from iosweep.results.checks.finding import NOT_APPLICABLE, Finding
from iosweep.results.reasons import REASONS, chained
from iosweep.results.repeated import Agreement, Agreements
from iosweep.results.row_blocks import Head, Known, Main

_NO_AGREEMENT = Agreement(NOT_APPLICABLE, None)
#: Outcome of `precise` -> the column that counts it.
_COUNTERS = {"pass": "checks_passed", "fail": "checks_failed", "not checked": "checks_not_checked"}


class Compared(NamedTuple):
    """Rows as the tables have them. measured: which rows have findings; outcomes, evidence: of all checks of these, one
    row after the other."""

    rows: pa.RecordBatch
    measured: pa.Array
    outcomes: pa.Array
    evidence: pa.Array


def compared(main: Main, known: Sequence[tuple[str, Known]], agreements: Agreements) -> Compared:
    """What `repeated.judge` makes of rows, of many at once. known: the point of each row, and what the row says of
    itself."""
    found = [_agreement(point, head, agreements) for point, head in known]
    findings = [one.finding for one in found if one is not None]
    return Compared(
        _rows(main.rows, found),
        pa.array([one is not None for one in found], pa.bool_()),
        *_findings(main.findings, findings),
    )


def _agreement(point: str, head: Known, agreements: Agreements) -> Agreement | None:
    """None of a row that was not measured."""
    if isinstance(head, Head):
        return agreements.get((point, head.phase, head.confirms), _NO_AGREEMENT)
    return _NO_AGREEMENT if head else None


def _rows(rows: pa.RecordBatch, found: Sequence[Agreement | None]) -> pa.RecordBatch:
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    outcomes = [one.finding.outcome if one else "" for one in found]
    for outcome, column in _COUNTERS.items():
        more = pa.array([own == outcome for own in outcomes], pa.bool_()).cast(pa.int64())
        columns[column] = pc.add(columns[column], more)
    intervals = [one.interval if one else None for one in found]
    columns["precision_grade"] = pa.array([statistics.grade(i) if i else None for i in intervals], pa.string())
    columns["ci95_half_width_share"] = pa.array([i.half_width_share if i else None for i in intervals], pa.float64())
    if "fail" in outcomes:  # of rows that count, which no cause explains: it is one more reason
        failed = pa.array([own == "fail" for own in outcomes], pa.bool_())
        reasons = [chained([("precise", one.finding.evidence)])[0] if one else "" for one in found]
        own = columns["reasons"]
        before = pc.if_else(pc.equal(own, ""), "", pc.binary_join_element_wise(own, "", REASONS))
        more = pc.binary_join_element_wise(before, pa.array(reasons, pa.string()), "")
        columns["reasons"] = pc.if_else(failed, more, own)
        columns["verdict"] = pc.if_else(failed, "suspect", columns["verdict"])
    return pa.RecordBatch.from_arrays([columns[name] for name in rows.schema.names], schema=rows.schema)


def _findings(others: pa.RecordBatch, precise: Sequence[Finding]) -> tuple[Any, Any]:
    """Outcomes and evidence of all checks; `precise` is the last one of each row."""
    rows, each = len(precise), len(CHECKS)
    order = np.empty((rows, each + 1), np.int32)
    order[:, :each] = np.arange(rows * each, dtype=np.int32).reshape(rows, each)
    order[:, each] = np.arange(rows * each, rows * (each + 1), dtype=np.int32)
    taken = pa.array(order.reshape(-1))
    last = ([finding.outcome for finding in precise], [finding.evidence for finding in precise])
    outcomes, evidence = (
        pa.concat_arrays([others.column(k), pa.array(own, pa.string())]).take(taken) for k, own in enumerate(last)
    )
    return outcomes, evidence
