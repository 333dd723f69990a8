"""What merge keeps for the next merge: it saves work, and never shows in the tables."""

import errno
import json
import os
import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from campaign import FOUR_AND_EIGHT, Made, document, make
from iosweep.plan.model import Point
from iosweep.results import judged_points, merge, merged_tables, row_blocks, row_cache, unchanged
from iosweep.results.campaign_documents import Missing, Needs
from iosweep.results.judging import Judge, Judged
from iosweep.results.row_cache import RowCache

NODE = {"host": "h", "kernel": "6.1", "os": "Debian", "cpu_model": "x", "cpus": 2, "cpus_allowed": "0-1",
        "memory_bytes": 1 << 30, "mount": "/dev/x on /t type ext4 (rw)"}  # fmt: skip


@pytest.fixture
def campaign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Three points, of which files count as settled at once."""
    monkeypatch.setattr(unchanged, "_SETTLED_S", -60.0)
    axes = {"queue_depth": [4, 8, 16]}
    made = Made(tmp_path, make(tmp_path, document(**(FOUR_AND_EIGHT | {"axes": axes, "repetitions": 4}))))
    made.store.put("nodes", "n1", NODE)
    return made


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The points that were judged, in turn."""
    found: list[str] = []
    judge = Judge.point

    def noted(self: Judge, point: Point) -> Judged:
        found.append(point.id)
        return judge(self, point)

    monkeypatch.setattr(Judge, "point", noted)
    return found


def tables(made: Made, anew: bool = False) -> dict[str, Any]:
    """Bytes of the tables, and what campaign.json says, merged again."""
    merge.merge(made.plan, made.results, anew=anew)
    about = json.loads((made.results / merged_tables.ABOUT).read_bytes())
    del about["made"], about["sha256"]
    return {name: (made.results / name).read_bytes() for name in merged_tables.FILES} | {"about": about}


def kept(made: Made) -> list[Path]:
    return sorted((made.results / row_cache.FOLDER).glob("*.rows"))


def flip(file: Path, at: int) -> None:
    """Change a byte where it is: the size stays."""
    data = bytearray(file.read_bytes())
    data[at % len(data)] ^= 1
    with file.open("r+b") as opened:
        opened.write(data)


def stored(made: Made, suffix: str) -> list[Path]:
    return sorted(made.results.glob(f"points/*/r*{suffix}"))


class Histories:
    """Steps of random histories of a campaign."""

    def __init__(self, made: Made, draw: random.Random):
        self.made, self.draw = made, draw

    def add(self) -> None:
        index, number = self.draw.randrange(3), self.draw.randrange(1, 5)
        self.made.measured(index, number, record={"tool": {"sha256": self.draw.choice(["build", "build", "other"])}})

    def supersede(self) -> None:
        for point in self.draw.sample(self.made.plan.points, 1):
            for result in list(self.made.store.results_of(point.id).values())[:1]:
                self.made.store.supersede(result)

    def remove(self) -> None:
        for file in self._one(".json"):
            file.unlink()

    def remove_archive(self) -> None:
        for file in self._one(".zip"):
            file.unlink()

    def damage(self) -> None:
        for file in self._one(self.draw.choice([".json", ".zip"])):
            flip(file, self.draw.randrange(1 << 20))

    def damage_kept(self) -> None:
        for file in kept(self.made)[:1]:
            flip(file, self.draw.randrange(1 << 20))

    def cut_kept(self) -> None:
        for file in kept(self.made)[:1]:
            os.truncate(file, self.draw.randrange(file.stat().st_size))

    def other_memory(self) -> None:
        self.made.store.put("nodes", "n1", NODE | {"memory_bytes": self.draw.randrange(1 << 20, 1 << 40)})

    def missing(self) -> None:
        point = self.draw.choice(self.made.plan.points)
        self.made.store.set_missing(point.id, self.draw.choice([None, Missing(Needs(ranks=4), "no ranks")]))

    def nothing(self) -> None:
        pass

    def _one(self, suffix: str) -> Sequence[Path]:
        found = stored(self.made, suffix)
        return self.draw.sample(found, min(1, len(found)))


def test_tables_are_those_of_a_merge_from_nothing(
    campaign: Made, draw: random.Random, rounds: Callable[[int, int], int]
) -> None:
    """Whatever was added, removed or damaged before."""
    histories = Histories(campaign, draw)
    steps = [value for name, value in vars(Histories).items() if not name.startswith("_")]
    weights = [8 if step is Histories.add else 1 for step in steps]
    for _ in range(rounds(12, 400)):
        done = draw.choices(steps, weights, k=draw.randrange(1, 4))
        for step in done:
            step(histories)
        again = tables(campaign)
        assert again == tables(campaign, anew=True), [step.__name__ for step in done]
        assert again == tables(campaign)


def test_only_what_changed_is_judged_again(campaign: Made, judged: list[str]) -> None:
    for index in range(3):
        campaign.measured(index)
    before = tables(campaign)
    assert judged == [point.id for point in campaign.plan.points]
    judged.clear()
    assert tables(campaign) == before
    assert judged == []
    campaign.measured(1, 2)
    assert tables(campaign) != before
    assert judged == [campaign.plan.points[1].id]
    judged.clear()
    tables(campaign, anew=True)
    assert len(judged) == 3


def test_other_code_judges_again(campaign: Made, judged: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    campaign.measured()
    tables(campaign)
    judged.clear()
    monkeypatch.setattr(unchanged.sources, "digest", lambda _: "another")
    tables(campaign)
    assert len(judged) == 3
    assert len(kept(campaign)) == 1  # what the other code kept is of no use


def test_a_file_that_is_just_written_is_read_again(
    campaign: Made, judged: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later change may have the same time."""
    monkeypatch.setattr(unchanged, "_SETTLED_S", 60.0)
    campaign.measured()
    tables(campaign)
    judged.clear()
    tables(campaign)
    assert campaign.plan.points[0].id in judged


def test_a_changed_plan_judges_what_it_asks_otherwise(campaign: Made, judged: list[str], tmp_path: Path) -> None:
    for index in range(3):
        campaign.measured(index)
    tables(campaign)
    judged.clear()
    other = {"axes": {"queue_depth": [4, 8, 16, 32]}, "repetitions": 4, "name": "renamed"}
    changed = Made(tmp_path, make(tmp_path, document(**(FOUR_AND_EIGHT | other))))
    found = tables(changed)
    assert set(judged) >= {point.id for point in campaign.plan.points}
    assert found == tables(changed, anew=True)


def test_a_copy_is_judged_by_itself(campaign: Made, judged: list[str], tmp_path: Path) -> None:
    campaign.measured()
    before = tables(campaign)
    judged.clear()
    copy = tmp_path / "copy" / campaign.results.name
    shutil.copytree(campaign.results, copy)
    merge.merge(campaign.plan, copy)
    assert campaign.plan.points[0].id in judged
    assert (copy / "results.parquet").read_bytes() == before["results.parquet"]


def test_a_link_in_place_of_the_folder_is_not_followed(campaign: Made, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (campaign.results / row_cache.FOLDER).symlink_to(tmp_path / "elsewhere")
    campaign.measured()
    assert tables(campaign) == tables(campaign, anew=True)
    assert not list((tmp_path / "elsewhere").iterdir())


def test_without_room_nothing_is_kept(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign.measured()
    before = tables(campaign)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(RowCache, "_write", full)
    campaign.measured(1)
    found = tables(campaign)
    assert found != before
    assert kept(campaign) == []
    assert found == tables(campaign, anew=True)


def test_what_is_kept_makes_room_for_the_tables(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    campaign.measured()
    tables(campaign)
    finish = merge.CampaignTables.finish

    def full(self: Any, *arguments: Any) -> None:
        if kept(campaign):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finish(self, *arguments)

    monkeypatch.setattr(merge.CampaignTables, "finish", full)
    campaign.measured(1)
    found = tables(campaign)
    assert kept(campaign) == []  # the room that it took is not taken again
    monkeypatch.undo()
    assert found == tables(campaign, anew=True)


def test_a_merge_that_is_stopped_half_way(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    for index in range(3):
        campaign.measured(index)
    with monkeypatch.context() as patched:
        patched.setattr(merge.CampaignTables, "add_compared", stop)
        with pytest.raises(KeyboardInterrupt):
            merge.merge(campaign.plan, campaign.results)
    assert kept(campaign)
    assert tables(campaign) == tables(campaign, anew=True)


def stop(*_: object) -> None:
    raise KeyboardInterrupt


def test_small_files_are_put_together(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_cache, "_MANY", 2)
    for number in range(1, 5):
        for index in range(3):
            campaign.measured(index, number)
            found = tables(campaign)
            assert len(kept(campaign)) == 1
    assert found == tables(campaign, anew=True)


@pytest.mark.parametrize("size", [0, 7, 8, 40, 100])
def test_what_is_cut_is_no_block(size: int) -> None:
    with pytest.raises(row_blocks.Unreadable):
        decoded(row_blocks.encoded(row_blocks.made([], {}))[:size])


def decoded(data: bytes) -> object:
    end = row_blocks.states_end(data)
    return row_blocks.decoded_states(data[:end]), row_blocks.decoded_tables(data[end:])


@pytest.fixture
def scattered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Made:
    """Twelve points, of which every second one has been measured again, each before another merge."""
    monkeypatch.setattr(unchanged, "_SETTLED_S", -60.0)
    axes = {"queue_depth": [*range(1, 13)]}
    made = Made(tmp_path, make(tmp_path, document(**(FOUR_AND_EIGHT | {"axes": axes}))))
    for index in range(12):
        made.measured(index)
    tables(made)
    for index in range(1, 12, 2):
        made.measured(index, 2)
        tables(made)
    assert len(kept(made)) == 7
    return made


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files whose tables were read, in turn."""
    found: list[str] = []
    read = RowCache._tables_of

    def noted(self: RowCache, name: str) -> memoryview:
        found.append(name)
        return read(self, name)

    monkeypatch.setattr(RowCache, "_tables_of", noted)
    return found


def test_each_file_is_read_once_however_points_alternate(scattered: Made, opened: list[str]) -> None:
    found = tables(scattered)
    assert len(opened) == len(set(opened)) == 7
    assert found == tables(scattered, anew=True)


def test_the_rows_of_a_file_are_in_memory_once(
    scattered: Made, opened: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for index in (3, 5, 7):
        scattered.measured(index, 2)
    tables(scattered)
    files = len(kept(scattered))
    opened.clear()
    monkeypatch.setattr(row_cache, "_OPEN_BYTES", 0)
    judge, cache = Judge(scattered.plan, scattered.results, {}), RowCache(scattered.plan, scattered.results, {})
    points = judged_points.JudgedPoints(judge, cache, lambda wanted: iter(()))
    held = [one for one, _ in points.of(scattered.plan.points)]
    assert len(opened) > len(set(opened)) == files  # read again, because only one stays open
    assert len({id(one.main.rows) for one in held}) == files
    assert tables(scattered) == tables(scattered, anew=True)


def test_a_damaged_file_is_read_once(scattered: Made, opened: list[str], judged: list[str]) -> None:
    """Its points are judged again together: each would read it, however large it is."""
    largest = max(kept(scattered), key=lambda file: file.stat().st_size)
    flip(largest, largest.stat().st_size - 1)
    found = tables(scattered)
    assert opened.count(largest.name) == 1
    assert judged == [point.id for point in scattered.plan.points[::2]]
    assert found == tables(scattered, anew=True)


def test_a_result_that_was_there_for_a_moment(campaign: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was removed after it was read, and the files are those of before."""
    campaign.measured()
    judge = Judge.point

    def point(self: Judge, point: Point) -> Judged:
        if point != campaign.plan.points[0]:
            return judge(self, point)
        campaign.measured(0, 2)
        found = judge(self, point)
        for file in stored(campaign, "2-1.*"):
            file.unlink()
        return found

    with monkeypatch.context() as patched:
        patched.setattr(Judge, "point", point)
        campaign.measured(1)
        tables(campaign)
    assert stored(campaign, "2-1.*") == []
    assert tables(campaign) == tables(campaign, anew=True)


def test_large_files_are_not_put_together(scattered: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_cache, "_MANY", 2)
    monkeypatch.setattr(row_cache, "_SMALL_BYTES", 1)
    tables(scattered)
    assert len(kept(scattered)) == 7
    monkeypatch.setattr(row_cache, "_SMALL_BYTES", 1 << 30)
    tables(scattered)
    assert len(kept(scattered)) == 1


def test_what_is_put_together_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_cache, "_JOINED_BYTES", 10)
    files = [("a", 4), ("b", 4), ("c", 4), ("d", 9), ("e", 9), ("f", 1)]
    assert row_cache._groups(files) == [["a", "b"], ["e", "f"]]


def test_blocks_are_smaller_where_points_have_many_workers(tmp_path: Path) -> None:
    """What is parsed of a block is in memory."""
    sweep = {"axes": {"queue_depth": [*range(1, 101)]}, "repetitions": 10}
    few = make(tmp_path, document(**(FOUR_AND_EIGHT | sweep))).points
    assert [len(points) for points in judged_points.blocks(few)] == [50, 50]
    options = FOUR_AND_EIGHT["options"] | {"threads_per_node": 128, "file_size": "4k"}
    many = make(tmp_path, document(**(FOUR_AND_EIGHT | sweep | {"options": options}))).points
    assert {len(points) for points in judged_points.blocks(many)} == {3, 1}


def test_points_behind_a_link_are_not_used(campaign: Made, tmp_path: Path) -> None:
    """Their files are the same, and a merge from nothing follows no link."""
    campaign.measured()
    tables(campaign)
    (campaign.results / "points").rename(tmp_path / "elsewhere")
    (campaign.results / "points").symlink_to(tmp_path / "elsewhere")
    assert tables(campaign) == tables(campaign, anew=True)
