"""What Spack is to build (spack.yaml), and what it has built (tools.json). Starts nothing."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from iosweep.config.sweeps import Config
from iosweep.config.yaml_lines import load
from iosweep.errors import ConfigError, Problem, Unusable
from iosweep.files import documents
from iosweep.files.documents import Damaged, Document
from iosweep.files.fields import Part
from iosweep.programs.builds import BuiltMpi, BuiltProgram

#: The file of the workflow, for working directories without one.
SHIPPED = Path(__file__).parents[3] / "spack.yaml"
#: Characters that configure scripts and make take in a path.
_PATH = re.compile(r"[\w.+/@-]+")


@dataclass(frozen=True)
class Pin:
    """A state of a git repository. `ref`: a tag or a commit."""

    url: str
    ref: str


@dataclass(frozen=True)
class Environment:
    """An environment of Spack: its spack.yaml, and where it is built below `root` (tools.directory).

    `specs`: names of the packages that it asks for. `packages`: the packages repository, or a checkout of it.
    `repos`: all repositories, as spack.yaml has them. `digest`: of what spack.yaml says. `root` is as configured; Spack
    gets absolute paths.
    """

    yaml: Path
    specs: frozenset[str]
    packages: Pin | Path
    repos: Mapping[str, object]
    digest: str
    root: Path

    @property
    def file(self) -> Path:
        """The build document, which jobs read."""
        return self.root / self.digest / "tools.json"

    @property
    def directory(self) -> Path:
        """Spack's environment: a copy of spack.yaml, and its lock."""
        return self.root / self.digest / "environment"

    @property
    def log(self) -> Path:
        """All commands of the build, with their output."""
        return self.root / "logs" / f"{self.digest}.log"


def read(configured: Config) -> Environment:
    """The environment that a configuration names. Raises ConfigError."""
    tools, sweep = configured.tools, configured.documents[0]
    problems: list[Problem] = []
    if not _PATH.fullmatch(path := str(Path(tools.directory).absolute())):
        wrong = f"{path} has characters with which nothing can be built; name another directory"
        problems.append(sweep.problem(("tools", "directory"), wrong))
    if tools.environment and not os.access(tools.environment, os.R_OK):
        wrong = f"{tools.environment} cannot be read; name a spack.yaml"
        problems.append(sweep.problem(("tools", "environment"), wrong))
    if problems:
        raise ConfigError(problems)
    yaml = Path(tools.environment or "spack.yaml")
    document = load(yaml if os.access(yaml, os.R_OK) else SHIPPED)
    spack = document.data.get("spack")
    match spack:
        case {"specs": [_, *_] as specs}:
            pass
        case _:
            problems.append(document.problem(("spack", "specs"), "name what is built, for example [ior@4.0.0, fio]"))
    packages: Pin | Path = Path()
    match spack:
        case {"repos": {"builtin": str(path)}} if path.startswith("/"):
            packages = Path(path)
        case {"repos": {"builtin": {"git": str(url), "tag": str(ref)}}}:
            packages = Pin(url, ref)
        case {"repos": {"builtin": {"git": str(url), "commit": str(ref)}}}:
            packages = Pin(url, ref)
        case _:
            wrong = "write {git: <address>, tag: <release>}, or with commit:, or the whole path of a checkout"
            problems.append(document.problem(("spack", "repos", "builtin"), wrong))
    if problems:
        raise ConfigError(problems)
    digest = hashlib.sha256(msgspec.json.encode(document.data, order="deterministic")).hexdigest()[:12]
    names = frozenset(re.split(r"[^\w-]", spec.strip(), maxsplit=1)[0] for spec in specs if isinstance(spec, str))
    return Environment(Path(document.file), names, packages, spack["repos"], digest, Path(tools.directory))


class _Digest(Part, frozen=True):
    digest: str


class ToolsFile(Document, frozen=True, kw_only=True):
    """The keys of tools.json (docs/tools.md) that jobs need."""

    tools: Annotated[dict[str, BuiltProgram], Meta(min_length=1)]
    path: Annotated[tuple[str, ...], Meta(min_length=1)]
    store: str
    environment: _Digest
    mpi: BuiltMpi | None = None


@dataclass(frozen=True)
class Built:
    """The tools of one spack.yaml. `file`: the tools.json below tools.directory. `document`: all that it says."""

    file: Path
    document: Mapping[str, object]
    content: ToolsFile

    @property
    def search(self) -> str:
        """The directories where the tools are, as PATH has them."""
        return os.pathsep.join(self.content.path)

    def hashes(self) -> dict[str, str]:
        """tool -> sha256 of its binary when it was built."""
        return {name: tool.sha256 for name, tool in self.content.tools.items()}


def read_built(file: Path) -> Built | None:
    """What was built, or None where nothing is yet. `file`: tools.json. Raises Unusable."""
    try:
        document = documents.read(file)
        content = documents.fits(document, ToolsFile, file)
    except FileNotFoundError:
        return None
    except Damaged as error:
        raise Unusable(str(error), "remove it, and the next run builds the tools again") from None
    root = Path(content.store).parent
    original = root / content.environment.digest / "tools.json"
    used = [tool.path for tool in content.tools.values()] + ([content.mpi.path] if content.mpi else [])
    if gone := [path for path in used if not os.access(path, os.F_OK)]:
        raise Unusable(
            f"{gone[0]} is gone, which {original} says was built",
            f"is its file system mounted here? If it was moved or removed, remove {root}, and the next run builds anew",
        )
    return Built(original, document, content)
