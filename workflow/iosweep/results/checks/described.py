"""What documentation says of each check beside its docstring: where it is "not checked", and what `iosweep parse`,
which has nothing but the output, makes of it."""

from __future__ import annotations

from typing import NamedTuple


class Described(NamedTuple):
    """not_checked: where the check cannot be made, besides runs without readable output; "" where it always can.
    parsed: what `iosweep parse` makes of it; missing: what it would need, where it makes nothing of it."""

    not_checked: str = ""
    parsed: str = ""
    missing: str = ""


_PLAN = "the plan"
_NODES = "what was counted and seen on the nodes"
_FILES = "the files"

OF = {
    "exit_status": Described("", "with `--exit-code`: one other than 0 makes every row suspect or invalid"),
    "output": Described("", "the document or the lines of the run are complete; a cut one gives no figures"),
    "tool_errors": Described("", "errors that the tool reports, its short and dropped I/Os, its messages of failures"),
    "tool_doubts": Described("", "IOR and mdtest: partial reads, warnings; fio: lines beside its report"),
    "as_asked": Described(
        "fio's servers in client/server mode that list no options; mdtest's command line of 1,000 characters or more",
        missing=_PLAN,
    ),
    "direction": Described("", "fio's JSON: the directions that its `rw` asks for, and no other"),
    "arithmetic": Described(
        "mdtest, which prints rates alone",
        "everything that a tool prints twice: bytes, operations, times, rates, latencies, histograms, minimum, mean and"
        " maximum",
    ),
    "in_flight": Described(
        "tools that time no single I/O (IOR, mdtest, metadata of fio)",
        "fio, where it prints workers and queue depth, timed all I/Os and held no rate down",
    ),
    "workers": Described(
        "MPI tools that do not print how many ranks took part",
        "fio: every host and group reported, workers by the sum of their run times; IOR, mdtest: counts of ranks and"
        " nodes that agree",
    ),
    "volume": Described("", "IOR: the bytes of blocks, segments and ranks were moved, unless a time bounded them"),
    "duration": Described("", "20 ticks of the clock (fio: 100 ms); fio's JSON and IOR: 98 % of the time asked for"),
    "clock": Described(
        "tools that print no times; phases whose start took long beside them (above)",
        "IOR and mdtest: not more time than between the dates of their beginning and end",
    ),
    "long_enough": Described("", "IOR, mdtest: 20 ms"),
    "overtime": Described("", "fio's JSON: at most 5 % more than the time asked for"),
    "common_window": Described(
        "a node whose fio does not print when it began, and whose process was not timed", missing=_NODES
    ),
    "steady": Described(
        "no rates over time: fio's logs and what the nodes counted are absent or damaged; fewer than 200 I/Os; the"
        " shape of phases under 10 s",
        "timed phases under 10 s are too short to judge it (IOR, fio; in fio's texts, runs of whole seconds); it has no"
        " rates over time",
    ),
    "even": Described(
        "the rates of single nodes and workers are not known or their logs are damaged; fewer than 100 I/Os of each",
        missing="each worker's logs",
    ),
    "queue_depth": Described(
        "tools that do not count what is in flight; libaio without O_DIRECT where completions cannot be told from"
        " submissions",
        "fio: its own count, and (JSON) rate x mean latency and the wait at each submission",
    ),
    "data_complete": Described("the files were not looked at", missing=_FILES),
    "no_holes": Described(
        "file systems that do not report the holes of a sparse file",
        "IOR: its warning of reads beyond what is allocated",
    ),
    "unchanged": Described(
        "the files could not be looked at again, or a difference may be an attribute that was seen late", missing=_FILES
    ),
    "stayed_new": Described("", missing=_PLAN),
    "file_count": Described("the files were not counted", missing=_FILES),
    "reached": Described(
        "no counter is known to see all I/O, or what it did not see may pass by it; writes that were not flushed; a"
        " failed run; a target that is memory, as `target.type` says",
        missing=_NODES,
    ),
    "client_cache": Described(
        "O_DIRECT that the tool does not confirm, or on a type of file system that may cache all the same; random reads"
        " of no more than half of the files; the memory of a node is not known; a failed run",
        missing=_NODES,
    ),
    "server_cache": Described(
        "without `target.server_cache`; random reads of no more than half of the files", missing=_PLAN
    ),
    "durable": Described("the tool does not report the flush", missing=_PLAN),
    "incompressible": Described(
        "no blocks could be read back; `data: tool_default` (the figures are in the evidence); files that may still"
        " hold what another phase wrote; IOR's random data after 4 GiB of a file",
        missing=_FILES,
    ),
    "other_reader": Described(
        "on one node; where it is not known which node wrote what it reads, or nodes read their own past their caches",
        missing=_PLAN,
    ),
    "plausible": Described("without `target.node_bandwidth`", missing=_PLAN),
    "other_load": Described(
        "runs of less than half a second; nodes whose processes are hidden; a client of the file system that may be the"
        " others",
        missing=_NODES,
    ),
    "cpu_quota": Described(
        "runs of less than half a second; control groups that cannot be read", missing=_NODES
    ),
    "other_io": Described(
        "phases that create or delete files, writes to copy-on-write file systems, and targets without a counter that"
        " is known to see all I/O",
        missing=_NODES,
    ),
    "exclusive": Described("a lock that does not reach all who could measure", missing=_NODES),
    "pinned": Described(
        "nothing was bound (`pinning: off`); fewer than three looks on a node, mostly in phases of less than half a"
        " second",
        missing=_NODES,
    ),
    "reserved_cpus": Described("as `pinned`; and where it is not known which CPUs are reserved", missing=_NODES),
    "reserved_agree": Described("reserved CPUs were not looked for", missing=_NODES),
    "precise": Described(
        "fewer than three repetitions; too few to tell (beyond 20 %, and Student's t alone within); repetitions on"
        " different nodes; a figure of zero",
        missing="other repetitions",
    ),
}  # fmt: skip


def in_parse() -> str:
    """The table of checks in docs/parsing.md."""
    made = [f"| `{name}` | {one.parsed} |" for name, one in OF.items() if one.parsed]
    needed: dict[str, list[str]] = {}
    for name, one in OF.items():
        if one.missing:
            needed.setdefault(one.missing, []).append(f"`{name}`")
    lacks = [f"| {', '.join(names)} | {what} |" for what, names in needed.items()]
    return "\n".join([*_head("check", "as far as the output tells"), *made, "", *_head("not made", "it needs"), *lacks])


def _head(*titles: str) -> list[str]:
    return [f"| {' | '.join(titles)} |", f"|{'---|' * len(titles)}"]
