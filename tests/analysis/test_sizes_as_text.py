"""Sizes are written without rounding."""

import pytest

from iosweep.analysis import formats
from iosweep.report import html


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (3901, "3,901 B"),
        (47008, "47,008 B"),
        (1536, "1.5 KiB"),
        (4096, "4 KiB"),
        (96 << 20, "96 MiB"),
        (30198988800, "28.125 GiB"),
        ((5 << 30) + 1024, "5,368,710,144 B"),
        (3 << 40, "3 TiB"),
    ],
)
def test_a_size_is_never_rounded(size: int, text: str) -> None:
    assert formats.size(size) == text


def test_what_is_between_backticks_is_code_and_all_is_escaped() -> None:
    assert html.environment().filters["coded"]("see `a<b`, <i> `") == "see <code>a&lt;b</code>, &lt;i&gt; `"


def test_an_interval_that_says_nothing_is_not_printed() -> None:
    """As two repetitions that scatter have it."""
    assert formats.percent(0.34, (0.000052, 2283.17)) == "34 % (too uncertain to say)"
    assert formats.percent(0.34, (0.0, 0.5)) == "34 % (too uncertain to say)"
    assert formats.percent(0.34, (0.05, 2.0)) == "34 % (5 to 200 %)"
    assert formats.percent(0.34, (0.0, 0.0)) == "34 % (0 %)"
