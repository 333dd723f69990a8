"""Selectors: text -> figure -> text, and what they mean of what a campaign measures."""

from __future__ import annotations

import msgspec
import pytest

from iosweep.config.selectors import Scaling, Selector, SelectorError, Subject, Where, lacks, matches, parse

pytestmark = pytest.mark.unit

RAND = Subject("fio", "rand_read", ("small",), {"nodes": 1, "queue_depth": 1, "transfer_size": 4096, "o_direct": True})
DEEP = RAND._replace(values={**RAND.values, "queue_depth": 32})
SEQ = Subject("ior", "seq_read", ("big", "weka.read"), {"nodes": 1, "transfer_size": 1 << 20})
CREATE = [Subject("mdtest", "create", ("meta",), {"nodes": n, "threads_per_node": 8}) for n in (1, 2, 8)]
ALL = [RAND, DEEP, SEQ, *CREATE]


@pytest.mark.parametrize(
    ("text", "phase", "figure"),
    [
        ("read_bandwidth", "seq_read", "bandwidth"),
        ("write_bandwidth", "seq_write", "bandwidth"),
        ("read_iops", "rand_read", "iops"),
        ("mixed_iops", "rand_mixed", "iops"),
        ("rand_read", "rand_read", "iops"),
        ("seq_read", "seq_read", "bandwidth"),
        ("seq_read_iops", "seq_read", "iops"),
        ("read_rate", "read", "rate"),
        ("create_rate", "create", "rate"),
        ("create", "create", "rate"),
        ("dir_create_rate", "dir_create", "rate"),
        ("read_latency", "rand_read", "latency"),
        ("rand_read  p99", "rand_read", "p99"),
    ],
)
def test_figures_have_names(text: str, phase: str, figure: str) -> None:
    found = parse(text)
    assert (found.phase, found.figure, found.where, found.scaling) == (phase, figure, (), None)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("rand_read p99 at queue_depth 1", (Where("queue_depth", 1),)),
        ("rand_read p99 at queue_depth 1, nodes 2", (Where("queue_depth", 1), Where("nodes", 2))),
        ("rand_read p99 at transfer_size 4k, nodes 8", (Where("transfer_size", 4096), Where("nodes", 8))),
        (
            "rand_read at o_direct true, sweep weka.read-iops",
            (Where("o_direct", True), Where("sweep", "weka.read-iops")),
        ),
        ("seq_read at tool ior,file_size 1g", (Where("tool", "ior"), Where("file_size", 1 << 30))),
    ],
)
def test_points_are_named_by_axes(text: str, where: tuple[Where, ...]) -> None:
    assert parse(text).where == where


@pytest.mark.parametrize(
    "text",
    [
        "create scaling nodes 1 -> 8",
    ],
)
def test_scaling(text: str) -> None:
    found = parse(text)
    assert found.scaling == Scaling("nodes", 1, 8)
    assert found.text == "create scaling nodes 1 -> 8"
    assert [side.where for side in found.sides()] == [(Where("nodes", 1),), (Where("nodes", 8),)]


@pytest.mark.parametrize(
    "text",
    [
        "rand_read p99 at queue_depth 1, transfer_size 4k",
        "seq_read bandwidth at o_direct false, sweep a.b",
        "rand_read p99 scaling queue_depth 1 -> 32 at nodes 2",
        "seq_read scaling transfer_size 4k -> 1m",
    ],
)
def test_the_canonical_text_is_read_back(text: str) -> None:
    found = parse(text)
    assert found.text == text
    assert msgspec.json.decode(msgspec.json.encode(found), type=Selector) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("red_bandwidth", "names no phase and no figure; did you mean `read_bandwidth`?"),
        ("bandwidth", "names no phase and no figure"),
        ("", "names no phase and no figure"),
        ("create bandwidth", "names no figure of create (it has rate)"),
        ("seq_read p98", "did you mean"),
        ("seq_read rate", "names no figure of seq_read (it has bandwidth, iops, latency"),
        ("rand_read at colour 1", "`colour`, which is neither an axis nor an option (known: tool, sweep, nodes"),
        ("rand_read at depth 1", "did you mean `queue_depth`?"),
        ("rand_read at queue_dept 1", "did you mean `queue_depth`?"),
        ("rand_read at queue_depth", "`at queue_depth`; write an axis and its value"),
        ("rand_read at queue_depth deep", "queue_depth `deep`, which is not a whole number"),
        ("rand_read at transfer_size 4kb", "transfer_size `4kb`, which is not a size"),
        ("rand_read at write_mode old", "write_mode `old` (known: overwrite, new)"),
        ("rand_read at o_direct yes", "o_direct `yes` (known: true, false)"),
        ("rand_read at tool fi", "has the tool `fi` (known: fio, ior, mdtest)"),
        ("rand_read at nodes 1, nodes 2", "has `nodes` twice"),
        ("create scaling nodes 1 -> 8 at nodes 2", "has `nodes` twice"),
        ("create scaling 1 -> 8", "write an axis and two values"),
        ("create scaling nodes 8", "write an axis and two values"),
        ("create scaling nodes 8 -> 8", "to the same value"),
        ("create scaling tool fio -> ior", "`tool`, which is not an axis"),
        ("x" * 400, "has 400 characters"),
    ],
)  # fmt: skip
def test_errors_say_what_would_be_right(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse(text)
    assert message in str(caught.value)


def test_a_selector_means_the_points_that_have_its_values() -> None:
    assert [matches(parse("rand_read p99"), one) for one in ALL] == [True, True, False, False, False, False]
    assert [one for one in ALL if matches(parse("rand_read at queue_depth 32"), one)] == [DEEP]
    assert [one for one in ALL if matches(parse("seq_read at sweep weka.read, tool ior"), one)] == [SEQ]
    assert not matches(parse("rand_read at o_direct false"), RAND)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rand_read p99 at queue_depth 1", None),
        ("create scaling nodes 1 -> 8", None),
        ("rand_write iops", "rand_write is not measured (phases: rand_read, seq_read, create)"),
        ("seq_read p99", "ior measures no latency"),
        ("rand_read at queue_depth 4", "no rand_read is measured at queue_depth 4; queue_depth is 1, 32 there"),
        ("seq_read at transfer_size 4k", "transfer_size is 1m there"),
        ("create scaling nodes 1 -> 4", "no create is measured at nodes 4; nodes is 1, 2, 8 there"),
        ("create at queue_depth 1", "queue_depth has no value there (what has: nodes, threads_per_node)"),
        ("seq_read at sweep small", "sweep is big, weka.read there"),
    ],
)
def test_what_nothing_measures_is_said_with_what_there_is(text: str, message: str | None) -> None:
    found = lacks(parse(text), ALL)
    assert found == message if message is None else message in (found or "")
