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

import pytest

from iosweep.errors import Unanswered
from iosweep.node import reserved, weka
from iosweep.node.cpus import Topology, listed, parse
from iosweep.node.reserved import Overlap, Reserved, overlap
from iosweep.node.weka import find
from topologies import AWS_192, HYPER_96, INTERLEAVED_64, WEKA_56, Machine, machine, no_weka, silent_weka

AUTOMATIC = 4294967295
CLIENT = "weka local resources -C client0"

PS = """\
CONTAINER  STATE    DISABLED  UPTIME        MONITORING  PERSISTENT  PORT   PID    STATUS  VERSION  LAST FAILURE
client0    Running  False     3 days 2:01h  True        False       14000  28318  Ready   4.4.2
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


def said(found: Reserved) -> list[tuple[str, str | None]]:
    return [(source.source, source.cpus) for source in found.sources]


# --- parsers


def test_what_ps_lists() -> None:
    assert weka.containers(PS) == [("client0", "Running")]
    assert weka.containers("") == []
    assert weka.containers("drives0\ncompute0\n") == [("drives0", ""), ("compute0", "")]


@pytest.mark.parametrize("text", ["", "null", "[]", "{}", '{"nodes": 3}', "Error: no such container"])
def test_resources_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        weka.resources(CLIENT, text)


@pytest.mark.parametrize("more", [{"dedicate": False}, {"mode": "NONE"}])
def test_cores_that_are_not_dedicated(more: dict[str, Any]) -> None:
    [source] = weka.resources(CLIENT, resources(24, 25, **more))
    assert (source.cpus, source.says) == ("", "2 FRONTEND cores, not dedicated: reserves none")


def test_automatic_cores_are_not_known() -> None:
    first, second = weka.resources(CLIENT, resources(24, AUTOMATIC, AUTOMATIC))
    assert (first.cpus, second.cpus) == ("24", None)
    assert first.says == "1 FRONTEND core, dedicated"


@pytest.mark.parametrize(
    ("options", "cpus", "says"),
    [
        ("rw,core=24,core=25,core=26,core=27,net=ib0", "24-27", "core=24,core=25,core=26,core=27"),
        ("rw,num_cores=4,net=ib0", None, "num_cores=4, and not which"),
        ("rw,core=24,net=udp", "", "net=udp: reserves none"),
        ("rw,core=24,dedicated_mode=none,net=ib0", "", "dedicated_mode=none: reserves none"),
        ("rw,core=24,dedicated_mode=full", "24", "core=24"),
        ("rw,relatime,inode_bits=auto", None, "does not say which cores, or that it owns none (net=udp)"),
    ],
)
def test_mount_options(options: str, cpus: str | None, says: str) -> None:
    line = f"backend0/default /mnt/my\\040weka wekafs {options} 0 0\n"
    [source] = weka.mounts(line + line.replace("my", "other") + "x /core=1 ext4 rw,core=1 0 0\n")
    assert source.source == "/proc/mounts /mnt/my\\040weka and 1 more"
    assert (source.cpus, source.says) == (cpus, says)


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
    assert (found.listed, found.sources) == ("", ())
    assert overlap(range(56), found) is None


def test_the_command_is_there_and_nothing_else_of_weka(tmp_path: Path) -> None:
    """Its agent does not run, or answers root only; a node that mounts another file system can still measure."""
    assert find(node(tmp_path), None, tmp_path, silent_weka).cpus == frozenset()
    assert find(node(tmp_path), None, tmp_path, weka_with()).listed == ""
    loaded = node(tmp_path, proc__modules="wekafsio 1 1 - Live 0x0\n")
    assert find(loaded, None, tmp_path, silent_weka).cpus is None


def test_an_unprivileged_user_sees_the_mount(tmp_path: Path) -> None:
    named = find(node(tmp_path, mounts="rw,core=24,core=25"), None, tmp_path, silent_weka)
    assert (listed(named.cpus or ()), named.problems) == ("24-25", ())
    assert "permission denied" in named.sources[0].says
    silent = find(node(tmp_path, mounts="rw,relatime"), None, tmp_path, silent_weka)
    assert silent.cpus is None
    assert "permission denied" in silent.why
    assert "/proc/mounts /mnt/weka: does not say which cores" in silent.why
    told = overlap(range(56), silent)
    assert told
    assert told.fatal, "no CPU is known to be usable"
    assert told.seen.startswith("CPUs are reserved, and it is not known which (weka local ps: cannot be asked: exit")
    assert told.change == 'name them with cpus.reserved ("" if there are none)'
    for named_by_hand in ("24-27", ""):
        known = find(node(tmp_path, mounts="rw,relatime"), named_by_hand, tmp_path, silent_weka)
        assert overlap(range(56), known) is None
    # WEKA's own word is enough
    assert find(node(tmp_path, mounts="rw"), None, tmp_path, weka_with(client0=resources(24))).cpus == {24}
    shared = weka_with(client0=resources(24, mode="NONE"))
    assert find(node(tmp_path, mounts="rw"), None, tmp_path, shared).listed == ""


@pytest.mark.parametrize("options", ["rw,core=24,net=udp", "rw,dedicated_mode=none,num_cores=2"])
def test_what_reserves_nothing(options: str, tmp_path: Path) -> None:
    for ask in (no_weka, silent_weka, weka_with(client0=resources(24, mode="NONE"))):
        found = find(node(tmp_path, mounts=options), None, tmp_path, ask)
        assert found.listed == "", ask
        assert "reserves none" in found.sources[-1].says
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
    assert find(node(tmp_path, **there), None, tmp_path, no_weka).sources == ()


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


def test_cores_that_weka_chooses(tmp_path: Path) -> None:
    ask = weka_with(client0=resources(AUTOMATIC, AUTOMATIC))
    found = find(node(tmp_path, mounts="rw,num_cores=2"), None, tmp_path, ask)
    assert found.listed is None
    assert "2 FRONTEND cores, dedicated, which WEKA chooses itself (automatic)" in found.why
    cgroup = {"sys__fs__cgroup__weka-client0__cpuset.cpus": "26-27"}
    assert find(node(tmp_path, **cgroup), None, tmp_path, ask).cpus == {26, 27}
    assert find(node(tmp_path), None, tmp_path, weka_with(client0=resources(26, 27))).cpus == {26, 27}


# --- disagreements


def test_sources_that_disagree(tmp_path: Path) -> None:
    topology = node(tmp_path, mounts="rw,core=24,core=25")
    more = find(topology, None, tmp_path, weka_with(client0=resources(24, 25, 26, 27)))
    assert (more.listed, more.problems) == ("24-27", ())
    elsewhere = find(topology, None, tmp_path, weka_with(client0=resources(26)))
    assert elsewhere.listed == "24-26"
    assert elsewhere.problems == ("/proc/mounts /mnt/weka names CPUs 24-25, which WEKA itself does not",)


def test_the_configuration_takes_the_place_of_the_rest_and_is_compared(tmp_path: Path) -> None:
    ask = weka_with(client0=resources(24, 25, 26, 27))
    topology = node(tmp_path)
    for configured, problem in [("24-27", ""), ("20-27", ""), ("25-28", "CPU 24"), ("", "CPUs 24-27")]:
        found = find(topology, configured, tmp_path, ask)
        assert found.listed == configured
        said = f"{reserved.CONFIGURATION} leaves out {problem} ({CLIENT}: 4 FRONTEND cores, dedicated)"
        assert found.problems == ((said,) if problem else ())
    # another file system's cores, and what WEKA could not be asked: nothing to compare with
    assert find(node(tmp_path), "24", tmp_path, no_weka).problems == ()
    assert find(node(tmp_path), "24", tmp_path, silent_weka).problems == ()


def test_cpus_that_the_node_does_not_have(tmp_path: Path) -> None:
    topology = node(tmp_path, machine(1, 1, 2))
    found = find(topology, "1,24-27", tmp_path, weka_with(client0=resources(1, 300)))
    assert found.listed == "1"
    assert found.problems == (
        f"{CLIENT} names CPU 300, and this node has 0-1",
        f"{reserved.CONFIGURATION} names CPUs 24-27, and this node has 0-1",
    )


def test_a_node_that_shows_no_cpus(tmp_path: Path) -> None:
    assert find(Topology.read(tmp_path), "24", tmp_path, no_weka).listed == "24"


# --- what a job may use of them


def test_the_job_may_use_what_weka_keeps(tmp_path: Path) -> None:
    """The documentation's overlap: WEKA on 56-63 of 64 interleaved CPUs, and CpuSpecList=56-63 in Slurm's numbers."""
    topology = node(tmp_path, INTERLEAVED_64)
    found = find(topology, None, tmp_path, weka_with(client0=resources(*range(56, 64))))
    of_job = parse("0-48,50,52,54,56,58,60,62")
    told = overlap(of_job, found)
    assert told
    assert not told.fatal
    assert told.seen.startswith(f"this job may use CPUs 56,58,60,62, which are reserved ({CLIENT}: 8 FRONTEND cores")
    assert "CpuSpecList=28-31,60-63 on the node's line of slurm.conf (in Slurm's numbering)" in told.change
    strict = overlap(of_job, found, strict=True)
    assert strict
    assert strict.fatal
    assert 'cpus.reserved: "56-63"; or set `pinning: enforce`' in strict.change
    alone = overlap(of_job, found, slurm=False)
    assert alone
    assert alone.change == 'name all reserved CPUs with cpus.reserved: "56-63"'
    assert overlap(topology.cpus - parse("56-63"), found, strict=True) is None


def test_the_configuration_names_what_the_job_may_use(tmp_path: Path) -> None:
    """Fewer than WEKA does: one of them is wrong, and ranks cannot be kept off both."""
    ask = weka_with(client0=resources(24, 25, 26, 27))
    topology = node(tmp_path)
    for configured, refused in [("24-27", None), ("20-27", None), ("24-26", "CPU 27"), ("", "CPUs 24-27")]:
        told = overlap(range(56), find(topology, configured, tmp_path, ask))
        assert (refused is None) == (told is None), told
        if told and refused:
            assert told.fatal
            assert f"this job may use {refused}, which" in told.seen
            assert "leaves that out" in told.seen
            assert '"24-27"' in told.change


@pytest.mark.parametrize("configured", ["24-27", None])
def test_no_usable_cpu_is_left(configured: str | None, tmp_path: Path) -> None:
    found = find(node(tmp_path), configured, tmp_path, weka_with(client0=resources(24, 25, 26, 27)))
    assert overlap([24, 25], found) == Overlap(
        f"no usable CPU is left: the job may use CPUs 24-25, and all are reserved ({CLIENT}: 4 FRONTEND cores,"
        " dedicated)",
        "give the job other CPUs, or correct cpus.reserved",
        fatal=True,
    )


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
    assert find(topology, None, tmp_path).sources == ()
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
