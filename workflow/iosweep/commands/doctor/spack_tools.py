"""Whether Spack has built the tools, and where, seen from a login node."""

from __future__ import annotations

from dataclasses import dataclass

from iosweep.config.sweeps import Config
from iosweep.errors import ConfigError, Unusable
from iosweep.findings import Line, ok, unchecked, wrong
from iosweep.programs import spack_environment
from iosweep.text import printable


@dataclass(frozen=True)
class SpackTools:
    """`search`: where the nodes find them, None if they are not built yet. `directory`: what all nodes must see."""

    line: Line
    search: str | None = None
    directory: str | None = None


def look(configured: Config, provider: str) -> SpackTools | None:
    """The tools of a configuration; None if they are on PATH. `provider`: the profile's."""
    if (configured.tools.provider or provider) != "spack":
        return None
    try:
        place = spack_environment.read(configured)
        there = spack_environment.read_built(place.file)
    except ConfigError as error:
        return SpackTools(wrong("Spack", str(error.problems[0]), "fix it"))
    except Unusable as error:
        return SpackTools(wrong("Spack", *error.obstacle))
    directory = str(place.root.absolute()) if place.root.is_dir() else None
    if there is None:
        why = f"{place.file} is not there: the first run builds the tools, which may take an hour"
        return SpackTools(unchecked("Spack", why, "`snakemake tools` builds them alone"), directory=directory)
    tools = there.content.tools
    names = ", ".join(f"{name} {(tool.version or '').removeprefix(f'{name}-')}" for name, tool in sorted(tools.items()))
    return SpackTools(ok("Spack", printable(f"{names}, built in {place.file.parent}")), there.search, directory)
