"""Reads IO500's published submissions as `iosweep ingest` does and with a second reader, and compares what both say.

    python benchmarks/io500.py CHECKOUT

CHECKOUT is a directory with the submissions (the public repository IO500/submission-data); nothing of it is part of our
project. The second reader below has nothing in common with iosweep's: it splits lines at blanks and colons, judges
nothing, and knows only outputs of IO500's kind. Every row and figure that iosweep gives must be one that it sees; what
it sees and iosweep does not give must have a reason. A complete set has all eleven outputs of IOR and mdtest, and is
usable if each of them gives its figure. Exit code: 1 where a figure differs, or one is missing without a reason.
"""

from __future__ import annotations

import argparse
import collections
import re
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from iosweep.ingest import outputs

#: Outputs of a complete set, and what the row of each is called that IO500 scores.
SET = {
    **{f"ior-{kind}-{what}": what for kind in ("easy", "hard") for what in ("write", "read")},
    "mdtest-easy-write": "File creation", "mdtest-easy-stat": "File stat", "mdtest-easy-delete": "File removal",
    "mdtest-hard-write": "File creation", "mdtest-hard-stat": "File stat", "mdtest-hard-delete": "File removal",
    "mdtest-hard-read": "File read",
}  # fmt: skip
MIB = 1 << 20
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


# -- the second reader ------------------------------------------------------------------------------------------------


def second_ior(text: str) -> Iterator[dict[str, str | float]]:
    """IOR's rows: each with the strings of its columns, by our names, and of what is printed above it."""
    options: dict[str, str] = {}
    columns: list[str] = []
    moved = None
    rows: list[dict[str, Any]] = []
    for line in text.splitlines():
        words = line.split()
        if "MPI Coordinated Test of Parallel I/O" in line:
            yield from rows
            rows, columns, moved = [], [], None
            options = {"version": line[line.index("IOR-") + 4 :].split(":")[0]}
        elif words[:1] == ["access"] and "bw(MiB/s)" in words:
            columns = words
        elif words[:1] in (["write"], ["read"]) and columns and len(words) == len(columns):
            rows.append({**options, **dict(zip(columns, words, strict=True)), "moved": moved})
            moved = None
        elif line.startswith("WARNING: Using actual aggregate bytes moved"):
            moved = line.split("=")[1].strip().rstrip(".")
        elif ":" in line:
            name, _, value = line.partition(":")
            options.setdefault(name.strip(), value.strip())
    yield from rows


def second_mdtest(text: str) -> Iterator[dict[str, Any]]:
    """mdtest's rows with a rate."""
    head: dict[str, Any] = {}
    inside = ""
    rows: list[dict[str, Any]] = []
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("-- started at"):
            yield from rows
            rows, head = [], {"began": line[13:-2].strip()}
        elif line.startswith("-- finished at"):
            for row in rows:
                row["ended"] = line[14:-2].strip()
        elif " was launched with " in line and line.startswith("mdtest-"):
            words = line.split()
            head |= {"version": words[0][7:], "tasks": words[4], "nodes": words[8]}
        elif line.startswith("Command line used:"):
            head["command"] = line.partition(":")[2].strip()
        elif re.fullmatch(r"\d+ tasks, \d+ files(/directories)?", line):
            head |= {"counted": line.split()[0], "items": line.split()[2]}
        elif line.startswith("SUMMARY"):
            inside = "times" if "time" in line else "rates"
        elif inside and line.startswith(("File ", "Directory ")):
            words = line.replace(":", " ").split()
            label = " ".join(words[:2])
            if inside == "times":
                for row in rows:
                    row |= {"time": words[4]} if row["label"] == label else {}
            elif len(words) == 6 and float(words[2]) > 0:
                rows.append({**head, "label": label, "figures": words[2:]})
    yield from rows


def _date(text: str) -> str:
    """`Thu Nov  8 15:56:07 2018` or `11/08/2018 15:56:07` as `2018-11-08T15:56:07`."""
    words = text.split()
    if len(words) == 2:
        month, day, year = words[0].split("/")
        return f"{year}-{month}-{day}T{words[1]}"
    return f"{words[4]}-{_MONTHS.index(words[1]) + 1:02}-{int(words[2]):02}T{words[3]}"


# -- the comparison ---------------------------------------------------------------------------------------------------


def _same(ours: float | None, printed: str, scale: float = 1.0) -> bool:
    """Whether our figure is the printed one: by less than a unit of its last digit."""
    if ours is None:
        return False
    return abs(ours / scale - float(printed)) <= 0.51 * 10 ** -len(printed.partition(".")[2]) + 1e-9 * float(printed)


def ior_differences(row: dict[str, Any], seen: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """(column, whether it is what the second reader saw) of all columns that it saw."""
    yield "bandwidth_bytes_per_s", _same(row.get("bandwidth_bytes_per_s"), seen["bw(MiB/s)"], MIB)
    yield (
        f"{row['label']}_bandwidth_bytes_per_s",
        row.get(f"{row['label']}_bandwidth_bytes_per_s") == row.get("bandwidth_bytes_per_s"),
    )
    for name, column in (
        ("IOPS", "ops_per_s"), ("open(s)", "open_s"), ("wr/rd(s)", "io_s"), ("close(s)", "close_s"),
        ("total(s)", "runtime_s"),
    ):  # fmt: skip
        if name in seen:
            yield column, _same(row.get(column), seen[name])
    yield "transfer_size_bytes", _same(row.get("transfer_size_bytes"), seen["xfer(KiB)"], 1024)
    yield "repetition", row.get("repetition") == int(seen["iter"]) + 1
    for name, column in (
        ("tasks", "tasks"), ("nodes", "nodes"), ("clients per node", "threads_per_node"), ("segments", "segments"),
    ):  # fmt: skip
        if name in seen:
            yield column, row.get(column) == int(seen[name])
    for name, column in (("version", "tool_version"), ("api", "api"), ("Command line", "command")):
        if seen.get(name):
            yield column, row.get(column) == seen[name]
    if "access" in seen and seen.get("ordering in a file"):
        order = {"sequential": "seq", "random": "rand"}[seen["ordering in a file"]]
        yield "phase", row.get("phase") == f"{order}_{seen['access']}"
    if seen["moved"]:
        yield "bytes", (row.get("bytes_written") or row.get("bytes_read")) == int(seen["moved"])
    if seen.get("stonewallingTime", "0") != "0":
        yield "phase_time_s", row.get("phase_time_s") == float(seen["stonewallingTime"])
    if seen.get("Machine"):
        yield "host", row.get("host") == seen["Machine"].split()[1]
    if seen.get("StartTime"):
        yield "began_local", row.get("began_local") == _date(seen["StartTime"])


def mdtest_differences(row: dict[str, Any], seen: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    names = ("max_ops_per_s", "min_ops_per_s", "ops_per_s", "stddev_ops_per_s")
    for name, printed in zip(names, seen["figures"], strict=True):
        yield name, row.get(name) == float(printed)
    if "time" in seen:
        yield "runtime_s", row.get("runtime_s") == float(seen["time"])
    if seen.get("version"):
        yield "tool_version", row.get("tool_version") == seen["version"]
    if "tasks" in seen:
        yield "tasks", row.get("tasks") == int(seen.get("counted", seen["tasks"]))
        yield "nodes", row.get("nodes") == int(seen["nodes"])
    if "items" in seen and row.get("files_per_thread") is not None:
        yield "files_per_thread", row.get("files_per_thread") * int(seen["counted"]) == int(seen["items"])
    for name, column in (("began", "began_local"), ("ended", "ended_local")):
        if name in seen:
            yield column, row.get(column) == _date(seen[name])
    if row.get("command") is not None:
        yield (
            "command",
            [word.strip("'\"") for word in row.get("command").split()]
            == [word.strip("'\"") for word in seen["command"].split()],
        )


class Comparison:
    """Counts of what both readers say of all outputs."""

    def __init__(self) -> None:
        self.count: collections.Counter[str] = collections.Counter()
        self.wrong: list[str] = []
        self.refused: dict[str, list[str]] = {}
        self.sets: dict[Path, dict[str, bool]] = {}

    def add(self, document: dict[str, Any]) -> None:
        name = document["file"]
        self.count["outputs"] += 1
        text = Path(name).read_text(encoding="utf-8", errors="replace")
        seen = list((second_ior if document["tool"] == "ior" else second_mdtest)(text))
        self._rows(name, document, seen)
        what = Path(name).stem.replace("_", "-")
        if what in SET:
            good = any(
                row["label"] == SET[what] and row["verdict"] != "invalid" and row.get(row["metric"])
                for row in document["rows"]
            )
            outputs = self.sets.setdefault(Path(name).parent, {})
            outputs[what] = outputs.get(what, False) or good
            if not good:
                reasons = [problem["text"] for problem in document["problems"] if problem["severity"] == "invalid"]
                for reason in {_general(reason, name) for reason in reasons or ["without a reason"]}:
                    self.refused.setdefault(f"{document['tool']}: {reason}", []).append(name)

    def _rows(self, name: str, document: dict[str, Any], seen: list[dict[str, Any]]) -> None:
        differences = ior_differences if document["tool"] == "ior" else mdtest_differences
        figure = "bandwidth_bytes_per_s" if document["tool"] == "ior" else "ops_per_s"
        left = list(seen)
        for row in document["rows"]:
            if row.get(figure) is None:
                continue  # it has no figures, and says why
            told = [
                (one, [column for column, same in found if not same], len(found))
                for one in left
                if one.get("access", one.get("label")) == row["label"]
                for found in [list(differences(row, one))]
            ]
            if not told:
                self.wrong.append(f"{name}: {row['label']} is not there")
                continue
            one, bad, compared = min(told, key=lambda each: len(each[1]))
            left.remove(one)
            self.count["rows"] += 1
            self.count["figures"] += compared
            self.wrong += [f"{name}: {row['label']}: {column}: {row.get(column)!r}" for column in bad]
        reasons = any(problem["severity"] == "invalid" for problem in document["problems"])
        self.count["figures that are left out with a reason"] += len(left) if reasons else 0
        self.wrong += [] if reasons else [f"{name}: {one.get('access', one.get('label'))} is missing" for one in left]


def _general(reason: str, name: str) -> str:
    """A reason without what differs from output to output."""
    text = reason.replace(name, "").lstrip(": ")
    text = re.sub(r"'[^']*'|\S*/\S*", "PATH", text)
    return re.sub(r"\d[\d.]*(e[+-]?\d+)?", "#", text)[:150]


def read(checkout: Path) -> Iterator[dict[str, Any]]:
    """What iosweep says of each output."""
    for file in outputs.files(checkout):
        readings = outputs.readings(file.data) if not file.reason else {}
        for tool, reading in readings.items() if isinstance(readings, dict) else ():
            rows = [{**row, "verdict": reading.verdict(index)} for index, row in enumerate(reading.rows)]
            yield {"file": file.name, "tool": tool, "rows": rows, "problems": [*map(asdict, reading.problems)]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    checkout = parser.parse_args().checkout
    size = sum(file.stat().st_size for file in checkout.rglob("*") if file.is_file() and ".git" not in file.parts)
    began = time.monotonic()
    documents = list(read(checkout))
    took = time.monotonic() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    compared = Comparison()
    for document in documents:
        if document["tool"] in ("ior", "mdtest"):
            compared.add(document)
    complete = [outputs for outputs in compared.sets.values() if len(outputs) == len(SET)]
    usable = sum(all(outputs.values()) for outputs in complete)
    verdicts = collections.Counter(row["verdict"] for document in documents for row in document["rows"])
    print(f"{size / 1e6:.0f} MB read in {took:.1f} s with {peak / 1e6:.0f} MB of memory")
    print(f"outputs of IOR and mdtest: {compared.count['outputs']:,}")
    print(f"rows: {sum(verdicts.values()):,} ({', '.join(f'{n:,} {name}' for name, n in verdicts.most_common())})")
    print(f"compared with the second reader: {compared.count['rows']:,} rows, {compared.count['figures']:,} values")
    print(f"left out with a reason: {compared.count['figures that are left out with a reason']:,} rows")
    print(f"differences: {len(compared.wrong):,}")
    for line in compared.wrong[:50]:
        print(f"  {line}")
    print(f"complete sets: {len(complete):,}, usable: {usable:,}")
    print("outputs of sets without their figure, by reason:")
    for reason, names in sorted(compared.refused.items(), key=lambda item: -len(item[1])):
        print(f"  {len(names):4}  {reason}")
    return 1 if compared.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
