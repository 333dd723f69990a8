"""What a profile of the workflow says of the site, read without Snakemake."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path

import yaml

from iosweep.errors import Problem, Unusable
from iosweep.jobs import submission

#: As Snakemake looks for them: the highest version wins.
_NAMES = re.compile(r"^(profile|config)(?:\.v(\d+)\+)?\.ya?ml$")
_MINUTES = {
    **dict.fromkeys(("", "m", "min", "minute", "minutes"), 1.0),
    **dict.fromkeys(("h", "hour", "hours"), 60.0),
    **dict.fromkeys(("d", "day", "days"), 1440.0),
    **{"w": 10080.0, "s": 1 / 60},
}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
#: The state of a job is looked at no less often, in seconds, with the profile as it is shipped.
LONGEST_POLL_S = 20


@dataclass(frozen=True)
class Profile:
    """The keys that a site fills in, None where they are not there or are wrong. `memory_mb`: 0 asks for none.

    `slurm`: it is one for Slurm. `problems`: of its default-resources.
    """

    file: str
    partition: str | None = None
    account: str | None = None
    reservation: str | None = None
    license: str | None = None
    limit_min: int | None = None
    memory_mb: int = 0
    launcher: str = "direct"
    tools: str = "path"
    slurm: bool = True
    problems: tuple[Problem, ...] = ()

    @property
    def options(self) -> list[str]:
        """Options of sbatch and srun that say where a job runs, and for whom."""
        given = {"partition": self.partition, "account": self.account, "reservation": self.reservation}
        return [f"--{name}={value}" for name, value in given.items() if value]

    def wrong(self, name: str) -> bool:
        """Whether a default resource is, so that nothing can be said of what depends on it."""
        return any(problem.where == f"default-resources.{name}" for problem in self.problems)


def read(directory: Path) -> Profile:
    """The profile in a directory. Raises Unusable."""
    if (file := _file(directory)) is None:
        raise Unusable(f"{directory} has no profile.v9+.yaml", "name a profile's directory, such as profiles/slurm")
    try:
        text = file.read_text(encoding="utf-8")
        found = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Unusable(f"{file} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(found, dict):
        raise Unusable(f"{file} has no keys", "write for example `executor: iosweep`")
    slurm, resources = found.get("executor") == "iosweep", _resources(found.get("default-resources"))
    wrong = submission.wrong(resources) if slurm else {}
    right = {name: value for name, value in resources.items() if name not in wrong}
    limit, memory = right.get("runtime"), str(right.get("mem_mb", ""))
    return Profile(
        str(file),
        partition=_text(right.get("slurm_partition")),
        account=_text(right.get("slurm_account")),
        reservation=_text(found.get("iosweep-reservation")),
        license=_text(right.get("licenses")),
        limit_min=limit if isinstance(limit, int) else None,
        memory_mb=int(memory) if memory.isdigit() else _mb(right.get("mem")),
        launcher=str(resources.get("launcher") or "direct"),
        tools=str(right.get("tools") or "path"),
        slurm=slurm,
        problems=tuple(
            Problem(str(file), line, f"default-resources.{name}", *why)
            for line, name, why in sorted((_line(text, name), name, why) for name, why in wrong.items())
        ),
    )


def _line(text: str, name: str) -> int:
    """The line of a default resource; else that where they begin."""
    lines = text.splitlines()
    for pattern in (rf"[\s\[{{,'\"-]*{re.escape(name)}[\s'\"]*[=:]", "default-resources"):
        for number, line in enumerate(lines, 1):
            if re.match(pattern, line):
                return number
    return 1


def minutes(value: object) -> int | None:
    """`720`, `12h`, `1d 12h` in minutes, as Snakemake takes them; None if it is none of these."""
    text = str(value).strip().lower()
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text).strip(" ,") or any(unit not in _MINUTES for _, unit in parts):
        return None
    return round(sum(float(number) * _MINUTES[unit] for number, unit in parts)) or None


def _file(directory: Path) -> Path | None:
    """The file that Snakemake takes in a profile's directory."""
    try:
        named = [(_NAMES.match(file.name), file) for file in directory.iterdir()]
    except OSError:
        return None
    return max(((int(m[2] or 0), m[1] == "profile", file) for m, file in named if m), default=(0, False, None))[2]


def _resources(given: object) -> dict[str, object]:
    """Default resources: a mapping, or a list of `name=value` whose strings are quoted. Times and numbers as such."""
    if isinstance(given, dict):
        found = {str(name): _bare(value) for name, value in given.items()}
    else:
        pairs = (str(one).partition("=") for one in given) if isinstance(given, list) else ()
        found = {name.strip(): _bare(value) for name, _, value in pairs}
    limit = found.get("runtime")
    return found if limit is None else found | {"runtime": minutes(limit) or limit}


def _bare(value: object) -> object:
    return value.strip().strip("\"'") if isinstance(value, str) else value


def _mb(size: object) -> int:
    """`64G`, as Snakemake takes `mem`, in MB; 0 without."""
    match = re.fullmatch(r"([\d.]+)\s*([KMGT])?(i?)B?", str(size), re.IGNORECASE)
    if not match:
        return 0
    unit = float((1024 if match[3] else 1000) ** " KMGT".index((match[2] or "M").upper()))
    return math.ceil(float(match[1]) * unit / 1e6)


def _text(value: object) -> str | None:
    return None if value in (None, "") else str(value).strip("\"'")
