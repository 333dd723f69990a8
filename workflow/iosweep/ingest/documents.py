"""What the reader of a tool says of some files, as a document with rows in the columns of the result table. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from iosweep.ingest import contents
from iosweep.ingest.detect import MARK, NotOurs, tool
from iosweep.ingest.fitting import MOST
from iosweep.ingest.walk import Found
from iosweep.results.columns import result_columns
from iosweep.tools import tools
from iosweep.tools.axes import COMMON
from iosweep.tools.reading import Cell, ProblemSeverity, Reading, ReadingProblem, Sum

#: Version of the JSON document. It changes where a key goes or means something else, not where one is added.
SCHEMA = 1
#: Columns that only a campaign has: what was planned, repeated, seen on its nodes and target.
_OF_CAMPAIGNS = frozenset((
    "campaign", "sweeps", "point", "attempt", "sum_of_rates_bytes_per_s", "sum_of_rates_ops_per_s", "passes", "wall_s",
    "start_skew_s", "rate_deviation", "slowest_node", "slowest_node_share", "slowest_worker", "slowest_worker_share",
    "settled_s", "left", "precision_grade", "ci95_half_width_share", "checks_passed", "checks_failed",
    "checks_not_checked", "confirms", "unneeded", "node", "ran_on", "pinning", "placement", "cpus", "reserved_cpus",
    "cpu_looks", "slurm_job", "session", "tool_sha256", "build", "target_directory", "target_source", "target_fstype",
    "target_layout",
))  # fmt: skip
_BETWEEN = " | "  # of reasons
_AGAINST: tuple[ProblemSeverity, ...] = ("invalid", "suspect")


@dataclass(frozen=True)
class Document:
    """The files of one run, or one file with several runs, as a tool's reader reads them."""

    tool: str
    files: Sequence[Found]
    reading: Reading

    @property
    def clean(self) -> bool:
        """Whether nothing is said against a figure."""
        return all(problem.severity == "note" for problem in self.reading.problems)

    def as_json(self) -> dict[str, object]:
        """Its keys are documented in docs/parsing.md. `row` of a problem is an index, or None."""
        return {
            "files": [file.name for file in self.files],
            "sha256": [file.sha256 for file in self.files],
            "tool": self.tool,
            "version": self.reading.version,
            "rows": [self._row(index) for index in range(len(self.reading.rows))],
            "sums": [{"parts": one.parts, "row": self._sum(one)} for one in self.reading.sums],
            "problems": [{"severity": p.severity, "row": p.row, "text": p.text} for p in self.reading.problems],
        }

    def table_rows(self) -> Iterator[dict[str, object]]:
        """Its rows for a table, which has no other place for what is wrong with the files: figures that a file does not
        give are a row without figures."""
        for index in range(len(self.reading.rows)):
            yield self._row(index)
        lost = [p.text for p in self.reading.problems if p.row is None and p.severity == "invalid"]
        if lost or not self.reading.rows:
            version = {"tool_version": self.reading.version}
            yield self._filled(version, "invalid", lost or ["it has no results"])

    def _row(self, index: int) -> dict[str, object]:
        reading = self.reading
        texts = [*reading.against(index, "invalid"), *reading.against(index, "suspect")]
        return self._filled(reading.rows[index], reading.verdict(index), texts)

    def _sum(self, one: Sum) -> dict[str, object]:
        """A sum is no better than the worst of its parts."""
        against = {
            severity: [text for part in one.parts for text in self.reading.against(part, severity)]
            for severity in _AGAINST
        }
        against["suspect"] += one.doubts
        verdict = next((severity for severity in _AGAINST if against[severity]), "valid")
        return self._filled(one.row, verdict, list(dict.fromkeys([*against["invalid"], *against["suspect"]])))

    def _filled(self, row: Mapping[str, Cell | None], verdict: str, reasons: Sequence[str]) -> dict[str, object]:
        """The row with all columns that the tool's output may tell; what is not known is None."""
        found: dict[str, object] = dict.fromkeys(columns(self.tool))
        found |= {name: _fitting(value) for name, value in row.items()}
        return found | {
            "tool": self.tool,
            "verdict": verdict,
            "reasons": _BETWEEN.join(text.replace(_BETWEEN, " / ") for text in reasons),
            "raw": ", ".join(file.name for file in self.files),
            "raw_sha256": ", ".join(file.sha256 for file in self.files),
        }


def _fitting(value: Cell | None) -> Cell | None:
    """A value, if the table has a place for it: a damaged file may claim any number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return value if -MOST <= value < MOST else None


@cache
def columns(tool_name: str) -> tuple[str, ...]:
    """Columns of the result table that an output of a tool may tell, in the table's order."""
    own = tools()[tool_name]
    others = {option.column for one in tools().values() for option in one.options.values()}
    others -= {option.column for option in (*COMMON, *own.options.values())}
    return tuple(
        column.name
        for column in result_columns()
        if column.name not in _OF_CAMPAIGNS | others and (own.latency or "latency" not in column.name)
    )


def read(tool_name: str, files: Sequence[Found], exit_code: int | None) -> Document:
    """The outputs of one run of a tool, or of several in each file. Raises nothing, whatever the files hold."""
    plain: dict[str, bytes] = {}
    strange: list[ReadingProblem] = []
    for file in files:
        data = file.data.removeprefix(MARK)
        plain[file.name] = data
        if data.startswith((b"\xff\xfe", b"\xfe\xff")):
            strange.append(ReadingProblem("invalid", f"{file.name} is UTF-16: save it as UTF-8"))
    if strange:
        return Document(tool_name, files, Reading(None, [], strange))
    if len(plain) == 1:
        ((name, data),) = plain.items()
        return Document(tool_name, files, contents.reading(name, data, tool_name, exit_code))
    return Document(tool_name, files, tools()[tool_name].read(plain, exit_code))


def documents(file: Found, exit_code: int | None) -> list[Document] | NotOurs:
    """A file as the tools read it whose output it has, or why it has none."""
    found = tool(file.data)
    if isinstance(found, NotOurs):
        return found
    return [read(name, [file], exit_code) for name in (found.tool, *found.also)]
