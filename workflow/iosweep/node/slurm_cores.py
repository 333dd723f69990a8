"""Whether Slurm keeps jobs off reserved CPUs, and in whose numbers: steps 5 and 8. Pure."""

from __future__ import annotations

from iosweep.findings import Line, inapplicable, ok, unchecked, warning, wrong
from iosweep.node.cpus import listed, named, parsed
from iosweep.node.probed_cpus import NUMBERING, SLURM, Node, are
from iosweep.node.slurm_numbering import Spec

_CONFINED = "TaskPlugin=task/affinity,task/cgroup in slurm.conf, ConstrainCores=yes in cgroup.conf"


def kept(node: Node) -> list[Line]:
    """Step 5: whether jobs are kept off what is reserved, and what to write in slurm.conf."""
    spec = node.spec
    if silent := _silent(node, SLURM):
        return [silent]
    if node.reserved.cpus is None:
        return [unchecked(SLURM, "it is not known which CPUs are reserved")]
    lines = _by_hand(node)
    if not spec.given and not node.keeps:
        return lines or [inapplicable(SLURM, f"{node.nothing}, and Slurm keeps none from jobs")]
    if node.counting.foreign:
        return [*lines, _foreign(node)]
    lines += [*_kept_from_jobs(node), *_settings(node)]
    either = f" has {named(node.keeps)} in either numbering" if spec.cpus is None else ""
    return lines or [ok(SLURM, f"{_means(spec)}{either}; {_shown(node)}")]


def _silent(node: Node, check: str) -> Line | None:
    """Where Slurm says nothing of this node."""
    slurm = node.facts.slurm
    if slurm is None:
        return inapplicable(check, "no Slurm here")
    if slurm.node:
        return None
    if slurm.unknown:
        return inapplicable(check, f"{slurm.name} is not a node of Slurm")
    return unchecked(check, slurm.error if check == SLURM else f"see {SLURM}")


def _foreign(node: Node) -> Line:
    """What Slurm's numbers mean is not known, but the CPUs of a job are."""
    foreign, first = node.counting.foreign, node.counting.first
    if node.keeps and node.proven:
        return ok(SLURM, f"this job may use {named(node.allowed)}, and nothing of {named(node.keeps)}")
    if node.in_job and (open_ := node.keeps & node.allowed):
        return node.bad(SLURM, open_, f"jobs may use {named(open_)}, which {are(open_)} reserved. {foreign}", first)
    return wrong(SLURM, foreign, first) if node.counting.wrong else unchecked(SLURM, foreign, first)


def _where(node: Node) -> str:
    of = f"numbers of cores; the kernel's CPUs are {listed(node.keeps)}" if node.counting.cores else (
        f"numbers; the kernel's are {listed(node.keeps)}")  # fmt: skip
    return f"{node.slurm.on_the_line} (Slurm's {of})"


def _by_hand(node: Node) -> list[Line]:
    given = node.slurm.given
    if {"CpuSpecList", "CoreSpecCount"} <= set(given):
        seen = f"slurm.conf sets both CoreSpecCount={given['CoreSpecCount']} and CpuSpecList={given['CpuSpecList']}"
        return [wrong(SLURM, seen, f"remove CoreSpecCount={given['CoreSpecCount']}; it takes other cores")]
    return []


def _kept_from_jobs(node: Node) -> list[Line]:
    """Whether jobs are kept off what is reserved: by the job's mask in a job, and by what Slurm keeps."""
    spec = node.spec
    change = f"{node.right} {_where(node)}; then restart slurmctld and slurmd"
    if spec.numbers == "neither" and not node.keeps:
        seen = f"{_means(spec)}, and has no effect: this job may use {named(node.allowed)}"
        return [wrong(SLURM, seen, _CONFINED)]
    if spec.numbers == "neither":
        seen = f"CPUSpecList={spec.given} has no effect: this job may use {named(node.allowed)}"
        return [node.bad(SLURM, node.keeps & node.allowed, seen, f"{change}; {_CONFINED}")]
    if not node.keeps or node.proven:
        return []
    given = node.slurm.given.get("CpuSpecList", "")
    if not spec.given:
        ignored = f" (it has ignored CpuSpecList={given} of slurm.conf, or not read it yet)" if given else ""
        seen = f"Slurm keeps no CPU from jobs{ignored}, and {named(node.keeps)} {are(node.keeps)} reserved"
        return [node.bad(SLURM, node.keeps, seen, change)]
    if spec.cpus is None and len({node.keeps <= cpus for cpus in spec.readings}) > 1:
        seen = f"whether CPUSpecList={spec.given} covers {named(node.keeps)} is not known ({NUMBERING})"
        return [unchecked(SLURM, seen, change)]
    if missing := node.keeps - (spec.readings[0] if spec.cpus is None else spec.cpus):
        count = spec.given.startswith("CoreSpec")
        picks = ", for it picks the highest core of each socket in turn" if count else ""
        seen = f"{_means(spec)}{picks}: jobs may use {named(missing)}, which {are(missing)} reserved"
        return [node.bad(SLURM, missing, seen, f"{f'instead of {spec.given} ' if count else ''}{change}")]
    if spec.cpus and parsed(given) and node.topology.with_siblings(parsed(given)) == node.keeps != spec.cpus:
        more = spec.cpus - node.keeps
        seen = f"CpuSpecList={given} of slurm.conf is in the kernel's numbers, and Slurm takes it in its own: it keeps"
        return [warning(SLURM, f"{seen} {named(spec.cpus)}, {listed(more)} for nothing", change)]
    return []


def _settings(node: Node) -> list[Line]:
    """Whether what Slurm keeps from jobs is kept from them: by the job's mask in a job, else by its settings."""
    config = node.slurm.config
    task = config.get("TaskPlugin", "")
    confined = "task/cgroup" in task and config.get("ConstrainCores", "").lower() == "yes"
    lines = []
    has = f"TaskPlugin={task or 'none'}, ConstrainCores={config.get('ConstrainCores', 'no')}"
    if node.spec.given and not confined and not node.in_job:
        if "task/affinity" in task:
            seen = f"{has}: jobs are kept off by their masks alone, which a program may widen"
            lines.append(warning(SLURM, seen, _CONFINED))
        else:
            lines.append(wrong(SLURM, f"{has}: CpuSpecList has no effect", _CONFINED))
    if not node.keeps:
        return lines
    if not config.get("ProctrackType", "proctrack/cgroup").endswith("cgroup") and confined:
        lines.append(warning(SLURM, f"ProctrackType={config['ProctrackType']}", "ProctrackType=proctrack/cgroup"))
    if node.spec.given and (shared := node.keeps & parsed(node.slurm.slurmd)):
        seen = f"slurmd itself, with what it starts, may use {named(shared)}, which {are(shared)} reserved"
        lines.append(warning(SLURM, seen, "TaskPluginParam=SlurmdOffSpec in slurm.conf"))
    if (select := config.get("SelectType", "select/cons_tres")) != "select/cons_tres":
        lines.append(warning(SLURM, f"SelectType={select}", "SelectType=select/cons_tres in slurm.conf"))
    if config.get("AllowSpecResourcesUsage", "no").lower() in ("yes", "1"):
        seen = "AllowSpecResourcesUsage=yes: a job with --core-spec takes reserved CPUs back"
        lines.append(warning(SLURM, seen, "AllowSpecResourcesUsage=no in slurm.conf"))
    return lines


def _shown(node: Node) -> str:
    if not node.in_job:
        return f"jobs are confined by {node.slurm.config.get('TaskPlugin', 'nothing')}"
    return f"this job may use {named(node.allowed)}, and none of it"


def _means(spec: Spec) -> str:
    """`CPUSpecList=28-31 is CPUs 56-59`"""
    given = spec.given if spec.given.startswith("CoreSpec") else f"CPUSpecList={spec.given}"
    return f"{given} is {named(spec.cpus)}" if spec.cpus is not None else given


def numbering(node: Node) -> Line:
    """Step 8: in whose numbers CPUSpecList is, the kernel's or Slurm's own."""
    spec = node.spec
    if silent := _silent(node, NUMBERING):
        return silent
    if not spec.given or spec.given.startswith("CoreSpec"):
        return inapplicable(NUMBERING, f"Slurm has no CPUSpecList for this node{_slip(node)}")
    given = f"CPUSpecList={spec.given}"
    if node.counting.foreign:
        return unchecked(NUMBERING, f"{given}: see {SLURM}")
    if spec.numbers == "neither":
        return wrong(NUMBERING, f"{given}: this job may use CPUs of it, {_both(spec)}", f"see {SLURM}")
    if spec.cpus is None:
        seen = f"{given} can be read both ways: {_both(spec)}"
        return unchecked(NUMBERING, seen, "ask in a job: salloc --exclusive -w NODE iosweep doctor")
    if spec.numbers == "either":
        return ok(NUMBERING, f"{given} means the same CPUs in both numberings")
    return ok(NUMBERING, f"{given} is in {spec.numbers} numbers ({spec.why}): {named(spec.cpus)} of the kernel's")


def _slip(node: Node) -> str:
    """What the kernel's numbers would do in slurm.conf, if that is not what is wanted."""
    if node.counting.foreign or not node.keeps or node.counting.to_slurm(node.keeps) == node.keeps:
        return ""
    kept = node.counting.whole(node.keeps)
    does = f"keep its {listed(node.counting.to_slurm(kept))}, {named(kept)} of the kernel's"
    if node.counting.cores and max(node.keeps) >= len(node.counting.topology.cores):
        does = "ignore the list, for it counts cores here"
    return f"; with CpuSpecList={listed(node.keeps)}, the kernel's numbers, it would {does}"


def _both(spec: Spec) -> str:
    return f"as Slurm's numbers {named(spec.readings[0])} of the kernel's, as the kernel's {named(spec.readings[-1])}"
