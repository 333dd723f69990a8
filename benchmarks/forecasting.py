"""How long is left, as `iosweep watch` says after three points, against how long it really took. On a Slurm cluster."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

import campaigns
import cluster
from iosweep.plan.model import Plan
from iosweep.store.record import JudgedRecord
from iosweep.store.store import Store
from measure import IOSWEEP, Row, Size

AFTER, WITHIN = 3, 0.3


def _fio(points: int) -> list[campaigns.Sweep]:
    """Timed phases of three lengths, one or two a point; the files are made by the first of them."""
    few = max(1, points // 5)
    depths = {"nodes": [2], "queue_depth": list(range(1, few + 1))}
    return [
        {**campaigns.fio_sweep({**depths, "transfer_size": ["4k", "64k"]}, "300ms")},
        {**campaigns.fio_sweep(depths, "600ms", transfer_size="4k"), "phases": ["seq_read", "rand_read"]},
        {**campaigns.fio_sweep({**depths, "transfer_size": ["4k", "64k"]}, "1500ms")},
    ]


def _mpi(points: int) -> list[campaigns.Sweep]:
    """IOR's timed phases and mdtest's counted ones, and fio beside them."""
    few = max(1, points // 5)
    some, options = list(range(1, few + 1)), {"file_size": "16m", "transfer_size": "64k"}
    return [
        {"tool": "ior", "phases": ["seq_write", "seq_read"], "axes": {"nodes": [2], "threads_per_node": [1, 2]},
         "options": options, "phase_time": "1s", "repetitions": 2},
        {"tool": "mdtest", "phases": ["create", "stat", "delete"], "repetitions": 1,
         "axes": {"nodes": [2], "threads_per_node": [1, 2], "files_per_thread": [1000 * n for n in some]}},
        campaigns.fio_sweep({"nodes": [2], "queue_depth": some}, "1s", transfer_size="4k"),
    ]  # fmt: skip


def _counted(points: int) -> list[campaigns.Sweep]:
    """Work that a count bounds, on a system a twentieth as fast as the forecast assumes; and some that time bounds."""
    few = list(range(1, max(1, points // 5) + 1))
    return [
        _naps("walk", few, files_per_thread=[200, 600, 1800]),
        {**_naps("nap", few), "phase_time": "300ms"},
        {**_naps("nap", few), "phase_time": "1200ms"},
    ]


def _naps(phase: str, numbers: Sequence[int], **axes: Sequence[int]) -> dict[str, Any]:
    return {"tool": "nap", "phases": [phase], "axes": {"nodes": [2], "number": numbers, **axes}, "repetitions": 1}


MIXES = {"counts and times": _counted, "fio, phases of 0.3 to 1.5 s": _fio, "IOR, mdtest and fio": _mpi}


def run(size: Size, work: Path) -> Iterator[Row]:
    """For each campaign what was said and what it took."""
    lacking = [tool for tool in ("ior", "mdtest") if not shutil.which(tool)]
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    with cluster.cluster(work, {"PATH": path}) as up:
        for number, (mix, sweeps) in enumerate(list(MIXES.items())[: size.forecast_mixes]):
            if sweeps is _mpi and lacking:
                yield Row("forecast", mix, "", f"cannot run: {' and '.join(lacking)} not on PATH")
                continue
            name = f"forecast{number}"
            made = campaigns.planned(work, name, sweeps(size.forecast_points), keep="none", lock=str(work / "lock"))
            results = work / "results" / name
            done, said_s, took_s = _measured(up, work, made, campaigns.written(made, work, name))
            again = len(list(results.glob("points/*/r*-2.json")))
            yield Row(
                "forecast", mix,
                f"after {done} of {sum(p.repetitions.min for p in made.points)}"
                + (f", {again} tried again: a busy machine" if again else ""),
                f"{said_s:.1f} s said", f"{took_s:.1f} s taken", f"{said_s / took_s:.2f}",
                f"{1 - WITHIN:g} to {1 + WITHIN:g}", abs(said_s / took_s - 1) <= WITHIN,
            )  # fmt: skip


def _measured(up: cluster.slurm.Cluster, work: Path, made: Plan, plan_file: Path) -> tuple[int, float, float]:
    """Measure a campaign; how many repetitions were done when it was looked at, seconds said and then taken."""
    (allocation,) = made.allocations
    # Who submits it is Snakemake else, and the job is known by its comment.
    comment = f"iosweep_{made.campaign}_{allocation.name}"
    cluster.submit(up, cluster.measuring(plan_file), [f"--comment={comment}"], cwd=work)
    results = plan_file.parent.parent
    while len(list(results.glob("points/*/r*.json"))) < AFTER:
        if cluster.over(up):
            raise RuntimeError(f"{made.campaign} ended before {AFTER} points were measured: {_log(results)}")
    said = msgspec.json.decode(up.run([*IOSWEEP, "watch", results, "--json"], cwd=work).stdout)
    while not cluster.over(up):
        pass
    store = Store(results)
    ended = max(
        record.ended.timestamp() for point in store.repetitions() for record in store.records_of(point, JudgedRecord)
    )
    (seen,) = said["allocations"]
    if seen["state"] != "measuring":
        raise RuntimeError(f"watch did not see the job of {made.campaign}: {seen}")
    return seen["repetitions_done"], said["to_go_s"], ended - said["now"]


def _log(results: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in results.glob("m.log"))
