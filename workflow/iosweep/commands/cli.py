"""`iosweep`: what is not a DAG. Thin: arguments in, the package's functions, text out."""

from __future__ import annotations

import argparse
import contextlib
import errno
import io
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import orjson

import iosweep
from iosweep.plan.model import plan_files, read_plan

RESULTS = Path("results")
CONFIG = Path("config/sweep.yaml")
PROFILE = Path("profiles/slurm")


class _Unmade(Exception):
    """Tables, a report or figures cannot be made; the message is for the user."""


def main(argv: list[str] | None = None) -> int:
    """Exit codes: 0 done, 1 wrong configuration or problems found, 2 usage; of `measure`: errors.ExitCode."""
    arguments = _parser().parse_args(argv)
    arguments.whole_process = argv is None
    try:
        return _run(arguments)
    except BrokenPipeError:  # a pager was left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: argparse.Namespace) -> int:
    from iosweep.errors import ConfigError
    from iosweep.files import documents
    from iosweep.files.documents import Damaged

    with _watched(arguments), contextlib.ExitStack() as stack:
        try:
            stack.enter_context(_log(arguments))
        except OSError as error:
            print(f"iosweep: no log can be written: {error.filename} is {error.strerror}", file=sys.stderr)
            return 1
        try:
            return int(arguments.run(arguments) or 0)
        except ConfigError as error:
            print(error, file=sys.stderr)
            print(
                f"{len(error.problems)} problem{'s' if len(error.problems) > 1 else ''}; nothing was run",
                file=sys.stderr,
            )
        except _Unmade as error:
            print(f"iosweep: {error}", file=sys.stderr)
        except Damaged as error:
            cure = documents.cure(error.path)
            if arguments.run is _show:
                from iosweep.commands import outcome

                lost = outcome.no_plan(_campaign(arguments.campaign) or Path(arguments.campaign))
                again = f"`iosweep report {arguments.campaign}` makes the tables and the report again"
                cure = f"; {lost or again}"
            print(f"iosweep: {error}{cure}", file=sys.stderr)
    return 1


def _watched(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """Say where the results' file system does not answer. Not where another program has called us."""
    from iosweep.files import hanging

    places: list[Path] = []
    if plan := getattr(arguments, "plan", None):
        places = [plan.parent.parent]
    elif results := getattr(arguments, "results", None):
        places = [results]
    elif arguments.run in (_show, _check, _list, _watch, _report, _rerun, _clean):
        names = getattr(arguments, "campaign", None) or []
        names = [names] if isinstance(names, str) else names
        places = [RESULTS, *(RESULTS / name for name in names), *(Path(name) for name in names)]
    return hanging.watched(places) if places and arguments.whole_process else contextlib.nullcontext()


def _log(arguments: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """The log of a rule's command, but that of `measure`, which is written by its display."""
    from iosweep.files.logged import logged

    log = None if hasattr(arguments, "allocation") else getattr(arguments, "log", None)
    return logged(log, log.parent.parent) if log else contextlib.nullcontext()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iosweep",
        description="Plan a campaign, show its results, make its report again, open points for another run."
        " Campaigns are measured by snakemake.",
    )
    parser.add_argument("--version", action="version", version=f"iosweep {iosweep.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(run: Any, doc: str, hidden: bool = False) -> argparse.ArgumentParser:
        name = run.__name__.strip("_")
        # a command without `help` does not stand in the list
        sub = (
            commands.add_parser(name, description=doc)
            if hidden
            else commands.add_parser(name, help=doc, description=doc)
        )
        sub.set_defaults(run=run)
        return sub

    def given(sub: argparse.ArgumentParser) -> None:
        sub.add_argument("--campaign", metavar="NAME", help="in place of the configuration's campaign")
        sub.add_argument("--target", metavar="DIR", help="in place of the configuration's target.directory")

    sub = command(_plan, "what a configuration will do, and what it takes")
    sub.add_argument("config", nargs="?", type=Path, default=CONFIG, help=f"default: {CONFIG}")
    form = sub.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="the whole plan and its forecast as JSON")
    form.add_argument("--csv", action="store_true", help="one line per point")
    form.add_argument("--commands", action="store_true", help="the exact command of every phase of every point")
    sub.add_argument("--profile", type=Path, metavar="DIR", help="where it will run, for example profiles/slurm")
    names = ("direct", "mpiexec", "srun", "srun-pmix")
    sub.add_argument("--launcher", choices=names, help="default: that of the profile, or mpiexec")
    form.add_argument("--write", type=Path, metavar="FILE", help=argparse.SUPPRESS)
    sub.add_argument("--log", type=Path, help=argparse.SUPPRESS)
    given(sub)

    named = "its name, or the path of its results"
    sub = command(_show, "the headline table of a campaign, or every result of it")
    sub.add_argument("campaign", help=named)
    form = sub.add_mutually_exclusive_group()
    form.add_argument("--all", action="store_true", help="every point and phase, with its reasons")
    form.add_argument("--json", action="store_true", help="the same as JSON, with all statistics")
    form.add_argument("--csv", action="store_true", help="one line per point and phase")
    sub.add_argument("--strict", action="store_true", help="exit with 1 where `iosweep check` does")

    sub = command(_check, "whether all of a campaign has valid or suspect results; exits with 1 if not")
    sub.add_argument("campaign", nargs="+", help=named)
    sub.add_argument("--suspect", action="store_true", help="exit with 1 for suspect results, too")

    sub = command(_list, f"the campaigns in {RESULTS}/: target, when they were measured, verdicts, what is left")
    sub.add_argument("--json", action="store_true", help="the same as JSON")

    sub = command(_watch, "how far a campaign is, while its jobs wait and run")
    sub.add_argument("campaign", help=named)
    form = sub.add_mutually_exclusive_group()
    form.add_argument("--once", action="store_true", help="print it once, also on a terminal")
    form.add_argument("--json", action="store_true", help="once, as JSON")

    sub = command(_report, "make the tables and the report of a campaign from what is stored")
    sub.add_argument("campaign", help=named)

    sub = command(_parse, "what files of fio, ior or mdtest say, as JSON")
    sub.add_argument("tool", help="the tool that wrote them: fio, ior, mdtest")
    sub.add_argument("file", nargs="+", type=Path, help="its output, text, JSON or CSV, or -; each is a run of its own")
    sub.add_argument("--one-run", action="store_true", help="the files are outputs of one run: judge them together")
    sub.add_argument("--exit-code", type=int, metavar="N", help="what the tool ended with; 0 alone proves nothing")

    sub = command(_rerun, "measure points again; their results are kept as superseded")
    sub.set_defaults(refuse=sub.error)
    sub.add_argument("point", nargs="*", help="id of a point; without its hash where that is clear")
    sub.add_argument(
        "--missing", action="store_true", help="those that something was lacking for: a tool, a launcher, CPUs"
    )
    for verdict in ("suspect", "invalid"):
        sub.add_argument(f"--{verdict}", action="store_true", help=f"repetitions with a {verdict} result")
    where = "repetitions whose row in the tables has this value, for example phase=create or transfer_size=4k,1m;"
    where += " may be given several times: all must hold, also with --suspect or --invalid"
    sub.add_argument("--where", action="append", metavar="NAME=VALUE", default=[], help=where)
    sub.add_argument("--campaign", help="where to look; default: all in results/")

    sub = command(_clean, "show what campaigns have left on the target, and remove it if told; no result is touched")
    sub.add_argument("campaign", nargs="+", help=named)
    sub.add_argument("--yes", action="store_true", help="remove it; without this it is only shown")
    sub.add_argument("--time", type=_duration, metavar="TIME", help="stop after so long, for example 10min")
    sub.add_argument("--workers", type=_workers, metavar="N", default=8, help="files removed at a time; default: 8")

    doc = "what would be wrong here: with the CPUs of this node, or of an allocation; with a cluster (--slurm)"
    sub = command(_doctor, doc)
    sub.set_defaults(refuse=sub.error)
    sub.add_argument("--slurm", action="store_true", help="from a login node: the profile, Slurm, and the nodes")
    sub.add_argument("--profile", type=Path, metavar="DIR", help=f"with --slurm; default: {PROFILE}")
    sub.add_argument("--configfile", type=Path, metavar="FILE", help=f"default: {CONFIG}, if it is there")
    wait = "with --slurm: for free nodes, for example 10min; default: 20s"
    sub.add_argument("--wait", type=_duration, metavar="TIME", help=wait)
    sub.add_argument("--json", action="store_true", help="the same as JSON")

    doc = "what tools are built, or found; or carry all that building them takes to a cluster without a network"
    parts = command(_tools, doc).add_subparsers(metavar="WHAT", required=True)
    sub = parts.add_parser("list", help="the tools that are there")
    sub.set_defaults(what=_tools_list)
    sub.add_argument("--configfile", type=Path, metavar="FILE", default=CONFIG, help=f"default: {CONFIG}")
    sub.add_argument("--provider", choices=("spack", "path"), help=argparse.SUPPRESS)
    sub = parts.add_parser("mirror", help="fetch all that building them takes, for tools.mirror")
    sub.set_defaults(what=_tools_mirror)
    sub.add_argument("directory", type=Path, metavar="DIR")
    sub.add_argument("--configfile", type=Path, metavar="FILE", default=CONFIG, help=f"default: {CONFIG}")
    sub = parts.add_parser("build")  # what the rule calls
    sub.set_defaults(what=_tools_build)
    sub.add_argument("configfile", type=Path)
    sub.add_argument("--write", type=Path, required=True, metavar="FILE")
    sub.add_argument("--scheduler", choices=("slurm",))
    sub.add_argument("--works-for", type=int, metavar="PID")
    given(sub)

    sub = command(_generate, "the schema and the generated parts of the documentation")
    sub.add_argument("--check", action="store_true", help="change nothing; exit code 1 if something is out of date")

    # what the rules call
    for measures, doc in ((_measure, "measure what is left of an allocation"), (_collect, "write what it handed over")):
        sub = command(measures, doc, hidden=True)
        sub.add_argument("plan", type=Path)
        sub.add_argument("--allocation", required=True)
        sub.add_argument("--manifest", type=Path, required=True)
        sub.add_argument("--log", type=Path, required=True)
        sub.add_argument("--launcher", default="direct")
        sub.add_argument("--scheduler", choices=("slurm",))
        sub.add_argument("--only")
        sub.add_argument("--tools", type=Path, metavar="FILE", nargs="?", help="tools.json, in place of PATH")
        sub.add_argument("--works-for", type=int, metavar="PID", help="a process whose end ends the measurement")
    sub = command(_repair, "note that damaged tables are made again", hidden=True)
    sub.add_argument("file", type=Path)
    sub.add_argument("--log", type=Path)
    sub = command(_merge, "store to tables", hidden=True)
    sub.add_argument("plan", type=Path)
    sub.add_argument("--repair", type=Path, nargs="?")
    sub.add_argument("--log", type=Path)
    for makes, doc in ((_page, "tables to report"), (_figures, "tables to SVG and PNG")):
        sub = command(makes, doc, hidden=True)
        sub.add_argument("results", type=Path)
        sub.add_argument("--log", type=Path)
    return parser


def _plan(arguments: argparse.Namespace) -> int:
    from iosweep.commands import show_plan
    from iosweep.config import sweep_file
    from iosweep.errors import ConfigError, Problem
    from iosweep.jobs import profile, submission
    from iosweep.node import pinning
    from iosweep.plan import forecast
    from iosweep.plan.expand import make_plan
    from iosweep.results import safe_csv
    from iosweep.run import target_look
    from iosweep.tools import tools

    configured = sweep_file.read(arguments.config, _given(arguments))
    made = make_plan(configured)
    problems = forecast.over_limits(made, configured)
    if arguments.write and problems:
        raise ConfigError(problems)
    try:
        where = show_plan.where(profile.read(arguments.profile) if arguments.profile else None, arguments.launcher)
    except profile.Unreadable as error:
        print(error, file=sys.stderr)
        return 1
    if wrong := submission.open_port(made.points, where.launcher, os.geteuid()):
        problems.append(Problem(str(arguments.config), 1, "allow_open_port", wrong))
    if wrong := submission.working_directory(str(Path.cwd()), bool(where.site)):
        raise ConfigError([Problem(str(arguments.config), 1, "", wrong), *problems])
    if arguments.write:
        if arguments.write.stem != made.digest:
            print("the configuration changed meanwhile; run snakemake again", file=sys.stderr)
            return 1
        from iosweep.files import safe_paths

        results = arguments.write.parent.parent
        safe_paths.write(results, f"plans/{arguments.write.name}", made.document())
    elif arguments.json:
        document = {"plan": orjson.loads(made.content()), "forecast": asdict(forecast.of(made))}
        print(orjson.dumps(document, option=orjson.OPT_INDENT_2).decode())
    elif arguments.csv:
        safe_csv.write(sys.stdout, show_plan.CSV, show_plan.csv_rows(made))
    elif arguments.commands:
        lacks = {point.id: f": {lack}" for point in made.points if (lack := where.lacks(point))}
        each = {
            point.id: f" on each of {point.nodes} nodes, with another directory and another seed"
            for point in made.points
            if point.nodes > 1 and not tools()[point.tool].mpi
        }
        if pinning.mode(made.cpus, where.launcher.allocated) in pinning.BINDS:
            print(
                "# what binds ranks and workers to CPUs is added on the nodes, whose usable CPUs are not seen from here"
            )
        for point, repetition, argv in show_plan.commands(made, where.launcher):
            print(f"# {point} r{repetition}{lacks.get(point) or each.get(point, '')}\n{shlex.join(argv)}")
    else:
        provider = configured.tools.provider or (profile.read(arguments.profile).tools if arguments.profile else "path")
        missed = None if where.site else target_look.problem(configured)
        if missed and not where.told:
            missed = replace(missed, message=f"{missed.message} (On a cluster: --profile profiles/slurm.)")
        problems += [missed] if missed else []
        from_spack = show_plan.from_spack(configured) if provider == "spack" else None
        code = show_plan.table(made, where, from_spack, look=not missed)
        if not problems:
            return code
    if problems:  # below the plan, so that it is seen what takes so much
        raise ConfigError(problems)
    return 0


def _given(arguments: argparse.Namespace) -> dict[str, str]:
    """Values in place of those of the configuration."""
    values = {"campaign": arguments.campaign, "target": arguments.target}
    return {name: value for name, value in values.items() if value is not None}


def _show(arguments: argparse.Namespace) -> int:
    results = _campaign(arguments.campaign)
    if results is None:
        return _no_campaign(arguments.campaign)
    if not (results / "results.parquet").exists():
        print(f"{results} has no tables yet; `iosweep report {arguments.campaign}` makes them", file=sys.stderr)
        return 1
    _hide_pandas(arguments)
    from iosweep.commands.working import working

    form = next((name for name in ("all", "json", "csv") if getattr(arguments, name)), None)
    with working(f"reading {results} ..."):
        from iosweep.commands import listing, outcome
        from iosweep.commands.plain import Printer, prose
        from iosweep.report import headline

        table = "" if form else headline.table(results)
    if form:
        listing.show(results, form)
    else:
        printer = Printer()
        printer.print(table)
        if outcome.stale(results):
            prose(
                "repetitions were opened again or measured since these tables were made;"
                f" `iosweep report {arguments.campaign}` makes them anew"
            )
        if (results / "report.html").exists():
            printer.print(f"report: {results / 'report.html'}", soft_wrap=True)
        if last := headline.closing(results, arguments.campaign):
            prose(last)
    if not arguments.strict:
        return 0
    found = outcome.of(results)
    if found.fails():
        print(outcome.sentence(found), file=sys.stderr)
    return int(found.fails())


def _check(arguments: argparse.Namespace) -> int:
    _hide_pandas(arguments)
    from iosweep.commands import listing

    code = 0
    for name in arguments.campaign:
        results = _campaign(name)
        code = max(code, _no_campaign(name) if results is None else listing.check(results, arguments.suspect))
    return code


def _list(arguments: argparse.Namespace) -> int:
    _hide_pandas(arguments)
    from iosweep.commands import listing

    return listing.campaigns(_campaigns(), arguments.json)


def _watch(arguments: argparse.Namespace) -> int:
    from iosweep.commands.watch import screen

    # before the first run there is no plan yet
    begun = [path for path in (RESULTS / arguments.campaign, Path(arguments.campaign)) if path.is_dir()]
    results = _campaign(arguments.campaign) or next(iter(begun), None)
    return screen.watch(results, arguments.once, arguments.json) if results else _no_campaign(arguments.campaign)


def _report(arguments: argparse.Namespace) -> int:
    _hide_pandas(arguments)
    results = _campaign(arguments.campaign)
    plans = plan_files(results) if results else []
    if results is None or not plans:
        return _no_campaign(arguments.campaign)
    from iosweep.files import documents

    # the plan of the tables, not the one written last
    with contextlib.suppress(FileNotFoundError, documents.Damaged):
        digest = documents.read(results / "campaign.json").get("plan_digest")
        plans = [f for f in plans if f.stem == digest] or plans
    with _making("tables", results):
        from iosweep.results import merge

        merge.merge(read_plan(plans[-1]), results)
    with _making("report", results):
        from iosweep.report import page

        report = page.write(results)
    print(f"report: {report}")
    with _making("figures", results):
        from iosweep.report import figures

        figures.export(results)
    return 0


@contextlib.contextmanager
def _making(what: str, results: Path) -> Iterator[None]:
    """Say in one sentence why something cannot be made from the store. Raises _Unmade."""
    from iosweep.commands.working import working

    try:
        with working(f"making the {what} of {results} ..."):
            yield
    except OSError as error:
        why, then = error.strerror or str(error), ": fix that, then"
        if error.errno and error.filename and why != os.strerror(error.errno):
            why = f"{error.filename} is {why}"
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            then = ": make room, then"
        elif isinstance(error, FileNotFoundError) and what != "tables":  # pyarrow gives the file alone
            why, then = f"there is no {Path(str(error.filename or error)).name}", ", and"
        raise _Unmade(
            f"the {what} of {results} cannot be made: {why}; what was measured is stored{then}"
            f" `iosweep report {results}` makes all"
        ) from None


def _parse(arguments: argparse.Namespace) -> int:
    from iosweep.commands import parsing

    return parsing.show(arguments.tool, arguments.file, arguments.one_run, arguments.exit_code)


def _rerun(arguments: argparse.Namespace) -> int:
    from iosweep.results.store import Store

    stores = [Store(f) for f in ([_campaign(arguments.campaign)] if arguments.campaign else _campaigns()) if f]
    status = 0
    verdicts = [name for name in ("suspect", "invalid") if getattr(arguments, name)]
    chooses = bool(verdicts or arguments.where)
    if not arguments.point and not arguments.missing and not chooses:
        arguments.refuse("name points, --suspect, --invalid, --where or --missing")
    if chooses and (arguments.point or arguments.missing):
        arguments.refuse("--suspect, --invalid and --where go neither with points nor with --missing")
    if chooses and not arguments.campaign and len(stores) > 1:
        known = ", ".join(store.path.name for store in stores)
        arguments.refuse(f"--suspect, --invalid and --where need --campaign NAME (there are: {known})")
    if arguments.campaign and not stores:
        return _no_campaign(arguments.campaign)
    if chooses:
        return max((_rerun_chosen(arguments, store, verdicts) for store in stores), default=1)
    opened: dict[Path, list[str]] = {}
    for wanted in arguments.point:
        names = sorted({(str(s.path), p) for s in stores for p in s.results() if p == wanted})
        # up to a dot, or `qd1` would mean `qd16` as well
        names = names or sorted({(str(s.path), p) for s in stores for p in s.results() if p.startswith(wanted + ".")})
        if len(names) != 1:
            many = "; ".join(f"{point} in {path}" for path, point in names[:5]) + ("; ..." if len(names) > 5 else "")
            print(f"{wanted}: {f'is not one point: {many}' if names else 'has no result'}", file=sys.stderr)
            status = 1
            continue
        opened.setdefault(Path(names[0][0]), []).append(names[0][1])
    for path, points in opened.items():
        if _no_time(Store(path), {point: len(Store(path).results_of(point)) for point in points}):
            return 1
    if arguments.missing:
        for store in stores:
            for point in (found := store.missing()):
                store.set_missing(point, None)
            print(f"{store.path}: {len(found)} points that were missing are left again")
            if found and (store.path / "results.parquet").exists():
                print(_refresh(arguments, store))
    for path, points in opened.items():
        store = Store(path)
        for point in dict.fromkeys(points):
            results = store.results_of(point)
            for result in results.values():
                store.supersede(result)
            print(f"{point}: {len(results)} superseded and kept; the next run of snakemake measures again")
        if (path / "results.parquet").exists():
            print(_refresh(arguments, store))
    return status


def _refresh(arguments: argparse.Namespace, store: Any) -> str:
    return f"`iosweep report {_named(arguments, store)}` refreshes the tables and the report before that"


def _named(arguments: argparse.Namespace, store: Any) -> str:
    """The campaign as the user named it, or its own name where the user named none; for a shell."""
    return shlex.quote(arguments.campaign or store.path.name)


def _no_time(store: Any, chosen: Mapping[str, int]) -> bool:
    """Whether limits.time is spent for repetitions that are to be opened again; prints what to change."""
    from iosweep.results import reopening

    if why := reopening.out_of_time(store, chosen):
        print(f"{store.path}: {why}", file=sys.stderr)
    return bool(why)


def _rerun_chosen(arguments: argparse.Namespace, store: Any, verdicts: list[str]) -> int:
    """Open what the tables know as suspect or invalid, or by its parameters."""
    _hide_pandas(arguments)
    from iosweep.commands import choosing
    from iosweep.text import human_count

    try:
        found = choosing.choose(store.path, verdicts, arguments.where)
    except choosing.Unknown as error:
        print(error, file=sys.stderr)
        return 1
    except OSError:
        print(f"{store.path} has no tables yet; `iosweep report {store.path}` makes them", file=sys.stderr)
        return 1
    if found.repetitions and _no_time(store, Counter(point for point, _ in found.repetitions)):
        return 1
    for point in dict.fromkeys(point for point, _ in found.repetitions):
        numbers = [number for id, number in found.repetitions if id == point]
        results = store.results_of(point)
        for number in numbers:
            store.supersede(results[number])
        print(f"{point}: {human_count(len(numbers), 'repetition')} superseded and kept")
    if found.newer:
        many = human_count(found.newer, "repetition")
        print(f"not looked at: {many} not in the tables yet; `iosweep report {store.path}` makes them anew")
    if not found.repetitions:
        hint = ""
        if found.missing:
            points = human_count(found.missing, "point that was chosen is", "points that were chosen are")
            command = f"iosweep rerun --campaign {_named(arguments, store)} --missing"
            hint = f"; {points} missing: `{command}` opens what is missing"
        print(f"{store.path}: no stored repetition is chosen{hint}", file=sys.stderr)
        return 1
    many = human_count(len(found.repetitions), "repetition")
    print(f"{store.path}: {many} left again; the next run of snakemake measures them")
    print(_refresh(arguments, store))
    return 0


def _clean(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from iosweep.commands import clean

    found = {name: _campaign(name) for name in arguments.campaign}
    for name, results in found.items():
        if results is None:
            return _no_campaign(name)
    end = None if arguments.time is None else time.monotonic() + arguments.time
    code = 0
    for results in filter(None, found.values()):
        if arguments.yes:
            code = max(code, clean.remove(results, end, arguments.workers, Console(stderr=True)))
        else:
            code = max(code, clean.show(results))
        if code == clean.INTERRUPTED:
            break
    return code


def _doctor(arguments: argparse.Namespace) -> int:
    configuration = arguments.configfile or (CONFIG if CONFIG.exists() else None)
    try:
        if not arguments.slurm:
            for name in ("profile", "wait"):
                if getattr(arguments, name) is not None:
                    arguments.refuse(f"--{name} goes with --slurm")
            from iosweep.commands.doctor import here

            return here.doctor(configuration, arguments.json)
        from iosweep.commands.doctor import cluster

        # that of the checkout, where the working directory is another one
        places = (PROFILE, Path(iosweep.__file__).resolve().parents[2] / PROFILE)
        profile = arguments.profile or next((place for place in places if place.is_dir()), PROFILE)
        return cluster.doctor(profile, configuration, arguments.wait, arguments.json)
    except KeyboardInterrupt:
        return 130


def _duration(text: str) -> float:
    from iosweep.units import parse_duration

    try:
        return parse_duration(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"`{text}` is {error}") from None


def _workers(text: str) -> int:
    if text.isascii() and text.isdigit() and 1 <= int(text) <= 64:
        return int(text)
    raise argparse.ArgumentTypeError(f"`{text}` is not a number from 1 to 64")


def _tools(arguments: argparse.Namespace) -> int:
    return int(arguments.what(arguments))


def _tools_build(arguments: argparse.Namespace) -> int:
    from iosweep.commands.tools import build

    works_for = [os.getppid(), *([arguments.works_for] if arguments.works_for else [])]
    slurm, given = arguments.scheduler == "slurm", _given(arguments)
    return build.build(arguments.configfile, arguments.write, RESULTS, slurm, works_for, given)


def _tools_list(arguments: argparse.Namespace) -> int:
    from iosweep.commands.tools import listing

    return listing.show(arguments.configfile, arguments.provider)


def _tools_mirror(arguments: argparse.Namespace) -> int:
    from iosweep.commands.tools import mirror

    return mirror.make(arguments.configfile, arguments.directory)


def _generate(arguments: argparse.Namespace) -> int:
    from iosweep.commands import generate

    stale = generate.generate(check=arguments.check)
    for file in stale:
        print(f"{file} {'is out of date; run `iosweep generate`' if arguments.check else 'written'}")
    return int(bool(stale) and arguments.check)


def _measure(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from iosweep.errors import AllocationError, ExitCode
    from iosweep.files.logged import opened
    from iosweep.node.stopping import Stopped
    from iosweep.plan.launchers import launchers
    from iosweep.results.store import Store
    from iosweep.run import allocation, outcome
    from iosweep.run.progress_bar import Display, Lasting
    from iosweep.run.request import Request
    from iosweep.text import printable

    sys.stderr = Lasting(sys.stderr or io.StringIO())  # it may be closed (`2>&-`)
    made = read_plan(arguments.plan)
    results = arguments.plan.parent.parent
    works_for = [os.getppid(), *([arguments.works_for] if arguments.works_for else [])]
    try:
        with (
            opened(arguments.log, results) as log,
            Display(Console(stderr=True), Console(file=log, width=200)) as display,
        ):
            allocation.measure(
                Request(
                    made,
                    arguments.allocation,
                    results,
                    arguments.manifest,
                    launchers(arguments.scheduler)[arguments.launcher],
                    display,
                    arguments.only,
                    works_for,
                    allocation.slurm_job() if arguments.scheduler == "slurm" else None,
                    arguments.tools,
                )
            )
    except AllocationError as error:
        said, code = str(error), error.code
        with contextlib.suppress(OSError):  # the results' disk may be what is full
            Store(results).set_refusal(
                arguments.allocation, said, error.lasting, error.after, error.nodes, error.code == ExitCode.JOB_OVER
            )
    except Stopped as error:
        said, code = (
            f"stopped by {error}; what was measured is stored, the next run goes on from there",
            ExitCode.INTERRUPTED,
        )
        if arguments.scheduler:  # or nobody would say why the job ended
            with contextlib.suppress(OSError):
                Store(results).set_refusal(arguments.allocation, f"its job was {said}", stopped=True)
    except OSError as error:  # of the log, which is with the results
        said, code = outcome.cannot_be_written(error), ExitCode.STORE_FAILED
    else:
        return 0
    print(printable(f"iosweep: {said}"), file=sys.stderr)
    with contextlib.suppress(OSError), opened(arguments.log, results) as log:
        print(printable(said), file=log)
    return code


def _collect(arguments: argparse.Namespace) -> int:
    if not arguments.scheduler:  # where it was measured: tidies up as well
        return _measure(arguments)
    from iosweep.results import manifest
    from iosweep.results.store import Store

    made, store = read_plan(arguments.plan), Store(arguments.plan.parent.parent)
    allocation = next(a for a in made.allocations if a.name == arguments.allocation)
    store.set_refusal(allocation.name, None)
    manifest.write(arguments.manifest, allocation, store)
    return 0


class _WithoutPandas:
    """An import hook. pyarrow imports pandas only to ask whether a list is one of its series: a quarter of a second."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name == "pandas":
            raise ImportError(name)


def _hide_pandas(arguments: argparse.Namespace) -> None:
    """Keep pandas from being imported, unless we were called by another program, which may need it."""
    if arguments.whole_process:
        sys.meta_path.insert(0, _WithoutPandas)


def _merge(arguments: argparse.Namespace) -> int:
    _hide_pandas(arguments)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that nobody needs
    from iosweep.results import merge

    results = arguments.plan.parent.parent
    with _making("tables", results):
        repair = arguments.repair.name if arguments.repair else None
        merge.merge(read_plan(arguments.plan), results, repair)
    return 0


def _repair(arguments: argparse.Namespace) -> int:
    from iosweep.files import safe_paths

    text = b"Tables, report or figures were damaged, and are made again.\n"
    safe_paths.write(arguments.file.parent.parent, f"repairs/{arguments.file.name}", text)
    return 0


def _page(arguments: argparse.Namespace) -> int:
    _hide_pandas(arguments)
    from iosweep.report import page

    with _making("report", arguments.results):
        page.write(arguments.results)
    return 0


def _figures(arguments: argparse.Namespace) -> int:
    _hide_pandas(arguments)
    from iosweep.report import figures

    with _making("figures", arguments.results):
        figures.export(arguments.results)
    return 0


def _campaign(name: str) -> Path | None:
    """The results of a campaign, named by its name or by the directory."""
    for path in (RESULTS / name, Path(name)):
        if (path / "plans").is_dir():
            return path
    return None


def _campaigns() -> list[Path]:
    return sorted(path.parent for path in RESULTS.glob("*/plans"))


def _no_campaign(name: str) -> int:
    known = ", ".join(path.name for path in _campaigns())
    print(
        f"no results of a campaign `{name}` in {RESULTS}/" + (f" (there are: {known})" if known else ""),
        file=sys.stderr,
    )
    return 1
