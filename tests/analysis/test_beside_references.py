"""Published figures beside a campaign's: what compares, the ratio with its interval, and why others do not."""

from typing import Any

import pytest
from msgspec import structs

from iosweep.analysis import references
from iosweep.analysis.aggregate import summarize
from iosweep.analysis.references import Beside
from iosweep.config.published import PublishedFigure, Reference
from results_factory import row, sweep_facts

pytestmark = pytest.mark.unit

WAY: dict[str, Any] = {"nodes": 1, "threads_per_node": 8, "transfer_size_bytes": 4096, "queue_depth": 32}
FIGURE = PublishedFigure(
    tool="fio",
    phase="rand_read",
    figure="iops",
    value=1000.0,
    printed="1,000 IOPS",
    where={"nodes": 1, "threads_per_node": 8, "transfer_size": 4096, "queue_depth": 32},
    setup={"ioengine": "libaio", "phase_time": 300.0},
)


def measured(rate: float = 900.0, n: int = 5, **more: Any) -> list[Any]:
    known = {"point": "p", "ioengine": "libaio", "phase_time_s": 300.0} | WAY
    spread = (0.99, 1.0, 1.01, 1.005, 0.995)
    return [row(**known | {"repetition": i + 1, "ops_per_s": rate * spread[i % 5]} | more) for i in range(n)]


def beside(rows: list[Any], sweeps: Any = (), **figure: Any) -> Beside:
    reference = Reference(name="r", title="t", publisher="p", figures=(structs.replace(FIGURE, **figure),))
    [one] = references.beside(reference, summarize(rows), sweeps)
    return one


class TestCompared:
    def test_the_share_with_its_interval(self) -> None:
        one = beside(measured())
        assert (one.reason, one.differences, one.of) == ("", (), 1)
        assert one.ratio is not None
        assert one.ratio.value == pytest.approx(0.9)
        assert one.figure is not None
        assert one.figure.interval is not None
        assert one.ratio.low == pytest.approx(one.figure.interval.low / 1000)
        assert one.ratio.high == pytest.approx(one.figure.interval.high / 1000)
        assert one.ratio.n == 5

    def test_two_repetitions_have_no_interval(self) -> None:
        one = beside(measured(n=2))
        assert one.ratio is not None
        assert (one.ratio.low, one.ratio.high, one.ratio.n) == (None, None, 2)

    def test_a_percentile_is_the_median(self) -> None:
        rows = [row(**WAY, point="p", repetition=i, latency_p99_s=value) for i, value in enumerate((1.0, 2.0, 9.0), 1)]
        one = beside(rows, figure="p99", value=1.0, printed="1 s", setup={})
        assert one.ratio is not None
        assert one.ratio.value == 2.0

    def test_differences_are_said(self) -> None:
        one = beside(measured(ioengine="io_uring", phase_time_s=None))
        assert one.reason == ""
        assert one.differences == ("io_uring, there libaio", "phase time is not known, there 300 s")

    def test_the_one_with_the_fewest_differences_then_the_best(self) -> None:
        other = measured(5000, point="q", ioengine="io_uring")
        assert beside(measured() + other).result.point == "p"  # type: ignore[union-attr]
        same = measured(1200, point="q", file_size_bytes=4096)
        one = beside(measured(file_size_bytes=8192) + same)
        assert (one.result and one.result.point, one.of) == ("q", 2)

    def test_a_suspect_result_only_where_no_valid_one_is(self) -> None:
        suspect = measured(1200, point="q", verdict="suspect", reasons="too short")
        assert beside(measured() + suspect).result.point == "p"  # type: ignore[union-attr]
        assert beside(suspect).result.verdict == "suspect"  # type: ignore[union-attr]

    def test_a_latency_of_the_writes_of_mixed_io(self) -> None:
        """Of columns that the table of results does not sum up."""
        rows = [row(**WAY, phase="rand_mixed", point="p", repetition=i, write_latency_mean_s=2e-3) for i in (1, 2, 3)]
        one = beside(rows, phase="rand_mixed", figure="write_latency", value=1e-3, printed="1 ms", setup={})
        assert one.ratio is not None
        assert one.ratio.value == pytest.approx(2)
        assert one.ratio.n == 3


class TestNotComparable:
    @pytest.mark.parametrize(
        ("own", "reason"),
        [
            ({"transfer_size_bytes": 65536}, "64 KiB, there 4 KiB"),
            ({"nodes": 2, "queue_depth": 1}, "2 nodes, there 1; queue depth 1, there 32"),
            ({"queue_depth": None}, "queue depth is not known, there 32"),
            ({"tool": "ior"}, "measured with IOR, not fio"),
            ({"phase": "seq_read"}, "random read was not measured with fio"),
            ({"verdict": "invalid", "reasons": "no_errors: 3"}, "invalid: no_errors: 3"),
            ({"verdict": "missing", "reasons": "fio is not installed"}, "not measured: fio is not installed"),
        ],
    )
    def test_why(self, own: dict[str, Any], reason: str) -> None:
        one = beside(measured(**own))
        assert (one.ratio, one.result) == (None, None)
        assert one.reason == reason

    def test_another_figure(self) -> None:
        one = beside(measured(), figure="completion_p99.5", value=1e-3, printed="1 ms")
        assert one.reason == "fio gave no p99.5 completion latency here"

    def test_a_suite_that_was_scaled(self) -> None:
        scaled = sweep_facts(5, "p", suite="four-corners", scaled=True)
        assert beside(measured(), [scaled]).reason == "the suite four-corners was scaled to fit"
        one = beside(measured(queue_depth=8), [scaled])
        assert one.reason == "the suite four-corners was scaled: queue depth 8, there 32"

    def test_a_sweep_of_the_same_point_at_full_size_compares(self) -> None:
        sweeps = [sweep_facts(5, "p", suite="four-corners", scaled=True), sweep_facts(5, "p", name="own")]
        assert beside(measured(), sweeps).reason == ""


class TestRelative:
    RATIO = (("figure", "latency"), ("value", 1.63), ("printed", "+63 %"), ("relative_to", {"queue_depth": 16}))

    def rows(self, other: int) -> list[Any]:
        deep = measured(point="deep", latency_mean_s=326e-6)
        return deep + measured(point="shallow", queue_depth=other, latency_mean_s=200e-6)

    def test_a_ratio_of_ours_beside_the_ratio_of_theirs(self) -> None:
        one = beside(self.rows(16), **dict(self.RATIO))
        assert one.ratio is not None
        assert (one.value, one.ratio.value) == (pytest.approx(1.63), pytest.approx(1))

    def test_what_it_is_relative_to_must_be_measured(self) -> None:
        one = beside(self.rows(8), **dict(self.RATIO))
        assert one.reason == "nothing was measured at queue depth 16 to compare with"
