"""The stand-ins for IOR and mdtest (standins/README.md): they print what the tools print, line for line, they do the
I/O that they are asked for, and their faults are those that they are named for.

With IOSWEEP_REAL_MPI_TOOLS=1 all but the faults and what is printed on errors hold the real tools (4.0.0) on PATH to
the same.
"""

import json
import os
import re
import shlex
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

import standins

pytestmark = pytest.mark.local

MIB = 1 << 20
RECORDED = Path(__file__).parents[1] / "support/standins" / "recorded"
JSON = ("-O", "summaryFile=summary.json,summaryFormat=JSON")


@dataclass(frozen=True)
class Done:
    exit_code: int
    out: str
    err: str
    seconds: float


def start(tools: Path, directory: Path, command: list[str], tasks: int, fault: str) -> subprocess.Popen[str]:
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "STANDIN_FAULT": fault}
    return subprocess.Popen(
        [*standins.mpiexec(tasks), *command],
        cwd=directory,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


Run = Callable[..., Done]


@pytest.fixture
def run(mpi_tools: Path, tmp_path: Path) -> Run:
    return runner(mpi_tools, tmp_path)


@pytest.fixture
def faulty(stand_ins: Path, tmp_path: Path) -> Run:
    return runner(stand_ins, tmp_path)


def runner(tools: Path, directory: Path) -> Run:
    def run(*command: str, tasks: int = 2, fault: str = "") -> Done:
        began = time.monotonic()
        with start(tools, directory, list(command), tasks, fault) as process:
            out, err = process.communicate(timeout=600)
        return Done(process.returncode, out, err, time.monotonic() - began)

    return run


def summary(directory: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory / "summary.json").read_text())
    return found


# --- the same lines as the tools -------------------------------------------------------------------------------------
#
# Compared are all lines, character by character, with these put in place of what differs from run to run:
#
#   the directory             DIR           host names and kernel        HOST        times of day   DATE
#   of the file system: sizes, use, GiB or TiB         of MPI: its version       of a process: its id, file numbers
#   measured figures: 9, with as many decimals, and as wide; in IOR's table of results, where the decimals follow the
#   size, only as wide. Zeros of mdtest stay: they are phases that were not run.
#   In time-bounded runs, which move as much as they can, the bytes moved.
#
# What a step is (sizes, counts, flags, names) is not replaced.

MEASURED = (
    "bwMiB|iops|latency|openTime|wrRdTime|closeTime|totalTime|bw(?:Max|Min|Mean|Std)MIB|OPs(?:Max|Min|Mean|SD)|MeanTime"
    "|(?:write|read)(?:MiB|MB)"
)
#: What each rank prints by itself: where it stands among the lines of others is chance.
BY_RANKS = re.compile(
    r"Writing output to|WARNING: (The file|Read bytes|write\(|read\(|task|unable|Unable|\[RANK|DUMMY|Backend)"
    r"|ERROR:|Error |Invalid options|Synopsis|Abort\(|Attempting to use|Unrecognized|\w+: .*Assertion|DATE: Process"
)


def nines(decimals: str | None) -> str:
    return "9" + ("." + "9" * (len(decimals) - 1) if decimals else "")


def right_justified(line: str) -> str:
    """Figures with decimals, at the right of their columns."""
    mdtest = line.startswith("   ")

    def replace(match: re.Match[str]) -> str:
        blanks, figure = match.groups()
        if mdtest and figure == "0.000":
            return match[0]
        token = "9.999" if mdtest else nines(figure[figure.find(".") :] if "." in figure else ".99")
        return blanks + token.rjust(14) if len(figure) > 14 else token.rjust(len(match[0]))

    return re.sub(r"( +)(\d+\.\d+|-?nan|inf)(?= |$)", replace, line)


def result_row(line: str) -> str:
    """A row of IOR's table: its figures are at the left of their columns. Block, transfer size and iteration stay."""
    cells = re.findall(r"\S+\s*", line)
    for i in (1, 2, 3, 6, 7, 8, 9):
        cells[i] = cells[i] if cells[i].startswith("-") else "9".ljust(len(cells[i]))
    return "".join(cells)


def csv_row(line: str) -> str:
    cells = line.split(",")
    for i in (1, 2, 3, 6, 7, 8, 9):
        cells[i] = re.sub(r"\d+(\.\d+)", lambda m: nines(m[1]), cells[i])
    return ",".join(cells)


def shape(line: str, timed: bool) -> str:
    line = re.sub(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}|\d\d/\d\d/\d{4} \d\d:\d\d:\d\d", "DATE", line)
    line = re.sub(r'(Machine +: |"Machine": ")Linux [^"]+', r"\1HOST", line)
    line = re.sub(r'"platform": "[^"]*"', '"platform": "HOST"', line)
    line = re.sub(r'(apiVersion"?\s*: "?)\(\d\.\d\)', r"\1MPI", line)
    line = re.sub(r"PID \d+ RUNNING AT \S+", "PID RUNNING AT HOST", line)
    line = re.sub(r"Time Stamp \d+ \(0x\w+\)", "Time Stamp", line)
    if '"Capacity"' in line or line.startswith("FS  "):
        return re.sub(r"-?(\d+(\.\d+)|nan)", "9.9", line).replace("TiB", "GiB")
    if re.match(r"(write|read|remove) {4,}(\S+ +){10}$", line):
        return result_row(line)
    if re.match(r"(write|read),", line):
        return csv_row(line)
    if re.match(r"(write|read) {4,}|   (File|Directory|Tree) |Max (Read|Write): ", line):
        return right_justified(line) if line[0] != "M" else re.sub(r"\d+(\.\d+)", lambda m: nines(m[1]), line)
    if timed:
        line = re.sub(r'("xsizeMiB": )\d+(\.\d+)', lambda m: m[1] + nines(m[2]), line)
        line = re.sub(r"(WARNING: Using actual aggregate bytes moved = )\d+", r"\g<1>9", line)
    line = re.sub(r"(WARNING: (?:write|read)\()\d+, 0x\w+", r"\g<1>FD, ADDRESS", line)
    return re.sub(rf'("(?:{MEASURED})": )"?(?:\d+(\.\d+)|inf)"?', lambda m: m[1] + nines(m[2] or ".9999"), line)


def shapes(text: str, directory: str, timed: bool) -> tuple[list[str], list[str]]:
    """Lines that one rank prints, in order, and the others, sorted."""
    text = text.replace(directory, "DIR")
    # hydra cuts what a rank prints where it likes, and another's line may come between
    text = re.sub(r"(?m)^(.+)(WARNING: Read bytes .*\n)", r"\2\1", text)
    text = re.sub(r"(WARNING: task .*\n)\n", r"\1", text)  # goes with its line, wherever that stands
    if "Synopsis" in text:
        text = re.sub(r"(Synopsis \w+\n)(?s:.*)", r"\1", text)  # the help
    lines = [shape(line, timed) for line in text.split("\n")]
    by_ranks = [re.sub(r"(task|node|rank|process|RANK|Process) \d+", r"\1 N", line) for line in lines]
    return (
        [line for line in lines if not BY_RANKS.match(line)],
        sorted(line for line in by_ranks if BY_RANKS.match(line)),
    )


def ranks_shape(path: Path) -> str | None:
    """A file with a line for each rank, without what was measured; None where there is none."""
    return re.sub(r"\d\.\d{10}e[+-]\d\d", "9", path.read_text()) if path.exists() else None


@dataclass(frozen=True)
class Sample:
    name: str
    tasks: int
    exit_code: int
    before: str
    command: str
    files: Path  # below here, its name and these endings
    directory: str

    def content(self, *endings: str) -> str | None:
        found = [path for ending in endings if (path := self.files / f"{self.name}.{ending}").exists()]
        return found[0].read_text() if found else None


def table(path: Path) -> Iterator[dict[str, str]]:
    names, *rows = (line.split("\t") for line in path.read_text().splitlines())
    return (dict(zip(names, row, strict=True)) for row in rows)


def recorded() -> list[Sample]:
    """What was recorded for these tests of commands as this project makes them: with 4.0.0, on one machine."""
    return [
        Sample(row["name"], int(row["tasks"]), int(row["exit_code"]), row["before"], row["command"], RECORDED, "DIR")
        for row in table(RECORDED / "manifest.tsv")
    ]


def sample(tool: str, name: str, before: str = "") -> Sample:
    """One of the samples that the parsers are tested with."""
    folder = Path(__file__).parents[1] / "samples" / tool
    for row in table(folder / "manifest.tsv"):
        if (row["version"], row["sample"]) == ("4.0.0", name):
            mpirun, option, tasks, command = row["command"].split(" ", 3)
            assert (mpirun, option) == ("mpirun", "-np")
            code = int(row["exit_code"])
            return Sample(name, int(tasks), code, before, command, folder / "4.0.0", "/mnt/pfs/bench")
    raise LookupError(name)


SAMPLES = [
    sample("ior", "posix_fpp_seq_1m_np2_i3_JSON"),
    sample("ior", "posix_fpp_seq_1m_np2_i3_default"),
    sample("ior", "posix_shared_seq_128k_np2_i3_JSON"),
    sample("ior", "posix_shared_seq_1m_np1_i3_CSV"),
    sample("ior", "posix_shared_rand_128k_np2_CSV"),
    sample("ior", "mpiio_coll_JSON"),
    sample("ior", "read_only_existing", "truncate -s 32M k_4.0.0.00000000 k_4.0.0.00000001"),
    sample("ior", "csv_stdout"),
    sample("ior", "verbose_v2_stdout"),
    sample("ior", "E_invalidopt_JSON"),
    sample("ior", "E_read_missing_JSON"),
    sample("ior", "E_read_missing_CSV"),
    sample("ior", "E_block_not_multiple_JSON"),
    sample("ior", "E_badapi"),
    sample("ior", "E_bad_O_directive"),
    sample("ior", "E_summary_badformat"),
    sample("ior", "E_summary_dir_missing"),
    sample("mdtest", "md_files_u_noverbose"),
    sample("mdtest", "md_both_i1"),
    sample("mdtest", "md_write_read_3901"),
    sample("mdtest", "md_single_task_n1"),
    sample("mdtest", "md_E_invalid"),
    *recorded(),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
def test_prints_what_the_tool_prints(
    sample: Sample, run: Run, mpi_tools: Path, stand_ins: Path, tmp_path: Path
) -> None:
    if sample.before:
        subprocess.run(["sh", "-c", sample.before], cwd=tmp_path, check=True)
    command = shlex.split(sample.command.replace(sample.directory, str(tmp_path)))
    done = run(*command, tasks=sample.tasks)
    # A rank that leaves with 1 has hydra kill the others, and their 9 may come first.
    assert done.exit_code in ((1, 9) if sample.exit_code == 1 else (sample.exit_code,)), done.out + done.err
    if sample.exit_code and mpi_tools != stand_ins:
        return  # the tools go on after MPI_Abort until they are killed: what they print then is chance
    timed = "minTimeDuration" in sample.command
    written = next(iter(tmp_path.glob("*summary*.*")), None)
    wanted = sample.content("json", "summary.json", "summary.csv", "summary.default")
    assert (written is None) == (wanted is None)
    if written and wanted is not None:
        assert shapes(written.read_text(), str(tmp_path), timed) == shapes(wanted, sample.directory, timed)
    assert ranks_shape(tmp_path / "ranks.csv") == ranks_shape(sample.files / f"{sample.name}.ranks.csv")
    for said, told in ((done.err, sample.content("err")), (done.out, sample.content("out"))):
        (ours, ours_by_ranks) = shapes(said, str(tmp_path), timed)
        (theirs, theirs_by_ranks) = shapes(told or "", sample.directory, timed)
        if sample.exit_code:
            # How many ranks come to print before one ends them all is chance, as is whether hydra's word on it comes.
            assert set(ours_by_ranks) <= set(theirs_by_ranks)
            assert ours_by_ranks or said == done.err
            assert ours[:-1] == theirs[: len(ours) - 1]
        else:
            assert (ours, ours_by_ranks) == (theirs, theirs_by_ranks)


# --- the I/O is real -------------------------------------------------------------------------------------------------


def allocated(path: Path) -> int:
    return path.stat().st_blocks * 512


def files_of(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


@pytest.fixture
def counted(run: Run) -> Callable[..., tuple[Done, dict[str, int]]]:
    """Runs a command; gives the bytes that the kernel counts for its ranks, less those of ranks that do no I/O."""

    def count(*command: str) -> tuple[Done, dict[str, int]]:
        # a process that was waited for is counted with its parent
        script = '"$@"; code=$?; io=$(cat /proc/$$/io); echo "$io"; exit $code'
        done = run("sh", "-c", script, "sh", *command)
        found = re.findall(r"^rchar: (\d+)\nwchar: (\d+)\n", done.out, re.MULTILINE)
        assert len(found) == 2
        return done, {"read": sum(int(read) for read, _ in found), "write": sum(int(wrote) for _, wrote in found)}

    _, idle = count("ior", "-a", "DUMMY", "-b", "1k", "-t", "1k")

    def busy(*command: str) -> tuple[Done, dict[str, int]]:
        done, bytes_of = count(*command)
        return done, {name: number - idle[name] for name, number in bytes_of.items()}

    return busy


Counted = Callable[..., tuple[Done, dict[str, int]]]


@pytest.mark.parametrize("api", ["POSIX", "MPIIO"])
@pytest.mark.parametrize("separate", [True, False], ids=["separate", "shared"])
@pytest.mark.parametrize("order", [[], ["-z", "--random-offset-seed=3"]], ids=["sequential", "random"])
def test_files_are_written_completely(api: str, separate: bool, order: list[str], run: Run, tmp_path: Path) -> None:
    where = ["-o", f"{tmp_path}/data", *(["-F"] if separate else [])]
    done = run("ior", "-a", api, "-b", "2m", "-t", "64k", "-w", "-k", "-e", "-l", "random", "-G", "9", *order, *where)
    assert done.exit_code == 0
    names = ["data.00000000", "data.00000001"] if separate else ["data"]
    assert files_of(tmp_path) == names
    for name in names:
        content = (tmp_path / name).read_bytes()
        assert len(content) == 4 * MIB // len(names)
        assert allocated(tmp_path / name) >= len(content)
        assert len(zlib.compress(content, 1)) > 0.99 * len(content)
        pages = [content[i : i + 4096] for i in range(0, len(content), 4096)]
        assert len(set(pages)) == len(pages)


def test_what_is_written_follows_from_the_seed(run: Run, tmp_path: Path) -> None:
    written = []
    for seed, order in (("1", []), ("100", []), ("1", []), ("1", ["-z"])):
        run("ior", "-F", "-b", "1m", "-t", "64k", "-w", "-k", "-l", "random", "-G", seed, *order, "-o", f"{tmp_path}/f")
        written.append([(tmp_path / f"f.0000000{rank}").read_bytes() for rank in (0, 1)])
    assert written[0] == written[2] == written[3]
    assert len({content for files in written[:2] for content in files}) == 4


def test_the_tools_own_data_repeats_itself(run: Run, tmp_path: Path) -> None:
    run("ior", "-F", "-b", "1m", "-t", "64k", "-w", "-k", "-o", f"{tmp_path}/f")
    content = (tmp_path / "f.00000000").read_bytes()
    assert len({content[i : i + 65536] for i in range(0, MIB, 65536)}) == 1
    assert len(zlib.compress(content, 1)) < 0.5 * MIB


@pytest.mark.parametrize("options", [[], ["-z"], ["-a", "MPIIO"], ["-a", "MPIIO", "-c"]], ids=" ".join)
@pytest.mark.parametrize("operation", ["write", "read"])
def test_counts_the_bytes_that_the_kernel_counts(
    operation: str, options: list[str], run: Run, counted: Counted, tmp_path: Path
) -> None:
    run("ior", "-b", "2m", "-t", "64k", "-w", "-k", "-o", f"{tmp_path}/data")
    command = [
        "ior",
        *options,
        "-b",
        "2m",
        "-t",
        "64k",
        "-k",
        f"-{operation[0]}",
        "-E",
        "-o",
        f"{tmp_path}/data",
        *JSON,
    ]
    done, seen = counted(*command, "-D", "1", "-O", "minTimeDuration=1")
    assert done.exit_code == 0, done.err
    told = int(re.findall(r"Using actual aggregate bytes moved = (\d+)", done.out)[0])
    assert summary(tmp_path)["summary"][0]["xsizeMiB"] == pytest.approx(told / MIB, abs=1e-4)
    assert seen[operation] == pytest.approx(told, abs=MIB)  # libraries are read, messages written
    result = summary(tmp_path)["tests"][0]["Results"][0]
    assert result["bwMiB"] * result["totalTime"] == pytest.approx(told / MIB, rel=1e-3)
    assert result["iops"] * result["wrRdTime"] == pytest.approx(told / 65536, rel=1e-3)
    assert 1 <= result["wrRdTime"] <= done.seconds < 60  # it ends by the clock, also on a busy machine
    assert (tmp_path / "data").stat().st_size == 4 * MIB


def test_fixed_work_moves_what_it_is_told(counted: Counted, tmp_path: Path) -> None:
    done, seen = counted("ior", "-F", "-b", "4m", "-t", "64k", "-s", "3", "-i", "2", "-o", f"{tmp_path}/f", *JSON)
    assert "WARNING" not in done.out
    assert seen["write"] == pytest.approx(48 * MIB, abs=MIB)
    assert seen["read"] == pytest.approx(48 * MIB, abs=MIB)
    results = summary(tmp_path)["tests"][0]["Results"]
    assert [result["access"] for result in results] == ["write", "read"] * 2
    for result in results:
        # bandwidth is from opening to closing; times have four decimals
        low, high = ((result["totalTime"] + sign * 0.00006) * result["bwMiB"] for sign in (-1, 1))
        assert low <= 24 <= high
    assert files_of(tmp_path) == ["summary.json"]  # without -k


def test_o_direct_is_used_where_it_is_asked_for(mpi_tools: Path, tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path / "probe", os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError as e:
        pytest.skip(f"O_DIRECT: not on the file system of {tmp_path} ({e.strerror})")
    command = ["ior", "-F", "-b", "1m", "-t", "64k", "-w", "-k", "-D", "600", "-O", "minTimeDuration=600"]
    for option, wanted in ((["--posix.odirect"], os.O_DIRECT), ([], 0)):
        with start(mpi_tools, tmp_path, [*command, *option, "-o", f"{tmp_path}/f"], 2, "") as process:
            flags: dict[str, int] = {}
            while process.poll() is None and len(flags) < 2:
                for rank in psutil.Process(process.pid).children(recursive=True):
                    flags |= flags_of_open_files(rank.pid, tmp_path)
            process.terminate()  # mpiexec ends its ranks
            process.communicate(timeout=600)
        assert {name: value & os.O_DIRECT for name, value in flags.items()} == {
            "f.00000000": wanted,
            "f.00000001": wanted,
        }


def flags_of_open_files(pid: int, directory: Path) -> dict[str, int]:
    found = {}
    try:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            if (path := link.readlink()).parent == directory and path.name.startswith("f."):
                said = Path(f"/proc/{pid}/fdinfo/{link.name}").read_text()
                found[path.name] = int(re.findall(r"flags:\s+(\d+)", said)[0], 8)
    except OSError:
        pass  # it ended, or closed the file
    return found


@pytest.mark.parametrize(("option", "same"), [("-E", True), ("-k", False)], ids=["overwrite", "new"])
def test_files_are_written_over_or_made_anew(option: str, same: bool, run: Run, tmp_path: Path) -> None:
    command = ["ior", "-F", "-b", "1m", "-t", "64k", "-w", "-k", "-o", f"{tmp_path}/f"]
    run(*command)
    with (tmp_path / "f.00000000").open("rb") as file:  # so that no number is given twice
        run(*command, option)
        assert os.path.samestat(os.fstat(file.fileno()), (tmp_path / "f.00000000").stat()) == same


MDTEST = ["mdtest", "-i", "1", "-n", "7", "-N", "1"]


@pytest.mark.parametrize("kind", ["file", "dir"])
@pytest.mark.parametrize("unique", [True, False], ids=["unique", "shared"])
def test_mdtest_makes_what_it_is_told_and_removes_it(kind: str, unique: bool, run: Run, tmp_path: Path) -> None:
    (tmp_path / "md").mkdir()
    command = [*MDTEST, "-F" if kind == "file" else "-D", *(["-u"] if unique else []), "-d", f"{tmp_path}/md"]
    assert run(*command, "-C", "-w", "100").exit_code == 0
    # With -u what a rank makes is in the directory of the next: -N
    trees = ["mdtest_tree.1.0", "mdtest_tree.0.0"] if unique else ["mdtest_tree.0"] * 2
    made = [f"test-dir.0-0/{tree}/{kind}.mdtest.{rank}.{i}" for rank, tree in enumerate(trees) for i in range(7)]
    assert files_of(tmp_path / "md") == sorted({"test-dir.0-0", *(f"test-dir.0-0/{tree}" for tree in trees), *made})
    if kind == "file":
        assert {(tmp_path / "md" / name).stat().st_size for name in made} == {100}
    assert run(*command, "-T").exit_code == 0
    assert "WARNING" not in run(*command, "-r").out
    assert files_of(tmp_path / "md") == []


def test_mdtest_writes_and_reads_what_it_is_told(counted: Counted, tmp_path: Path) -> None:
    command = [*MDTEST, "-F", "-u", "-C", "-T", "-E", "-r", "-w", "1048576", "-e", "1048576", "-d", f"{tmp_path}/md"]
    done, seen = counted(*command)
    assert done.exit_code == 0
    assert seen == {"read": pytest.approx(14 * MIB, abs=MIB), "write": pytest.approx(14 * MIB, abs=MIB)}
    assert files_of(tmp_path) == []  # it made the directory itself, so it removes it


def test_mdtest_works_in_all_phases_at_once(run: Run, tmp_path: Path) -> None:
    done = run(*MDTEST, "-u", "-d", f"{tmp_path}/md")
    rates = {row[0]: float(row[1]) for row in re.findall(r"^   (\w+ \w+) +(\d+\.\d{3})", done.out, re.MULTILINE)}
    assert len(rates) == 10
    assert all(rate > 0 for rate in rates.values())
    assert "unable" not in done.out


# --- the faults ------------------------------------------------------------------------------------------------------

IOR = ["ior", "-F", "-b", "1m", "-t", "64k", "-w", "-r"]


def test_faults_are_off_unless_asked_for(faulty: Run, tmp_path: Path) -> None:
    assert faulty(*IOR, "-o", f"{tmp_path}/f").out.count("IOR-4.0.0") == 1


@pytest.mark.parametrize("command", [IOR, MDTEST], ids=["ior", "mdtest"])
def test_fault_singleton_has_every_rank_alone(command: list[str], faulty: Run, tmp_path: Path) -> None:
    option = "-o" if command is IOR else "-d"
    out = faulty(*command, option, f"{tmp_path}/f", fault="singleton").out
    assert len(re.findall(r"^(?:tasks +: 1|1 tasks, .*)$", out, re.MULTILINE)) == 2


@pytest.mark.parametrize("command", [IOR, MDTEST], ids=["ior", "mdtest"])
def test_fault_kill_rank_ends_the_run(command: list[str], faulty: Run, tmp_path: Path) -> None:
    option = "-o" if command is IOR else "-d"
    done = faulty(*command, option, f"{tmp_path}/f", fault="kill_rank")
    assert done.exit_code == signal.SIGKILL
    assert "Killed (signal 9)" in done.out
    assert "BAD TERMINATION" in done.out


@pytest.mark.parametrize("command", [IOR, MDTEST], ids=["ior", "mdtest"])
def test_fault_hang_comes_after_a_complete_result(command: list[str], stand_ins: Path, tmp_path: Path) -> None:
    option = "-o" if command is IOR else "-d"
    with start(stand_ins, tmp_path, [*command, option, f"{tmp_path}/f"], 2, "hang") as process:
        assert process.stdout
        while not re.match(r"Finished  |-- finished at", line := process.stdout.readline()):
            assert line, "it ended before its result was complete"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.terminate()
        process.communicate(timeout=600)


def test_fault_short_table(faulty: Run, tmp_path: Path) -> None:
    done = faulty(*IOR, "-o", f"{tmp_path}/f", fault="short_table")
    assert (done.exit_code, "\nread " in done.out, "Summary" in done.out) == (0, True, False)
    done = faulty(*IOR, "-o", f"{tmp_path}/f", *JSON, fault="short_table")
    with pytest.raises(json.JSONDecodeError):
        summary(tmp_path)
    done = faulty(*MDTEST, "-d", f"{tmp_path}/md", fault="short_table")
    assert (done.exit_code, "SUMMARY" in done.out, "finished" in done.out) == (0, True, False)


def test_fault_missing_row(faulty: Run, tmp_path: Path) -> None:
    assert faulty(*IOR, "-o", f"{tmp_path}/f", *JSON, fault="missing_row").exit_code == 0
    found = summary(tmp_path)
    assert [result["access"] for result in found["tests"][0]["Results"]] == ["write"]
    assert [total["operation"] for total in found["summary"]] == ["write", "read"]
    done = faulty(*MDTEST, "-d", f"{tmp_path}/md", fault="missing_row")
    assert ("File read " in done.out, "File removal" in done.out, "finished" in done.out) == (True, False, True)


def test_fault_bad_json(faulty: Run, tmp_path: Path) -> None:
    assert faulty(*IOR, "-o", f"{tmp_path}/f", *JSON, fault="bad_json").exit_code == 0
    assert '"latency": nan, ' in (tmp_path / "summary.json").read_text()


def test_fault_io_error(faulty: Run, tmp_path: Path) -> None:
    done = faulty(*IOR, "-o", f"{tmp_path}/f", fault="io_error")
    assert (done.exit_code, "failed Input/output error" in done.out) == (signal.SIGABRT, True)
    assert "Assertion `rc >= 0' failed" in done.err
    run_of_reads = ["ior", "-F", "-b", "1m", "-t", "64k", "-r", "-k", "-o", f"{tmp_path}/f"]
    assert faulty(*IOR, "-k", "-o", f"{tmp_path}/f").exit_code == 0
    done = faulty(*run_of_reads, fault="io_error")
    assert (done.exit_code, "ERROR: cannot read from file" in done.out) == (255, True)
    done = faulty(*MDTEST, "-d", f"{tmp_path}/md", fault="io_error")
    assert (done.exit_code, "failed. Error: Input/output error" in done.out) == (255, True)


def test_fault_stale_warning(faulty: Run, tmp_path: Path) -> None:
    done = faulty(*IOR, "-o", f"{tmp_path}/f", fault="stale_warning")
    assert (done.exit_code, "WARNING: Stat() of aggregate file size      = 1398100\n" in done.out) == (0, True)
    done = faulty(*MDTEST, "-d", f"{tmp_path}/md", fault="stale_warning")
    assert (done.exit_code, "WARNING: unable to create tree directory" in done.out) == (0, True)


# --- how they are made -----------------------------------------------------------------------------------------------


def test_are_compiled_once(stand_ins: Path, tmp_path: Path) -> None:
    assert standins.build(stand_ins.parent) == stand_ins
    again = standins.build(tmp_path)
    assert files_of(tmp_path) == [stand_ins.name, f"{stand_ins.name}/ior", f"{stand_ins.name}/mdtest"]
    assert again == tmp_path / stand_ins.name
