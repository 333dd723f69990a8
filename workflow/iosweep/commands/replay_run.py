"""A stored point measured again on this machine, by the runner, in a campaign of its own, and compared."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import load
from iosweep.commands import campaigns, report
from iosweep.commands.replay_script import joined
from iosweep.commands.rules import measure
from iosweep.commands.terminal import say
from iosweep.errors import CommandError, ExitCode
from iosweep.files import safe_paths
from iosweep.jobs import at_work
from iosweep.plan import forecast
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Plan, Point
from iosweep.plan.replaying import renamed, replay, trusted
from iosweep.results import statistics
from iosweep.results.campaign_documents import FILES, ClaimedTarget
from iosweep.results.record import Record
from iosweep.results.store import Store
from iosweep.run.repetition import tool_commands
from iosweep.target import marker
from iosweep.text import human_count, printable
from iosweep.units import human_size

#: An interval that reaches further from the ratio than this factor shows nothing.
_WIDEST = 3.0


def again(arguments: Namespace, store: Store, plan: Plan, point: Point, record: Record) -> int:
    """Measure the point again; compare it with what is stored. Returns the exit code; raises CommandError."""
    phases = [arguments.phase] if arguments.phase else list(point.phases)
    foreign = is_foreign(store.path)
    directory = str(Path(arguments.target or plan.target.directory).absolute())
    made = replay(trusted(plan) if foreign else plan, point, phases, directory, arguments.repetitions)
    made = _unmeasured(made)
    if foreign and not arguments.yes:
        for line in asked(made):
            say(line)
        raise CommandError(
            f"{store.path.name} was measured elsewhere (an archive, or results without {_CLAIM}): nothing was run;"
            " --yes runs what is listed above, --target DIR on another target"
        )
    results = campaigns.RESULTS / made.campaign
    if (holder := at_work.holds(results)) and holder.alive:
        why = f"{made.campaign} is being measured by {holder.text}: wait until it has ended"
        raise CommandError(f"{why}; the same command then measures {point.id} once more", ExitCode.REFUSED)
    if code := _measure(made, results, record):
        return code
    return _compare(made, results, store, record)


_CLAIM = f"{FILES[ClaimedTarget]}.json"


def is_foreign(results: Path) -> bool:
    """Whether results came from another machine, as far as that can be seen: target.json stays where it was made."""
    return campaigns.is_unpacked(results) or not (results / _CLAIM).is_file()


def _unmeasured(made: Plan) -> Plan:
    """The plan under the first name whose campaign is not complete; one that was interrupted goes on."""
    number, named = 1, made
    while (campaigns.RESULTS / named.campaign / "results.parquet").exists():
        number += 1
        named = renamed(made, number)
    return named


def asked(made: Plan) -> Iterator[str]:
    """What a replay would do: for whoever has to allow it."""
    (point,) = made.points
    directory = marker.directory_of(made.target.directory, made.campaign)
    space = human_size(forecast.of(made).peak_bytes)
    yield f"{point.id}: {human_count(point.repetitions.last, 'repetition')} on this machine, {space} below {directory}"
    if made.target.layout:
        yield f"  striping of that directory: {joined(made.target.layout)}"
    for step in point.steps():
        for argv in tool_commands(made, point, step, 1, directory):
            yield f"  {joined(argv)}"


def _measure(made: Plan, results: Path, record: Record) -> int:
    """Measure, and make the tables. Nothing is left where nothing was measured."""
    before = os.path.lexists(results)
    file, name = f"plans/{made.digest}.json", made.allocations[0].name
    safe_paths.write(results, file, made.document())
    launcher = record.launcher.name if record.launcher and record.launcher.name in LAUNCHERS else "direct"
    code = measure.run(
        Namespace(
            command="measure",
            plan=results / file,
            allocation=name,
            manifest=results / "manifests" / f"{name}.jsonl",
            own_log=results / "logs" / f"{name}.log",
            launcher=launcher,
            scheduler=None,
            only=None,
            tools=None,
            works_for=None,
        )
    )
    if not code:
        report.make_tables(results / file, results)
        return 0
    if (holder := at_work.holds(results)) and holder.alive is not False:
        return code  # another run has begun it in the meantime: its files are not for removal
    if (results / _CLAIM).exists():
        more = "the same command goes on there; " if code == ExitCode.INTERRUPTED else ""
        clean = f"`iosweep clean {made.campaign} --yes` removes its files from the target"
        say(f"iosweep: {made.campaign} is not complete: {more}{clean}", file=sys.stderr)
    elif not before and not Store(results).results():
        with safe_paths.folder(campaigns.RESULTS) as place:
            place.remove_tree(results.name)
    return code


def _compare(made: Plan, results: Path, store: Store, record: Record) -> int:
    """Print the comparison; returns 1 where a phase has no figure now."""
    (point,) = made.points
    now, then = _results(results, point.id), _results(store.path, point.id)
    say(f"{point.id}: measured again as {made.campaign}, {results}")
    for phase in point.phases:
        say(f"  {compared(now.get(phase), then.get(phase), phase)}")
    found = next((own for _, own in Store(results).records_of(point.id)), None)
    for line in changed(record, found) if found else ():
        say(f"  {line}")
    return int(any(phase not in now or now[phase].headline is None for phase in point.phases))


def changed(then: Record, now: Record) -> Iterator[str]:
    """What is not as it was, and may be why a figure is another. Pure."""
    if then.host != now.host:
        yield f"another node: {printable(then.host)} then, {now.host} now"
    if then.target.directory != now.target.directory:
        yield f"another target: {printable(then.target.directory)} then, {now.target.directory} now"
    if then.tool.sha256 != now.tool.sha256:
        builds = [f"{printable(one.version)} (sha256 {printable(one.sha256[:12])})" for one in (then.tool, now.tool)]
        yield f"another build of the tool: {builds[0]} then, {builds[1]} now"


def _results(results: Path, point: str) -> dict[str, Result]:
    """Phase -> its result, of one point; none where there are no tables."""
    try:
        return {one.phase: one for one in summarize(load(results).rows) if one.point == point}
    except FileNotFoundError:
        return {}


def compared(now: Result | None, then: Result | None, phase: str) -> str:
    """A sentence on a phase that was measured again. Pure."""
    name = titles.phase(phase)
    if now is None or now.headline is None:
        return f"{name}: no figure ({'; '.join(now.reasons) if now else 'not measured'})"
    units = formats.units_of(now.metric, now.kind)
    figure = formats.quantity(now.headline.mean, units)
    if then is None or then.headline is None:
        return f"{name}: {figure} now; there is no figure in the tables to compare it with"
    figures = f"{figure} now ({now.verdict}), {formats.quantity(then.headline.mean, units)} then ({then.verdict})"
    found = statistics.ratio(now.headline.values, then.headline.values)
    if found is None:
        return f"{name}: {figures}: too few repetitions for an interval"
    if found.high > _WIDEST * found.center:
        return f"{name}: {figures}: repetitions are too few, or differ too much, to show a difference"
    share = f"{found.center:.3g} times as much (95 %: {found.low:.3g} to {found.high:.3g})"
    return f"{name}: {figures}: {share}, {'another figure' if found.excludes(1.0) else 'no difference can be shown'}"


def unable(point: Point, record: Record) -> Sequence[str]:
    """Why this machine alone cannot measure a point again; empty where it can. Pure."""
    where = [human_count(point.nodes, "node")] if point.nodes > 1 else []
    return [*where, *(["a job of Slurm"] if record.slurm else [])]
