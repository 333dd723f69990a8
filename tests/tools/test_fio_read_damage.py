"""`iosweep parse fio`: damaged reports never give a wrong number without a problem, and take no longer."""

import base64
import json
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fio_readings import WHOLE, Some, reading, report_of
from fio_samples import ALL, GOOD, Sample
from iosweep.tools.fio.foreign import read
from iosweep.tools.reading import Reading
from readings import texts

pytestmark = pytest.mark.usefixtures("short_runs_are_good")

#: nothing else distinguishes rows of one label and host (workers without group_reporting)
IDENTITY = ("label", "host")
#: columns that come from the options alone, which stand nowhere twice
PARAMETERS = {
    "phase", "kind", "metric", "tasks", "transfer_size_bytes", "queue_depth", "file_size_bytes", "o_direct", "ioengine",
    "phase_time_s",
}  # fmt: skip


# ---- damage


def lies(sample: Sample, report: bytes, *others: Sample, parameters: bool = True) -> list[str]:
    """Values of a damaged report that no row of the same identity has in the whole one, with no problem to tell so."""
    found = reading(sample, report)
    if texts(found):
        return []
    honest = [row for one in (sample, *others) for row in WHOLE[one.name].rows]
    return [why for row in found.rows if (why := _lie(row, honest, parameters))]


def _lie(row: Mapping[str, Any], honest: list[Mapping[str, Any]], parameters: bool) -> str:
    same = [one for one in honest if all(one.get(key) == row.get(key) for key in IDENTITY)]
    wrong = [
        [key for key, value in row.items() if one.get(key) != value and (parameters or key not in PARAMETERS)]
        for one in same
    ]
    return "" if [] in wrong else f"{row.get('label')}: {min(wrong, key=len) if wrong else 'a row that is not there'}"


def damages(
    sample: Sample, rng: random.Random, cuts: int, others: int
) -> Iterator[tuple[str, bytes, tuple[Sample, ...], bool]]:
    """(what was done, the damaged report, whose rows may come out, whether parameters must be right too)"""
    text = sample.files[sample.report]
    lines = text.splitlines(keepends=True)
    for _ in range(cuts):
        yield "cut", text[: rng.randrange(len(text))], (), True
    for _ in range(others):
        lost = sorted(rng.sample(range(len(lines)), rng.randint(1, 3)), reverse=True)
        # an option that a section sets against the global one stands nowhere else: without it the global one is taken
        options = any(re.match(rb'\s*"\w+" : "', lines[at]) for at in lost)
        yield f"lines {lost} lost", b"".join(_changed(lines, lost, 0)), (), not options
        twice = sorted(rng.sample(range(len(lines)), rng.randint(1, 3)), reverse=True)
        yield f"lines {twice} doubled", b"".join(_changed(lines, twice, 2)), (), True
        yield f"{lost} lost, {twice} doubled", b"".join(_changed(_changed(lines, lost, 0), twice, 2)), (), not options
    for _ in range(others):
        other = ALL[rng.choice(list(GOOD))]
        theirs = other.files[other.report].splitlines(keepends=True)
        changed, foreign = list(lines), rng.choices(theirs, k=rng.randint(1, 3))
        for line in foreign:
            changed.insert(rng.randrange(len(changed) + 1), line)
        # an option that another run had looks like one of this run's
        options = any(re.match(rb'\s*"\w+" : "', line) for line in foreign)
        yield f"lines of {other.name} inserted", b"".join(changed), (), not options
        yield f"interleaved with {other.name}", b"".join(_interleaved(lines, theirs, rng)), (other,), True


def _changed(lines: list[bytes], at: list[int], times: int) -> list[bytes]:
    changed = list(lines)
    for number in at:  # from the last one on
        if number < len(changed):
            changed[number : number + 1] = [changed[number]] * times
    return changed


def _interleaved(ours: list[bytes], theirs: list[bytes], rng: random.Random) -> Iterator[bytes]:
    """Two writers of one file."""
    sources = [list(reversed(ours)), list(reversed(theirs))]
    while any(sources):
        source = rng.choice([source for source in sources if source])
        for _ in range(rng.choice([1, 1, 2, 5, 20, 100])):
            if source:
                yield source.pop()


@pytest.mark.parametrize("name", GOOD)
def test_a_damaged_report_never_gives_a_wrong_number_without_a_problem(
    name: str, rounds: Callable[[int, int], int]
) -> None:
    sample = ALL[name]
    # 200 cuts and 200 (400) other damages; fewer where a report has more than 40 kB (a reading takes 2-4 ms), and of
    # the old releases, of which there are many of one kind
    small = len(sample.files[sample.report]) < 40_000 and not name.startswith("old_")
    cuts, others = (200, rounds(40, 80)) if small else (40, rounds(10, 16))
    found = [
        (what, wrong)
        for what, report, theirs, parameters in damages(sample, random.Random(name), cuts, others)
        if (wrong := lies(sample, report, *theirs, parameters=parameters))
    ]
    assert found == []


@pytest.mark.parametrize(
    "name",
    [
        "own_rand_read",
        "md14_delete",
        "s3_stonewall",
        "seed_write_throughput",
        "own_text",
        "old_2.21_plus",
        "old_2.16_text",
    ],
)
@pytest.mark.parametrize("times", [0, 2])
def test_every_single_line_lost_or_doubled(name: str, times: int, some: Some) -> None:
    lines = ALL[name].files[ALL[name].report].splitlines(keepends=True)
    found = {n: why for n in some(range(len(lines))) if (why := lies(ALL[name], b"".join(_changed(lines, [n], times))))}
    assert found == {}


def test_the_damages_do_damage_and_what_survives_is_read() -> None:
    # that the test above is not green because everything is refused
    sample = ALL["w_ext4"]
    outcomes = [not texts(reading(sample, report)) for _, report, _, _ in damages(sample, random.Random(1), 40, 16)]
    assert 0.05 < sum(outcomes) / len(outcomes) < 0.8


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.dictionaries(st.text(max_size=8), st.binary(max_size=300), max_size=3), st.none() | st.integers())
def test_whatever_the_files_hold_can_be_read(files: dict[str, bytes], exit_code: int | None) -> None:
    assert isinstance(read(files, exit_code), Reading)


@given(st.sampled_from(sorted(GOOD)), st.binary(max_size=60), st.floats(0, 1, exclude_max=True), st.integers(0, 300))
def test_whatever_stands_in_a_report_can_be_read(name: str, junk: bytes, part: float, over: int) -> None:
    text = ALL[name].files[ALL[name].report]
    at = int(part * len(text))
    assert isinstance(reading(ALL[name], text[:at] + junk + text[at + over :]), Reading)


@given(
    st.sampled_from(["own_rand_mixed", "c1_client2", "v42_client2_sections", "md14_delete", "old_2.8_json"]), st.data()
)
def test_whatever_values_the_json_has_can_be_read(name: str, data: st.DataObject) -> None:
    document = json.loads(ALL[name].files[ALL[name].report])
    for _ in range(data.draw(st.integers(1, 3))):
        place = document
        while isinstance(place, dict | list) and place:
            key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
            if not isinstance(place[key], dict | list) or data.draw(st.integers(0, 5)) == 0:
                place[key] = data.draw(JSON)
                break
            place = place[key]
    assert isinstance(reading(ALL[name], json.dumps(document, indent=2).encode()), Reading)


# ---- time


def _seconds(text: bytes) -> float:
    """CPU time of a reading, the least of two."""
    taken = []
    for _ in range(2):
        start = time.process_time()
        read({"stdout": text}, 0)
        taken.append(time.process_time() - start)
    return min(taken)


def _grows_no_more_than_it_should(small: bytes, large: bytes) -> bool:
    """The machine may be busy with other things; what takes less than 5 ms is no quadratic one."""
    return any(_seconds(large) < 8 * max(_seconds(small), 0.005) for _ in range(3))


_HEADLINE = b"x: (groupid=0, jobs=1): err= 0 (x): pid=1: Fri Nov 20 13:48:03 2026"
_JOBLINE = b"x: (g=0): rw=read, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=psync, iodepth=1"
LONG: dict[str, bytes] = {
    "digits": b"1",
    "blank lines": b"\n",
    "blanks": b" ",
    "braces": b"{",
    "lines of braces": b"{\n",
    "objects": b"{\n}\n",
    "unlike objects": b"",
    "base64": base64.b64encode(bytes(range(256))),
    "headlines": _HEADLINE + b"\n",
    "headlines in one line": _HEADLINE,
    "headlines without an end": b"x: (groupid=0, jobs=1): err= 0 (",
    "jobs": _JOBLINE + b"\n",
    "jobs in one line": _JOBLINE,
    "hostnames": b"hostname=n1, be=0, 64-bit, fio=fio-3.33, flags=1",
    "shm": b"n1 error: failed to setup shm segment",
    "disconnected": b"client: host=",
    "resolve": b"fio: failed to resolve <",
    "sections": b"fio: job ",
    "engines": b"fio: engine ",
    "pids": b"fio: pid=1",
    "quotes": b'"',
    "backticks": b"`_",
    "percentiles": b"|  1.00th=[    1],",
    "hosts": b"<n1> ",
}


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("what", LONG)
def test_four_times_as_long_takes_about_four_times_as_long(what: str) -> None:
    def text(length: int) -> bytes:
        if what == "unlike objects":
            return b"".join(b'{\n"a": %d}\n' % number for number in range(length // 14))
        return (LONG[what] * (length // len(LONG[what]) + 1))[:length]

    assert _grows_no_more_than_it_should(text(60_000), text(240_000))


@pytest.mark.usefixtures("no_gc")
def test_a_long_line_of_json_is_read_as_fast_as_many() -> None:
    text = report_of("w_tmpfs")
    compact = json.dumps(json.loads(text[text.index(b"{\n") :]), sort_keys=True, separators=(",", ":")).encode()
    assert _grows_no_more_than_it_should(text, compact)
