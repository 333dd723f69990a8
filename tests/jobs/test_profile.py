"""What jobs ask for by a profile, and the errors of a wrong one. Their words are in a snapshot."""

from syrupy.assertion import SnapshotAssertion

from iosweep.jobs import profile

#: Without these a profile is wrong.
LEAST: dict[str, object] = {"scheduler": "slurm", "launcher": "srun"}


def test_options_of_jobs() -> None:
    found = profile.parse(
        LEAST | {"slurm_partition": "a,b", "runtime": "24h", "mem_mb": "64000", "qos": 7, "wckey": None}, slurm=True
    )
    assert (found.problems, found.partition, found.limit_min) == ((), "a,b", 1440)
    assert found.options == ["--partition=a,b", "--qos=7", "--mem=64000"]


#: What a profile may not say.
WRONG: list[dict[str, object]] = [
    *({"runtime": bad} for bad in ("soon", 0, "01:00:00", "1-00:30:00")),
    *({"launcher": bad} for bad in (None, "mpirum", "srum", "srun-pmi")),
    *({name: "x"} for name in ("partition", "licence", "xyzzy", "slurm_reservation", "slurm_cluster", "nodes", "time")),
    *({name: "x"} for name in ("slurm_extra", "slurm_qos", "exlude", "queue")),
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
