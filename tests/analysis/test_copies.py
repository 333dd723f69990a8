"""Which campaigns hold the same measurements."""

import pytest

import results_factory as factory
from iosweep.analysis.copies import Measurement, Shared, measurements, originals, shared


def measured(*rates: float, **values: object) -> frozenset[Measurement]:
    return measurements([factory.row(ops_per_s=rate, **values) for rate in rates])


@pytest.mark.parametrize(
    "values", [{"host": "n7"}, {"raw": "b.tar.zst"}, {"repetition": 9}, {"point": "p"}, {"verdict": "invalid"}]
)
def test_what_another_place_or_merge_changes_makes_no_other_measurement(values: dict[str, object]) -> None:
    assert measured(100.1, 100.2, **values) == measured(100.1, 100.2)


@pytest.mark.parametrize("column", ["runtime_s", "latency_mean_s", "bandwidth_bytes_per_s", "io_s", "max_ops_per_s"])
def test_each_figure_of_a_run_makes_another_measurement(column: str) -> None:
    assert not measured(100.1) & measured(100.1, **{column: 1.25})


def test_rows_without_a_rate_are_alike_by_chance() -> None:
    assert not measured(0.0, bandwidth_bytes_per_s=None)
    assert not measured(0.0, bandwidth_bytes_per_s=0.0)


def test_the_share_is_of_the_smaller_campaign() -> None:
    large, small = measured(*range(1, 101)), measured(*range(100, 120))
    assert shared(large, small) == shared(small, large) == Shared(1, 20)
    assert shared(large, measured(*range(200, 210))) is None
    assert shared(large, frozenset()) is None
    assert [Shared(count, 20).copy for count in (1, 9, 10, 20)] == [False, False, True, True]


def test_the_largest_of_copies_is_the_original() -> None:
    whole, half, other = measured(*range(1, 21)), measured(*range(1, 11)), measured(*range(50, 60))
    assert originals([half, other, whole, whole]) == {0: (2, Shared(10, 10)), 3: (2, Shared(20, 20))}


def test_a_copy_is_no_original_and_a_campaign_with_a_few_copies_is_one() -> None:
    first, mixed = measured(*range(1, 21)), measured(*range(16, 35))
    found = originals([first, mixed, measured(*range(21, 35))])
    assert found == {1: (0, Shared(5, 19)), 2: (1, Shared(14, 14))}
    assert not found[1][1].copy


def test_one_measurement_has_a_sentence() -> None:
    assert Shared(1, 1).sentence("b", "a") == "b shares 1 of 1 measurement with a: it holds a copy of that one"
    assert Shared(2, 1200).sentence("b", "a").startswith("b shares 2 of 1,200 measurements with a: it holds copies")
