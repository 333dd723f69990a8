"""What the files of IOR 3.0 and 3.1 say."""

import re

import pytest

from ior_readings import ALL, MIB, files_of, old_log, read, wrong_rows
from readings import measured, refuses, texts

pytestmark = pytest.mark.usefixtures("ior_runs_however_short")


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0"])
def test_a_good_run_of_the_old_layout_in_full(version: str) -> None:
    rows = read(files_of(version, "mpiio_coll_v1"), 0).rows
    lines = old_log(version, "mpiio_coll_v1").splitlines()
    figures = [line.split() for line in lines if re.match(r"write +[\d.]+ +1024", line)]
    assert len(figures) == 2
    assert rows[2] == {
        "tool": "ior", "tool_version": version, "label": "write", "repetition": 2, "phase": "seq_write",
        "kind": "data", "metric": "bandwidth_bytes_per_s", "threads_per_node": 2, "tasks": 2,
        "transfer_size_bytes": 1048576, "file_size_bytes": 4194304, "fsync": False, "api": "MPIIO",
        "file_per_process": False, "collective": True, "bandwidth_bytes_per_s": float(figures[1][1]) * MIB,
        "write_bandwidth_bytes_per_s": float(figures[1][1]) * MIB, "bytes_written": 8388608, "ops": 8,
        "runtime_s": float(figures[1][7]), "open_s": float(figures[1][4]), "io_s": float(figures[1][5]),
        "close_s": float(figures[1][6]), "segments": 4, "host": "vm", "command": lines[3].partition(": ")[2],
        "began_local": f"2026-11-20T{lines[2][18:26]}", "ended_local": f"2026-11-20T{lines[41][21:29]}",
    }  # fmt: skip


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0"])
def test_the_old_layout_is_read_without_its_beginning_and_without_its_end(version: str) -> None:
    text = old_log(version, "posix_fpp_seq_1m_np2_i3")
    whole = read({"out": text.encode()}, 0)
    headless = read({"out": text[text.index("Test 0 started") :].encode()}, 0)
    assert (texts(headless), headless.version, len(headless.rows)) == ([], None, 6)
    assert not wrong_rows(headless, whole)
    assert "o_direct" not in headless.rows[0]
    endless = read(
        {"out": text[: text.index("Max Write")].encode()}, 0
    )  # the number of segments is printed at the end only
    assert (texts(endless), len(endless.rows)) == ([], 6)
    assert not wrong_rows(endless, whole)
    assert endless.rows[0]["file_size_bytes"] == 32 * MIB


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0"])
def test_the_tests_of_a_script_of_the_old_layout_are_runs_of_their_own(version: str) -> None:
    text = old_log(version, "script_two_tests")
    rows = read({"out": text.encode()}, 0).rows
    assert [row["phase"] for row in rows[::2]] == ["seq_write", "seq_write", "rand_write", "rand_write"]
    assert [row["transfer_size_bytes"] for row in rows] == [1048576] * 4 + [524288] * 4
    assert [row["repetition"] for row in rows] == [1, 1, 2, 2] * 2
    start, second = text[: text.index("Test 1")], text[text.index("Test 1") :]
    reading = read({"out": (start + re.sub(r"Max Read: +\d", "Max Read:  9", second)).encode()}, 0)
    assert [(row["transfer_size_bytes"], row["label"]) for row in measured(reading)[4:]] == [(524288, "write")] * 2
    assert "run 2: the summary's maximum of read" in texts(reading)[0]
    for wrong in ("Test 0 started", "Test 2 started"):
        reading = read({"out": text.replace("Test 1 started", wrong).encode()}, 0)
        assert not measured(reading)
        assert "starts within test 0" in " ".join(texts(reading))


def test_several_runs_of_several_versions_and_other_programs_in_one_log() -> None:
    mdtest = "mdtest-1.9.3 was launched with 2 total task(s) on 1 nodes\nCommand line used: mdtest -n 5\n"
    names = [("3.0.1", "verbose_v3"), ("3.2.1", "posix_fpp_seq_1m_np2_i3"), ("3.1.0", "summary_always")]
    log = mdtest + mdtest.join(old_log(*name) for name in names) + mdtest
    reading = read({"log": log.encode()}, None)
    assert not texts(reading)
    assert [row["tool_version"] for row in reading.rows] == ["3.0.1"] * 4 + ["3.2.1"] * 6 + ["3.1.0"] * 4
    two = old_log("3.0.1", "verbose_v2") + old_log("3.1.0", "verbose_v2").partition("\n\nTest 0")[2].join(
        ["Test 0", ""]
    )
    reading = read({"log": two.encode()}, None)
    assert [row["tool_version"] for row in reading.rows if "tool_version" in row] == ["3.0.1"] * 6
    assert len(reading.rows) == 12


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("IOR-3.1.0", "IOR-2.10.3", "the layout of IOR 2.10.3 is not read (3.0 and later are)"),
        ("\tclients            = 2 (2", "\tclients            = 4 (2", "says both tasks 2 and 4"),
        ("\tclients            = 2 (2", "\tclients            = 2 (1", "clients per node: given as 1 and as 2"),
        ("(2 per node)", "(2 per", "a damaged option: clients 2 (2 per"),
        ("\tclients            =", "\tclients   =", "not whole: no clients per node"),
        ("\trepetitions        = 3", "\trepetitions        = 2", "repetitions: given as 2 and as 3"),
        ("\txfersize           = 1 MiB", "", "the layout of IOR 3.1 and earlier is not whole: no xfersize"),
        ("\txfersize           = 1 MiB", "\txfersize           = 2 MiB", "transfer size: given as"),
        ("\tblocksize          = 16 MiB", "\tblocksize          = 8 MiB", "block size: given as"),
        ("aggregate filesize = 64 MiB", "aggregate filesize = 32 MiB", "aggregate file size: given as"),
        ("strided (2 segments)", "strided (4 segments)", "segments: given as 4 and as 2"),
        ("sequential offsets", "random offsets", "ordering in a file: given as True and as False"),
        ("file-per-process", "single-shared-file", "file per process: given as False and as True"),
        ("file-per-process", "file-per-process, collective", "collective: given as True and as False"),
        ("= POSIX\n", "= MPIIO (version=3, subversion=1)\n", "api: given as MPIIO and as POSIX"),
        ("Summary:\n", "Summary:\ntasks               : 2\n", "lines of IOR 3.1 and earlier and of later versions"),
        ("67108864 POSIX", "67108865 POSIX", "says the summary"),
        ("-F -vv", "-vvzF", "ordering in a file: given as False and as True"),
        ("-F -vv", "-wF", "read of iteration 0 was not asked for"),
        ("-F -vv", "-F -N4", "2 tasks ran, the command asks for 4"),
        ("Commencing", "ior WARNING: fsync() failed, errno 5, Input/output error \nCommencing", "fsync() failed"),
    ],
)
def test_what_is_said_twice_in_the_old_layout_must_agree(old: str, new: str, why: str) -> None:
    files = {name: content.decode() for name, content in files_of("3.1.0", "verbose_v2").items()}
    assert sum(old in content for content in files.values()) == 1
    reading = read({name: content.replace(old, new, 1).encode() for name, content in files.items()}, 0)
    assert refuses(reading, why), reading


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("-F -vv", (False, False)),
        ("-vvFB", (True, False)),
        ("-FeBi3", (True, True)),  # getopt: flags together, the value of the last against it
        ("-F -O useO_DIRECT=1 -e", (True, True)),
        ("-l -B -F", (True, False)),  # a flag in 3.0
        ("-l offset -F", (False, False)),
        ("-li -FB", (True, False)),
        ("-F -W -R -w -r", (False, False)),
        ("-f script -B", (None, None)),
    ],
)
def test_command_lines_of_the_old_layout(options: str, told: tuple[bool | None, bool | None]) -> None:
    text = old_log("3.1.0", "verbose_v2").replace("-F -vv", options)
    reading = read({"out": text.encode()}, 0)
    assert not texts(reading)
    row = reading.rows[0]
    assert (row.get("o_direct"), row.get("fsync")) == told


@pytest.mark.parametrize("version", ["3.0.1", "3.1.0", "3.2.1", "4.0.0"])
@pytest.mark.parametrize("indentation", ["    ", "\t", " \t "])
def test_an_indented_log_says_the_same(version: str, indentation: str) -> None:
    """All of it, or all but a line before it."""
    for sample in (sample for sample in ALL if sample.version == version):
        for name, content in sample.files.items():
            if not name.endswith(".out") or b"bw(MiB/s)" not in content:
                continue
            plain = read({name: content}, 0)
            indented = b"".join(indentation.encode() + line for line in content.splitlines(keepends=True))
            assert read({name: indented}, 0) == plain
            if plain.rows:
                assert read({name: b"a line\n" + indented}, 0) == plain
    text = old_log("3.1.0", "E_stonewall_read_eof")
    assert texts(read({"out": text.encode()}, None))  # its exit code is lost, too


def test_a_table_without_options_is_of_an_unknown_run() -> None:
    text = old_log("4.0.0", "verbose_v2_stdout")
    reading = read({"out": text[text.index("access    bw") : text.index("Max Write")].encode()}, 0)
    assert not measured(reading)
    assert "without the options" in texts(reading)[0]
