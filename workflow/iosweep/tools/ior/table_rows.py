"""A row of IOR's table or CSV, and a line of its summary, by the names of their columns."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from iosweep.tools.ior.records import OPERATIONS, Printed, Result, Total

MIB = float(1 << 20)
CSV_HEADER = "access,bw(MiB/s),IOPS,Latency,block(KiB),xfer(KiB),open(s),wr/rd(s),close(s),total(s),numTasks,iter"
NOTES = ("access_type", "threads", "transfer_size")  # leading columns of the Lustre notes' results.csv
#: columns of the table in every version since 3.0; IOPS and latency came with 3.3
TABLE = ("access", "bw(MiB/s)", "block(KiB)", "xfer(KiB)", "open(s)", "wr/rd(s)", "close(s)", "total(s)", "iter")
#: columns of the summary -> what they say, named as under `Options`
_FACTS = {
    "#Tasks": "tasks", "tPN": "clients per node", "reps": "repetitions", "segcnt": "segments", "blksiz": "blocksize",
    "xsize": "xfersize", "API": "api", "fPP": "fPP",
}  # fmt: skip


def csv_row(cells: Sequence[str]) -> Result:
    """A CSV row (IOR >= 4.0). ValueError or KeyError where it is not one."""
    names = CSV_HEADER.split(",")
    if len(cells) != len(names):
        raise ValueError("columns")
    row = dict(zip(names, cells, strict=True))
    if not all(re.fullmatch(r"\d+\.\d{4}", cell) for cell in cells[1:-2]):
        raise ValueError("digits")  # IOR writes four; anything else is cut
    return replace(table_row(row), tasks=_count(row["numTasks"]))


def table_row(row: Mapping[str, str]) -> Result:
    """A row by its columns' names. ValueError or KeyError where something in it is not as IOR writes it."""
    if row["access"] not in OPERATIONS:
        raise ValueError(row["access"])
    if not all(re.fullmatch(r"\d+(\.\d+)?", row[name]) for name in row if name != "access"):
        raise ValueError("a cell is not a figure")
    return Result(
        access=row["access"],
        iteration=_count(row["iter"]),
        bandwidth_bytes_per_s=Printed.of(row["bw(MiB/s)"], MIB),
        ops_per_s=Printed.of(row["IOPS"]) if "IOPS" in row else None,
        block_bytes=Printed.of(row["block(KiB)"], 1024.0),
        transfer_bytes=Printed.of(row["xfer(KiB)"], 1024.0),
        open_s=Printed.of(row["open(s)"]),
        io_s=Printed.of(row["wr/rd(s)"]),
        close_s=Printed.of(row["close(s)"]),
        total_s=Printed.of(row["total(s)"]),
    )


def summary_line(cells: Mapping[str, str]) -> Total:
    """A line of `Summary of all tests`. ValueError or KeyError where it is not one."""
    aggregate = Printed.of(cells["aggs(MiB)"], MIB) if "aggs(MiB)" in cells else None
    if "aggsize" in cells:  # bytes, in 3.1 and earlier
        aggregate = Printed.of(cells["aggsize"])
    return Total(
        access=cells["Operation"],
        maximum=Printed.of(cells["Max(MiB)"], MIB),
        minimum=Printed.of(cells["Min(MiB)"], MIB),
        mean=Printed.of(cells["Mean(MiB)"], MIB),
        aggregate_bytes=aggregate,
        facts={fact: cells[name] for name, fact in _FACTS.items() if name in cells},
    )


def _count(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text):
        raise ValueError(f"{text} is not a count")
    return int(text)
