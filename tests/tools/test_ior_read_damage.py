"""What damaged files of IOR say, and how long it takes."""

import gc
import re
from collections.abc import Callable, Iterator, Sequence
from random import Random
from time import process_time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ior_readings import BLOCK, GOOD, NOTES, Sample, biggest_of, files_of, name_of, read, summary, wrong_rows
from iosweep.tools.reading import Reading
from readings import texts

pytestmark = pytest.mark.usefixtures("ior_runs_however_short")


# -- time ---------------------------------------------------------------------------------------------------------

_BANNERS = "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n"
_TABLE = "access bw(MiB/s) IOPS Latency block(KiB) xfer(KiB) open(s) wr/rd(s) close(s) total(s) iter\n"
_CELLS = "write 1.00 1.00 1.00 1024.00 1024.00 0.1 1.0 0.1 1.0 0\n"
_MAXIMUM = "Max Write: 1.00 MiB/sec (1.05 MB/sec)\n"
_SUMMARY = "Operation Max(MiB) Min(MiB) Mean(MiB) Test#\nwrite 1.00 1.00 1.00 5\n"


def _json(count: int) -> str:
    """A document with so many results and tests."""
    name = "mpiio_coll_JSON.summary.json"
    text = files_of("4.0.0", "mpiio_coll_JSON")[name].decode()
    start, end = text.index("{", text.index('"Results"')), text.index("]", text.index('"Results"'))
    return text[:start] + ",".join([text[start : text.index("}", start) + 1]] * count) + text[end:]


_COMMAND = "Command line : ior" + " -a b"
#: name -> text of a size, and a size at which quadratic time shows
GROWING: dict[str, tuple[Callable[[int], str], int]] = {
    "blank lines": (lambda n: "\n" * n, 20_000),
    "blanks": (lambda n: " " * n + "\n" + "\t" * n, 50_000),
    "warnings in a line": (lambda n: "WARNING: " * n, 1000),
    "fsync in a line": (lambda n: "fsync(" * n, 2000),
    "assert in a line": (lambda n: "assert " * n, 2000),
    "IOR- in a line": (lambda n: "IOR-" * n, 2000),
    "a long figure": (lambda n: "write " + "1" * n + "x 1 1 1 1 1 1 1 1", 8000),
    "broken documents": (lambda n: ('{\n "Version": 1' + "\n" * 1000) * n, 500),
    "documents": (lambda n: '{\n "a": 1}\n' * n, 300),
    "results in a document": (_json, 1200),
    "runs with errors": (lambda n: (_BANNERS + "ERROR: x\n" * 20) * n, 200),
    "runs with a summary": (lambda n: (_BANNERS + _SUMMARY) * n, 2400),
    "rows with totals": (lambda n: _BANNERS + _TABLE + _CELLS * n + _MAXIMUM * n, 400),
    "a long command": (lambda n: _BANNERS + _COMMAND * n + "\n" + _TABLE + _CELLS * (n // 9), 999),
    "tests of a script": (lambda n: _BANNERS + _COMMAND * n + "\n" + f"TestID : 0\n{_TABLE}{_CELLS}" * (n // 9), 999),
    "bytes moved": (lambda n: _BANNERS + _TABLE + (BLOCK.format(5, 5, 5) + _CELLS) * n, 800),
}


def _growth(make: Callable[[int], str], size: int) -> float:
    """CPU time of four times the size to that of the size."""
    took = []
    for length in (size, size, 4 * size):
        content = make(length).encode()
        gc.collect()
        start = process_time()
        read({"a": content}, None)
        took.append(process_time() - start)
    return took[2] / min(took[:2])


@pytest.mark.usefixtures("no_gc")
@pytest.mark.parametrize("name", GROWING)
def test_time_grows_with_the_size_and_not_its_square(name: str) -> None:
    assert any(_growth(*GROWING[name]) < 8 for _ in range(3))  # the machine may be busy with other things


def _variants(
    sample: Sample, random: Random, cuts: int, times: int
) -> Iterator[tuple[str, dict[str, bytes], Sample | None]]:
    """The sample with one of its files cut, lines of it doubled, dropped, out of order, or another's among them."""
    files = sample.files
    biggest, content = biggest_of(files)
    for _ in range(cuts):
        at = random.randrange(len(content))
        yield f"cut at {at}", {**files, biggest: content[:at]}, None
    lines = content.splitlines(keepends=True)
    others = [s for s in GOOD if s != sample]
    for kind in ("double", "drop", "drop", "mix", "mix", "swap") * times:
        changed = list(lines)
        donor = None
        picked = sorted(random.sample(range(len(lines)), min(len(lines), random.choice((1, 1, 2, 3)))), reverse=True)
        if kind == "swap":
            i, j = random.choice(range(len(lines))), picked[0]
            changed[i], changed[j] = changed[j], changed[i]
        elif kind == "mix":
            donor = random.choice(others)
            foreign = biggest_of(donor.files)[1].splitlines(keepends=True)
            for line in random.sample(foreign, min(len(foreign), random.choice((1, 2, 5)))):
                changed.insert(random.randrange(len(changed) + 1), line)
        else:
            for i in picked:
                changed[i : i + 1] = [lines[i]] * 2 if kind == "double" else []
        yield f"{kind} {picked}", {**files, biggest: b"".join(changed)}, donor


def _own(reading: Reading, whole: Reading, donor: Sample | None) -> Reading:
    """Without a run of the donor that stands beside the sample's own: a header and rows of CSV make one anywhere."""
    if donor is None or len(reading.rows) <= len(whole.rows):
        return reading
    foreign = [row["bandwidth_bytes_per_s"] for row in donor.read().rows]
    rows = [row for row in reading.rows if row["bandwidth_bytes_per_s"] not in foreign]
    return Reading(reading.version, rows if len(rows) == len(whole.rows) else reading.rows, reading.problems)


@pytest.mark.parametrize("sample", GOOD, ids=name_of)
def test_no_damage_makes_a_wrong_figure(sample: Sample, rounds: Callable[[int, int], int]) -> None:
    """Cut, doubled, dropped, swapped and foreign lines: what is given is right, with or without a problem."""
    whole = sample.read()
    seen = 0
    for what, files, donor in _variants(sample, Random(name_of(sample)), rounds(60, 200), rounds(3, 8)):
        reading = read(files, None)
        wrong = wrong_rows(_own(reading, whole, donor), whole)
        if what.startswith("swap"):  # nothing that IOR writes says again how long opening and closing took
            wrong = [text for text in wrong if " open_s" not in text and " close_s" not in text]
        assert not wrong, (what, wrong, texts(reading))
        seen += bool(reading.rows)
    assert seen  # some damage does no harm; a reader that refuses all of it would prove nothing


def _merged(one: list[bytes], other: list[bytes], most: int, random: Random) -> Iterator[bytes]:
    """The lines of both in their order, taken in turns of up to `most`."""
    sources, places, turn = (one, other), [0, 0], random.randrange(2)
    while places[0] < len(one) or places[1] < len(other):
        count = random.randint(1, most)
        yield from sources[turn][places[turn] : places[turn] + count]
        places[turn] += count
        turn = 1 - turn


TABLES = [sample for sample in GOOD if biggest_of(sample.files)[0].endswith(".out")]


@pytest.mark.parametrize("sample", TABLES, ids=name_of)
def test_two_outputs_line_by_line_make_no_wrong_figure(sample: Sample) -> None:
    random = Random(f"mixed {name_of(sample)}")
    for most in (1, 4, 12, 40) * 2:
        other = random.choice([s for s in TABLES if s != sample])
        both = [biggest_of(s.files)[1].splitlines(keepends=True) for s in (sample, other)]
        reading = read({"out": b"".join(_merged(*both, most, random))}, None)
        for row in reading.rows:
            one = Reading(None, [row], [])
            assert not wrong_rows(one, sample.read()) or not wrong_rows(one, other.read()), texts(reading)


@pytest.mark.parametrize("seed", range(3))
def test_no_damage_makes_a_wrong_figure_of_the_notes(seed: int) -> None:
    random = Random(seed)
    lines = NOTES.splitlines(keepends=True)
    right = {(row["phase"], row["transfer_size_bytes"]): row for row in read({"r": NOTES}, None).rows}
    for _ in range(200):
        content = NOTES[: random.randrange(len(NOTES))] if random.random() < 0.5 else b"".join(
            line * random.choice((0, 1, 1, 1, 1, 2)) for line in lines
        )  # fmt: skip
        for row in read({"r": content}, None).rows:
            assert row == right[row["phase"], row["transfer_size_bytes"]]


_WORDS = st.sampled_from(
    [
        b"IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n",
        b"access    bw(MiB/s)  iter\n",
        b"write 1 2 3 4 5 6 7 8 9 0\n",
        b"TestID : 0\n",
        b"tasks : 0\n",
        b"Operation Max(MiB) Test#\n",
        b'{\n  "Version": "4.0.0"',
        b'"tests": [{}],',
        b"}\n",
        b"NaN",
        b"1e999",
        b"write,1.0000,",
        b"access_type,threads,transfer_size,",
        b"WARNING: Expected aggregate file size = 5\n",
    ]
)


@given(st.lists(st.one_of(st.binary(max_size=60), _WORDS), max_size=12), st.sampled_from([None, 0, 1]))
@example([b'{\n"a":' * 5000], None)
@example([b"{\n" + b'"tests": ' + b"[" * 100000], None)
@example([b'{\n"a": 1,\n"Command line": 5}'], None)
@example([",".join(["access", *"123"]).encode()], None)
def test_nothing_makes_it_raise(parts: Sequence[bytes], exit_code: int | None) -> None:
    content = b"".join(parts)
    assert not read({"a": content, "b": content[::-1]}, exit_code).rows
    assert texts(read({"a": content}, exit_code))
    assert summary(content, content).problems


@given(st.sampled_from(GOOD), st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8))
def test_bytes_written_over_do_not_make_it_raise(sample: Sample, at: int, what: bytes) -> None:
    for name, content in sample.files.items():
        start = at % len(content)
        read({**sample.files, name: content[:start] + what + content[start + len(what) :]}, 0)


@pytest.mark.parametrize("version", ["3.3.0", "4.0.0"])
def test_values_of_any_other_type_in_the_json_do_not_make_it_raise(version: str) -> None:
    files = files_of(version, "mpiio_coll_JSON")
    text = files["mpiio_coll_JSON.summary.json"].decode()
    values = list(re.finditer(r'(?<=: )("[^"\n]*"|[\d.]+)', text))
    others = (
        "null",
        "-1",
        "-1.0",
        "0",
        "0.0",
        "true",
        '"x"',
        "[]",
        "{}",
        "[[{}]]",
        "1e400",
        "9" * 400 + ".5",
        "9" * 5000,
    )
    for number, match in enumerate(values):
        for other in others[number % 5 :: 5]:
            changed = text[: match.start()] + other + text[match.end() :]
            read({"a.json": changed.encode()}, 0)
            summary(changed.encode(), b"")
