"""Judges what Slurm's commands print about itself, a partition and the user. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

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


def controller(output: str) -> Line:
    """`output`: what `scontrol ping` prints, or why there is no answer."""
    up = [line for line in output.splitlines() if re.search(r"\bis UP\b", line)]
    if not up:
        line = next((line for line in output.splitlines() if line.strip()), "no answer")
        return wrong("controller", line, "try again when `scontrol ping` says UP; tell the people who run the cluster")
    return ok("controller", up[0].strip())


def config(text: str) -> dict[str, str]:
    """`scontrol show config` as a mapping; also the keys of its section on cgroups."""
    return {m[1]: query.given(m[2]) for m in re.finditer(r"^(\S+)\s*= ?(.*)$", text, re.MULTILINE)}


def partition_line(lines: Sequence[str], name: str | None) -> str | None:
    """The line of a partition in `scontrol --oneliner show partition`; the default one where none is named."""
    for line in lines:
        found = query.fields(line)
        if found.get("PartitionName") == name if name else found.get("Default") == "YES":
            return line
    return None


def license(asked_for: str, output: str) -> Line:
    """`asked_for`: as `pfs:1,other:2`. `output`: `scontrol --oneliner show licenses`."""
    have = {one.get("LicenseName", ""): one for one in map(query.fields, output.splitlines()) if one}
    for asked in asked_for.split(","):
        name, _, count = asked.partition(":")
        if name not in have:
            known = ", ".join(have) or "none"
            seen = f"there is no license {name} (there are: {known})"
            return wrong("license", seen, f"take one of these for licenses {_PROFILE}, or leave it out")
        total = int(have[name].get("Total", "0"))
        if int(count or 1) > total:
            seen = f"{asked} is asked for, and there are {total}"
            return wrong("license", seen, f'set licenses="{name}:{total}" {_PROFILE}')
        if total >= 2 * int(count or 1):
            seen = f"there are {total} of {name}, and a campaign takes {count or 1}: others run beside it"
            return warning("license", seen, f'take all of them: set licenses="{name}:{total}" {_PROFILE}')
    return ok("license", f"{asked_for}: one campaign at a time holds it")


def memory(p: Profile, settings: Mapping[str, str], line: str, node_list: str) -> Line:
    """What a job has of a node's memory. `line`: the partition's; `node_list`: `sinfo --Node --format=%N|%T|%c|%m`."""
    nodes = [row.split("|") for row in node_list.splitlines() if row.count("|") >= 3]
    sizes = [(int(cpus), int(mb)) for _, _, cpus, mb in (row[:4] for row in nodes) if cpus.isdigit() and mb.isdigit()]
    if not sizes:
        return unchecked("memory", "sinfo shows no nodes of the partition")
    cpus, mb = min(sizes, key=lambda size: size[1])
    of_partition, given = query.fields(line), None
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
    return warning("memory", seen, f"set mem_mb={most} {_PROFILE}" if most > given[0] else "the site allows no more")


def settings(s: Mapping[str, str]) -> Line:
    """What else of Slurm's configuration matters."""
    age = re.match(r"(\d+)(?: sec)?$", s.get("MinJobAge", ""))
    if age and int(age[1]) < LONGEST_POLL_S:
        seen = f"MinJobAge={age[1]} s: Slurm forgets a job before its end is seen ({LONGEST_POLL_S} s)"
        return warning("settings", seen, "ask for MinJobAge=300; otherwise the reason of a failed job is lost")
    return ok("settings", ", ".join(filter(None, map(s.get, ("TaskPlugin", "ProctrackType", "SelectType")))))
