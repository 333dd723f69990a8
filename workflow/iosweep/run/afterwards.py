"""The files of a step, looked at once more after its command has ended."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from iosweep.errors import TargetError
from iosweep.results.record import Files
from iosweep.run.datasets import DataSets
from iosweep.tools import FileSet, Step


def look(sets: DataSets, step: Step, files: FileSet, found: Files, hosts: Sequence[str], ended_well: bool) -> Files:
    """What the record has of a step's files, with what became of them. `found`: the same from before the step.

    Data that was read must be as it was, and blocks of what was written are read back, before target.keep or the next
    step removes them. After a failure nothing is touched: it might hang. Raises Refused, TargetHangs.
    """
    phase = step.phase
    if phase.kind == "metadata":
        return found
    if not ended_well:
        return structs.replace(found, unclear="the run failed", unread="the run failed")
    if phase.reads and files.role != "fresh":
        try:
            found = sets.again(files, found, hosts)
        except TargetError as error:
            found = structs.replace(found, unclear=f"the files could not be looked at again: {error.strerror}")
    if phase.writes:
        directories = [share.directory for share in files.shares(len(hosts))]
        overwritten_in_order = files.role == "write" and not phase.random
        sample, unread = sets.sample(directories, step.number("transfer_size"), overwritten_in_order)
        found = structs.replace(found, sample=sample, unread=unread)
    return found
