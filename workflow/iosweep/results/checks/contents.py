"""What the files hold that were written or read: whether it compresses or deduplicates."""

from __future__ import annotations

import math

from iosweep.results.checks.finding import NOT_APPLICABLE, Finding, Seen, failed, passed, unchecked
from iosweep.target.contents import Sample, first_bytes
from iosweep.text import human_count
from iosweep.units import human_size

#: What compresses by this or more, or has more pages or pieces again, is not random. Random data has 1.00 and none.
_RATIO, _REPEATED, _SIMILAR = 1.15, 0.01, 0.05
#: If a phase may have left more of the files as they were, blocks do not show what it wrote.
_STALE = 0.5
#: What the share of zeros in some blocks may be above that in the whole files.
_MORE_ZEROS = 0.3


def incompressible(s: Seen) -> Finding:
    """Data neither compresses nor deduplicates, as blocks of the files show that were read back after they were
    written.
    """
    files, writes = s.run.files, s.phase.writes
    if s.phase.kind == "metadata" or not (writes or files.role == "read"):
        return NOT_APPLICABLE
    sample = files.sample
    if sample is None:
        return unchecked(files.unread or "no blocks of the files were read back")
    untouched = _untouched(s) if writes else 0.0
    # of new files those sectors are left out that may never have been written
    new = writes and files.role == "fresh"
    holes = new and sample.zero_bytes <= (untouched + _MORE_ZEROS) * sample.bytes
    if holes and sample.zero_bytes == sample.bytes:
        return unchecked("only zeros were read back, and not all of the files was written")
    seen = sample.bytes - sample.zero_bytes if holes else sample.bytes
    figures = _figures(sample, seen)
    asked = not writes or s.point.options.get("data") == "random"
    if _compresses(sample, seen) or (asked and sample.similar_bytes > _SIMILAR * seen):
        if asked:
            return failed(f"data compresses or deduplicates: {figures}")
        return unchecked(f"{figures} (data: tool_default); it matters where the file system compresses or deduplicates")
    if not new and untouched > _STALE:
        return unchecked(
            f"{figures}, but up to {100 * untouched:.0f} % of the files is what was there before the phase"
        )
    if sample.similar_bytes > _SIMILAR * seen:
        return unchecked(f"{figures} (data: tool_default); it matters where the file system finds similar blocks")
    if writes and (repeats := s.parsed.evidence.repeats):
        return unchecked(f"{figures}, but {repeats}; it matters where the file system deduplicates")
    return passed(figures)


def _compresses(sample: Sample, seen: int) -> bool:
    """`seen`: bytes that count; where zeros do, they are as good as nothing to storage that compresses."""
    zeros = seen - (sample.bytes - sample.zero_bytes)
    return seen >= _RATIO * sample.compressed_bytes or sample.repeated_bytes + zeros > _REPEATED * seen


def _untouched(s: Seen) -> float:
    """The share of the files, where blocks were read, that the phase may not have written: of random I/O e^-passes."""
    written = s.parsed.figures.get("bytes_written") or 0
    size = s.run.files.set_bytes or s.point.volume_bytes
    if s.run.files.role != "fresh" and not s.phase.random:  # the first blocks of the files were read
        size = first_bytes(int(s.point.options.get("transfer_size") or 1), max(1, s.run.files.files))
    return math.exp(-written / size) if size else 0.0


def _figures(sample: Sample, seen: int) -> str:
    """`32 blocks of 4 files: 1.00:1, no duplicates`"""
    ratio = seen / max(1, sample.compressed_bytes)
    what = f"{human_count(sample.blocks, 'block')} of {human_count(sample.files, 'file')}"
    parts = [f"{ratio:.2f}:1" if ratio < 1000 else "more than 1,000:1"]
    if zeros := seen - (sample.bytes - sample.zero_bytes):
        parts.append(f"{100 * zeros / seen:.0f} % zeros")
    if sample.repeated_bytes > _REPEATED * seen:
        parts.append(f"{100 * sample.repeated_bytes / seen:.0f} % of pages are duplicates")
    elif sample.similar_bytes > _SIMILAR * seen:
        parts.append(f"{100 * sample.similar_bytes / seen:.0f} % of pieces of 64 bytes occur again")
    else:
        parts.append("no duplicates")
    return f"{what} ({human_size(sample.bytes)}): {', '.join(parts)}"
