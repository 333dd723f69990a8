"""Builds the tools of a spack.yaml: finds Spack and packages, concretizes, installs, verifies, writes tools.json."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import orjson

from iosweep.errors import BuildError
from iosweep.files import documents, safe_paths
from iosweep.programs.spack import build_tools, checkouts, failures, packages, shell, verify
from iosweep.programs.spack.checkouts import Packages, Spack
from iosweep.programs.spack.packages import Lock, Package, Spec
from iosweep.programs.spack.request import Request
from iosweep.programs.spack.shell import Done, Shell
from iosweep.programs.spack.spack_yaml import BUILD_TOOLS, Place, scope, stale
from iosweep.text import human_count
from iosweep.units import human_duration

#: Time limits of the steps in seconds: a small machine builds MPICH in an hour.
_FIND_S, _CONCRETIZE_S, _INSTALL_S, _LIST_S = 600.0, 3600.0, 24 * 3600.0, 300.0
_INSTALLING = re.compile(r"==> Installing (?P<name>\S+?)-(?P<version>\d\S*)-[a-z0-9]{32}(?: \[(?P<which>\d+/\d+)\])?")


def build(asked: Request, say: Callable[[str], None]) -> bool:
    """Build and verify the tools, and write tools.json and env.sh. Returns whether these changed.

    Raises BuildError; finished packages stay, and the next run continues from there.
    """
    place = asked.place
    root = place.root.absolute()
    began = time.monotonic()
    with _directories(place, say) as lock, place.log.open("w", encoding="utf-8") as log:
        session = _Session(asked, Shell(log, say, [lock]), root)
        document = session.build()
        changed = _write(place, document)
    what = "built and verified" if changed else "as they were"
    say(f"{what} after {human_duration(time.monotonic() - began)}: {place.file}")
    return changed


@contextmanager
def _directories(place: Place, say: Callable[[str], None]) -> Iterator[int]:
    """Make the directories and lock them, so that one process builds at a time.

    Yields the lock's handle for the commands, which keep the lock if we are killed. Raises BuildError.
    """
    try:
        for directory in (place.environment, place.log.parent):
            directory.mkdir(parents=True, exist_ok=True)
        with (place.root / "lock").open("a", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting for another process that builds in {place.root}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            except OSError:  # a file system without locks
                pass
            yield lock.fileno()
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise BuildError(failures.NO_SPACE) from None
        raise BuildError(
            f"{error.filename or place.root} cannot be made or written ({error.strerror or error}); name another"
            " tools.directory, or fix its permissions"
        ) from None


class _Session:
    """One build; the steps are in the order of `build`."""

    def __init__(self, asked: Request, run: Shell, root: Path):
        self._asked, self._shell, self._root = asked, run, root
        self._environment = shell.environment(os.environ, root)
        self._copy = asked.place.environment.absolute()
        self._scope = root / "scope"
        # Exists for a lock that we made: what the system offered then, and whether the build finished.
        self._decided = self._copy / "decided"

    def build(self) -> dict[str, object]:
        """Build, and return the content of tools.json. Raises BuildError."""
        asked = self._asked
        spack = checkouts.spack(self._shell, asked.spack, self._root, asked.mirror, self._environment)
        self._shell.note(f"Spack {spack.version}{_at(spack)}")
        if not asked.environment.alone and (read := own_configuration(spack.path)):
            self._shell.note(f"note: {read} is read as well; `include:: []` in spack.yaml leaves it out")
        wanted = asked.environment.repository
        repository = checkouts.packages(self._shell, wanted, self._root, asked.mirror, self._environment)
        self._shell.note(f"packages {repository.pin or 'repository'}{_at(repository)}")
        write_scope(self._scope, scope(self._root, repository.directory, asked.mirror, _compilers()))
        self._command: list[str | Path] = [spack.program, "--color", "never", "-C", self._scope, "-e", self._copy]
        self._concretize()
        self._install()
        found = self._installed()
        path = packages.bin_directories(found)
        roots = {package.name for package in found if package.explicit}
        verified = verify.verify(path, roots, asked.engines, self._root / "scratch")
        self._shell.note(_words(verified))
        for doubt in verify.doubts(verified, found, asked.tools):
            self._shell.note(f"note: {doubt}")
        described, mpi = verify.documents(verified, found)
        copy, lock = ((self._copy / name).read_bytes() for name in ("spack.yaml", "spack.lock"))
        explicit = [package for package in found if package.explicit]
        ours = [package for package in explicit if not package.external] or explicit
        return {
            "provider": "spack",
            "tools": described,
            "mpi": mpi,
            "path": list(map(str, path)),
            "store": str(self._root / "store"),
            "environment": {
                "file": asked.environment.file.name,
                "digest": asked.environment.digest,
                "file_sha256": hashlib.sha256(copy).hexdigest(),
                "lock_sha256": hashlib.sha256(lock).hexdigest(),
            },
            "spack": spack.document(),
            "repository": repository.document(),
            "compiler": ", ".join(sorted({package.compiler for package in ours if package.compiler})) or None,
            "target": ", ".join(sorted({package.target for package in ours})),
            "os": next((package.os for package in found), None),
            "packages": [package.stored() for package in found],
        }

    def _run(self, timeout_s: float, *arguments: str, on_line: Callable[[str], None] = lambda line: None) -> str:
        """Standard output of a command of Spack. Raises BuildError."""
        done = self._shell.run([*self._command, *arguments], timeout_s, self._environment, on_line)
        if done.exit_code != 0:
            raise BuildError(self._why(done))
        return done.stdout

    def _why(self, done: Done) -> str:
        """Why a command of Spack failed."""
        copy = self._copy / "spack.yaml"
        text = copy.read_text(encoding="utf-8", errors="replace") if copy.exists() else ""
        return failures.why(done, str(self._asked.environment.file), text)

    def _concretize(self) -> None:
        """Concretize, unless there is a lock, which stays so that a build can be repeated.

        A lock whose build never finished is replaced if the system has changed since: a missing package may have been
        installed.
        """
        specs, lock, copy = self._asked.environment.specs, self._copy / "spack.lock", self._copy / "spack.yaml"
        offered = build_tools.offered(self._environment.get("PATH", os.defpath))
        if lock.exists() and (why := self._outdated(offered)):
            self._shell.say(f"this system has changed since it was decided what is built ({why}): deciding anew")
            self._forget()
        if not (lock.exists() and copy.exists()):
            shutil.copyfile(self._asked.environment.file, copy)
        if lock.exists():
            if wrong := _unlike(specs, lock):
                raise BuildError(f"{lock} is not of {self._asked.environment.file}: {wrong}; remove it")
            self._shell.note("what is built is decided already (spack.lock)")
            return
        printed = self._run(_FIND_S, "external", "find", *BUILD_TOOLS)
        taken = re.findall(r"^([\w-]+)@([\w.]+)", printed, re.MULTILINE)
        self._shell.note(f"from this system, to build with: {', '.join(f'{n} {v}' for n, v in taken) or 'nothing'}")
        self._shell.note("deciding what is built (concretize): one to four minutes")
        try:
            self._run(_CONCRETIZE_S, "concretize")
            wrong = _unlike(specs, lock) if lock.exists() else "there is none"
            if wrong:
                raise BuildError(f"spack.lock is not of {self._asked.environment.file}: {wrong}")
            if wrong := packages.unfit_version(self._lock()):
                raise BuildError(wrong)
        except BaseException:  # an incomplete lock is useless
            lock.unlink(missing_ok=True)
            raise
        self._decided.write_bytes(orjson.dumps({"offered": offered, "built": False}))
        if instead := build_tools.built_instead(self._lock()):
            self._shell.note(f"not on this system, so Spack builds them from source: {', '.join(instead)}")

    def _outdated(self, offered: build_tools.Offered) -> str | None:
        """How the system has changed since our lock was made; None if it has not, or if the lock's build finished."""
        try:
            decided = orjson.loads(self._decided.read_bytes())
            return None if decided["built"] else build_tools.differs(decided["offered"], offered)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):  # written incompletely
            return "that record cannot be read"

    def _forget(self) -> None:
        """Remove the lock, so that the next run concretizes; built packages stay."""
        (self._copy / "spack.lock").unlink(missing_ok=True)
        self._decided.unlink(missing_ok=True)

    def _install(self) -> None:
        def show(line: str) -> None:
            if found := _INSTALLING.match(line):
                which = f"{found['which']} " if found["which"] else ""
                self._shell.say(f"building {which}{found['name']} {found['version']}")

        lock = self._lock()
        done = self._shell.run([*self._command, "install", "--only-concrete"], _INSTALL_S, self._environment, show)
        if done.exit_code == 0:
            if self._decided.exists():
                self._decided.write_bytes(orjson.dumps({"built": True}))
            return
        if failures.does_not_build(done) and self._decided.exists():
            # a package of the system may be the cause: look for a better one the next time
            self._forget()
        why = self._why(done)
        install = build_tools.to_install(lock, done.stderr + done.stdout)
        raise BuildError(f"{why}; {install}" if install else why)

    def _lock(self) -> Lock:
        return msgspec.json.decode((self._copy / "spack.lock").read_bytes(), type=Lock)

    def _installed(self) -> list[Package]:
        """The packages of the environment. Raises BuildError."""
        specs = msgspec.json.decode(self._run(_LIST_S, "find", "--json"), type=list[Spec])
        listed = self._run(_LIST_S, "find", "--format", "{hash} {prefix}")
        prefixes = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
        roots = {root.hash for root in self._lock().roots}
        found = packages.installed(specs, prefixes, roots)
        if lacking := sorted(roots - {package.hash for package in found}):
            raise BuildError(f"Spack does not list {', '.join(h[:7] for h in lacking)}, which it has installed")
        if elsewhere := packages.outside(self._root / "store", found):
            raise BuildError(
                f"{elsewhere} is not in {self._root / 'store'}, which is a copy, and cannot be used: paths are in the"
                f" binaries; remove {self._root}, and run it again"
            )
        for package in found:
            if not package.programs or Path(package.prefix).is_dir():
                continue
            name, version = package.name, package.version
            if not package.external:
                raise BuildError(
                    f"{package.prefix} is gone, where {name} {version} was installed; remove"
                    f" {self._root / 'store'} and {self._copy.parent}, and run it again"
                )
            raise BuildError(
                f"{name} {version} is to be in {package.prefix}, which is not a directory; is the prefix right"
                f" (packages: {name}: externals, in {self._asked.environment.file})?"
            )
        return found


def own_configuration(spack: Path) -> Path | None:
    """A configuration file in the site's Spack itself, which SPACK_DISABLE_LOCAL_CONFIG does not exclude."""
    etc = spack / "etc" / "spack"
    comes_with_it = etc / "include.yaml"  # names etc/spack/site, among others
    files = (file for place in (etc, etc / "site") for file in sorted(place.glob("*.yaml")))
    return next((file for file in files if file != comes_with_it), None)


def _unlike(specs: Sequence[str], lock: Path) -> str | None:
    """Why a lock does not belong to these specs, None if it does."""
    try:
        return stale(specs, msgspec.json.decode(lock.read_bytes(), type=Lock))
    except msgspec.DecodeError:
        return "it cannot be read"


def write_scope(directory: Path, files: Mapping[str, object]) -> None:
    """Write Spack's configuration (JSON is YAML)."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


def _compilers() -> int:
    """Number of compilers that run at the same time; limited, because this may be a shared login node."""
    return max(1, min(16, len(os.sched_getaffinity(0))))


def _at(checkout: Spack | Packages) -> str:
    commit = f" ({checkout.commit[:8]})" if checkout.commit else ""
    return f"{commit} in {checkout.path}{', changed' if checkout.changed else ''}"


def _words(verified: verify.Verified) -> str:
    """`verified: fio 3.37, ior 4.0.0, mdtest 4.0.0; 2 ranks of MPICH 5.0.1`"""
    each = sorted(verified.programs.items())
    names = ", ".join(f"{name} {program.version.removeprefix(f'{name}-')}" for name, program in each)
    if verified.mpiexec and verified.ranks:
        return f"verified: {names}; {human_count(verified.ranks, 'rank')} of MPICH {verified.mpiexec.version}"
    return f"verified: {names}; not that ranks find each other, for there is no mpiexec of MPICH with these tools"


def _write(place: Place, document: Mapping[str, object]) -> bool:
    """Write env.sh, then tools.json, which marks the build as complete. Returns whether a file changed."""
    front = shlex.quote(":".join(msgspec.convert(document["path"], list[str])))
    script = f"# The tools of {place.file.name} for a person's shell: `. {place.script}`\nexport PATH={front}:$PATH\n"
    content = documents.dump(document, indent=True)
    changed = False
    for file, data in ((place.script, script.encode()), (place.file, content)):
        if not file.exists() or file.read_bytes() != data:
            safe_paths.write(file.parent, file.name, data)
            changed = True
    return changed
