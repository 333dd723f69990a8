"""The tools that a configuration requests: which environment, built where, by which Spack."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

from iosweep.config.sweeps import Config
from iosweep.errors import ConfigError, Problem
from iosweep.plan.model import Plan
from iosweep.programs.spack import spack_yaml
from iosweep.programs.spack.spack_yaml import Environment, Place, unfit

#: The file of the workflow, for working directories without one.
SHIPPED = Path(__file__).parents[4] / "spack.yaml"


@dataclass(frozen=True)
class Request:
    """The configured tools (sections.Tools). `tools`, `engines` (of fio): those that sweeps use."""

    environment: Environment
    place: Place
    spack: str | None = None
    mirror: Path | None = None
    tools: Collection[str] = ()
    engines: Collection[str] = ()


def read(configured: Config, made: Plan | None = None, builds: bool = False) -> Request:
    """Read spack.yaml, and check that named files exist. Raises ConfigError.

    builds: whether the requirements of building are checked as well.
    """
    tools, document = configured.tools, configured.documents[0]
    problems: list[Problem] = []
    if wrong := unfit(Path(tools.directory)):
        problems.append(document.problem(("tools", "directory"), wrong))
    if seen(Path(tools.directory).is_file):
        problems.append(document.problem(("tools", "directory"), f"{tools.directory} is a file; name a directory"))
    if builds and tools.mirror and not seen(Path(tools.mirror).is_dir):
        missing = f"{tools.mirror} is not a directory; is it mounted, and made by `iosweep tools mirror`?"
        problems.append(document.problem(("tools", "mirror"), missing))
    if builds and tools.spack and not seen((Path(tools.spack) / "bin" / "spack").exists):
        missing = f"{tools.spack} has no bin/spack; name the directory that Spack was cloned to"
        problems.append(document.problem(("tools", "spack"), missing))
    named = Path(tools.environment) if tools.environment else Path("spack.yaml")
    there = seen(named.exists)
    if tools.environment and not there:
        problems.append(document.problem(("tools", "environment"), f"{named} is not there; name a spack.yaml"))
    if problems:
        raise ConfigError(problems)
    found = spack_yaml.read(named if there else SHIPPED)
    if builds and found.lacking:
        raise ConfigError(list(found.lacking))
    points = made.points if made else ()
    engines = {str(p.options["ioengine"]) for p in points if "ioengine" in p.options}
    mirror = Path(tools.mirror).absolute() if tools.mirror else None
    place = Place(Path(tools.directory), found.digest)
    return Request(found, place, tools.spack, mirror, {p.tool for p in points}, engines)


def seen(look: Callable[[], bool]) -> bool:
    """The result of a test of a path; False where access is denied."""
    try:
        return look()
    except OSError:
        return False
