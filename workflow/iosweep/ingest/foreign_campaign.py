"""Which outputs of others are rows, points and repetitions of a campaign; their archive and their tables."""

from __future__ import annotations

import hashlib
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

import iosweep
from iosweep.config.sweeps import RepetitionRule
from iosweep.files import documents, safe_paths
from iosweep.ingest import outputs
from iosweep.judge.agreement import COUNTED, TIMES, Headlines, RepeatedFigure, agreements, verdict_columns
from iosweep.judge.checks import CHECKS
from iosweep.judge.findings import FOLLOWS, failed, passed, unchecked
from iosweep.plan.model import SweepFacts
from iosweep.store import ingested
from iosweep.store.ingested import INGESTED, RAW, Ingested, IngestedFacts, IngestedFile
from iosweep.store.record import Finding
from iosweep.tables.columns import result_columns
from iosweep.tables.writer import CampaignTables, Values
from iosweep.text import printable, shortened, some
from iosweep.tools import parameters, phases, tools
from iosweep.tools.axes import PHASE_TIME
from iosweep.tools.reading import SEVERITIES, Cell, Reading

#: Columns that tell points apart, beside the parameters: a mean over two versions would describe neither, and fio's
#: jobs of other names may differ in what columns do not tell.
_ALSO = ("tool_version", "segments", "tasks", "other_options")
#: Columns without which outputs cannot be told to be of the same point: each output is a separate point.
_ESSENTIAL = {"data": ("tasks", "transfer_size_bytes"), "metadata": ("tasks",)}
#: Columns that tell when a row was measured.
_WHEN = ("started", "began_local", "ended_local")
#: Figures that two runs do not share.
_FIGURES = ("bandwidth_bytes_per_s", "ops_per_s", "runtime_s", "latency_mean_s", "io_s")
#: Integers have 64 bits, and the square of a float has to be finite.
_MOST = float(1 << 63)
_UNCHECKED = unchecked(
    "an output alone does not tell, or the reader has judged it with the whole output (check `output`)"
)


# Files


class Content(NamedTuple):
    """A file with the reading of each tool whose output it holds."""

    file: IngestedFile
    data: bytes
    readings: dict[str, Reading]

    @property
    def has_rows(self) -> bool:
        """Whether the tables get a row of it: one with a phase."""
        return any("phase" in row for reading in self.readings.values() for row in reading.rows)

    @property
    def without_row(self) -> str:
        """Why a file that has a tool's output gives no row: its first problem."""
        if self.has_rows:
            return ""
        texts = (problem.text for reading in self.readings.values() for problem in reading.problems)
        return shortened(next(texts, "it has no result"), 200)


def collect(paths: Sequence[Path]) -> tuple[list[Content], Counter[str]]:
    """(the outputs of tools below some paths, the number of other files by the reason why they are not taken)

    Outputs without a figure are kept: a better reader may find one."""
    taken: dict[str, Content] = {}
    refused: Counter[str] = Counter()
    for file in (file for path in paths for file in outputs.files(path)):
        if isinstance(content := _content(file), str):
            refused[content] += 1
        elif content.file.sha256 in taken:
            refused["is a copy of another file"] += 1
        else:
            taken[content.file.sha256] = content
    return [*taken.values()], refused


def _content(file: outputs.File) -> Content | str:
    """The content of a file, or the reason why it is not taken."""
    readings = file.reason or outputs.readings(file.data)
    if isinstance(readings, str):
        return readings
    return Content(IngestedFile(file.name, file.sha256, len(file.data)), file.data, readings)


def store(
    results: Path, campaign: str, paths: Sequence[Path], taken: Sequence[Content], refused: Counter[str]
) -> tuple[Ingested, str]:
    """Keep files as a campaign; returns the document and its digest. Raises OSError."""
    with safe_paths.folder(results, make=True) as place:
        document = Ingested(
            campaign=campaign,
            made=datetime.now(UTC).replace(microsecond=0),
            sources=tuple(outputs.shown(path) for path in paths),
            files=tuple(content.file for content in taken),
            refused=dict(refused.most_common()),
        )
        data = documents.dump(document, indent=True)
        # both are on disk before either takes its name: on a full disk, the files that they replace stay whole
        with place.replaced(INGESTED) as described:
            described.write(data)
            described.flush()
            os.fsync(described.fileno())
            with (
                place.replaced(RAW) as file,
                zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
            ):
                for content in taken:
                    member = zipfile.ZipInfo(content.file.sha256)
                    archive.writestr(member, content.data, zipfile.ZIP_DEFLATED, compresslevel=1)
    return document, ingested.digest(data)


# Rows, points and sweeps


class Row(NamedTuple):
    """A row of the results. findings: check -> its finding."""

    values: Values
    findings: dict[str, Finding]


class Made(NamedTuple):
    """The rows of a campaign in the order of its points, and its sweeps. `left_out`: why rows are not there -> how
    many."""

    rows: Sequence[Row]
    sweeps: tuple[SweepFacts, ...]
    left_out: Mapping[str, int]


def campaign_rows(campaign: str, read: Iterable[tuple[IngestedFile, Iterable[Reading]]]) -> Made:
    """The rows of all outputs. Rows of one tool with the same parameters are one point, and several runs of it are its
    repetitions, in the order of their dates. What a text does not tell is null, and makes a group of its own."""
    placed: list[tuple[str, str, tuple[bool, str, int], Row]] = []  # sweep, point, order of its repetitions
    left_out: Counter[str] = Counter()
    seen: set[object] = set()
    for file, reading in ((file, reading) for file, readings in read for reading in readings):
        for index, row in enumerate(reading.rows):
            said = {severity: reading.against(index, severity) for severity in SEVERITIES}
            if "phase" not in row:
                unknown = "its output does not tell the phase (sequential or random, read or write)"
                left_out[f"{row['tool']}: {printable(next(iter(said['invalid']), unknown))}"] += 1
                continue
            values = _values(row) | {"campaign": campaign, "raw": printable(file.path), "raw_sha256": file.sha256}
            dates, figures = ([row[name] for name in names if name in row] for names in (_WHEN, _FIGURES))
            same = row["tool"], row["phase"], row.get("tasks"), *dates, *figures
            if figures and len(dates + figures) > 1 and same in seen:  # a job's log and a file of the same output
                left_out["it is there twice, with the same figures"] += 1
                continue
            seen.add(same)
            invalid, suspect = ("; ".join(said[severity]) for severity in ("invalid", "suspect"))
            doubts = printable("; ".join(["nothing in the text speaks against the figures", *said["note"]]))
            findings = dict.fromkeys((check.name for check in CHECKS), _UNCHECKED) | {
                "output": failed(invalid) if invalid else passed("the output is complete and agrees with itself"),
                "tool_doubts": failed(suspect) if suspect else passed(doubts),
            }
            wrong = [*said["invalid"], *said["suspect"]]
            reasons = (failed(text).evidence.replace(FOLLOWS, " > ") for text in wrong)
            values |= verdict_columns(reading.verdict(index), list(reasons), findings)
            when = next((str(value) for name in _WHEN if (value := row.get(name))), "")
            sweep, point = _place(values, row.get("repetition"))
            placed.append((sweep, point, (not when, when, len(placed)), Row(values, findings)))
    placed.sort(key=lambda row: row[:3])
    numbers: Counter[tuple[str, str]] = Counter()
    of_sweep: dict[str, list[Values]] = {}
    for sweep, point, _, made in placed:
        key = point, str(made.values["phase"])
        numbers[key] += 1
        made.values.update({"sweeps": sweep, "point": point, "repetition": numbers[key], "attempt": 1})
        of_sweep.setdefault(sweep, []).append(made.values)
    sweeps = tuple(_sweep(name, values) for name, values in of_sweep.items())
    return Made([made for *_, made in placed], sweeps, left_out)


def _values(read: Mapping[str, Cell]) -> Values:
    """The columns of a row, where the table can hold their values: a damaged file may claim any number."""
    types = {column.name: column.type for column in result_columns()}
    values: Values = {}
    for name, value in read.items():
        if isinstance(value, str):
            values[name] = datetime.fromisoformat(value) if types[name] == "time" else printable(value)
        elif abs(value) < _MOST:  # NaN is not either
            values[name] = float(value) if types[name] == "float" else value
    tasks, each = values.get("tasks"), values.get("threads_per_node")
    if isinstance(tasks, int) and isinstance(each, int) and each and not tasks % each:
        values.setdefault("nodes", tasks // each)
    if values.get("nodes") == 1 and values.get("host"):
        values.setdefault("hosts", values["host"])
    phase = tools()[str(read["tool"])].phases[str(read["phase"])]
    values |= {"kind": phase.kind, "metric": values.get("metric") or phase.metric, "left": False, "unneeded": False}
    return values


def _place(values: Values, run: Cell | None) -> tuple[str, str]:
    """The sweep and the point of a row. `run`: its number in its file.

    A point's id is made as in the plan (`ior.data.2n.32t.1m.0f3a91c2d4e5`), with the kind in place of the phases: it
    does not depend on which of its phases were ingested.
    """
    tool, kind = str(values["tool"]), str(values["kind"])
    workload = outputs.workload_of(str(values["raw"]), tool)
    known = {name: values[name] for name in (*parameters(), *_ALSO) if values.get(name) is not None}
    known |= {"io500": workload} if workload else {}
    known |= {"job": values.get("label")} if tool == "fio" else {}
    if any(values.get(name) is None for name in _ESSENTIAL[kind]):
        known |= {"raw_sha256": values["raw_sha256"], "run": run}
    content = msgspec.json.encode({"ingested": tool, "kind": kind, **known}, order="deterministic")
    parts = [tool, kind]
    for option in parameters().values():
        form = "{}n" if option.name == "nodes" else option.id_form
        if form and (value := known.get(option.column)) is not None:
            parts.append(re.sub(r"[^A-Za-z0-9+-]", "-", form.format(option.text(value)))[:40])
    return workload or f"{tool}-{kind}", ".".join([*parts, hashlib.sha256(content).hexdigest()[:12]])


def _sweep(name: str, rows: Sequence[Values]) -> SweepFacts:
    """A sweep of rows: its axes are the parameters of which they have several values."""
    measured = {str(row["phase"]) for row in rows}
    axes = {}
    for option in parameters().values():
        values = {row[option.column] for row in rows if row.get(option.column) is not None}
        if len(values) > 1:
            axes[option.name] = tuple(sorted(int(value) if option is PHASE_TIME else value for value in values))
    return SweepFacts(
        name=name,
        tool=str(rows[0]["tool"]),
        phases=tuple(phase for phase in phases() if phase in measured),
        axes=axes,
        points=tuple(dict.fromkeys(str(row["point"]) for row in rows)),
        repetitions=RepetitionRule(1, max(int(str(row["repetition"])) for row in rows)),
        description="Ingested.",
    )


# Tables


def make_again(results: Path) -> IngestedFacts:
    """Read all files again, and make their tables. Raises FileNotFoundError, Damaged."""
    document, digest = ingested.load(results)
    read = [_content(outputs.File(file.path, data)) for file, data in ingested.read_files(results, document.files)]
    return make(results, document, digest, [content for content in read if isinstance(content, Content)])


def make(results: Path, document: Ingested, digest: str, read: Sequence[Content]) -> IngestedFacts:
    """Write the tables of some files, each atomically."""
    made = campaign_rows(document.campaign, ((content.file, content.readings.values()) for content in read))
    facts = IngestedFacts(
        files=dict(sorted(Counter(tool for content in read for tool in content.readings).items())),
        bytes=sum(content.file.bytes for content in read),
        refused=document.refused,
        without_rows=dict(Counter(content.without_row for content in read if content.without_row).most_common()),
        left_out=dict(Counter(made.left_out).most_common()),
    )
    about = {  # in place of a plan
        "campaign": document.campaign,
        "description": f"Ingested from {some(document.sources, 3)}",
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "iosweep_version": iosweep.__version__,
        "plan_digest": digest,
        "seed": 0,
        "targets": {"": {"directory": "not known (ingested)"}},
        "sweeps": made.sweeps,
        "ingested": facts,
    }
    with CampaignTables(results) as tables:
        counted = agreements(_headlines([row.values for row in made.rows]))
        for row in made.rows:
            tables.add_findings(row.values, row.findings)
        tables.add([tables.cells(row.values) for row in made.rows], counted)
        tables.finish(about)
    return facts


def _headlines(rows: Iterable[Values]) -> Headlines:
    """The headline figures of the rows that count."""
    headlines: Headlines = {}
    for row in rows:
        if row["verdict"] in COUNTED:
            point, phase, figure, nodes = row["point"], row["phase"], row.get(str(row["metric"])), row.get("nodes")
            new = RepeatedFigure((row["tool"], nodes if isinstance(nodes, int) else 1), phase)
            figure = figure if isinstance(figure, float | int) else None
            measured_on = row.get("hosts"), row.get("slurm_job"), None
            key, times = (None, row["repetition"]), tuple(map(row.get, TIMES))
            headlines.setdefault((point, phase, False), new).add(key, figure, measured_on, times)
    return headlines
