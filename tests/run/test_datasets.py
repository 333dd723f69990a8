"""Data sets of several nodes: who writes them, when they are written anew, and what is known of them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from campaign import document, make
from iosweep.node.process import Completed
from iosweep.run.budget import Budget
from iosweep.run.campaign_directory import CampaignDirectory
from iosweep.run.datasets import DataSets
from iosweep.run.launch import merge
from iosweep.store.record import DataSet
from iosweep.store.store import Store
from iosweep.target import identify
from iosweep.target.agent import Agent
from iosweep.tools import FileSet, Streams, Tool

pytestmark = pytest.mark.local


class Writer:
    """Starts what writes a set, and keeps on which hosts. `fails`: the directory of one that cannot be written."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[str, ...], list[str]]] = []
        self.fails = ""

    def __call__(
        self, tool: Tool, commands: Sequence[Sequence[str]], tasks: int, limit_s: float, hosts: Sequence[str]
    ) -> tuple[Completed, Streams]:
        self.calls.append((tuple(hosts), [Path(command[1]).name for command in commands]))
        streams: dict[str, bytes] = {}
        codes = []
        for k, (_, directory, *names) in enumerate(commands):
            fails = bool(self.fails) and directory.endswith(self.fails)
            streams |= {f"stdout@{k}": b"{\n", f"stderr@{k}": b"\nno space\n" if fails else b""}
            codes.append(28 if fails else 0)
            for name in () if fails else names:
                Path(directory, name).write_bytes(bytes(4096))
        streams["hosts"] = msgspec.json.encode([{"host": hosts[k], "exit_code": code} for k, code in enumerate(codes)])
        done = [
            Completed(("started", *command), 0, timed_out=False, flooded=False, wall_s=1.0) for command in commands
        ]  # by a launcher, say
        return replace(merge(dict(zip(hosts, done, strict=False))), exit_code=max(codes)), streams


@pytest.fixture
def sets(agent: Agent, tmp_path: Path) -> tuple[DataSets, Writer, Path]:
    (tmp_path / "target").mkdir()
    made = make(tmp_path, document() | {"target": {"directory": f"{tmp_path}/target"}, "limits": {"fill": "100%"}})
    store, writer = Store(tmp_path / "results"), Writer()
    directory = CampaignDirectory(made, store, agent)
    directory.examine(agent.call(identify.identify, f"{tmp_path}/target"))
    directory.claim()
    budget = Budget(made, store, None, print)
    return DataSets(agent, directory, store, [], writer, budget), writer, Path(directory.path)


def file_set(*names: str, of_all_nodes: bool = False) -> FileSet:
    return FileSet("sets/s", "read", names, 4096, of_all_nodes, lambda path: ["write", path, *names])


HOSTS = ("n1", "n2", "n3")


def test_what_changed_while_it_was_read_is_written_anew(sets: tuple[DataSets, Writer, Path]) -> None:
    found, writer, ours = sets
    files = file_set("0.0", "1.0")
    evidence = found.ensure_complete(files, "fio", HOSTS)
    assert found.changed(files, HOSTS) == ()
    with (ours / "sets/s.node1/1.0").open("r+b") as file:
        file.write(b"other")
    assert found.changed(files, HOSTS) == ("files were written to or truncated (1.0 was the last)",)
    assert sorted(path.name for path in (ours / "sets").iterdir()) == ["s", "s.node2"]  # also for the next run
    assert found.ensure_complete(files, "fio", HOSTS) == evidence
    assert writer.calls[1:] == [(("n3",), ["s.node1"])]


def test_each_node_has_its_files_and_another_writes_them(sets: tuple[DataSets, Writer, Path]) -> None:
    found, writer, ours = sets
    files = file_set("0.0", "1.0")
    evidence = found.ensure_complete(files, "fio", HOSTS)
    # who reads it must not have it in its cache
    assert writer.calls == [(("n2", "n3", "n1"), ["s", "s.node1", "s.node2"])]
    assert (evidence.wrong, evidence.files, evidence.set_bytes) == ((), 6, 6 * 4096)
    assert (evidence.holes != "found", evidence.self_readers) == (True, ())
    stored = found._store.documents(DataSet)
    assert [stored[name].argv[:2] for name in ("sets.s", "sets.s.node1", "sets.s.node2")] == [("started", "write")] * 3
    assert found.ensure_complete(files, "fio", HOSTS) == evidence
    assert len(writer.calls) == 1
    # other nodes of the same allocation find some that they have written themselves
    assert found.ensure_complete(files, "fio", ("n1", "n3")).self_readers == ("n3",)
    assert found.ensure_complete(files, "fio", ("n2", "n3")).self_readers == ("n2", "n3")
    # one node has the first of them; more nodes than before want more
    alone = found.ensure_complete(files, "fio", ("n2",))
    assert alone == structs.replace(evidence, files=2, set_bytes=2 * 4096, self_readers=None, sample=alone.sample)
    assert (evidence.sample and evidence.sample.files, alone.sample and alone.sample.files) == (6, 2)
    assert found.ensure_complete(files, "fio", (*HOSTS, "n4")).wrong == ()
    assert writer.calls[1:] == [(("n1",), ["s.node3"])]
    # after a failure all are looked at: what was changed is written anew, and nothing else
    (ours / "sets/s.node1/1.0").write_bytes(b"short")
    (step,) = make(ours.parents[1], document()).points[0].steps
    assert found.recheck(step, files, evidence, HOSTS, succeeded=False).unclear
    assert found.ensure_complete(files, "fio", HOSTS).wrong == ()
    assert writer.calls[2:] == [(("n3",), ["s.node1"])]


def test_one_set_of_all_nodes(sets: tuple[DataSets, Writer, Path]) -> None:
    found, writer, _ = sets
    evidence = found.ensure_complete(file_set("0", "1", of_all_nodes=True), "fio", HOSTS)
    assert writer.calls == [(HOSTS, ["s"])]
    assert (evidence.files, evidence.set_bytes, evidence.wrong) == (2, 2 * 4096, ())
    # ranks read what those of the next node have written
    assert evidence.self_readers == ()
    assert found.ensure_complete(file_set("0", "1", of_all_nodes=True), "fio", (*HOSTS[1:], "n1")).self_readers == (
        "n2",
        "n3",
        "n1",
    )
    assert len(writer.calls) == 1


def test_one_node_cannot_write_its_files(sets: tuple[DataSets, Writer, Path], tmp_path: Path) -> None:
    found, writer, _ = sets
    writer.fails = "s.node1"
    wrong = found.ensure_complete(file_set("0"), "fio", ("n1", "n2")).wrong
    assert any("exit code 28" in each for each in wrong)
    kept = msgspec.json.decode((tmp_path / "results/sets/sets.s.node1.json").read_bytes())
    assert (kept["hosts"], kept["exit_code"], kept["stderr"]) == (["n1"], 28, "\nno space\n")
    writer.fails = ""
    assert found.ensure_complete(file_set("0"), "fio", ("n1", "n2")).wrong == ()
