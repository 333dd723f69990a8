"""What one run of IOR says, whatever it was written as: the structure that the layouts fill and the checks judge."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from iosweep.tools.messages import Heard
from iosweep.tools.reading import ProblemSeverity

#: how a problem ends that says so; then no run of the same file is trusted
MIXED = "lines of several runs are mixed"
OPERATIONS = ("write", "read")  # in IOR's own order within an iteration

Layout = Literal["table", "csv", "json"]
#: Resolution at best of IOR's times in seconds: barriers are part of them, however many digits are printed.
CLOCK_S = 0.0001
#: of whole numbers in rows: 64 bits
LARGEST = (1 << 63) - 1
_LARGEST_FIGURE = 1e18  # beyond any figure in any unit; products of two stay finite


class Printed(float):
    """A figure as it was printed. `error` is half a unit of its last digit, in the figure's own unit."""

    error: float

    @classmethod
    def of(cls, text: str, scale: float = 1.0) -> Printed:
        """The number in `text` (plain decimals, as C's %f writes) times `scale`. ValueError where it is none."""
        value = float(text)
        if not abs(value) < _LARGEST_FIGURE:  # NaN is not either
            raise ValueError(f"{text[:40]} is not a figure")
        printed = cls(value * scale)
        printed.error = 0.5 * 10.0 ** -len(text.partition(".")[2]) * scale
        return printed

    def times(self, scale: float) -> Printed:
        scaled = Printed(self * scale)
        scaled.error = self.error * scale
        return scaled

    def near(self, other: float) -> bool:
        """Whether both may be the same figure, each rounded on its own."""
        error = self.error + (other.error if isinstance(other, Printed) else 0.0)
        return abs(self - other) <= error + 1e-9 * abs(self)


def same_in_64_bits(one: int, other: int) -> bool:
    """Whether two sizes are the same to IOR, whose products overflow where exabytes are asked for."""
    return (one - other) % (1 << 64) == 0


@dataclass(frozen=True)
class Moved:
    """IOR's warning that it moved other than the file's expected size (bytes, all ranks together)."""

    expected: int
    stat: int
    moved: int
    stonewalled: bool = False  # IOR says that a time limit (-D) is why


@dataclass(frozen=True)
class Result:
    """One row: an operation of one iteration. Times in seconds. IOR's latency is left out: it ignores the segments."""

    access: str  # write or read
    iteration: int  # from 0
    bandwidth_bytes_per_s: Printed  # bytes / total_s
    ops_per_s: Printed | None  # transfers / io_s; not printed by early 3.3
    block_bytes: Printed
    transfer_bytes: Printed
    open_s: Printed
    io_s: Printed
    close_s: Printed
    total_s: Printed
    tasks: int | None = None
    moved: Moved | None = None  # the warning that belongs to this row
    bytes_moved: int | None = None  # exact, where it is told; set by the checks


@dataclass(frozen=True)
class Remark:
    """A finding that leaves the run's other rows as they are. `row`: access and iteration; None: the run as a whole.

    Severities are those of ReadingProblem. An invalid one of a row takes its figures; one without a row names what is
    missing.
    """

    severity: ProblemSeverity
    text: str
    row: tuple[str, int] | None = None


@dataclass
class Printout:
    """What is printed of one run (one test of it, where a script has several): filled while its lines are read."""

    layout: Layout = "table"
    version: str | None = None
    command: str | None = None
    options: dict[str, str] = field(default_factory=dict)  # as IOR prints them under `Options`
    parameters: dict[str, str] = field(default_factory=dict)  # JSON only
    results: list[Result] = field(default_factory=list)
    most: dict[str, Printed] = field(default_factory=dict)  # access -> `Max Write`, `Max Read`
    moved: list[Moved] = field(default_factory=list)  # IOR's warnings on the bytes that it moved
    heard: Heard = field(default_factory=Heard)  # lines beside the results
    off: dict[str, str] = field(default_factory=dict)  # what IOR does without, as it says: `fsync`, `o_direct` -> line
    problems: list[str] = field(default_factory=list)  # why none of the figures can be trusted
    over: bool = False  # IOR said that it finished

    def option(self, name: str, value: str) -> None:
        """Take what the run says of itself; twice and otherwise is a problem."""
        if self.options.setdefault(name, value) != value:
            self.problems.append(f"says both {name} {self.options[name][:80]} and {value[:80]}: {MIXED}")


@dataclass(frozen=True)
class Run:
    """A run with what its output tells of it; None where it does not. `problems`: why none of its figures can be
    trusted."""

    printout: Printout
    results: tuple[Result, ...] = ()
    problems: tuple[str, ...] = ()
    remarks: tuple[Remark, ...] = ()
    log_seen: bool = True  # IOR's messages were among what was read
    api: str | None = None
    tasks: int | None = None
    nodes: int | None = None
    clients_per_node: int | None = None
    unequal: bool = False  # not all nodes have the same number of ranks
    shifts: bool = False  # each rank reads what one of the next node wrote (-C)
    repetitions: int | None = None
    segments: int | None = None
    block_bytes: int | None = None
    transfer_bytes: int | None = None
    file_per_process: bool | None = None
    collective: bool | None = None
    random: bool | None = None
    o_direct: bool | None = None
    fsync: bool | None = None
    stonewall_s: int | None = None
    time_bounded: bool = False  # a time limit may end an operation, or a minimum time repeat it
    status_file: bool = False  # reads are bounded by what a write before them recorded
    most_minutes: int = 0  # no iteration begins later (-T)
    within_file: bool = False  # random offsets are drawn within the size that the files have (-z -z)
    operations: tuple[str, ...] | None = None  # that were asked for
