"""CPUs in the report: what each is colored as, which nodes share a picture, what is wrong, and what was proven."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis.data import Campaign, CheckRow
from iosweep.node.reserved import CONFIGURATION
from iosweep.report import cpus, page
from iosweep.report.cpus import Cpus, Picture
from report_nodes import HUGE, ONE, node, nodes
from topologies import AWS_192, WEKA_56, machine

TWO = machine(1, 1, 2).topology
WEKA = {"source": "weka local resources -C client0", "cpus": "24-27", "says": "4 FRONTEND cores, dedicated"}
UDP = {"source": "weka local resources -C client1", "cpus": "", "says": "UDP: reserves none"}


def weka_56(**more: Any) -> dict[str, Any]:
    kept = {"reserved_cpus": "24-27", "reserved_sources": [WEKA], "cpus_allowed": "0-23,28-55"}
    return node(WEKA_56.topology, **kept | {"used_cpus": "0-11"} | more)


def shown(*rows: Mapping[str, Any]) -> Cpus:
    found = cpus.of(factory.loaded(nodes=nodes(*rows)))
    assert found
    return found


def picture(row: Mapping[str, Any]) -> Picture:
    (found,) = shown(row).pictures
    return found


def states(found: Picture) -> dict[str, str]:
    return {state: which for state, _, _, which in found.legend}


class TestPicture:
    def test_weka_on_the_last_cores_of_the_second_numa_node(self) -> None:
        automatic = {**WEKA, "cpus": None, "says": "1 COMPUTE core, dedicated, which WEKA chooses itself (automatic)"}
        assert "(weka local resources -C client0)" in picture(
            weka_56(reserved_sources=[WEKA, automatic])
        ).sockets[0].numas[1].cores[-1][0].title  # fmt: skip
        found = picture(weka_56(nics=[{"name": "ib0", "state": "up", "numa_node": 1}]))
        assert found.about == "56 CPUs: 2 sockets, 4 NUMA nodes, 56 cores"
        assert [[numa.title for numa in socket.numas] for socket in found.sockets] == [
            ["NUMA node 0", "NUMA node 1 (ib0)"],
            ["NUMA node 2", "NUMA node 3"],
        ]
        assert [core[0].number for core in found.sockets[0].numas[1].cores] == list(range(14, 28))
        assert found.legend == (
            ("used", "used by ranks and workers", 12, "0-11"),
            ("free", "usable, not used", 40, "12-23,28-55"),
            ("reserved", "reserved", 4, "24-27"),
        )
        assert found.reserved == ("CPUs 24-27: weka local resources -C client0 (4 FRONTEND cores, dedicated)",)
        assert not found.wrong
        last = found.sockets[0].numas[1].cores[-1][0]
        assert last.title == "P#27, L#27: reserved (weka local resources -C client0), not in the allocation"

    def test_siblings_stand_together(self) -> None:
        sources = [{"source": "/proc/mounts", "cpus": "95", "says": "core=95"}]
        found = picture(node(AWS_192.topology, reserved_cpus="95,191", reserved_sources=sources))
        assert [[cpu.number for cpu in core] for core in found.sockets[1].numas[0].cores][-1] == [95, 191]
        assert states(found) == {"free": "0-94,96-190", "reserved": "95,191"}
        titles = [cpu.title for cpu in found.sockets[1].numas[0].cores[-1]]
        assert titles == ["P#95, L#190: reserved (/proc/mounts)", "P#191, L#191: reserved (sibling of a reserved CPU)"]

    def test_what_escaped_from_the_allocation(self) -> None:
        found = picture(node(TWO, cpus_allowed="1", used_cpus="0-1"))
        assert states(found) == {"stray": "0", "used": "1"}
        assert found.wrong

    @pytest.mark.parametrize(
        ("facts", "lines"),
        [
            ({}, ["No CPU is reserved."]),
            ({"reserved_sources": [UDP]}, ["No CPU is reserved.", f"{UDP['source']} (UDP: reserves none)"]),
            ({"reserved_sources": None, "reserved_cpus": None}, ["Nobody looked for reserved CPUs."]),
            (
                {"reserved_sources": [{"source": CONFIGURATION, "cpus": "1", "says": ""}], "reserved_cpus": ""},
                ["No CPU is reserved.", f"CPU 1: {CONFIGURATION}"],
            ),
            (
                {"reserved_sources": [{**WEKA, "cpus": None, "says": "num_cores=4"}], "reserved_cpus": None},
                ["CPUs are reserved, but it is not known which.", f"{WEKA['source']} (num_cores=4)"],
            ),
        ],
    )
    def test_nothing_or_nobody_knows(self, facts: dict[str, Any], lines: list[str]) -> None:
        found = picture(node(TWO, **facts))
        assert list(found.reserved) == lines
        assert states(found) == {"free": "0-1"}

    def test_nodes_that_look_the_same_share_one(self) -> None:
        found = shown(weka_56(), weka_56(), weka_56(used_cpus="0-24"), weka_56(kernel="other", cpu_model=None))
        assert [one.hosts for one in found.pictures] == ["n3", "n1, n2, n4"]  # first those where something is wrong
        assert states(found.pictures[0])["conflict"] == "24"

    def test_many_that_differ_are_told_in_words(self) -> None:
        found = shown(*(node(WEKA_56.topology, used_cpus=str(k)) for k in range(20)))
        assert len(found.pictures) + len(found.others) == 20
        assert len(found.pictures) == cpus.MOST

    def test_nobody_looked(self) -> None:
        old = nodes(dict.fromkeys(node(TWO)) | {"host": "n1"})
        assert cpus.of(factory.loaded(nodes=old)) is None


def test_problems_are_named_once_with_their_nodes_the_wrong_ones_first() -> None:
    rows = nodes(weka_56(cpus_allowed="0-55"), weka_56(), weka_56(cpus_allowed="0-55"))
    said = check("reserved_agree", "fail", "n1: the configuration leaves out CPU 2")
    found = cpus.of(factory.loaded(checks=[said], nodes=rows))
    assert found
    assert [(one.outcome, one.seen[:34], one.hosts) for one in found.problems] == [
        ("warning", "this job may use CPUs 24-27, which", "n1, n3"),
        ("warning", said.evidence[:34], ""),
    ]


def check(name: str, outcome: str, evidence: str = "", repetition: int = 1) -> CheckRow:
    return factory.check(repetition=repetition, check=name, outcome=outcome, evidence=evidence)


BOUND = {"pinning": "enforce", "placement": "spread", "cpu_looks": 12}
VERIFIED = {"pinning": "verify", "placement": None, "cpu_looks": 5}
UNSEEN = dict.fromkeys(BOUND)
ENFORCED = ("", "Ranks and workers were bound (pinning: enforce, placement: spread).")


def campaign(*rows: tuple[Mapping[str, Any], Mapping[str, str]], pinning: str | None = None) -> Campaign:
    """Rows with these columns, and outcomes of these checks, each with its evidence after a colon."""
    made, checks = [], []
    for repetition, (row, outcomes) in enumerate(rows, 1):
        made.append(factory.row(**{"repetition": repetition, "wall_s": 1.0, **row}))
        for name, text in outcomes.items():
            outcome, _, evidence = text.partition(": ")
            checks.append(check(name, outcome, evidence, repetition))
    return factory.loaded(made, checks, cpus={"pinning": pinning})


def told(*rows: tuple[Mapping[str, Any], Mapping[str, str]], pinning: str | None = None) -> list[tuple[str, str]]:
    return list(cpus._told(campaign(*rows, pinning=pinning)))


class TestProven:
    def test_every_row_was_looked_at_and_kept_off(self) -> None:
        good = {"reserved_cpus": "pass", "pinned": "pass"}
        assert told((BOUND, good), (BOUND | {"cpu_looks": 4}, good)) == [
            ENFORCED,
            ("valid", "Every rank and worker was looked at 4 times or more per phase; none was allowed on a reserved"
             " CPU; each had the CPUs planned for it."),
        ]  # fmt: skip

    def test_nothing_is_said_of_reserved_cpus_where_there_are_none(self) -> None:
        (_, (good, text)) = told((BOUND, {"reserved_cpus": "not applicable", "pinned": "pass"}))
        assert (good, "reserved" in text) == ("valid", False)

    def test_what_failed_and_what_was_not_checked_is_counted(self) -> None:
        assert told(
            (BOUND, {"reserved_cpus": "pass", "pinned": "pass"}),
            (BOUND, {"reserved_cpus": "fail: n1: 1 rank could run on CPU 24", "pinned": "fail: n1: not bound"}),
            (BOUND | {"cpu_looks": 2}, {"reserved_cpus": "not checked: n1: 2 looks", "pinned": "not checked: 2 looks"}),
        ) == [
            ENFORCED,
            ("valid", "In 1 of 3 rows every rank and worker was looked at 12 times or more per phase; none was allowed"
             " on a reserved CPU; each had the CPUs planned for it."),
            ("invalid", "In 1 of 3 rows something could run on reserved CPUs: n1: 1 rank could run on CPU 24."),
            ("suspect", "In 1 of 3 rows not checked (reserved_cpus): n1: 2 looks."),
            ("invalid", "In 1 of 3 rows processes did not have the CPUs planned for them: n1: not bound."),
            ("suspect", "In 1 of 3 rows not checked (pinned): 2 looks."),
        ]  # fmt: skip

    def test_verify_says_that_nothing_was_bound(self) -> None:
        unbound = "not checked: nothing was bound"
        assert told((VERIFIED, {"reserved_cpus": "pass", "pinned": unbound})) == [
            ("", "Nothing was bound (pinning: verify): ranks and workers ran where the system put them."),
            ("valid", "Every rank and worker was looked at 5 times or more per phase; none was allowed on a reserved"
             " CPU."),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("pinning", "text"),
        [
            ("off", "Nothing was bound, and no CPU masks were read (pinning: off)."),
            (None, "The CPU masks of ranks and workers were not read."),
        ],
    )
    def test_nobody_looked(self, pinning: str | None, text: str) -> None:
        unseen = "not checked: masks were not looked at"
        assert told((UNSEEN, {"pinned": unseen, "reserved_cpus": unseen}), pinning=pinning) == [("", text)]


GOOD = (BOUND, {"reserved_cpus": "pass", "pinned": "pass"})


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([GOOD, GOOD], (False, "Ranks and workers were looked at: none was allowed on a reserved CPU, and each had the"
                        " CPUs planned for it.")),
        ([GOOD, (BOUND, {"reserved_cpus": "not checked: 2 looks", "pinned": "not checked: 2 looks"})],
         (False, "In 1 of 2 rows ranks and workers were looked at: none was allowed on a reserved CPU, and each had the"
          " CPUs planned for it; 1 row not checked.")),
        ([(BOUND, {"reserved_cpus": "not applicable", "pinned": "pass"})],
         (False, "Ranks and workers were looked at: each had the CPUs planned for it.")),
        ([GOOD, (BOUND, {"reserved_cpus": "fail: a", "pinned": "fail: b"})],
         (True, "In 1 of 2 rows something could run on reserved CPUs. In 1 of 2 rows processes did not have the CPUs"
          " planned for them.")),
        ([(VERIFIED, {"reserved_cpus": "not applicable", "pinned": "not checked: nothing was bound"})], None),
        ([(BOUND | {"wall_s": None}, {"pinned": "fail: a"})], None),
    ],
)  # fmt: skip
def test_the_first_screen_says_it_in_a_sentence(rows: list[Any], said: tuple[bool, str] | None) -> None:
    assert cpus.in_brief(campaign(*rows)) == said


def section(html: str) -> str:
    found = re.search(r'<h3 id="cpus">.*?</section>', html, re.DOTALL)
    assert found
    return found[0]


#: Without a figure, which is what takes the time.
class TestPage:
    def test_every_cpu_is_there_once_with_both_its_numbers(self, tmp_path: Path) -> None:
        own = nodes(node(HUGE, used_cpus="0-63"))
        text = section(page.render(factory.make(tmp_path, ONE, nodes=own)))
        cells = re.findall(r'<b class="(\w+)" title="P#(\d+), L#(\d+): [^"]+">(\d+)</b>', text)
        assert sorted(int(number) for _, number, _, _ in cells) == list(range(256))
        assert all(number == shown for _, number, _, shown in cells)
        assert [int(logical) for *_, logical, _ in cells] == list(range(256))  # they stand in Slurm's order
        assert not re.search("conflict|stray", text)
        assert 'role="img" aria-label="Picture of the CPUs of n1: 256 CPUs: 2 sockets' in text
        assert "Every rank and worker was looked at 12 times or more per phase; each had the CPUs planned" in text

    def test_names_are_text(self, tmp_path: Path) -> None:
        evil = '<img src=x onerror=alert(1)>"'
        sources = [{"source": evil, "cpus": "24-27", "says": evil}]
        own = nodes(weka_56(reserved_sources=sources, cpus_allowed="0-55"))
        text = section(page.render(factory.make(tmp_path, ONE, nodes=own)))
        assert "<img" not in text
        assert text.count("&lt;img src=x onerror=alert(1)&gt;&#34;") > 4

    def test_no_section_where_nobody_looked(self, tmp_path: Path) -> None:
        def missing(_: object) -> tuple[str, str]:
            return "missing", "fio is not installed"

        own = [factory.NODE | {"cores": None}]
        assert '<h3 id="cpus">' not in page.render(factory.make(tmp_path, ONE, nodes=own, spoil=missing))
