"""`iosweep doctor` on a node: the documentation's eight steps, on nodes as small trees of /proc and /sys.

No live WEKA was at hand. What Slurm prints follows Slurm 22.05.8 and the documentation.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

import two_nodes
from held_job import Held
from iosweep.commands import cli
from iosweep.errors import Unanswered
from iosweep.findings import Line
from iosweep.node import cpu_probe, reserved, slurm_numbering, weka_steps
from iosweep.node import probed_cpus as steps
from iosweep.node.cpu_probe import covers, isolate_cpusets, node_line
from iosweep.node.cpus import Topology, listed, named, parse
from iosweep.node.probe_record import Probe
from iosweep.node.weka import find
from iosweep.slurm import query as slurm
from slurm import Cluster
from topologies import (
    AWS_192,
    FAST_AND_SLOW,
    HYPER_96,
    INTERLEAVED_64,
    WEKA_56,
    Machine,
    machine,
    nic,
    no_weka,
    silent_weka,
)
from two_nodes import TWO, Job
from waiting import over, wait_for

CONFIG = {
    "TaskPlugin": "task/affinity,task/cgroup", "ConstrainCores": "yes",
    "ProctrackType": "proctrack/cgroup", "SelectType": "select/cons_tres",
}  # fmt: skip
GOOD = {"etc/wekaio/service.conf": "[cgroups]\nisolate_cpusets=false\n"}


class Node:
    """A node: its CPUs, WEKA's cores, what Slurm says of it, and the job that looks (its CPUs), if any."""

    def __init__(self, root: Path, model: Machine = WEKA_56, weka: str = "", mounts: str = "", **files: str):
        self.root, self.topology = root, model.topology
        if weka:
            mounts = mounts or ",".join(f"core={cpu}" for cpu in sorted(parse(weka))) + ",net=ib0"
        if mounts:
            files["proc__mounts"] = f"backend0/default /mnt/weka wekafs rw,{mounts} 0 0\n"
        for name, text in files.items():
            self.write(name.replace("__", "/"), text)
        self.slurm: dict[str, str] = {}
        self.config = dict(CONFIG)
        self.configured: str | None = None
        self.weka = no_weka

    def write(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def shaped(self, **more: str) -> dict[str, str]:
        """What Slurm says of the node's shape."""
        threads = max(map(len, self.topology.cores))
        sockets = len(self.topology.sockets)
        shape = {"Sockets": sockets, "CoresPerSocket": len(self.topology.cores) // sockets, "ThreadsPerCore": threads}
        shape["CPUTot"] = len(self.topology.cpus)
        return {key: str(value) for key, value in shape.items()} | more

    def ask(self, argv: Sequence[str], _: float) -> str:
        if argv[1:] == ["show", "config"]:
            return "".join(
                f"{key:24}= {value}\n" for key, value in (self.config | {"SLURM_CONF": "/slurm.conf"}).items()
            )
        assert list(argv[:4]) == ["scontrol", "--oneliner", "show", "node"]
        return " ".join(f"{key}={value}" for key, value in ({"NodeName": argv[4]} | self.slurm).items())

    def lines(self, job: str | None = None, busy: dict[str, float] | None = None) -> list[Line]:
        """`job`: the CPUs of the job that looks; None: it is not looked at in a job."""
        found = find(self.topology, self.configured, self.root, self.weka)
        allowed = self.topology.cpus if job is None else parse(job)
        name = cpu_probe.node_name()
        told = cpu_probe.controller([name], self.ask) if self.slurm else None
        facts = cpu_probe.gather(self.topology, found, allowed, self.root, told)
        facts = msgspec.structs.replace(facts, in_job=job is not None, busy=busy)
        return weka_steps.judge(msgspec.json.decode(msgspec.json.encode(facts), type=Probe))

    def see(self, job: str | None = None, **more: Any) -> dict[str, list[Line]]:
        """check -> its lines."""
        found: dict[str, list[Line]] = {}
        for line in self.lines(job, **more):
            found.setdefault(line.check, []).append(line)
        return found


def outcomes(found: dict[str, list[Line]]) -> dict[str, list[str]]:
    return {check: [line.outcome for line in lines] for check, lines in found.items()}


def but(all_: Machine | Topology, *cpus: str) -> str:
    """All CPUs but these."""
    return listed(all_.cpus - frozenset().union(*map(parse, cpus)))


@pytest.fixture
def weka_56(tmp_path: Path) -> Node:
    """The documentation's node, as it must be."""
    node = Node(tmp_path, weka="24-27", **{name.replace("/", "__"): text for name, text in GOOD.items()})
    nic(tmp_path, "ib0", range(14, 28), 1)
    nic(tmp_path, "eth0", range(14), 0, speed=400_000)
    node.slurm = node.shaped(CoreSpecCount="4", CPUSpecList="24-27", MemSpecLimit="20480")
    return node


# --- the documentation's cases


def test_a_node_as_the_documentation_wants_it(weka_56: Node) -> None:
    found = weka_56.see(job=but(WEKA_56, "24-27"), busy={str(cpu): float(24 <= cpu <= 27) for cpu in range(56)})
    assert outcomes(found) == {
        steps.AGENT: ["ok"], steps.CPUS: ["ok"], steps.NIC: ["ok"], steps.RESERVED: ["ok"], steps.SLURM: ["ok"],
        steps.CPUSETS: ["ok"], steps.SIBLINGS: ["not applicable"], steps.NUMBERING: ["ok"], steps.POLLING: ["ok"],
    }  # fmt: skip
    assert found[steps.CPUS][0].seen == (
        "56 CPUs, 2 sockets, no hyper-threading, NUMA nodes 0: 0-13; 1: 14-27; 2: 28-41; 3: 42-55"
    )
    assert found[steps.NIC][0].seen == "ib0 is near CPUs 14-27 (NUMA node 1)"
    assert found[steps.SLURM][0].seen == (
        "CPUSpecList=24-27 is CPUs 24-27; this job may use CPUs 0-23,28-55, and none of it"
    )


def test_nothing_is_kept_from_jobs(weka_56: Node) -> None:
    weka_56.slurm = weka_56.shaped()
    weka_56.write("slurm.conf", "NodeName=DEFAULT CPUs=56\nNodeName=x[1-9] CPUs=56\n")
    weka_56.write("slurm.conf", f"NodeName={os.uname().nodename.partition('.')[0]},x[1-9] CPUs=56 # CpuSpecList=1\n")
    for job in (None, "0-55"):
        found = weka_56.see(job)
        [line] = found[steps.SLURM]
        assert (line.outcome, line.seen) == ("wrong", "Slurm keeps no CPU from jobs, and CPUs 24-27 are reserved")
        name = f"{os.uname().nodename.partition('.')[0]},x[1-9]"
        assert line.change == (
            f"CpuSpecList=24-27 on the line NodeName={name} of slurm.conf (Slurm's numbers; the kernel's are 24-27);"
            " then restart slurmctld and slurmd"
        )
        assert outcomes(found)[steps.CPUSETS] == ["wrong" if job else "not checked"]
    assert found[steps.CPUSETS][0].seen == "this job (Cpus_allowed_list) has CPUs 24-27, which are reserved"
    # ranks of a campaign that names them are kept off by their masks
    weka_56.configured = "24-27"
    assert outcomes(weka_56.see("0-55"))[steps.SLURM] == ["warning"]
    assert outcomes(weka_56.see("0-55"))[steps.CPUSETS] == ["warning"]
    weka_56.configured = "24-26"
    assert outcomes(weka_56.see("0-55"))[steps.CPUSETS] == ["wrong"]


@pytest.fixture
def interleaved(tmp_path: Path) -> Node:
    node = Node(tmp_path, INTERLEAVED_64, weka="56-63")
    node.slurm = node.shaped(CPUSpecList="56-63")
    return node


def test_the_documentations_overlap(interleaved: Node) -> None:
    """WEKA on 56-63 of 64 CPUs, even ones on NUMA node 0; `CpuSpecList=56-63` is in Slurm's numbers."""
    job = but(INTERLEAVED_64, "49,51,53,55,57,59,61,63")
    assert job == "0-48,50,52,54,56,58,60,62"
    found = interleaved.see(job)
    assert found[steps.NUMBERING][0].seen == (
        "CPUSpecList=56-63 is in Slurm's numbers (this job's CPUs): CPUs 49,51,53,55,57,59,61,63 of the kernel's"
    )
    assert found[steps.SLURM][0].outcome == found[steps.CPUSETS][0].outcome == "wrong"
    assert found[steps.SLURM][0].seen == (
        "CPUSpecList=56-63 is CPUs 49,51,53,55,57,59,61,63: jobs may use CPUs 56,58,60,62, which are reserved"
    )
    assert found[steps.SLURM][0].change.startswith("CpuSpecList=28-31,60-63 on the line NodeName=")
    assert "has CPUs 56,58,60,62" in found[steps.CPUSETS][0].seen


@pytest.mark.parametrize("printed", ["28-31,60-63", "56-63"])
def test_the_right_list_in_either_numbering(interleaved: Node, printed: str) -> None:
    interleaved.slurm["CPUSpecList"] = printed
    found = interleaved.see(job=but(INTERLEAVED_64, "56-63"))
    assert outcomes(found)[steps.SLURM] == outcomes(found)[steps.CPUSETS] == outcomes(found)[steps.NUMBERING] == ["ok"]
    numbers = "Slurm's" if printed == "28-31,60-63" else "the kernel's"
    assert f"is in {numbers} numbers (this job's CPUs): CPUs 56-63" in found[steps.NUMBERING][0].seen


def test_the_list_alone_does_not_tell(interleaved: Node) -> None:
    """Without a job, and without slurm.conf, 56-63 may be either: then it is not guessed."""
    found = interleaved.see()
    assert outcomes(found)[steps.NUMBERING] == outcomes(found)[steps.SLURM] == ["not checked"]
    assert found[steps.NUMBERING][0].seen == (
        "CPUSpecList=56-63 can be read both ways: as Slurm's numbers CPUs 49,51,53,55,57,59,61,63 of the kernel's, as"
        " the kernel's CPUs 56-63"
    )
    assert "CpuSpecList=28-31,60-63" in found[steps.SLURM][0].change
    # a job that is bound to one CPU says no more, slurm.conf does
    assert outcomes(interleaved.see(job="0"))[steps.NUMBERING] == ["not checked"]
    name = os.uname().nodename.partition(".")[0]
    interleaved.write("slurm.conf", f"NodeName={name} CpuSpecList=28-31,60-63\n")
    found = interleaved.see(job="0")
    assert found[steps.NUMBERING][0].seen.startswith("CPUSpecList=56-63 is in the kernel's numbers (/slurm.conf): ")
    assert outcomes(found)[steps.SLURM] == ["ok"]
    interleaved.write("slurm.conf", f"NodeName={name} CpuSpecList=56-63\n")
    assert "is in Slurm's numbers (/slurm.conf)" in interleaved.see(job="0")[steps.NUMBERING][0].seen


def test_a_list_that_has_no_effect(interleaved: Node) -> None:
    found = interleaved.see(job="0-63")
    assert outcomes(found)[steps.SLURM][0] == outcomes(found)[steps.NUMBERING][0] == "wrong"
    assert "CPUSpecList=56-63 has no effect: this job may use CPUs 0-63" in found[steps.SLURM][0].seen
    assert "ConstrainCores=yes" in found[steps.SLURM][0].change


@pytest.mark.parametrize(("model", "core", "whole", "right"), [
    (HYPER_96, "47", "47,95", "94-95"), (AWS_192, "95", "95,191", "190-191"),
])  # fmt: skip
def test_hyper_threading(model: Machine, core: str, whole: str, right: str, tmp_path: Path) -> None:
    """Slurm counts the threads of a core one after the other, the kernel does not."""
    node = Node(tmp_path, model, weka=core)
    node.slurm = node.shaped(CPUSpecList=right)
    found = node.see(job=but(model, whole))
    assert outcomes(found)[steps.SLURM] == outcomes(found)[steps.SIBLINGS] == outcomes(found)[steps.CPUSETS] == ["ok"]
    sibling = whole.partition(",")[2]
    assert found[steps.SIBLINGS][0].seen == f"CPU {sibling} shares a core with what is named, and is reserved too"
    # printed in the kernel's numbers, which only so are one core
    node.slurm |= {"CPUSpecList": whole, "CoreSpecCount": "1"}
    found = node.see()
    assert "is in the kernel's numbers (only so are they CoreSpecCount=1 cores)" in found[steps.NUMBERING][0].seen
    assert outcomes(found)[steps.SLURM] == ["ok"]
    del node.slurm["CoreSpecCount"]
    assert outcomes(node.see())[steps.NUMBERING] == ["not checked"]
    # the sibling alone is left to jobs
    node.slurm = node.shaped()
    found = node.see(job=but(model, core))
    assert f"jobs may use CPU {sibling}" in found[steps.SIBLINGS][0].seen
    assert found[steps.SIBLINGS][0].change == f"see {steps.SLURM}"
    assert found[steps.SLURM][0].change.startswith(f"CpuSpecList={right} on the line")


def test_a_list_that_fits_the_kernels_numbers_only(tmp_path: Path) -> None:
    """`CPUEfctv=114 CPUTot=128 CoreSpecCount=7 CPUSpecList=0-1,20-24,64-65,84-88`: 7 whole cores."""
    node = Node(tmp_path, machine(2, 1, 32, threads=2))
    said = "CPUEfctv=114 CPUTot=128 CoreSpecCount=7 CPUSpecList=0-1,20-24,64-65,84-88"
    node.slurm = node.shaped(**dict(word.split("=") for word in said.split()))
    [line] = node.see()[steps.NUMBERING]
    assert line.seen == (
        "CPUSpecList=0-1,20-24,64-65,84-88 is in the kernel's numbers (only so are they CoreSpecCount=7 cores):"
        " CPUs 0-1,20-24,64-65,84-88 of the kernel's"
    )


@pytest.mark.parametrize(("model", "given", "kept"), [
    (INTERLEAVED_64, "28-31,60-63", "56-63"), (HYPER_96, "94-95", "47,95"), (WEKA_56, "24-27", "24-27"),
    (AWS_192, "95,191", "47,95,143,191"),  # in Slurm's numbers these are two cores
])  # fmt: skip
def test_what_a_real_slurmd_keeps(model: Machine, given: str, kept: str, tmp_path: Path) -> None:
    """`Resource spec: Reserved machine CPU IDs` in the log of slurmd 22.05.8, with hwloc on these very trees."""
    topology = model.topology
    assert listed(topology.with_siblings(topology.from_slurm(parse(given)))) == kept
    node = Node(tmp_path, model)
    node.configured = kept
    node.slurm = node.shaped()
    [line] = node.see()[steps.SLURM]
    right = listed(topology.to_slurm(parse(kept)))
    assert line.change.startswith(f"CpuSpecList={right} on the line NodeName=")
    node.slurm = node.shaped(CPUSpecList=right)
    assert outcomes(node.see(job=but(model, kept)))[steps.SLURM] == ["ok"]


#: What slurm.conf says of 96 CPUs on 48 cores -> what `scontrol show node` prints of its shape.
TRUE = {"Sockets": "2", "CoresPerSocket": "24", "ThreadsPerCore": "2", "CPUTot": "96"}
BY_CORES = TRUE | {"CPUTot": "48"}
HIDDEN = BY_CORES | {"ThreadsPerCore": "1"}
FLAT = {"Sockets": "96", "CoresPerSocket": "1", "ThreadsPerCore": "1", "CPUTot": "96"}


@pytest.mark.parametrize(("shape", "right", "given", "kept"), [
    (TRUE, "94-95", "46-47,94-95", "23,47,71,95"), (BY_CORES, "47", "46-47", "46-47,94-95"),
    (FLAT, "94-95", "47,95", "71,95"),
])  # fmt: skip
def test_the_line_follows_slurms_configuration(
    shape: dict[str, str], right: str, given: str, kept: str, tmp_path: Path
) -> None:
    """What slurmctld and slurmd 22.05.8 make of `right` and `given` on nodes that are described so."""
    node = Node(tmp_path, HYPER_96, weka="47")
    node.slurm = dict(shape)
    [line] = node.see()[steps.SLURM]
    assert line.change.startswith(f"CpuSpecList={right} on the line NodeName=")
    count = len(parse(right)) if shape is not TRUE else 1
    node.slurm |= {"CPUSpecList": right, "CoreSpecCount": str(count)}
    found = node.see()
    assert outcomes(found)[steps.SLURM] == outcomes(found)[steps.NUMBERING] == ["ok"]
    assert "is CPUs 47,95" in found[steps.SLURM][0].seen
    node.slurm |= {"CPUSpecList": given, "CoreSpecCount": "2"}
    found = node.see(job=but(HYPER_96, kept))
    assert f"CPUs {kept} of the kernel's" in found[steps.NUMBERING][0].seen or shape is BY_CORES
    assert f"CPUSpecList={given} is CPUs {kept}" in found[steps.SLURM][0].seen


@pytest.mark.parametrize(("model", "whole", "made", "kept"), [
    (HYPER_96, "47,95", "46-47,94-95", "23,47,71,95"), (AWS_192, "95,191", "94-95,190-191", "47,95,143,191"),
])  # fmt: skip
def test_the_documentations_lists_are_the_kernels(
    model: Machine, whole: str, made: str, kept: str, tmp_path: Path
) -> None:
    """`CpuSpecList=47,95` and `95,191`: written so, Slurm keeps one core too many."""
    node = Node(tmp_path, model, weka=whole)
    node.slurm = node.shaped()
    does = f"with CpuSpecList={whole}, the kernel's numbers, it would keep its {made}, CPUs {kept} of the kernel's"
    assert node.see()[steps.NUMBERING][0].seen == f"Slurm has no CPUSpecList for this node; {does}"
    node.slurm = node.shaped(CPUSpecList=made, CoreSpecCount="2")  # what scontrol prints then
    node.write("slurm.conf", f"NodeName={os.uname().nodename.partition('.')[0]} CpuSpecList={whole}\n")
    [line] = node.see(job=but(model, kept))[steps.SLURM]
    assert (line.outcome, line.seen) == (
        "warning", f"CpuSpecList={whole} of slurm.conf is in the kernel's numbers, and Slurm takes it in its own: it"
        f" keeps CPUs {kept}, {kept.split(',')[0]},{kept.split(',')[2]} for nothing",
    )  # fmt: skip
    assert line.change.startswith(f"CpuSpecList={listed(node.topology.to_slurm(parse(whole)))} on the line")
    # by cores such numbers are too high: nothing is kept, and only logs say so
    node.slurm = node.shaped(CPUTot=str(len(node.topology.cores)))
    found = node.see()
    assert f"ignored CpuSpecList={whole} of slurm.conf" in found[steps.SLURM][0].seen
    assert found[steps.NUMBERING][0].seen.endswith("it would ignore the list, for it counts cores here")


def test_hyper_threading_that_is_hidden_from_slurm(tmp_path: Path) -> None:
    """No number names the second threads, so no line is said."""
    node = Node(tmp_path, HYPER_96, weka="47")
    for given in ({}, {"CPUSpecList": "47", "CoreSpecCount": "1"}):
        node.slurm = HIDDEN | given
        found = node.see()
        [line] = found[steps.SLURM]
        assert (line.outcome, line.seen) == (
            "wrong", "Slurm has ThreadsPerCore=1 here, and a core has 2 threads: no CpuSpecList names all of them"
        )  # fmt: skip
        assert line.change.startswith("first write ThreadsPerCore=2 on the line NodeName=")
        assert not any("CpuSpecList=" in line.change for of in found.values() for line in of)


@pytest.mark.parametrize(("model", "why"), [
    (machine(1, 2, 4).off(1, 6), "some CPUs are offline (0,2-5,7 are there)"),
    (FAST_AND_SLOW, "cores or sockets are not alike"),
])  # fmt: skip
def test_nodes_that_slurm_counts_in_its_own_way(model: Machine, why: str, tmp_path: Path) -> None:
    """No line is said; what a job may use is evidence all the same."""
    node = Node(tmp_path, model, weka="5")
    kept = listed(node.topology.with_siblings({5}))
    for given in ({}, {"CPUSpecList": "4"}):
        node.slurm = node.shaped() | given
        found = node.see()
        [line] = found[steps.SLURM]
        assert line.outcome == "not checked"
        assert (
            line.seen == f"Slurm does not number CPUs as hwloc does where {why}, so the right CpuSpecList is not known"
        )
        assert "salloc --exclusive" in line.change
        # a job that lacks them may do so by chance, unless Slurm keeps some
        assert outcomes(node.see(job=but(model, kept)))[steps.SLURM] == ["ok" if given else "not checked"]
        found = node.see(job=but(model))
        assert outcomes(found)[steps.SLURM] == outcomes(found)[steps.CPUSETS] == ["wrong"]
        assert not any("CpuSpecList=" in line.change for of in found.values() for line in of)


def test_core_spec_count_takes_other_cores(tmp_path: Path) -> None:
    node = Node(tmp_path, machine(4, 1, 14), weka="24-27")
    assert listed(slurm_numbering.core_spec(4, node.topology)) == "13,27,41,55"
    assert listed(slurm_numbering.core_spec(5, node.topology)) == "13,27,41,54-55"
    assert listed(slurm_numbering.core_spec(5, node.topology, lowest_first=True)) == "0-1,14,28,42"
    assert listed(slurm_numbering.core_spec(1, HYPER_96.topology)) == "47,95"
    for printed in ({}, {"CPUSpecList": "13,27,41,55"}, {"CPUSpecList": "(null)"}):
        node.slurm = node.shaped(CoreSpecCount="4", **printed)
        [line] = [line for line in node.see()[steps.SLURM] if line.outcome == "wrong"]
        assert "jobs may use CPUs 24-26, which are reserved" in line.seen
        assert "CpuSpecList=24-27 on the line" in line.change
    assert "CoreSpecCount=4 is CPUs 13,27,41,55, for it picks the highest core of each socket" in line.seen


# --- one thing that is wrong


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("isolate_cpusets=false", "false"),
        ("[os]\n  isolate_cpusets = True\n", "true"),
        ("x=1\n#isolate_cpusets=false", ""),
        ("isolate_cpusets = true\nisolate_cpusets = 'false' # mine", "false"),
        (None, None),
    ],
)
def test_service_conf(text: str | None, value: str | None, weka_56: Node) -> None:
    assert isolate_cpusets(text) == value
    (weka_56.root / "etc/wekaio/service.conf").unlink()
    if text is not None:
        weka_56.write("etc/wekaio/service.conf", text)
    [line] = weka_56.see()[steps.AGENT]
    assert line.outcome == {"false": "ok", None: "not checked"}.get(value, "wrong")
    assert line.outcome != "wrong" or "write `isolate_cpusets = false` in /etc/wekaio/service.conf" in line.change


def test_weka_on_core_0_or_far_from_its_interface(weka_56: Node) -> None:
    def mounted(*cpus: int) -> Line:
        options = ",".join(f"core={cpu}" for cpu in cpus)
        weka_56.write("proc/mounts", f"b/d /mnt/weka wekafs rw,{options},net=ib0 0 0\n")
        return weka_56.see()[steps.RESERVED][0]

    better = "mount it with other cores, such as -o core=26,core=27,net=ib0"
    zero = mounted(0, 24)
    assert (zero.outcome, zero.change) == ("wrong", better)
    assert zero.seen.endswith("core 0 is the operating system's")
    far = mounted(24, 40)
    assert (far.outcome, far.change) == ("warning", better)
    assert far.seen.endswith(": CPU 40 is not near ib0")
    assert mounted(14).outcome == "ok"


@pytest.mark.parametrize(
    ("config", "outcome", "said"),
    [
        ({"ConstrainCores": "no"}, "warning", "masks alone"),
        ({"TaskPlugin": "task/affinity"}, "warning", "masks alone"),
        ({"TaskPlugin": "task/none"}, "wrong", "CpuSpecList has no effect"),
        ({"TaskPlugin": "task/cgroup", "ConstrainCores": "no"}, "wrong", "CpuSpecList has no effect"),
        ({"SlurmdPidFile": "/run/slurmd-%n.pid"}, "warning", "slurmd itself, with what it starts, may use CPUs 26-27"),
        ({"ProctrackType": "proctrack/linuxproc"}, "warning", "ProctrackType"),
        ({"SelectType": "select/linear"}, "warning", "SelectType"),
        ({"AllowSpecResourcesUsage": "Yes"}, "warning", "--core-spec"),
    ],
)
def test_settings(config: dict[str, str], outcome: str, said: str, weka_56: Node) -> None:
    weka_56.config |= config
    weka_56.write(f"run/slurmd-{os.uname().nodename.partition('.')[0]}.pid", "70\n")
    weka_56.write("proc/70/status", "Name:\tslurmd\nCpus_allowed_list:\t26-55\n")
    [line] = weka_56.see()[steps.SLURM]
    assert line.outcome == outcome
    assert said in line.seen
    assert line.change
    # a job that is kept off shows that it works, however
    of_job = weka_56.see(job=but(WEKA_56, "24-27"))[steps.SLURM]
    assert (of_job[0].outcome == "ok") == ("masks" in said or "effect" in said)


def test_both_set_by_hand(weka_56: Node) -> None:
    name = os.uname().nodename.partition(".")[0]
    weka_56.write("slurm.conf", f"NodeName=DEFAULT CoreSpecCount=4\nnodename={name} \\\n  CPUs=56 cpuspeclist=24-27\n")
    [line] = weka_56.see()[steps.SLURM]
    assert (line.outcome, line.change) == ("wrong", "remove CoreSpecCount=4; it takes other cores")


def test_slurm_has_other_cpus_than_the_kernel(weka_56: Node) -> None:
    weka_56.slurm |= {"Sockets": "1", "CPUTot": "28"}
    why = (
        "Slurm has 1 x 28 x 1 sockets, cores and threads here, 28 CPUs, and the kernel 56: CpuSpecList means other CPUs"
    )
    for job, seen in (("0-55", f"jobs may use CPUs 24-27, which are reserved. {why}"), (None, why)):
        found = weka_56.see(job)
        [line] = found[steps.SLURM]
        assert (line.outcome, line.seen) == ("wrong", seen)
        assert line.change.endswith(" of slurm.conf what `slurmd -C` prints there")
        assert outcomes(found)[steps.NUMBERING] == ["not checked"]
        assert not any("CpuSpecList=" in line.change for of in found.values() for line in of)
    assert outcomes(weka_56.see(but(WEKA_56, "24-27")))[steps.SLURM] == ["ok"]


@pytest.mark.parametrize("group", [
    "cpuset/slurm/system", "cpuset/slurm_n1/uid_1000/job_7", "system.slice/slurmstepd.scope/job_7",
    "unified/system.slice/n1_slurmstepd.scope/job_7",
])  # fmt: skip
@pytest.mark.parametrize("name", ["cpuset.cpus", "cpuset.effective_cpus", "cpuset.cpus.effective"])
def test_cpusets_of_both_versions(group: str, name: str, weka_56: Node) -> None:
    weka_56.write(f"sys/fs/cgroup/{group}/{name}", "0-23,28-55\n")
    [line] = weka_56.see()[steps.CPUSETS]
    assert (line.outcome, line.seen) == ("ok", f"/sys/fs/cgroup/{group}: CPUs 0-23,28-55, nothing of CPUs 24-27")
    weka_56.write(f"sys/fs/cgroup/{group}/{name}", "0-25\n")
    [line] = weka_56.see()[steps.CPUSETS]
    assert line.outcome == "wrong"
    assert line.seen == f"/sys/fs/cgroup/{group} has CPUs 24-25, which are reserved"


def test_what_polls(weka_56: Node) -> None:
    rest = {str(cpu): 0.02 for cpu in range(56)}
    polled = rest | {str(cpu): 0.99 for cpu in range(24, 28)}
    assert outcomes(weka_56.see(busy=polled))[steps.POLLING] == ["ok"]
    [one] = weka_56.see(busy=polled | {"27": 0.03})[steps.POLLING]
    assert one.outcome == "warning"
    assert one.seen.startswith("CPU 27 is reserved and less than 90 % busy")
    [other] = weka_56.see(job=but(WEKA_56, "24-27"), busy=polled | {"30": 1.0})[steps.POLLING]
    assert (other.outcome, other.seen) == ("warning", "CPU 30 is near 100 % busy, and not reserved")
    weka_56.write("proc/mounts", "b/d /mnt/weka wekafs rw,num_cores=4 0 0\n")
    found = weka_56.see(busy=polled)
    assert found[steps.POLLING][0].seen == "CPUs 24-27 are near 100 % busy and may be the ones"
    assert {check for check, of in outcomes(found).items() if of == ["not checked"]} == {
        steps.RESERVED, steps.SLURM, steps.CPUSETS, steps.POLLING}  # fmt: skip


def test_a_polled_cores_sibling_rests(tmp_path: Path) -> None:
    node = Node(tmp_path, HYPER_96, weka="47")
    busy = {str(cpu): float(cpu == 47) for cpu in range(96)}
    assert outcomes(node.see(busy=busy))[steps.POLLING] == ["ok"]
    assert outcomes(node.see(busy=busy | {"47": 0.0}))[steps.POLLING] == ["warning"]


def test_cpus_are_sampled(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    stat = "cpu  9 9 9 9\ncpu0 {} 0 0 {} 0 0 0 0 0 0\ncpu1 0 0 0 {} {} 0 0 0 0 0\n"
    (tmp_path / "proc/stat").write_text(stat.format(100, 100, 100, 0))
    before = cpu_probe._ticks(tmp_path)
    (tmp_path / "proc/stat").write_text(stat.format(148, 102, 110, 40))
    assert cpu_probe.shares(before, cpu_probe._ticks(tmp_path)) == {"0": 0.96, "1": 0.0}


# --- where there is less


def test_no_weka_and_no_slurm(tmp_path: Path) -> None:
    found = Node(tmp_path, machine(1, 1, 4, threads=2)).see()
    assert outcomes(found) == {steps.CPUS: ["ok"]} | {
        check: ["not applicable"] for check in found if check != steps.CPUS
    }
    assert len(found) == 8


@pytest.mark.parametrize("options", ["net=udp", "dedicated_mode=none"])
def test_weka_that_owns_no_core(options: str, tmp_path: Path) -> None:
    node = Node(tmp_path, mounts=options)
    node.slurm = node.shaped()
    found = node.see(job="0-55")
    assert found[steps.RESERVED][0].seen == f"none (/proc/mounts /mnt/weka: {options}: reserves none)"
    assert {line.outcome for lines in found.values() for line in lines} <= {"ok", "not applicable", "not checked"}


def test_weka_that_cannot_be_asked(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.weka = silent_weka
    [line] = node.see()[steps.RESERVED]
    assert line.outcome == "not checked"
    assert line.seen.startswith("nothing here says that CPUs are reserved, but weka local ps: cannot be asked: exit")
    node.configured = ""
    assert outcomes(node.see())[steps.RESERVED] == ["ok"]


def test_another_file_systems_cores(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.configured = "0-1"
    node.slurm = node.shaped(CPUSpecList="0-1")
    found = node.see(job="2-55")
    assert outcomes(found)[steps.AGENT] == ["not applicable"]
    assert outcomes(found)[steps.RESERVED] == outcomes(found)[steps.SLURM] == outcomes(found)[steps.CPUSETS] == ["ok"]


def test_slurm_that_does_not_answer(weka_56: Node) -> None:
    def silent(*_: object) -> str:
        raise Unanswered("scontrol did not answer within 5 s")

    weka_56.ask = silent  # type: ignore[method-assign]
    assert weka_56.see()[steps.SLURM][0] == Line(steps.SLURM, "not checked", "scontrol did not answer within 5 s")


@pytest.mark.local
def test_it_is_quick_and_needs_no_rich(tmp_path: Path) -> None:
    """Each node of an allocation does this before it measures."""
    topology = AWS_192.topology
    source = reserved.Source("weka", "weka local resources -C c", frozenset({95}), "1 core")
    found = reserved.resolve(topology, [source])
    began = time.process_time()
    lines = weka_steps.look(topology, found, topology.cpus, tmp_path)
    assert time.process_time() - began < 0.3
    assert lines
    code = "import sys, iosweep.node.weka_steps; sys.exit('rich' in sys.modules or 'pydantic' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# --- slurm.conf


@pytest.mark.parametrize(
    ("hosts", "names", "others"),
    [
        ("n1", ["n1"], ["n11", "n", "N1"]),
        ("n[1-2,07],m", ["n1", "n2", "n07", "m"], ["n3", "n7", "n02", "n"]),
        ("n[01-10]-ib", ["n01-ib", "n10-ib"], ["n1-ib", "n010-ib", "n10"]),
        ("n[8-12]", ["n8", "n9", "n10", "n12"], ["n7", "n13", "n08"]),
        ("r[1-2]n[3,5]", ["r1n3", "r2n5"], ["r1n4", "r3n3"]),
    ],
)
def test_which_nodes_a_line_is_for(hosts: str, names: list[str], others: list[str]) -> None:
    assert [name for name in [*names, *others] if covers(hosts, name)] == names


def test_a_nodes_line() -> None:
    text = "#NodeName=n1 CpuSpecList=9\nNodeName=DEFAULT CoreSpecCount=2\n"
    text += "NodeName=n[1-2] \\\nCpuSpecList=3 # CpuSpecList=4\nNodeName=m"
    assert node_line(text, "n2") == {"NodeName": "n[1-2]", "CpuSpecList": "3", "CoreSpecCount": "2"}
    assert node_line(text, "m") == {"NodeName": "m", "CoreSpecCount": "2"}
    assert node_line(text, "x") is None


# --- several nodes


def test_nodes_that_are_alike_are_said_once() -> None:
    def line(seen: str, outcome: str = "ok") -> Line:
        return Line("x", outcome, seen)  # type: ignore[arg-type]

    two = weka_steps.of_nodes(
        {"n1": [line("a"), Line("y", "ok", "b")], "n2": [line("a"), Line("y", "wrong", "c", "d")]}
    )
    assert two == [line("a"), Line("y", "ok", "n1: b"), Line("y", "wrong", "n2: c", "d")]
    many = weka_steps.of_nodes({f"n{k}": [line("a" if k else "b")] for k in range(9)})
    assert [one.seen for one in many] == ["n0: b", "n[1-8]: a"]


# --- the command


def test_on_this_machine(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Slurm, no WEKA
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    assert cli.main(["doctor", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [line["check"] for line in document["lines"]] == [  # in the order of their numbers
        "configuration",
        steps.AGENT, steps.CPUS, steps.NIC, steps.RESERVED, steps.SLURM, steps.CPUSETS, steps.SIBLINGS, steps.NUMBERING,
    ]  # fmt: skip
    assert document["wrong"] is False
    assert cli.main(["doctor"]) == 0
    said = capsys.readouterr().out
    assert "not applicable  1 WEKA's agent" in said
    assert "all is well" not in said, "without a configuration tools and target are not known"
    assert not list(tmp_path.iterdir())
    (tmp_path / "c.yaml").write_text("campaign: 3")
    assert cli.main(["doctor", "--configfile", "c.yaml", "--json"]) == 1
    first = json.loads(capsys.readouterr().out)["lines"][0]
    assert (first["check"], first["outcome"]) == ("configuration", "wrong")
    with pytest.raises(SystemExit):
        cli.main(["doctor", "--wait", "1min"])
    assert "--wait needs --slurm" in capsys.readouterr().err


@pytest.mark.local
@pytest.mark.parametrize("node", [None, "n7"])
def test_slurm_does_not_answer_for_the_job(
    node: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """On a node of it that one is looked at; where salloc was called, nothing is the job's."""
    (tmp_path / "scontrol").write_text("#!/bin/sh\nexec sleep 30\n")
    (tmp_path / "scontrol").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cpu_probe, "ANSWER_S", 0.2)
    monkeypatch.setattr(slurm, "ask", lambda argv, deadline_s=0.2, ask=slurm.ask: ask(argv, 0.2))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.delenv("SLURMD_NODENAME", raising=False)
    if node:
        monkeypatch.setenv("SLURMD_NODENAME", node)
    assert cli.main(["doctor", "--json"]) == 1
    lines = [Line(**line) for line in json.loads(capsys.readouterr().out)["lines"]]
    seen = "scontrol did not answer within 0.2 s"
    assert lines[0].check == "configuration"
    assert lines[1] == Line(
        "nodes", "wrong", f"{seen}; only n7 was checked" if node else seen, "run it on each of the nodes"
    )
    assert (Line(steps.SLURM, "not checked", seen) in lines) == bool(node)
    assert len(lines) == (10 if node else 2)


#: Stands in for WEKA's command on PATH: a container whose only core is $WEKA_CORE.
WEKA = """\
#!/bin/sh
case "$*" in
"local ps") echo "client0  Running" ;;
*) echo '{"nodes": {"1": {"core_id": '$WEKA_CORE', "dedicate_core": true, "roles": ["FRONTEND"]}}}' ;;
esac
"""
#: On a node, as a job that has all of it. (`srun --exclusive --ntasks=1` gives one CPU.)
ALONE = ("salloc", "--quiet", "--exclusive", "--nodelist=n1")
Doctor = Callable[..., dict[str, list[Line]]]


@pytest.fixture
def doctor(slurm: Cluster, tmp_path: Path) -> Doctor:
    """The doctor in an allocation of the cluster: check -> its lines."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/weka").write_text(WEKA)
    (tmp_path / "bin/weka").chmod(0o755)

    def run(*job: str, core: str | None = None, code: int = 0, cluster: Cluster = slurm) -> dict[str, list[Line]]:
        path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}" if core else os.environ["PATH"]
        command = [sys.executable, "-m", "iosweep", "doctor", "--json"]
        env = {"PATH": path, "WEKA_CORE": core}
        done = cluster.run([*job, *command], cwd=tmp_path, env=env, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        found: dict[str, list[Line]] = {}
        for line in json.loads(done.stdout)["lines"]:
            found.setdefault(line["check"], []).append(Line(**line))
        return found

    return run


def test_over_an_allocation(doctor: Doctor) -> None:
    found = doctor("salloc", "--quiet", "-N2", "--exclusive", core="1", code=1)
    assert found["nodes"] == [Line("nodes", "ok", "n1, n2: all of the allocation")]
    assert outcomes(found)[steps.CPUS] == ["ok"]  # both are this machine, so it is said once
    assert found[steps.SLURM][0].seen == "Slurm keeps no CPU from jobs, and CPU 1 is reserved"
    change = "CpuSpecList=1 on the line NodeName=n[1-2] of slurm.conf (Slurm's numbers; the kernel's are 1); "
    assert found[steps.SLURM][0].change.startswith(change)
    assert found[steps.CPUSETS][0].outcome == "wrong"


def test_a_node_that_keeps_a_cpu_from_jobs(doctor: Doctor) -> None:
    """n3 has CpuSpecList=0, and its mask shows it, though TaskPlugin is task/affinity alone."""
    assert doctor("srun", "--exclusive", "--cpu-bind=none", "--partition=spec")[steps.SLURM] == [
        Line(steps.SLURM, "ok", "CPUSpecList=0 is CPU 0; this job may use CPU 1, and none of it")
    ]


#: What stands on a node's line -> its CPUs, WEKA's, what scontrol says of its shape; a list by hand, and what it keeps.
TWO_BY_24 = "SocketsPerBoard=2 CoresPerSocket=24 ThreadsPerCore="
LINES: dict[str, tuple[Machine, str, dict[str, str], str, str]] = {
    f"{TWO_BY_24}2": (HYPER_96, "47", TRUE, "47,95", "23,47,71,95"),
    f"CPUs=48 {TWO_BY_24}2": (HYPER_96, "47", BY_CORES, "46-47", "46-47,94-95"),
    "CPUs=96": (HYPER_96, "47", FLAT, "47,95", "71,95"),
    f"CPUs=48 {TWO_BY_24}1": (HYPER_96, "47", HIDDEN, "47", "71"),
    "SocketsPerBoard=2 CoresPerSocket=32": (INTERLEAVED_64, "56-63", {}, "56-63", "49,51,53,55,57,59,61,63"),
}


def test_a_real_slurmd_keeps_what_the_line_says(slurm: Cluster, tmp_path: Path) -> None:
    """slurmd, with hwloc on a drawn node, translates the line for each way in which it may be told of the node."""
    conf, wanted = (slurm.state / "etc/slurm.conf").read_text(), {}
    trees = {id(model): model.write(tmp_path / f"tree{id(model)}") for model in (HYPER_96, INTERLEAVED_64)}
    for told, (model, weka, shape, given, kept) in LINES.items():
        node = Node(tmp_path / "node", model, weka=weka)
        node.slurm = node.shaped() | shape
        said = re.match(r"CpuSpecList=(\S+) on the line", node.see()[steps.SLURM][0].change)
        assert (said is None) == (shape is HIDDEN)
        right = listed(node.topology.with_siblings(parse(weka)))
        for numbers, cpus in [(given, kept), *([(said[1], right)] if said else [])]:
            wanted[name := f"x{len(wanted)}"] = (trees[id(model)], cpus)
            conf += f"NodeName={name} NodeAddr=n1 Port={7100 + len(wanted)} {told} CpuSpecList={numbers}\n"
    (tmp_path / "slurm.conf").write_text(conf)
    read = re.compile(r"Reserved machine CPU IDs: (\S+)\n").findall
    for name, (tree, cpus) in wanted.items():
        log = tmp_path / f"{name}.log"
        log.touch()
        hwloc = {"HWLOC_FSROOT": str(tree), "HWLOC_COMPONENTS": "linux,stop", "HWLOC_THISSYSTEM": "1"}
        command = ["slurmd", "-D", "-f", tmp_path / "slurm.conf", "-N", name, "-L", log]
        slurmd = slurm.popen(command, on="n1", env=hwloc, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            [found] = wait_for(lambda log=log: read(log.read_text()), over=over(slurmd))
            assert found == cpus, conf.partition(f"NodeName={name} ")[2].partition("\n")[0]
        finally:
            slurmd.kill()
            slurmd.wait()


@pytest.mark.parametrize("core", ["0", "1"])
def test_the_line_that_is_said_does_what_it_must(core: str, doctor: Doctor, tmp_path: Path, fio: Path) -> None:
    """Written into slurm.conf as it stands there, it leaves jobs the other CPUs, and `pinning: strict`, which without
    it is refused, runs."""
    [line] = doctor(*ALONE, core=core, code=1)[steps.SLURM]
    said = re.match(r"(CpuSpecList=\S+) on the line NodeName=(\S+) of slurm\.conf ", line.change)
    assert said, line
    kept = Topology.read().with_siblings({int(core)})
    with Cluster(node_options={said[2]: said[1]}).up() as cluster:
        others = frozenset(range(cluster.cpus)) - kept
        look = ["srun", "--cpu-bind=none", "grep", "Cpus_allowed_list", "/proc/self/status"]
        assert cluster.run([*ALONE, *look]).stdout.split()[1] == listed(others)
        polls = ["sh", "-c", "while :; do :; done"] if core == "1" else ["sleep", "60"]  # as WEKA would
        weka = cluster.popen(["taskset", "-c", core, *polls], on="n1")
        lines = doctor(*ALONE, core=core, code=int(0 in kept), cluster=cluster)
        weka.kill()
        weka.wait()
        [polling] = lines.pop(steps.POLLING)
        # by who else is on this machine
        assert core == "0" or polling.seen.startswith(("the cores of", f"{named(others)} is near 100 % busy"))
        bad = {check for check, of in outcomes(lines).items() if {"wrong", "warning"} & {*of}}
        assert bad == ({steps.RESERVED} if 0 in kept else set()), lines  # core 0 is the operating system's
        assert lines[steps.SLURM][0].seen.endswith(f"this job may use {named(others)}, and none of it")
        if core == "1":
            (tmp_path / "c").mkdir()
            held = Held(cluster, "--licenses=pfs:1")
            job = Job(held, tmp_path / "c", fio)
            shutil.copy(tmp_path / "bin/weka", job.place / "bin")
            job.made.configure(TWO | {"phase_time": "3s"}, pinning="strict")
            ended, text = job.start("--launcher", "srun", WEKA_CORE=core).result()
            assert ended == 0, text
            for check in ("pinned", "reserved_cpus"):
                assert two_nodes.outcomes(job, check) == {"fio/rand_read": "pass"}
            [row] = job.made.rows()
            assert (row["pinning"], row["reserved_cpus"]) == ("strict", listed(kept))
            assert parse(row["cpus"]) <= others
            held.end()
