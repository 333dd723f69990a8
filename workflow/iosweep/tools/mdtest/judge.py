"""Whether a launch of mdtest and its table of rates can be trusted: what is missing, and what cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from math import hypot

from iosweep.tools import wall_clock
from iosweep.tools.mdtest.command_line import Options, asked
from iosweep.tools.mdtest.launches import Launch
from iosweep.tools.mdtest.messages import quote
from iosweep.tools.mdtest.table import ORDER, PHASES, RENAME, Rate, Table
from iosweep.tools.reading import ProblemSeverity

#: With one iteration of 3.3: the ranks' own rates may differ by this factor before their mean is no rate of the run.
RANKS_AGREE = 1.1
#: Figures are printed with three decimals.
_ROUNDING = 0.002
_HALF = 0.0006  # of the last decimal, and some
#: What of n values the squares of the deviations are divided by: n in a population, n - 1 in a sample.
_POPULATION, _SAMPLE = 0, 1
#: A table without any line above it.
ALONE = (
    "the table comes without the lines above it: which version ran what on how many tasks is not known, and before 4.0"
    " a mean is over the rates of single ranks"
)
_CUT = "the output is cut: mdtest's closing line '-- finished at' is missing"


def _missing(table: Table, version: tuple[int, ...], options: Options | None) -> Iterator[str]:
    """Rows that mdtest always prints and that are not there, and rows that cannot be."""
    there = {name.split()[0] for name in table.rates}
    what = table.count[2] if table.count else ""
    told = {
        "files": {"File"},
        "file": {"File"},
        "directories": {"Directory"},
        "files/directories": {"File", "Directory"},
    }
    families = told.get(what, (there - {"Tree"}) or {"File"})
    if options and what not in told and version:
        families = {name.split()[0] for name in asked(Options(options.flags - set("CTErU"), {}), version)} - {"Tree"}
    expected = {name for name in PHASES if name.split()[0] in {*families, "Tree"}}
    renames = version >= (4,) or table.unit == "ops/sec"
    if not renames:
        expected -= {RENAME}
    optional = {RENAME} if not version or version >= (3, 4) else set()  # it came during 3.4.0+dev
    if lost := sorted(expected - set(table.rates), key=ORDER.__getitem__):
        yield f"rows of the table are missing: {', '.join(lost)}"
    if extra := sorted(set(table.rates) - expected - optional, key=ORDER.__getitem__):
        yield f"the table has rows that this run does not print: {', '.join(extra)}"


def zeros(
    table: Table,
    version: tuple[int, ...],
    options: Options | None,
    doubts: dict[str, str],
    remarks: list[tuple[ProblemSeverity, str]],
) -> Iterator[str]:
    """Zeros of operations that were asked for, into `doubts`. Others are zero because they were not run.

    A tree that takes more than about 2,000 s for each of its directories has the rate 0.000: into `remarks`.
    """
    zero = [name for name, rate in table.rates.items() if rate.maximum == 0]
    work = [name for name in table.rates if not name.startswith("Tree")]
    if work and set(work) <= set(zero):
        without = options and not {"n", "I"} & set(options.values)
        yield "nothing was measured: every rate is 0" + (" (mdtest was run without -n)" if without else "")
        return
    for name in sorted(set(zero) & asked(options, version) if options else (), key=ORDER.__getitem__):
        if name.startswith("Tree"):
            remarks.append(("note", f"{name} has the rate 0, or one below the digits that are printed"))
        else:
            doubts[name] = f"{name} was asked for and has the rate 0"


def _arithmetic(name: str, rate: Rate, count: int | None, less: Collection[int]) -> str | None:
    """What cannot be in a row. `count`: values the statistics are over, if known; `less`: what is taken from it."""
    top, low, mean, stddev = rate
    spread = top - low
    values = f"{name}: max {top:.3f}, min {low:.3f}, mean {mean:.3f}, stddev {stddev:.3f}"
    if top and not low:
        return f"{values}: the rate of one iteration is 0"
    if not low - _ROUNDING <= mean <= top + _ROUNDING:
        return f"{values}: not min <= mean <= max"
    if count == 1 and (spread > _ROUNDING or stddev):
        return f"{values}: one iteration cannot have different rates"
    if stddev > spread / 2**0.5 + _ROUNDING:
        return f"{values}: no values within these bounds have this standard deviation"
    # n values with this spread deviate by spread / sqrt(2 n) at least; 100,000 where their number is not known
    if stddev + _ROUNDING < spread / (2 * (count or 100_000)) ** 0.5:
        return f"{values}: values this far apart have a larger standard deviation"
    if count and not low + spread / count - _ROUNDING <= mean <= top - spread / count + _ROUNDING:
        return f"{values}: no {count} values within these bounds have this mean"
    if count in (2, 3):  # Max, Min and Mean tell all values
        apart = hypot(*(value - mean for value in (top, low, 3 * mean - top - low)[:count]))
        slack = 2 * _ROUNDING + 1e-9 * apart
        if all(abs(apart / (count - one) ** 0.5 - stddev) > slack for one in less):
            return f"{values}: {count} values with these bounds and this mean have another standard deviation"
    return None


def statistics(
    table: Table, version: tuple[int, ...], tasks: int | None, problems: list[str], doubts: dict[str, str]
) -> None:
    """Checks every row that is not zero: into `problems` what cannot be, into `doubts` what is no rate of the run."""
    per_iteration = version >= (4,) or table.unit == "ops/sec"
    less = {_SAMPLE} if per_iteration else {_POPULATION} if () < version < (3, 4) else {_POPULATION, _SAMPLE}
    for name, rate in table.rates.items():
        exact = per_iteration or name.startswith("Tree")  # trees are timed by rank 0 alone
        count = table.iterations if exact else table.iterations * tasks if tasks and version else None
        if version and version < (3, 3):
            count = table.iterations if exact else None  # with -B over ranks, too
        if rate.maximum == 0:
            if any(rate):
                problems.append(f"{name}: max 0 beside figures that are not 0")
        elif wrong := _arithmetic(name, rate, count, less):
            problems.append(wrong)
        elif not exact and table.iterations == 1 and rate.maximum > RANKS_AGREE * rate.minimum:
            doubts[name] = (
                f"{name}: the ranks' own rates differ by more than {RANKS_AGREE - 1:.0%} (from {rate.minimum:.3f} to"
                f" {rate.maximum:.3f} ops/s), so that their mean, which this version prints, is no rate of the run"
            )


def times(launch: Launch, table: Table, version: tuple[int, ...], options: Options | None) -> Iterator[str]:
    """What in a table of rates does not fit the table of times beside it (-P), where there is one.

    The highest rate times the shortest time are the items, and the lowest times the longest (not with -W and -x, where
    iterations differ in items, and before 3.3, where the ranks' extremes need not belong together). Exchanged rows fit
    as well: only how long the whole run was tells them.
    """
    if table.times is None:
        return
    if table.times.problems or set(table.times.rates) != set(table.rates):
        yield "the table of times (-P) is damaged or has other rows than that of the rates"
        return
    lasted = launch.lasted
    differ = () < version < (3, 3) or bool(options and {"W", "x"} & set(options.values))
    for name, rate in table.rates.items():
        time = table.times.rates[name]
        values = f"{name}: {rate.minimum:.3f} to {rate.maximum:.3f} ops/s, {time.minimum:.3f} to {time.maximum:.3f} s"
        slow = not name.startswith("Tree") and rate.mean < 1 and time.mean > 60
        if rate.maximum == 0 and time.maximum and name.startswith("Tree") and time.minimum * _HALF > 1:
            continue  # slower than the digits of a rate
        if rate.maximum == 0 and time.maximum:
            yield f"{values}: a time without a rate"
        elif lasted is not None and time.maximum > lasted + 2:
            yield f"{values}: longer than the whole run"
        elif lasted is None and slow:
            yield f"{values}: rates and times may be exchanged"
        elif rate.maximum and not differ:
            pairs = ((rate.maximum, time.minimum), (rate.minimum, time.maximum))
            least = max(max(0, one - _HALF) * max(0, other - _HALF) for one, other in pairs)
            most = min((one + _HALF) * (other + _HALF) for one, other in pairs)
            items = _items(name, table, options)
            if least > most or (items is not None and not least <= items <= most):
                yield f"{values}: rate and time do not belong together"


def longer_than_all(launch: Launch, table: Table, options: Options | None) -> Iterator[str]:
    """Where the rates would have taken longer than the whole run by its dates, which are of whole seconds."""
    if launch.lasted is None or (options and {"W", "x"} & set(options.values)):
        return
    rows = [(_items(name, table, options), rate.maximum) for name, rate in table.rates.items()]
    timed_s = table.iterations * sum(items / maximum for items, maximum in rows if items and maximum)
    if wrong := wall_clock.fast(timed_s, launch.lasted, 2.0):
        yield wrong


def _items(name: str, table: Table, options: Options | None) -> int | None:
    """All items of an operation, where the count before the table is just that."""
    family, _, step = name.partition(" ")
    kinds = {"File": ("files", "files/directories"), "Directory": ("directories", "files/directories")}
    if not table.count or not options or {"I", "z", "b"} & set(options.values) or step == "rename":
        return None
    return table.count[1] if table.count[2] in kinds.get(family, ()) else None


def _counts(launch: Launch, table: Table) -> Iterator[str]:
    if launch.banner:
        _, tasks, nodes = launch.banner
        if not 0 < nodes <= tasks:
            yield f"mdtest cannot have run as {tasks} tasks on {nodes} nodes"
    if table.count and not table.count[0]:
        yield f"the output counts 0 tasks ({table.count[1]} {table.count[2]})"


def problems_of(
    launch: Launch, table: Table | None, version: tuple[int, ...], options: Options | None, signs: Sequence[str]
) -> Iterator[str]:
    """What is wrong with a launch and its table of rates, without the figures themselves.

    `signs`: what the launch's lines say, which is the same for all its tables.
    """
    if (launch.started or launch.banner) and not launch.finished:
        yield _CUT
    if launch.finished and not launch.headed:
        yield "the output is cut: its beginning is missing"
    yield from signs
    if table is None:
        timed = any(other.kind == "time" for other in launch.tables)
        yield "the output has times only (-Z), no rates" if timed else "there is no table of results (SUMMARY)"
        return
    if launch.count:
        yield "a table of results is missing after the last count of tasks"
    if (launch.started or launch.banner) and not table.count:
        yield "the line that counts tasks and files is missing before the table"
    if (launch.started or launch.banner or table.count) and not launch.command:
        yield "the line 'Command line used' is missing"  # it tells what a table means; a table alone is taken as it is
    yield from table.problems
    if version and version < (1, 9):
        yield "mdtest before 1.9 is not read"
    if table.unit not in ("", "ops/sec"):
        yield f"the rates are in {quote(table.unit)}, which no known version prints"
    if table.iterations < 1:
        yield "the table is over no iteration"
    asked_for = None if options is None else options.number("i") if "i" in options.values else 1
    if asked_for is not None and asked_for != table.iterations:
        yield f"the table is over {table.iterations} iterations, and the command line asks for {asked_for}"
    yield from _counts(launch, table)
    yield from _missing(table, version, options)
    if options and (options.number("W") or 0) and any(name.startswith("Directory") for name in table.rates):
        yield "with -W mdtest counts directories that it did not create"  # directory_test keeps the number of -n
    if launch.banner and table.count and options and not {"f", "l", "s"} & set(options.values):
        tasks, items, what = table.count
        each = options.number("n") if "n" in options.values else 0
        plain = each is not None and what != "file" and not {"I", "z", "b"} & set(options.values)
        if tasks != launch.banner[1] or (plain and items != tasks * (each or 0)):
            yield f"the count of tasks and files ({tasks} tasks, {items} {what}) is not that of the command line"
