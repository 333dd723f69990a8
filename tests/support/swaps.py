"""Directories of the target that are swapped, or covered by a mount, again and again while somebody works in them.

Root makes the place, one user works there, another one attacks: what they put in the place of a directory has a copy of
the marker, and links to files of the first user where a step writes, and where one deletes. Or root works, and
root mounts a directory of somebody else's there, with a copy of the marker, and with files where steps delete.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from mounts import tmpfs, unmount
from targets import OTHER, OWNER, listing

ATTACKER = OTHER + 1
#: Where the attacker may write. held: to the target, which has the sticky bit. Without it: everybody or a group may
#: write to the target, or to the directory above.
WAYS = ("held", "everybody", "group", "above")
#: What is covered by a mount.
COVERED = {"target": "", "campaign": "iosweep-c", "set": "iosweep-c/sets/s", "fresh": "iosweep-c/fresh"}
_PATIENCE_S = 600

#: Loaded as root, who may read our modules, and run as another user.
_AS = """
import ctypes, json, os, random, sys, time
from pathlib import Path
from iosweep.errors import Refused
from iosweep.target import directory, identify, removal, trees
from iosweep.target.directory import Place
os.setgroups([]); os.setgid({group}); os.setuid({user})
"""

_CLAIM = """
place = Place(sys.argv[1], directory.claim(sys.argv[1], {owner}))
(Path(trees.ensure(place, "sets/s")) / "0.0").write_bytes(b"benchmark")
print(place.uuid)
"""

#: Swaps a path for something else, a number of times; prints how often that could be done.
_ATTACK = """
path, theirs, swaps, chance = sys.argv[1], sys.argv[2], int(sys.argv[3]), random.Random(int(sys.argv[4]))

def could(what, *names):
    try:
        what(*names)
    except OSError:
        return False
    return True

done = 0
for _ in range(swaps):
    if could(os.rename, path, path + "-away"):
        done += could(os.rename, theirs, path) if chance.random() < 0.5 else could(os.symlink, theirs, path)
        time.sleep(chance.random() * 0.003)
        could(os.unlink, path) or could(os.rename, path, theirs)
        assert could(os.rename, path + "-away", path)
    time.sleep(chance.random() * 0.002)
print(done)
"""

#: Mounts one of several directories over a path, a number of times; prints how often that could be done.
_COVER = """
path, swaps, chance, theirs = sys.argv[1], int(sys.argv[2]), random.Random(int(sys.argv[3])), sys.argv[4:]
libc = ctypes.CDLL(None)
BIND, DETACH = 0x1000, 2
done, end = 0, time.monotonic() + 300
while done < swaps and time.monotonic() < end:
    if libc.mount(chance.choice(theirs).encode(), path.encode(), None, BIND, None) == 0:  # else it is removed just now
        done += 1
        time.sleep(chance.random() * 0.01)
        assert libc.umount2(path.encode(), DETACH) == 0
    time.sleep(chance.random() * 0.003)
print(done)
"""

#: Works as the runner does until the attacker is done: with a tool that opens files by path, where nobody misleads it;
#: else through handles alone; where only root could cover directories, with a removal of all that is claimed again.
_WORK = """
place, over, steps, refused, wrote = Place(sys.argv[1], sys.argv[2]), sys.argv[3], 0, 0, 0
mine = {owner} | {"uuid": place.uuid}
by = sys.argv[4]
covered = by == "covered"
if covered:
    target = os.path.dirname(place.directory)
    place = place._replace(file_system=identify.identity(identify.identify(target)))

def tool():
    global wrote
    directory.check(place)
    for name in ("sets/s/0.0", "fresh/p/0.0"):
        with open(f"{place.directory}/{name}", "r+b" if name.startswith("sets") else "wb") as file:
            file.write(b"benchmark")
    wrote += 1

def all_again():
    global wrote
    directory.claim(place.directory, mine)  # it may be gone since the last time
    with directory.Opened(place) as ours, ours.below("sets/s/deep", create=True) as inner:
        os.close(os.open("0.0", os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, dir_fd=inner))
        wrote += 1
    removal.remove_all(place)
    directory.claim(place.directory, mine)
    trees.ensure(place, "sets/s")

todo = [
    lambda: trees.ensure(place, "fresh/p"),
    lambda: trees.examine(place, [trees.Look("sets/s", ["0.0"], 9, False)]),
    *{"tool": [tool], "handles": [], "covered": [all_again]}[by],
    lambda: directory.state(place, data=not covered),
    lambda: trees.count(place, "sets"),
    lambda: trees.keep(place, "fresh/p", "p"),
    lambda: removal.remove(place, "kept"),
    lambda: removal.remove(place, "fresh"),
    lambda: trees.usage(place),
]
print("ready", flush=True)
sys.stdin.readline()
while not os.path.exists(over) or steps < 30 * len(todo):
    try:
        todo[steps % len(todo)]()
    except (Refused, OSError):
        refused += 1
    steps += 1
print(json.dumps([steps, refused, wrote]))
"""


class Outcome(NamedTuple):
    """swapped: swaps that could be done. Of who worked: steps, those that were refused, and how often files were
    written. harmed: whether anything of theirs beside the target has changed."""

    swapped: int
    steps: int
    refused: int
    wrote: int
    harmed: bool


def attack(place: Path, way: str, swaps: int, seed: int) -> Outcome:
    """Let one user attack while another one works. `place`: an empty directory that every user may enter."""
    above, home = place / "above", place / "home"
    target = above / "target"
    ours, over = target / "iosweep-c", place / "over"
    target.mkdir(parents=True)
    target.chmod(0o1777)
    theirs = _precious(home)
    uuid = _start(OTHER, OTHER, _CLAIM.replace("{owner}", repr(OWNER)), ours).communicate()[0].strip()
    before = listing(home)
    path, swapped_in = _planted(place, way, ours, theirs)

    def begin() -> subprocess.Popen[str]:
        if way == "above":
            os.chown(target, OTHER, OTHER)
        modes = {"held": (target, 0o1777), "everybody": (target, 0o777), "group": (target, 0o2775)}
        shared, mode = modes.get(way, (above, 0o777))
        os.chown(shared, -1, OTHER)
        shared.chmod(mode)
        return _start(ATTACKER, OTHER, _ATTACK, path, swapped_in, swaps, seed)

    by = "tool" if way == "held" else "handles"
    counted = _both(_start(OTHER, OTHER, _work(), ours, uuid, over, by), begin, over)
    return Outcome(*counted, harmed=listing(home) != before)


def cover(place: Path, what: str, swaps: int, seed: int) -> Outcome:
    """Let root mount directories of somebody else's over one of the target, of COVERED, while root works there: of the
    same file system, and of another one. `place`: an empty directory."""
    over = place / "over"
    with tmpfs(place / "disk"):  # an overlay does not tell a copy on the same file system by its inode
        return _cover(place / "disk", over, what, swaps, seed)


def _cover(disk: Path, over: Path, what: str, swaps: int, seed: int) -> Outcome:
    target, lair = disk / "target", disk / "lair"
    ours = target / "iosweep-c"
    target.mkdir()
    uuid = _start(0, 0, _CLAIM.replace("{owner}", repr(OWNER)), ours).communicate()[0].strip()
    lair.mkdir()
    with tmpfs(lair / "other"):
        for theirs in (lair / "same", lair / "other"):
            _precious(theirs / "iosweep-c")
            (theirs / "iosweep-c" / "iosweep.json").write_bytes((ours / "iosweep.json").read_bytes())
            for path in (theirs, *theirs.rglob("*")):
                os.chown(path, 0, 0)
        before = listing(lair, all=True)
        shown = [lair / name / COVERED[what] for name in ("same", "other")]

        def begin() -> subprocess.Popen[str]:
            return _start(0, 0, _COVER, target / COVERED[what], swaps, seed, *shown)

        try:
            counted = _both(_start(0, 0, _work(), ours, uuid, over, "covered"), begin, over)
        finally:
            with contextlib.suppress(FileNotFoundError):
                unmount(target / COVERED[what])
        return Outcome(*counted, harmed=listing(lair, all=True) != before)


def _work() -> str:
    return _WORK.replace("{owner}", repr(OWNER))


def _both(working: subprocess.Popen[str], begin: Callable[[], subprocess.Popen[str]], over: Path) -> list[int]:
    """Begin an attack when the one who works is ready; returns how often it was done, and what who works counted."""
    attacking: subprocess.Popen[str] | None = None
    try:
        assert working.stdout
        assert working.stdout.readline() == "ready\n"
        attacking = begin()
        assert working.stdin
        working.stdin.write("\n")
        working.stdin.flush()
        done = int(attacking.communicate(timeout=_PATIENCE_S)[0])
        over.touch()
        return [done, *msgspec.json.decode(working.communicate(timeout=_PATIENCE_S)[0])]
    finally:
        for process in filter(None, (working, attacking)):
            process.kill()
            process.wait()


def _precious(home: Path) -> Path:
    """Files of the user who works, by the names that steps and tools use."""
    for name in ("sets/s/0.0", "fresh/p/0.0", "kept/p/0.0"):
        file = home / name
        file.parent.mkdir(parents=True)
        file.write_text(f"precious {name}")
    for path in (home, *home.rglob("*")):
        os.chown(path, OTHER, OTHER)
    return home


def _planted(place: Path, way: str, ours: Path, home: Path) -> tuple[Path, Path]:
    """What the attacker swaps, and for what: a directory with a copy of the marker, and links to another's files."""
    lair = place / "lair"
    evil = lair / "target" / "iosweep-c" if way == "above" else lair / "iosweep-c"
    evil.mkdir(parents=True)
    (evil / "iosweep.json").write_bytes((ours / "iosweep.json").read_bytes())
    (evil / "sets" / "s").mkdir(parents=True)
    (evil / "sets" / "s" / "0.0").symlink_to(home / "sets" / "s" / "0.0")
    (evil / "fresh" / "p").mkdir(parents=True)
    (evil / "fresh" / "p" / "0.0").symlink_to(home / "fresh" / "p" / "0.0")
    (evil / "kept").symlink_to(home / "kept")
    for path in (lair, *lair.rglob("*")):
        os.chown(path, ATTACKER, ATTACKER, follow_symlinks=False)
    return (ours.parent, evil.parent) if way == "above" else (ours, evil)


def _start(user: int, group: int, program: str, *arguments: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", _AS.format(user=user, group=group) + program, *map(str, arguments)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
