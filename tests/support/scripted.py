#!/usr/bin/env python3
"""A stand-in for fio, IOR and mdtest: it prints what the real ones print, with rates, times, errors and files that a
test sets. **Nothing is measured**: no figure that it prints belongs in a report.

As a function, `play(call, rule)` for tests in one process (machine.py). As a program, `install(folder, rules)` puts
`fio`, `ior` and `mdtest` into a directory for PATH; of several MPI ranks only the first one prints.
What the real tools printed is in tests/samples.

A rule is a dictionary; the first whose `when` is found in the command line plays. It has, all optional:
    when           a regular expression; "" matches every run that measures, but not the preparation of a data set
    times          play only so often; then the rules after it have their turn
    ops_per_s      of all workers or ranks together; of mdtest a dictionary row -> rate, or one for all rows
    seconds        how long the tool says that it worked; default: as long as it was asked to, or operations / rate
    wall_s         how long it ran; default: `seconds` and a little more
    stdout         replaces what it would print
    stderr         what it says there
    exit_code      other than 0: it does nothing, and prints `stdout` and `stderr` alone
    options        options that the echo of fio's JSON has instead (None: it does not have them)
    version        of fio, that its JSON has instead
    entry          values of fio's JSON entry, or of IOR's result, to replace
    direction      values of fio's `read` or `write` to replace
    ranks          IOR, mdtest: how many ranks it says that it had
    shape          how fast it was, relative to the whole, one number for each interval of fio's logs
    workers        the same of each worker of fio's logs, or of each rank of IOR and mdtest
    waits          factor of the time that single I/Os of fio took
    copies         fio prints the figures of another run, to the last digit
    zeros          what it writes are zeros
    remove         files that are gone afterwards (a pattern below the directory that it works on)
    sleep_s        as a program: time that it really takes
    until          as a program: it waits until this file exists
    signal         as a program: it kills itself with this one
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

SAMPLES = Path(__file__).resolve().parents[1] / "samples"
TOOLS = ("fio", "ior", "mdtest")
Rule = dict[str, Any]
#: Operations per second of a worker at depth 1, and of all of them at most; of a rank of mdtest.
PER_WORKER, AT_MOST, PER_RANK = 2_000.0, 40_000.0, 5_000.0
START_S = 0.25
#: No two runs take the same time to open their files.
_RUNS = itertools.count(os.getpid() if __name__ == "__main__" else 0)
_ROWS = tuple(f"Directory {it}" for it in ("creation", "stat", "rename", "removal")) + tuple(
    f"File {it}" for it in ("creation", "stat", "read", "removal")
)
_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
#: Options of IOR and mdtest that are followed by a value.
_VALUES = {"ior": "abtGDOols", "mdtest": "ainNwedb"}


class Printed(NamedTuple):
    """What a tool did. `files`: name -> content of the files that it wrote where it was started."""

    stdout: bytes = b""
    stderr: bytes = b""
    exit_code: int = 0
    wall_s: float = 0.0
    files: Mapping[str, bytes] = MappingProxyType({})
    read_bytes: int = 0
    written_bytes: int = 0


class Call(NamedTuple):
    """A command line. options: of fio by their names; of the others by their letters, those without a value are ""."""

    tool: str
    argv: tuple[str, ...]
    options: dict[str, str]
    tasks: int
    nodes: int = 1

    @classmethod
    def of(cls, argv: Sequence[str], tasks: int | None = None, nodes: int = 1) -> Call:
        """The tool's own part of a command, which may begin with a launcher's."""
        at = next(k for k, word in enumerate(argv) if Path(word).name in TOOLS)
        tool, words = Path(argv[at]).name, list(argv[at + 1 :])
        if tasks is None:
            tasks = int(argv[argv.index("-n") + 1]) if "-n" in argv[:at] else 1
        options: dict[str, str] = {}
        while words:
            word = words.pop(0)
            if word.startswith("--"):
                name, _, value = word[2:].partition("=")
                options[name] = value
            else:
                value = words.pop(0) if tool in _VALUES and word[1:] in _VALUES[tool] else ""
                options[word[1:]] = f"{options[word[1:]]},{value}" if word[1:] in options and value else value
        return cls(tool, (tool, *argv[at + 1 :]), options, tasks, nodes)

    @property
    def line(self) -> str:
        return shlex.join(self.argv)

    @property
    def prepares(self) -> bool:
        """Whether it writes a data set for later phases."""
        timed_or_measured = "name" in self.options and self.options["name"] != "prepare"
        if self.tool == "ior":
            return "w" in self.options and "/sets/" in self.options["o"] and "E" not in self.options
        return self.tool == "fio" and not timed_or_measured

    @property
    def asks_version(self) -> bool:
        return "version" in self.options or self.options.get("a") == "DUMMY"

    def size(self, name: str, default: str = "0") -> int:
        digits, suffix = re.fullmatch(r"(\d+)([kmg]?)", self.options.get(name, default)).groups()  # type: ignore[union-attr]
        return int(digits) * _SIZES[suffix]


def rule_of(call: Call, rules: Sequence[Rule], use: Callable[[int], int]) -> Rule:
    """The rule that plays. `use(k)`: how often rule k has played before, counting this one from now on."""
    for k, rule in enumerate(rules):
        when = rule.get("when", "")
        if not (re.search(when, call.line) if when else not call.prepares):
            continue
        if "times" not in rule or use(k) < rule["times"]:
            return rule
    return {}


def play(call: Call, rule: Rule) -> Printed:
    """What the tool prints by a rule, after it has done to its files what it was asked for."""
    if call.asks_version:
        return _version(call)
    if rule.get("exit_code"):
        out, err = rule.get("stdout", ""), rule.get("stderr", "")
        return Printed(out.encode(), err.encode(), rule["exit_code"], rule.get("wall_s", START_S))
    printed = {"fio": _fio, "ior": _ior, "mdtest": _mdtest}[call.tool](call, rule)
    for file in Path(_place(call)).glob(rule["remove"]) if "remove" in rule else ():
        file.unlink()
    stdout = rule["stdout"].encode() if "stdout" in rule else printed.stdout
    wall_s = rule.get("wall_s", printed.wall_s)
    return printed._replace(stdout=stdout, stderr=rule.get("stderr", "").encode(), wall_s=wall_s)


def _version(call: Call) -> Printed:
    said = {
        "fio": "fio-3.33\n",
        "ior": "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n",
        "mdtest": "mdtest-4.0.0 was launched with 1 total task(s) on 1 node(s)\n",
    }
    return Printed(said[call.tool].encode())


def _place(call: Call) -> str:
    """The directory that a command works on."""
    if call.tool == "fio":
        return call.options["directory"].replace("\\:", ":")
    return str(Path(call.options["o"]).parent) if call.tool == "ior" else call.options["d"]


def _fill(file: Path, size: int, zeros: bool) -> None:
    """Make a file of this size; one that has it already stays, with a new time."""
    if file.exists() and file.stat().st_size == size and not zeros:
        os.utime(file)
        return
    with file.open("wb") as out:
        while size:
            part = min(size, 1 << 20)
            out.write(bytes(part) if zeros else os.urandom(part))
            size -= part


# fio


def _fio(call: Call, rule: Rule) -> Printed:
    options, place = call.options, Path(_place(call))
    threads, count = int(options["numjobs"]), int(options["nrfiles"])
    names = [place / f"{job}.{file}" for job in range(threads) for file in range(count)]
    if options["ioengine"].startswith("file"):
        return _fio_metadata(call, rule, names)
    rw, depth, block = options["rw"], int(options.get("iodepth", "1")), int(options["bs"])
    size = int(options["size"])
    creates = "write" in rw and "allow_file_create" not in options
    if lost := [name for name in names if not creates and not name.exists()]:
        said = f"fio: {lost[0]}: No such file or directory\n"
        return Printed(stderr=said.encode(), exit_code=1, wall_s=START_S)
    for name in names if "write" in rw else ():
        _fill(name, size // count, bool(rule.get("zeros")))
    rate = float(rule.get("ops_per_s") or min(threads * depth * PER_WORKER, AT_MOST))
    if "time_based" in options:
        seconds = float(rule.get("seconds", int(options["runtime"].removesuffix("ms")) / 1000))
        ops = max(1, round(rate * seconds))
    else:
        ops = threads * size // block
        seconds = float(rule.get("seconds", ops / rate))
    shares = {"read": 1.0 if "read" in rw else 0.0, "write": 0.0 if "read" in rw else 1.0}
    if rw in ("randrw", "rw"):
        shares = {"read": int(options["rwmixread"]) / 100, "write": 1 - int(options["rwmixread"]) / 100}
    waits_s = threads * depth / rate * float(rule.get("waits", 1))
    if not rule.get("copies"):  # no two runs have one mean to the last digit
        waits_s *= 1 + 1e-9 * (int(options.get("randseed", "0")) % 9973)
    parts = {way: _direction(round(ops * share), block, seconds, waits_s) for way, share in shares.items() if share}
    files = {}
    if "write_bw_log" in options:
        each = {way: part["bw"] / threads for way, part in parts.items()}
        files = _logs(threads, int(options["log_avg_msec"]), seconds, each, rule)
    moved = {way: part["io_bytes"] for way, part in parts.items()}
    stdout = _document(call, rule, parts, seconds, depth)
    return Printed(
        stdout, b"", 0, seconds + START_S, files, read_bytes=moved.get("read", 0), written_bytes=moved.get("write", 0)
    )


def _fio_metadata(call: Call, rule: Rule, names: Sequence[Path]) -> Printed:
    engine, threads = call.options["ioengine"], int(call.options["numjobs"])
    for name in names:
        if engine == "filecreate":
            name.touch()
        elif engine == "filedelete":
            name.unlink(missing_ok=True)
    rate = float(rule.get("ops_per_s") or threads * PER_RANK)
    seconds = float(rule.get("seconds", len(names) / rate))
    parts = {"read": _direction(len(names), 0, seconds, threads / rate)}
    parts["read"]["clat_ns"], parts["read"]["lat_ns"] = parts["read"]["lat_ns"], _latencies(0, 0.0)
    return Printed(_document(call, rule, parts, seconds, 1), wall_s=seconds + START_S)


def _template() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAMPLES / "fio/own_rand_read.out").read_bytes())
    return found


def _document(call: Call, rule: Rule, parts: dict[str, Any], seconds: float, depth: int) -> bytes:
    """fio's JSON, with everything that the sample has."""
    document, threads = _template(), int(call.options["numjobs"])
    (entry,) = document["jobs"]
    echo = {name: value for name, value in call.options.items() if name not in ("eta", "output-format")}
    echo |= rule.get("options", {})
    empty = _direction(0, 0, 0.0, 0.0)
    entry |= {
        "jobname": call.options["name"],
        "job_runtime": round(threads * seconds * 1000),
        "elapsed": 1 + int(seconds),
    }
    document["fio version"] = rule.get("version", document["fio version"])
    entry["job options"] = {name: value for name, value in echo.items() if value is not None}
    entry |= {way: copy.deepcopy(parts.get(way, empty)) for way in ("read", "write")}
    for way in parts:
        entry[way] |= rule.get("direction", {})
    level = str(1 << (depth.bit_length() - 1)) if depth < 64 else ">=64"
    entry["iodepth_level"] = {name: 100.0 if name == level else 0.0 for name in entry["iodepth_level"]}
    entry |= rule.get("entry", {})
    return json.dumps(document, indent=2).encode() + b"\n"


def _direction(ops: int, block: int, seconds: float, waits_s: float) -> dict[str, Any]:
    """fio's `read` or `write`: operations of `block` bytes, each of which a caller waited for `waits_s`, on average."""
    part: dict[str, Any] = copy.deepcopy(_template()["jobs"][0]["read"])
    ms, moved = round(seconds * 1000), ops * block
    rate = ops / seconds if seconds else 0.0
    part |= {"io_bytes": moved, "io_kbytes": moved >> 10, "total_ios": ops, "runtime": ms, "iops": rate}
    part |= {"bw_bytes": round(moved / seconds) if seconds else 0, "short_ios": 0, "drop_ios": 0}
    bandwidth = part["bw_bytes"] // 1024
    samples = max(1, int(seconds * 2)) if ops else 0
    part |= {"bw": bandwidth, "bw_min": bandwidth, "bw_max": bandwidth, "bw_mean": bandwidth, "bw_dev": 0.0}
    part |= {"bw_samples": samples, "iops_min": int(rate), "iops_max": int(rate), "iops_mean": rate, "iops_stddev": 0.0}
    part |= {"iops_samples": samples, "slat_ns": _latencies(ops, waits_s * 0.02, tail=False)}
    part |= {"clat_ns": _latencies(ops, waits_s * 0.98), "lat_ns": _latencies(ops, waits_s)}
    return part


def _latencies(ops: int, mean_s: float, tail: bool = True) -> dict[str, Any]:
    """A block of latencies with this mean: one in ten takes twice as long as most, one in a hundred 8 times."""
    slow, slower = ops // 100, ops // 10
    counts = [ops - slow - slower, slower, slow]
    unit = mean_s * 1e9 * ops / max(1, counts[0] + 2 * counts[1] + 8 * counts[2])
    values = [round(unit * factor) for factor in (1, 2, 8)]
    block: dict[str, Any] = {
        "min": values[0] if ops else 0,
        "max": values[2 if slow else 1 if slower else 0] if ops else 0,
        "mean": mean_s * 1e9 if ops else 0.0,
        "stddev": unit if ops > 1 else 0.0,
        "N": ops,
    }
    if not tail:
        return block

    def percentile(percent: float) -> int:
        seen = 0
        for value, count in zip(values, counts, strict=True):
            seen += count
            if seen >= ops * percent / 100:
                return value
        return values[2]

    keys = _template()["jobs"][0]["read"]["clat_ns"]["percentile"]
    bins = {str(value): count for value, count in zip(values, counts, strict=True) if count}
    return block | {"percentile": {key: percentile(float(key)) for key in keys} if ops else {}, "bins": bins}


def _relative(rule: Rule, name: str, number: int) -> list[float]:
    """What a rule says of parts, as factors of their mean."""
    given = rule.get(name) or [1.0] * number
    return [one * len(given) / sum(given) for one in given]


def _logs(threads: int, step_ms: int, seconds: float, each: dict[str, float], rule: Rule) -> dict[str, bytes]:
    number, shape = max(1, int(seconds * 1000 / step_ms + 0.01)), _relative(rule, "shape", 1)
    files = {}
    for worker, own in enumerate(_relative(rule, "workers", threads), 1):
        lines = [
            f"{(k + 1) * step_ms}, {round(rate * own * shape[k * len(shape) // number])}, {ddir}, 0, 0\n"
            for k in range(number)
            for ddir, rate in ((("read", "write").index(way), rate) for way, rate in each.items())
        ]
        files[f"series_bw.{worker}.log"] = "".join(lines).encode()
    return files


# IOR


def _ior(call: Call, rule: Rule) -> Printed:
    options, tasks = call.options, call.tasks
    separate, write = "F" in options, "w" in options
    block, transfer = call.size("b"), call.size("t")
    name = Path(options["o"])
    names = [name.with_name(f"{name.name}.{rank:08}") for rank in range(tasks)] if separate else [name]
    if not name.parent.is_dir():
        said = f'ERROR: open64("{names[0]}", 66, 0664) failed. Error: No such file or directory, (aiori-POSIX.c:625)\n'
        return Printed(said.encode(), b"", 255, START_S)
    if write:
        for file in names:
            _fill(file, block if separate else block * tasks, bool(rule.get("zeros")))
    rate = float(rule.get("ops_per_s") or min(tasks * PER_WORKER, AT_MOST))
    least = re.search(r"minTimeDuration=(\d+)", options.get("O", ""))
    expected = tasks * block
    if least:
        seconds = float(rule.get("seconds", least[1]))
        ops = max(1, round(rate * seconds))
    else:
        ops = expected // transfer
        seconds = float(rule.get("seconds", ops / rate))
    moved = ops * transfer
    document: dict[str, Any] = json.loads((SAMPLES / "ior/own/ior_seq_write_fpp.summary.json").read_bytes())
    (test,), (summary,) = document["tests"], document["summary"]
    told = rule.get("ranks", tasks)
    path = str(names[0])
    echo = {name: int(name in options) for name in "ckF"}
    document["Command line"] = " ".join(call.argv)
    test["Path"] = path
    test["Parameters"] |= {
        "api": options["a"], "testFileName": options["o"], "deadlineForStonewall": int(options.get("D", "0")),
        "nodes": call.nodes, "tasksPerNode": told // call.nodes, "fsync": int("e" in options),
        "useExistingTestFile": int("E" in options), "readFile": int("r" in options), "writeFile": int(write),
        "filePerProc": echo["F"], "reorderTasks": int("C" in options), "randomOffset": int("z" in options),
        "keepFile": echo["k"], "collective": echo["c"], "transferSize": transfer, "blockSize": block,
        "setTimeStampSignature/incompressibleSeed": int(options.get("G", "0")),
        "data packet type": "i" if options.get("l") == "random" else "g",
        "dataPacketType": 3 if options.get("l") == "random" else 0,
    }  # fmt: skip
    test["Options"] |= {
        "api": options["a"], "tasks": told, "clients per node": told // call.nodes, "nodes": call.nodes,
        "access": "file-per-process" if separate else "single-shared-file",
        "type": "collective" if echo["c"] else "independent",
        "ordering in a file": "random" if "z" in options else "sequential",
    }  # fmt: skip
    for key in ("stonewallingTime", "stoneWallingWearOut"):
        test["Options"].pop(key, None)
    if least:
        test["Options"] |= {"stonewallingTime": int(options["D"]), "stoneWallingWearOut": 0}
    mib = moved / seconds / (1 << 20)
    access = "write" if write else "read"
    test["Results"] = [
        {
            "access": access, "bwMiB": round(mib, 4), "blockKiB": block / 1024, "xferKiB": transfer / 1024,
            "iops": round(ops / seconds, 4), "latency": round(tasks / (ops / seconds), 4),
            "openTime": round(2e-4 + 1e-6 * (next(_RUNS) % 1000), 6), "wrRdTime": round(seconds, 4),
            "closeTime": 0.0001, "totalTime": round(seconds, 4),
        } | rule.get("entry", {})
    ]  # fmt: skip
    summary |= {
        "operation": access, "API": options["a"], "blockSize": block, "transferSize": transfer, "numTasks": told,
        "tasksPerNode": told // call.nodes, "filePerProc": echo["F"], "reorderTasks": int("C" in options),
        "MeanTime": round(seconds, 4), "xsizeMiB": moved / (1 << 20),
        **dict.fromkeys(("bwMaxMIB", "bwMinMIB", "bwMeanMIB"), round(mib, 4)),
        **dict.fromkeys(("OPsMax", "OPsMin", "OPsMean"), round(ops / seconds, 4)),
    }  # fmt: skip
    said = [f"Writing output to {options['O'].partition('summaryFile=')[2].partition(',')[0]}"] * tasks
    if write and "E" in options:
        said += [f'WARNING: The file "{file}" exists already and will be overwritten' for file in names]
    if moved != expected:
        said += [
            f"WARNING: Expected aggregate file size       = {expected}",
            f"WARNING: Stat() of aggregate file size      = {expected}",
            f"WARNING: Using actual aggregate bytes moved = {moved}",
            "WARNING: Maybe caused by deadlineForStonewalling",
        ]
    files = {"summary.json": json.dumps(document, indent=2).encode() + b"\n"}
    if "saveRankPerformanceDetailsCSV" in options["O"]:
        head = "access,rank,runtime-with-openclose,runtime,throughput-withopenclose,throughput\n"
        each = moved / tasks / seconds
        rows = [
            f"{access},{k},{seconds / own:.10e},{seconds / own:.10e},{each * own:.10e},{each * own:.10e}\n"
            for k, own in enumerate(_relative(rule, "workers", tasks))
        ]
        files["ranks.csv"] = (head + "".join(rows)).encode()
    stdout = ("\n".join(said) + "\n").encode()
    return Printed(stdout, b"", 0, seconds + START_S, files, 0 if write else moved, moved if write else 0)


# mdtest


def _mdtest(call: Call, rule: Rule) -> Printed:
    options, tasks, count = call.options, call.tasks, int(call.options["n"])
    kinds = [kind for kind, without in (("Directory", "F"), ("File", "D")) if without not in options]
    flags = {"C": "creation", "T": "stat", "E": "read", "r": "removal"}
    asked = [flags[flag] for flag in flags if flag in options] or ["creation", "stat", "rename", "read", "removal"]
    rows = [row for row in _ROWS if row.split()[0] in kinds]
    if "creation" in asked and "removal" not in asked:
        for rank, kind in ((rank, kind) for rank in range(tasks) for kind in kinds):
            below = Path(options["d"], "test-dir.0-0", f"mdtest_tree.{rank}.0" if "u" in options else "mdtest_tree.0")
            below.mkdir(parents=True, exist_ok=True)
            for k in range(count):
                name = below / f"{kind.lower()[:4].replace('dire', 'dir')}.mdtest.{rank}.{k}"
                name.mkdir(exist_ok=True) if kind == "Directory" else name.touch()
    given = rule.get("ops_per_s") or tasks * PER_RANK
    rates = {row: float(given.get(row, tasks * PER_RANK) if isinstance(given, dict) else given) for row in rows}
    rates = {row: rate if row.split()[1] in asked else 0.0 for row, rate in rates.items()}
    seconds = sum(tasks * count / rate for rate in rates.values() if rate)
    shown = {**rates, "Tree creation": 1000.0, "Tree removal": 1000.0}
    table = "".join(f"   {row:<17}{rate:>19.3f}{rate:>15.3f}{rate:>15.3f}{0.0:>15.3f}\n" for row, rate in shown.items())
    quoted = " ".join(f"'{word}'" for word in call.argv[1:])
    told = rule.get("ranks", tasks)
    stdout = (
        "-- started at 11/20/2026 14:13:38 --\n\n"
        f"mdtest-4.0.0 was launched with {told} total task(s) on {call.nodes} node(s)\n"
        f"Command line used: mdtest {quoted}\n"
        f"Path                : {options['d']}\n"
        "FS                  : 252.0 GiB   Used FS: 6.1%   Inodes: 16.0 Mi   Used Inodes: 2.9%\n"
        f"Nodemap: {'1' * (told // call.nodes)}{'0' * (told - told // call.nodes)}\n"
        f"V-0: Rank   0 Line  2537 Shifting ranks by {told // call.nodes if call.nodes > 1 else 1} for each phase.\n"
        f"{told} tasks, {told * count} files{'/directories' if len(kinds) > 1 or kinds == ['Directory'] else ''}\n\n"
        "SUMMARY rate: (of 1 iterations)\n"
        "   Operation                     Max            Min           Mean        Std Dev\n"
        "   ---------                     ---            ---           ----        -------\n"
        f"{table}-- finished at 11/20/2026 14:13:39 --\n\n"
    )
    if "File" in kinds and "read" in asked and "e" not in options:
        unread = "WARNING: Read bytes is 0, thus, a read test will actually just open/close\n"
        stdout = stdout.replace("Path   ", f"{unread}Path   ").replace("Nodemap", f"{unread}Nodemap")
    names = list(shown)
    head = "rank,items," + ",".join(f"rate-{row},time-{row}" for row in names)

    def values(own: float = 1.0) -> str:
        each = ((shown[row] / tasks * own, tasks * count / (shown[row] or 1) / own) for row in names)
        return ",".join(f"{rate:.10e},{time_s:.10e}" for rate, time_s in each)

    factors = _relative(rule, "workers", tasks)
    lines = [f"all,{count},{values()}", *(f"{rank},,{values(own)}" for rank, own in enumerate(factors))]
    files = {"ranks.csv": "\n".join([head, *lines, ""]).encode()} if "saveRankPerformanceDetails" in options else {}
    return Printed(stdout.encode(), b"", 0, seconds + 1 + START_S, files)


# As programs


#: Shell, and Python in its own words: a path with a space, or a long one, can be no interpreter (as pip does it).
_PROGRAM = """\
#!/bin/sh
'''exec' '{python}' -SEs "$0" "$@"
' '''
import sys
sys.path.insert(0, {here!r})
import scripted
sys.exit(scripted.main(__file__, sys.argv[1:]))
"""


def install(folder: Path, rules: Sequence[Rule] = (), tools: Sequence[str] = TOOLS) -> Path:
    """Make `fio`, `ior` and `mdtest` in a folder for PATH, or give those that are there other rules."""
    folder.mkdir(parents=True, exist_ok=True)
    for tool in tools:
        program = folder / tool
        if not program.exists():
            program.write_text(_PROGRAM.format(python=sys.executable, here=str(Path(__file__).parent)))
            program.chmod(0o755)
    making = folder / "rules.making"
    making.write_text(json.dumps([time.time_ns(), list(rules)]))  # how often a rule has played is counted anew
    making.replace(folder / "rules.json")
    return folder


def calls(folder: Path) -> list[list[str]]:
    """The commands that the programs were given, in order."""
    file = folder / "calls.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def processes(folder: Path) -> list[dict[str, Any]]:
    """Each process of a program that measured: `tool`, `node`, `cpus` that it may use, whether it has a `token` of
    Slurm, and whether it is a `worker` of fio."""
    file = folder / "processes.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def _tell(program: str, worker: bool = False) -> None:
    known = {
        "tool": Path(program).name, "node": os.uname().nodename, "token": "SLURM_JWT" in os.environ, "worker": worker,
        "cpus": ",".join(map(str, sorted(os.sched_getaffinity(0)))),
    }  # fmt: skip
    with Path(program).with_name("processes.jsonl").open("a") as file:
        file.write(json.dumps(known) + "\n")


def main(program: str, arguments: Sequence[str]) -> int:
    variables = os.environ
    rank = int(variables.get("PMI_RANK") or variables.get("SLURM_PROCID") or 0)
    tool, folder = Path(program).name, Path(program).parent
    tasks = int(variables.get("PMI_SIZE") or variables.get("SLURM_NTASKS") or 1) if tool != "fio" else 1
    local = int(variables.get("MPI_LOCALNRANKS") or 0)
    nodes = tasks // local if local else int(variables.get("SLURM_STEP_NUM_NODES") or 1) if tool != "fio" else 1
    call = Call.of([program, *arguments], tasks, max(1, nodes))
    generation, rules = json.loads((folder / "rules.json").read_bytes())
    if not call.asks_version:
        _tell(program)
    if tool != "fio" and rank:
        rule = rule_of(call, rules, lambda k: 0)
        time.sleep(0 if call.asks_version else rule.get("sleep_s", 0.0))
        return 0

    def use(k: int) -> int:
        with (folder / f"used.{generation}.{k}").open("ab") as used:
            used.write(b"x")
            return used.tell() - 1

    with (folder / "calls.jsonl").open("a") as log:
        log.write(json.dumps([tool, *arguments]) + "\n")
    rule = rule_of(call, rules, use) if not call.asks_version else {}
    while "until" in rule and not Path(rule["until"]).exists():
        time.sleep(0.1)
    for _ in _workers(program, call, rule):
        time.sleep(rule.get("sleep_s", 0.0))
    if "signal" in rule:
        os.kill(os.getpid(), rule["signal"])
    printed = play(call, rule)
    for name, content in printed.files.items():
        Path(name).write_bytes(content)
    sys.stderr.buffer.write(printed.stderr)
    sys.stdout.buffer.write(printed.stdout)
    return printed.exit_code


def _workers(program: str, call: Call, rule: Rule) -> Iterator[None]:
    """While fio sleeps, it has a process for each worker, as the real one has, on the CPUs that it was told."""
    children = []
    if call.tool == "fio" and rule.get("sleep_s") and "numjobs" in call.options:
        cpus = [_cpus(part) for part in call.options.get("cpus_allowed", "").split(",") if part]
        every = [cpu for part in cpus for cpu in part]
        split = call.options.get("cpus_allowed_policy") == "split"
        for k in range(int(call.options["numjobs"])):
            if child := os.fork():
                children.append(child)
                continue
            if every:
                os.sched_setaffinity(0, [every[k % len(every)]] if split else every)
            _tell(program, worker=True)
            time.sleep(rule["sleep_s"])
            os._exit(0)
    yield
    for child in children:
        os.waitpid(child, 0)


def _cpus(part: str) -> list[int]:
    first, _, last = part.partition("-")
    return list(range(int(first), int(last or first) + 1))
