"""Judges what Slurm's commands print about itself, a partition and the user. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from iosweep.findings import Line, ok, unchecked, warning, wrong
from iosweep.jobs import submission
from iosweep.jobs.profile import LONGEST_POLL_S, Profile
from iosweep.slurm.query import fields
from iosweep.text import did_you_mean, human_count
from iosweep.units import human_duration, human_size

#: Commands that are needed; sacct only tells more about ended jobs.
COMMANDS = ("sbatch", "srun", "squeue", "scontrol", "sinfo", "scancel")
#: Seconds between SIGTERM and SIGKILL (scancel, time limit) that removing the files of a repetition takes.
LEAST_KILL_WAIT_S = 15
#: With a smaller share of a node's memory, the page cache of a job is smaller than the node's.
WHOLE = 0.9

_PROFILE = "in the profile"
#: Seconds after which a controller counts as slow.
_SLOW_S = 5.0


def commands(found: Mapping[str, str | None], version: str) -> Line:
    """`found`: command -> its path, or None. `version`: what `sbatch --version` prints."""
    if absent := [name for name in COMMANDS if not found.get(name)]:
        have = [name for name in COMMANDS if found.get(name)]
        seen = f"{', '.join(absent)} not on PATH" + (f" (but {', '.join(have)})" if have else "")
        change = "put Slurm's bin directory on PATH (`module load slurm`), or work on a login node"
        return wrong("commands", seen, change)
    more = "" if found.get("sacct") else "; no sacct, which is not needed"
    return ok("commands", f"{version.strip() or 'Slurm'}: {', '.join(COMMANDS)}{more}")


def controller(output: str, took_s: float) -> Line:
    """`output`: what `scontrol ping` prints, or why there is no answer."""
    up = [line for line in output.splitlines() if re.search(r"\bis UP\b", line)]
    if not up:
        line = next((line for line in output.splitlines() if line.strip()), "no answer")
        return wrong("controller", line, "try again when `scontrol ping` says UP; tell the people who run the cluster")
    if took_s > _SLOW_S:
        change = "poll it less: a busy controller also starts jobs late"
        return warning("controller", f"answers after {took_s:.1f} s", change)
    return ok("controller", f"{up[0].strip()}, answers in {took_s * 1000:.0f} ms")


def config(text: str) -> dict[str, str]:
    """`scontrol show config` as a mapping; also the keys of its section on cgroups."""
    return {m[1]: m[2].strip() for m in re.finditer(r"^(\S+)\s*= ?(.*)$", text, re.MULTILINE)}


def partition_line(lines: Sequence[str], name: str | None) -> str | None:
    """The line of a partition in `scontrol --oneliner show partition`; the default one where none is named."""
    for line in lines:
        found = fields(line)
        if found.get("PartitionName") == name if name else found.get("Default") == "YES":
            return line
    return None


def partition(p: Profile, lines: Sequence[str], groups: Sequence[str], root: bool, host: str) -> list[Line]:
    """The partition itself, and whether we may use it. `lines`: of `scontrol --oneliner show partition`."""
    if p.partition and "," in p.partition:
        return [unchecked("partition", f"{p.partition} is a list of partitions", "name one to have it checked")]
    names = ", ".join(fields(line).get("PartitionName", "?") for line in lines) or "none"
    line = partition_line(lines, p.partition)
    if line is None:
        absent = f"no partition {p.partition}" if p.partition else "no default partition, and the profile names none"
        seen = f"there is {absent} (there are: {names})"
        return [wrong("partition", seen, f"set slurm_partition {_PROFILE} to one of these")]
    found, limits = fields(line), submission.partition(line)
    chosen = f"{limits.name}{'' if p.partition else ' (the default one)'}"
    if limits.state != "UP":
        change = f"take another slurm_partition {_PROFILE}, or wait until it is UP"
        return [wrong("partition", f"{chosen} is {limits.state}", change)]
    problems = [wrong("partition", f"{chosen} {why}", change) for why, change in _closed(p, found, groups, root, host)]
    if (preempts := found.get("PreemptMode", "OFF")) not in ("OFF", ""):
        seen = f"{chosen} may end jobs for the sake of others (PreemptMode={preempts})"
        change = f"a campaign goes on in another job; for long ones take another slurm_partition {_PROFILE}"
        problems.append(warning("partition", seen, change))
    return problems or [ok("partition", f"{chosen} is UP, OverSubscribe={found.get('OverSubscribe') or 'NO'}")]


def _closed(
    p: Profile, found: Mapping[str, str], groups: Sequence[str], root: bool, host: str
) -> Iterator[tuple[str, str]]:
    """Why we cannot use a partition, and what to change."""
    another = f"take another slurm_partition {_PROFILE}"
    if (shared := found.get("OverSubscribe", "")).startswith("FORCE"):
        yield f"shares nodes whatever a job asks for (OverSubscribe={shared})", f"others would disturb; {another}"
    if (allowed := _names(found.get("AllowGroups", "ALL"))) and not {"ALL", *groups} & set(allowed):
        yield f"is for the groups {', '.join(allowed)}, and you are in none of them", another
    if (allowed := _names(found.get("AllowAccounts", "ALL"))) and p.account and not {"ALL", p.account} & set(allowed):
        yield f"is for the accounts {', '.join(allowed)}, and not for {p.account}", f"{another}, or slurm_account"
    if found.get("RootOnly") == "YES" and not root:
        yield "takes jobs of root only", another
    if found.get("ReqResv") == "YES" and not p.reservation:
        yield "takes jobs with a reservation only", f"set iosweep-reservation {_PROFILE}"
    hosts = found.get("AllocNodes", "ALL")
    if "[" not in hosts and not {"ALL", "", host} & set(hosts.split(",")):
        yield f"takes jobs from {hosts} only, and this is {host}", "work there"


def keys(p: Profile, known: Collection[str]) -> list[Line]:
    """Keys of the profile that Snakemake would not take. `known`: all that it has, none if that is not known."""
    lines = []
    for key in sorted(p.keys - set(known)) if known else ():
        change = did_you_mean(key, known, 0.7).removeprefix("; ") or "see `snakemake --help`"
        lines.append(wrong("profile", f"{p.file}: snakemake has no key `{key}`", change))
    return lines


def wall_time(p: Profile, limits: submission.Partition, asked_min: int | None = None) -> Line:
    """The longest job of the profile against that of the partition. `asked_min`: the longest that will be asked for."""
    most = limits.limit_min
    allows = "any time" if most is None else human_duration(most * 60)
    less = f"set runtime={submission.spelt(most)} or less {_PROFILE}" if most else f"set runtime {_PROFILE}"
    if p.wrong("runtime"):
        return unchecked("wall time", f"what runtime {_PROFILE} means is not known; {limits.name} allows {allows}")
    if p.limit_min is None:
        return warning("wall time", f"no runtime {_PROFILE}; the partition allows {allows}", less)
    asked = human_duration(p.limit_min * 60) if p.limit_min % 60 else f"{p.limit_min // 60} h"
    if most is not None and p.limit_min > most:
        seen = f"runtime {asked} {_PROFILE}; {limits.name} allows {allows}"
        change = f"{less}; what takes longer goes on in another job"
        if asked_min is not None and asked_min <= most:
            needs = f"; the configuration needs {human_duration(asked_min * 60)}, more only after a job that failed"
            return warning("wall time", seen + needs, change)
        return wrong("wall time", seen, change)
    return ok("wall time", f"runtime {asked} at most; {limits.name} allows {allows}")


def nodes(needed: int | None, limits: submission.Partition, states: str) -> Line:
    """The largest node count of the configuration. `states`: of `sinfo --format=%D|%T`."""
    able, not_able = submission.usable(states)
    counts = ", ".join(line.replace("|", " ") for line in states.split())
    have = f"{limits.name} has {human_count(limits.nodes, 'node')} ({counts})"
    most = min(limits.nodes, limits.most_nodes or limits.nodes)
    if most < limits.nodes:
        have += f", {most} at most for a job"
    if needed is None:
        return ok("node count", f"{have}; which are needed is not known without a configuration")
    asked = f"the configuration asks for {needed}"
    if needed > most:
        fewer = "ask for fewer nodes in the configuration (axes: nodes), or take another slurm_partition"
        return wrong("node count", f"{asked}; {have}", f"{fewer} {_PROFILE}")
    if needed > able:
        seen = f"{asked}; {have}, {able} of use now"
        return warning("node count", seen, f"jobs wait until more are back ({not_able})")
    return ok("node count", f"{asked}; {have}")


def account(p: Profile, settings: Mapping[str, str], associations: str | None) -> Line:
    """`associations`: of `sacctmgr show associations` of us: account|partition|default, or None without an answer."""
    kind = settings.get("AccountingStorageType", "")
    asked = f"slurm_account {p.account}" if p.account else "the default one"
    if not kind or kind.endswith("/none"):
        return ok("account", f"no accounting database, so any account is taken ({asked})")
    if associations is None:
        return unchecked("account", f"{asked}; sacctmgr does not answer")
    enforced = "associations" in settings.get("AccountingStorageEnforce", "")
    rows = [line.split("|") for line in associations.splitlines() if line.strip()]
    mine = list(dict.fromkeys(row[0] for row in rows))
    yours = f"yours: {', '.join(mine)}" if mine else "you have none"
    if p.account is None:
        if rows:
            default = next((row[2] for row in rows if len(row) > 2 and row[2]), "")
            return ok("account", f"the default one{f' ({default})' if default else ''}; {yours}")
        seen = "you have no account in the accounting database"
        if not enforced:
            return ok("account", f"{seen}, and none is needed")
        return wrong("account", seen, "ask the people who run the cluster for one")
    fits = [row for row in rows if row[0] == p.account and (len(row) < 2 or row[1] in ("", p.partition or ""))]
    if fits:
        return ok("account", f"{p.account}; {yours}")
    of_partition = f" in the partition {p.partition}" if p.account in mine else ""
    seen = f"{p.account} is not an account of yours{of_partition} ({yours})"
    change = f"set slurm_account {_PROFILE} to one of yours"
    return wrong("account", seen, change) if enforced else warning("account", f"{seen}; it is accepted anyway", change)


def reservation(p: Profile, output: str | None, user: str, now: float) -> Line | None:
    """`output`: `scontrol --oneliner show reservation NAME`, with times in seconds, or None where there is none."""
    if not p.reservation:
        return None
    change = f"see `scontrol show reservations` for iosweep-reservation {_PROFILE}"
    found = fields(output or "")
    if not found:
        return wrong("reservation", f"there is no reservation {p.reservation}", change)
    count = f"{found.get('NodeCnt', '?')} nodes ({found.get('Nodes', '?')})"
    users, accounts = (_names(found.get(key, "")) for key in ("Users", "Accounts"))
    others = user not in users if users else bool(p.account) and p.account not in accounts
    if others and bool(users) != bool(accounts):
        whose = ", ".join([*users, *accounts])
        return wrong("reservation", f"{p.reservation} is for {whose}, and not for {p.account or user}", change)
    if found.get("State") != "ACTIVE":
        begins = _when(found.get("StartTime", ""), now)
        seen = f"{p.reservation} is {found.get('State', '?')}, of {count}; it begins {begins}"
        return warning("reservation", seen, "jobs wait until then")
    return ok("reservation", f"{p.reservation} is active, {count}, until {_when(found.get('EndTime', ''), now)}")


def _names(text: str) -> list[str]:
    return [] if text in ("", "(null)") else text.split(",")


def _when(text: str, now: float) -> str:
    if not text.isdigit():
        return text or "at an unknown time"
    there = datetime.fromtimestamp(float(text))
    return f"{there:%H:%M}" if abs(float(text) - now) < 43200 else f"{there:%F %H:%M}"


def license(p: Profile, output: str) -> Line | None:
    """`output`: `scontrol --oneliner show licenses`. None if the profile names none."""
    if p.wrong("licenses"):
        return unchecked("license", f"what licenses {_PROFILE} means is not known")
    if not p.license:
        return None
    have = {one.get("LicenseName", ""): one for one in map(fields, output.splitlines()) if one}
    for asked in p.license.split(","):
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
    return ok("license", f"{p.license}: one campaign at a time holds it")


def accepted(
    nodes: int, output: str | None, refused: str, memory_mb: int, now: float, limits: submission.Partition, states: str
) -> Line:
    """`output`: what `sbatch --test-only` prints, with times in seconds; None if it fails, then `refused` says why.

    `memory_mb`: what is asked for on each node. `states`: of `sinfo --format=%D|%T`.
    """
    asked = human_count(nodes, "whole node")
    if output is None and submission.for_now(refused, nodes, limits, states):
        _, not_able = submission.usable(states)
        return unchecked("submission", f"sbatch finds no {asked} now, as nodes are out of service ({not_able})")
    if output is None:
        return wrong("submission", f"Slurm refuses {asked}: {refused}", submission.meaning(refused, memory_mb))
    begins = re.search(r"to start at (\d+)\b", output)
    where = re.search(r"on nodes (\S+)", output)
    seen = f"Slurm takes a job of {asked}"
    if begins and float(begins[1]) > now + 60:
        return ok("submission", f"{seen}; it would start at {_when(begins[1], now)} at the latest")
    return ok("submission", seen + (f"; it would start at once on {where[1]}" if where else ""))


def mpi_types(output: str) -> list[str]:
    """What `srun --mpi=list` prints: a title, then one a line, on stdout or stderr, after `srun: ` or not."""
    found = re.findall(r"^\s*(?:srun: )?(\w+)\s*$", output, re.MULTILINE)
    return found or re.findall(r"\w+", output.rpartition("...")[2])


def mpi(p: Profile, types: Sequence[str], needed: bool) -> Line:
    """`types`: what srun offers. `needed`: whether the configuration has tools with MPI."""
    offered = ", ".join(sorted(types)) or "nothing"
    if p.wrong("launcher"):
        return unchecked("MPI", f"what launcher {_PROFILE} means is not known; srun offers {offered}")
    wanted = {"srun": "pmi2", "srun-pmix": "pmix"}.get(p.launcher)
    if wanted is None or wanted in types:
        return ok("MPI", f"launcher {p.launcher}; srun offers {offered}")
    other = "srun-pmix" if wanted == "pmi2" and "pmix" in types else "mpiexec"
    seen = f"launcher {p.launcher} needs {wanted}; srun offers {offered}"
    change = f'set launcher="{other}" {_PROFILE}'
    return wrong("MPI", seen, change) if needed else warning("MPI", f"{seen}; fio needs no MPI", change)


def no_mpi(p: Profile, pmi: str, output: str) -> Line | None:
    """`output`: why srun could not start `true` on a node; None where that says nothing of MPI."""
    if not re.search("mpi|pmi", output, re.IGNORECASE):
        return None
    change = f'set launcher="{"srun-pmix" if pmi == "pmi2" else "srun"}" or "mpiexec" {_PROFILE}'
    return wrong("MPI", f"launcher {p.launcher}: on a node `srun --mpi={pmi}` fails: {output}", change)


def memory(p: Profile, settings: Mapping[str, str], line: str, node_list: str) -> Line:
    """What a job has of a node's memory. `line`: the partition's; `node_list`: `sinfo --Node --format=%N|%T|%c|%m`."""
    nodes = [row.split("|") for row in node_list.splitlines() if row.count("|") >= 3]
    sizes = [(int(cpus), int(mb)) for _, _, cpus, mb in (row[:4] for row in nodes) if cpus.isdigit() and mb.isdigit()]
    if not sizes:
        return unchecked("memory", "sinfo shows no nodes of the partition")
    cpus, mb = min(sizes, key=lambda size: size[1])
    if p.memory_mb > mb:
        seen = f"mem_mb={p.memory_mb} {_PROFILE}; the smallest node of the partition has {mb}"
        return wrong("memory", seen, f"set mem_mb={mb} or less {_PROFILE}")
    of_partition = fields(line)

    def limit(key: str) -> tuple[int, str] | None:
        """MB that a job has by a key of the partition, or else of Slurm's configuration, and what says so."""
        values = (of_partition.get(key, ""), settings.get(key, ""))
        value = next((value for value in values if value.isdigit() and int(value)), None)
        return (int(value) * (cpus if key.endswith("CPU") else 1), f"{key} {value} MB") if value else None

    given = limit("DefMemPerNode") or limit("DefMemPerCPU")
    for most in filter(None, (limit("MaxMemPerNode"), limit("MaxMemPerCPU"))):
        given = most if given is None or given[0] > most[0] else given
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
    return warning("memory", seen, f"set mem_mb={mb} {_PROFILE}")


def settings(s: Mapping[str, str]) -> list[Line]:
    """What else of Slurm's configuration matters: one line if all is well, else one for each thing that is not."""
    lines = []
    task, track = s.get("TaskPlugin", ""), s.get("ProctrackType", "")
    seconds = {key: re.match(r"(\d+)(?: sec)?$", s.get(key, "")) for key in ("KillWait", "MinJobAge")}
    known = {key: int(match[1]) for key, match in seconds.items() if match}
    if task in ("", "task/none"):
        seen = f"TaskPlugin={task or 'none'}: srun cannot bind ranks to CPUs"
        change = "ask for task/affinity or task/cgroup; without them processes move between CPUs"
        lines.append(warning("pinning", seen, change))
    if track == "proctrack/pgid":
        seen = f"ProctrackType={track}: what leaves its process group outlives a job"
        lines.append(warning("processes", seen, "ask for proctrack/cgroup; fio's workers leave theirs"))
    if (age := known.get("MinJobAge", LONGEST_POLL_S)) < LONGEST_POLL_S:
        seen = f"MinJobAge={age} s: Slurm forgets a job before its end is seen ({LONGEST_POLL_S} s)"
        lines.append(warning("status", seen, "ask for MinJobAge=300; otherwise the reason of a failed job is lost"))
    if (kill := known.get("KillWait", LEAST_KILL_WAIT_S)) < LEAST_KILL_WAIT_S:
        seen = f"KillWait={kill} s: after scancel there is no time to remove files on the target"
        lines.append(warning("job's end", seen, "nothing measured is lost; the next run removes them"))
    shown = [task, track, s.get("SelectType", ""), *(f"{key} {value} s" for key, value in known.items())]
    return lines or [ok("settings", ", ".join(filter(None, shown)))]
