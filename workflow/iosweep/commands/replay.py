"""`iosweep replay`: the command of a stored point for a shell; with --run, the point measured again, and compared."""

from __future__ import annotations

import shlex
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from iosweep.analysis import formats, titles
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import load
from iosweep.commands import campaigns, outcome, report
from iosweep.commands.rules import measure
from iosweep.commands.terminal import say
from iosweep.errors import CommandError
from iosweep.files import safe_paths
from iosweep.plan.launchers import LAUNCHERS
from iosweep.plan.model import Plan, Point, file_set, plan_files, read_plan
from iosweep.plan.replaying import replay
from iosweep.results import statistics
from iosweep.results.campaign_documents import DataSet
from iosweep.results.record import PhaseRun, Record
from iosweep.results.store import Store
from iosweep.target import marker
from iosweep.text import human_count, printable
from iosweep.units import human_size

#: Repetitions of --run: as many as an interval needs.
_REPETITIONS = 3


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("point", help="id of a point; the hash at its end may be left out if one point fits")
    parser.add_argument(
        "campaign", nargs="?", help=f"{campaigns.NAMED_OR_ARCHIVE}; default: the one in results/ that has the point"
    )
    parser.add_argument("--phase", help="only this phase")
    parser.add_argument("--repetition", type=int, metavar="N", help="the repetition; default: the first one stored")
    parser.add_argument(
        "--run",
        dest="again",
        action="store_true",
        help="measure the point again, in a campaign of its own, and compare",
    )
    parser.add_argument("--target", metavar="DIR", help="with --run: the target; default: that of the campaign")
    parser.add_argument(
        "--repetitions", type=int, metavar="N", default=_REPETITIONS, help=f"with --run; default: {_REPETITIONS}"
    )


def run(arguments: Namespace) -> int:
    if arguments.repetitions < 1:
        arguments.refuse("--repetitions: at least 1")
    found = campaigns.find(arguments.campaign) if arguments.campaign else None
    if arguments.campaign and found is None:
        return 1
    if found:
        campaigns.refuse_ingested(found, "their commands, as far as they tell them, are in the column `command`")
    store, name = _stored(arguments.point, [found] if found else campaigns.known())
    results = store.results_of(name)
    number = arguments.repetition or min(results)
    if number not in results:
        there = ", ".join(map(str, sorted(results)))
        raise CommandError(f"{name} has no repetition {number} (there are: {there})")
    record = next(own for result, own in store.records_of(name) if result.repetition == number)
    plan, point = _planned(store, name)
    if arguments.phase and arguments.phase not in point.phases:
        arguments.refuse(f"--phase {arguments.phase}: the point has {', '.join(point.phases)}")
    if arguments.again:
        return _again(arguments, store, plan, point, record)
    for line in shown(store, point, record, arguments.phase):
        say(line)
    return 0


def _stored(wanted: str, found: Sequence[Path]) -> tuple[Store, str]:
    """The store and the id of the one point that a name fits. Raises CommandError."""
    stores = [Store(path) for path in found]
    fits = campaigns.points_named(wanted, [(store, point) for store in stores for point in store.results()])
    if len(fits) != 1:
        several = "; ".join(sorted(f"{point} in {store.path}" for store, point in fits)[:5])
        raise CommandError(f"{wanted}: {f'is not one point: {several}' if fits else 'has no result'}")
    return fits[0]


def _planned(store: Store, name: str) -> tuple[Plan, Point]:
    """The newest plan with the point. Raises CommandError."""
    if lost := outcome.no_plan(store.path):
        raise CommandError(lost)
    for file in reversed(plan_files(store.path)):
        plan = read_plan(file)
        if point := next((one for one in plan.points if one.id == name), None):
            return plan, point
    raise CommandError(f"no plan of {store.path} has {name}, which an earlier configuration asked for")


def shown(store: Store, point: Point, record: Record, phase: str | None) -> Iterator[str]:
    """The lines of a script: of each phase what it needs, as comments, and its command."""
    where = f"on {formats.hosts(record.hosts or (record.host,))}"
    yield _comment(
        f"{point.id}, repetition {record.repetition} of {store.path.name}, {record.started:%F %H:%M %Z} {where}"
    )
    build = f"{record.tool.path or point.tool} {record.tool.version}, sha256 {record.tool.sha256}"
    yield _comment(f"measured with {build}")
    steps = {step.name: step for step in point.steps()}
    for run in dict.fromkeys(
        run.phase if run.phase in steps else point.steps()[0].name
        for run in record.phases
        if phase in (None, run.phase)
    ):
        own = next(one for one in record.phases if one.phase == run or run == point.steps()[0].name)
        yield ""
        yield from _needs(store, point, record, own, run)
        yield from _commands(record, own)


def _needs(store: Store, point: Point, record: Record, run: PhaseRun, step_name: str) -> Iterator[str]:
    step = next(one for one in point.steps() if one.name == step_name)
    files = file_set(point, step, record.repetition)
    directory = f"{record.target.directory}/{marker.name_of(record.campaign)}/{files.directory}"
    yield _comment(f"{', '.join(one.name for one in step.phases)}: {_figure(run)}{run.wall_s:.3g} s")
    kinds = {
        "read": "complete files that are only read",
        "write": "complete files that are written over",
        "fresh": "an empty directory, which the phases before it in this list fill",
    }
    size = f"{human_count(run.files.files, 'file')} of {human_size(run.files.file_size_bytes)}, " * bool(
        run.files.files
    )
    yield _comment(f"needs {directory}: {size}{kinds[files.role]}")
    prepared = store.documents(DataSet).get(files.directory.replace("/", "."))
    if prepared and prepared.argv:
        yield "# they were written by"
        yield _comment(f"  {shlex.join(prepared.argv)}")
    yield f'mkdir -p {shlex.quote(directory)} && cd "$(mktemp -d)"'


def _comment(text: str) -> str:
    """A line that a shell skips: stored text may come from others, and what is behind its line break would be run."""
    return f"# {printable(text)}"


def _figure(run: PhaseRun) -> str:
    return f"{run.verdict}, headline {run.headline:.6g} in SI units, " if run.headline is not None else ""


def _commands(record: Record, run: PhaseRun) -> Iterator[str]:
    """The commands of a phase, each on the CPUs and with the environment that it had."""
    node = run.cpus.nodes[0] if run.cpus and run.cpus.nodes else None
    cpus = ",".join(run.cpus.planned) if run.cpus and run.cpus.planned else node.usable if node else ""
    bound = ["taskset", "--cpu-list", cpus] if cpus else []
    variables = [f"{name}={value}" for name, value in record.environment.items()]
    for number, argv in enumerate(run.argvs or (run.argv,)):
        if run.argvs:
            yield _comment(_place(record.hosts, len(run.argvs), number))
        parts = [shlex.join([*bound, "env", *variables]), *map(shlex.quote, argv)]
        yield " \\\n    ".join(parts)


def _place(hosts: Sequence[str], commands: int, number: int) -> str:
    """Where one of several commands runs: one on each host, or before these a client of theirs on the first."""
    if commands > len(hosts):
        return f"on {hosts[number - 1]}, a server" if number else f"on {hosts[0]}, the client, after the servers"
    return f"on {hosts[number]}, at the same time as the others"


def _again(arguments: Namespace, store: Store, plan: Plan, point: Point, record: Record) -> int:
    """Measure the point again, by the runner, in a campaign of its own; compare it with what is stored."""
    if point.nodes > 1 or record.slurm:
        raise CommandError(
            f"--run measures on this machine, and {point.id} ran on {human_count(point.nodes, 'node')}"
            f"{' in a job of Slurm' if record.slurm else ''}: `iosweep rerun {point.id}` and snakemake measure it there"
        )
    phases = [arguments.phase] if arguments.phase else list(point.phases)
    directory = str(Path(arguments.target).absolute()) if arguments.target else plan.target.directory
    made = replay(plan, point, phases, directory, arguments.repetitions)
    results = campaigns.RESULTS / made.campaign
    file = f"plans/{made.digest}.json"
    safe_paths.write(results, file, made.document())
    name = made.allocations[0].name
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
    if code:
        return code
    report.make_tables(results / file, results)
    now, then = _results(results, point.id), _results(store.path, point.id)
    say(f"{point.id}: measured again as {made.campaign}, {results}")
    for phase in phases:
        say(f"  {compared(now.get(phase), then.get(phase), phase)}")
    again = next((own for _, own in Store(results).records_of(point.id)), None)
    if again and again.tool.sha256 != record.tool.sha256:
        say(f"  {point.tool} is another build now: {record.tool.version} then, {again.tool.version} now", sys.stderr)
    return 0


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
    sentence = f"{name}: {figure} now ({now.verdict}), {formats.quantity(then.headline.mean, units)} then"
    found = statistics.ratio(now.headline.values, then.headline.values)
    if found is None:
        return f"{sentence}: too few repetitions for an interval"
    share = f"{found.center:.3g} times as much (95 %: {found.low:.3g} to {found.high:.3g})"
    return f"{sentence}: {share}, {'another figure' if found.excludes(1.0) else 'no difference that can be told'}"
