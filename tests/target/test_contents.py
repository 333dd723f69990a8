"""Blocks of files: which are read, and what they show."""

import os
from pathlib import Path

import pytest

from iosweep.target import trees
from iosweep.target.trees import BLOCK_BYTES, BLOCKS, Sample
from targets import at, made

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")
KIB, MIB = 1 << 10, 1 << 20


def test_blocks_begin_where_ios_began_evenly_over_a_file() -> None:
    for size, transfer, from_begin, count, found in (
        (0, 4096, False, 8, []),
        (1, 4096, False, 8, [0]),
        (32 * KIB, 4096, False, 8, [0, 8 * KIB, 16 * KIB, 24 * KIB]),
        (16 * MIB, MIB, False, 4, [0, 4 * MIB, 8 * MIB, 12 * MIB]),
        (16 * MIB, MIB, True, 4, [0, MIB, 2 * MIB, 3 * MIB]),
        (16 * MIB, 16 * MIB, False, 4, [0, 4 * MIB, 8 * MIB, 12 * MIB]),  # fewer I/Os than blocks
    ):
        assert trees.block_offsets(size, transfer, from_begin, count) == found, (size, transfer)


def test_random_repeated_and_zero_data_are_told_apart() -> None:
    found = trees.sample_of([[os.urandom(BLOCK_BYTES) for _ in range(8)] for _ in range(4)])
    assert (found.files, found.blocks, found.bytes) == (4, 32, 32 * BLOCK_BYTES)
    assert (found.zero_bytes, found.repeated_bytes) == (0, 0)
    assert 1 <= found.compressed_bytes / found.bytes < 1.01
    block = os.urandom(BLOCK_BYTES)
    found = trees.sample_of([[block] * 4])
    assert found.repeated_bytes == 3 * BLOCK_BYTES
    # as fio scrambles it: a few bytes of each sector are others
    again = b"".join(os.urandom(16) + block[at + 16 : at + 512] for at in range(0, BLOCK_BYTES, 512))
    found = trees.sample_of([[block, again]])
    assert found.repeated_bytes == 0 and found.compressed_bytes * 1.15 < found.bytes
    found = trees.sample_of([[bytes(BLOCK_BYTES), os.urandom(512) + bytes(BLOCK_BYTES - 512)]])
    assert found.zero_bytes == 2 * BLOCK_BYTES - 512
    assert 512 <= found.compressed_bytes < 600
    assert trees.sample_of([]) == Sample()


def sample(ours: str, *directories: str, transfer: int = 4096) -> Sample:
    return trees.sample_blocks(at(ours), [list(directories)], transfer, False)[0]


def test_only_regular_files_are_read_and_no_link_is_followed(ours: str, place: Path) -> None:
    directory = made(at(ours), "set")
    (directory / "0.0").write_bytes(os.urandom(MIB))
    (directory / "empty").touch()
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to(directory / "0.0")
    (directory / "below").mkdir()
    found = sample(ours, "set", "not there")
    assert (found.files, found.zero_bytes, found.repeated_bytes) == (1, 0, 0)
    assert sample(ours, "set").blocks == BLOCKS
    assert sample(ours, "not there") == Sample()
    (Path(ours) / "away").symlink_to(place)
    with pytest.raises(NotADirectoryError):
        sample(ours, "away")
