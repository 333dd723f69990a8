"""What the Snakefile asks while it is parsed: the plan, what is left by the store, and the files of each rule.

It reads results only, so that `snakemake -n` works anywhere. If this machine measures, and something is left to
measure, it also checks that the target exists.
"""

from __future__ import annotations

import getpass
import hashlib
import logging
import os
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from iosweep import collector
from iosweep.config import sweep_file
from iosweep.config.sweeps import Config
from iosweep.errors import Busy, ConfigError, ExitCode, Obstacle, Problem, Refused, Unusable
from iosweep.files import safe_paths
from iosweep.jobs import profile, submission
from iosweep.jobs.profile import Profile
from iosweep.judge import remaining
from iosweep.plan import forecast
from iosweep.plan.expand import make_plan
from iosweep.plan.headline_groups import criteria_lines
from iosweep.plan.launchers import Launcher, candidates, launchers
from iosweep.plan.model import Allocation, Plan
from iosweep.programs import spack
from iosweep.programs.path import sha256
from iosweep.programs.spack import Built, Environment
from iosweep.store import manifest
from iosweep.store.store import RUN_LOCK, Store, name_taken
from iosweep.tables import merged_tables
from iosweep.target.lock import Lock, Owner, take
from iosweep.text import human_count, printable

#: Rooms that make neither tables nor reports, and those that make no tables. A change of the others makes tables or the
#: report again, and measures nothing.
_NOT_REPORT = frozenset({"__main__.py", "commands", "dag.py", "jobs", "run"})
_NOT_TABLES = _NOT_REPORT | {"analysis", "report"}
#: Folders of the results that rules name. Snakemake writes into them, also through links.
RULE_FOLDERS = ("logs", "manifests", "plans")
#: Folders of the results that runs write into, by handles. These refuse a link or a file, but only when there is
#: something to store.
_STORED_FOLDERS = ("builds", "figures", "nodes", "points", "refusals", "sets")
#: In place of the hash of a tool that is not built yet: no result has it.
_NOT_BUILT = "not built yet"
#: Options of Snakemake with which it looks, or changes its own records, and runs no job.
_WITHOUT_JOBS = (
    *("lint", "list_rules", "list_target_rules", "print_compilation", "summary", "detailed_summary", "dag"),
    *("rulegraph", "filegraph", "d3dag", "list_changes", "list_input_changes", "list_params_changes"),
    *("list_untracked", "containerize", "generate_unit_tests", "unlock", "touch", "cleanup_metadata", "archive"),
    *("cleanup_shadow", "conda_cleanup_envs", "conda_create_envs_only", "list_conda_envs"),
    *("container_cleanup_images", "delete_all_output", "delete_temp_output"),
)
#: Where there is no profile.
_HERE = Profile(slurm=False)
#: The locks of this process: results -> lock.
_LOCKS: dict[Path, Lock] = {}


@dataclass(frozen=True)
class Dag:
    """The campaign as the rules see it. Paths are relative to the working directory."""

    plan: Plan
    results: Path
    plan_file: Path
    left: dict[str, str]  # allocation -> what is left, as a sentence; only if something is
    left_s: dict[str, float]  # the time that takes
    coming: Mapping[str, Mapping[str, int]]  # allocation -> point -> repetitions, as far as it can be said
    launcher: Launcher
    site: Profile
    tools: Environment | None  # where Spack builds them; None if they are on PATH
    plan_damaged: bool
    stale: frozenset[Path]  # outputs of rules that do not fit the store, or are damaged
    tables_code: str
    report_code: str
    damaged: tuple[str, ...]  # damaged files, as sentences
    aside: int  # stored repetitions of points that are not in the plan

    def manifest(self, allocation: str) -> Path:
        """What the job of an allocation hands to Snakemake."""
        return manifest.path(self.results, allocation)

    @property
    def manifests(self) -> list[Path]:
        return [self.manifest(allocation.name) for allocation in self.plan.allocations]

    def mend(self) -> None:
        """Remove stale outputs, so that Snakemake makes them again, and write a damaged plan again. Not while another
        Snakemake works on the campaign, at which this one ends. Raises ConfigError."""
        if not self.stale and not self.plan_damaged:
            return
        try:
            lock(self.results)
        except Busy:
            return
        for file in sorted(self.stale):
            try:
                safe_paths.remove(self.results, file.relative_to(self.results))
            except OSError as error:
                raise ConfigError([_unwritable(file, error)]) from None
        if self.plan_damaged:
            self.write_plan()

    def write_plan(self) -> None:
        """Write the plan, for the jobs, the tables and the commands. Raises ConfigError."""
        try:
            safe_paths.write(self.results, self.plan_file.relative_to(self.results), self.plan.document())
        except OSError as error:
            raise ConfigError([_unwritable(self.plan_file, error)]) from None

    def unmeasured(self) -> list[str]:
        """Sweeps of which no point could be measured, and why, as sentences."""
        store = Store(self.results)
        missing, stored = store.missing(), store.results()
        found: dict[str, list[str]] = {}
        for sweep in self.plan.sweeps:
            reasons = [missing[p].reason for p in sweep.points if p in missing and not stored.get(p)]
            if reasons and len(reasons) == len(sweep.points):
                found.setdefault(reasons[0], []).append(sweep.name)
        return [printable(f"nothing of {', '.join(names)} was measured: {why}") for why, names in found.items()]

    def settle(self, allocation: str) -> None:
        """Write the manifest of an allocation of which nothing is left, without a job. Raises OSError."""
        store = Store(self.results)
        store.set_refusal(allocation, None)
        manifest.write(self.manifest(allocation), self._allocation(allocation), store)

    def notes(self) -> list[str]:
        """What a dry run says: of the criteria, of the room on a target, which nodes may see otherwise, and of results
        that the plan leaves out."""
        from iosweep.run import target_check

        fstype = target_check.fstype(self.plan.target.directory) if self.plan.accept and not self.site.slurm else ""
        room = no_room(self) if self.site.slurm else None
        aside = human_count(self.aside, "stored repetition is", "stored repetitions are")
        leave = f"{aside} of points that the configuration does not have now: kept, and not in tables and report"
        return [*criteria_lines(self.plan, fstype), *([room] if room else []), *([leave] if self.aside else [])]

    def _allocation(self, name: str) -> Allocation:
        return next(a for a in self.plan.allocations if a.name == name)

    def nodes(self, allocation: str) -> int:
        """The node count of an allocation."""
        return self._allocation(allocation).nodes

    def longest(self, allocation: str) -> forecast.Longest | None:
        """What takes longest of what is left of an allocation."""
        return forecast.longest(self.plan, self.coming.get(allocation, {}))

    def minutes(self, allocation: str, attempt: int = 1) -> int:
        """The wall time of its job at its `attempt`-th submission."""
        return submission.minutes(self.left_s.get(allocation, 0.0), attempt, self._limit_min(allocation))

    def least_minutes(self, allocation: str) -> int:
        """The wall time to which Slurm may shorten that job."""
        points = self.coming.get(allocation, {})
        return submission.least_minutes(self.plan, allocation, points, self.minutes(allocation))

    def _limit_min(self, allocation: str) -> int | None:
        return self.site.at(self.nodes(allocation)).limit_min

    @property
    def retries(self) -> int:
        """How often the job of an allocation is submitted again."""
        if not self.site.slurm:
            return 0
        return max((submission.retries(s, self._limit_min(name)) for name, s in self.left_s.items()), default=0)

    def text(self, allocation: str, minutes: int | None = None) -> str:
        """`2 nodes: 24 points, 72 repetitions left, 3 h 10 min, 4.1 TiB written`

        With the minutes that a job asks for: `...; asks for 2 nodes for 4 h 50 min`.
        """
        nodes = self.nodes(allocation)
        name, reached = self.launcher.name, self.launcher.nodes
        if reached is not None and nodes > reached:
            return f"{human_count(nodes, 'node')}: missing, the launcher {name} reaches {reached}"
        if left := self.left.get(allocation):
            return left if minutes is None else f"{left}; {submission.asks_for(nodes, minutes)}"
        return forecast.sentence(forecast.of(self.plan, {}), nodes)


class Asked(NamedTuple):
    """What Snakemake was called with, and what its profile says. `given`: values from the command line
    (sweep_file.GIVEN). `runs`: jobs are run."""

    config: Path
    given: Mapping[str, str]
    only: str | None
    site: Profile
    dry: bool
    runs: bool

    def load(self) -> Dag:
        """The campaign, and what is left of it. For -n on the machine that measures, the target has to be there."""
        look = self.dry and not self.site.slurm
        return load(self.config, Path("results"), self.site, self.only, look, self.given)

    @property
    def overrides(self) -> list[str]:
        """`given` as options of our commands."""
        return [f"--{name}={value}" for name, value in self.given.items()]


def asked(workflow: Any) -> Asked:
    """What is in the settings of Snakemake's workflow while the Snakefile is parsed. Raises ConfigError.

    A profile's `config:` vanishes under --config; its default-resources do not. Snakemake adds some without a value.
    """
    os.umask(os.umask(0o077) | 0o002)  # folders of the results are not for everybody to write
    name_user()
    files = workflow.config_settings.configfiles
    if len(files) > 1:  # merging two, as Snakemake does, would hide what is measured
        raise ConfigError([Problem("--configfile", 0, "", "give one; a campaign is one file")])
    file = Path(files[0]) if files else Path("config/sweep.yaml")
    # as they are written: Snakemake's own would make a number of `campaign=007`
    given = dict(text.split("=", 1) for text in workflow.config_settings.config_args or ())
    if strange := sorted(set(given) - {"only", *sweep_file.GIVEN}):
        known = "it knows `only` (points or sweeps), `campaign` and `target` (a directory)"
        what = f"{known}, not {', '.join(strange)}; everything else belongs in the configuration file"
        raise ConfigError([Problem("--config", 0, "", what)])
    settings = workflow.resource_settings
    here = settings.overwrite_resources.get("measure", {})  # --set-resources
    said = {**(settings.default_resources or {}), **here}
    resources = {key: resource.raw for key, resource in said.items() if resource.raw is not None}
    site = profile.of(resources, slurm="scheduler" in resources)
    if site.problems:
        written = () if here else _written(_options(sys.argv).profile)
        raise ConfigError(list(profile.of(resources, site.slurm, *written).problems))
    dry = workflow.output_settings.dryrun
    return Asked(
        file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file,
        given,
        given.pop("only", None),
        site,
        dry,
        not dry and runs_jobs(sys.argv),
    )


def name_user() -> None:
    """Have a name for the user of this process, for which Snakemake asks; passwd may have none, as in containers."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = str(os.getuid())


class Told(logging.Filter):
    """Keeps off the screen, not out of Snakemake's log, how a command of ours ended whose reason stands above."""

    def __init__(self) -> None:
        super().__init__()
        self._thread: int | None = None  # that reports its end: an exception, then a page about the job

    def filter(self, record: logging.LogRecord) -> bool:
        event = getattr(record, "event", None)
        if event == "error":
            self._thread = record.thread if tells_itself(record.getMessage()) else None
            return self._thread is None
        return event != "job_error" or record.thread != self._thread


def tells_itself(error: str) -> bool:
    """Whether an error of Snakemake's is that a command ended by Ctrl-C, or with an exit code for which it prints the
    reason. Not so if it was killed or could not be started."""
    end = r"(?:returned non-zero exit status (\d+)\.|died with <Signals\.SIGINT)"
    ended = re.match(rf"RuleException:\nCalledProcessError in file .*{end}", error, re.DOTALL)
    return ended is not None and int(ended[1] or ExitCode.INTERRUPTED) in {1, *ExitCode}


def _options(argv: Sequence[str]) -> Any:
    """What its command line has given Snakemake, which its settings do not tell while the Snakefile is parsed."""
    from snakemake.cli import get_argument_parser

    return get_argument_parser().parse_known_args(argv[1:])[0]


def _written(profiles: Sequence[str] | None) -> tuple[str, str] | tuple[()]:
    """The file of a profile and its text; neither where it is not the only one."""
    from snakemake.cli import get_profile_dir

    found = get_profile_dir(profiles[0]) if profiles and len(profiles) == 1 else None
    return (os.path.relpath(found[1]), found[1].read_text(encoding="utf-8")) if found else ()


def runs_jobs(argv: Sequence[str]) -> bool:
    """Whether this command line of Snakemake runs jobs."""
    known = _options(argv)
    return all(getattr(known, name, None) in (None, False) for name in _WITHOUT_JOBS) and (
        known.report is None or known.report_after_run
    )


@collector.paused(stays=True)
def load(
    file: Path,
    results: Path,
    site: Profile = _HERE,
    only: str | None = None,
    look: bool = False,
    given: Mapping[str, str] | None = None,
) -> Dag:
    """Plan a configuration and ask the store. Raises ConfigError.

    `given`: values from the command line (sweep_file.GIVEN). `look`: refuse a target that does not exist.
    """
    if obstacle := submission.working_directory(str(Path.cwd()), site.slurm):
        raise ConfigError([Problem(str(file), 1, "", str(obstacle))])
    configured = sweep_file.read(file, given)
    made = make_plan(configured)
    forecast.refuse(made, configured)
    problems = []
    launcher = launchers("slurm" if site.slurm else None)[site.launcher]
    if only and not any(remaining.chosen(only, point) for point in made.points):
        sweeps = ", ".join(sweep.name for sweep in configured.sweeps)
        problems.append(Problem(str(file), 1, "only", f"`{only}` is in no point and no sweep (sweeps: {sweeps})"))
    if wrong := submission.open_port(made.points, launcher, os.geteuid()):
        problems.append(Problem(str(file), 1, "allow_open_port", wrong))
    if problems:
        raise ConfigError(problems)
    place, there = None, None
    if (configured.tools.provider or site.tools) == "spack":
        place = spack.read(configured)
        try:
            there = spack.read_built(place.file)
        except Unusable as error:
            raise ConfigError([Problem(str(file), 1, "tools", str(error))]) from None
    found = _of(configured, made, results, launcher, only, site, place, there)
    if found.left:
        try:
            Store(found.results).claimed()
        except Refused as error:
            raise ConfigError([Problem(str(found.results), 0, "", str(error))]) from None
    if look and found.left:
        _see_target(configured, found)
    return found


def see_target(file: Path, campaign: Dag, given: Mapping[str, str] | None = None) -> None:
    """Check that the target exists and has room, on the machine that measures. Raises ConfigError."""
    _see_target(sweep_file.read(file, given), campaign)


def _see_target(configured: Config, campaign: Dag) -> None:
    from iosweep.run import target_check

    if missed := target_check.problem(configured):
        raise ConfigError([missed])
    if wrong := no_room(campaign):
        raise ConfigError([configured.documents[0].problem(("target", "directory"), wrong)])


def no_room(campaign: Dag) -> str | None:
    """Why what is left does not fit the target, as far as it can be seen from here; None if it does."""
    from iosweep.run import target_check

    if not campaign.left:
        return None
    room = target_check.fits(campaign.plan, forecast.of(campaign.plan, campaign.coming))
    return str(Obstacle(room.seen, room.change)) if room.outcome == "wrong" else None


def _of(
    configured: Config,
    made: Plan,
    results: Path,
    launcher: Launcher,
    only: str | None,
    site: Profile,
    place: Environment | None,
    there: Built | None,
) -> Dag:
    """`place`: where Spack builds tools. `there`: the tools that it has built."""
    folder = results / made.campaign
    if obstacles := _obstacles(folder):
        raise ConfigError(obstacles)
    store = Store(folder)
    stored = store.results()
    if taken := name_taken(store, made, stored):
        raise ConfigError([configured.documents[0].problem(("campaign",), taken)])
    missing = store.missing()
    here = _here(made, launcher, site.slurm, place, there)
    still = remaining.find(made, stored, missing, here, only)
    found, coming = still.left, still.expected
    if wrong := submission.too_long(made, {point for points in coming.values() for point in points}, site):
        raise ConfigError(wrong)
    plan_file = folder / "plans" / f"{made.digest}.json"
    store.look()
    plan_damaged = not store.whole(plan_file, made.document())
    store.damaged.pop(str(folder / merged_tables.ABOUT), None)  # it is among those of the tables
    left = {name: forecast.of(made, {name: points}) for name, points in coming.items() if name in found}
    lost = merged_tables.damage(folder)
    stale = {folder / "results.parquet"} if lost else set()
    for allocation in made.allocations:
        file = manifest.path(folder, allocation.name)
        if os.path.lexists(file) and (
            allocation.name in left or not manifest.holds(file, manifest.text(allocation, stored, missing))
        ):
            stale.add(file)
    planned = {point.id for point in made.points}
    return Dag(
        plan=made,
        results=folder,
        plan_file=plan_file,
        left={a.name: forecast.sentence(left[a.name], a.nodes) for a in made.allocations if a.name in left},
        left_s={name: cost.time_s for name, cost in left.items()},
        coming=coming,
        launcher=launcher,
        site=site,
        tools=place,
        plan_damaged=plan_damaged,
        stale=frozenset(stale),
        tables_code=_code_digest(_NOT_TABLES),
        report_code=_code_digest(_NOT_REPORT),
        damaged=(*store.named(), *lost),
        aside=sum(len(found) for point, found in stored.items() if point not in planned),
    )


def _code_digest(without: Collection[str]) -> str:
    """Hash of the files of this package, but those in some rooms."""
    package, total = Path(__file__).parent, hashlib.sha256()
    names = (file.relative_to(package) for file in package.rglob("*") if file.is_file())
    for name in sorted(n for n in names if n.parts[0] not in without and "__pycache__" not in n.parts):
        data = (package / name).read_bytes()
        total.update(b"%b %d " % (os.fsencode(name), len(data)) + data)
    return total.hexdigest()[:12]


def _unwritable(file: Path, error: OSError) -> Problem:
    return Problem(str(file), 0, "", f"it cannot be written: {error.strerror}", safe_paths.remedy(error))


def _obstacles(folder: Path) -> list[Problem]:
    """Links and other things in place of folders that a run writes into. Asked before it does."""
    try:
        with safe_paths.folder(folder) as root:
            found = {name: what for name in (*RULE_FOLDERS, *_STORED_FOLDERS) if (what := root.obstacle(name))}
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Problem(str(folder), 0, "", f"the results cannot be read: {error.strerror}")]
    return [
        Problem(
            str(folder / name),
            0,
            "",
            f"it is {what}, where a run writes; move it away: it has to be a directory, or not there",
        )
        for name, what in found.items()
    ]


def _here(
    made: Plan, launcher: Launcher, on_nodes: bool, place: Environment | None, there: Built | None
) -> remaining.Here:
    """What the machine that measures offers, as far as it is known here. `on_nodes`: it is another machine."""
    names = {point.tool for point in made.points}
    if there:
        hashes, mpiexec = there.hashes(), candidates(there.search)
        return remaining.Here({name: hashes.get(name) for name in names}, launcher, None if on_nodes else mpiexec)
    if place:
        return remaining.Here(dict.fromkeys(names, _NOT_BUILT), launcher, None if on_nodes else [_NOT_BUILT])
    if on_nodes:  # what was missing there stays missing until `iosweep rerun`
        return remaining.Here({}, launcher, None)
    return remaining.Here({name: sha256(name) for name in names}, launcher, candidates())


def lock(results: Path) -> None:
    """Keep a second Snakemake off a campaign, until this process ends. Raises Busy, ConfigError."""
    if results in _LOCKS:
        return
    file = results / RUN_LOCK
    try:
        with safe_paths.folder(results, make=True):
            _LOCKS[results] = take(file, Owner(results.name, str(results.absolute())), f"campaign {results.name}")
        Store(results).own()
    except Refused as error:
        raise ConfigError([Problem(str(results), 0, "", str(error))]) from None
    except OSError as error:
        raise ConfigError([Problem(str(file), 0, "", f"cannot be locked: {error.strerror or error}")]) from None
