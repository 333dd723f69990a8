"""Reads spack.yaml: what to build, and where. Runs no command."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import orjson

from iosweep.config.yaml_lines import Document, load
from iosweep.errors import ConfigError, Problem
from iosweep.programs.spack.packages import Lock
from iosweep.text import printable, shortened

#: Name of the packages repository in Spack's configuration.
BUILTIN = "builtin"
#: Taken from the system where it has them, each as its own external: they only build. Everything that becomes part of
#: the measured programs is built, or is an external that spack.yaml names.
BUILD_TOOLS = (
    *("autoconf", "automake", "bison", "cmake", "diffutils", "file", "findutils", "flex", "gawk", "gettext", "gmake"),
    *("libtool", "m4", "perl", "pkgconf", "python", "tar", "texinfo"),
)
#: Characters that Spack, configure scripts or make misinterpret in a build path.
_NO_PATH = re.compile(r"""[\s$~"'`\\:;&|<>(){}*?!#%=,]""")
#: The part of a spec before its variants: `ior@4.0.0`.
_NAME = re.compile(r"[A-Za-z0-9_.-]+(@=?[\w.:,-]+)?")


@dataclass(frozen=True)
class Pin:
    """A state of a git repository. `commit`: the commit that `ref` must be, if known."""

    url: str
    ref: str
    commit: str | None = None

    @property
    def by_commit(self) -> bool:
        """Whether `ref` is a commit instead of a tag."""
        return self.ref == self.commit


@dataclass(frozen=True)
class Environment:
    """The content of spack.yaml.

    repository: the packages repository, or the site's own directory; alone: whether Spack reads no other configuration
    (`include::`); lacking: externals that do not exist.
    """

    file: Path
    specs: tuple[str, ...]
    repository: Pin | Path
    digest: str
    alone: bool = False
    lacking: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Place:
    """Directories below `tools.directory`. `root` is as configured; Spack gets absolute paths."""

    root: Path
    digest: str

    @property
    def build(self) -> Path:
        """The directory of this spack.yaml; the others are shared."""
        return self.root / self.digest

    @property
    def file(self) -> Path:
        """The build document, which jobs read."""
        return self.build / "tools.json"

    @property
    def script(self) -> Path:
        """Puts the tools on PATH of an interactive shell."""
        return self.build / "env.sh"

    @property
    def environment(self) -> Path:
        """Spack's environment: a copy of spack.yaml, and its lock."""
        return self.build / "environment"

    @property
    def log(self) -> Path:
        """All commands of the build, with their output."""
        return self.root / "logs" / f"{self.digest}.log"


def read(file: Path) -> Environment:
    """Read a spack.yaml. Raises ConfigError."""
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


def _lacking(document: Document, spack: Mapping[str, object]) -> Iterator[Problem]:
    """Externals whose prefix is not a directory: Spack does not check it, and packages that need them fail to build."""
    packages = spack.get("packages")
    for name, package in packages.items() if isinstance(packages, dict) else ():
        externals = package.get("externals") if isinstance(package, dict) else None
        for index, external in enumerate(externals if isinstance(externals, list) else ()):
            prefix = external.get("prefix") if isinstance(external, dict) else None
            if isinstance(prefix, str) and prefix.startswith("/") and not Path(prefix).is_dir():
                path = ("spack", "packages", name, "externals", index, "prefix")
                yield document.problem(path, f"{prefix} is not a directory; write where {name} is installed")


def _repository(document: Document, spack: Mapping[str, object], problems: list[Problem]) -> Pin | Path | None:
    """The packages repository. Spack itself ignores its pin once there is a clone."""
    key = "repos:" if "repos:" in spack else "repos"
    repos = spack.get(key)
    path = ("spack", key, BUILTIN)
    builtin = repos.get(BUILTIN) if isinstance(repos, dict) else None
    if isinstance(builtin, str):
        if builtin.startswith("/"):
            return Path(builtin)
        problems.append(document.problem(path, f"`{shortened(builtin)}` is relative; write the whole path"))
    elif isinstance(builtin, dict) and isinstance(builtin.get("git"), str) and builtin["git"]:
        tag, commit = builtin.get("tag"), builtin.get("commit")
        if isinstance(tag, str) and re.fullmatch(r"[\w.][\w./-]*", tag) and ".." not in tag and commit is None:
            return Pin(builtin["git"], tag)
        if isinstance(commit, str) and re.fullmatch("[0-9a-f]{40}", commit) and tag is None:
            return Pin(builtin["git"], commit, commit)
        wrong = "pin it with `tag:`, or with `commit:` and its 40 digits in quotes (a branch is another one tomorrow)"
        problems.append(document.problem(path, wrong))
    else:
        wrong = "is missing: the packages that are built; write {git: <address>, tag: <release>}"
        problems.append(document.problem(path, wrong))
    return None


def _included(document: Document, spack: Mapping[str, object], problems: list[Problem]) -> list[Path]:
    """The files that spack.yaml includes, if they are on this machine."""
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
    """Why nothing can be built below a directory of this name, None if it can."""
    path = str(directory.absolute())
    if strange := _NO_PATH.search(path):
        what = "a space" if strange[0].isspace() else f"the character {strange[0]}"
        return f"{path} has {what}, with which nothing can be built; name another directory"
    if not path.isprintable():
        return f"{printable(path)} has characters that cannot be seen; name another directory"
    if len(path) > _LONGEST:
        return f"{path} is longer than {_LONGEST} characters, with which Spack's own paths get too long; name another"
    return None


#: Spack adds up to 100 characters; the first line of a script is limited to 127.
_LONGEST = 150


def scope(root: Path, packages: Path, mirror: Path | None, jobs: int) -> dict[str, dict[str, object]]:
    """Spack's configuration by file name, with precedence over all other.

    packages: the directory with repo.yaml; mirror: the only place that sources come from, if given; jobs: number of
    compilers that run at the same time.
    """
    config = {
        "install_tree": {"root": str(root / "store")},
        "build_stage:": [str(root / "stage")],  # the colon: no fallback
        "source_cache": str(root / "sources"),
        "misc_cache": str(root / "cache"),
        "connect_timeout": 10,  # seconds; Spack's own is 30, and there are three addresses for each source
        "build_jobs": jobs,
    }
    found: dict[str, dict[str, object]] = {
        "config.yaml": {"config": config},
        "repos.yaml": {"repos": {BUILTIN: str(packages)}},
    }
    if mirror:  # the second colon: replaces all others
        found["mirrors.yaml"] = {"mirrors:": {"iosweep": mirror.absolute().as_uri()}}
    return found


def stale(specs: Sequence[str], lock: Lock) -> str | None:
    """Why a lock does not belong to these specs, None if it does. Spack would install an outdated lock silently."""
    if any("$" in spec for spec in specs) or not specs:
        return None  # a site's lists, which only Spack can expand
    wanted = sorted(map(_head, specs))
    locked = sorted(_head(root.spec) for root in lock.roots)
    if wanted == locked:
        return None
    return f"it has {', '.join(locked) or 'nothing'}, but spack.yaml asks for {', '.join(wanted)}"


def _head(spec: str) -> str:
    found = _NAME.match(spec.strip())
    return found[0].replace("@=", "@") if found else spec
