"""What jobs ask for by a profile, and the errors of a wrong one. Their words are in a snapshot."""

from syrupy.assertion import SnapshotAssertion

from iosweep.jobs import profile

#: Without these a profile is wrong.
LEAST: dict[str, object] = {"scheduler": "slurm", "launcher": "srun"}


def test_jobs_of_many_nodes_may_ask_for_something_else() -> None:
    found = profile.parse(
        LEAST | {"slurm_partition": "a,b", "runtime": "24h", "mem_mb": "64000", "qos": 7, "wckey": None,
                 "from_65_nodes": "runtime=6h reservation=", "from_17_nodes": "slurm_partition=large runtime=12h"},
        slurm=True,
    )  # fmt: skip
    assert not found.problems
    seen = {nodes: (found.at(nodes).partition, found.at(nodes).limit_min) for nodes in (1, 16, 17, 64, 65)}
    assert seen == {
        1: ("a,b", 1440), 16: ("a,b", 1440), 17: ("large", 720), 64: ("large", 720), 65: ("large", 360)
    }  # fmt: skip
    assert found.at(1).options == ["--partition=a,b", "--qos=7", "--mem=64000"]


#: What a profile may not say.
WRONG: list[dict[str, object]] = [
    *({"runtime": bad} for bad in ("soon", 0, "01:00:00", "1-00:30:00")),
    *({"launcher": bad} for bad in (None, "mpirum", "srum", "srun-pmi")),
    *({name: "x"} for name in ("partition", "licence", "xyzzy", "slurm_reservation", "slurm_cluster", "nodes", "time")),
    *({name: "x"} for name in ("slurm_extra", "slurm_qos", "exlude", "queue", "from_0_nodes")),
    *({"from_2_nodes": bad} for bad in ("large", "qos", "partition=large", "runtime=1:00:00", "launcher=srun")),
    {"mem_mb": "64G"}, {"scheduler": None}, {"comment": "a|b"}, {"comment": "project=a JobState=b"},
]  # fmt: skip


def test_what_a_profile_may_not_say_is_told_with_its_key(snapshot: SnapshotAssertion) -> None:
    said = []
    for resources in WRONG:
        [problem] = profile.parse(LEAST | resources, slurm=True).problems
        (key,) = resources
        assert (problem.file, problem.where) == ("profile", f"default-resources.{key}")
        said.append(f"{resources}: {problem}")
    assert "\n".join(said) == snapshot
