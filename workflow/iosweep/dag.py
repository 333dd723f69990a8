"""What the Snakefile asks, once, when it is parsed: the plan, what the store says is left, and the files of each rule.

Looks at the results only, never at the target, and starts nothing: `snakemake -n` works anywhere.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from iosweep import config, forecast, manifest, plan, progress
from iosweep.launch import LAUNCHERS, Launcher, candidates
from iosweep.models import unknown
from iosweep.programs import builds
from iosweep.store import Store
from iosweep.units import human_count
from iosweep.yamlfile import ConfigError, Problem

PACKAGE = Path(__file__).parent
#: What the tables, and what the report, are made by: a change of them makes these again, and nothing else.
_MERGE_CODE = ("columns.py", "checks.py", "merge.py", "verdict.py", "tools/**/*.py")
_REPORT_CODE = ("report/**/*",)


@dataclass(frozen=True)
class Dag:
    """The campaign as the rules see it. Paths are relative to the working directory."""

    plan: plan.Plan
    results: Path
    plan_file: Path
    manifests: dict[str, Path]  # allocation -> the manifest that it is to have
    left: dict[str, str]  # allocation -> what is left, in a sentence; only where something is
    launcher: Launcher
    merge_code: str
    report_code: str

    def text(self, allocation: str) -> str:
        """`2 nodes: 24 points, 72 repetitions left, 3 h 10 min, 4.1 TiB written`"""
        nodes = next(a.nodes for a in self.plan.allocations if a.name == allocation)
        name, reached = self.launcher.name, self.launcher.nodes
        if reached is not None and nodes > reached:
            return f"{human_count(nodes, 'node')}: missing, the launcher {name} reaches {reached}"
        return self.left.get(allocation) or forecast.sentence(forecast.of(self.plan, {}), nodes)


def load(file: Path, results: Path, launcher: str = "direct", only: str | None = None) -> Dag:
    """Plan a configuration and ask the store. Raises ConfigError."""
    if wrong := _working_directory(str(Path.cwd())):
        raise ConfigError([Problem(str(file), 1, "", wrong)])
    configured = config.read(file)
    made = plan.make(configured)
    forecast.refuse(made, configured)
    problems = []
    if launcher not in LAUNCHERS:
        problems.append(Problem("profile", 1, "launcher", unknown("launcher", launcher, LAUNCHERS)))
    if only and not any(progress.chosen(only, point) for point in made.points):
        sweeps = ", ".join(sweep.name for sweep in configured.sweeps)
        problems.append(Problem(str(file), 1, "only", f"`{only}` is in no point and no sweep (sweeps: {sweeps})"))
    if problems:
        raise ConfigError(problems)
    folder = results / made.campaign
    store = Store(folder)
    stored, missing = store.results(), store.missing()
    here = progress.Here(builds({p.tool for p in made.points}), LAUNCHERS[launcher], mpiexec=candidates())
    left = progress.counts(progress.left(made, stored, missing, here, only))
    return Dag(
        plan=made,
        results=folder,
        plan_file=folder / "plans" / f"{made.digest}.json",
        manifests={
            a.name: manifest.path(folder, a, manifest.text(a, stored, missing), a.name in left)
            for a in made.allocations
        },
        left={
            a.name: forecast.sentence(forecast.of(made, {a.name: left[a.name]}), a.nodes)
            for a in made.allocations
            if a.name in left
        },
        launcher=LAUNCHERS[launcher],
        merge_code=_code(_MERGE_CODE),
        report_code=_code(_REPORT_CODE),
    )


class Texts:
    """What a rule's message shows of an allocation: `{TEXT:{wildcards.allocation}}`.

    Formatting records nothing, where a parameter would make the rule run again whenever the text changes.
    """

    def __init__(self, dag: Dag):
        self._dag = dag

    def __format__(self, allocation: str) -> str:
        return self._dag.text(allocation)


def _working_directory(path: str) -> str | None:
    """Why Snakemake cannot work in a directory, or None."""
    if "{" in path or "}" in path:
        return f"the working directory {path} has braces, which Snakemake takes for a pattern; run it in another"
    if not path.isprintable():
        return f"the working directory {path} has characters that cannot be printed; run it in another"
    return None


def _code(patterns: tuple[str, ...]) -> str:
    """Hash of source files."""
    digest = hashlib.sha256()
    for pattern in patterns:
        for file in sorted(PACKAGE.glob(pattern)):
            if file.is_file() and "__pycache__" not in file.parts:
                digest.update(file.read_bytes())
    return digest.hexdigest()[:12]
