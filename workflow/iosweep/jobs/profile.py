"""What a profile of the workflow says of the site: one model for the Snakefile, the executor, `plan` and `doctor`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

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
#: The state of a job is looked at no less often, in seconds, with the profile as it is shipped.
LONGEST_POLL_S = 20


class _Key(NamedTuple):
    """A default resource: the option of sbatch that it becomes if it does, what its value has to be, and an example."""

    option: str
    form: str
    example: str


_NAME, _NODES = r"[\w.@+-]+", r"[\w.,\[\]-]+"
_LIST = rf"{_NAME}(,{_NAME})*"
#: Those of sbatch in the order of the command.
_KEYS = {
    "slurm_partition": _Key("partition", _LIST, "compute, or a,b for the first that can"),
    "slurm_account": _Key("account", _NAME, "one of yours (`sacctmgr show associations user=$USER`)"),
    "qos": _Key("qos", _LIST, "one that `sacctmgr show qos` has"),
    "reservation": _Key("reservation", _LIST, "one that `scontrol show reservations` has"),
    "constraint": _Key("constraint", r"[\w.@&|*:,()\[\]-]+", "features that `sinfo --format=%f` has, such as ib&ssd"),
    "gres": _Key("gres", r"[\w.:,/=-]+", "gpu:2"),
    "gpus": _Key("gpus", r"[\w.:,-]+", "4"),
    "licenses": _Key("licenses", rf"{_NAME}(:\d{{1,6}})?(,{_NAME}(:\d{{1,6}})?)*", "one of `scontrol show licenses`"),
    "mem_mb": _Key("mem", r"\d+", "a number of MB, such as 64000"),
    "mem_mb_per_cpu": _Key("mem-per-cpu", r"\d+", "a number of MB"),
    "exclude": _Key("exclude", _NODES, "nodes, such as n[1-3],n7"),
    "nodelist": _Key("nodelist", _NODES, "nodes, such as n[1-3],n7"),
    "switches": _Key("switches", r"\d+(@[\d:-]+)?", "1, or 1@02:00:00 for two hours at most"),
    "begin": _Key("begin", r"[\w:.+-]+", "now+1hour, 20:00 or 2031-01-31T20:00"),
    "wckey": _Key("wckey", rf"\*?{_NAME}", "one of yours"),
    "mail_user": _Key("mail-user", r"[\w.@+,-]+", "an address"),
    "mail_type": _Key("mail-type", r"\w+(,\w+)*", "END,FAIL"),
    "comment": _Key("", r"(?!(.*\s)?[A-Z]\w*=)[^|\x00-\x1f\x7f]*", "one line, without | and Name="),
    "runtime": _Key("", r"[1-9]\d*", "minutes, or for example 12h"),
    "launcher": _Key("", "|".join(SLURM_LAUNCHERS), f"one of {', '.join(SLURM_LAUNCHERS)}"),
    "tools": _Key("", "spack|path", "spack or path"),
    "scheduler": _Key("", "slurm", '"slurm": without, the workflow would take the cluster for one machine'),
}
_KNOWN = (*_KEYS, "disk_mb", "disk", "tmpdir", "from_17_nodes")  # Snakemake adds the first of these
#: What differs for jobs of so many nodes and more, as `slurm_partition=large qos=long`.
_FROM = re.compile(r"from_([1-9]\d*)_nodes")
_SAME_FOR_ALL = ("launcher", "tools", "scheduler")
#: Names by which a job would go to another cluster, where its state is not asked for.
_CLUSTER = ("slurm_cluster", "cluster", "clusters")
#: The workflow's to set.
_OURS = (
    *("nodes", "slurm_extra", "mpi", "tasks", "ntasks", "tasks_per_node", "tasks_per_gpu", "cpus_per_task"),
    *("exclusive", "overcommit", "dependency", "job_name", "output"),
)
_NEEDED = ("launcher", "scheduler")
#: What people write, where the nearest name is another one.
_MEANT = {
    **dict.fromkeys(("time", "walltime", "time_limit"), "runtime"),
    **{"memory": "mem_mb", "queue": "slurm_partition", "feature": "constraint"},
}


@dataclass(frozen=True)
class Profile:
    """What a profile says. What it does not say, or says wrongly, is not in `given`.

    `given`: of its default-resources, with `runtime` in minutes and `mem_mb` in MB. `larger`: what differs from that,
    by the number of nodes from which it does. `slurm`: it is one for Slurm.
    """

    file: str = "profile"
    given: Mapping[str, object] = field(default_factory=dict)
    larger: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    slurm: bool = True
    problems: tuple[Problem, ...] = ()

    def at(self, nodes: int) -> Profile:
        """What it says of jobs of so many nodes."""
        given = dict(self.given)
        for least in sorted(self.larger):
            given |= self.larger[least] if nodes >= least else {}
        return replace(self, given=given, larger={})

    def _text(self, name: str) -> str | None:
        return str(self.given.get(name) or "") or None

    @property
    def partition(self) -> str | None:
        """One, or more with commas between them."""
        return self._text("slurm_partition")

    @property
    def license(self) -> str | None:
        return self._text("licenses")

    @property
    def limit_min(self) -> int | None:
        """The longest wall time of one job, in minutes."""
        return int(self._text("runtime") or 0) or None

    @property
    def memory_mb(self) -> int:
        """On each node; 0 asks for none."""
        return int(self._text("mem_mb") or 0)

    @property
    def launcher(self) -> str:
        return self._text("launcher") or "direct"

    @property
    def tools(self) -> str:
        """Where they come from if the configuration does not say so."""
        return self._text("tools") or "path"

    @property
    def options(self) -> list[str]:
        """Options of sbatch, except those by which jobs differ."""
        given = {key.option: self._text(name) for name, key in _KEYS.items() if key.option}
        return [f"--{option}={value}" for option, value in given.items() if value]


def of(resources: Mapping[str, object], slurm: bool, file: str = "profile", text: str = "") -> Profile:
    """From default resources as they are written, and the text that has them, for the lines. Pure."""
    found = _converted(resources)
    given = {name: value for name, value in found.items() if not _FROM.fullmatch(name)}
    larger = {
        int(m[1]): _converted(_pairs(str(value).split()))
        for name, value in found.items()
        if (m := _FROM.fullmatch(name))
    }
    checked = (*given, *_NEEDED) if slurm else [name for name in ("launcher", "tools") if name in given]
    wrong = {name: why for name in checked if (why := _wrong(name, given.get(name), slurm))}
    for least, differs in larger.items():
        for name, value in differs.items():
            same = Obstacle("it is one for all jobs", "write it without a number of nodes")
            if why := same if name in _SAME_FOR_ALL or _FROM.fullmatch(name) else _wrong(name, value, slurm):
                wrong[f"from_{least}_nodes"] = Obstacle(f"{name}: {why.what}", why.remedy)
    for name, value in found.items():
        if _FROM.fullmatch(name) and (bare := [word for word in str(value).split() if "=" not in word]):
            wrong[name] = Obstacle(f"`{bare[0]}` has no value", "write for example slurm_partition=large qos=long")
    problems = sorted((_line(text, name) if text else 0, name, why) for name, why in wrong.items())
    return Profile(
        file,
        {name: value for name, value in given.items() if name not in wrong},
        {least: differs for least, differs in larger.items() if f"from_{least}_nodes" not in wrong},
        slurm,
        tuple(Problem(file, line, f"default-resources.{name}", *why) for line, name, why in problems),
    )


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
    given = found.get("default-resources")
    if not isinstance(given, dict):
        given = _pairs(given if isinstance(given, list) else ())
    chosen = of(given, found.get("executor") == "iosweep", str(file), text)
    lost = Obstacle("it is not for here", 'what jobs ask for is in default-resources, such as `- qos="benchmark"`')
    ours = re.compile("iosweep-(?!poll-seconds$)|set-resources$")  # ExecutorSettings
    strange = [str(key) for key in found if ours.match(str(key))]
    more = [Problem(str(file), _line(text, key), key, *lost) for key in strange]
    return replace(chosen, problems=(*chosen.problems, *more))


def _converted(resources: Mapping[str, object]) -> dict[str, object]:
    """Without quotes, numbers as such, and `runtime` in minutes; as they are where that fails."""
    found = {str(k): v.strip().strip("\"'") if isinstance(v, str) else v for k, v in resources.items()}
    found = {name: int(v) if isinstance(v, str) and v.isdecimal() else v for name, v in found.items()}
    return found if "runtime" not in found else found | {"runtime": minutes(found["runtime"]) or found["runtime"]}


def _pairs(given: Iterable[object]) -> dict[str, object]:
    return {name.strip(): value for name, _, value in (str(one).partition("=") for one in given)}


def _wrong(name: str, value: object, slurm: bool) -> Obstacle | None:
    """What is wrong with a default resource, and what would be right; None if nothing is."""
    if why := _unknown(name):
        return why
    key, text = _KEYS.get(name), "" if value is None else str(value)
    if name == "launcher" and not slurm:
        key = _Key("", "|".join(LAUNCHERS), f"one of {', '.join(LAUNCHERS)}")
    if key is None or re.fullmatch(key.form, text, re.ASCII) or not (text or name in _NEEDED):
        return None
    means = slurm_minutes(text) if name == "runtime" else None
    example = spelt(means) if means else key.example
    return Obstacle(f"it cannot be `{text}`" if text else "there is none", f"write {example}")


def _unknown(name: str) -> Obstacle | None:
    """Why a profile must not set this resource, or None. Snakemake ignores unknown ones without a message."""
    if name in _OURS:
        return Obstacle("the workflow sets it itself", "leave it out")
    if name in _CLUSTER:
        lost = "a job there would seem lost, as its state is asked of this cluster"
        return Obstacle(lost, "leave it out, and set SLURM_CLUSTERS to that cluster where snakemake is called")
    if name in _KNOWN or _FROM.fullmatch(name):
        return None
    plain = name.replace("-", "_").removeprefix("slurm_").removeprefix("iosweep_")
    meant = next((one for one in (_MEANT.get(name), plain, f"slurm_{plain}") if one in _KNOWN), None)
    near = f"did you mean `{meant}`?" if meant else did_you_mean(name, _KNOWN).removeprefix("; ")
    return Obstacle("unknown", near or f"known are {', '.join(_KNOWN)}")


def _line(text: str, name: str) -> int:
    """The line of a default resource; else that where they begin."""
    lines = text.splitlines()
    for pattern in (rf"[\s\[{{,'\"-]*{re.escape(name)}[\s'\"]*[=:]", "default-resources"):
        for number, line in enumerate(lines, 1):
            if re.match(pattern, line):
                return number
    return 1


def minutes(time: object) -> int | None:
    """`720`, `12h`, `1d 12h` in minutes, as Snakemake takes them; None if it is none of these."""
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


def _file(directory: Path) -> Path | None:
    """The file that Snakemake takes in a profile's directory."""
    try:
        named = [(_NAMES.match(file.name), file) for file in directory.iterdir()]
    except OSError:
        return None
    return max(((int(m[2] or 0), m[1] == "profile", file) for m, file in named if m), default=(0, False, None))[2]
