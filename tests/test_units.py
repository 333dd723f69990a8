"""Sizes, durations and shares: what a configuration may write, and what a person reads."""

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep import units
from iosweep.text import human_count


def test_a_time_zone_that_python_cannot_represent_is_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    hours = {}
    with monkeypatch.context() as there:
        for zone in ("UTC-2", "UTC+30", "XYZ99"):
            there.setenv("TZ", zone)
            time.tzset()
            hours[zone] = f"{units.local_time(0):%H:%M%z}"
    time.tzset()
    assert hours == {"UTC-2": "02:00+0200", "UTC+30": "00:00+0000", "XYZ99": "00:00+0000"}
    assert units.local_time().utcoffset() is not None


SIZES = {
    0: 0, 4096: 4096, "4096": 4096, "4k": 4096, "4K": 4096, "1m": 1 << 20, "16g": 16 << 30, "2t": 2 << 40,
    "1p": 1 << 50, "010": 10, "9223372036854775807": (1 << 63) - 1,
}  # fmt: skip
NO_SIZES = [
    -1,
    True,
    1.0,
    None,
    [],
    "",
    "k",
    "4 k",
    "4kb",
    "4KiB",
    "1.5m",
    "-4k",
    "4k\n",
    " 4k",
    "\u0664k",
    "1_000",
    "0x10",
]
DURATIONS = {"500ms": 0.5, "1s": 1.0, "0.5s": 0.5, "2m": 120.0, "5min": 300.0, "2h": 7200.0, "1d": 86400.0}
NO_DURATIONS = [60, 1.5, True, None, "", "60", "s", "1 s", "-1s", "1S", "1s\n", "1e3s", "1." + "9" * 400 + "s"]
SHARES = {"0%": 0.0, "5%": 0.05, "12.5%": 0.125, "100%": 1.0}
NO_SHARES = [5, 0.05, True, None, "5", "%", "-5%", "100.1%", "5 %", "5%\n"]
TOO_LARGE = [1 << 63, "8192p", "9999999t", "9" * 5000, "9" * 5000 + "k"]


@pytest.mark.parametrize(
    ("parse", "values"),
    [(units.parse_size, SIZES), (units.parse_duration, DURATIONS), (units.parse_share, SHARES)],
)
def test_what_is_written_is_its_value(parse: Callable[[object], float], values: dict[object, float]) -> None:
    assert {written: parse(written) for written in values} == pytest.approx(values)


@pytest.mark.parametrize(
    ("parse", "written"),
    [
        *((units.parse_size, [*NO_SIZES, *TOO_LARGE]),),
        # the last one would be infinite, and a forecast of it not a number
        (units.parse_duration, [*NO_DURATIONS, "36526d", "9999999h", "9" * 400 + "s"]),
        (units.parse_share, NO_SHARES),
    ],
)
def test_what_is_no_value_is_refused(parse: Callable[[object], float], written: list[object]) -> None:
    for one in written:
        with pytest.raises(ValueError):  # noqa: PT011
            pytest.fail(f"{one!r} is {parse(one)}")


@given(st.integers(0, (1 << 63) - 1), st.integers(1, 1023), st.sampled_from("kmgtp"))
def test_a_size_name_reads_back_as_the_same_size(size: int, number: int, unit: str) -> None:
    assert units.parse_size(units.size_name(size)) == size
    assert units.size_name(units.parse_size(f"{number}{unit}")) == f"{number}{unit}"


def test_sizes_and_durations_are_written_for_people() -> None:
    sizes = {
        0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 4096: "4.0 KiB", 128 << 10: "128 KiB", 3 << 30: "3.0 GiB",
        int(4.1 * (1 << 40)): "4.1 TiB", 1 << 50: "1.0 PiB", 5000 << 50: "5000.0 PiB",
    }  # fmt: skip
    durations = {
        0: "0 s", 0.4: "0 s", 45: "45 s", 59.6: "1 min", 60: "1 min", 185: "3 min 5 s", 3600: "1 h",
        11400: "3 h 10 min", 11459: "3 h 10 min", 187200: "2 d 4 h",
    }  # fmt: skip
    assert {size: units.human_size(size) for size in sizes} == sizes
    assert {seconds: units.human_duration(seconds) for seconds in durations} == durations
    assert [human_count(n, "point") for n in (0, 1, 1200)] == ["0 points", "1 point", "1,200 points"]
    assert human_count(2, "entry", "entries") == "2 entries"
