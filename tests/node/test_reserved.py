"""Reserved CPUs: the parsers beside samples of what they read, and nodes as small trees of /proc and /sys.

No live WEKA was at hand. The samples follow its documentation and support scripts; `weka` below is a stand-in.
What is said of them is in a snapshot.
"""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from iosweep.node import cpus
from iosweep.node.cpus import Reserved, Topology, find, listed, overlap, parse
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
    """A node: its CPUs, options of a mount of WEKA, and files by path with __ for /."""
    wekafs = f"backend0/default /mnt/weka wekafs {mounts} 0 0\n" if mounts else ""
    for name, text in {"proc__mounts": f"/dev/sda1 / ext4 rw 0 0\n{wekafs}", **files}.items():
        file = root / name.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return model.topology


def said(found: Reserved) -> list[tuple[str, str | None]]:
    return [(source.source, source.cpus) for source in found.sources]


def test_what_weka_says_of_its_containers() -> None:
    assert cpus.containers(PS) == [("client0", "Running")]
    assert cpus.containers("") == []
    assert cpus.containers("drives0\ncompute0\n") == [("drives0", ""), ("compute0", "")]
    for none in ("", "null", "[]", "{}", '{"nodes": 3}', "Error: no such container"):
        with pytest.raises(ValueError, match=r".+"):
            cpus.resources(CLIENT, none)
    for shared in (resources(24, 25, dedicate=False), resources(24, 25, mode="NONE")):
        assert [source.cpus for source in cpus.resources(CLIENT, shared)] == [""]
    # which cores WEKA chooses itself is not known
    assert [source.cpus for source in cpus.resources(CLIENT, resources(24, AUTOMATIC, AUTOMATIC))] == ["24", None]


#: Options of a mount, and the CPUs that they name: "" reserves none, None does not tell.
OPTIONS = {
    "rw,core=24,core=25,core=26,core=27,net=ib0": "24-27",
    "rw,num_cores=4,net=ib0": None,
    "rw,core=24,net=udp": "",
    "rw,core=24,dedicated_mode=none,net=ib0": "",
    "rw,core=24,dedicated_mode=full": "24",
    "rw,relatime,inode_bits=auto": None,
}


def test_what_the_options_of_a_mount_say(tmp_path: Path) -> None:
    for options, named in OPTIONS.items():
        line = f"backend0/default /mnt/my\\040weka wekafs {options} 0 0\n"
        [source] = cpus.mounts(line + line.replace("my", "other") + "x /core=1 ext4 rw,core=1 0 0\n")
        assert source.source == "/proc/mounts /mnt/my\\040weka and 1 more"
        assert source.cpus == named, options
        if named == "":
            for ask in (no_weka, silent_weka, weka_with(client0=resources(24, mode="NONE"))):
                assert find(node(tmp_path, mounts=options), None, tmp_path, ask).listed == "", (options, ask)


def test_hyper_threads_of_reserved_cpus_are_reserved_too(tmp_path: Path) -> None:
    for model, core, whole in ((HYPER_96, 47, "47,95"), (AWS_192, 95, "95,191"), (WEKA_56, 24, "24")):
        found = find(node(tmp_path, model), None, tmp_path, weka_with(client0=resources(core)))
        assert (found.listed, said(found)) == (whole, [(CLIENT, str(core))])  # and what it says itself
        assert find(node(tmp_path, model), str(core), tmp_path, no_weka).listed == whole


def test_nothing_is_assumed_where_there_is_nothing_of_weka(tmp_path: Path) -> None:
    """Or its command alone, which does not run, or answers root only: the node mounts another file system."""
    found = find(node(tmp_path), None, tmp_path, no_weka)
    assert (found.listed, found.sources, overlap(range(56), found)) == ("", (), None)
    assert find(node(tmp_path), None, tmp_path, silent_weka).cpus == frozenset()
    assert find(node(tmp_path), None, tmp_path, weka_with()).listed == ""
    assert find(Topology.read(tmp_path), "24", tmp_path, no_weka).listed == "24"  # /sys says nothing
    loaded = node(tmp_path, proc__modules="wekafsio 1 1 - Live 0x0\n")
    assert find(loaded, None, tmp_path, silent_weka).cpus is None


def test_cpus_that_are_reserved_and_not_named_let_nothing_run(tmp_path: Path) -> None:
    """Unless another source names them, or the configuration does."""
    named = find(node(tmp_path, mounts="rw,core=24,core=25"), None, tmp_path, silent_weka)
    assert (listed(named.cpus or ()), named.problems) == ("24-25", ())
    topology = node(tmp_path, mounts="rw,relatime")
    silent = find(topology, None, tmp_path, silent_weka)
    told = overlap(range(56), silent)
    assert silent.cpus is None and told and told.fatal
    for by_hand in ("24-27", ""):
        assert overlap(range(56), find(topology, by_hand, tmp_path, silent_weka)) is None
    assert find(topology, None, tmp_path, weka_with(client0=resources(24))).cpus == {24}
    chosen = weka_with(client0=resources(AUTOMATIC, AUTOMATIC))
    assert find(node(tmp_path, mounts="rw,num_cores=2"), None, tmp_path, chosen).listed is None


def test_reserved_cpus_are_read_from_cgroups_of_both_versions(tmp_path: Path) -> None:
    for group, name in (
        ("cpuset/weka-client", "cpuset.effective_cpus"),
        ("unified/weka.slice", "cpuset.cpus"),
        ("weka.slice/weka-0.scope", "cpuset.cpus.effective"),
    ):
        place = tmp_path / name
        files = {f"sys__fs__cgroup__{group.replace('/', '__')}__{name}": "24-27\n"}
        found = find(node(place, **files), None, place, no_weka)
        assert (found.listed, said(found)) == ("24-27", [(f"/sys/fs/cgroup/{group}", "24-27")]), name
    # all CPUs, or none of their own: then what is effective is the parent's
    for nothing in ({"cpuset.cpus": "0-55"}, {"cpuset.cpus": "\n", "cpuset.cpus.effective": "24-27"}):
        place = tmp_path / str(len(nothing))
        there = {f"sys__fs__cgroup__weka.slice__{name}": text for name, text in nothing.items()}
        assert find(node(place, **there), None, place, no_weka).sources == ()


# --- disagreements, and what a job may use of them


def test_where_sources_disagree_the_cpus_of_all_are_kept_off(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    """All of their CPUs are kept off, and the disagreement is told; the configuration takes the place of all."""
    mounted, plain = node(tmp_path / "m", mounts="rw,core=24,core=25"), node(tmp_path)
    four = weka_with(client0=resources(24, 25, 26, 27))
    more = find(mounted, None, tmp_path / "m", four)
    assert (more.listed, more.problems) == ("24-27", ())
    elsewhere = find(mounted, None, tmp_path / "m", weka_with(client0=resources(26)))
    assert elsewhere.listed == "24-26"
    problems = [*elsewhere.problems]
    for configured, told in [("24-27", False), ("20-27", False), ("25-28", True), ("", True)]:
        found = find(plain, configured, tmp_path, four)
        assert (found.listed, len(found.problems)) == (configured, int(told))
        problems += found.problems
    absent = find(node(tmp_path, machine(1, 1, 2)), "1,24-27", tmp_path, weka_with(client0=resources(1, 300)))
    assert (absent.listed, len(absent.problems)) == ("1", 2)
    assert "\n".join([*problems, *absent.problems]) == snapshot


#: The documentation's overlap: WEKA on 56-63 of 64 interleaved CPUs, and CpuSpecList=56-63 in Slurm's numbers.
OF_JOB = parse("0-48,50,52,54,56,58,60,62")


def test_reserved_cpus_that_a_job_may_use_are_told_and_fatal_where_masks_do_not_help(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """Where it is strict, where the configuration contradicts the node, and where nothing else is left."""
    interleaved, plain = node(tmp_path, INTERLEAVED_64), node(tmp_path)
    eight = find(interleaved, None, tmp_path, weka_with(client0=resources(*range(56, 64))))
    four = weka_with(client0=resources(24, 25, 26, 27))
    all_of = {cpus: find(plain, cpus, tmp_path, four) for cpus in ("24-27", "20-27", "24-26", "", None)}
    silent = find(node(tmp_path / "m", mounts="rw,relatime"), None, tmp_path / "m", silent_weka)
    told = {
        "masks": (overlap(OF_JOB, eight), False),
        "strict": (overlap(OF_JOB, eight, strict=True), True),
        "without Slurm": (overlap(OF_JOB, eight, slurm=False), False),
        "configured too few": (overlap(range(56), all_of["24-26"]), True),
        "configured none": (overlap(range(56), all_of[""]), True),
        "none is left, configured": (overlap([24, 25], all_of["24-27"]), True),
        "none is left": (overlap([24, 25], all_of[None]), True),
        "not known which": (overlap(range(56), silent), True),
    }
    assert {name: one and one.fatal for name, (one, _) in told.items()} == {n: fatal for n, (_, fatal) in told.items()}
    assert overlap(interleaved.cpus - parse("56-63"), eight, strict=True) is None
    assert overlap(range(56), all_of["24-27"]) is overlap(range(56), all_of["20-27"]) is None
    assert "\n\n".join(f"{name}: {one}" for name, (one, _) in told.items()) == snapshot
