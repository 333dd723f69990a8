"""Sizes, durations and shares: what a configuration may write, and what a person reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep import units
from iosweep.text import human_count, percent_change


@pytest.mark.parametrize(
    ("written", "size"),
    [
        (0, 0),
        (4096, 4096),
        ("4096", 4096),
        ("4k", 4096),
        ("4K", 4096),
        ("1m", 1 << 20),
        ("16g", 16 << 30),
        ("2t", 2 << 40),
        ("1p", 1 << 50),
        ("010", 10),
        ("9223372036854775807", (1 << 63) - 1),
    ],
)
def test_sizes_are_binary(written: object, size: int) -> None:
    assert units.parse_size(written) == size


@pytest.mark.parametrize(
    "written",
    [
        -1, True, 1.0, None, [], "", "k", "4 k", "4kb", "4KiB", "1.5m", "-4k", "4k\n", " 4k", "\u0664k", "1_000",
        "0x10",
    ],
)  # fmt: skip
def test_what_is_not_a_size(written: object) -> None:
    with pytest.raises(ValueError, match="not a size; write bytes, or a whole number with k, m, g, t or p"):
        units.parse_size(written)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("500ms", 0.5), ("1s", 1.0), ("0.5s", 0.5), ("2m", 120.0), ("5min", 300.0), ("2h", 7200.0), ("1d", 86400.0)],
)
def test_durations_have_a_unit(written: str, seconds: float) -> None:
    assert units.parse_duration(written) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "written", [60, 1.5, True, None, "", "60", "s", "1 s", "-1s", "1S", "1s\n", "1e3s", "1." + "9" * 400 + "s"]
)
def test_what_is_not_a_duration(written: object) -> None:
    with pytest.raises(ValueError, match="not a duration; write a number with its unit ms, s, min, h or d"):
        units.parse_duration(written)


@pytest.mark.parametrize("written", [1 << 63, "8192p", "9999999t", "9" * 5000, "9" * 5000 + "k", "1" + "0" * 30])
def test_a_size_that_is_too_large(written: object) -> None:
    # 2^63 does not fit the plan's JSON, and 5000 digits not Python's own conversion
    with pytest.raises(ValueError, match=r"^larger than 9,223,372,036,854,775,807 bytes \(8 EiB\), the most"):
        units.parse_size(written)


@pytest.mark.parametrize("written", ["36526d", "9999999h", "9" * 400 + "s"])
def test_a_duration_that_is_too_large(written: str) -> None:
    # the last one would be infinite, and a forecast of it not a number
    with pytest.raises(ValueError, match=r"^larger than 36525d, the most that a duration may be"):
        units.parse_duration(written)


@pytest.mark.parametrize(("written", "share"), [("0%", 0.0), ("5%", 0.05), ("12.5%", 0.125), ("100%", 1.0)])
def test_shares_are_percentages(written: str, share: float) -> None:
    assert units.parse_share(written) == pytest.approx(share)


@pytest.mark.parametrize("written", [5, 0.05, True, None, "5", "%", "-5%", "100.1%", "5 %", "5%\n"])
def test_what_is_not_a_share(written: object) -> None:
    with pytest.raises(ValueError, match="not a share; write a percentage from 0% to 100%"):
        units.parse_share(written)


@given(st.integers(0, (1 << 63) - 1))
def test_a_size_name_reads_back_as_the_same_size(size: int) -> None:
    assert units.parse_size(units.size_name(size)) == size


@given(st.integers(1, 1023), st.sampled_from("kmgtp"))
def test_a_size_keeps_the_name_it_was_written_with(number: int, unit: str) -> None:
    assert units.size_name(units.parse_size(f"{number}{unit}")) == f"{number}{unit}"


@given(st.text())
def test_whatever_is_written_is_a_value_or_a_value_error(text: str) -> None:
    for parse in (units.parse_size, units.parse_duration, units.parse_share):
        try:
            value = parse(text)
        except ValueError:
            continue
        assert 0 <= value < float("inf")


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (4096, "4.0 KiB"), (128 << 10, "128 KiB"),
        (3 << 30, "3.0 GiB"), (int(4.1 * (1 << 40)), "4.1 TiB"), (1 << 50, "1.0 PiB"), (5000 << 50, "5000.0 PiB"),
    ],
)  # fmt: skip
def test_sizes_for_a_person(size: int, text: str) -> None:
    assert units.human_size(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"), (0.4, "0 s"), (45, "45 s"), (59.6, "1 min"), (60, "1 min"), (185, "3 min 5 s"), (3600, "1 h"),
        (11400, "3 h 10 min"), (11459, "3 h 10 min"), (187200, "2 d 4 h"),
    ],
)  # fmt: skip
def test_durations_for_a_person(seconds: float, text: str) -> None:
    assert units.human_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 points"), (1, "1 point"), (24, "24 points"), (1200, "1,200 points")]
)
def test_counts_for_a_person(count: int, text: str) -> None:
    assert human_count(count, "point") == text


def test_irregular_plurals() -> None:
    assert human_count(2, "entry", "entries") == "2 entries"


def test_a_change_has_a_minus_and_no_hyphen() -> None:
    assert [percent_change(0.021), percent_change(-0.023), percent_change(-0.5, 0)] == ["+2.1", "−2.3", "−50"]
