"""What the files hold that were written or read: whether it compresses or deduplicates."""

from __future__ import annotations

import math

from msgspec import structs

from iosweep.judge.checks.finding import NOT_APPLICABLE, Seen, failed, passed, unchecked
from iosweep.store.record import Finding
from iosweep.target.trees import Sample, first_bytes
from iosweep.text import human_count
from iosweep.units import human_size

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
