"""`iosweep doctor --slurm`: what is judged of recorded answers (doctor/*.txt: Slurm 22.05.8, the test cluster), and
faults made for real on the test cluster."""

import json
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import iosweep
from iosweep import findings
from iosweep.commands import cli
from iosweep.commands.doctor import judge_nodes, judge_slurm
from iosweep.commands.doctor.judge_nodes import Answers, Asked
from iosweep.config import sweep_file as config
from iosweep.errors import Unusable
from iosweep.files import documents
from iosweep.findings import Line
from iosweep.jobs import submission
from iosweep.jobs.profile import Profile, read
from iosweep.node.node_facts import NodeFacts, ReservedSource
from iosweep.node.reserved import resolve
from iosweep.programs import spack_environment
from slurm import Cluster
from topologies import machine

SAMPLES = Path(__file__).parents[1] / "samples/doctor"
PROFILE = Profile("profile.yaml", limit_min=60, launcher="srun")
PARTITIONS = (SAMPLES / "partitions.txt").read_text().splitlines()
CONFIG = judge_slurm.config((SAMPLES / "config.txt").read_text())
SMALL = PARTITIONS[0]


def altered(line: str, **fields: str) -> str:
    """An answer with other values, as another site would have them."""
    for name, value in fields.items():
        before = next(word for word in line.split() if word.startswith(f"{name}="))
        line = line.replace(before, f"{name}={value}", 1)
    return line


def partition(p: Profile = PROFILE, line: str = SMALL) -> Line:
    return judge_slurm.partition(p, [line, *PARTITIONS[1:]])


# --- the profile


def write(place: Path, text: str, name: str = "profile.v9+.yaml") -> Path:
    (place / name).write_text(text)
    return place


def test_the_profile_that_we_ship(root: Path) -> None:
    shipped = read(root / "profiles/slurm")
    assert (shipped.partition, shipped.account, shipped.license, shipped.memory_mb) == (None, None, None, 0)
    assert shipped.limit_min
    assert shipped.launcher == "srun"
    assert (shipped.slurm, shipped.problems) == (True, ())
    local = read(root / "profiles/local")
    assert (local.slurm, local.launcher, local.problems) == (False, "mpiexec", ())


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (None, "has no profile.v9+.yaml"),
        ("executor: [", "cannot be read"),
        ("", "has no keys; write for example `executor: iosweep`"),
    ],
)
def test_a_file_that_is_not_a_profile(tmp_path: Path, text: str | None, wrong: str) -> None:
    if text is not None:
        write(tmp_path, text)
    with pytest.raises(Unusable, match=re.escape(wrong)):
        read(tmp_path)


@pytest.mark.parametrize(
    ("text", "line", "wrong"),
    [
        ("executor: iosweep\ndefault-resources: {runtime: soon}", 2, "runtime: `soon` is not a time"),
        (
            "executor: iosweep\ndefault-resources:\n\n  - runtime=1:00:00",
            4,
            "runtime: `1:00:00` is not a time; write runtime=1h",
        ),
        ("executor: iosweep\ndefault-resources:\n  - 'licenses=\"a b\"'", 3, "licenses: `a b` is not a license"),
        ("executor: iosweep\n\ndefault-resources:\n  license: pfs", 4, "license: unknown; did you mean `licenses`?"),
        ("executor: iosweep\ndefault-resources:\n  - mem_mb=64G", 3, "mem_mb: `64G` is not a number of MB"),
        ("executor: iosweep\njobs: 1\ndefault-resources:\n  - mem_mb=0", 3, "launcher: there is none"),
    ],
)
def test_where_a_profile_is_wrong(tmp_path: Path, text: str, line: int, wrong: str) -> None:
    least = {"launcher": 'launcher="srun"', "scheduler": 'scheduler="slurm"'}
    found = read(write(tmp_path, text))
    told = [problem for problem in found.problems if wrong in str(problem)]
    assert [(problem.file, problem.line) for problem in told] == [(found.file, line)]
    assert {problem.where.partition(".")[2] for problem in found.problems} - {*least} <= {wrong.partition(":")[0]}


# --- what Slurm says


def test_partitions() -> None:
    assert partition() == findings.ok("partition", "small (the default one) is UP, OverSubscribe=NO")
    assert partition(replace(PROFILE, partition="big")).seen == "big is UP, OverSubscribe=EXCLUSIVE"
    assert partition(line=altered(SMALL, State="DOWN")).seen == "small (the default one) is DOWN"
    assert partition(line=altered(SMALL, OverSubscribe="FORCE:4")).outcome == "wrong"
    absent = partition(replace(PROFILE, partition="huge"))
    assert absent.seen == "there is no partition huge (there are: small, short, spec, big, bigsh, down)"
    none = partition(line=altered(SMALL, Default="NO"))
    assert none.seen.startswith("there is no default partition, and the profile names none")


def test_wall_time() -> None:
    limits = submission.partition(SMALL)
    short = submission.partition(altered(SMALL, MaxTime="00:30:00"))
    assert judge_slurm.wall_time(PROFILE, limits).outcome == "ok"
    assert judge_slurm.wall_time(PROFILE, short).change.startswith("set runtime=30m or less in the profile")
    assert judge_slurm.wall_time(replace(PROFILE, limit_min=1440), short).seen.startswith("runtime 24 h in the profile")
    assert judge_slurm.wall_time(replace(PROFILE, limit_min=None), short).outcome == "warning"
    unlimited = submission.partition(altered(SMALL, MaxTime="UNLIMITED"))
    assert judge_slurm.wall_time(replace(PROFILE, limit_min=10**6), unlimited).outcome == "ok"


@pytest.mark.parametrize(
    ("needed", "fields", "states", "outcome"),
    [
        (2, {}, "2|idle", "ok"),
        (None, {}, "2|idle", "ok"),
        (3, {}, "2|idle", "wrong"),
        (2, {"MaxNodes": "1"}, "2|idle", "wrong"),
        (2, {}, "1|idle\n1|down*", "warning"),
        (2, {}, "1|mixed\n1|allocated", "ok"),
    ],
)
def test_node_counts(needed: int | None, fields: dict[str, str], states: str, outcome: str) -> None:
    assert judge_slurm.nodes(needed, submission.partition(altered(SMALL, **fields)), states).outcome == outcome


def test_licenses() -> None:
    said = (SAMPLES / "licenses.txt").read_text()

    def judged(asked: str | None, text: str = said) -> Line | None:
        return judge_slurm.license(replace(PROFILE, license=asked), text)

    outcomes = [found and found.outcome for found in map(judged, (None, "pfs", "gpfs", "pfs:2"))]
    assert outcomes == [None, "ok", "wrong", "wrong"]
    several = judged("pfs", altered(said, Total="8"))
    assert several
    assert several.outcome == "warning"
    assert "pfs:8" in several.change


def test_what_sbatch_says() -> None:
    said = (SAMPLES / "test-only.txt").read_text()
    limits = submission.partition(SMALL)
    healthy = f"{limits.nodes}|idle"
    of_site = limits, healthy
    assert judge_slurm.accepted(2, said, "", 0, *of_site).seen.endswith(" on n[1-2]")
    for memory_mb, change in ((0, "ask for fewer nodes"), (64000, "mem_mb=64000 in the profile may be more")):
        why = "allocation failure: Requested node configuration is not available"
        refused = judge_slurm.accepted(9, None, why, memory_mb, *of_site)
        assert (refused.outcome, refused.change.startswith(change)) == ("wrong", True)
    drained = f"1|drained\n{limits.nodes - 1}|idle"
    assert judge_slurm.nodes(limits.nodes, limits, drained).outcome == "warning"
    waits = judge_slurm.accepted(limits.nodes, None, why, 0, limits, drained)
    assert (waits.outcome, waits.change) == ("not checked", ""), "the campaign does run, once it is back"
    assert waits.seen.endswith("now, as nodes are out of service (1 drained)")
    assert judge_slurm.accepted(limits.nodes, None, "Invalid account", 0, limits, drained).outcome == "wrong"


#: As older and newer versions print the list; not recorded but taken from their sources.
OTHER_LISTS = {
    "18.08": "srun: MPI types are...\nsrun: none\nsrun: openmpi\nsrun: pmi2\n",
    "23.11": "MPI plugin types are...\n\tnone\n\tcray_shasta\n\tpmi2\n\tpmix\nspecific pmix plugin versions available:"
    " pmix_v4\n",
}


def test_mpi() -> None:
    here = judge_slurm.mpi_types((SAMPLES / "mpi.txt").read_text())
    assert sorted(here) == ["cray_shasta", "none", "pmi2", "pmix"]
    assert sorted(judge_slurm.mpi_types(OTHER_LISTS["18.08"])) == ["none", "openmpi", "pmi2"]
    assert sorted(judge_slurm.mpi_types(OTHER_LISTS["23.11"])) == ["cray_shasta", "none", "pmi2", "pmix"]
    assert judge_slurm.mpi(PROFILE, here, True).outcome == "ok"
    assert judge_slurm.mpi(PROFILE, ["none", "pmix"], True).change == 'set launcher="srun-pmix" in the profile'
    assert judge_slurm.mpi(PROFILE, ["none"], True).change == 'set launcher="mpiexec" in the profile'
    assert judge_slurm.mpi(PROFILE, ["none"], False).outcome == "warning"
    assert judge_slurm.mpi(replace(PROFILE, launcher="srun-pmix"), ["pmi2"], True).outcome == "wrong"
    assert judge_slurm.mpi(replace(PROFILE, launcher="mpiexec"), [], True).outcome == "ok"


@pytest.mark.parametrize(
    ("config", "fields", "asked_mb", "outcome"),
    [
        ({}, {}, 0, "ok"),
        ({"DefMemPerNode": "1000"}, {}, 0, "warning"),
        ({"DefMemPerCPU": "1000"}, {}, 0, "warning"),  # of 2 CPUs
        ({"DefMemPerCPU": "2000"}, {}, 0, "ok"),
        ({"DefMemPerNode": "1000"}, {"DefMemPerNode": "4000"}, 0, "ok"),  # that of the partition counts
        ({}, {}, 1000, "warning"),
        ({"DefMemPerNode": "1000", "SelectTypeParameters": "CR_CORE"}, {}, 0, "ok"),
    ],
)
def test_memory(config: dict[str, str], fields: dict[str, str], asked_mb: int, outcome: str) -> None:
    node_list = "n1|idle|2|4000\nn2|idle|2|4000\n"  # as on the cluster, but for the size of this machine's memory
    found = judge_slurm.memory(
        replace(PROFILE, memory_mb=asked_mb), CONFIG | config, altered(SMALL, **fields), node_list
    )
    assert found.outcome == outcome
    if outcome == "warning":
        assert "set mem_mb=4000" in found.change
        assert ("page cache" in judge_slurm.memory(replace(PROFILE, memory_mb=asked_mb),
                CONFIG | config | {"ConstrainRAMSpace": "yes"}, altered(SMALL, **fields), node_list).seen)  # fmt: skip


def test_settings() -> None:
    assert judge_slurm.settings(CONFIG).seen == "task/affinity, proctrack/linuxproc, select/cons_tres"
    assert judge_slurm.settings(CONFIG | {"TaskPlugin": "task/none"}).outcome == "warning"
    assert judge_slurm.settings(CONFIG | {"MinJobAge": "10 sec"}).outcome == "warning"


# --- what the nodes say


def facts(node: str, **more: Any) -> dict[str, Any]:
    """What a probe on a healthy node says."""
    return {
        "node": node, "python": "/x/.venv/bin/python",
        "package": {"version": "1.0", "file": "/x"},
        "places": [{"error": None, "same": True}],
        "target": {"identity": "lustre mds:/fs", "lock_name": "lustre /fs", "writable": True},
        "lock": True, "lock_on": {"identity": "nfs h:/home", "lock_name": "nfs h:/home"},
        "programs": {"fio": {"path": "/usr/bin/fio", "sha256": "ab"}},
        "cpus": None,
    } | more  # fmt: skip


ASKED = Asked(2, ["/home/me"], "/mnt/fs", "/home/locks", {"fio": "apt-get install fio"}, version="1.0")


def judged(*found: dict[str, Any], seen: bool = True) -> dict[str, Line]:
    where = frozenset(("/home/me", f["node"]) for f in found) if seen else frozenset()
    judged = judge_nodes.judge(ASKED, Answers(found, where))
    return {line.check: line for line in [*judged, judge_nodes.exclusion("/home/locks", None, found)]}


def test_healthy_nodes() -> None:
    found = judged(facts("n1"), facts("n2"))
    assert {line.outcome for line in found.values()} == {"ok"}, found


@pytest.mark.parametrize(
    ("check", "outcome", "more", "said"),
    [
        ("directory", "wrong", {"places": [{"error": None, "same": False}]}, "n2: what was written here is not there"),
        ("directory", "wrong", {"places": [{"error": "x: Read-only", "same": True}]}, "n2: x: Read-only"),
        ("environment", "wrong", {"package": {"error": "ModuleNotFoundError: x"}}, "n2: ModuleNotFoundError: x"),
        ("environment", "wrong", {"package": {"version": "0.9"}}, "n2: iosweep 0.9"),
        ("target", "wrong", {"target": {"error": "it hangs", "kind": "hangs"}}, "n2: it hangs"),
        ("target", "wrong", {"target": {"identity": "ext4 /dev/sda1", "writable": True}}, "n2: ext4 /dev/sda1"),
        ("target", "wrong", {"target": {"identity": "lustre mds:/fs", "writable": False}}, "n2: not writable by you"),
        ("target", "not checked", {"target": {"blind": True}}, "n2: without the package"),
        ("tools", "wrong", {"programs": {"fio": {"path": None, "sha256": None}}}, "n2: no fio"),
        ("tools", "warning", {"programs": {"fio": {"path": "/x", "sha256": "cd"}}}, "fio: not the same binary"),
        ("exclusion", "warning", {"lock": False}, "n2: does not see a lock that is held here"),
        ("exclusion", "wrong", {"lock": None}, "n2: target.lock is not there"),
        (
            "exclusion",
            "wrong",
            {"lock_on": {"identity": "lustre /fs", "lock_name": "lustre /fs"}},
            "is on the file system under test",
        ),
    ],
)
def test_one_unhealthy_node(check: str, outcome: str, more: dict[str, Any], said: str) -> None:
    found = judged(facts("n1"), facts("n2", **more))
    assert found[check].outcome == outcome
    assert said in found[check].seen
    assert {name for name, line in found.items() if line.outcome != "ok"} == {check}


def test_tools_that_spack_builds() -> None:
    def tools_of(search: str, *found: dict[str, Any]) -> Line:
        wanted = replace(ASKED, search=search)
        found_out = judge_nodes.judge(wanted, Answers(found, frozenset()))
        return next(line for line in found_out if line.check == "tools")

    lacks = facts("n2", programs={"fio": {"path": None, "sha256": None}})
    assert tools_of("", facts("n1"), lacks) == Line(
        "tools", "not checked", "they are not built yet", "see the line Spack"
    )
    there = tools_of("/t/bin", facts("n1"), facts("n2"))
    assert (there.outcome, there.seen) == ("ok", "fio of Spack on both nodes, the same binary")
    wrong = tools_of("/t/bin", facts("n1"), lacks)
    assert (wrong.outcome, wrong.seen) == ("wrong", "n2: no fio where Spack has built them (/t/bin)")
    assert "all nodes see tools.directory" in wrong.change


def of_cpus(weka: str | None = "", configured: str | None = None, allowed: str = "1") -> dict[str, Any]:
    """What a node with 4 CPUs says of them. weka: the CPUs that it keeps, empty where it is not there."""
    four = machine(1, 1, 4).topology
    sources = [] if weka == "" else [ReservedSource("weka local resources -C client0", weka, "its cores")]
    kept = resolve(four, sources, configured)
    facts = NodeFacts(
        "n2", **four.facts(), reserved_cpus=kept.listed, reserved_sources=kept.sources, cpus_allowed=allowed
    )
    found: dict[str, Any] = msgspec.to_builtins(facts)
    return found


@pytest.mark.parametrize(
    ("own", "outcome", "seen"),
    [
        (of_cpus(), "ok", "n1, n2: 4 of 4 usable"),
        (of_cpus("3"), "ok", "n2: 3 of 4 usable; CPU 3 reserved"),
        (of_cpus("3", allowed="3"), "warning", "n2: this job may use CPU 3, which is reserved (weka"),
        (of_cpus("3", "3", allowed="3"), "ok", "n2: 3 of 4 usable; CPU 3 reserved"),
        (of_cpus("3", "0-3"), "wrong", "n2: no usable CPU is left"),
        (of_cpus(None), "wrong", "n2: CPUs are reserved, and it is not known which (weka"),
    ],
)
def test_what_is_reserved(own: dict[str, Any], outcome: str, seen: str) -> None:
    found = (facts("n1", cpus=of_cpus()), facts("n2", cpus=own))

    def judged(*found: Any, strict: bool = False) -> Line:
        asked = replace(ASKED, pinned=True, strict=strict)
        lines = judge_nodes.judge(asked, Answers(found, frozenset()))
        return next(line for line in lines if line.check == "CPUs")

    assert judged(*found).outcome == outcome
    assert seen in judged(*found).seen
    assert judged(*found, strict=True).outcome == ("wrong" if outcome == "warning" else outcome)
    assert judged(facts("n1"), found[1]).outcome == "not checked"


def test_what_nodes_wrote_and_is_not_seen_here() -> None:
    assert judged(facts("n1"), facts("n2"), seen=False)["directory"].seen.endswith(
        "n1, n2: what it wrote is not seen here"
    )


def test_nodes_that_do_not_answer() -> None:
    found = judged(facts("n1"))
    assert found["nodes"].outcome == "wrong"
    assert found["nodes"].seen.startswith("1 of 2 answered (n1)")
    [none] = judge_nodes.judge(ASKED, Answers([], frozenset(), ["execve(): python: No such file"]))
    assert none.seen == "execve(): python: No such file"


def test_exclusion_without_a_lock() -> None:
    assert judge_nodes.exclusion(None, "pfs", [facts("n1")]).outcome == "ok"
    assert judge_nodes.exclusion(None, None, [facts("n1")]).outcome == "warning"
    assert judge_nodes.exclusion("/home/locks", None, []).outcome == "not checked"
    absent = judge_nodes.exclusion(
        "/home/locks", None, [facts("n1", lock=None, lock_on=None)]
    )  # the login node lacks it, too
    assert (absent.outcome, absent.seen) == ("wrong", "n1: target.lock is not there")


# --- on the machine


def test_without_slurm(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["doctor", "--slurm"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("there is no Slurm here: none of sbatch, srun")
    assert captured.err.count("\n") == 1


# --- on the cluster

CONFIGURATION = """\
campaign: doctored
target: {{directory: {place}/target, lock: {lock}}}
sweeps: [{{name: s, tool: fio, phases: [rand_read], axes: {{nodes: {nodes}}}, options: {{file_size: 1m}},
          phase_time: 1s, repetitions: 1}}]
cpus: {{reserved: "{reserved}"}}
"""


class Site:
    """A directory in which a campaign could be begun on the cluster."""

    def __init__(self, cluster: Cluster, place: Path, root: Path):
        self.cluster, self.place = cluster, place
        (place / "target").mkdir()
        (place / "locks").mkdir()
        shutil.copytree(root / "profiles/slurm", place / "profile")
        self.configure()
        self.profile(runtime=60)

    def configure(self, nodes: int = 2, reserved: str = "") -> None:
        lock, counts = self.place / "locks", sorted({1, nodes})
        text = CONFIGURATION.format(place=self.place, lock=lock, nodes=counts, reserved=reserved)
        (self.place / "c.yaml").write_text(text)

    def profile(self, more: str = "", **resources: object) -> None:
        resources = {"launcher": "srun", "scheduler": "slurm"} | resources
        file = self.place / "profile/profile.v9+.yaml"
        listed = "".join(f"  - {name}={json.dumps(value)}\n" for name, value in resources.items())
        file.write_text(f"executor: iosweep\ndefault-resources:\n{listed}{more}")

    def doctor(self, *arguments: str, env: dict[str, str | None] | None = None, code: int = 1) -> dict[str, list[Line]]:
        """check -> its lines."""
        command = [
            sys.executable,
            "-m",
            "iosweep",
            "doctor",
            "--slurm",
            "--profile",
            "profile",
            "--configfile",
        ]
        done = self.cluster.run([*command, "c.yaml", "--json", *arguments], cwd=self.place, env=env, check=False)
        assert done.returncode == code, done.stdout + done.stderr
        found: dict[str, list[Line]] = {}
        for line in json.loads(done.stdout)["lines"]:
            found.setdefault(line["check"], []).append(Line(**line))
        assert {f.name for f in self.place.iterdir()} <= {"c.yaml", "locks", "profile", "target"}, "left behind"
        assert not list((self.place / "locks").iterdir())
        return found


@pytest.fixture
def here(slurm: Cluster, tmp_path: Path, root: Path) -> Site:
    return Site(slurm, tmp_path, root)


def outcomes(found: dict[str, list[Line]]) -> dict[str, str]:
    return {check: line.outcome for check, of_check in found.items() for line in of_check if line.outcome != "ok"}


def test_a_cluster_that_is_well(here: Site, fio: Path) -> None:
    found = here.doctor()
    # the lock is on the target's file system on this machine (and how full it is, is not for us to say)
    assert outcomes(found).items() - {("space", "wrong")} == {("exclusion", "wrong")}
    assert found["nodes"][0].seen == "n1, n2 answered"
    assert found["space"][0].seen.startswith("the campaign ")
    assert found["tools"][0].seen == "fio on both nodes, the same binary"
    assert not here.cluster.squeue()


def test_tools_from_spack_on_a_cluster(here: Site, fio: Path) -> None:
    here.profile(runtime=60, tools="spack")
    configuration = here.place / "c.yaml"
    tools = here.place.with_name(f"{here.place.name}-tools")  # what is made here must not stay
    (tools / "bin").mkdir(parents=True)
    configuration.write_text(f"{configuration.read_text()}\ntools: {{directory: {tools}}}\n")
    before = here.doctor()
    assert before["Spack"][0].outcome == before["tools"][0].outcome == "not checked"
    assert "`snakemake tools` builds them" in before["Spack"][0].change
    place = spack_environment.read(config.read(configuration))
    place.file.parent.mkdir()
    shutil.copy(fio, tools / "bin" / "fio")
    known = {"path": str(tools / "bin" / "fio"), "version": "fio-3.33", "sha256": "ab", "package": None}
    (tools / "store").mkdir()
    document = {"path": [str(tools / "bin")], "store": str(tools / "store"), "tools": {"fio": known}, "mpi": None}
    document["environment"] = {"digest": place.digest}
    place.file.write_bytes(documents.dump(document))
    after = here.doctor()
    assert after["Spack"][0].seen.startswith("fio 3.33, built in ")
    assert after["tools"][0].seen == "fio of Spack on both nodes, the same binary"
    (tools / "bin" / "fio").unlink()
    assert "is gone, which" in here.doctor()["Spack"][0].seen


def test_for_a_person(here: Site) -> None:
    (here.place / "c.yaml").unlink()
    command = [sys.executable, "-m", "iosweep", "doctor", "--slurm", "--profile", "profile"]
    done = here.cluster.run(command, cwd=here.place, env={"COLUMNS": "80"})
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert len(done.stdout.splitlines()) < 45
    assert "not checked  configuration" in done.stdout
    assert re.search(r"warnings?, \d+ not checked$", done.stdout.splitlines()[-1])


def test_wrong_keys(here: Site) -> None:
    here.profile(slurm_partition="huge", runtime=60, licenses="gpfs")
    found = outcomes(here.doctor())
    assert found["partition"] == found["license"] == "wrong"
    assert found["nodes"] == "not checked"
    here.profile(slurm_partition="short", runtime=60)
    here.configure(nodes=3)
    found = outcomes(here.doctor())
    assert found["wall time"] == found["node count"] == found["submission"] == "wrong"
    here.profile(slurm_partition="down", runtime=60)
    assert here.doctor()["partition"][0].seen == "down is DOWN"


def test_a_profile_that_snakemake_would_refuse(here: Site) -> None:
    here.profile("iosweep-qos: bench\n", runtime="01:00:00", launcher="mpirun", licence="pfs")
    found = here.doctor()
    assert [(line.outcome, line.seen, line.change[:23]) for line in found["profile"]] == [
        ("wrong", "profile/profile.v9+.yaml:3: default-resources.launcher: unknown launcher `mpirun`",
         "did you mean `mpiexec`?"),
        ("wrong", "profile/profile.v9+.yaml:5: default-resources.runtime: `01:00:00` is not a time",
         "write runtime=1h"),
        ("wrong", "profile/profile.v9+.yaml:6: default-resources.licence: unknown", "did you mean `licenses`"),
    ]  # fmt: skip
    assert found["wall time"][0].outcome == found["MPI"][0].outcome == "not checked"
    shutil.rmtree(here.place / "profile")
    assert outcomes(here.doctor()) == {"profile": "wrong", "the rest": "not checked"}


def test_reserved_cpus_leave_none(here: Site) -> None:
    every = [str(cpu) for cpu in range(here.cluster.cpus)]
    here.configure(reserved=",".join(every))
    [line] = here.doctor()["CPUs"]
    assert line.outcome == "wrong"
    assert line.seen.startswith("n1, n2: no usable CPU is left: the job may use CPU")
    assert line.change == "give the job other CPUs, or correct cpus.reserved"


def test_a_campaign_that_does_not_fit(here: Site) -> None:
    with (here.place / "c.yaml").open("a") as file:
        file.write("limits: {share_of_free: 0%}\n")
    [space] = here.doctor()["space"]
    assert (space.outcome, space.change[:12]) == ("wrong", "measure less")
    assert space.seen.startswith(f"the campaign does not fit {here.place}/target: up to ")


def test_a_node_that_sees_other_directories(here: Site) -> None:
    n2 = here.cluster
    n2.on("n2", ["mount", "-t", "tmpfs", "none", str(here.place / "target")])
    n2.on("n2", ["mount", "-t", "tmpfs", "none", str(here.place / "locks")])
    n2.on("n2", ["mount", "-t", "tmpfs", "none", str(Path(iosweep.__file__).parent)])
    try:
        found = here.doctor()
        assert found["environment"][0].seen.split(": ", 1)[1].startswith("n2: ")
        assert found["target"][0].outcome == "not checked"
        n2.on("n2", ["umount", str(Path(iosweep.__file__).parent)])
        found = here.doctor()
        assert "n2: tmpfs none" in found["target"][0].seen
        n2.on("n2", ["mount", "-t", "tmpfs", "none", str(here.place)])
        found = here.doctor()
        assert found["directory"][0].seen == f"{here.place} is not shared: n2: what was written here is not there"
        assert "does not exist" in found["target"][0].seen
    finally:
        for mounted in (here.place, here.place / "target", here.place / "locks", Path(iosweep.__file__).parent):
            n2.on("n2", ["umount", str(mounted)], check=False)


def test_busy_nodes(here: Site) -> None:
    holder = here.cluster.popen(["srun", "-N1", "--exclusive", "-w", "n1", "sleep", "600"], stderr=subprocess.PIPE)
    try:
        while not any(job.state == "RUNNING" for job in here.cluster.squeue()):
            time.sleep(0.05)
        began = time.monotonic()
        found = here.doctor("--wait", "1s", code=0)
        assert time.monotonic() - began < 300
        assert found["nodes"] == [findings.unchecked("nodes", "no free node within 1 s", "try --wait 10min")]
    finally:
        here.cluster.cancel()
        holder.communicate()


def test_drained_nodes(here: Site) -> None:
    """A campaign waits for them, so nothing is wrong; and the doctor does not wait for them."""

    def drain(node: str) -> None:
        here.cluster.run(["scontrol", "update", f"nodename={node}", "state=drain", "reason=test"])

    try:
        drain("n2")
        found = here.doctor("--wait", "10min")  # the lock is on the target's file system on this machine
        assert outcomes(found).keys() >= {"node count", "submission"}
        [count], [submitted] = found["node count"], found["submission"]
        assert (count.outcome, submitted.outcome) == ("warning", "not checked")
        seen, absent = found["nodes"]
        assert seen.seen.startswith("n1 answered")
        assert absent == findings.unchecked("nodes", "1 of the 2 that are asked for (1 drained)")
        drain("n1")
        found = here.doctor("--wait", "10min", code=0)
        assert found["nodes"] == [findings.unchecked("nodes", "no node of the partition can be used now (2 drained)")]
    finally:
        here.cluster.run(["scontrol", "update", "nodename=n[1-2]", "state=resume"])
        here.cluster.idle()


def test_a_controller_that_is_down(here: Site, tmp_path_factory: pytest.TempPathFactory) -> None:
    # for those who look for it at another port
    config = tmp_path_factory.mktemp("conf") / "slurm.conf"
    config.write_text(here.cluster.run(["cat", "/etc/slurm/slurm.conf"]).stdout + "\nSlurmctldPort=6999\n")
    found = here.doctor(env={"SLURM_CONF": str(config)})
    assert found["controller"][0].seen == "Slurmctld(primary) at head is DOWN"
    assert outcomes(found)["the rest"] == "not checked"
