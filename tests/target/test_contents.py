"""Blocks of files: which are read, and what they show."""

import os
from pathlib import Path

import pytest

from iosweep.target import contents, trees
from iosweep.target.contents import BLOCK_BYTES, BLOCKS, Sample
from targets import at

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")
MIB = 1 << 20


@pytest.mark.parametrize(
    ("size", "transfer", "from_begin", "count", "found"),
    [
        (0, 4096, False, 8, []),
        (1, 4096, False, 8, [0]),
        (5000, 512, False, 8, [0]),
        (32 << 10, 4096, False, 8, [0, 8 << 10, 16 << 10, 24 << 10]),
        (16 * MIB, MIB, False, 4, [0, 4 * MIB, 8 * MIB, 12 * MIB]),
        (16 * MIB, MIB, True, 4, [0, MIB, 2 * MIB, 3 * MIB]),
        (16 * MIB, 16 * MIB, False, 4, [0, 4 * MIB, 8 * MIB, 12 * MIB]),  # fewer I/Os than blocks
    ],
)
def test_where_blocks_begin(size: int, transfer: int, from_begin: bool, count: int, found: list[int]) -> None:
    assert contents.offsets(size, transfer, from_begin, count) == found


def test_a_sample_is_of_some_files_evenly() -> None:
    assert contents.spread([str(n) for n in range(8)], 4) == ["0", "2", "4", "6"]
    assert contents.spread(["0"], 4) == ["0"]
    assert contents.spread([], 4) == []


def test_what_a_phase_must_have_written_to_have_written_the_sample() -> None:
    assert contents.first_bytes(MIB, 1) == BLOCKS * MIB
    assert contents.first_bytes(MIB, 100) == BLOCKS // 4 * 100 * MIB


def test_random_data_has_nothing_in_common() -> None:
    blocks = [[os.urandom(BLOCK_BYTES) for _ in range(8)] for _ in range(4)]
    found = contents.measured(blocks)
    assert (found.files, found.blocks, found.bytes) == (4, 32, 32 * BLOCK_BYTES)
    assert (found.zero_bytes, found.repeated_bytes, found.similar_bytes) == (0, 0, 0)
    assert 1 <= found.compressed_bytes / found.bytes < 1.01


def test_one_block_again_and_again() -> None:
    found = contents.measured([[os.urandom(BLOCK_BYTES)] * 4])
    assert found.repeated_bytes == found.similar_bytes == 3 * BLOCK_BYTES


def test_similar_blocks() -> None:
    block = os.urandom(BLOCK_BYTES)  # as fio scrambles it: a few bytes of each sector are others
    again = b"".join(os.urandom(16) + block[at + 16 : at + 512] for at in range(0, BLOCK_BYTES, 512))
    found = contents.measured([[block, again]])
    assert found.repeated_bytes == 0
    assert found.similar_bytes == BLOCK_BYTES * 7 // 8


def test_zeros_are_told_apart() -> None:
    found = contents.measured([[bytes(BLOCK_BYTES), os.urandom(512) + bytes(BLOCK_BYTES - 512)]])
    assert found.zero_bytes == 2 * BLOCK_BYTES - 512
    assert 512 <= found.compressed_bytes < 600
    assert contents.measured([]) == Sample()


def sample(ours: str, *directories: str, transfer: int = 4096) -> Sample:
    return contents.sample(at(ours), [list(directories)], transfer, False)[0]


def test_regular_files_are_read(ours: str, place: Path) -> None:
    directory = Path(trees.ensure(at(ours), "set"))
    (directory / "0.0").write_bytes(os.urandom(MIB))
    (directory / "empty").touch()
    os.mkfifo(directory / "pipe")
    (directory / "link").symlink_to(directory / "0.0")
    (directory / "below").mkdir()
    found = sample(ours, "set", "not there")
    assert (found.files, found.zero_bytes, found.repeated_bytes) == (1, 0, 0)
    assert sample(ours, "set").blocks == BLOCKS
    assert sample(ours, "not there") == Sample()


def test_what_was_never_written_is_left_out(ours: str) -> None:
    if trees.examine(at(ours), [trees.Look("", [], 0)])[0]["holes"] != "none":
        pytest.skip("holes: this file system shows none")
    directory = Path(trees.ensure(at(ours), "set"))
    with (directory / "0.0").open("wb") as file:
        for offset in (0, 64 * MIB):
            file.seek(offset)
            file.write(os.urandom(64 << 10))
        file.truncate(256 * MIB)
    found = sample(ours, "set", transfer=MIB)
    # nor is what comes after a hole read for each offset in it
    assert (found.blocks, found.zero_bytes, found.repeated_bytes) == (2, 0, 0)


def test_a_link_in_place_of_a_directory_is_not_followed(ours: str, place: Path) -> None:
    (Path(ours) / "set").symlink_to(place)
    with pytest.raises(NotADirectoryError, match="not followed"):
        sample(ours, "set")
