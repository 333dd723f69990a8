"""Space on the target: whether a campaign fits the free space, the configured limits and the quotas. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from iosweep.errors import Obstacle
from iosweep.target.quota import Quota
from iosweep.text import human_count
from iosweep.units import human_size

_LESS = "measure less, or raise limits.share_of_free"


def too_much(
    now: Mapping[str, int],
    ours_bytes: int,
    needed_bytes: int,
    needed_inodes: int,
    limits: Mapping[str, float],
    kept_bytes: int = 0,
) -> Obstacle | None:
    """Why a campaign may not have `needed_bytes` there at once, or None.

    `now`: identify.space. `ours_bytes` of them are there already. Inodes are those that are still to come.
    `kept_bytes`: what we have deleted and is not free (`not_free`). Such space is our own, and makes the share of the
    others no smaller; but it can no more be written to than theirs.
    """
    more = needed_bytes - ours_bytes
    free, total = now["free_bytes"], now["used_bytes"] + now["free_bytes"]
    if more > 0 and not total:
        why = "its file system does not say how much is free: it reports 0 bytes in all"
        return Obstacle(why, "are its data servers up?")
    if more > free:
        return Obstacle(
            f"{human_size(more)} more are needed, and {human_size(free)} are free", "make room, or measure less"
        )
    without_us = free + ours_bytes + kept_bytes
    if more > 0 and needed_bytes > limits["share_of_free"] * without_us:
        why = (
            f"up to {human_size(needed_bytes)} are needed, more than {limits['share_of_free']:.0%} of the"
            f" {human_size(without_us)} that are free"
        )
        return Obstacle(why, _LESS)
    if more > 0 and now["used_bytes"] + more > limits["fill"] * total:
        why = (
            f"{human_size(more)} more would make it {(now['used_bytes'] + more) / total:.0%} full, above"
            f" limits.fill {limits['fill']:.0%}"
        )
        return Obstacle(why, "free space, or raise limits.fill")
    inodes = now["used_inodes"] + now["free_inodes"]  # 0 where the file system does not count them
    if inodes and needed_inodes > limits["share_of_free"] * now["free_inodes"]:
        why = (
            f"up to {human_count(needed_inodes, 'file is', 'files are')} needed, more than"
            f" {limits['share_of_free']:.0%} of the {now['free_inodes']:,} free inodes"
        )
        return Obstacle(why, _LESS)
    if inodes and needed_inodes and now["used_inodes"] + needed_inodes > limits["fill"] * inodes:
        more_files = human_count(needed_inodes, "more file")
        return Obstacle(f"{more_files} would use more than {limits['fill']:.0%} of its inodes (limits.fill)")
    return None


def over_quota(quotas: Sequence[Quota], needed_bytes: int, needed_inodes: int) -> Obstacle | None:
    """Why a quota has no room for so many bytes and files more, or None."""
    for quota in quotas:
        rows = (
            (quota["limit_bytes"], quota["used_bytes"], needed_bytes, human_size, "more"),
            (quota["limit_files"], quota["used_files"], needed_inodes, "{:,}".format, "more files"),
        )
        for limit, used, needed, text, more in rows:
            if limit and needed and used + needed > limit:
                return Obstacle(
                    f"the quota of {quota['scope']} has no room for {text(needed)} {more}: {text(used)} of"
                    f" {text(limit)} are used",
                    "measure less, or have it raised",
                )
    return None


def says_nothing(now: Mapping[str, int]) -> bool:
    """Whether the file system reports 0 bytes in all, as some do while their data servers are down."""
    return not now["used_bytes"] + now["free_bytes"]


def not_free(deleted_bytes: int, expected_free_bytes: int, free_bytes: int) -> int:
    """How much of what we deleted did not become free; 0 if at least half of it did.

    `expected_free_bytes`: what would be free if all of it had, and nothing else had been written meanwhile.
    """
    lacking = min(deleted_bytes, expected_free_bytes - free_bytes)
    return lacking if deleted_bytes and 2 * lacking >= deleted_bytes else 0


def not_freed(deleted_bytes: int, kept_bytes: int) -> str:
    """A sentence on what we deleted and did not become free."""
    return (
        f"{human_size(kept_bytes)} of the {human_size(deleted_bytes)} that this run has deleted did not become free:"
        " the file system may keep deleted files for a time (trash, snapshots). Empty its trash, or wait until it has;"
        " the next run goes on from there"
    )
