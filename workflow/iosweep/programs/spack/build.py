"""From spack.yaml to binaries that run: which Spack, which packages, concretize, install, verify, tools.json."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from iosweep.files import documents, safe_paths
from iosweep.programs.spack import build_tools, checkouts, failures, shell, verify
from iosweep.programs.spack.checkouts import Packages, Spack
from iosweep.programs.spack.request import Request
from iosweep.programs.spack.shell import Done, Failed, Shell
from iosweep.programs.spack.spack_yaml import BUILD_TOOLS, Place, scope, stale
from iosweep.text import human_count
from iosweep.tools import tools
from iosweep.units import human_duration

#: Limits of time for one step, in seconds: a small machine builds MPICH in an hour.
_FIND_S, _CONCRETIZE_S, _INSTALL_S, _LIST_S = 600.0, 3600.0, 24 * 3600.0, 300.0
_INSTALLING = re.compile(r"==> Installing (?P<name>\S+?)-(?P<version>\d\S*)-[a-z0-9]{32}(?: \[(?P<which>\d+/\d+)\])?")


def build(asked: Request, say: Callable[[str], None]) -> bool:
    """Build the tools, verify them, and write tools.json and env.sh; whether that changed something.

    Raises Failed; what is built by then stays, and the next run goes on from there.
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
    """Make the directories and hold them: one builds at a time. The lock's handle, for what is started: were we killed,
    it builds on. Raises Failed."""
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
            raise Failed(failures.NO_SPACE) from None
        raise Failed(
            f"{error.filename or place.root} cannot be made or written ({error.strerror or error}); name another"
            " tools.directory, or fix its permissions"
        ) from None


class _Session:
    """One build. Its steps in the order of `build`."""

    def __init__(self, asked: Request, run: Shell, root: Path):
        self._asked, self._shell, self._root = asked, run, root
        self._environment = shell.environment(os.environ, root)
        self._copy = asked.place.environment.absolute()
        self._scope = root / "scope"
        # The lock is ours, and not one that a result kept: what the system offered, and whether it was built.
        self._decided = self._copy / "decided"

    def build(self) -> dict[str, Any]:
        """tools.json."""
        asked = self._asked
        spack = checkouts.spack(self._shell, asked.spack, self._root, asked.mirror, self._environment)
        self._shell.note(f"Spack {spack.version}{_at(spack)}")
        if not asked.environment.alone and (read := own_configuration(spack.path)):
            self._shell.note(f"note: {read} is read as well; `include:: []` in spack.yaml leaves it out")
        wanted = asked.environment.repository
        packages = checkouts.packages(self._shell, wanted, self._root, asked.mirror, self._environment)
        self._shell.note(f"packages {packages.pin or 'repository'}{_at(packages)}")
        write_scope(self._scope, scope(self._root, packages.directory, asked.mirror, _compilers()))
        self._command: list[str | Path] = [spack.program, "--color", "never", "-C", self._scope, "-e", self._copy]
        self._concretize()
        self._install()
        found = self._installed()
        path = _path(found)
        roots = {package["name"] for package in found if package["explicit"]}
        verified = verify.verify(path, roots, asked.engines, self._root / "scratch")
        self._shell.note(_words(verified))
        for doubt in verify.doubts(verified, found, asked.tools):
            self._shell.note(f"note: {doubt}")
        described, mpi = verify.documents(verified, found)
        lock = (self._copy / "spack.lock").read_bytes()
        ours = [p for p in found if p["explicit"] and not p["external"]] or [p for p in found if p["explicit"]]
        return {
            "provider": "spack",
            "tools": described,
            "mpi": mpi,
            "path": list(map(str, path)),
            "store": str(self._root / "store"),
            "environment": {
                "file": asked.environment.file.name,
                "digest": asked.environment.digest,
                "lock_sha256": hashlib.sha256(lock).hexdigest(),
            },
            "spack": spack.document(),
            "repository": packages.document(),
            "compiler": ", ".join(sorted({p["compiler"] for p in ours if p["compiler"]})) or None,
            "target": ", ".join(sorted({p["target"] for p in ours})),
            "os": next((package["os"] for package in found), None),
            "packages": [
                {key: value for key, value in package.items() if key not in ("provides_mpi", "os")} for package in found
            ],
        }

    def _run(self, timeout_s: float, *arguments: str, on_line: Callable[[str], None] = lambda line: None) -> str:
        """What a command of Spack prints. Raises Failed."""
        done = self._shell.run([*self._command, *arguments], timeout_s, self._environment, on_line)
        if done.exit_code != 0:
            raise Failed(self._why(done))
        return done.stdout

    def _why(self, done: Done) -> str:
        """Why a command of Spack failed."""
        copy = self._copy / "spack.yaml"
        text = copy.read_text(encoding="utf-8", errors="replace") if copy.exists() else ""
        return failures.why(done, str(self._asked.environment.file), text)

    def _concretize(self) -> None:
        """Decide what is built, unless that is decided: a lock stays, so that a build can be repeated.

        One that was never built does not stay when the system offers something else: a package may have been installed
        because it was missing.
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
                raise Failed(f"{lock} is not of {self._asked.environment.file}: {wrong}; remove it")
            self._shell.note("what is built is decided already (spack.lock)")
            return
        said = self._run(_FIND_S, "external", "find", *BUILD_TOOLS)
        taken = re.findall(r"^([\w-]+)@([\w.]+)", said, re.MULTILINE)
        self._shell.note(f"from this system, to build with: {', '.join(f'{n} {v}' for n, v in taken) or 'nothing'}")
        self._shell.note("deciding what is built (concretize): one to four minutes")
        try:
            self._run(_CONCRETIZE_S, "concretize")
            wrong = _unlike(specs, lock) if lock.exists() else "there is none"
            if wrong:
                raise Failed(f"spack.lock is not of {self._asked.environment.file}: {wrong}")
            if wrong := unfit_version(json.loads(lock.read_bytes())):
                raise Failed(wrong)
        except BaseException:  # half of a lock is none
            lock.unlink(missing_ok=True)
            raise
        self._decided.write_bytes(orjson.dumps({"offered": offered, "built": False}))
        if instead := build_tools.built_instead(json.loads(lock.read_bytes())):
            self._shell.note(f"not on this system, so Spack builds them from source: {', '.join(instead)}")

    def _outdated(self, offered: build_tools.Offered) -> str | None:
        """What the system offers now and did not when a lock of ours was made that was never built; else None."""
        try:
            decided = orjson.loads(self._decided.read_bytes())
            return None if decided["built"] else build_tools.differs(decided["offered"], offered)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):  # half of it was written
            return "that record cannot be read"

    def _forget(self) -> None:
        """Have it decided anew what is built; what was built stays."""
        (self._copy / "spack.lock").unlink(missing_ok=True)
        self._decided.unlink(missing_ok=True)

    def _install(self) -> None:
        def tell(line: str) -> None:
            if found := _INSTALLING.match(line):
                which = f"{found['which']} " if found["which"] else ""
                self._shell.say(f"building {which}{found['name']} {found['version']}")

        lock = json.loads((self._copy / "spack.lock").read_bytes())
        done = self._shell.run([*self._command, "install", "--only-concrete"], _INSTALL_S, self._environment, tell)
        if done.exit_code == 0:
            if self._decided.exists():
                self._decided.write_bytes(orjson.dumps({"built": True}))
            return
        if failures.does_not_build(done) and self._decided.exists():
            # something of the system was taken that will not do: what is mended there is to be found the next time
            self._forget()
        why = self._why(done)
        install = build_tools.to_install(lock, done.stderr + done.stdout)
        raise Failed(f"{why}; {install}" if install else why)

    def _installed(self) -> list[dict[str, Any]]:
        """The packages of tools.json, and beside its keys `os` and `provides_mpi`. Raises Failed."""
        specs = json.loads(self._run(_LIST_S, "find", "--json"))
        listed = self._run(_LIST_S, "find", "--format", "{hash} {prefix}")
        prefixes = dict(line.split(" ", 1) for line in listed.splitlines() if " " in line)
        roots = {root["hash"] for root in json.loads((self._copy / "spack.lock").read_bytes())["roots"]}
        found = packages_of(specs, prefixes, roots)
        if lacking := sorted(roots - {package["hash"] for package in found}):
            raise Failed(f"Spack does not list {', '.join(h[:7] for h in lacking)}, which it has installed")
        if elsewhere := not_in(self._root / "store", found):
            raise Failed(
                f"{elsewhere} is not in {self._root / 'store'}, which is a copy, and cannot be used: paths are in the"
                f" binaries; remove {self._root}, and run it again"
            )
        for package in found:
            if (package["explicit"] or package["provides_mpi"]) and not Path(package["prefix"]).is_dir():
                name, version = package["name"], package["version"]
                if not package["external"]:
                    raise Failed(
                        f"{package['prefix']} is gone, where {name} {version} was installed; remove"
                        f" {self._root / 'store'} and {self._copy.parent}, and run it again"
                    )
                raise Failed(
                    f"{name} {version} is to be in {package['prefix']}, which is no directory; is the prefix right"
                    f" (packages: {name}: externals, in {self._asked.environment.file})?"
                )
        return found


def not_in(store: Path, packages: Sequence[Mapping[str, Any]]) -> str | None:
    """The first prefix of what was built that is not below a directory; None if all are: a copy of the directory knows
    only where the original is."""
    ours = [package["prefix"] for package in packages if not package["external"]]
    return next((prefix for prefix in ours if not Path(prefix).resolve().is_relative_to(store.resolve())), None)


def unfit_version(lock: Mapping[str, Any]) -> str | None:
    """Which tool would be built in a version that cannot be used, in a sentence; None if none. Pure."""
    for root in lock["roots"]:
        spec = lock["concrete_specs"][root["hash"]]
        tool = tools().get(spec["name"])
        if tool and (wrong := tool.unfit(spec["version"])):
            return (
                f"`{root['spec']}` in specs is {spec['name']} {spec['version']} to Spack, which cannot be used: {wrong}"
            )
    return None


def own_configuration(spack: Path) -> Path | None:
    """A file of configuration that a site has put into its Spack; SPACK_DISABLE_LOCAL_CONFIG does not leave it out."""
    etc = spack / "etc" / "spack"
    comes_with_it = etc / "include.yaml"  # names etc/spack/site, among others
    files = (file for place in (etc, etc / "site") for file in sorted(place.glob("*.yaml")))
    return next((file for file in files if file != comes_with_it), None)


def packages_of(
    specs: Sequence[Mapping[str, Any]], prefixes: Mapping[str, str], roots: Collection[str]
) -> list[dict[str, Any]]:
    """Packages by name, from `find --json`. prefixes: hash -> directory. roots: hashes of what was asked for. Pure."""
    by_hash = {spec["hash"]: spec for spec in specs}
    needed = [(spec["hash"], need) for spec in specs for need in spec.get("dependencies", ())]
    mpi = {need["hash"] for _, need in needed if "mpi" in need["parameters"]["virtuals"]}
    compilers = {
        user: f"{by_hash[need['hash']]['name']}@{by_hash[need['hash']]['version']}"
        for user, need in needed
        if "c" in need["parameters"]["virtuals"] and need["hash"] in by_hash
    }
    found = [
        {
            "name": spec["name"],
            "version": spec["version"],
            "hash": spec["hash"],
            "variants": {k: v for k, v in spec["parameters"].items() if v != []},
            "target": _target(spec["arch"]["target"]),
            "os": spec["arch"]["platform_os"],
            "compiler": compilers.get(spec["hash"]),
            "external": (spec.get("external") or {}).get("path"),
            "prefix": prefixes.get(spec["hash"], ""),
            "explicit": spec["hash"] in roots,
            "provides_mpi": spec["hash"] in mpi,
        }
        for spec in specs
    ]
    return sorted(found, key=lambda package: (package["name"], package["hash"]))


def _target(target: Any) -> str:
    """A processor's own target is a mapping."""
    return str(target["name"] if isinstance(target, dict) else target)


def _path(packages: Sequence[Mapping[str, Any]]) -> list[Path]:
    """Directories of programs: what was built goes before what a site has."""
    wanted = [p for p in packages if p["explicit"] or p["provides_mpi"]]
    ordered = sorted(wanted, key=lambda package: package["external"] is not None)
    found = [Path(package["prefix"]) / "bin" for package in ordered]
    return [path for path in dict.fromkeys(found) if path.is_dir()]


def _unlike(specs: Sequence[str], lock: Path) -> str | None:
    """Why a lock is not one of these specs, or None."""
    try:
        return stale(specs, orjson.loads(lock.read_bytes()))
    except (orjson.JSONDecodeError, AttributeError, TypeError):
        return "it cannot be read"


def write_scope(directory: Path, files: Mapping[str, Any]) -> None:
    """Spack's configuration. JSON is YAML."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name, content in files.items():
        (directory / name).write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


def _compilers() -> int:
    """At a time. This may be a login node, where others work, too."""
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


def _write(place: Place, document: Mapping[str, Any]) -> bool:
    """Write env.sh and then tools.json, which says that all is there; not where it is there word for word."""
    front = shlex.quote(":".join(document["path"]))
    script = f"# The tools of {place.file.name} for a person's shell: `. {place.script}`\nexport PATH={front}:$PATH\n"
    content = documents.dump(document, indent=True)
    changed = False
    for file, data in ((place.script, script.encode()), (place.file, content)):
        if not file.exists() or file.read_bytes() != data:
            safe_paths.write(file.parent, file.name, data)
            changed = True
    return changed
