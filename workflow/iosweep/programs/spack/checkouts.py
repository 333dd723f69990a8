"""The Spack that builds, and its packages repository: a site's own, or clones that must match their pins.

Spack's own clone of the packages does not stay at its pin, and after one failed clone every later step fails with a
misleading error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from iosweep.config.yaml_lines import load
from iosweep.errors import BuildError, ConfigError
from iosweep.programs.spack import failures
from iosweep.programs.spack.shell import Shell
from iosweep.programs.spack.spack_yaml import Pin

#: The tested release and the commit of its tag.
SPACK = Pin("https://github.com/spack/spack.git", "v1.1.0", "2e907202bcc8209a6a62243aab50c179b524cc3b")
#: In earlier releases spack.yaml overrides our configuration (-C), and Spack clones the packages itself.
OLDEST = (1, 1)
#: Time limits in seconds: for an answer, for a copy, for a question about a checkout.
_ANSWER_S, _CLONE_S, _QUESTION_S = 20.0, 3600.0, 60.0


@dataclass(frozen=True)
class Spack:
    """An installed Spack. `commit`: None outside git; `changed`: whether files differ from the commit."""

    program: Path
    path: Path
    version: str
    commit: str | None
    changed: bool

    def document(self) -> dict[str, object]:
        return {"path": str(self.path), "version": self.version, "commit": self.commit, "changed": self.changed}


@dataclass(frozen=True)
class Packages:
    """A checkout of the packages repository. `directory`: the part of it that Spack is given."""

    path: Path
    directory: Path
    pin: str | None
    commit: str | None
    changed: bool

    def document(self) -> dict[str, object]:
        return {"path": str(self.path), "pin": self.pin, "commit": self.commit, "changed": self.changed}


def own(configured: str | None, environment: Mapping[str, str]) -> tuple[Path, str] | None:
    """(program, source) of the site's Spack: the configured one, that of SPACK_ROOT, or that on PATH; None if none.

    Raises BuildError if the first of these that is named has no Spack.
    """
    named = ("tools.spack", configured), ("SPACK_ROOT", environment.get("SPACK_ROOT"))
    for name, directory in named:
        if directory:
            program = Path(directory).absolute() / "bin" / "spack"
            if os.access(program, os.X_OK):
                return program, name
            raise BuildError(f"{name}: {directory} has no bin/spack; name the directory that Spack was cloned to")
    found = shutil.which("spack", path=environment.get("PATH"))
    return (Path(found).absolute(), "PATH") if found else None


def spack(shell: Shell, configured: str | None, root: Path, mirror: Path | None, env: Mapping[str, str]) -> Spack:
    """The Spack that builds; cloned if the site has none. `env`: for git and Spack. Raises BuildError."""
    program, named = own(configured, os.environ) or (None, "")
    if program is None:
        program = pinned(shell, root, mirror, env) / "bin" / "spack"
    done = shell.run([program, "--version"], _QUESTION_S, env)
    version = re.match(r"(\d+)\.(\d+)\S*", done.stdout)
    if done.exit_code != 0 or not version:
        raise BuildError(f"{program} does not say its version (Spack of {named or 'a clone'}): {failures.why(done)}")
    if (int(version[1]), int(version[2])) < OLDEST:
        other = "name another" + ("" if named == "tools.spack" else " with tools.spack, or take it away from there")
        raise BuildError(
            f"{program}, of {named}, is Spack {version[0]}, and {OLDEST[0]}.{OLDEST[1]} or newer is needed; {other}"
            f" (without any, {SPACK.ref} is cloned)"
        )
    path = program.resolve().parent.parent
    if not (path / "lib" / "spack").is_dir():  # a wrapper, such as a module's
        where = shell.run([program, "location", "--spack-root"], _QUESTION_S, env).stdout.strip()
        path = Path(where) if where.startswith("/") else path
    return Spack(program, path, version[0], *state(shell, path, env))


def pinned(shell: Shell, root: Path, mirror: Path | None, env: Mapping[str, str]) -> Path:
    """A clone of the tested release. Raises BuildError."""
    pin, git = _of_mirror(SPACK, mirror, "spack", root, env)
    path = root / "spack" / SPACK.ref
    clone(shell, pin, path, git, "Spack", "name a Spack that is here with tools.spack")
    return path


def packages(shell: Shell, wanted: Pin | Path, root: Path, mirror: Path | None, env: Mapping[str, str]) -> Packages:
    """The packages repository, cloned if it does not exist. Raises BuildError."""
    if isinstance(wanted, Path):
        directory = _directory(wanted, "see repos.builtin in spack.yaml")
        return Packages(wanted, directory, None, *state(shell, wanted, env))
    pin, git = _of_mirror(wanted, mirror, "packages", root, env)
    path = root / "packages" / wanted.ref.replace("/", "_")
    clone(shell, pin, path, git, "the packages repository", "name a checkout that is here in repos.builtin")
    directory = _directory(path, "remove it to have it fetched again")
    return Packages(path, directory, wanted.ref, *state(shell, path, env))


def _directory(path: Path, then: str) -> Path:
    """The directory of repo.yaml in a checkout. `then`: the remedy if there is none. Raises BuildError."""
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
    raise BuildError(f"{path} is not a packages repository of Spack {wrong}; {then}")


def _of_mirror(
    pin: Pin, mirror: Path | None, part: str, root: Path, env: Mapping[str, str]
) -> tuple[Pin, Mapping[str, str]]:
    """The pin in the mirror, if there is one, and the environment for git. Raises BuildError.

    Git refuses repositories of other users, and reads exceptions from a file only.
    """
    if mirror is None:
        return pin, env
    path = (mirror / part).resolve()
    if not path.is_dir():
        made = "make it with `iosweep tools mirror` on a connected machine"
        raise BuildError(f"tools.mirror: {mirror} has no {part}; {made}")
    usual = Path(env.get("XDG_CONFIG_HOME") or "~/.config", "git/config"), "~/.gitconfig"
    theirs = [env["GIT_CONFIG_GLOBAL"]] if "GIT_CONFIG_GLOBAL" in env else usual
    lines = [("include", "path", each) for each in theirs]
    lines += [("safe", "directory", each) for each in (path, path / ".git")]
    file = root / f"gitconfig-{part}"
    file.parent.mkdir(parents=True, exist_ok=True)
    text = (f"[{part}]\n\t{key} = {json.dumps(str(value), ensure_ascii=False)}\n" for part, key, value in lines)
    file.write_text("".join(text), "utf-8")
    return Pin(str(path), pin.ref, pin.commit), {**env, "GIT_CONFIG_GLOBAL": str(file)}


def clone(shell: Shell, pin: Pin, into: Path, env: Mapping[str, str], what: str, instead: str) -> None:
    """Clone one state of a repository completely, unless it exists.

    what, instead: name and remedy for messages. Raises BuildError; without a network within 30 s.
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
        steps: list[Sequence[str | Path]] = [
            [*quiet, "init", "--quiet", str(part)],
            [*quiet, "-C", str(part), "fetch", "--depth=1", "--", pin.url, pin.ref],
            [*quiet, "-C", str(part), "checkout", "--quiet", "FETCH_HEAD"],
        ]
    else:
        steps = [[*quiet, "clone", "--quiet", "--depth=1", "--branch", pin.ref, "--", pin.url, str(part)]]
    try:
        _fetch(shell, steps, pin, env, what)
        _held(shell, pin, part, env, what)
        part.rename(into)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def keep(shell: Shell, pin: Pin, into: Path, env: Mapping[str, str], what: str) -> str:
    """Add one state of a repository to a bare one, from which `clone` takes it. Returns its commit.

    Raises BuildError; without a network within 30 s.
    """
    git: list[str | Path] = ["git", "--git-dir", into]
    kept = f"refs/tags/{'commit-' if pin.by_commit else ''}{pin.ref}"
    known: list[str | Path] = [*git, "rev-parse", "--verify", "--quiet", f"{kept}^{{commit}}"]
    if not shutil.which("git", path=env.get("PATH")) or shell.run(known, _QUESTION_S, env).exit_code != 0:
        _answers(shell, pin, env, what, "run it where there is a way to the network")
        shell.note(f"fetching {what} {pin.ref} from {pin.url}")
        theirs = pin.ref if pin.by_commit else f"refs/tags/{pin.ref}"
        steps: list[Sequence[str | Path]] = [
            ["git", "init", "--quiet", "--bare", "--template=", into],
            [*git, "fetch", "--quiet", "--depth=1", "--no-tags", "--", pin.url, f"{theirs}:{kept}"],
        ]
        _fetch(shell, steps, pin, env, what)
    commit = shell.run(known, _QUESTION_S, env).stdout.strip()
    if pin.commit and commit != pin.commit:
        raise BuildError(
            f"{pin.ref} is {commit} in {into}, and not {pin.commit}: the tag has been moved; remove {into}"
        )
    shell.run([*git, "update-ref", "--no-deref", "HEAD", commit], _QUESTION_S, env)  # a clone by commit needs HEAD
    return commit


def _fetch(shell: Shell, steps: Sequence[Sequence[str | Path]], pin: Pin, env: Mapping[str, str], what: str) -> None:
    """Run the commands that fetch a state of a repository. Raises BuildError."""
    for step in steps:
        done = shell.run(step, _CLONE_S, env)
        if done.exit_code != 0:
            raise BuildError(f"{what} cannot be fetched from {pin.url}: {failures.of_git(done) or 'it took too long'}")


def _answers(shell: Shell, pin: Pin, env: Mapping[str, str], what: str, instead: str) -> None:
    """Check that a repository answers and has the pinned state. Raises BuildError."""
    if not shutil.which("git", path=env.get("PATH")):
        raise BuildError("git is not on PATH; install it, Spack needs it too")
    ref = "HEAD" if pin.by_commit else f"refs/tags/{pin.ref}"
    done = shell.run(["git", "ls-remote", "--exit-code", "--", pin.url, ref], _ANSWER_S, env)
    if done.exit_code == 2:
        raise BuildError(f"{pin.url} has no tag {pin.ref}; name one that it has")
    if done.exit_code != 0:
        reason = failures.of_git(done) or f"no answer within {_ANSWER_S:g} s"
        raise BuildError(f"{what} cannot be fetched from {pin.url}: {reason}; {instead}")


def _held(shell: Shell, pin: Pin, path: Path, env: Mapping[str, str], what: str) -> None:
    """Check that a clone is at its pinned commit. Raises BuildError."""
    commit, _ = state(shell, path, env)
    if pin.commit and commit != pin.commit:
        raise BuildError(
            f"{what} in {path} is at {commit or 'no commit'}, and {pin.ref} is {pin.commit}: the tag has"
            " been moved, or the clone changed; remove it to have it fetched again"
        )


def state(shell: Shell, path: Path, env: Mapping[str, str]) -> tuple[str | None, bool]:
    """(commit, whether files differ from it) of a checkout; (None, False) if it is not one."""
    if not (path / ".git").exists() or not shutil.which("git", path=env.get("PATH")):
        return None, False
    git = ("git", "-c", f"safe.directory={path.resolve()}", "-C", path)  # a site's Spack belongs to another user
    head = shell.run([*git, "rev-parse", "HEAD"], _QUESTION_S, env)
    if head.exit_code != 0:
        return None, False
    changed = shell.run([*git, "status", "--porcelain", "--untracked-files=no"], _QUESTION_S, env)
    return head.stdout.strip(), bool(changed.stdout.strip())
