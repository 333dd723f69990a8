"""Which results of two campaigns are of the same thing, and what is never compared."""

from collections.abc import Iterator
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.matching import NeverMixed, hint, ignored, match

K = factory.K
#: A point of a campaign: its id, and what of its parameters is not as usual.
Point = tuple[str, dict[str, Any]]
USUAL = {"nodes": 1, "threads_per_node": 1, "transfer_size_bytes": 4 * K, "queue_depth": 1, "o_direct": True}
SIZES: list[Point] = [("a", {}), ("b", {"transfer_size_bytes": 64 * K})]


def results(points: list[Point]) -> list[Result]:
    return summarize([factory.row(point=point, **{**USUAL, **values}) for point, values in points])


def points(pairs: Iterator[Any] | tuple[Any, ...]) -> list[tuple[str, str]]:
    return [(pair.a.point, pair.b.point) for pair in pairs]


@pytest.mark.parametrize(
    ("a", "b", "ignore", "expected"),
    [
        (SIZES, SIZES, None, [("a", "a"), ("b", "b")]),
        # ids decide, not parameters: an id has what no parameter has
        (SIZES, [("c", {})], None, []),
        (SIZES, [("c", {})], ["phases"], [("a", "c")]),
        (SIZES, [("c", {"queue_depth": 2})], ["phases"], []),
        (SIZES, [("c", {"queue_depth": 2})], ["queue_depth"], [("a", "c")]),
        (SIZES, [("c", {"queue_depth": 2, "nodes": 2})], ["queue_depth"], []),
        (SIZES, [("c", {"queue_depth": 2, "nodes": 2})], ["queue_depth", "nodes"], [("a", "c")]),
        # of several points that are the same, none is chosen
        (SIZES, SIZES, ["transfer_size_bytes"], []),
        (SIZES, [*SIZES, ("d", {"nodes": 2})], ["nodes"], [("b", "b")]),
        # what no comparison may ignore keeps points apart, whatever is ignored
        (SIZES, [("c", {"o_direct": False})], ["phases"], []),
        (SIZES, [("c", {"write_mode": "new"})], ["phases"], []),
        (SIZES, [("c", {"data": "random"})], ["phases"], []),
        (SIZES, [("c", {"tool": "ior"})], ["phases"], []),
        # a version never kept points apart
        (SIZES, [("c", {"tool_version": "fio-3.37"})], ["fio.version"], [("a", "c")]),
    ],
)
def test_pairs(a: list[Point], b: list[Point], ignore: list[str] | None, expected: list[tuple[str, str]]) -> None:
    found = match(results(a), results(b), None if ignore is None else ignored(ignore))
    assert points(found.pairs) == expected
    assert len(found.unmatched) == len(a) + len(b) - 2 * len(expected)


def test_phases_are_paired_one_by_one() -> None:
    both = summarize([factory.row(phase=phase, **USUAL) for phase in ("rand_read", "rand_write")])
    found = match(both, both[:1])
    assert [pair.a.phase for pair in found.pairs] == [both[0].phase]
    assert [(one.side, one.result.phase, one.why) for one in found.unmatched] == [(0, both[1].phase, "only there")]


@pytest.mark.parametrize("name", ["write_mode", "data", "o_direct"])
def test_conditions_are_never_ignored(name: str) -> None:
    with pytest.raises(NeverMixed, match="never ignored"):
        ignored([name])


def test_an_unknown_parameter_is_an_error_with_the_one_that_was_meant() -> None:
    with pytest.raises(NeverMixed, match=r"`transfer_sise` is not a parameter.*; did you mean `transfer_size`"):
        ignored(["transfer_sise"])


@pytest.mark.parametrize(
    ("b", "differ", "conditions", "matched"),
    [
        ([("c", {"queue_depth": 4}), ("d", {"queue_depth": 4, "transfer_size_bytes": 64 * K})], ["queue_depth"], [], 2),
        ([("c", {"queue_depth": 4, "nodes": 2})], ["nodes", "queue_depth"], [], 1),
        ([("c", {})], ["phases"], [], 1),
        ([("c", {"write_mode": "new"})], [], ["write_mode"], 0),
        ([("c", {"transfer_size_bytes": 8 * K})], ["transfer_size"], [], 0),  # of two of `a`, none is chosen
    ],
)
def test_what_would_match(b: list[Point], differ: list[str], conditions: list[str], matched: int) -> None:
    found = hint(results(SIZES), results(b), None)
    assert found is not None
    assert (list(found.differ), list(found.conditions), found.matched) == (differ, conditions, matched)


def test_campaigns_without_a_common_phase_have_no_hint() -> None:
    assert hint(results(SIZES), summarize([factory.row(phase="seq_read")]), None) is None
