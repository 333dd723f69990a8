"""Faults of the target: it is not there, not ours, goes away, answers with errors, or does not answer."""

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

import mounts
from faults.case import ONE, READING, READS, Case
from faults.registry import Happening, fault
from iosweep.node import node_facts
from iosweep.target import directory as directories

#: What the runner waits for a look at the target: short enough for a test, long enough for a busy machine.
IMPATIENT = {"deadline": "3s"}
QUICKLY = {"grace": "2s"}
#: For the run that goes on from there.
PATIENTLY = {"target": {"deadline": "2min"}, "limits": {"grace": "1min"}}


# at the start


@fault(sweep=ONE, still=False)
def target_not_mounted(case: Case) -> Happening:
    mounts.unmount(case.mount)
    yield None
    mounts.mount_image(case.mount)


@fault(still=False)
def another_file_system_there(case: Case) -> Happening:
    if case.place.stat().st_dev != Path("/").stat().st_dev:
        pytest.skip("root: temporary files are on a file system of their own")
    case.at_call(f"umount -l {case.mount}")
    assert case.start().end() != 0
    case.target.mkdir()
    yield None
    case.target.rmdir()
    mounts.mount_image(case.mount)


@fault(sweep=ONE, target={"type": "lustre"})
def target_of_another_type(case: Case) -> Happening:
    yield None
    case.reset(target={"type": "ext4"})


@fault(sweep=ONE, still=False)
def target_is_a_file(case: Case) -> Happening:
    away = case.target.rename(case.mount / "away")
    case.target.write_text("x")
    yield None
    case.target.unlink()
    away.rename(case.target)


@fault(sweep=ONE)
def target_read_only(case: Case) -> Happening:
    mounts.remount(case.mount, "ro")
    yield None
    mounts.remount(case.mount, "rw")


@fault(sweep=ONE)
def no_permission(case: Case) -> Happening:
    case.obey_modes()
    case.target.chmod(0o555)
    yield None
    case.target.chmod(0o755)


@fault(sweep=ONE)
def directory_of_somebody_else(case: Case) -> Happening:
    case.theirs = True
    case.ours.mkdir()
    (case.ours / "precious").write_text("x")
    yield None
    shutil.rmtree(case.ours)
    case.theirs = False


@fault(sweep=ONE)
def directory_of_another_campaign(case: Case) -> Happening:
    case.theirs = True
    case.ours.mkdir()
    marker = {"uuid": "7", "uid": 1, "host": "elsewhere", "results": "/r", "campaign": "c"}
    (case.ours / "iosweep.json").write_text(json.dumps(marker))
    (case.ours / "sets").mkdir()
    yield None
    shutil.rmtree(case.ours)
    case.theirs = False


@fault(sweep=ONE)
def directory_is_a_copy(case: Case) -> Happening:
    """Of one that this campaign has elsewhere, with its marker."""
    case.theirs = True
    away = case.place / "away"
    away.mkdir()
    owner = {"uuid": None, "uid": os.getuid(), "host": node_facts.host(), "results": str(case.results), "campaign": "c"}
    directories.claim(str(away / "iosweep-c"), owner)
    shutil.copytree(away / "iosweep-c", case.ours)
    (case.ours / "sets").mkdir()
    (case.ours / "sets" / "precious").write_text("x")
    yield None
    shutil.rmtree(case.ours)
    case.theirs = False


@fault(still=False)
def copy_on_another_file_system(case: Case) -> Happening:
    """After a run that ended in the middle: path, marker and owner are those of the campaign."""
    case.at_call(f"umount -l {case.mount}")
    assert case.start().end() != 0
    mounts.mount_image(case.mount)
    copy = case.place / "copy"
    shutil.copytree(case.ours, copy)
    mounts.run("mount", "-t", "tmpfs", "backup", str(case.target))
    shutil.copytree(copy, case.ours)
    (case.ours / "fresh").mkdir(exist_ok=True)
    (precious := case.ours / "fresh" / "precious").write_text("x")
    yield None
    assert precious.read_text() == "x"
    mounts.unmount(case.target)


@fault(sweep=ONE)
def link_in_its_place(case: Case) -> Happening:
    case.theirs = True
    case.ours.symlink_to(case.beside)
    yield None
    case.ours.unlink()
    case.theirs = False


@fault(sweep=ONE)
def marker_is_a_pipe(case: Case) -> Happening:
    case.theirs = True
    case.ours.mkdir()
    os.mkfifo(case.ours / "iosweep.json")
    yield None
    shutil.rmtree(case.ours)
    case.theirs = False


@fault(sweep=ONE)
def target_that_everybody_may_write_to(case: Case) -> Happening:
    case.target.chmod(0o777)
    yield None
    case.target.chmod(0o755)


# in the middle


@fault()
def read_only_in_the_middle(case: Case) -> Happening:
    case.at_call(f"mount -o remount,ro {case.mount}")
    yield None
    mounts.remount(case.mount, "rw")


@fault()
def file_system_with_errors(case: Case) -> Happening:
    """The kernel finds damage, and makes it read-only by itself while it is written to."""
    mounts.remount(case.mount, "errors=remount-ro")
    case.at_call(f"echo test > /sys/fs/ext4/{mounts.device(case.mount).name}/trigger_fs_error")
    yield None
    mounts.unmount(case.mount)
    mounts.mount_image(case.mount)


@fault(still=False)
def disk_lost(case: Case) -> Happening:
    case.at_call(case.python(f"import mounts, pathlib; mounts.shut_down(pathlib.Path({str(case.mount)!r}))"))
    yield None
    mounts.unmount(case.mount)
    mounts.mount_image(case.mount)


@fault()
def permission_lost(case: Case) -> Happening:
    case.obey_modes()
    case.at_call(f"chmod 0 {case.ours}")
    yield None
    case.ours.chmod(0o700)


@fault(still=False)
def unmounted_in_the_middle(case: Case) -> Happening:
    case.at_call(f"umount -l {case.mount}")
    yield None
    mounts.mount_image(case.mount)


@fault()
def directory_removed_in_the_middle(case: Case) -> Happening:
    case.at_call(f"rm -r {case.ours}")
    yield None


@fault(on=mounts.fuse, still=False)
def server_gone(case: Case) -> Happening:
    """Transport endpoint is not connected."""
    case.at_call(f"kill -KILL {mounts.server(case.mount)}")
    yield None
    mounts.unmount(case.mount)
    mounts.serve(case.mount)


@fault()
def marker_removed(case: Case) -> Happening:
    marker, away = case.ours / "iosweep.json", case.place / "marker"
    case.at_call(f"mv {marker} {away}; exit 1")
    yield None
    shutil.move(away, marker)


@fault()
def directory_swapped(case: Case) -> Happening:
    """Somebody renames it, and another directory has its name."""
    away = case.place / "away"
    case.at_call(f"mv {case.ours} {away}; cp -a {case.beside}/foreign {case.ours}; mkdir {case.ours}/fresh; exit 1")
    yield None
    assert (case.ours / "precious").stat().st_size == 5000
    assert (case.ours / "fresh").is_dir()
    shutil.rmtree(case.ours)
    shutil.move(away, case.ours)


@fault()
def directory_mounted_over(case: Case) -> Happening:
    """Somebody shows another directory of the same file system there, with a copy of the marker."""
    theirs = case.place / "theirs"
    (theirs / "fresh").mkdir(parents=True)
    (theirs / "fresh" / "precious").write_text("x")
    marker = case.ours / "iosweep.json"
    case.at_call(f"cp {marker} {theirs}; mount --bind {theirs} {case.ours}; exit 1")
    yield None
    assert (case.ours / "fresh" / "precious").read_text() == "x"
    mounts.unmount(case.ours)


@fault(still=False)
def target_mounted_over(case: Case) -> Happening:
    """Another file system is mounted there, to which all that the campaign has was copied."""
    copy = case.place / "copy"
    case.at_call(
        f"cp -a {case.ours} {copy}; mount -t tmpfs copy {case.target}; cp -a {copy} {case.ours};"
        f"mkdir -p {case.ours}/fresh; echo x > {case.ours}/fresh/precious; exit 1"
    )
    yield None
    assert (case.ours / "fresh" / "precious").read_text() == "x\n"
    mounts.unmount(case.target)


@fault(sweep=READS)
def file_mounted_over_a_set(case: Case) -> Happening:
    """Somebody shows a file of theirs in the place of one of a set."""
    between(case, lambda file: f"mount --bind {case.beside}/foreign/precious {file}")
    yield None
    mounts.unmount(case.ours / "sets" / "fio-read-256k-1" / "0.0")


@fault(sweep=READS)
def file_system_mounted_inside(case: Case) -> Happening:
    """Somebody shows another part of the same file system where the campaign removes its files when it is done."""
    inside = case.ours / "sets" / "inside"
    case.at_call(f"mkdir {inside}; mount --bind {case.mount}/foreign {inside}", call=READING)
    yield None
    mounts.unmount(inside)


@fault(sweep=READS)
def foreign_files_inside(case: Case) -> Happening:
    """Somebody keeps files of his own in the campaign's directory, and in that of its data sets."""
    case.stays = True
    case.at_call(f"echo x > {case.ours}/notes; echo x > {case.ours}/sets/README", call=READING)
    yield None


# its files, between two points


@fault(sweep=READS)
def set_cut_short(case: Case) -> Happening:
    between(case, lambda file: f"truncate -s 1000 {file}")
    yield None


@fault(sweep=READS)
def set_with_holes(case: Case) -> Happening:
    between(case, lambda file: f"rm {file}; truncate -s 256k {file}")
    yield None


@fault(sweep=READS)
def set_deleted(case: Case) -> Happening:
    between(case, lambda file: f"rm {file}")
    yield None


@fault(sweep=READS)
def set_that_leads_elsewhere(case: Case) -> Happening:
    """Where the files were is a symbolic link to a directory of somebody else."""
    between(case, lambda file: f"rm -r $(dirname {file}); ln -s {case.beside} $(dirname {file})")
    yield None


def between(case: Case, harm: Callable[[str], str]) -> None:
    file = f"{case.ours}/sets/fio-read-256k-1/0.0"
    case.at_call(f'"$fio" "$@"; code=$?; {harm(file)}; exit $code', nth=1, call=READING)


# no answer


@fault(sweep=ONE, on=mounts.fuse, target=IMPATIENT, still=False)
def target_hangs(case: Case) -> Happening:
    os.kill(mounts.server(case.mount), signal.SIGSTOP)
    yield None
    os.kill(mounts.server(case.mount), signal.SIGCONT)
    case.reset(**PATIENTLY)


@fault(on=mounts.fuse, target=IMPATIENT, still=False)
def target_hangs_between(case: Case) -> Happening:
    case.at_call(f'"$fio" "$@"; code=$?; kill -STOP {mounts.server(case.mount)}; exit $code', nth=1)
    yield None
    os.kill(mounts.server(case.mount), signal.SIGCONT)
    case.reset(**PATIENTLY)


@fault(on=mounts.fuse, target=IMPATIENT, limits=QUICKLY, still=False)
def target_hangs_under_a_tool(case: Case) -> Happening:
    case.at_call(f"kill -STOP {mounts.server(case.mount)}")
    yield None
    os.kill(mounts.server(case.mount), signal.SIGCONT)
    case.reset(**PATIENTLY)


@fault(sweep=ONE, target=IMPATIENT, still=False)
def frozen(case: Case) -> Happening:
    mounts.run("fsfreeze", "-f", str(case.mount))
    yield None
    mounts.run("fsfreeze", "-u", str(case.mount))
    case.reset(**PATIENTLY)


@fault(target=IMPATIENT, limits=QUICKLY, still=False)
def writers_that_cannot_be_killed(case: Case) -> Happening:
    """They wait in the kernel (state D) until the file system lets them go."""
    case.at_call(f"fsfreeze -f {case.mount}")
    yield None
    mounts.run("fsfreeze", "-u", str(case.mount))
    case.reset(**PATIENTLY)
