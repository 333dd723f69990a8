"""`iosweep doctor --slurm`, with faults made for real on the test cluster."""

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import pytest

import iosweep
import scripted
from iosweep.commands import cli, doctor
from iosweep.commands.doctor import Line
from iosweep.errors import Unanswered
from iosweep.slurm import query
from slurm import Cluster

# --- on the machine


@pytest.mark.parametrize(("log", "asked"), [("log", ["sbatch", "scancel"]), ("/dev/full", [])])
def test_a_job_whose_number_is_unknown_is_ended_and_none_is_submitted_on_a_full_disk(
    log: str, asked: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Sequence[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(query, "ask", lambda argv, *_, **__: str(seen.append(argv)))
    monkeypatch.setattr(doctor, "LOG", log)
    with pytest.raises(OSError, match="space") if not asked else nullcontext():
        doctor.run_on_nodes(lambda _: ["sbatch", doctor.NAME], [], 1.0)
    assert [argv[0] for argv in seen] == asked
    assert [argv[-1].removeprefix("--name=") for argv in seen] == [doctor.NAME] * len(asked)
    assert not list(tmp_path.iterdir())


def test_a_doctor_that_finds_too_many_jobs_in_the_queue_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for said, helped in (("QOSMaxSubmitJobPerUserLimit", True), ("Invalid account", False)):
        monkeypatch.setattr(query, "submit", Mock(side_effect=Unanswered(said, said)))
        monkeypatch.setattr(query, "ask", Mock())
        [line] = doctor.run_on_nodes(lambda _: ["sbatch"], [], 1.0)
        assert bool(line.change) == helped


def test_a_machine_without_slurm_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["doctor", "--slurm"]) == 1
    said = capsys.readouterr().out
    assert "sbatch" in said and "profiles/local" in said


# --- on the cluster

CONFIGURATION = """\
campaign: doctored
target: {{directory: {place}/target, lock: {lock}}}
sweeps: [{{name: s, tool: fio, phases: [rand_read], axes: {{nodes: {nodes}}}, options: {{file_size: 1m}},
          phase_time: 1s, repetitions: 1}}]
"""


class Site:
    """A directory in which a campaign could be begun on the cluster."""

    def __init__(self, cluster: Cluster, place: Path, root: Path):
        self.cluster, self.place = cluster, place
        self.tools = scripted.install(place.with_name(f"{place.name}-path"))
        (place / "target").mkdir()
        (place / "locks").mkdir()
        shutil.copytree(root / "profiles/slurm", place / "profile")
        self.configure()
        self.profile(runtime=60)

    def configure(self, nodes: int = 2) -> None:
        lock, counts = self.place / "locks", sorted({1, nodes})
        text = CONFIGURATION.format(place=self.place, lock=lock, nodes=counts)
        (self.place / "c.yaml").write_text(text)

    def profile(self, more: str = "", **resources: object) -> None:
        resources = {"launcher": "srun", "scheduler": "slurm"} | resources
        file = self.place / "profile/profile.v9+.yaml"
        listed = "".join(f"  - {name}={json.dumps(value)}\n" for name, value in resources.items())
        file.write_text(f"executor: iosweep\ndefault-resources:\n{listed}{more}")

    def doctor(self, *arguments: str, env: dict[str, str | None] | None = None, code: int = 1) -> dict[str, list[Line]]:
        """check -> its lines."""
        command = [sys.executable, *["-m", "iosweep", "doctor", "--slurm", "--profile", "profile", "--configfile"]]
        env = {"PATH": f"{self.tools}:{os.environ['PATH']}"} | (env or {})
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


def test_a_healthy_cluster_has_nothing_wrong_and_nothing_is_left_behind(here: Site) -> None:
    found = here.doctor()
    # on this machine, lock and results are on the target's file system; how full and busy it is, is not for us to say
    seen = outcomes(found).items() - {("space", "wrong"), ("load", "warning")}
    assert seen == {
        ("exclusion", "wrong"),
        ("target", "warning"),
    }
    assert found["nodes"][0].seen.startswith("n1, n2 ")
    assert not here.cluster.squeue()


def test_what_is_wrong_in_profile_and_configuration_is_named(here: Site) -> None:
    here.profile(slurm_partition="small", runtime=60, licenses="gpfs")
    here.configure(nodes=3)
    assert outcomes(here.doctor())["submission"] == "wrong"
    here.profile("iosweep-poll-seconds: 9\n", runtime="01:00:00", launcher="hydra", licence="pfs")
    wrong = here.doctor()["profile"]
    assert [line.outcome for line in wrong] == ["wrong"] * 3
    assert [re.search(r":(\d+): default-resources\.(\w+)", line.seen).groups() for line in wrong] == [  # type: ignore[union-attr]
        ("3", "launcher"), ("5", "runtime"), ("6", "licence"),
    ]  # fmt: skip


def test_a_node_that_sees_other_directories_is_named(here: Site) -> None:
    run, package = here.cluster.run, Path(iosweep.__file__).parent
    places = (here.place / "target", here.place / "locks", package)
    try:
        for place in places:
            run(["mount", "-t", "tmpfs", "none", place], on="n2")
        found = here.doctor()
        assert "n2: " in found["nodes"][0].seen and found["nodes"][0].outcome == "wrong"
        run(["umount", package], on="n2")
        found = here.doctor()
        assert "n2 " in found["nodes"][0].seen and found["nodes"][0].outcome == "wrong"
        run(["mount", "-t", "tmpfs", "none", here.place], on="n2")
        found = here.doctor()
        assert "n2: " in found["target"][0].seen and found["target"][0].outcome == "wrong"
    finally:
        for place in (here.place, *places):
            run(["umount", place], on="n2", check=False)


def test_it_does_not_wait_for_busy_or_drained_nodes(here: Site) -> None:
    """A campaign waits for them, so nothing is wrong."""
    busy = here.cluster.run(["salloc", "--no-shell", "-w", "n1", "-N1", "--exclusive"]).stderr
    try:
        here.cluster.run(["scontrol", "update", "nodename=n2", "state=drain", "reason=test"])
        found = here.doctor("--wait", "1s", code=0)
        assert [line.outcome for line in found["nodes"]] == ["not checked"]
        assert "not checked" in [line.outcome for line in found["submission"]]
        here.cluster.cancel()
        found = here.doctor("--wait", "10min")  # the lock is on the target's file system on this machine
        seen, absent = found["nodes"]
        assert seen.seen.startswith("n1 ") and absent.outcome == "not checked"
    finally:
        assert "Granted" in busy
        here.cluster.run(["scontrol", "update", "nodename=n2", "state=resume"])
        here.cluster.cancel()
        here.cluster.idle()


def test_a_controller_that_does_not_answer_is_wrong_and_nothing_else_is_asked(
    here: Site, tmp_path_factory: pytest.TempPathFactory
) -> None:
    # for those who look for it at another port
    config = tmp_path_factory.mktemp("conf") / "slurm.conf"
    config.write_text(here.cluster.run(["cat", "/etc/slurm/slurm.conf"]).stdout + "\nSlurmctldPort=6999\n")
    found = here.doctor(env={"SLURM_CONF": str(config)})
    assert found["controller"][0].outcome == "wrong"
    assert outcomes(found)["the rest"] == "not checked"
