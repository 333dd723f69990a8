"""Store -> results.parquet, results.csv, checks.parquet, nodes.parquet, series.parquet, parts.parquet,
histograms.parquet, campaign.json.

Everything is parsed and judged again from the raw output, so that a fixed parser or a changed check needs no cluster.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec.structs import asdict

import iosweep
from iosweep import collector
from iosweep.node.node_facts import NodeFacts
from iosweep.plan.model import Plan
from iosweep.programs import builds
from iosweep.results import merged_tables, row_cache, temporary_files
from iosweep.results.campaign_form import Build, Live
from iosweep.results.campaign_tables import CampaignTables
from iosweep.results.judged_points import JudgedPoints
from iosweep.results.judging import Judge
from iosweep.results.judging_processes import Here, Processes
from iosweep.results.origins import Origins
from iosweep.results.row_cache import RowCache
from iosweep.results.rows import Rows
from iosweep.results.store import Store
from iosweep.text import printable


def merge(
    plan: Plan,
    results: Path,
    repair: str | None = None,
    anew: bool = False,
    into: Path | None = None,
    live: Live | None = None,
) -> None:
    """Write the tables of a campaign, each atomically. `repair`: name of this repair; None: that of the last one.
    `anew`: judge also what has not changed since the last merge. `into`: the folder that gets them, None for the
    results; `live`: that the campaign is being measured."""
    with collector.paused():
        into = into or results
        repair = merged_tables.last_repair(into) if repair is None else repair
        temporary_files.remove(into)
        try:
            _write(plan, results, repair, anew, into, live)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not row_cache.remove(results):
                raise
            # what is kept for the next merge took the room, and would again
            _write(plan, results, repair, anew, into, live, keep=False)


def _write(
    plan: Plan, results: Path, repair: str, anew: bool, into: Path, live: Live | None, keep: bool = True
) -> None:
    store = Store(results)
    nodes = store.documents(NodeFacts)
    memory = {key: facts.memory_bytes for key, facts in nodes.items()}
    origins = Origins()
    cache, judge = RowCache(plan, results, memory, anew, keep), Judge(plan, results, memory)
    here = Here(judge, memory)
    # what measures may be on this machine, and needs the other CPUs
    points = JudgedPoints(judge, cache, here if live else Processes(here, plan, results, memory))
    with CampaignTables(into) as tables:
        rows = Rows(plan, store, points, tables, origins)
        rows.write()
        for name, facts in nodes.items():
            if wrong := tables.add_node(name, facts.row() | {"used_cpus": origins.used_cpus(name)}):
                store.damaged[str(results / "nodes" / f"{name}.json")] = wrong
        tables.finish(
            lambda: (
                _about(plan, origins, results)
                | {"builds": _builds(store, tables.built), "repair": repair, "live": live}
                | _damage(store, rows.set_aside)
            )
        )
    cache.finish()


def _about(plan: Plan, origins: Origins, results: Path) -> dict[str, object]:
    """The part of campaign.json that does not depend on the tables."""
    return {
        "campaign": plan.campaign,
        "description": plan.description,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "iosweep_version": iosweep.__version__,
        "plan_digest": plan.digest,
        "seed": plan.seed,
        "target": asdict(plan.target) | {"directory": str(Path(plan.target.directory).absolute())},
        "limits": plan.limits,
        "cpus": plan.cpus,
        "sweeps": plan.sweeps,
        "accept": plan.accept,
        "configuration": plan.configuration,
        "jobs": origins.jobs(),
        "trusted_writers": sorted(origins.trusted),
        "results_of_nodes": origins.rows,
        "target_on_root": origins.on_root,
        "results_on_target": f"{os.statvfs(results).f_fsid:016x}" in origins.fsids,
    }


def _builds(store: Store, rows: Mapping[object, int]) -> dict[str, object]:
    """The build documents that rows refer to, each with the number of these rows and a short list of its packages.

    A document whose name is not the hash of its content does not describe what measured, and is left out.
    """
    found: dict[str, object] = {}
    for name, document in store.builds().items():
        if builds.key(document) != name:
            store.damaged[str(store.path / "builds" / f"{name}.json")] = "its name is not the hash of its content"
        elif name in rows:
            packages = msgspec.convert(document, Build).packages
            found[name] = document | {"packages": packages, "results": rows[name]}
    return found


def _damage(store: Store, set_aside: Iterable[str]) -> dict[str, object]:
    """Damaged files that were ignored, with the reasons, and those set aside because they were measured again."""
    store.look("", "sets", "tools")  # the other folders have been read
    # names of files may hold any bytes, and a document only UTF-8
    damaged = {printable(os.path.relpath(path, store.path)): why for path, why in sorted(store.damaged.items())}
    damaged.pop("campaign.json", None)  # it is being rewritten
    aside = [printable(os.path.relpath(path, store.path)) for path in sorted(set_aside)]
    return {"damaged": damaged, "set_aside": aside}
