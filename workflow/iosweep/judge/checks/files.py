"""The files that a phase works on: complete, unchanged, new where requested, flushed; and their content."""

from __future__ import annotations

import math

from msgspec import structs

from iosweep.judge.checks.output import not_run
from iosweep.judge.findings import NO_OUTPUT, NOT_APPLICABLE, Observation, failed, passed, unchecked
from iosweep.store.record import Finding
from iosweep.target.trees import Sample, first_bytes
from iosweep.text import human_count
from iosweep.units import human_size


def data_complete(s: Observation) -> Finding:
    """The files to work on could be prepared, and existed at their full size."""
    files = s.run.files
    if files.role == "fresh":
        return NOT_APPLICABLE
    if files.wrong is None:
        return unchecked("the files were not examined")
    if files.wrong:
        return not_run(s.run.not_run or "; ".join(files.wrong))  # the tool is not started on such files
    return passed(f"{files.files} files of {human_size(files.file_size_bytes)}, all of full size")


def no_holes(s: Observation) -> Finding:
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
            return failed("the files have unwritten extents: reading those does not touch the storage")
        case other:
            return unchecked(str(other or "not looked at"))


def unchanged(s: Observation) -> Finding:
    """The files that were read did not change: after the phase they have their full size and no holes, and nobody wrote
    or replaced them.
    """
    files = s.run.files
    if files.role == "fresh" or not s.phase.reads:
        return NOT_APPLICABLE
    if files.changed:
        reason = f"the files changed while they were read: {'; '.join(files.changed)}"
        return failed(f"{reason}; they are written anew before their next use", retry=True)
    if files.changed is None or files.unclear:
        return unchecked(files.unclear or "the files were not examined again")
    how = "of full size" if s.phase.writes else "the same files with the same times"
    return passed(f"{how} after the phase" + (", without holes" if files.holes == "none" else ""))


def stayed_new(s: Observation) -> Finding:
    """New files stayed new: the phase did not start over on them."""
    if not s.phase.writes or s.point.options.get("write_mode") != "new":
        return NOT_APPLICABLE
    size = s.point.volume_bytes
    written = s.parsed.figures.get("bytes_written")
    if written is None:
        return NO_OUTPUT
    if written > size:
        return failed(
            f"{human_size(written)} were written into {human_size(size)} of new files: later passes were"
            " overwrites; raise file_size"
        )
    return passed(f"{human_size(written)} of {human_size(size)}")


def file_count(s: Observation) -> Finding:
    """After create every file exists, after delete none."""
    expected = s.run.leftover_expected
    if expected is None:
        return NOT_APPLICABLE
    if s.run.leftover is None:
        return unchecked("the files were not counted")
    if s.run.leftover != expected:
        return failed(f"{human_count(expected, 'file')} expected after {s.phase.name}, {s.run.leftover:,} found")
    return passed(f"{expected:,} files counted after {s.phase.name}")


def durable(s: Observation) -> Finding:
    """Writes were durable within the timing: a flush ended them, and reached a local disk. Overwrites used O_DIRECT."""
    if not s.phase.writes:
        return NOT_APPLICABLE
    if not s.point.options.get("fsync"):
        return failed("writes were not flushed inside the timing (fsync: false)")
    if not_flushed := s.parsed.evidence.not_flushed:
        return failed(f"writes were not flushed inside the timing: {not_flushed}")
    if not s.parsed.evidence.confirms("fsync"):
        return unchecked("a flush at the end was requested, but the tool does not report that option")
    written, size = s.parsed.figures.get("bytes_written"), s.point.volume_bytes
    if written and written > size and not s.point.options.get("o_direct"):
        # pages that are overwritten before they are flushed reach the storage once
        return failed(
            f"{human_size(written)} were written through the page cache into {human_size(size)} of files, and flushed"
            " once, at the end: data that was overwritten before may never have reached the storage"
        )
    if any(moved.device_flushes == 0 for moved in s.run.moved.values()):
        return failed("a flush at the end was requested, but the block device was never told to flush")
    return passed("flushed at the end, inside the timing")


# Content


#: Data with this compression ratio or more, or more repeated pages, is not random: random data has 1.00 and none.
_RATIO, _REPEATED = 1.15, 0.01
#: The slowest worker of a sequential phase is assumed to write at the mean rate divided by this, or faster.
_WORKERS = 4
#: If more than this share of the files may be unwritten, their blocks do not show that the phase's data is random.
_STALE = 0.5
#: If more than the first share is unwritten, some workers may lag: up to the second share more may be old data.
_EVEN, _UNEVEN = 0.02, 0.3


def incompressible(s: Observation) -> Finding:
    """Data neither compresses nor deduplicates, as blocks of the files show that were read back after they were
    written.
    """
    files, writes = s.run.files, s.phase.writes
    if not (writes or files.role == "read"):
        return NOT_APPLICABLE
    sample = files.sample
    if sample is None or not sample.bytes:
        return unchecked(files.unread or "no blocks of the files were read back")
    is_new, own_data = files.role == "fresh", writes and s.point.options.get("data") != "random"
    unwritten = _unwritten_share(s) if writes else 0.0
    old = min(1.0, unwritten + _UNEVEN) if unwritten > _EVEN else 0.0  # share of blocks from before the phase
    if is_new and sample.zero_bytes <= max(old, unwritten) * sample.bytes:  # such sectors may never have been written
        if sample.zero_bytes == sample.bytes:
            return unchecked("only zeros were read back, and the files were not written completely")
        sample = structs.replace(sample, bytes=sample.bytes - sample.zero_bytes, zero_bytes=0)
    old = 0.0 if is_new else old
    figures = _format_sample(sample)
    repeats = s.parsed.evidence.repeats if writes and not own_data else ""
    if repeats:  # pages that the tool repeats do not show that its other data is not random
        sample = structs.replace(sample, bytes=sample.bytes - sample.repeated_bytes, repeated_bytes=0)
    if _compresses(sample, old):
        if own_data:
            return unchecked(f"{figures} (data: tool_default); it matters where the storage compresses or deduplicates")
        return failed(f"data compresses or deduplicates: {figures}")
    if old and (unwritten > _STALE or _compresses(sample)):
        return unchecked(f"{figures}, but up to {100 * old:.0f} % of them may have been there before the phase")
    return unchecked(f"{figures}: {repeats}; it matters where the storage deduplicates") if repeats else passed(figures)


def _compresses(sample: Sample, old: float = 0.0) -> bool:
    """Whether blocks compress or repeat, without a share `old`. Zeros count as repeated: compression removes them."""
    repeated = sample.repeated_bytes + sample.zero_bytes
    return repeated > (_REPEATED + old) * sample.bytes or sample.bytes * (1 - old) >= _RATIO * sample.compressed_bytes


def _unwritten_share(s: Observation) -> float:
    """The share of the sampled part of the files that the phase may not have written: e^-passes for random I/O."""
    written = s.parsed.figures.get("bytes_written") or 0
    size = s.run.files.set_bytes or s.point.volume_bytes
    if s.run.files.role != "fresh" and not s.phase.random:  # the sample is from the beginning of the files
        transfer = int(s.point.options.get("transfer_size") or 1)
        size = _WORKERS * first_bytes(transfer, max(1, s.run.files.files))
    return math.exp(-written / size) if size else 0.0


def _format_sample(sample: Sample) -> str:
    """`in 32 blocks of 4 files (256 KiB): compression 1.00:1, no duplicates`"""
    ratio = sample.bytes / max(1, sample.compressed_bytes)
    blocks = f"{human_count(sample.blocks, 'block')} of {human_count(sample.files, 'file')}"
    parts = [f"compression {ratio:.2f}:1" if ratio < 1000 else "compression more than 1,000:1"]
    if sample.zero_bytes:
        parts.append(f"{100 * sample.zero_bytes / sample.bytes:.0f} % zeros")
    if sample.repeated_bytes > _REPEATED * sample.bytes:
        parts.append(f"{100 * sample.repeated_bytes / sample.bytes:.0f} % of pages are duplicates")
    else:
        parts.append("no duplicates")
    return f"in {blocks} ({human_size(sample.bytes)}): {', '.join(parts)}"
