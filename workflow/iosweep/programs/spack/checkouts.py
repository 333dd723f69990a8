"""Which Spack builds, and from which packages: a site's own, or clones that are held to their pins.

Spack would clone the packages itself; but it does not hold on to their pin, and a clone that fails once makes all that
follows fail with a misleading error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iosweep.config.yaml_lines import load
from iosweep.errors import ConfigError
from iosweep.programs.spack import failures
from iosweep.programs.spack.shell import Failed, Shell
from iosweep.programs.spack.spack_yaml import Pin

#: The release that this was tried with, and what its tag stands for.
SPACK = Pin("https://github.com/spack/spack.git", "v1.1.0", "2e907202bcc8209a6a62243aab50c179b524cc3b")
#: Before it, what spack.yaml says went before what we say (-C), and Spack cloned the packages by itself.
OLDEST = (1, 1)
#: Limits of time, in seconds: to answer at all, to be copied, to say something of a checkout.
_ANSWER_S, _CLONE_S, _SAY_S = 20.0, 3600.0, 60.0


@dataclass(frozen=True)
class Spack:
    """A Spack that is there. `commit`: None where it is no checkout of git; `changed`: files in it are not that."""

    program: Path
    path: Path
    version: str
    commit: str | None
    changed: bool

    def document(self) -> dict[str, Any]:
        return {"path": str(self.path), "version": self.version, "commit": self.commit, "changed": self.changed}


@dataclass(frozen=True)
class Packages:
    """A checkout of the packages' repository. `directory`: the part of it that Spack is told."""

    path: Path
    directory: Path
    pin: str | None
    commit: str | None
    changed: bool

    def document(self) -> dict[str, Any]:
        return {"path": str(self.path), "pin": self.pin, "commit": self.commit, "changed": self.changed}


def own(configured: str | None, environment: Mapping[str, str]) -> tuple[Path, str] | None:
    """(program, who names it) of the Spack that a site has: the configured one, that of SPACK_ROOT, that on PATH.

    None where there is none. Raises Failed where the first of these that is named has no Spack.
    """
    named = ("tools.spack", configured), ("SPACK_ROOT", environment.get("SPACK_ROOT"))
    for name, directory in named:
        if directory:
            program = Path(directory).absolute() / "bin" / "spack"
            if os.access(program, os.X_OK):
                return program, name
            raise Failed(f"{name}: {directory} has no bin/spack; name the directory that Spack was cloned to")
    found = shutil.which("spack", path=environment.get("PATH"))
    return (Path(found).absolute(), "PATH") if found else None


def spack(shell: Shell, configured: str | None, root: Path, mirror: Path | None, env: Mapping[str, str]) -> Spack:
    """The Spack that builds; cloned where a site has none. `env`: for git and Spack. Raises Failed."""
    program, named = own(configured, os.environ) or (None, "")
    if program is None:
        program = pinned(shell, root, mirror, env) / "bin" / "spack"
    done = shell.run([program, "--version"], _SAY_S, env)
    version = re.match(r"(\d+)\.(\d+)\S*", done.stdout)
    if done.exit_code != 0 or not version:
        raise Failed(f"{program} does not say its version (Spack of {named or 'a clone'}): {failures.why(done)}")
    if (int(version[1]), int(version[2])) < OLDEST:
        other = (
            "name another" if named == "tools.spack" else "name another with tools.spack, or take it away from there"
        )
        raise Failed(
            f"{program}, of {named}, is Spack {version[0]}, and {OLDEST[0]}.{OLDEST[1]} or newer is needed; {other}"
            f" (without any, {SPACK.ref} is cloned)"
        )
    path = program.resolve().parent.parent
    if not (path / "lib" / "spack").is_dir():  # a wrapper, such as a module's
        where = shell.run([program, "location", "--spack-root"], _SAY_S, env).stdout.strip()
        path = Path(where) if where.startswith("/") else path
    return Spack(program, path, version[0], *state(shell, path, env))


def pinned(shell: Shell, root: Path, mirror: Path | None, env: Mapping[str, str]) -> Path:
    """A clone of the release that this was tried with. Raises Failed."""
    pin, git = _of_mirror(SPACK, mirror, "spack", root, env)
    path = root / "spack" / SPACK.ref
    clone(shell, pin, path, git, "Spack", "name a Spack that is here with tools.spack")
    return path


def packages(shell: Shell, wanted: Pin | Path, root: Path, mirror: Path | None, env: Mapping[str, str]) -> Packages:
    """The packages' repository, cloned where it is not there. Raises Failed."""
    if isinstance(wanted, Pin):
        pin, git = _of_mirror(wanted, mirror, "packages", root, env)
        path = root / "packages" / wanted.ref.replace("/", "_")
        clone(shell, pin, path, git, "the packages repository", "name a checkout that is here in repos.builtin")
    else:
        path = wanted
    then = "remove it to have it fetched again" if isinstance(wanted, Pin) else "see repos.builtin in spack.yaml"
    return Packages(
        path, _directory(path, then), wanted.ref if isinstance(wanted, Pin) else None, *state(shell, path, env)
    )


def _directory(path: Path, then: str) -> Path:
    """Where repo.yaml is in a checkout. `then`: what to do where it is not there. Raises Failed."""
    index = path / "spack-repo-index.yaml"
    try:
        paths = load(index).data["repo_index"]["paths"] if index.exists() else ["."]
        found = [path / str(each) for each in paths]
    except (ConfigError, KeyError, TypeError):
        found = []
    for directory in found:
        if (directory / "repo.yaml").exists():
            return directory
    wrong = f"(no repo.yaml where {index.name} says)" if path.is_dir() else "(there is no such directory)"
    raise Failed(f"{path} is no packages repository of Spack {wrong}; {then}")


def _of_mirror(
    pin: Pin, mirror: Path | None, part: str, root: Path, env: Mapping[str, str]
) -> tuple[Pin, Mapping[str, str]]:
    """A pin as a mirror has it, where there is one, and the environment for git. Raises Failed.

    A mirror may be somebody else's, whose repositories git refuses. It takes an exception from a file only.
    """
    if mirror is None:
        return pin, env
    path = (mirror / part).resolve()
    if not path.is_dir():
        made = "make it with `iosweep tools mirror` on a connected machine"
        raise Failed(f"tools.mirror: {mirror} has no {part}; {made}")
    usual = Path(env.get("XDG_CONFIG_HOME") or "~/.config", "git/config"), "~/.gitconfig"
    theirs = [env["GIT_CONFIG_GLOBAL"]] if "GIT_CONFIG_GLOBAL" in env else usual
    lines = [("include", "path", each) for each in theirs]
    lines += [("safe", "directory", each) for each in (path, path / ".git")]
    file = root / f"gitconfig-{part}"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(
        "".join(
            f"[{section}]\n\t{key} = {json.dumps(str(value), ensure_ascii=False)}\n" for section, key, value in lines
        ),
        "utf-8",
    )
    return Pin(str(path), pin.ref, pin.commit), {**env, "GIT_CONFIG_GLOBAL": str(file)}


def clone(shell: Shell, pin: Pin, into: Path, env: Mapping[str, str], what: str, instead: str) -> None:
    """Clone one state of a repository, unless it is there. Whole, or not at all.

    `what`, `instead`: for a sentence. Raises Failed; where there is no network, within 30 s.
    """
    if into.exists():
        _held(shell, pin, into, env, what)
        return
    _answers(shell, pin, env, what, f"{instead}, or build without a network (tools.mirror; docs/tools.md says how)")
    shell.note(f"fetching {what} {pin.ref} from {pin.url}")
    part = into.with_name(f"{into.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    into.parent.mkdir(parents=True, exist_ok=True)
    quiet = ("git", "-c", "advice.detachedHead=false")
    if pin.by_commit:
        steps = [
            [*quiet, "init", "--quiet", str(part)],
            [*quiet, "-C", str(part), "fetch", "--depth=1", "--", pin.url, pin.ref],
            [*quiet, "-C", str(part), "checkout", "--quiet", "FETCH_HEAD"],
        ]
    else:
        steps = [[*quiet, "clone", "--quiet", "--depth=1", "--branch", pin.ref, "--", pin.url, str(part)]]
    try:
        for step in steps:
            done = shell.run(step, _CLONE_S, env)
            if done.exit_code != 0:
                raise Failed(f"{what} cannot be fetched from {pin.url}: {failures.of_git(done) or 'it took too long'}")
        _held(shell, pin, part, env, what)
        part.rename(into)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def keep(shell: Shell, pin: Pin, into: Path, env: Mapping[str, str], what: str) -> str:
    """Fetch one state of a repository into a bare one, beside what that has; `clone` finds it there. Its commit.

    Raises Failed; where there is no network, within 30 s.
    """
    git: list[str | Path] = ["git", "--git-dir", into]
    kept = f"refs/tags/{'commit-' if pin.by_commit else ''}{pin.ref}"
    known: list[str | Path] = [*git, "rev-parse", "--verify", "--quiet", f"{kept}^{{commit}}"]
    if not shutil.which("git", path=env.get("PATH")) or shell.run(known, _SAY_S, env).exit_code != 0:
        _answers(shell, pin, env, what, "run it where there is a way to the network")
        shell.note(f"fetching {what} {pin.ref} from {pin.url}")
        theirs = pin.ref if pin.by_commit else f"refs/tags/{pin.ref}"
        steps: list[Sequence[str | Path]] = [
            ["git", "init", "--quiet", "--bare", "--template=", into],
            [*git, "fetch", "--quiet", "--depth=1", "--no-tags", "--", pin.url, f"{theirs}:{kept}"],
        ]
        for step in steps:
            done = shell.run(step, _CLONE_S, env)
            if done.exit_code != 0:
                raise Failed(f"{what} cannot be fetched from {pin.url}: {failures.of_git(done) or 'it took too long'}")
    commit = shell.run(known, _SAY_S, env).stdout.strip()
    if pin.commit and commit != pin.commit:
        raise Failed(
            f"{pin.ref} is {commit} in {into}, and not {pin.commit}: somebody has moved the tag; remove {into}"
        )
    shell.run([*git, "update-ref", "--no-deref", "HEAD", commit], _SAY_S, env)  # a clone by commit asks for it
    return commit


def _answers(shell: Shell, pin: Pin, env: Mapping[str, str], what: str, instead: str) -> None:
    """See that a repository is reached, and has what is pinned. Raises Failed."""
    if not shutil.which("git", path=env.get("PATH")):
        raise Failed("git is not on PATH; install it, Spack needs it too")
    ref = "HEAD" if pin.by_commit else f"refs/tags/{pin.ref}"
    done = shell.run(["git", "ls-remote", "--exit-code", "--", pin.url, ref], _ANSWER_S, env)
    if done.exit_code == 2:
        raise Failed(f"{pin.url} has no tag {pin.ref}; name one that it has")
    if done.exit_code != 0:
        said = failures.of_git(done) or f"no answer within {_ANSWER_S:g} s"
        raise Failed(f"{what} cannot be fetched from {pin.url}: {said}; {instead}")


def _held(shell: Shell, pin: Pin, path: Path, env: Mapping[str, str], what: str) -> None:
    """See that a clone is what is pinned. Raises Failed."""
    commit, _ = state(shell, path, env)
    if pin.commit and commit != pin.commit:
        raise Failed(
            f"{what} in {path} is at {commit or 'no commit'}, and {pin.ref} is {pin.commit}: somebody has moved the"
            " tag, or changed the clone; remove it to have it fetched again"
        )


def state(shell: Shell, path: Path, env: Mapping[str, str]) -> tuple[str | None, bool]:
    """(commit, whether files are not those of it) of a checkout; (None, False) where it is none."""
    if not (path / ".git").exists() or not shutil.which("git", path=env.get("PATH")):
        return None, False
    git = ("git", "-c", f"safe.directory={path.resolve()}", "-C", path)  # a site's Spack belongs to somebody else
    head = shell.run([*git, "rev-parse", "HEAD"], _SAY_S, env)
    if head.exit_code != 0:
        return None, False
    changed = shell.run([*git, "status", "--porcelain", "--untracked-files=no"], _SAY_S, env)
    return head.stdout.strip(), bool(changed.stdout.strip())
