"""spack.yaml: what is to be built, and where. Reads files, starts nothing."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from iosweep.config.yaml_lines import Document, load
from iosweep.errors import ConfigError, Problem
from iosweep.text import printable, shortened

#: Name of the packages repository in Spack's configuration.
BUILTIN = "builtin"
#: Taken from the system where they are there, each as its own external: they build, and nothing of them gets into
#: what is measured. What does get into it is built, or is an external that spack.yaml names.
BUILD_TOOLS = (
    *("autoconf", "automake", "bison", "cmake", "diffutils", "file", "findutils", "flex", "gawk", "gettext", "gmake"),
    *("libtool", "m4", "perl", "pkgconf", "python", "tar", "texinfo"),
)
#: What Spack itself, configure scripts or make take for something else in the path of what they build.
_NO_PATH = re.compile(r"""[\s$~"'`\\:;&|<>(){}*?!#%=,]""")
#: What tells specs apart before their variants: `ior@4.0.0`.
_NAME = re.compile(r"[A-Za-z0-9_.-]+(@=?[\w.:,-]+)?")


@dataclass(frozen=True)
class Pin:
    """A state of a git repository. `commit`: what `ref` must be, where that is known."""

    url: str
    ref: str
    commit: str | None = None

    @property
    def by_commit(self) -> bool:
        """Whether `ref` is a commit, and not a tag."""
        return self.ref == self.commit


@dataclass(frozen=True)
class Environment:
    """What spack.yaml says. `repository`: the packages' repository, or a directory that a site keeps itself. `alone`:
    it leaves out what else Spack would read (`include::`). `lacking`: externals that are not where it says."""

    file: Path
    specs: tuple[str, ...]
    repository: Pin | Path
    digest: str
    alone: bool = False
    lacking: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Place:
    """Directories below `tools.directory`. `root` is as it was configured; Spack is given absolute paths."""

    root: Path
    digest: str

    @property
    def build(self) -> Path:
        """Of this spack.yaml alone; the rest is shared."""
        return self.root / self.digest

    @property
    def file(self) -> Path:
        """What was built: the jobs read it."""
        return self.build / "tools.json"

    @property
    def script(self) -> Path:
        """For a person's shell."""
        return self.build / "env.sh"

    @property
    def environment(self) -> Path:
        """Spack's: a copy of spack.yaml, and its lock."""
        return self.build / "environment"

    @property
    def log(self) -> Path:
        """All that was run for it, with what it printed."""
        return self.root / "logs" / f"{self.digest}.log"


def read(file: Path) -> Environment:
    """Read what is to be built. Raises ConfigError."""
    document = load(file)
    spack = document.data.get("spack")
    if not isinstance(spack, dict):
        raise ConfigError([document.problem((), "there is no mapping `spack:`; is it an environment of Spack?")])
    problems: list[Problem] = []
    specs = spack.get("specs")
    if not (isinstance(specs, list) and specs):
        problems.append(document.problem(("spack", "specs"), "name what is to be built, for example [ior@4.0.0, fio]"))
    found = _repository(document, spack, problems)
    included = _included(document, spack, problems)
    if problems or found is None:
        raise ConfigError(problems)
    content = [document.data, *(path.read_bytes().decode("utf-8", "replace") for path in included)]
    digest = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()[:12]
    strings = tuple(spec for spec in specs or () if isinstance(spec, str))
    return Environment(file, strings, found, digest, "include:" in spack, tuple(_lacking(document, spack)))


def _lacking(document: Document, spack: Mapping[str, Any]) -> Iterator[Problem]:
    """Externals whose prefix is no directory: Spack believes what it is told, and what needs them fails to build."""
    packages = spack.get("packages")
    for name, package in packages.items() if isinstance(packages, dict) else ():
        externals = package.get("externals") if isinstance(package, dict) else None
        for index, external in enumerate(externals if isinstance(externals, list) else ()):
            prefix = external.get("prefix") if isinstance(external, dict) else None
            if isinstance(prefix, str) and prefix.startswith("/") and not Path(prefix).is_dir():
                path = ("spack", "packages", name, "externals", index, "prefix")
                yield document.problem(path, f"{prefix} is no directory; write where {name} is installed")


def _repository(document: Document, spack: Mapping[str, Any], problems: list[Problem]) -> Pin | Path | None:
    """The packages' repository. Spack itself does not hold on to its pin once there is a clone."""
    key = "repos:" if "repos:" in spack else "repos"
    repos = spack.get(key)
    path = ("spack", key, BUILTIN)
    said = repos.get(BUILTIN) if isinstance(repos, dict) else None
    if isinstance(said, str):
        if said.startswith("/"):
            return Path(said)
        problems.append(document.problem(path, f"`{shortened(said)}` is relative; write the whole path"))
    elif isinstance(said, dict) and isinstance(said.get("git"), str) and said["git"]:
        tag, commit = said.get("tag"), said.get("commit")
        if isinstance(tag, str) and re.fullmatch(r"[\w.][\w./-]*", tag) and ".." not in tag and commit is None:
            return Pin(said["git"], tag)
        if isinstance(commit, str) and re.fullmatch("[0-9a-f]{40}", commit) and tag is None:
            return Pin(said["git"], commit, commit)
        wrong = "pin it with `tag:`, or with `commit:` and its 40 digits in quotes (a branch is another one tomorrow)"
        problems.append(document.problem(path, wrong))
    else:
        wrong = "is missing: the packages that are built; write {git: <address>, tag: <release>}"
        problems.append(document.problem(path, wrong))
    return None


def _included(document: Document, spack: Mapping[str, Any], problems: list[Problem]) -> list[Path]:
    """Files that spack.yaml includes, as far as they are on this machine."""
    found = []
    key = "include:" if "include:" in spack else "include"
    entries = spack.get(key) or []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        path = entry.get("path") if isinstance(entry, dict) else entry
        if not isinstance(path, str) or "://" in path or path.startswith("$"):
            continue
        if not path.startswith("/"):
            wrong = f"`{shortened(path)}` is relative, and Spack reads a copy elsewhere; write the whole path"
            problems.append(document.problem(("spack", key, index), wrong))
        elif Path(path).is_file():
            found.append(Path(path))
        elif Path(path).is_dir():
            found += sorted(file for file in Path(path).glob("*.yaml") if file.is_file())
    return found


def unfit(directory: Path) -> str | None:
    """Why nothing can be built below a directory of this name, or None."""
    path = str(directory.absolute())
    if strange := _NO_PATH.search(path):
        what = "a space" if strange[0].isspace() else f"the character {strange[0]}"
        return f"{path} has {what}, with which nothing can be built; name another directory"
    if not path.isprintable():
        return f"{printable(path)} has characters that cannot be seen; name another directory"
    if len(path) > _LONGEST:
        return f"{path} is longer than {_LONGEST} characters, with which Spack's own paths get too long; name another"
    return None


#: Spack adds up to 100 characters, and the first line of a script may have 127.
_LONGEST = 150


def scope(root: Path, packages: Path, mirror: Path | None, jobs: int) -> dict[str, dict[str, Any]]:
    """Spack's configuration by file (`config.yaml`), which goes before all other. `packages`: the repository's
    directory that has repo.yaml. `mirror`: then sources come from nowhere else. `jobs`: compilers at a time."""
    config = {
        "install_tree": {"root": str(root / "store")},
        "build_stage:": [str(root / "stage")],  # and no other, if that cannot be used
        "source_cache": str(root / "sources"),
        "misc_cache": str(root / "cache"),
        "connect_timeout": 10,  # seconds; Spack's own is 30, and there are three addresses for each source
        "build_jobs": jobs,
    }
    found: dict[str, dict[str, Any]] = {
        "config.yaml": {"config": config},
        "repos.yaml": {"repos": {BUILTIN: str(packages)}},
    }
    if mirror:  # the second colon: instead of all others
        found["mirrors.yaml"] = {"mirrors:": {"iosweep": mirror.absolute().as_uri()}}
    return found


def stale(specs: Sequence[str], lock: Mapping[str, Any]) -> str | None:
    """Why a lock is not one of these specs, or None. Spack itself installs an old lock, and says that all is well."""
    if any("$" in spec for spec in specs) or not specs:
        return None  # lists of a site: what they stand for only Spack knows
    wanted = sorted(map(_head, specs))
    locked = sorted(_head(str(root.get("spec", ""))) for root in lock.get("roots", ()))
    if wanted == locked:
        return None
    return f"it has {', '.join(locked) or 'nothing'}, and {', '.join(wanted)} is asked for"


def _head(spec: str) -> str:
    found = _NAME.match(spec.strip())
    return found[0].replace("@=", "@") if found else spec
