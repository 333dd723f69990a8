"""Names of tools, phases, values of axes and conditions; titles of y axes (those of x axes are in `Option`). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from iosweep.analysis.aggregate import Result, of_points
from iosweep.analysis.data import Campaign, Value
from iosweep.analysis.formats import size
from iosweep.plan import contests
from iosweep.plan.contests import Conditions as Conditions
from iosweep.text import human_count
from iosweep.tools import parameters, phases, tools


def parameter(column: str, value: Value | None) -> str:
    """A parameter's value alone, for a legend or a cell."""
    option = parameters()[column]
    if value is None:
        return "–"
    if option.labels and not isinstance(value, float) and value in option.labels:
        return option.labels[value]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if option.kind == "size":
        return size(value)
    return f"{value:g} {option.unit}" if option.unit else str(value)


def named(column: str, value: Value | None) -> str:
    """A parameter's value that says what it is: `8 threads per node`, `64 KiB`, `queue depth 16`."""
    if column == "other_options":
        return str(value or "")
    option, text = parameters()[column], parameter(column, value)
    if value is None:
        return f"{option.shown} not known"
    if option.singular:
        return f"{text} {option.singular if value == 1 else option.shown}"
    if option.labels is not None:
        return text
    return option.zero if option.zero and value == 0 else f"{option.shown} {text}"


def brief(result: Result, nodes: bool = True, one: bool = False) -> str:
    """Where a figure was measured, as storage engineers say it: `2 nodes × 8 threads, 1 MiB, QD 4`.

    It names whatever the best of several may differ in: `4 ranks, 1 MiB, shared file, MPI-IO`. `nodes`: with their
    number; `one`: where that is 1, too.
    """
    own, parts = result.parameters, []
    if (threads := result.count("threads_per_node")) is not None:
        parts.append(human_count(threads, "rank" if is_mpi(result.tool) else "thread"))
    if nodes and (one or result.nodes > 1) and own["nodes"] is not None:
        parts = [" × ".join([named("nodes", result.nodes), *parts])]
    options = tools()[result.tool].options if result.tool in tools() else {}
    for column, option in parameters().items():
        option = options.get(option.name, option)
        if column in ("nodes", "threads_per_node") or own[column] is None or option.brief == "":
            continue
        if option.brief is None:
            parts += [named(column, own[column])] if applies(column, own) else []
        else:
            zero = option.zero and own[column] == 0
            parts.append(option.zero if zero else option.brief.format(parameter(column, own[column])))
    return ", ".join(parts)


def applies(column: str, values: Mapping[str, Value | None]) -> bool:
    """Whether a parameter that has a value also has an effect: only MPI-IO knows collective calls."""
    needed = parameters()[column].only_with
    return needed is None or values[needed[0]] == needed[1]


def is_mpi(tool: str) -> bool:
    """Whether its threads are MPI ranks, and are called so in few words."""
    return tool in tools() and tools()[tool].mpi


def phase(name: str) -> str:
    """Title of a phase."""
    known = phases().get(name)
    return known.title or name if known else name


def phase_list(names: Iterable[str]) -> str:
    """Titles of phases as the beginning of a sentence."""
    return ", ".join(map(phase, names)).capitalize()


def tool(name: str) -> str:
    """Title of a tool."""
    return tools()[name].title or name if name in tools() else name


def program(name: str, printed: str) -> str:
    """A tool with its version: `fio 3.33`, `IOR 4.0.0`."""
    return f"{tool(name)} {version(name, printed)}"


def version(name: str, printed: str) -> str:
    """The version alone; some tools print their name with it, as in `fio-3.33`."""
    return printed.removeprefix(f"{name}-")


def conditions(results: Sequence[Result]) -> dict[str, Conditions]:
    """Point -> its conditions. They belong to the point: a phase that does not write has no write mode of its own."""
    return {r.point: contests.conditions(r.tool, r.parameters) for r in of_points(results)}


def home(condition: Conditions, known: Iterable[Conditions]) -> Conditions:
    """The conditions that a figure is shown under: reads stand beside writes where these were made in one way."""
    more = [
        other
        for other in known
        if other != condition and all(own in (None, its) for own, its in zip(condition, other, strict=True))
    ]
    return more[0] if len(more) == 1 else condition


def describe(condition: Conditions, kind: str, drawn: Iterable[str] = ()) -> str:
    """Conditions as text: `fio, O_DIRECT, overwrite, random data`.

    drawn: phases that they stand above, so that nothing is said of writes above reads alone; above both it is
    `fio, O_DIRECT; writes: overwrite, random data`.
    """
    applying = {contests.of_phase(condition, phase) for phase in drawn} or {condition}
    least, *more = sorted((_words(own) for own in applying), key=len)
    if kind == "metadata" and condition.tool in tools() and tools()[condition.tool].own_metadata:
        return tools()[condition.tool].own_metadata
    own = [word for words in more for word in words if word not in least]
    return ", ".join(least) + (f"; writes: {', '.join(own)}" if own else "")


def _words(condition: Conditions) -> list[str]:
    name = tool(condition.tool)
    words: dict[object, str] = {"new": "new files", "random": "random data", "tool_default": f"{name}'s own data"}
    direct = {True: "O_DIRECT", False: "through the page cache", contests.NOT_TOLD: "O_DIRECT not told"}
    flushed = {False: "not flushed", contests.NOT_TOLD: "flush not told"}
    told = [
        direct.get(condition.o_direct),
        *(words.get(value, value) for value in (condition.write_mode, condition.data)),
        flushed.get(condition.fsync),
        condition.other_options or None,
    ]
    return [name, *(str(word) for word in told if word is not None)]


def origin(campaign: Campaign) -> str:
    """`Campaign demo on /mnt/scratch (ext4), measured 2025-06-02 to 2025-06-03 (UTC).`"""
    measured = [row for row in campaign.rows if row.started]
    types = ", ".join(sorted({row.target_fstype for row in measured if row.target_fstype}))
    days = sorted({f"{row.started:%Y-%m-%d}" for row in measured})
    when = f", measured {' to '.join(dict.fromkeys((days[0], days[-1])))} (UTC)" if days else ""
    about = campaign.about
    return f"Campaign {about.campaign} on {about.target.directory}{f' ({types})' if types else ''}{when}."


def axes_text(axes: Mapping[str, Sequence[Value]]) -> str:
    """The axes of a sweep with their values: `threads per node 1, 2; transfer size 4 KiB, 1 MiB`."""
    options, parts = {option.name: column for column, option in parameters().items()}, []
    for axis, values in axes.items():
        column = options[axis]
        title = "" if parameters()[column].labels else parameters()[column].shown
        parts.append(f"{title} {', '.join(parameter(column, value) for value in values)}".lstrip())
    return "; ".join(parts)


def y_title(quantity: str, unit: str, log: bool) -> str:
    """Title of a vertical axis. IOPS is its own unit."""
    return unit if quantity == "IOPS" else f"{quantity} ({unit}{', logarithmic' if log else ''})"
