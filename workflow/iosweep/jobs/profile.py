"""A profile of the workflow, which describes the site. The Snakefile, the executor, `plan` and `doctor` use it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from iosweep.errors import Obstacle, Problem, Unusable
from iosweep.plan.launchers import LAUNCHERS, SLURM_LAUNCHERS
from iosweep.text import did_you_mean

#: As Snakemake looks for them: the highest version wins.
_NAMES = re.compile(r"^(profile|config)(?:\.v(\d+)\+)?\.ya?ml$")
_MINUTES = {
    **dict.fromkeys(("", "m", "min", "minute", "minutes"), 1.0),
    **dict.fromkeys(("h", "hour", "hours"), 60.0),
    **dict.fromkeys(("d", "day", "days"), 1440.0),
    **{"w": 10080.0, "s": 1 / 60},
}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")


#: Default resource -> the option of sbatch that it becomes, in the order of the command. sbatch judges the values.
_OPTIONS = {
    "slurm_partition": "partition",
    "slurm_account": "account",
    **{name: name for name in ("qos", "reservation", "constraint", "gres", "gpus", "licenses")},
    "mem_mb": "mem",
    "mem_mb_per_cpu": "mem-per-cpu",
    **{name: name for name in ("exclude", "nodelist", "switches", "begin", "wckey")},
    "mail_user": "mail-user",
    "mail_type": "mail-type",
}
#: Default resource -> the form of its value, and an example.
_FORMS = {
    "mem_mb": (r"\d+", "a number of MB, such as 64000"),
    # squeue shows it last, with | between columns; scontrol has Name=value
    "comment": (r"(?!(.*\s)?[A-Z]\w*=)[^|\x00-\x1f\x7f]*", "one line, without | and Name="),
    "runtime": (r"[1-9]\d*", "minutes, or for example 12h"),
    "launcher": ("|".join(SLURM_LAUNCHERS), f"one of {', '.join(SLURM_LAUNCHERS)}"),
    "tools": ("spack|path", "spack or path"),
    "scheduler": ("slurm", '"slurm": without, the workflow would take the cluster for one machine'),
}
#: Snakemake adds the first three of these by itself.
_KNOWN = (*dict.fromkeys([*_OPTIONS, *_FORMS]), "disk_mb", "disk", "tmpdir", "from_17_nodes")
#: Values for jobs of so many nodes and more, such as `slurm_partition=large qos=long`; these are the same for all jobs.
_FROM = re.compile(r"from_([1-9]\d*)_nodes")
_SAME_FOR_ALL = ("launcher", "tools", "scheduler")
_NEEDED = ("launcher", "scheduler")
_OURS = ("nodes", "tasks", "tasks_per_node", "mpi", "slurm_extra")
#: Resources that name another cluster.
_CLUSTER = ("slurm_cluster", "cluster", "clusters")
#: Names that people write -> the name that is meant, where spelling does not tell.
_MEANT = {
    **dict.fromkeys(("time", "walltime", "time_limit"), "runtime"),
    **{"memory": "mem_mb", "queue": "slurm_partition", "feature": "constraint"},
}


@dataclass(frozen=True)
class Profile:
    """The values of a profile.

    `given`: its valid default-resources, with `runtime` in minutes and `mem_mb` in MB. `slurm`: it is a profile for
    Slurm. `larger`: number of nodes -> the profile for jobs of so many nodes and more.
    """

    file: str = "profile"
    given: Mapping[str, object] = field(default_factory=dict)
    slurm: bool = True
    problems: tuple[Problem, ...] = ()
    larger: Mapping[int, Profile] = field(default_factory=dict)

    def at(self, nodes: int) -> Profile:
        """The profile for jobs of so many nodes."""
        return self.larger.get(max((least for least in self.larger if least <= nodes), default=0), self)

    def _text(self, name: str) -> str | None:
        return str(self.given.get(name) or "") or None

    @property
    def partition(self) -> str | None:
        """A partition, or several with commas between them."""
        return self._text("slurm_partition")

    @property
    def license(self) -> str | None:
        return self._text("licenses")

    @property
    def limit_min(self) -> int | None:
        """The longest wall time of one job, in minutes."""
        return int(self._text("runtime") or 0) or None

    @property
    def launcher(self) -> str:
        return self._text("launcher") or "direct"

    @property
    def tools(self) -> str:
        """Where tools come from, unless the configuration says so: spack or path."""
        return self._text("tools") or "path"

    @property
    def options(self) -> list[str]:
        """Options of sbatch that all jobs share."""
        return [f"--{option}={value}" for name, option in _OPTIONS.items() if (value := self._text(name))]


def parse(resources: Mapping[str, object], slurm: bool, file: str = "profile", text: str = "") -> Profile:
    """Read default resources. `text`: of the file, for the lines of problems. Pure."""
    # values that are no numbers or times stay as they are
    given = {str(k): v.strip().strip("\"'") if isinstance(v, str) else v for k, v in resources.items()}
    given = {name: int(v) if isinstance(v, str) and v.isdecimal() else v for name, v in given.items()}
    if "runtime" in given:
        given["runtime"] = minutes(given["runtime"]) or given["runtime"]
    wrong: dict[str, Obstacle] = {}
    larger: dict[int, Profile] = {}
    sizes = sorted((int(match[1]), name, str(given.pop(name))) for name in [*given] if (match := _FROM.fullmatch(name)))
    asked = given
    for least, name, text_of_size in sizes:  # each adds to those of fewer nodes
        words = [word.partition("=") for word in text_of_size.split()]
        asked = asked | {key: value for key, _, value in words}
        larger[least] = parse(asked, slurm, file)
        if odd := [key for key, equals, _ in words if not equals or key in _SAME_FOR_ALL]:
            wrong[name] = Obstacle(f"`{odd[0]}` cannot be here", "write for example slurm_partition=large qos=long")
    for name in (*given, *_NEEDED) if slurm else {"launcher", "tools"} & given.keys():
        if why := _wrong(name, given.get(name), slurm):
            wrong[name] = why
    for least, name, _ in sizes:
        for problem in larger[least].problems:
            if (key := problem.where.removeprefix("default-resources.")) not in wrong:
                wrong.setdefault(name, Obstacle(f"{key}: {problem.message}", problem.remedy))
    problems = sorted((_line(text, name) if text else 0, name, why) for name, why in wrong.items())
    return Profile(
        file,
        {name: value for name, value in given.items() if name not in wrong},
        slurm,
        tuple(Problem(file, line, f"default-resources.{name}", why.what, why.remedy) for line, name, why in problems),
        larger,
    )


def read(directory: Path) -> Profile:
    """The profile in a directory. Raises Unusable."""
    named = [(_NAMES.match(file.name), file) for file in (directory.iterdir() if directory.is_dir() else ())]
    fitting = sorted((int(m[2] or 0), m[1] == "profile", file) for m, file in named if m)
    if not fitting:
        raise Unusable(f"{directory} has no profile.v9+.yaml", "name a profile's directory, such as profiles/slurm")
    *_, file = fitting[-1]  # as Snakemake takes it
    try:
        text = file.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Unusable(f"{file} cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise Unusable(f"{file} has no keys", "write for example `executor: iosweep`")
    given = content.get("default-resources")
    if not isinstance(given, dict):
        pairs = (str(pair).partition("=") for pair in (given if isinstance(given, list) else ()))
        given = {name.strip(): value for name, _, value in pairs}
    return parse(given, content.get("executor") == "iosweep", str(file), text)


def _wrong(name: str, value: object, slurm: bool) -> Obstacle | None:
    """The problem of a default resource, with its remedy, or None."""
    if name in _OURS:
        return Obstacle("the workflow sets it itself", "leave it out")
    if name in _CLUSTER:
        return Obstacle("the state of a job there is not asked for", "leave it out, and export SLURM_CLUSTERS=NAME")
    if name not in _KNOWN:  # Snakemake ignores these without a message
        plain = name.replace("-", "_").removeprefix("slurm_").removeprefix("iosweep_")
        meant = next((one for one in (_MEANT.get(name), plain, f"slurm_{plain}") if one in _KNOWN), None)
        near = f"did you mean `{meant}`?" if meant else did_you_mean(name, _KNOWN).removeprefix("; ")
        return Obstacle("unknown", near or f"known are {', '.join(_KNOWN)}")
    form, example = _FORMS.get(name, (".*", ""))
    if name == "launcher" and not slurm:
        form, example = "|".join(LAUNCHERS), f"one of {', '.join(LAUNCHERS)}"
    text = "" if value is None else str(value)
    if re.fullmatch(form, text, re.ASCII) or not (text or name in _NEEDED):
        return None
    if name == "runtime" and (means := slurm_minutes(text)):
        example = spelt(means)
    return Obstacle(f"it cannot be `{text}`" if text else "there is none", f"write {example}")


def _line(text: str, name: str) -> int:
    """The line of a default resource; else the line of `default-resources`."""
    lines = text.splitlines()
    for pattern in (rf"[\s\[{{,'\"-]*{re.escape(name)}[\s'\"]*[=:]", "default-resources"):
        for number, line in enumerate(lines, 1):
            if re.match(pattern, line):
                return number
    return 1


def minutes(time: object) -> int | None:
    """`720`, `12h`, `1d 12h` in minutes, as Snakemake reads them; None for other forms."""
    text = str(time).strip().lower()
    parts = _SPAN.findall(text)
    if not parts or _SPAN.sub("", text).strip(" ,") or any(unit not in _MINUTES for _, unit in parts):
        return None
    return round(sum(float(number) * _MINUTES[unit] for number, unit in parts)) or None


def slurm_minutes(text: str) -> int | None:
    """`2-12:00:00`, `1:00:00` in minutes, as Slurm writes them; None for `UNLIMITED` and others."""
    if not (match := re.fullmatch(r"(?:(\d+)-)?(\d+):(\d+):(\d+)", text)):
        return None
    days, hours, mins, _ = (int(part or 0) for part in match.groups())
    return days * 1440 + hours * 60 + mins


def spelt(minutes: int) -> str:
    """Minutes as a profile writes them: 24h, 90m."""
    return f"{minutes}m" if minutes % 60 else f"{minutes // 60}h"
