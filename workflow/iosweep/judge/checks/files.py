"""The files that a phase works on: complete, unchanged, new where that is asked for, flushed; and their content."""

from __future__ import annotations

import math

from msgspec import structs

from iosweep.judge.checks.output import not_run
from iosweep.judge.findings import NO_OUTPUT, NOT_APPLICABLE, Seen, failed, passed, per_node, unchecked
from iosweep.store.record import Finding
from iosweep.target.trees import Sample, first_bytes
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


# Content


#: What compresses by this or more, or has more pages or pieces again, is not random. Random data has 1.00 and none.
_RATIO, _REPEATED, _SIMILAR = 1.15, 0.01, 0.05
#: By how much the slowest worker of a sequential phase may be behind the mean.
_WORKERS = 4
#: If a phase may have left more of the files as they were, clean blocks do not show what it wrote. If it may have left
#: more than the second, blocks of some files may be older than the mean: a worker was late, say.
_STALE, _EVEN = 0.5, 0.02
#: By how much a share in some blocks may be above that in the whole files.
_UNEVEN = 0.3


def incompressible(s: Seen) -> Finding:
    """Data neither compresses nor deduplicates, as blocks of the files show that were read back after they were
    written.
    """
    files, writes = s.run.files, s.phase.writes
    if s.phase.kind == "metadata" or not (writes or files.role == "read"):
        return NOT_APPLICABLE
    sample = files.sample
    if sample is None or not sample.bytes:
        return unchecked(files.unread or "no blocks of the files were read back")
    new = files.role == "fresh"
    untouched = _untouched(s) if writes else 0.0
    uneven = min(1.0, untouched + _UNEVEN * (untouched > _EVEN))
    # of new files those sectors are left out that may never have been written
    holes = new and sample.zero_bytes <= uneven * sample.bytes
    if holes and sample.zero_bytes == sample.bytes:
        return unchecked("only zeros were read back, and not all of the files was written")
    seen = sample.bytes - sample.zero_bytes if holes else sample.bytes
    figures = _figures(sample, seen)
    own = writes and s.point.options.get("data") != "random"
    old = 0.0 if new or untouched <= _EVEN else uneven  # what another phase may have written there
    repeats = "" if own or not writes else s.parsed.evidence.repeats
    if repeats:  # pages that the tool writes again say nothing against the others
        size, seen = sample.bytes - sample.repeated_bytes, seen - sample.repeated_bytes
        sample = structs.replace(sample, bytes=size, repeated_bytes=0, similar_bytes=0)
    if _compresses(sample, seen, old) or (not own and _similar(sample, seen, old)):
        if own:
            return unchecked(f"{figures} (data: tool_default); it matters where the storage compresses or deduplicates")
        return failed(f"data compresses or deduplicates: {figures}")
    if old and (untouched > _STALE or _compresses(sample, seen) or _similar(sample, seen)):
        return unchecked(f"{figures}, but up to {100 * old:.0f} % of them may have been there before the phase")
    if _similar(sample, seen):
        return unchecked(f"{figures} (data: tool_default); it matters where the storage finds similar blocks")
    if repeats:
        return unchecked(f"{figures}: {repeats}; it matters where the storage deduplicates")
    return passed(figures)


def _compresses(sample: Sample, seen: int, old: float = 0.0) -> bool:
    """Whether blocks do, of which a share is `old`. `seen`: bytes that count; where zeros do, storage that compresses
    writes next to nothing for them.
    """
    zeros = seen - (sample.bytes - sample.zero_bytes)
    again = sample.repeated_bytes + zeros > (_REPEATED + old) * seen
    return again or seen * (1 - old) >= _RATIO * sample.compressed_bytes


def _similar(sample: Sample, seen: int, old: float = 0.0) -> bool:
    return sample.similar_bytes > (_SIMILAR + old) * seen


def _untouched(s: Seen) -> float:
    """The share of the files, where blocks were read, that the phase may not have written: of random I/O e^-passes."""
    written = s.parsed.figures.get("bytes_written") or 0
    size = s.run.files.set_bytes or s.point.volume_bytes
    if s.run.files.role != "fresh" and not s.phase.random:  # the first blocks of the files were read
        transfer = int(s.point.options.get("transfer_size") or 1)
        size = _WORKERS * first_bytes(transfer, max(1, s.run.files.files))
    return math.exp(-written / size) if size else 0.0


def _figures(sample: Sample, seen: int) -> str:
    """`in 32 blocks of 4 files (256 KiB): compression 1.00:1, no duplicates`; counts of it stand before it."""
    ratio = seen / max(1, sample.compressed_bytes)
    what = f"{human_count(sample.blocks, 'block')} of {human_count(sample.files, 'file')}"
    parts = [f"compression {ratio:.2f}:1" if ratio < 1000 else "compression more than 1,000:1"]
    if zeros := seen - (sample.bytes - sample.zero_bytes):
        parts.append(f"{100 * zeros / seen:.0f} % zeros")
    if sample.repeated_bytes > _REPEATED * seen:
        parts.append(f"{100 * sample.repeated_bytes / seen:.0f} % of pages are duplicates")
    elif sample.similar_bytes > _SIMILAR * seen:
        parts.append(f"{100 * sample.similar_bytes / seen:.0f} % of pieces of 64 bytes occur again")
    else:
        parts.append("no duplicates")
    return f"in {what} ({human_size(sample.bytes)}): {', '.join(parts)}"
