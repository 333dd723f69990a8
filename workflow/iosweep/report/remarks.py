"""What the first screen has to mention: figures of memory or of the system disk, ports that were open. Pure."""

from __future__ import annotations

from iosweep.analysis.data import Campaign
from iosweep.node import fs_types
from iosweep.target.filesystem import on_root
from iosweep.text import human_count, some

#: Damaged files that are named.
_NAMED = 5


def of(campaign: Campaign) -> list[str]:
    """One sentence for each remark; none for a storage system with the results elsewhere."""
    directory, types = campaign.about.target.directory, {row.target_fstype for row in campaign.rows}
    found = []
    if memory := sorted(name for name in types if name and fs_types.of(name).memory):
        found.append(
            f"The target {directory} is in memory ({', '.join(memory)}): these figures are of the nodes' memory, not of"
            " a storage system."
        )
    elif campaign.about.target_on_root or any(on_root(row.mount) for row in campaign.nodes):
        found.append(
            f"The target {directory} is on the root file system: these figures are of the system disk, which the"
            " operating system uses at the same time, not of a storage system."
        )
    if campaign.about.results_on_target:
        found.append(
            "The results are stored on the file system under test: what is written there is part of its load. Keep them"
            " elsewhere to measure it alone."
        )
    measured = [row for row in campaign.rows if row.verdict != "missing"]
    if count := len({row.point for row in measured if row.parameters["client_server"]}):
        found.append(
            "fio listened without authentication on a free port of each node's address while the phases of"
            f" {human_count(count, 'point')} ran (client_server): whoever reached it could run commands as the user."
        )
    if damaged := campaign.about.damaged:
        named = some([f"{file} ({reason})" for file, reason in damaged.items()], _NAMED, separator="; ")
        found.append(f"Damaged files of the results were left out: {named}.")
    return found
