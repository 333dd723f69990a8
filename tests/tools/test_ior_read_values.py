"""What the files of IOR say: numbers that no run can have, copies, and what JSON says twice."""

import re

import pytest

from ior_readings import BLOCK, LIMIT, MIB, biggest_of, files_of, old_log, read
from readings import measured, refuses, texts

pytestmark = pytest.mark.usefixtures("ior_runs_however_short")


# -- what no run can have, and copies -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (",2,", ",0,", "tasks: 0, which cannot be"),
        (
            ",16384.0000,1024.0000,",
            ",16384.0000,1054.0000,",
            "16777216 bytes, is not a multiple of the transfer size, 1079",
        ),
        (",16384.0000,1024.0000,", ",16384.0000,0.0000,", "transfer size: 0, which cannot be"),
    ],
)
def test_impossible_rows_of_csv(old: str, new: str, why: str) -> None:
    name = "posix_shared_seq_1m_np2_i3_CSV.summary.csv"
    text = files_of("4.0.0", "posix_shared_seq_1m_np2_i3_CSV")[name].decode()
    assert text.count(old) == 6
    reading = read({name: text.replace(old, new).encode()}, 0)
    assert refuses(reading, why), reading


@pytest.mark.parametrize(
    ("sample", "old", "new", "why"),
    [
        ("verbose_v2_stdout", "nodes               : 1", "nodes               : 0", "nodes: 0, which cannot be"),
        ("ior_perop", "tasks               : 2", "tasks               : 0", "tasks: 0, which cannot be"),
        (
            "ior_perop",
            "xfersize            : 262144 bytes",
            "xfersize            : 262140 bytes",
            "is not a multiple of",
        ),
        ("mpiio_coll_JSON", '"tasks": 2', '"tasks": -2', "tasks: -2, which cannot be"),
        ("mpiio_coll_JSON", '"transferSize": 1048576', '"transferSize": 1048000', "is not a multiple of"),
        ("mpiio_coll_JSON", '"segmentCount": 2', '"segmentCount": 0', "segments: given as 2 and as 0"),
        ("mpiio_coll_JSON", '"nodes": 1', '"nodes": ' + "1" * 30, "nodes: beyond 64 bits"),
        ("mpiio_coll_JSON", '"nodes": 1', '"nodes": 9223372036854775808', "nodes: beyond 64 bits"),
        (
            "mpiio_coll_JSON",
            '"segmentCount": 2',
            '"segmentCount": 9000000000000000000',
            "segments: given as 2 and as 9",
        ),
    ],
)
def test_impossible_numbers_in_all_layouts(sample: str, old: str, new: str, why: str) -> None:
    name, content = biggest_of(files_of("main" if sample == "ior_perop" else "4.0.0", sample))
    text = content.decode().partition("Summary of all")[0]  # only its options identify the table
    assert old in text
    reading = read({name: text.replace(old, new).encode()}, 0)
    assert refuses(reading, why), reading


_NINES = tuple("9" * length for length in (18, 19, 20, 30, 300, 400, 5000))
LAYOUTS = [
    ("4.0.0", "verbose_v2_stdout"),
    ("main", "ior_perop"),
    ("3.1.0", "script_two_tests"),
    ("3.1.0", "stonewall_D1_w"),
    ("4.0.0", "stonewall_D1_wearout_CSV"),
    ("4.0.0", "posix_shared_seq_1m_np2_i3_CSV"),
]


@pytest.mark.parametrize(("version", "name"), LAYOUTS)
def test_no_number_however_long_makes_it_raise_or_a_row_beyond_64_bits(version: str, name: str) -> None:
    files = files_of(version, name)
    for file, content in files.items():
        text = content.decode()
        for i, match in enumerate(re.finditer(r"\d+", text)):
            figure = _NINES[i % len(_NINES)]
            changed = text[: match.start()] + figure + text[match.end() :]
            for row in read({**files, file: changed.encode()}, 0).rows:
                assert all(abs(value) < 1 << 63 for value in row.values() if isinstance(value, int))


def test_a_total_that_is_no_figure_is_a_damaged_line() -> None:
    text = old_log("4.0.0", "verbose_v2_stdout")
    for figure in ("10000000000000000000.35", "9" * 5000 + ".1"):
        reading = read({"out": re.sub(r"(Max Write: +)[\d.]+", rf"\g<1>{figure}", text).encode()}, 0)
        assert not measured(reading)
        assert any("a damaged line of the summary: Max Write" in problem for problem in texts(reading))


COPIED = [
    ("4.0.0", "verbose_v2_stdout"),
    ("3.1.0", "script_two_tests"),
    ("4.0.0", "mpiio_coll_JSON"),
    ("4.0.0", "posix_shared_seq_1m_np2_i3_CSV"),
]


@pytest.mark.parametrize(("version", "name"), COPIED)
def test_the_same_output_twice_in_one_file_counts_once(version: str, name: str) -> None:
    file, content = biggest_of(files_of(version, name))
    whole = read({file: content}, 0)
    assert read({file: content * 2}, 0) == whole
    other = biggest_of(files_of("main", "posix_shared_seq_1m_np2_i3_CSV"))[1]
    several = read({file: content + other + content}, 0)
    assert several.rows == [*whole.rows, *read({"other": other}, 0).rows]
    assert not texts(several)


@pytest.mark.parametrize(("version", "name"), COPIED)
def test_a_copy_of_a_part_is_of_no_run(version: str, name: str) -> None:
    file, content = biggest_of(files_of(version, name))
    text = content.decode()
    changed = {
        "CSV": lambda: text + "\n".join(text.splitlines()[:3]),  # as good as a run of one iteration
        "JSON": lambda: text + text.replace('"Version": "4.0.0"', '"Version": "4.0.1"'),
    }.get(name.rpartition("_")[2], lambda: text + text.replace("IOR-" + version, "IOR-3.2.0"))()
    reading = read({file: changed.encode()}, 0)
    assert not measured(reading)
    assert "has the very figures of run" in " ".join(texts(reading))


# -- JSON -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ('"tasks": 2', '"tasks": 2, "tasks": 4', "there twice with different values"),
        ('"bwMiB": 899.3566, ', "", "lacks what is expected: `bwMiB`"),
        ('"transferSize": 1048576, ', "", "no transferSize"),
        ('"readFile": 1', '"readFile": 0', "was not asked for"),
        ('"repetitions": 3', '"repetitions": 4', "given as 3 and as 4"),
        ('"bwMeanMIB": ', '"bwMeanMIB": 1', "mean of write"),
        ('"verbose": 0', '"verbose": 1 x', "-v"),
        ('"Finished"', '"Finish"', "lacks what is expected: `Finished`"),
        ('"access": "read"', '"access": "write"', "write of iteration 3 was not asked for"),
        ('"randomOffset": 0', '"randomOffset": 1', "ordering in a file"),
        ('"iops": 1290.1147', '"iops": 1390.1147', "operations/s x time"),
    ],
)
def test_what_is_said_twice_in_json_must_agree(old: str, new: str, why: str) -> None:
    document = files_of("4.0.0", "mpiio_coll_JSON")["mpiio_coll_JSON.summary.json"].decode()
    assert old in document
    reading = read({"json": document.replace(old, new, 1).encode()}, 0)
    assert refuses(reading, why), reading


def test_with_one_iteration_the_summary_has_more_digits_than_the_table() -> None:
    table = files_of("main", "ior_perop")["ior_perop.out"].decode()
    fast = "read  7200  28800  0.004490  1024.00  256.00  0.000010  0.000278  0.000012  0.000278  0"
    table = re.sub(r"read      111.30 .*0", fast, table)
    table = re.sub(r"(read +)111\.30 +111\.30 +111\.30", r"\g<1>7200.31 7200.31 7200.31", table)
    reading = read({"out": table.encode()}, 0)
    assert not texts(reading)
    assert reading.rows[1]["bandwidth_bytes_per_s"] == 7200.31 * MIB


def test_what_a_job_script_prints_is_not_ior_s_and_what_ior_prints_without_its_banner_is() -> None:
    table = files_of("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
    other = files_of("main", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
    log = "nodes: 4\ntasks: 128\ntype: fat\n" + table + "nodes: 8\ntasks: 256\n" + other
    reading = read({"slurm-1.out": log.encode()}, None)
    assert not texts(reading)
    assert [row["tasks"] for row in reading.rows] == [2] * 12
    headless = table[table.index("api    ") :]
    reading = read({"out": headless.encode()}, 0)
    assert not texts(reading)
    assert [row["repetition"] for row in reading.rows[::2]] == [1, 2, 3]
    assert {(row["api"], row["tasks"], row["collective"]) for row in reading.rows} == {("POSIX", 2, False)}


def test_a_script_may_say_otherwise_than_its_command_line() -> None:
    table = files_of("4.0.0", "verbose_v2_stdout")["verbose_v2_stdout.out"].decode()
    reading = read({"out": table.replace("-F -b 16m", "-f script -w -b 16m").encode()}, 0)
    assert not texts(reading)
    assert len(reading.rows) == 6
    assert "o_direct" not in reading.rows[0]


def test_rows_inside_of_a_damaged_json_are_of_no_run() -> None:
    document = files_of("4.0.0", "mpiio_coll_JSON")["mpiio_coll_JSON.summary.json"].decode()
    foreign = files_of("4.0.0", "T_timelimit_CSV")["T_timelimit_CSV.summary.csv"].decode()
    for start in ('"Began"', '"Parameters"'):
        at = document.index(start)
        for beginning in (document[:at], document[2:at]):  # with its brace and without
            reading = read({"json": (beginning + foreign + document[at:]).encode()}, 0)
            assert not measured(reading)
            assert "the JSON is damaged" in texts(reading)[0]


def test_warnings_in_another_file_must_be_of_the_one_run() -> None:
    rows = files_of("4.0.0", "T_timelimit_CSV")["T_timelimit_CSV.summary.csv"]
    log = ("Writing output to x\n" + BLOCK.format(8388608, 8388608, 8388608) + LIMIT).encode()
    assert len(read({"x.csv": rows, "out": log}, 0).rows) == 2
    reading = read({"x.csv": rows + rows, "out": log}, 0)
    assert not measured(reading)
    assert any("do not say of which run" in problem for problem in texts(reading))


def test_the_exit_code_counts_and_its_absence_does_not() -> None:
    files = files_of("main", "posix_shared_seq_1m_np2_i3_CSV")
    assert len(read(files, None).rows) == len(read(files, 0).rows) == 6
    assert read(files, 9).rows == []
