"""Reserved CPUs: the parsers beside samples of what they read, and nodes as small trees of /proc and /sys.

No live WEKA was at hand. The samples follow its documentation and support scripts; `weka` below is a stand-in.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iosweep.errors import Unanswered
from iosweep.node import reserved, weka
from iosweep.node.cpus import Topology, listed, parse
from iosweep.node.node_facts import NodeFacts
from iosweep.node.reserved import Overlap, Reserved, overlap
from iosweep.node.weka import find
from topologies import AWS_192, HYPER_96, INTERLEAVED_64, WEKA_56, Machine, machine, no_weka, silent_weka

AUTOMATIC = 4294967295
CLIENT = "weka local resources -C client0"

PS = """\
CONTAINER  STATE    DISABLED  UPTIME        MONITORING  PERSISTENT  PORT   PID    STATUS  VERSION  LAST FAILURE
client0    Running  False     3 days 2:01h  True        False       14000  28318  Ready   4.4.2
"""
TEXT = """\
ROLES       NODE ID  CORE ID
MANAGEMENT  0        <auto>
FRONTEND    1        24
FRONTEND    2        25
FRONTEND    3        26
FRONTEND    4        27

NET DEVICE  IDENTIFIER    DEFAULT GATEWAY  IPS  NETMASK  NETWORK LABEL
ib0         0000:86:00.0                        0
"""


def resources(*cores: int, roles: str = "FRONTEND", dedicate: bool = True, mode: str = "FULL") -> str:
    """What `weka local resources -C <container> --stable -J` prints, shortened."""
    nodes = {"0": {"core_id": AUTOMATIC, "dedicate_core": False, "dedicated_mode": "NONE", "roles": ["MANAGEMENT"]}}
    for number, core in enumerate(cores, 1):
        one = {"core_id": core, "dedicate_core": dedicate, "dedicated_mode": mode, "roles": [roles], "http_port": 0}
        nodes[str(number)] = one
    return json.dumps({"allow_protocols": False, "base_port": 14000, "net_devices": [], "nodes": nodes})


def weka_with(**containers: str) -> Callable[[Sequence[str]], str]:
    """A stand-in for `weka`, in this process: container -> its resources."""

    def ask(argv: Sequence[str]) -> str:
        if list(argv) == ["weka", "local", "ps"]:
            return PS.splitlines()[0] + "\n" + "".join(f"{name}  Running  False\n" for name in containers)
        assert list(argv[:4]) == ["weka", "local", "resources", "-C"]
        assert argv[5:] == ["--stable", "-J"]
        return containers[argv[4]]

    return ask


def node(root: Path, model: Machine = WEKA_56, mounts: str = "", **files: str) -> Topology:
    """A node: its CPUs (test_cpus.py reads them of trees), options of a mount of WEKA, and files by path with __
    for /."""
    wekafs = f"backend0/default /mnt/weka wekafs {mounts} 0 0\n" if mounts else ""
    for name, text in {"proc__mounts": f"/dev/sda1 / ext4 rw 0 0\n{wekafs}", **files}.items():
        file = root / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return model.topology


def of_reserved(found: Reserved) -> dict[str, Any]:
    """As the facts of a node have it."""
    return {"reserved_cpus": found.listed, "reserved_sources": msgspec.to_builtins(found.stored())}


def said(found: Reserved) -> list[tuple[str, str | None]]:
    return [(source.source, source.cpus) for source in found.stored()]


# --- parsers


def test_what_ps_lists() -> None:
    assert weka.containers(PS) == [("client0", "Running")]
    assert weka.containers("") == []
    assert weka.containers("drives0\ncompute0\n") == [("drives0", ""), ("compute0", "")]


def test_resources_as_json_and_as_text_say_the_same() -> None:
    [of_json] = weka.resources(CLIENT, resources(24, 25, 26, 27))
    [of_text] = weka.resources_text(CLIENT, TEXT)
    assert of_json == of_text
    assert (of_json.cpus, of_json.says) == ({24, 25, 26, 27}, "4 FRONTEND cores, dedicated")


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"nodes": 3}', "Error: no such container"])
def test_resources_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        weka.resources(CLIENT, text)
    with pytest.raises(ValueError, match="no table"):
        weka.resources_text(CLIENT, text)


@pytest.mark.parametrize("more", [{"dedicate": False}, {"mode": "NONE"}])
def test_cores_that_are_not_dedicated(more: dict[str, Any]) -> None:
    [source] = weka.resources(CLIENT, resources(24, 25, **more))
    assert (source.cpus, source.says) == (frozenset(), "2 FRONTEND cores, not dedicated: reserves none")


def test_automatic_cores_are_not_known() -> None:
    first, second = weka.resources(CLIENT, resources(24, AUTOMATIC, AUTOMATIC))
    assert first.cpus == {24}
    assert (second.cpus, second.least) == (None, 2)
    assert weka.resources_text(CLIENT, TEXT.replace("24", "<auto>"))[1].least == 1


@pytest.mark.parametrize(
    ("options", "cpus", "says"),
    [
        ("rw,core=24,core=25,core=26,core=27,net=ib0", "24-27", "core=24,core=25,core=26,core=27"),
        ("rw,num_cores=4,net=ib0", None, "num_cores=4, and not which"),
        ("rw,core=24,net=udp", "", "net=udp: reserves none"),
        ("rw,core=24,dedicated_mode=none,net=ib0", "", "dedicated_mode=none: reserves none"),
        ("rw,core=24,dedicated_mode=full", "24", "core=24"),
    ],
)
def test_mount_options(options: str, cpus: str | None, says: str) -> None:
    line = f"backend0/default /mnt/my\\040weka wekafs {options} 0 0\n"
    [source] = weka.mounts(line + line.replace("my", "other") + "x /core=1 ext4 rw,core=1 0 0\n")
    assert source.name == "/proc/mounts /mnt/my\\040weka and 1 more"
    assert (source.cpus if source.cpus is None else listed(source.cpus), source.says) == (cpus, says)


def test_mounts_that_say_nothing_of_cores() -> None:
    line = "default /mnt/weka wekafs rw,relatime,writecache,inode_bits=auto,container=client 0 0\n"
    assert weka.mounts(line) == []
    assert weka.silent_mounts(line) == ["/proc/mounts /mnt/weka"]
    assert weka.net_of_mounts(line.replace("rw", "rw,net=ib0/10.0.0.1/24,net=udp")) == ["ib0"]


# --- nodes


def test_the_documentations_node_all_sources_agree(tmp_path: Path) -> None:
    """56 CPUs on four NUMA nodes, WEKA on 24-27."""
    options = "rw,core=24,core=25,core=26,core=27,net=ib0"
    topology = node(tmp_path, mounts=options, **{"sys__fs__cgroup__cpuset__weka-client__cpuset.cpus": "24-27\n"})
    found = find(topology, None, tmp_path, weka_with(client0=resources(24, 25, 26, 27)))
    assert found.listed == "24-27"
    assert said(found) == [
        (CLIENT, "24-27"), ("/proc/mounts /mnt/weka", "24-27"), ("/sys/fs/cgroup/cpuset/weka-client", "24-27")
    ]  # fmt: skip
    assert found.problems == ()
    assert found.why == ""


@pytest.mark.parametrize(
    ("model", "core", "whole"), [(HYPER_96, 47, "47,95"), (AWS_192, 95, "95,191"), (WEKA_56, 24, "24")]
)
def test_siblings_are_reserved_too(model: Machine, core: int, whole: str, tmp_path: Path) -> None:
    found = find(node(tmp_path, model), None, tmp_path, weka_with(client0=resources(core)))
    assert found.listed == whole
    assert said(found) == [(CLIENT, str(core))]  # what it says itself
    by_hand = find(node(tmp_path, model), str(core), tmp_path, no_weka)
    assert by_hand.listed == whole


def test_no_weka_nothing_is_assumed(tmp_path: Path) -> None:
    found = find(node(tmp_path), None, tmp_path, no_weka)
    assert (found.listed, found.stored()) == ("", ())
    assert overlap(range(56), found, None) is None


def test_the_command_is_there_and_nothing_else_of_weka(tmp_path: Path) -> None:
    """Its agent does not run, or answers root only; a node that mounts another file system can still measure."""
    assert find(node(tmp_path), None, tmp_path, silent_weka).cpus == frozenset()
    assert find(node(tmp_path), None, tmp_path, weka_with()).listed == ""
    loaded = node(tmp_path, proc__modules="wekafsio 1 1 - Live 0x0\n")
    assert find(loaded, None, tmp_path, silent_weka).cpus is None


def test_an_unprivileged_user_sees_the_mount(tmp_path: Path) -> None:
    named = find(node(tmp_path, mounts="rw,core=24,core=25"), None, tmp_path, silent_weka)
    assert (listed(named.cpus or ()), named.problems) == ("24-25", ())
    assert "permission denied" in named.stored()[0].says
    silent = find(node(tmp_path, mounts="rw,relatime"), None, tmp_path, silent_weka)
    assert silent.cpus is None
    assert "permission denied" in silent.why
    assert "/proc/mounts /mnt/weka: does not say which cores" in silent.why
    told = overlap(range(56), silent, None)
    assert told
    assert told.fatal, "no CPU is known to be usable"
    assert told.seen.startswith("CPUs are reserved, and it is not known which (weka local ps: cannot be asked: exit")
    assert told.change == 'name them with cpus.reserved ("" if there are none)'
    assert overlap(range(56), silent, "24-27") is None
    assert overlap(range(56), silent, "") is None
    # WEKA's own word is enough
    assert find(node(tmp_path, mounts="rw"), None, tmp_path, weka_with(client0=resources(24))).cpus == {24}
    shared = weka_with(client0=resources(24, mode="NONE"))
    assert find(node(tmp_path, mounts="rw"), None, tmp_path, shared).listed == ""


@pytest.mark.parametrize("options", ["rw,core=24,net=udp", "rw,dedicated_mode=none,num_cores=2"])
def test_what_reserves_nothing(options: str, tmp_path: Path) -> None:
    for ask in (no_weka, silent_weka, weka_with(client0=resources(24, mode="NONE"))):
        found = find(node(tmp_path, mounts=options), None, tmp_path, ask)
        assert found.listed == "", ask
        assert "reserves none" in found.stored()[-1].says
        assert found.problems == ()


@pytest.mark.parametrize("name", ["cpuset.effective_cpus", "cpuset.cpus", "cpuset.cpus.effective"])
@pytest.mark.parametrize(
    "group", ["cpuset/weka-client", "weka.slice", "weka-client0", "unified/weka.slice", "weka.slice/weka-client0.scope"]
)
def test_cgroups_of_both_versions(group: str, name: str, tmp_path: Path) -> None:
    place = f"sys__fs__cgroup__{group.replace('/', '__')}__{name}"
    found = find(node(tmp_path, **{place: "24-27\n"}), None, tmp_path, no_weka)
    assert found.listed == "24-27"
    assert said(found) == [(f"/sys/fs/cgroup/{group}", "24-27")]


@pytest.mark.parametrize("files", [{"cpuset.cpus": "0-55"}, {"cpuset.cpus": "\n", "cpuset.cpus.effective": "24-27"}])
def test_cgroups_that_confine_nothing(files: dict[str, str], tmp_path: Path) -> None:
    """All CPUs, or none of their own: then what is effective is the parent's."""
    there = {f"sys__fs__cgroup__weka.slice__{name}": text for name, text in files.items()}
    assert find(node(tmp_path, **there), None, tmp_path, no_weka).stored() == ()


def test_several_containers_and_a_converged_node(tmp_path: Path) -> None:
    ask = weka_with(
        drives0=resources(1, 2, roles="DRIVES"), compute0=resources(14, 15, 16, roles="COMPUTE"),
        client0=resources(24), client1=resources(25), s3="no resources of this kind",
    )  # fmt: skip
    slice_ = {"sys__fs__cgroup__weka.slice__cpuset.cpus": "1-2,14-16,24-25"}
    found = find(node(tmp_path, mounts="rw,core=24", **slice_), None, tmp_path, ask)
    assert found.listed == "1-2,14-16,24-25"
    assert found.problems == ()
    assert found.owners([15]).startswith("weka local resources -C compute0: 3 COMPUTE cores, dedicated; /sys/fs/")


def test_a_container_that_is_stopped(tmp_path: Path) -> None:
    ask = weka_with(client0=resources(24), client1=resources(25))
    found = find(node(tmp_path), None, tmp_path, lambda argv: ask(argv).replace("client1  Running", "client1  Stopped"))
    assert found.cpus == {24}


def test_an_old_weka_without_json(tmp_path: Path) -> None:
    def ask(argv: Sequence[str]) -> str:
        if "-J" in argv:
            raise Unanswered("exit code 2, unknown option -J")
        return PS if "ps" in argv else TEXT

    assert find(node(tmp_path), None, tmp_path, ask).listed == "24-27"


def test_cores_that_weka_chooses(tmp_path: Path) -> None:
    ask = weka_with(client0=resources(AUTOMATIC, AUTOMATIC))
    found = find(node(tmp_path, mounts="rw,num_cores=2"), None, tmp_path, ask)
    assert found.listed is None
    assert "2 FRONTEND cores, dedicated, which WEKA chooses itself (automatic)" in found.why
    cgroup = {"sys__fs__cgroup__weka-client0__cpuset.cpus": "26-27"}
    assert find(node(tmp_path, **cgroup), None, tmp_path, ask).cpus == {26, 27}
    one = {"sys__fs__cgroup__weka-client0__cpuset.cpus": "26"}
    assert find(node(tmp_path, **one), None, tmp_path, ask).cpus is None  # two are wanted
    assert find(node(tmp_path), None, tmp_path, weka_with(client0=resources(26, 27))).cpus == {26, 27}


# --- disagreements


def test_sources_that_disagree(tmp_path: Path) -> None:
    topology = node(tmp_path, mounts="rw,core=24,core=25")
    found = find(topology, None, tmp_path, weka_with(client0=resources(24, 25, 26, 27)))
    assert found.listed == "24-27"
    assert found.problems == (
        f"/proc/mounts /mnt/weka says CPUs 24-25, and {CLIENT} says CPUs 24-27: CPUs 26-27 are named by the latter"
        " only",
    )
    elsewhere = find(topology, None, tmp_path, weka_with(client0=resources(26)))
    assert elsewhere.listed == "24-26"
    assert elsewhere.problems[0].startswith(f"/proc/mounts /mnt/weka says CPUs 24-25, and {CLIENT} says CPUs none: ")
    cgroup = node(tmp_path, mounts="rw,core=24,core=25", **{"sys__fs__cgroup__weka-x__cpuset.cpus": "25-27"})
    assert find(cgroup, None, tmp_path, no_weka).problems == (
        "/proc/mounts /mnt/weka says CPUs 24-25, and /sys/fs/cgroup/weka-x says CPUs 25-27: CPU 24 is named by the"
        " former only, CPUs 26-27 are named by the latter only",
    )


def test_the_configuration_takes_the_place_of_the_rest_and_is_compared(tmp_path: Path) -> None:
    ask = weka_with(client0=resources(24, 25, 26, 27))
    topology = node(tmp_path)
    same = find(topology, "24-27", tmp_path, ask)
    assert (same.listed, same.problems) == ("24-27", ())
    other = find(topology, "25-28", tmp_path, ask)
    assert other.listed == "25-28"
    assert other.problems == (
        f"{reserved.CONFIGURATION} says CPUs 25-28, and {CLIENT} says CPUs 24-27: CPU 28 is named by the former only,"
        " CPU 24 is named by the latter only",
    )
    none = find(topology, "", tmp_path, ask)
    assert (none.listed, len(none.problems)) == ("", 1)
    udp = find(node(tmp_path, mounts="rw,net=udp"), "24", tmp_path, no_weka)
    assert (udp.cpus, len(udp.problems)) == ({24}, 1)
    # what WEKA chooses itself may well be the rest of it
    chosen = weka_with(client0=resources(24, AUTOMATIC))
    assert find(topology, "24-25", tmp_path, chosen).problems == ()
    assert len(find(topology, "25-26", tmp_path, chosen).problems) == 1
    # another file system's cores, and what WEKA could not be asked: nothing to compare with
    assert find(node(tmp_path), "24", tmp_path, no_weka).problems == ()
    assert find(node(tmp_path), "24", tmp_path, silent_weka).problems == ()


def test_cpus_that_the_node_does_not_have(tmp_path: Path) -> None:
    topology = node(tmp_path, machine(1, 1, 2))
    found = find(topology, "1,24-27", tmp_path, weka_with(client0=resources(1, 300)))
    assert found.listed == "1"
    assert found.problems == (
        f"{CLIENT} names CPU 300, which is not a CPU of this node; it has 0-1",
        f"{reserved.CONFIGURATION} names CPUs 24-27, which are not CPUs of this node; it has 0-1",
    )


def test_a_node_that_shows_no_cpus(tmp_path: Path) -> None:
    assert find(Topology.read(tmp_path), "24", tmp_path, no_weka).listed == "24"


# --- what a job may use of them


def test_the_job_may_use_what_weka_keeps(tmp_path: Path) -> None:
    """The documentation's overlap: WEKA on 56-63 of 64 interleaved CPUs, and CpuSpecList=56-63 in Slurm's numbers."""
    topology = node(tmp_path, INTERLEAVED_64)
    found = find(topology, None, tmp_path, weka_with(client0=resources(*range(56, 64))))
    of_job = topology.cpus - topology.from_slurm(parse("56-63"))
    assert listed(of_job) == "0-48,50,52,54,56,58,60,62"
    seen = (
        f"the job may use CPUs 56,58,60,62, and they are reserved ({CLIENT}: 8 FRONTEND cores, dedicated); ranks and"
        " workers are kept off them by their masks"
    )
    lacks = "slurm.conf lacks CpuSpecList=28-31,60-63 on the node's line (Slurm's numbering)"
    assert overlap(of_job, found, None) == Overlap(seen, lacks, fatal=False)
    strict = overlap(of_job, found, None, strict=True)
    assert strict
    assert strict.fatal
    assert strict.seen == f"{seen.partition('; ')[0]}, which `pinning: strict` refuses"
    assert strict.change == f'{lacks}; or name them with cpus.reserved: "56-63", or set `pinning: enforce`'
    for mode in (False, True):
        proper = topology.cpus - topology.from_slurm(parse("28-31,60-63"))
        assert overlap(proper, found, None, strict=mode) is None
        alone = overlap(of_job, found, None, slurm=False, strict=mode)
        assert alone
        assert "slurm.conf" not in alone.change
        assert 'name them with cpus.reserved: "56-63"' in alone.change


@pytest.mark.parametrize(("model", "change"), [
    (HYPER_96, "slurm.conf lacks CpuSpecList=94-95 on the node's line (Slurm's numbering, with CPUs=96 and"
     " ThreadsPerCore=2 there)"),
    (HYPER_96.off(7), "`iosweep doctor` on that node says what slurm.conf lacks"),
    (WEKA_56, "slurm.conf lacks CpuSpecList=47 on the node's line (Slurm's numbering)"),
])  # fmt: skip
def test_the_line_is_said_where_it_is_sure(model: Machine, change: str, tmp_path: Path) -> None:
    topology = node(tmp_path, model)
    told = overlap(topology.cpus, find(topology, None, tmp_path, weka_with(client0=resources(47))), None)
    assert told
    assert told.change == change


def test_the_configuration_names_what_the_job_may_use(tmp_path: Path) -> None:
    """Fewer than WEKA does: one of them is wrong, and ranks cannot be kept off both."""
    ask = weka_with(client0=resources(24, 25, 26, 27))
    topology = node(tmp_path)
    for configured, refused in [("24-27", None), ("20-27", None), ("24-26", "CPU 27, and it is"), ("", "CPUs 24-27")]:
        found = find(topology, configured, tmp_path, ask)
        told = overlap(range(56), found, configured)
        assert (refused is None) == (told is None), told
        assert overlap(range(56), find(topology, None, tmp_path, ask), configured) == told
        if told and refused:
            assert told.fatal
            assert refused in told.seen
            assert "the sources disagree (the configuration (cpus.reserved) says CPUs " in told.seen
            assert '"24-27"' in told.change


def test_sources_on_the_node_contradict_each_other(tmp_path: Path) -> None:
    """WEKA's command and a mount name other cores: which are polled is not known."""
    topology = node(tmp_path, mounts="rw,core=30,core=24")
    ask = weka_with(client0=resources(24, 25))
    told = overlap(range(56), find(topology, None, tmp_path, ask), None)
    assert told
    assert told.fatal
    assert "the sources disagree (/proc/mounts /mnt/weka says CPUs 24,30" in told.seen
    assert '"24-25,30"' in told.change
    assert overlap(set(range(56)) - {24, 25, 30}, find(topology, None, tmp_path, ask), None) is None, "no job has them"
    assert overlap(range(56), find(topology, None, tmp_path, ask), "24-25,30") is None, "the configuration decides"


@pytest.mark.parametrize("configured", ["24-27", None])
def test_no_usable_cpu_is_left(configured: str | None, tmp_path: Path) -> None:
    found = find(node(tmp_path), configured, tmp_path, weka_with(client0=resources(24, 25, 26, 27)))
    assert overlap([24, 25], found, configured) == Overlap(
        f"no usable CPU is left: the job may use CPUs 24-25, and all are reserved ({CLIENT}: 4 FRONTEND cores,"
        " dedicated)",
        "give the job other CPUs, or correct cpus.reserved",
        fatal=True,
    )


@pytest.mark.parametrize("configured", [None, "24-26"])
def test_facts_say_as_much(configured: str | None, tmp_path: Path) -> None:
    """What another node tells comes as facts."""
    ask = weka_with(client0=resources(24, 25, AUTOMATIC), drives0=resources(1, mode="NONE"))
    for answers in (ask, weka_with(client0=resources(24, 25))):
        topology = node(tmp_path, HYPER_96, mounts="rw,core=24")
        found = find(topology, configured, tmp_path, answers)
        numa = [{"node": n, "cpus": listed(cpus)} for n, cpus in topology.numa.items()]
        facts = json.loads(json.dumps({"host": "n", **topology.facts(), "numa": numa, **of_reserved(found)}))
        facts = msgspec.convert(facts, NodeFacts)
        told = Reserved.of_node(facts)
        assert (told.cpus, told.problems, told.why) == (found.cpus, found.problems, found.why)
        assert overlap(range(96), facts, configured) == overlap(range(96), found, configured)


# --- the command

#: Stands in for WEKA's command on PATH: container client0 with core 1.
STANDIN = """\
#!{python}
import json, sys, time
time.sleep({sleep})
if sys.argv[1:] == ["local", "ps"]:
    print("CONTAINER  STATE\\nclient0    Running")
elif sys.argv[1:] == ["local", "resources", "-C", "client0", "--stable", "-J"]:
    print({resources!r})
else:
    sys.exit("error: unexpected " + " ".join(sys.argv[1:]))
"""


def standin(place: Path, sleep: float = 0) -> str:
    (place / "weka").write_text(STANDIN.format(python=sys.executable, sleep=sleep, resources=resources(1)))
    (place / "weka").chmod(0o755)
    return f"{place}{os.pathsep}{os.environ['PATH']}"


@pytest.mark.local
def test_the_command_on_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = node(tmp_path, machine(1, 1, 2))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find(topology, None, tmp_path).stored() == ()
    monkeypatch.setenv("PATH", standin(tmp_path))
    assert find(topology, None, tmp_path).cpus == {1}
    with pytest.raises(Unanswered, match="exit code 1, error: unexpected x"):
        weka.ask_weka(["weka", "x"])


@pytest.mark.local
def test_a_command_that_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", standin(tmp_path, sleep=600))
    monkeypatch.setattr(weka, "DEADLINE_S", 0.2)
    began = time.monotonic()
    found = find(node(tmp_path, mounts="rw"), None, tmp_path)
    assert time.monotonic() - began < 300
    assert found.cpus is None
    assert "weka local ps: cannot be asked: no answer within 0.2 s" in found.why


def test_offline_siblings(tmp_path: Path) -> None:
    topology = node(tmp_path, machine(1, 1, 4, threads=2).off(7))
    assert find(topology, None, tmp_path, weka_with(client0=resources(3))).listed == "3"
