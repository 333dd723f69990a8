"""The files that were worked on: complete, without holes, unchanged, new where new ones are asked for, flushed."""

from __future__ import annotations

from iosweep.judge.checks.finding import NO_OUTPUT, NOT_APPLICABLE, Seen, failed, passed, per_node, unchecked
from iosweep.judge.checks.output import not_run
from iosweep.store.record import Finding
from iosweep.text import human_count
from iosweep.units import human_size


def data_complete(s: Seen) -> Finding:
    """The files to work on could be prepared, and existed at their full size."""
    files = s.run.files
    if files.role == "fresh":
        return NOT_APPLICABLE
    if files.wrong is None:
        return unchecked("the files were not looked at")
    if files.wrong:
        return not_run(s.run.not_run or "; ".join(files.wrong))  # the tool is not started on such files
    return passed(f"{files.files} files of {human_size(files.file_size_bytes)}, all of full size")


def no_holes(s: Seen) -> Finding:
    """Everything that is read was written before: the files have no holes (the file system is asked only after it has
    reported those of a sparse file).
    """
    files = s.run.files
    if files.role == "fresh":
        return NOT_APPLICABLE
    match files.holes:
        case "none":
            return passed("no holes; the file system reports those of a sparse file")
        case "found":
            return failed("unwritten extents: reading them does not touch the storage")
        case other:
            return unchecked(str(other or "not looked at"))


def unchanged(s: Seen) -> Finding:
    """What was read did not change meanwhile: after the phase it is there at its full size, written and replaced by
    nobody since before, and without holes.
    """
    files = s.run.files
    if files.role == "fresh" or not s.phase.reads:
        return NOT_APPLICABLE
    if files.changed:
        reason = f"the files changed while they were read: {'; '.join(files.changed)}"
        return failed(f"{reason}; they are written anew before their next use", curable=True)
    if files.changed is None or files.unclear:
        return unchecked(files.unclear or "the files were not looked at again")
    if s.phase.writes:
        return passed("of full size after the phase" + (", without holes" if files.holes == "none" else ""))
    holes = ", without holes" if files.holes == "none" else ""
    return passed(f"the same files with the same times after the phase{holes}")


@per_node
def stayed_new(s: Seen) -> Finding:
    """New files stayed new: the phase did not start over on them."""
    if s.phase.kind == "metadata" or not s.phase.writes or s.point.options.get("write_mode") != "new":
        return NOT_APPLICABLE
    room = s.point.volume_bytes
    written = s.parsed.figures.get("bytes_written")
    if written is None:
        return NO_OUTPUT
    if written > room:
        return failed(
            f"{human_size(written)} were written into {human_size(room)} of new files: later passes were"
            " overwrites; raise file_size"
        )
    return passed(f"{human_size(written)} of {human_size(room)}")


def file_count(s: Seen) -> Finding:
    """After create every file exists, after delete none."""
    expected = s.run.leftover_expected
    if expected is None:
        return NOT_APPLICABLE
    if s.run.leftover is None:
        return unchecked("the files were not counted")
    if s.run.leftover != expected:
        return failed(f"{human_count(expected, 'file')} expected after {s.phase.name}, {s.run.leftover:,} found")
    return passed(f"{expected:,} files counted after {s.phase.name}")


def durable(s: Seen) -> Finding:
    """Writes were durable within the timing: a flush ended them, and reached a local disk. Overwrites used O_DIRECT."""
    if s.phase.kind == "metadata" or not s.phase.writes:
        return NOT_APPLICABLE
    if not s.point.options.get("fsync"):
        return failed("writes were not flushed inside the timing (fsync: false)")
    if not_flushed := s.parsed.evidence.not_flushed:
        return failed(f"writes were not flushed inside the timing: {not_flushed}")
    if not s.parsed.evidence.confirms("fsync"):
        return unchecked("a flush at the end was asked for, and the tool does not report that option")
    written, room = s.parsed.figures.get("bytes_written"), s.point.volume_bytes
    if written and written > room and not s.point.options.get("o_direct"):
        # pages that are written again before they are flushed reach the storage once
        return failed(
            f"{human_size(written)} were written through the page cache into {human_size(room)} of files, and flushed"
            " once, at the end: what was written over meanwhile may not have reached the storage"
        )
    if any(moved.device_flushes == 0 for moved in s.run.moved.values()):
        return failed("a flush at the end was asked for, and the block device was never told to flush")
    return passed("flushed at the end, inside the timing")
