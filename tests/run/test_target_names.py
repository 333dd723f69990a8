"""A file system under another of its names, and another file system under the same name."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import mounts
from campaign import SWEEP, Allocation
from iosweep.results.campaign_documents import ClaimedTarget

pytestmark = [pytest.mark.local, pytest.mark.usefixtures("fio")]


@pytest.fixture
def elsewhere(tmp_path: Path) -> Allocation:
    if reason := mounts.missing():
        pytest.skip(reason)
    (tmp_path / "mount").mkdir()
    made = Allocation(tmp_path)
    made.target = tmp_path / "mount"
    made.configure(SWEEP | {"phases": ["seq_write"]})
    return made


def seen_as(allocation: Allocation) -> tuple[str, ...]:
    known = allocation.store.document(ClaimedTarget)
    assert known
    return known.seen_as


def measured(allocation: Allocation, source: Path, kind: str = "glusterfs") -> tuple[int, str]:
    """How many results there are then, and what was printed, with the target on a FUSE file system by this name."""
    source.mkdir(parents=True, exist_ok=True)
    subprocess.run(["bindfs", f"-osubtype={kind}", source, allocation.target], check=True)
    try:
        said = allocation.measure()
    finally:
        mounts.unmount(allocation.target)
    return len([file for file in allocation.files() if re.search(r"/r\d+-\d+\.json$", file)]), said


def test_a_volume_by_another_of_its_servers(elsewhere: Allocation) -> None:
    """Results of before count, and where the target is another one it is printed what does not."""
    servers = elsewhere.place
    elsewhere.keep = "all"  # the marker stays
    elsewhere.configure(SWEEP | {"phases": ["seq_write"]})
    assert measured(elsewhere, servers / "s1:/dfs")[0] == 2
    (servers / "s1:").rename(servers / "s2:")
    longer = SWEEP | {"phases": ["seq_write"], "axes": {"threads_per_node": [1, 2, 3]}}
    elsewhere.configure(longer)
    assert measured(elsewhere, servers / "s2:/dfs")[0] == 3  # the new point only
    elsewhere.configure(longer | {"repetitions": 2})
    found, said = measured(elsewhere, servers / "s2:/other")
    assert found == 3 + 6
    assert (
        f"measured again, because the target has changed: 2 results of {elsewhere.target} on"
        f" {servers}/s1:/dfs (fuse.glusterfs), 1 result of {elsewhere.target} on {servers}/s2:/dfs (fuse.glusterfs);"
        f" the target is {elsewhere.target} on {servers}/s2:/other (fuse.glusterfs) now"
    ) in " ".join(said.split())


def test_a_volume_of_another_cluster_by_the_same_name(elsewhere: Allocation) -> None:
    """Without the marker, and without a common server, the name does not make results of before count."""
    assert measured(elsewhere, elsewhere.place / "s1:/dfs")[0] == 2
    elsewhere.configure(SWEEP | {"phases": ["seq_write"], "repetitions": 2})
    found, said = measured(elsewhere, elsewhere.place / "s9:/dfs")
    assert found == 2 + 4
    assert f"the target has changed: 2 results of {elsewhere.target} on {elsewhere.place}/s1:/dfs" in " ".join(
        said.split()
    )


def test_the_marker_proves_that_it_is_the_same_file_system(elsewhere: Allocation) -> None:
    """Where another server may be another file system, and is not."""
    first, second, third = (elsewhere.place / name for name in ("first", "second", "third"))
    elsewhere.keep = "all"  # the marker stays
    elsewhere.configure(SWEEP | {"phases": ["seq_write"]})
    assert measured(elsewhere, first, "x")[0] == 2
    first.rename(second)
    elsewhere.configure(SWEEP | {"phases": ["seq_write"], "repetitions": 2})
    assert measured(elsewhere, second, "x")[0] == 4
    assert seen_as(elsewhere) == (f"fuse.x {first}", f"fuse.x {second}")
    shutil.rmtree(second / "iosweep-c")
    elsewhere.configure(SWEEP | {"phases": ["seq_write"], "repetitions": 3})
    assert measured(elsewhere, second, "x")[0] == 6  # it was proven before
    shutil.rmtree(second / "iosweep-c")
    elsewhere.configure(SWEEP | {"phases": ["seq_write"], "repetitions": 4})
    found, said = measured(elsewhere, third, "x")
    assert found == 6 + 8
    before = (
        f"2 results of {elsewhere.target} on {first} (fuse.x), 4 results of {elsewhere.target} on {second} (fuse.x)"
    )
    assert f"measured again, because the target has changed: {before}; the target is " in " ".join(said.split())
    assert seen_as(elsewhere) == (f"fuse.x {third}",)
