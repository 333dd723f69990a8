"""Makes `results/<campaign>/` as `iosweep tables` writes it, with plausible figures. Seeded."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise, product
from math import exp, log
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy import interp

from iosweep.analysis.summary import PointSummary, summarize
from iosweep.config.sweeps import RepetitionRule
from iosweep.files.documents import dump
from iosweep.histograms import FACTOR, bin_of
from iosweep.plan.model import SweepFacts
from iosweep.programs import programs
from iosweep.tables import columns, reader
from iosweep.tables.reader import CampaignDocument

K, M, G = 2**10, 2**20, 2**30
DATA_PHASES = ["seq_write", "seq_read", "rand_write", "rand_read"]
METADATA_PHASES = ["create", "stat", "delete"]
MDTEST_PHASES = ["dir_create", "dir_stat", "dir_rename", "dir_delete", "create", "stat", "read", "delete"]

#: Phases that an option has an effect on; the tables have it in no other row.
USED_BY = {
    "fsync": {"seq_write", "rand_write", "rand_mixed"},
    "write_mode": {"seq_write", "rand_write", "rand_mixed", *METADATA_PHASES},
    "data": {"seq_write", "rand_write", "rand_mixed"},
    "read_percent": {"rand_mixed"},
}

#: Operations per second of one rank, and at most, of each phase of mdtest.
_MDTEST = {
    "dir_create": (2.1e3, 84e3), "dir_stat": (9.5e3, 370e3), "dir_rename": (1.5e3, 19e3), "dir_delete": (2.4e3, 105e3),
    "create": (1.7e3, 71e3), "stat": (11e3, 455e3), "read": (2.0e3, 83e3), "delete": (2.9e3, 130e3),
}  # fmt: skip

_CONFIGURATION = "campaign: {}\ntarget: {{directory: /mnt/scratch/bench}}\nsweeps:\n  - name: threads\n    tool: fio\n"

_SAMPLES = Path(__file__).resolve().parents[1] / "samples/report"
#: A node, and build documents: what a machine's PATH has, and what Spack made.
NODE, PATH, SPACK = (json.loads((_SAMPLES / f"{name}.json").read_bytes()) for name in ("node", "path", "spack"))

Sweep = dict[str, Any]
Row = dict[str, Any]
#: row -> (verdict, `CHECK: EVIDENCE`, or why it is missing), or None to leave the row valid. Only whole
#: points can be missing.
Spoil = Callable[[Mapping[str, Any]], "tuple[str, str] | None"]
#: row -> how fast its node is, 1 is as the others
Speed = Callable[[Mapping[str, Any]], float]
#: nodes of a point, repetition -> the Slurm job, or None, and the nodes that measure it
Place = Callable[[int, int], tuple[str | None, Sequence[Row]]]

#: check -> (severity, outcome where nothing failed, evidence)
CHECKS = {
    "no_errors": ("invalid", "pass", "0 errors, 0 short, 0 dropped"),
    "duration": ("suspect", "pass", "1.003 s of 1 s"),
    "pinned": ("invalid", "pass", "each on the CPUs planned for it"),
    "client_cache": ("suspect", "not applicable", ""),
    "exclusive": ("suspect", "not checked", "exclusion is not enforced on one machine"),
}


def sweep(name: str, phases: Sequence[str], axes: Mapping[str, Sequence[Any]], **more: Any) -> Sweep:
    """A sweep; `more` are options of its points (file_size_bytes, o_direct ...) or keys of campaign.json."""
    return {"name": name, "phases": list(phases), "axes": {k: list(v) for k, v in axes.items()}, **more}


def ior(name: str = "lustre-ior.threads-by-transfer", **more: Any) -> Sweep:
    """IOR as in the Lustre notes: threads against transfer size."""
    axes = {"threads_per_node": [1, 8, 16, 32, 64, 128], "transfer_size": [128 * K, M, 16 * M], **more.pop("axes", {})}
    return sweep(name, DATA_PHASES, axes, **{"tool": "ior", "data": "random", **more})


def mdtest(name: str = "metadata-by-nodes", **more: Any) -> Sweep:
    """mdtest on one to four nodes."""
    axes = more.pop("axes", {"nodes": [1, 2, 3, 4]})
    return sweep(name, MDTEST_PHASES, axes, **{"tool": "mdtest", "threads_per_node": 32, **more})


def weka(suite: str = "weka", scaled: Sequence[str] = (), nodes: Sequence[int] = (1, 8)) -> list[Sweep]:
    """WEKA's seven tests; `scaled` names those that were made to fit."""
    tests: dict[str, tuple[str, int, int]] = {
        "read-throughput": ("seq_read", 32, M),
        "write-throughput": ("seq_write", 32, M),
        "read-iops": ("rand_read", 192, 4 * K),
        "write-iops": ("rand_write", 192, 4 * K),
        "read-latency": ("rand_read", 1, 4 * K),
        "write-latency": ("rand_write", 1, 4 * K),
    }
    more: dict[str, Any] = {"suite": suite, "source": 'WEKA 4.3 documentation, "WEKA performance tests"'}
    made = []
    for name, (phase, threads, size) in tests.items():
        options = {"threads_per_node": threads, "transfer_size_bytes": size, "ioengine": "posixaio"}
        fits = {"scaled": name in scaled}
        made.append(sweep(f"{suite}.{name}", [phase], {"nodes": nodes}, **more, **options, **fits))
    files = {"tool": "mdtest", "threads_per_node": 136, "files_per_thread": 18382, "scaled": "metadata" in scaled}
    phases = ["create", "stat", "read", "delete"]
    return [*made, sweep(f"{suite}.metadata", phases, {"nodes": nodes[-1:]}, **more, **files)]


def nodes(count: int) -> list[Row]:
    """Equal nodes: node01, node02 ..."""
    return [
        NODE | {"host": f"node{n:02}", "node": hashlib.sha256(b"%d" % n).hexdigest()[:12]} for n in range(1, count + 1)
    ]


def in_turn(allocated: Sequence[Row]) -> Place:
    """One job, in which smaller counts go round the nodes, as launch.subset does."""

    def place(count: int, repetition: int) -> tuple[str, Sequence[Row]]:
        first = (repetition - 1) * count % len(allocated)
        return "7", [allocated[k] for k in sorted((first + k) % len(allocated) for k in range(count))]

    return place


def node_check() -> list[Sweep]:
    """The suite node-check."""
    more: dict[str, Any] = {"suite": "node-check", "source": "iosweep's own", "threads_per_node": 8, "data": "random"}
    return [
        sweep(
            "node-check.throughput", DATA_PHASES[:2], {"nodes": [1], "transfer_size": [M], "queue_depth": [8]}, **more
        ),
        sweep("node-check.small-blocks", DATA_PHASES[2:], {"nodes": [1], "queue_depth": [16]}, **more),
    ]


DEMO = (sweep("threads", DATA_PHASES, {"threads_per_node": [1, 2, 4, 8], "transfer_size": [4 * K, 64 * K, M]}),)


class Made(NamedTuple):
    """What the functions below make of sweeps, as rows of the tables and as campaign.json without its tables."""

    rows: list[Row]
    checks: list[Row]
    nodes: Sequence[Row]
    about: dict[str, Any]


def make(directory: Path, sweeps: Sequence[Sweep] = DEMO, repetitions: int = 3, seed: int = 1, **options: Any) -> Path:
    """Write a results directory and return it. `options`: those of `_make`."""
    made = _make(sweeps, repetitions, seed, **options)
    directory.mkdir(parents=True, exist_ok=True)
    _write(directory / "results.parquet", made.rows, columns.result_columns())
    _write(directory / "checks.parquet", made.checks, columns.CHECK_COLUMNS)
    _write(directory / "nodes.parquet", made.nodes, columns.NODE_COLUMNS)
    _write(directory / "histograms.parquet", [*_histograms(made.rows)], columns.HISTOGRAM_COLUMNS)
    (directory / "results.csv").touch()
    (directory / "campaign.json").write_bytes(dump(made.about, indent=True))
    add_series(directory, [])
    return directory


def measured(*sweeps: Sweep, **options: Any) -> tuple[reader.Campaign, list[PointSummary]]:
    """The same in memory, as the report has it: a campaign and its results."""
    made = _make(sweeps, **options)
    checks = tuple(msgspec.convert(one, reader.CheckRow) for one in made.checks)
    campaign = loaded((), checks, made.nodes, **made.about)
    rows = reader.mark_imprecise((reader.read_row(row, campaign.about.builds) for row in made.rows), checks)
    campaign = replace(campaign, rows=tuple(rows))
    return campaign, summarize(campaign.rows)


def _make(
    sweeps: Sequence[Sweep],
    repetitions: int = 3,
    seed: int = 1,
    spoil: Spoil = lambda row: None,
    campaign: str = "demo",
    description: str | None = None,
    nodes: Sequence[Row] = (NODE,),
    speed: Speed = lambda row: 1.0,
    place: Place | None = None,
    build: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda row: PATH,
    day: int = 0,
) -> Made:
    """With several nodes, each of them measures every repetition by itself, unless `place` says which ones do."""
    draw = random.Random(seed)
    numbers = repetitions if place else repetitions * len(nodes)
    place = place or (lambda _, repetition: (None, [nodes[(repetition - 1) % len(nodes)]]))
    rows: dict[str, list[Row]] = {}
    described = []
    for one in sweeps:
        points = []
        for parameters in _points(one):
            point = _id(one.get("tool", "fio"), one["phases"], parameters)
            points.append(point)
            if point in rows:
                for row in rows[point]:
                    row["sweeps"] += f",{one['name']}"
            else:
                made = _rows(one, point, parameters, numbers, draw, place, speed)
                built = (row | _built(row, build(row)) for row in made)
                rows[point] = [row for one_row in built if (row := _spoilt(one_row, spoil))]
        described.append(_describe(one, points, repetitions))
    flat = [row | {"campaign": campaign} for of_point in rows.values() for row in of_point]
    for row in flat:
        row["started"] = row["started"] and row["started"] + timedelta(days=day)
    documents = {programs.build_key(own): own for row in flat if row["build"] for own in [build(row)]}
    keys = {node["host"]: node["node"] for node in nodes}
    about = {
        "campaign": campaign,
        "description": description,
        "made": "2025-06-02T09:41:07+00:00",
        "iosweep_version": "0.1.0",
        "plan_digest": hashlib.sha256(repr(sweeps).encode()).hexdigest()[:16],
        "seed": seed,
        "targets": {"": {"directory": "/mnt/scratch/bench"}},
        "limits": {"bytes_written": None, "time_s": None},
        "sweeps": described,
        "jobs": [*_jobs(flat)],
        "results_of_nodes": Counter(keys[host] for row in flat for host in (row["hosts"] or "").split(",") if host),
        "builds": {
            key: documents[key] | {"results": count}
            for key, count in Counter(row["build"] for row in flat if row["build"]).items()
        },
        "configuration": [{"file": "config/sweep.yaml", "text": _CONFIGURATION.format(json.dumps(campaign))}],
    }
    return Made(flat, [check for row in flat for check in _checks(row)], nodes, about)


def _histograms(rows: Sequence[Row]) -> Iterator[Row]:
    """Of rows with latencies: with the percentiles of the row, even between them on a logarithmic scale."""
    shares = {"min": 0.0, "p50": 0.5, "p95": 0.95, "p99": 0.99, "p99_5": 0.995, "p99_9": 0.999, "max": 1.0}
    for row in rows:
        if row["latency_p50_s"] and row["ops"]:
            logs = [log(row[f"latency_{name}_s"] * 1e9) for name in shares]
            first, last = bin_of(exp(logs[0])), bin_of(exp(logs[-1]))
            below = [
                row["ops"] * interp((n - 1) * log(FACTOR), logs, [*shares.values()]) for n in range(first, last + 2)
            ]
            counts = [float(round(b) - round(a)) for a, b in pairwise(below)]
            key = {name: row[name] for name in ("point", "repetition", "phase")}
            yield key | {"attempt": 1, "lowest_s": FACTOR**first * 1e-9, "factor": FACTOR, "counts": counts}


def add_series(directory: Path, series: Sequence[Row]) -> None:
    """Give results that `make` wrote these rows of series.parquet; node_rates.parquet is empty."""
    _write(directory / "series.parquet", series, columns.SERIES_COLUMNS)
    _write(directory / "node_rates.parquet", [], columns.RATE_COLUMNS)
    describe_again(directory)


def row(**values: object) -> reader.ResultRow:
    """A valid row of the results with these columns."""
    made: dict[str, object] = dict.fromkeys(column.name for column in columns.result_columns())
    made |= {"point": "p", "phase": "rand_read", "kind": "data", "tool": "fio", "metric": "ops_per_s", "sweeps": "s"}
    return reader.read_row(made | {"repetition": 1, "verdict": "valid", "reasons": "", "ops_per_s": 10.0} | values)


def sweep_facts(least: int = 1, *points: str, name: str = "s", **more: Any) -> SweepFacts:
    """A sweep of campaign.json, with at least so many repetitions of each point."""
    often = RepetitionRule(least, least)
    return SweepFacts(name=name, tool="fio", phases=(), points=points, axes={}, repetitions=often, **more)


def check(**values: object) -> reader.CheckRow:
    """A row of the checks with these columns."""
    made = {"point": "p", "phase": "rand_read", "check": "", "outcome": "pass", "severity": "invalid", "repetition": 1}
    return msgspec.convert(made | values, reader.CheckRow)


def loaded(
    rows: Sequence[reader.ResultRow] = (),
    checks: Sequence[reader.CheckRow] = (),
    nodes: Sequence[Row] = (),
    **about: object,
) -> reader.Campaign:
    """A campaign as the report has it in memory. `about`: parts of campaign.json."""
    needed = {"campaign": "demo", "made": "2025-06-02T09:41:07+00:00", "iosweep_version": "0.1.0", "plan_digest": "0"}
    needed |= {"seed": 1, "targets": {"": {"directory": "/mnt/scratch/bench"}}}
    needed |= dict.fromkeys(("configuration", "jobs", "sweeps"), ())
    needed |= {name: {} for name in ("limits", "results_of_nodes", "builds", "tables")}
    known = tuple(msgspec.convert(node, reader.NodeRow) for node in nodes)
    return reader.Campaign(tuple(rows), tuple(checks), known, msgspec.convert(needed | about, CampaignDocument))


def describe_again(results: Path) -> None:
    """Make campaign.json say what its tables are, after a test has changed them."""
    about = json.loads((results / "campaign.json").read_bytes())
    contents = {name: (results / name).read_bytes() for name in reader.FILES}
    about["tables"] = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in contents.items()
    }
    (results / "campaign.json").write_bytes(dump(about, indent=True))


def _jobs(rows: Sequence[Row]) -> Iterator[Row]:
    """As the tables take them in the records."""
    for job in dict.fromkeys(row["slurm_job"] for row in rows if row["slurm_job"]):
        own = [row for row in rows if row["slurm_job"] == job]
        times = sorted(row["started"].isoformat() for row in own)
        of = {name: len({row["point"] + str(row[name]) for row in own}) for name in ("kind", "repetition")}
        yield {
            "job": job, "launcher": "srun", "started": times[0], "ended": times[-1],
            "hosts": sorted({host for row in own for host in row["hosts"].split(",")}),
            "node_counts": sorted({row["nodes"] for row in own}), "points": of["kind"], "repetitions": of["repetition"],
        }  # fmt: skip


def _points(one: Sweep) -> Iterator[dict[str, Any]]:
    names = {"transfer_size": "transfer_size_bytes", "file_size": "file_size_bytes"}
    fixed: dict[str, Any] = {"nodes": 1, "threads_per_node": 1}
    if one.get("tool") == "mdtest":
        fixed |= {"files_per_thread": 1000, "unique_directory": True, "file_size_bytes": 0}
    elif one.get("tool") == "ior":
        fixed |= {"transfer_size_bytes": M, "file_size_bytes": 16 * G, "file_per_process": True, "api": "POSIX"}
        fixed |= {"collective": False, "o_direct": True, "fsync": True, "write_mode": "overwrite", "data": "random"}
        fixed |= {"phase_time_s": 60.0}
    elif one["phases"][0] in METADATA_PHASES:
        fixed |= {"files_per_thread": 1000, "ioengine": "filecreate", "write_mode": "new"}
    else:
        fixed |= {"transfer_size_bytes": 4 * K, "queue_depth": 1, "file_size_bytes": 256 * M, "files_per_thread": 1}
        fixed |= {"o_direct": True, "write_mode": "overwrite", "data": "tool_default", "ioengine": "libaio"}
        fixed |= {"fsync": True, "phase_time_s": 1.0}
    fixed |= {key: value for key, value in one.items() if key in fixed}
    for values in product(*one["axes"].values()):
        varied = {names.get(axis, axis): value for axis, value in zip(one["axes"], values, strict=True)}
        yield fixed | varied


def _id(tool: str, phases: Sequence[str], parameters: Mapping[str, Any]) -> str:
    digest = hashlib.sha256(repr((tool, phases, sorted(parameters.items()))).encode()).hexdigest()[:8]
    size, depth = parameters.get("transfer_size_bytes"), parameters.get("queue_depth")
    kind = tool if tool in ("ior", "mdtest") else "fio"
    first = phases[0] + (f"+{len(phases) - 1}" if len(phases) > 1 else "")
    parts = [kind, first, f"{parameters['nodes']}n", f"{parameters['threads_per_node']}t"]
    parts += [f"{size // K}k"] if size else []
    parts += [f"qd{depth}"] if depth else []
    return ".".join([*parts, digest])


def _rows(
    one: Sweep,
    point: str,
    parameters: Mapping[str, Any],
    repetitions: int,
    draw: random.Random,
    place: Place,
    speed: Speed,
) -> Iterator[Row]:
    for repetition, phase in product(range(1, repetitions + 1), one["phases"]):
        row: Row = dict.fromkeys(column.name for column in columns.result_columns())
        row |= {name: value for name, value in parameters.items() if phase in USED_BY.get(name, [phase])}
        if one.get("tool") == "mdtest" and phase not in ("create", "read"):
            row["file_size_bytes"] = None
        row |= {
            "sweeps": one["name"],
            "point": point,
            "repetition": repetition,
            "phase": phase,
            "kind": "metadata" if phase in MDTEST_PHASES else "data",
            "tool": one.get("tool", "fio"),
            "metric": "bandwidth_bytes_per_s" if phase.startswith("seq") else "ops_per_s",
            "target_directory": "/mnt/scratch/bench",
        }
        row |= {"verdict": "valid", "reasons": "", "checks_passed": 9, "checks_failed": 0, "checks_not_checked": 3}
        job, on = place(row["nodes"], repetition)
        hosts = [node["host"] for node in on]
        row |= {"host": hosts[0], "hosts": ",".join(hosts), "node": on[0]["node"], "slurm_job": job, "session": job}
        row |= {"pinning": "enforce", "placement": "spread", "cpus": "0-7", "reserved_cpus": ""}
        if job:
            row["ran_on"] = ",".join(f"{host}:{row['threads_per_node']}" for host in hosts)
        factor = speed(row)
        figures = {
            name: value * factor if name.endswith("_per_s") else value / factor if "latency" in name else value
            for name, value in _figures(row, draw).items()
        }
        yield row | figures | _provenance(row)


def _spoilt(row: Row, spoil: Spoil) -> Row | None:
    """The row with its verdict; None for all but one row of what is missing."""
    found = spoil(row)
    if not found:
        return row
    row |= {"verdict": found[0], "reasons": found[1], "checks_passed": 8, "checks_failed": 1}
    if row["verdict"] != "missing":  # a reason is the evidence of its check
        check, _, evidence = found[1].partition(": ")
        return row | {"failing": check, "reasons": evidence or check}
    if row["reasons"] == columns.NOT_YET:  # of a point that has other repetitions
        return _missing(row) | {"repetition": row["repetition"], "left": True}
    return _missing(row) if row["repetition"] == 1 else None


def _figures(row: Row, draw: random.Random) -> Row:
    """A device with a service time per I/O and per byte, a limit on both, and a little noise."""
    noise = draw.gauss(1, 0.015)
    threads, phase = row["threads_per_node"] * row["nodes"], row["phase"]
    if row["tool"] == "mdtest":
        single, most = _MDTEST[phase]
        rate, count = most * (1 - exp(-threads * single / most)) * noise, threads * row["files_per_thread"]
        return {"ops_per_s": rate, "ops": count, "runtime_s": count / rate, "tasks": threads, "wall_s": count / rate}
    if row["kind"] == "metadata":
        single, most = {"create": (9e3, 38e3), "stat": (160e3, 610e3), "delete": (14e3, 52e3)}[phase]
        rate = most * (1 - exp(-threads * single / most)) * noise
        latency, count = threads / rate, threads * 1000
        moved: Row = {"ops": count, "runtime_s": count / rate}
    else:
        size, depth = row["transfer_size_bytes"], row["queue_depth"] or 1
        service = (38e-6 if "write" in phase else 82e-6) / (2 if phase.startswith("seq") else 1)
        link = (2.1 if "write" in phase else 3.4) * G
        ceiling = min(link / size, 410e3 if phase.startswith("seq") else 290e3) * row["nodes"] ** 0.9
        offered = threads * depth / (service + size / (0.9 * G))
        rate = ceiling * (1 - exp(-offered / ceiling)) * noise
        way = "write" if "write" in phase else "read"
        if row["tool"] == "ior":  # it times no single I/O
            opened, closed, count = 2e-4 * threads, 1e-3 * threads * noise, round(rate * 60)
            whole = 60 + opened + closed
            found = {"bandwidth_bytes_per_s": count * size / whole, "ops_per_s": rate, "ops": count, "tasks": threads}
            found |= {"bytes_written" if way == "write" else "bytes_read": count * size, "runtime_s": whole}
            return found | {"open_s": opened, "io_s": 60.0, "close_s": closed, "wall_s": 61.2}
        latency = threads * depth / rate
        moved = {"bandwidth_bytes_per_s": rate * size, "ops": round(rate)}
        moved["runtime_s"] = 1.0 + abs(draw.gauss(0, 2e-3))
        moved |= {f"{way}_bandwidth_bytes_per_s": rate * size, f"{way}_ops_per_s": rate}
        moved |= {"bytes_written" if way == "write" else "bytes_read": round(rate * size)}
        if row["nodes"] > 1:
            skew = abs(draw.gauss(0, 4e-3))
            moved |= {"start_skew_s": skew, "sum_of_rates_bytes_per_s": rate * size * (1 + skew)}
            moved |= {"sum_of_rates_ops_per_s": rate * (1 + skew)}
    tail = abs(draw.gauss(1, 0.1))
    names = ("min", "mean", "p50", "p95", "p99", "p99_5", "p99_9", "max")
    shape = dict(zip(names, (0.55, 1, 0.93, 1.6, 2.4, 3.1, 6, 40), strict=True))
    latencies = {f"latency_{name}_s": latency * (1 + (factor - 1) * tail) for name, factor in shape.items()}
    sampled = {"sampled_ops_per_s": rate * 0.997} if row["kind"] == "data" else {}
    if row["kind"] == "data":
        completed = ("mean", "p50", "p99", "p99_5", "p99_9")
        latencies |= {f"completion_latency_{name}_s": latencies[f"latency_{name}_s"] * 0.97 for name in completed}
    return {**moved, "ops_per_s": rate, **sampled, **latencies, "wall_s": moved["runtime_s"] + 0.35}


def _provenance(row: Row) -> Row:
    command = [row["tool"], f"--name={row['phase']}", "--directory=/mnt/scratch/bench/iosweep-demo"]
    command += [f"--bs={row['transfer_size_bytes']}", f"--numjobs={row['threads_per_node']}", "'--format=$jobnum'"]
    return {
        "started": datetime(2025, 6, 2, 9, 0, tzinfo=UTC) + timedelta(seconds=_number(row) % 2400),
        "target_source": "/dev/nvme0n1p2",
        "target_fstype": "ext4",
        "command": " ".join(command),
        "raw_sha256": hashlib.sha256(row["point"].encode()).hexdigest(),
        "raw": f"points/{row['point']}/{row['repetition']}.raw.tar.gz",
    }


def _built(row: Row, document: Mapping[str, Any]) -> Row:
    program = document["tools"].get(row["tool"], PATH["tools"]["fio"])
    return {"build": programs.build_key(document), "tool_version": program["version"], "tool_sha256": program["sha256"]}


def _number(row: Row) -> int:
    """A number that is the same in every run, unlike hash()."""
    text = f"{row['point']} {row['repetition']} {row['phase']}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def _missing(row: Row) -> Row:
    """A row of a phase that was not measured: what was asked for, and why there is nothing."""
    names = [column.name for column in columns.result_columns()]
    asked = set(names[: names.index("bandwidth_bytes_per_s")]) - {"repetition"}
    kept = asked | {"verdict", "reasons", "target_directory"}
    return {name: value if name in kept else None for name, value in row.items()}


def _checks(row: Row) -> Iterator[Row]:
    if row["verdict"] == "missing":
        return
    key = {name: row[name] for name in ("point", "repetition", "phase")}
    for check, (severity, outcome, evidence) in CHECKS.items():
        found = ("fail", row["reasons"]) if check == row.get("failing") else (outcome, evidence)
        yield {**key, "check": check, "severity": severity, "outcome": found[0], "evidence": found[1]}


def _describe(one: Sweep, points: Sequence[str], repetitions: int) -> dict[str, Any]:
    return {
        **{key: one[key] for key in ("name", "phases", "axes")},
        **{key: one.get(key) for key in ("suite", "source", "description")},
        "tool": one.get("tool", "fio"),
        "points": list(points),
        "scaled": one.get("scaled", False),
        "repetitions": {"min": repetitions, "max": repetitions},
        "phase_time_s": 1.0,
    }


def _write(path: Path, rows: Sequence[Row], schema: tuple[columns.Column, ...]) -> None:
    parquet.write_table(pa.Table.from_pylist(list(rows), columns.arrow_schema(schema)), path)


def spoil_some(row: Mapping[str, Any]) -> tuple[str, str] | None:
    """One point of each kind that is not valid, as a real campaign has them."""
    if row["threads_per_node"] == 8 and row["transfer_size_bytes"] == 64 * K:
        return "suspect", "duration: 0.91 s of 1 s"
    if row["threads_per_node"] == 2 and row["transfer_size_bytes"] == 4 * K and row["phase"] == "seq_read":
        return "invalid", "no_errors: 3 I/O errors (ENOSPC)"
    if row["queue_depth"] == 32:
        return "missing", "time limit: 2 points were not started"
    return None
