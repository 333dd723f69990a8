"""What the Snakefile asks: what is left, in which words, and what it refuses before anything runs."""

from pathlib import Path
from typing import Any

import pytest

from iosweep import dag
from iosweep.store import Store
from iosweep.submission import Site
from iosweep.yamlfile import ConfigError
from small import document, read


def load(directory: Path, *, nodes: tuple[int, ...] = (1,), **arguments: Any) -> dag.Dag:
    read(directory, document(axes={"nodes": list(nodes), "queue_depth": [1, 16]}))
    return dag.load(directory / "x.yaml", directory / "results", **arguments)


def test_everything_is_left_at_first(tmp_path: Path) -> None:
    found = load(tmp_path)
    assert set(found.left) == set(found.manifests) == {"1-node"}
    assert found.text("1-node") == found.left["1-node"]
    assert found.text("1-node").startswith("1 node: 2 points, 2 repetitions left, 3 s, up to")
    assert f"{dag.Texts(found):1-node}" == found.text("1-node")
    assert not (tmp_path / "results").exists()


def test_nodes_that_the_launcher_does_not_reach(tmp_path: Path) -> None:
    found = load(tmp_path, nodes=(1, 4))
    assert set(found.manifests) == {"1-node", "4-nodes"}
    assert set(found.left) == {"1-node"}
    assert found.text("4-nodes") == "4 nodes: missing, the launcher direct reaches 1"


def test_ranks_that_the_launcher_does_not_start(tmp_path: Path) -> None:
    sweep = document(tool="ior", phases=["seq_read"], axes={"threads_per_node": [1, 4]}, options={"file_size": "16m"})
    read(tmp_path, sweep)
    for launcher, points in (("direct", "1 point, 1 repetition"), ("mpiexec", "2 points, 2 repetitions")):
        found = dag.load(tmp_path / "x.yaml", tmp_path / "results", launcher)
        assert found.text("1-node").startswith(f"1 node: {points} left")
        assert found.launcher.name == launcher


@pytest.mark.parametrize(("only", "points"), [("qd1.", "1 point"), ("qd1", "2 points"), ("tin", "2 points")])
def test_only(tmp_path: Path, only: str, points: str) -> None:
    assert load(tmp_path, only=only).text("1-node").startswith(f"1 node: {points}, ")


def test_only_of_another_node_count(tmp_path: Path) -> None:
    # it is in the plan, so it is no mistake; here it cannot be measured
    assert load(tmp_path, nodes=(1, 4), only=".4n.").left == {}


def test_what_the_login_node_knows_of_the_tools_of_the_nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster: dict[str, Any] = {"launcher": "srun", "site": Site()}
    point = load(tmp_path, **cluster).plan.points[0].id
    store = Store(tmp_path / "results" / "quick")
    store.set_missing(point, {"tool": "fio", "sha256": None}, "fio is not on PATH")
    for here in (None, "0f3a"):  # what the login node has does not say what nodes have
        monkeypatch.setattr(dag, "builds", lambda _, here=here: {"fio": here})
        assert load(tmp_path, **cluster).text("1-node").startswith("1 node: 1 point, ")
    store.set_missing(point, None)  # `iosweep rerun --missing`
    assert load(tmp_path, **cluster).text("1-node").startswith("1 node: 2 points, ")
    # another build than the login node's is no reason to measure again: the nodes may have always had another
    seen = []
    monkeypatch.setattr(dag.progress, "left", lambda plan, results, missing, here, only: seen.append(here.tools) or {})
    load(tmp_path, **cluster)
    load(tmp_path, launcher="direct")
    assert seen == [{}, {"fio": "0f3a"}]


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"only": "qd2"}, "{file}:1: only: `qd2` is in no point and no sweep (sweeps: tiny)"),
        (
            {"launcher": "dirct"},
            "profile:1: launcher: unknown launcher `dirct`; did you mean `direct`? (known: direct, mpiexec)",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, arguments: dict[str, str], wrong: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, **arguments)
    assert [str(p) for p in caught.value.problems] == [wrong.format(file=tmp_path / "x.yaml")]


def test_a_job_goes_by_the_plan_that_it_was_sent_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the configuration says by now; and so does the Snakemake that its own one starts."""
    monkeypatch.setenv("IOSWEEP_PLAN", "")
    was, awaited = load(tmp_path), [".snakemake/tmp", str(tmp_path / "results/quick/plans")]
    awaited.append(str(was.plan_file))
    assert dag.sent_plan(awaited) is None  # Snakemake waits for it
    was.plan_file.parent.mkdir(parents=True)
    was.plan_file.write_bytes(was.plan.document())
    (tmp_path / "x.yaml").write_text("campaign: another")
    for files in (awaited, []):
        sent = dag.sent_plan(files)
        assert sent == was.plan_file
        found = dag.sent(sent, tmp_path / "results", "direct")
        assert (found.plan_file, found.manifests, found.left) == (was.plan_file, was.manifests, was.left)
