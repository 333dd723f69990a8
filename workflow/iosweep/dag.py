"""The campaign for the Snakefile: its plan, the work that is left, the files of each rule, and the site's profile.

It is read whenever the Snakefile is parsed, also by `snakemake -n`: reading changes nothing, and needs no target,
Slurm, Spack or tool. The documented interface of Snakemake does not give a Snakefile its profile and options, so `read`
takes them from Snakemake's workflow object:

    config_settings.configfiles, .config_args   because `config` merges both, parsed as YAML 1.1: `campaign=1.10` would
                                                be 1.1, and a mistyped key would look like a key of the file
    resource_settings.default_resources,        the site: `config:` of a profile is lost under --config, but its
    .overwrite_resources                        default-resources are not
    output_settings.dryrun (in the Snakefile)   notes are for a dry run, which does not call `onstart`
"""

from __future__ import annotations

import contextlib
import gc
import getpass
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from iosweep.config import sweep_file
from iosweep.config.sweeps import Config
from iosweep.errors import Busy, ConfigError, ExitCode, Obstacle, Problem, Refused, TargetError, TargetHangs, Unusable
from iosweep.files import safe_paths
from iosweep.jobs import profile, submission
from iosweep.jobs.profile import Profile
from iosweep.jobs.submission import Work
from iosweep.judge import remaining
from iosweep.plan.expand import make_plan
from iosweep.plan.headline_groups import foreseen
from iosweep.plan.launchers import Launcher, launchers
from iosweep.plan.model import Plan
from iosweep.programs import spack
from iosweep.programs.programs import candidates, sha256
from iosweep.programs.spack import Environment
from iosweep.store.store import SNAKEMAKE_LOCK, Store, left_out, manifest_path, name_taken, write_manifest
from iosweep.tables import reader
from iosweep.target.lock import Lock, Owner, take
from iosweep.text import printable

#: Folders of the results that rules name: Snakemake would write into them through links.
RULE_FOLDERS = ("logs", "manifests", "plans")
#: Folders of the results that runs write into: a run would refuse a link only when it stores something.
_STORED_FOLDERS = ("builds", "figures", "nodes", "points", "refusals", "sets")
#: Stands for the hash of a tool that is not built yet; no result has it.
_NOT_BUILT = "not built yet"
#: The site without a profile.
_NO_PROFILE = Profile(slurm=False)
#: First words of each `iosweep` command: UTF-8 in any locale, no module from the working directory.
COMMAND = [sys.executable, "-P", "-X", "utf8", "-m", "iosweep"]
#: Results -> the lock that this process keeps until it ends.
_LOCKS: dict[Path, Lock] = {}
T = TypeVar("T")


@dataclass(frozen=True)
class Dag:
    """The campaign, as rules need it. Paths are relative to the working directory."""

    file: Path
    config: Config
    given: Mapping[str, str]  # values of --config that replace values of the file (sweep_file.GIVEN)
    only: str | None
    plan: Plan
    results: Path
    work: Mapping[str, Work]  # by allocation
    launcher: Launcher
    site: Profile
    tools: Environment | None  # the Spack environment that builds the tools; None: they are on PATH
    damaged: tuple[str, ...]  # sentences on damaged files
    outdated: bool  # outputs of rules are damaged, or of another plan
    tables_made: int | None  # time stamp of the present tables
    unplanned: list[str]  # a line on results of points that are not in the plan

    @property
    def plan_file(self) -> Path:
        return self.results / "plans" / f"{self.plan.digest}.json"

    def manifest(self, allocation: str) -> Path:
        """The output of an allocation's job."""
        return manifest_path(self.results, allocation)

    @property
    def manifests(self) -> list[Path]:
        return [self.manifest(name) for name in self.work]

    @property
    def left(self) -> dict[str, Work]:
        """Allocations with repetitions left."""
        return {name: work for name, work in self.work.items() if work.points}

    @property
    def to_run(self) -> list[str]:
        """Allocations that get a job: repetitions are left, or they have no manifest."""
        return [name for name, work in self.work.items() if work.points or not self.manifest(name).exists()]

    def earlier(self, allocation: str) -> list[Path]:
        """What the job of an allocation waits for: the manifests of earlier sessions that get a job too."""
        own = self.work[allocation].allocation
        others = {name: self.work[name].allocation for name in self.to_run}
        return [self.manifest(n) for n, a in others.items() if a.nodes == own.nodes and a.session < own.session]

    @property
    def overrides(self) -> list[str]:
        """`given` as options of our commands."""
        return [f"--{name}={value}" for name, value in self.given.items()]

    def start(self) -> None:
        """Prepare for the first job: check the target if this machine measures, lock the campaign against a second
        Snakemake until this process ends, and write the plan. Raises Busy, ConfigError."""
        if not self.site.slurm and (problems := self.target_problems()):
            raise ConfigError(problems)
        file, mine = self.results / SNAKEMAKE_LOCK, Owner(self.results.name, str(self.results.absolute()))
        try:
            if self.results not in _LOCKS:
                with safe_paths.folder(self.results, make=True):
                    _LOCKS[self.results] = take(file, mine, f"campaign {self.results.name}")
                Store(self.results).mark()
        except Refused as error:
            raise ConfigError([Problem(str(self.results), 0, "", str(error))]) from None
        except OSError as error:
            raise ConfigError([Problem(str(file), 0, "", f"cannot be locked: {error.strerror or error}")]) from None
        try:
            safe_paths.write(self.results, self.plan_file.relative_to(self.results), self.plan.document())
        except OSError as error:
            what = f"it cannot be written: {error.strerror}"
            raise ConfigError([Problem(str(self.plan_file), 0, "", what, safe_paths.remedy(error))]) from None

    def target_problems(self) -> list[Problem]:
        """Why the targets cannot take the work that is left. Under Slurm they may not be visible here."""
        from iosweep.run import preflight

        if not self.left:
            return []
        if not self.site.slurm and (
            problems := preflight.find_target_problems(self.config, Store(self.results).uuid())
        ):
            return problems
        left = {name: work.points for name, work in self.left.items()}
        try:
            rooms = preflight.check_space(self.plan, left)
        except (Refused, TargetError, TargetHangs):  # they cannot be seen from here
            return []
        obstacles = {name: room for name, room in rooms.items() if isinstance(room, Obstacle)}
        return [self.config.target_problem(name, room.key, str(room)) for name, room in obstacles.items()]

    def notes(self) -> list[str]:
        """Lines of a dry run: the target, and results that the plan leaves out."""
        return [*map(str, self.target_problems()), *self.unplanned]

    def tell(self, dry: bool) -> None:
        """Print damage and notes before anything runs."""
        say(self.damaged)
        say(foreseen(self.plan) if self.left else [])
        say(self.notes() if dry else [])
        if dry and not self.left:
            say(self.unmeasured())

    def report(self) -> bool:
        """Make tables and report page; returns whether that succeeded. Without figures, which take time, because this
        also runs after Ctrl-C."""
        steps: list[list[str | Path]] = [["tables", self.plan_file], ["report", "--page", self.results]]
        return self.plan_file.exists() and not any(
            subprocess.run([*COMMAND, *step], check=False).returncode for step in steps
        )

    def show_headline(self) -> None:
        subprocess.run([*COMMAND, "show", self.results.name], check=False)

    def succeed(self) -> None:
        """Finish a run without a failed job. If a whole sweep is missing (its tool is not installed), end this process
        with the reason."""
        if _modified(self.results / reader.ABOUT) != self.tables_made:  # this run has made the tables
            self.show_headline()
        if unmeasured := self.unmeasured():
            sys.exit("\n".join(f"iosweep: {line}" for line in unmeasured))

    def unmeasured(self) -> list[str]:
        """Sentences on sweeps of which no point could be measured, with the reason; without optional tools."""
        store = Store(self.results)
        missing, stored = store.missing(), store.repetitions()
        by_reason: dict[str, list[str]] = {}
        for sweep in self.plan.sweeps:
            reasons = [missing[p].reason for p in sweep.points if p in missing and not stored.get(p)]
            if len(reasons) == len(sweep.points) and sweep.tool not in self.plan.optional:
                by_reason.setdefault(reasons[0], []).append(sweep.name)
        return [printable(f"nothing of {', '.join(names)} was measured: {why}") for why, names in by_reason.items()]

    @property
    def remake(self) -> bool:
        """Whether tables and report are made again: they are damaged, or this run ends with what it lacks (`succeed`),
        which Snakemake does not call where nothing runs."""
        return self.outdated or bool(not self.left and self.unmeasured())

    def settle(self, allocation: str) -> None:
        """Write the manifest of an allocation that was completed in an earlier run. Raises OSError."""
        store = Store(self.results)
        store.set_refusal(allocation, None)
        write_manifest(self.manifest(allocation), self.work[allocation].allocation, store)

    @property
    def retries(self) -> int:
        """How often Snakemake may submit the job of an allocation again."""
        return max((work.retries for work in self.left.values()), default=0) if self.site.slurm else 0

    def text(self, allocation: str, minutes: int | None = None) -> str:
        """A line on the repetitions left of an allocation, and the resources of its job (Work.text)."""
        work, reached = self.work[allocation], self.launcher.nodes
        if reached is not None and work.nodes > reached:
            return f"{work.allocation.title}: missing, the launcher {self.launcher.name} reaches {reached}"
        return work.text(minutes)


def read(workflow: Any) -> Dag:
    """The campaign of Snakemake's workflow while the Snakefile is parsed. Raises ConfigError."""
    os.umask(os.umask(0o077) | 0o002)  # results must not be writable by everybody
    name_user()
    files = workflow.config_settings.configfiles
    if len(files) > 1:  # merging two files, as Snakemake does, would obscure which values apply
        raise ConfigError([Problem("--configfile", 0, "", "give one; a campaign is one file")])
    file = Path(files[0]) if files else Path("config/sweep.yaml")
    given = dict(text.split("=", 1) for text in workflow.config_settings.config_args or ())
    if strange := sorted(set(given) - {"only", *sweep_file.GIVEN}):
        allowed = "`only` (points or sweeps), `campaign`, `target` (a directory) and `sessions` can be given"
        what = f"{allowed}, not {', '.join(strange)}; everything else belongs in the configuration file"
        raise ConfigError([Problem("--config", 0, "", what)])
    settings = workflow.resource_settings
    set_resources = settings.overwrite_resources.get("measure", {})  # --set-resources
    merged = {**(settings.default_resources or {}), **set_resources}
    # Snakemake adds resources without a value
    resources = {key: resource.raw for key, resource in merged.items() if resource.raw is not None}
    site = profile.parse(resources, slurm="scheduler" in resources)
    if site.problems:
        raise ConfigError(list(_profile_of(site.problems)))
    file = file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file
    gc.disable()  # takes a third of the time for a large plan, and finds no cycle among millions of small values
    try:
        return load(file, Path("results"), site, given.pop("only", None), given)
    finally:
        gc.freeze()  # the plan lives as long as this process
        gc.enable()


def _profile_of(problems: Sequence[Problem]) -> Sequence[Problem]:
    """The problems with file and line, from a profile in the working directory or the checkout that has these problems:
    Snakemake does not say which profile it was called with."""
    places = (Path("profiles"), Path(__file__).parents[2] / "profiles")
    for directory in (directory for place in places if place.is_dir() for directory in sorted(place.iterdir())):
        with contextlib.suppress(Unusable):
            with_lines = profile.read(directory).problems
            if {(p.where, p.message) for p in with_lines} == {(p.where, p.message) for p in problems}:
                return with_lines
    return problems


def load(
    file: Path,
    results: Path,
    site: Profile = _NO_PROFILE,
    only: str | None = None,
    given: Mapping[str, str] | None = None,
) -> Dag:
    """Plan a configuration and determine the work that is left. Raises ConfigError."""
    if obstacle := submission.working_directory(str(Path.cwd()), site.slurm):
        raise ConfigError([Problem(str(file), 1, "", str(obstacle))])
    config = sweep_file.read(file, given)
    plan = make_plan(config)
    folder = results / plan.campaign
    if obstacles := _obstacles(folder):
        raise ConfigError(obstacles)
    problems, document = list[Problem](), config.documents[0]
    if only and not any(remaining.chosen(only, point) for point in plan.points):
        sweeps = ", ".join(sweep.name for sweep in config.sweeps)
        problems.append(Problem(str(file), 1, "only", f"`{only}` is in no point and no sweep (sweeps: {sweeps})"))
    tools, built = None, None
    if (config.settings.tools.provider or site.tools) == "spack":
        tools = spack.read(config)
        try:
            built = spack.read_built(tools.file)
        except Unusable as error:
            problems.append(document.problem(("tools",), str(error)))
    store = Store(folder)
    stored = store.repetitions()
    if taken := name_taken(store, plan, stored):
        problems.append(document.problem(("campaign",), taken))
    launcher = launchers("slurm" if site.slurm else None)[site.launcher]
    names = {point.tool for point in plan.points}
    hashes: dict[str, str | None] = {}  # under Slurm: a tool that nodes lacked stays missing until `iosweep rerun`
    mpiexec = [_NOT_BUILT]
    if built:
        hashes, mpiexec = {name: built.hashes().get(name) for name in names}, candidates(built.search)
    elif tools:
        hashes = dict.fromkeys(names, _NOT_BUILT)
    elif not site.slurm:
        hashes, mpiexec = {name: sha256(name) for name in names}, candidates()
    machine = remaining.LocalMachine(hashes, launcher, None if site.slurm else mpiexec)
    rest = remaining.find(plan, stored, store.missing(), machine, only)
    coming = {name: rest.expected[name] for name in rest.left}
    work = {a.name: Work(plan, a, coming.get(a.name, {}), site.at(a.nodes)) for a in plan.allocations}
    problems += submission.problems(config, plan, work.values())
    if coming:
        try:
            store.claimed()
        except Refused as error:
            problems.append(Problem(str(folder), 0, "", str(error)))
    if problems:
        raise ConfigError(problems)
    store.read_documents()
    store.damaged.pop(str(folder / reader.ABOUT), None)  # reader.find_damage reports it
    outputs = reader.find_damage(folder)
    other_plan = store.differs(f"plans/{plan.digest}.json", plan.document())
    return Dag(
        file=file,
        config=config,
        given=given or {},
        only=only,
        plan=plan,
        results=folder,
        work=work,
        launcher=launcher,
        site=site,
        tools=tools,
        damaged=(*store.damage(), *outputs),
        outdated=bool(outputs) or other_plan,
        tables_made=_modified(folder / reader.ABOUT),
        unplanned=left_out(plan, stored),
    )


def _modified(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


def _obstacles(folder: Path) -> list[Problem]:
    """Links and files in the place of folders that a run writes into."""
    try:
        with safe_paths.folder(folder) as root:
            names = (*RULE_FOLDERS, *_STORED_FOLDERS)
            inside = {name: obstacle for name in names if (obstacle := root.obstacle(name))}
    except FileNotFoundError:
        return []
    except OSError as error:
        return [Problem(str(folder), 0, "", f"the results cannot be read: {error.strerror}")]
    remedy = "move it away: it has to be a directory, or not there"
    return [Problem(str(folder / name), 0, "", f"it is {obstacle}", remedy) for name, obstacle in inside.items()]


def or_exit(function: Callable[..., T], *arguments: object) -> T:
    """Call a function; on an error end this process with the message only, to which Snakemake would add lines of the
    Snakefile."""
    try:
        return function(*arguments)
    except (Busy, ConfigError) as error:
        sys.exit(f"{error}\nnothing was run")
    except KeyboardInterrupt:
        sys.exit("iosweep: stopped by Ctrl-C; nothing was run")


def say(lines: Iterable[str]) -> None:
    """Print lines to stderr, each after `iosweep: `."""
    for line in lines:
        print(f"iosweep: {line}", file=sys.stderr)


def name_user() -> None:
    """Give the user of this process a name, which Snakemake needs: in a container passwd may lack it."""
    try:
        getpass.getuser()
    except (KeyError, OSError):
        os.environ["USER"] = str(os.getuid())


def hide_explained(logger: logging.Logger) -> None:
    """Hide Snakemake's long message about a failed `iosweep` command that has printed the reason itself.

    The message stays in Snakemake's log. (The attribute `event` of records is documented for logger plugins.)
    """
    for handler in logger.handlers:
        if handler.name == "DefaultStreamHandler":
            handler.addFilter(Unexplained())


class Unexplained(logging.Filter):
    """Drops log records about a job whose command has printed why it ended: after Ctrl-C, or with an exit code of
    iosweep. A command that was killed or could not be started has printed nothing."""

    _COMMAND = r"RuleException:\nCalledProcessError in file .*"
    _ENDED = re.compile(rf"{_COMMAND}(?:returned non-zero exit status (\d+)\.|died with <Signals\.SIGINT)", re.DOTALL)

    def __init__(self) -> None:
        super().__init__()
        self._thread: int | None = None  # which reports the end: first the exception, then a message about the job

    def filter(self, record: logging.LogRecord) -> bool:
        event = getattr(record, "event", None)
        if event == "error":
            ended = self._ENDED.match(record.getMessage())
            explained = ended and int(ended[1] or ExitCode.INTERRUPTED) in {1, *ExitCode}
            self._thread = record.thread if explained else None
            return not explained
        return event != "job_error" or record.thread != self._thread
