"""Faults of the disk that the results are on."""

import mounts
from faults.case import ONE, Case
from faults.registry import Happening, fault


@fault()
def results_disk_full(case: Case) -> Happening:
    case.results.mkdir(parents=True)
    with mounts.tmpfs(case.results, size="1m"):
        filler = case.results / "filler"
        case.at_call(f"cat /dev/zero > {filler} 2> /dev/null")
        yield None
        filler.unlink()
        yield None


@fault(sweep=ONE)
def results_read_only(case: Case) -> Happening:
    case.results.mkdir(parents=True)
    with mounts.tmpfs(case.results):
        case.planned = case.command()
        mounts.remount(case.results, "ro")
        yield None
        mounts.remount(case.results, "rw")
        yield None


@fault()
def results_disk_lost(case: Case) -> Happening:
    case.results.mkdir(parents=True)
    with mounts.ext4(case.results):
        case.planned = case.command()
        mounts.sync(case.results)
        case.at_call(case.python(f"import mounts, pathlib; mounts.shut_down(pathlib.Path({str(case.results)!r}))"))
        yield None
        mounts.unmount(case.results)
        mounts.mount_image(case.results)
        yield None


@fault(sweep=ONE)
def results_not_writable(case: Case) -> Happening:
    case.obey_modes()
    case.planned = case.command()
    case.results.chmod(0o555)
    yield None
    case.results.chmod(0o755)


@fault(sweep=ONE)
def scratch_is_a_mount_point(case: Case) -> Happening:
    case.planned = case.command()
    scratch, foreign = case.results / "scratch", case.place / "mounted"
    scratch.mkdir(parents=True)
    foreign.mkdir()
    (foreign / "precious").write_bytes(b"theirs")
    mounts.run("mount", "--bind", str(foreign), str(scratch))
    try:
        yield None
        assert (foreign / "precious").read_bytes() == b"theirs"
    finally:
        mounts.unmount(scratch)
    yield None


@fault()
def results_removed_in_the_middle(case: Case) -> Happening:
    case.at_call(f"rm -r {case.results}")
    yield None


@fault(sweep=ONE)
def target_file_damaged(case: Case) -> Happening:
    """Whose directory is on the target is not known any more, and that does not mean that there is none."""
    case.planned = case.command()
    (case.results / "target.json").touch()
    yield None
    (case.results / "target.json").unlink()
