"""Judges what Slurm's commands print about itself, a partition and the user. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from iosweep.findings import Line, ok, unchecked, warning, wrong
from iosweep.jobs.profile import LONGEST_POLL_S, Profile
from iosweep.slurm import query
from iosweep.units import human_size

#: Commands that are needed.
COMMANDS = ("sbatch", "srun", "squeue", "scontrol", "sinfo", "scancel")
#: With a smaller share of a node's memory, the page cache of a job is smaller than the node's.
WHOLE = 0.9

_PROFILE = "in the profile"


def commands(found: Mapping[str, str | None], version: str) -> Line:
    """`found`: command -> its path, or None. `version`: what `sbatch --version` prints."""
    if absent := [name for name in COMMANDS if not found.get(name)]:
        have = [name for name in COMMANDS if found.get(name)]
        seen = f"{', '.join(absent)} not on PATH" + (f" (but {', '.join(have)})" if have else "")
        change = "put Slurm's bin directory on PATH (`module load slurm`), or work on a login node"
        return wrong("commands", seen, change)
    return ok("commands", f"{version.strip() or 'Slurm'}: {', '.join(COMMANDS)}")


def config(text: str) -> dict[str, str]:
    """`scontrol show config` as a mapping; also the keys of its section on cgroups."""
    return {m[1]: query.given(m[2]) for m in re.finditer(r"^(\S+)\s*= ?(.*)$", text, re.MULTILINE)}


def memory(p: Profile, settings: Mapping[str, str], of_partition: Mapping[str, str], node_list: str) -> Line:
    """What a job has of a node's memory. `node_list`: `sinfo --Node --format=%N|%T|%c|%m` of the partition."""
    nodes = [row.split("|") for row in node_list.splitlines() if row.count("|") >= 3]
    sizes = [(int(cpus), int(mb)) for _, _, cpus, mb in (row[:4] for row in nodes) if cpus.isdigit() and mb.isdigit()]
    if not sizes:
        return unchecked("memory", "sinfo shows no nodes of the partition")
    cpus, mb = min(sizes, key=lambda size: size[1])
    given = None
    for key, count in (("DefMemPerNode", 1), ("DefMemPerCPU", cpus)):
        values = (of_partition.get(key, ""), settings.get(key, ""))  # that of the partition counts
        if given is None and (value := next((v for v in values if v.isdigit() and int(v)), None)):
            given = int(value) * count, f"{key} {value} MB"
    if p.memory_mb:
        given = p.memory_mb, f"mem_mb {p.memory_mb} {_PROFILE}"
    whole = f"{human_size(mb << 20)} of a node"
    if "MEMORY" not in settings.get("SelectTypeParameters", "").upper():
        return ok("memory", f"Slurm does not manage memory: a job has all {whole}")
    if given is None or given[0] >= mb * WHOLE:
        return ok("memory", f"a job has all {whole}" + (f" ({given[1]})" if given else ""))
    enforced = settings.get("ConstrainRAMSpace", "no").lower() == "yes"
    caches = "the page cache counts, so caches are smaller than the node's"
    effect = caches if enforced else "it may be killed if it takes more"
    seen = f"a job has {human_size(given[0] << 20)} of the {whole} ({given[1]}); {effect}"
    caps = (of_partition.get("MaxMemPerNode", ""), settings.get("MaxMemPerNode", ""))
    most = min(mb, next((int(v) for v in caps if v.isdigit() and int(v)), mb))
    return warning("memory", seen, f"set mem_mb={most} {_PROFILE}" if most != given[0] else "the site allows no more")


def settings(s: Mapping[str, str]) -> Line:
    """What else of Slurm's configuration matters."""
    age = re.match(r"(\d+)(?: sec)?$", s.get("MinJobAge", ""))
    if age and int(age[1]) < LONGEST_POLL_S:
        seen = f"MinJobAge={age[1]} s: Slurm forgets a job before its end is seen ({LONGEST_POLL_S} s)"
        return warning("settings", seen, "ask for MinJobAge=300; otherwise the reason of a failed job is lost")
    return ok("settings", ", ".join(filter(None, map(s.get, ("TaskPlugin", "ProctrackType", "SelectType")))))
