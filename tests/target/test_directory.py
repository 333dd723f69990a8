"""The campaign's directory on the target: whose it is, by its marker, and whether it can be worked in."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from iosweep.errors import Refused
from iosweep.target import directory as directories
from iosweep.target.directory import Place
from targets import OTHER, OWNER, as_root, listing, marker_in, names, refusal

pytestmark = pytest.mark.usefixtures("nothing_of_theirs_changes")


def uuid_of(directory: str | Path) -> str:
    return str(marker_in(str(directory))["uuid"])


# Ours or not


def test_a_fresh_directory_is_ours_alone(place: Path) -> None:
    directory = directories.directory_of(str(place), "c")
    directories.claim(directory, OWNER)
    status = Path(directory).stat()
    assert directory == f"{place}/iosweep-c"
    assert marker_in(directory).items() >= OWNER.items()
    assert stat.S_IMODE(status.st_mode) == 0o700


def test_a_directory_that_others_could_write_to_is_shut(place: Path) -> None:
    for mode, shut in ((0o777, 0o755), (0o775, 0o755), (0o750, 0o750)):
        (place / "iosweep-c").mkdir(exist_ok=True)
        (place / "iosweep-c").chmod(mode)
        directories.claim(f"{place}/iosweep-c", OWNER)
        assert stat.S_IMODE((place / "iosweep-c").stat().st_mode) == shut


def test_it_is_ours_by_the_uuid_alone(ours: str) -> None:
    """Results that were moved, another user of a group: ours. A clone has the same user, host and path: another's."""
    directories.claim(ours, {"uuid": OWNER["uuid"], "uid": 7, "host": "other", "results": "/elsewhere"})
    with pytest.raises(Refused, match="/home/me/results/c on h"):  # the message names the owner
        directories.claim(ours, OWNER | {"uuid": "11111111-1111-1111-1111-111111111111"})
    assert marker_in(ours).items() >= OWNER.items()


def test_a_target_in_the_directory_of_a_campaign_is_refused(ours: str) -> None:
    """Its clean-up would remove this one's files."""
    (Path(ours) / "sets").mkdir()
    for target in (ours, f"{ours}/sets"):
        with pytest.raises(Refused, match=ours):
            directories.claim(f"{target}/iosweep-b", OWNER | {"uuid": "b", "campaign": "b"})


def test_a_check_refuses_as_a_claim_would_and_writes_nothing(place: Path, ours: str) -> None:
    theirs, unmarked, link = (str(place / f"iosweep-{name}") for name in ("theirs", "unmarked", "link"))
    directories.claim(theirs, OWNER | {"uuid": "theirs"})
    Path(unmarked).mkdir()
    (Path(unmarked) / "precious").touch()
    Path(link).symlink_to(ours)
    before = listing(place, all=True)
    for wrong in (theirs, unmarked, link, f"{ours}/iosweep-c"):
        steps = (lambda d: directories.check_claim(d, OWNER["uuid"]), lambda d: directories.claim(d, OWNER))
        assert len({refusal(lambda step=step, d=wrong: step(d)) for step in steps}) == 1, wrong
    for fine in (ours, f"{place}/iosweep-new"):
        directories.check_claim(fine, str(OWNER["uuid"]))
    assert listing(place, all=True) == before


def test_a_marker_that_proves_nothing_is_refused(place: Path) -> None:
    """Nor are no UUID in the marker and none in the results the same."""
    directory = place / "iosweep-c"
    directory.mkdir()
    same = {key: OWNER[key] for key in ("uid", "host", "results")}
    for content in (
        *(b"", b"not json", b"[1]", b"\xff", b'"text"', b"null", b"[" * 9999, b"{}", b'{"uuid": null}'),
        *(json.dumps(same).encode(), json.dumps(same | {"uuid": ""}).encode()),
    ):
        (directory / "iosweep.json").write_bytes(content)
        with pytest.raises(Refused):
            directories.claim(str(directory), OWNER)
        assert (directory / "iosweep.json").read_bytes() == content
        assert not directories.has_marker(str(directory), ""), content


def test_a_marker_that_is_no_regular_file_is_not_read(place: Path) -> None:
    marker = place / "iosweep-c" / "iosweep.json"
    marker.parent.mkdir()
    (place.parent / "copy").write_text(json.dumps(OWNER | {"uuid": "u"}))
    plant: list[Callable[[], Any]] = [
        lambda: marker.symlink_to(place.parent / "copy"),
        marker.mkdir,
        lambda: os.mkfifo(marker),  # opened as a file is, it would wait forever
    ]
    for make in plant:
        make()
        for touch in (lambda d: directories.claim(d, OWNER | {"uuid": "u"}), directories.read_owner):
            with pytest.raises(Refused, match="marker"):
                touch(str(marker.parent))
        (marker.rmdir if marker.is_dir() else marker.unlink)()


def test_files_without_a_marker_are_left_alone_and_an_empty_directory_is_adopted(place: Path) -> None:
    directory = place / "iosweep-c"
    directory.mkdir()
    (directory / "file").write_text("x")
    directory.chmod(0o2775)
    with pytest.raises(Refused, match="no marker"):
        directories.claim(str(directory), OWNER)
    assert names(directory) == ["file"] and stat.S_IMODE(directory.stat().st_mode) == 0o2775
    (directory / "file").unlink()
    (directory / "iosweep.json.tmp").write_text('{"uu')  # of a kill while the marker was written
    directories.claim(str(directory), OWNER)
    assert names(directory) == ["iosweep.json"]


def test_the_marker_is_on_disk_before_it_has_its_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power failure leaves an empty marker, with which the directory is nobody's."""
    did: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(handle: int) -> None:
        did.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")
        sync(handle)

    def renamed(*names: Any, **where: Any) -> None:
        did.append(f"rename {names[1]}")
        rename(*names, **where)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    directories.claim(directories.directory_of(str(place), "c"), OWNER)
    assert did == ["sync iosweep.json.tmp", "rename iosweep.json", "sync iosweep-c"]


@as_root
def test_root_takes_no_directory_of_another_user_even_with_our_marker(ours: str) -> None:
    """Who owns the directory can put links in the way of what writes there, and knows how to copy a marker."""
    uuid = uuid_of(ours)
    os.chown(ours, OTHER, OTHER)
    for marker in (True, False):
        if not marker:
            (Path(ours) / "iosweep.json").unlink()
        with pytest.raises(Refused, match=f"belongs to user {OTHER}"):
            directories.claim(ours, OWNER | {"uuid": uuid})
        assert names(ours) == ["iosweep.json"] * marker


# Whether it can be worked in


def test_a_sound_directory_can_be_worked_in_and_no_probe_stays(ours: str) -> None:
    (Path(ours) / "fresh").mkdir()
    (Path(ours) / "fresh" / directories.PROBE).touch()  # left by a kill
    assert directories.probe(Place(ours, uuid_of(ours))) is None
    assert names(Path(ours) / "fresh") == []
    assert directories.read_owner(ours) == marker_in(ours)
    assert directories.has_marker(ours, uuid_of(ours))


def test_data_that_is_not_read_back_as_written_is_noticed(ours: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "pread", lambda _file, size, at: b"\0" * size if at == 0 else b"")
    with pytest.raises(OSError, match="read back"):
        directories.probe(Place(ours, uuid_of(ours)))
    assert directories.probe(Place(ours, uuid_of(ours)), data=False) is None
    assert names(Path(ours) / "fresh") == []


def test_a_directory_that_is_gone_or_not_ours_any_more_cannot_be_worked_in(ours: str) -> None:
    place = Place(ours, uuid_of(ours))
    assert "another campaign" in str(directories.probe(Place(ours, "another")))
    (Path(ours) / "iosweep.json").unlink()
    assert "no marker" in str(directories.probe(place))
    with pytest.raises(Refused, match="no marker"):
        directories.read_owner(ours)
    Path(ours).rmdir()
    assert directories.read_owner(ours) is None
    assert "no longer there; is" in str(directories.probe(place))


@pytest.mark.parametrize("aim", ["theirs", "nowhere", "precious"])
def test_a_link_in_its_place_is_not_followed(place: Path, aim: str) -> None:
    (place / "iosweep-c").symlink_to(place / aim)
    for touch in (
        lambda d: directories.claim(d, OWNER),
        directories.read_owner,
        lambda d: directories.check_marker(Place(d, "u")),
    ):
        with pytest.raises(Refused, match="symbolic link"):
            touch(f"{place}/iosweep-c")
    assert "symbolic link" in str(directories.probe(Place(f"{place}/iosweep-c", "u")))
    assert not directories.has_marker(f"{place}/iosweep-c", "u")
