"""Spack and its packages repository: a site's own, or complete clones that match their pins."""

import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from iosweep.errors import BuildError
from iosweep.node import process
from iosweep.programs.spack import checkouts, shell
from iosweep.programs.spack.shell import Shell
from iosweep.programs.spack.spack_yaml import Pin
from spack import PIN, VERSION, packages

pytestmark = pytest.mark.local


@dataclass
class Site:
    """A place for tools, and what checkouts.py is given there."""

    root: Path
    said: list[str]
    shell: Shell
    env: dict[str, str]

    def clone(self, pin: Pin) -> Path:
        into = self.root / "clone"
        checkouts.clone(self.shell, pin, into, self.env, "it", "take another")
        return into

    def left(self) -> list[str]:
        """Names of all that is there."""
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob("*/*")) if self.root.exists() else []


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("SPACK_ROOT", raising=False)
    given = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    said: list[str] = []
    root = tmp_path / "tools"
    return Site(root, said, Shell(io.StringIO(), said.append), shell.environment(given, root))


@pytest.fixture
def others_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a command is not done in time, all that is below this process ends; but not what other tests started."""
    end, before = process.end_descendants, process.children()
    monkeypatch.setattr(process, "end_descendants", lambda: end(before))


def git(directory: Path, *words: str) -> str:
    identity = ("-c", "user.name=tests", "-c", "user.email=tests@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(
        ["git", *identity, *words], cwd=directory, check=True, capture_output=True, text=True, env=os.environ
    )
    return done.stdout.strip()


def head(directory: Path) -> str:
    return git(directory, "rev-parse", "HEAD")


def fake(below: Path, says: str = "1.1.0", exit_code: int = 0) -> Path:
    """A directory that looks like Spack's; it is no checkout."""
    program = below / "bin/spack"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}'\nexit {exit_code}\n")
    program.chmod(0o755)
    return below


def repository(below: Path, tag: str = VERSION) -> Path:
    """A git repository that looks like Spack's."""
    directory = fake(below)
    git(directory, "init", "--quiet")
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "one")
    git(directory, "tag", tag)
    return directory


def move(directory: Path, tag: str) -> str:
    """Have a tag name a new commit; that."""
    (directory / "more").write_text("more")
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--message", "more")
    git(directory, "tag", "--force", tag)
    return head(directory)


# --- whose Spack ------------------------------------------------------------------------------------------------------


def test_first_spack_of_a_site_is_used(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configured, of_root, on_path = (fake(tmp_path / name) for name in ("configured", "of-root", "on-path"))
    theirs = repository(tmp_path / "release")
    monkeypatch.setattr(checkouts, "SPACK", Pin(str(theirs), VERSION, head(theirs)))
    monkeypatch.setenv("SPACK_ROOT", str(of_root))
    links = tmp_path / "links"  # /usr/local/bin
    links.mkdir()
    (links / "spack").symlink_to(on_path / "bin/spack")
    monkeypatch.setenv("PATH", f"{links}:{os.environ['PATH']}")

    def found(named: str | None = None) -> Path:
        return checkouts.spack(site.shell, named, site.root, None, site.env).path

    assert found(str(configured)) == configured
    assert found() == of_root
    monkeypatch.delenv("SPACK_ROOT")
    assert found() == on_path
    assert site.left() == []  # until here nothing was cloned
    monkeypatch.setenv("PATH", os.environ["PATH"].partition(":")[2])
    assert found() == site.root / "spack" / VERSION
    assert site.left() == [f"spack/{VERSION}"]


def test_relative_path_of_spack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake(tmp_path / "spack")
    monkeypatch.chdir(tmp_path)
    assert checkouts.own("spack", {}) == (tmp_path / "spack/bin/spack", "tools.spack")


def test_spack_wrapped_by_a_module(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = repository(tmp_path / "real")
    (tmp_path / "bin").mkdir()
    wrapper = tmp_path / "bin/spack"
    wrapper.write_text(f'#!/bin/sh\n[ "$1" = location ] && echo {real} || exec {real}/bin/spack "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    found = checkouts.spack(site.shell, None, site.root, None, site.env)
    assert (found.program, found.path, found.commit) == (wrapper, real, head(real))


@pytest.mark.parametrize(
    ("configured", "environment", "wrong"),
    [
        ("/nosuch", {}, "tools.spack: /nosuch has no bin/spack; name the directory that Spack was cloned to"),
        (None, {"SPACK_ROOT": "/nosuch"}, "SPACK_ROOT: /nosuch has no bin/spack; name the directory that"),
        ("/nosuch", {"SPACK_ROOT": "{there}"}, "tools.spack: /nosuch has no"),  # no other is taken for it
        ("{not_run}", {}, "tools.spack: {not_run} has no bin/spack;"),
    ],
)
def test_configured_spack_is_missing(
    tmp_path: Path, configured: str | None, environment: dict[str, str], wrong: str
) -> None:
    places = {"there": fake(tmp_path / "there"), "not_run": fake(tmp_path / "not-run")}
    (tmp_path / "not-run/bin/spack").chmod(0o644)
    given = {key: value.format_map(places) for key, value in environment.items()}
    with pytest.raises(BuildError) as caught:
        checkouts.own(configured and configured.format_map(places), given)
    assert str(caught.value).startswith(wrong.format_map(places))
    assert checkouts.own(None, {"PATH": "/nosuch"}) is None


OLD = "and 1.1 or newer is needed; name another (without any, v1.1.0 is cloned)"


@pytest.mark.parametrize(
    ("says", "exit_code", "wrong"),
    [
        ("0.23.1 (abc)", 0, f", of tools.spack, is Spack 0.23.1, {OLD}"),
        ("1.0.4", 0, f", of tools.spack, is Spack 1.0.4, {OLD}"),
        ("hello", 0, " does not say its version (Spack of tools.spack): exit code 0: hello"),
        ("1.1.0", 1, " does not say its version (Spack of tools.spack): exit code 1: 1.1.0"),
        ("1.1.0", 0, None),
        ("1.2.0.dev0 (2e907202bcc8209a6a62243aab50c179b524cc3b)", 0, None),
        ("10.0", 0, None),
    ],
)
def test_versions_of_spack(site: Site, tmp_path: Path, says: str, exit_code: int, wrong: str | None) -> None:
    path = fake(tmp_path / "spack", says, exit_code)
    if wrong is None:
        found = checkouts.spack(site.shell, str(path), site.root, None, site.env)
        assert (found.version, found.commit, found.changed) == (says.split()[0], None, False)
        return
    with pytest.raises(BuildError) as caught:
        checkouts.spack(site.shell, str(path), site.root, None, site.env)
    assert str(caught.value) == f"{path}/bin/spack{wrong}"


# --- what is recorded of a checkout -----------------------------------------------------------------------------------


def test_a_changed_checkout_is_seen(site: Site, tmp_path: Path) -> None:
    path = repository(tmp_path / "spack")

    def found() -> dict[str, object]:
        return checkouts.spack(site.shell, str(path), site.root, None, site.env).document()

    clean = {"path": str(path), "version": "1.1.0", "commit": head(path), "changed": False}
    assert found() == clean
    (path / "notes.txt").write_text("of a person")
    assert found() == clean
    with (path / "bin/spack").open("a") as file:
        file.write("# changed\n")
    assert found() == {**clean, "changed": True}
    git(path, "add", "--all")
    assert found() == {**clean, "changed": True}
    git(path, "commit", "--quiet", "--message", "ours")
    assert found() == {**clean, "commit": head(path)}


def somebody_elses(path: Path, env: dict[str, str]) -> dict[str, str]:
    """Have a checkout belong to another user; the environment for git, where we may not give it away."""
    if os.geteuid() != 0:
        return {**env, "GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}
    for each in (path, *path.rglob("*")):
        os.chown(each, 65534, 65534, follow_symlinks=False)
    return env


@pytest.mark.parametrize("link", [False, True])
def test_a_checkout_of_another_user(site: Site, tmp_path: Path, link: bool) -> None:
    path = repository(tmp_path / "spack")
    commit, env = head(path), somebody_elses(path, site.env)
    refused = subprocess.run(["git", "-C", path, "rev-parse", "HEAD"], env=env, capture_output=True, text=True)
    assert "dubious ownership" in refused.stderr
    if link:
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    assert checkouts.state(site.shell, path, env) == (commit, False)


def test_directory_that_is_not_a_checkout(site: Site, tmp_path: Path) -> None:
    inner = fake(repository(tmp_path / "outer") / "inner")  # what is around it says nothing of it
    assert checkouts.state(site.shell, inner, site.env) == (None, False)
    git(tmp_path / "outer/inner", "init", "--quiet")
    assert checkouts.state(site.shell, inner, site.env) == (None, False)  # without a commit
    outer = tmp_path / "outer"
    assert checkouts.state(site.shell, outer, {**site.env, "PATH": "/nosuch"}) == (None, False)


# --- clones -----------------------------------------------------------------------------------------------------------


def test_clones_by_tag_and_by_commit(site: Site, tmp_path: Path) -> None:
    theirs = packages(tmp_path)
    first = head(theirs)
    last = move(theirs, "v2")
    for pin, commit in (
        (Pin(str(theirs), PIN), first),
        (Pin(f"file://{theirs}", PIN), first),
        (Pin(str(theirs), "v2"), last),
        (Pin(str(theirs), "v2", last), last),
        (Pin(str(theirs), last, last), last),
        (Pin(f"file://{theirs}", first, first), first),  # no branch and no tag names it any longer
    ):
        found = checkouts.packages(site.shell, pin, site.root, None, site.env)
        assert (found.pin, found.commit, found.changed) == (pin.ref, commit, False)
        assert found.path == site.root / "packages" / pin.ref
        assert found.directory == found.path / "repos/spack_repo/builtin"
        assert site.left() == [f"packages/{pin.ref}"]
        before = len(site.said)
        assert checkouts.packages(site.shell, pin, site.root, None, {**site.env, "http_proxy": "x"}) == found
        assert len(site.said) == before  # it is there
        shutil.rmtree(site.root)


def test_a_tag_of_a_fork(site: Site, tmp_path: Path) -> None:
    theirs = packages(tmp_path)
    git(theirs, "tag", "--annotate", "--message", "x", "releases/v1")
    found = checkouts.packages(site.shell, Pin(str(theirs), "releases/v1"), site.root, None, site.env)
    assert found.path == site.root / "packages/releases_v1"
    assert found.commit == head(theirs)


def test_a_tag_that_has_moved(site: Site, tmp_path: Path) -> None:
    theirs = packages(tmp_path)
    pin = Pin(str(theirs), PIN)
    first = checkouts.packages(site.shell, pin, site.root, None, site.env).document()["commit"]
    moved = move(theirs, PIN)
    # what was cloned stays what it was, and a new clone says that it is another
    assert checkouts.packages(site.shell, pin, site.root, None, site.env).document()["commit"] == first
    shutil.rmtree(site.root)
    assert checkouts.packages(site.shell, pin, site.root, None, site.env).document()["commit"] == moved != first
    with pytest.raises(BuildError, match=f"is at {moved}, and {PIN} is {first}: the tag has been moved"):
        checkouts.packages(site.shell, replace(pin, commit=first), site.root, None, site.env)


def test_release_differs_from_the_tested_commit(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = repository(tmp_path / "theirs")
    monkeypatch.setattr(checkouts, "SPACK", Pin(str(theirs), VERSION, "0" * 40))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with pytest.raises(BuildError) as caught:
        checkouts.spack(site.shell, None, site.root, None, site.env)
    assert f"is at {head(theirs)}, and {VERSION} is {'0' * 40}: the tag has been moved" in str(caught.value)
    assert site.left() == []


def test_changed_clone(site: Site, tmp_path: Path) -> None:
    theirs = packages(tmp_path)
    pin = Pin(str(theirs), head(theirs), head(theirs))
    into = site.clone(pin)
    changed = move(into, "x")
    with pytest.raises(BuildError, match=f"it in {into} is at {changed}, and .* remove it to have it fetched again"):
        site.clone(pin)
    shutil.rmtree(into / ".git")
    with pytest.raises(BuildError, match=f"it in {into} is at no commit, and "):
        site.clone(pin)


NO_MEANS = "; take another, or build without a network (tools.mirror; docs/tools.md says how)"


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("https://nosuch.invalid/x.git", "Could not resolve host: nosuch.invalid"),
        ("https://127.0.0.1:9/x.git", "Failed to connect to 127.0.0.1 port 9"),
        ("/nosuch", "'/nosuch' does not appear to be a git repository"),
        ("-x", "strange pathname '-x' blocked"),
        ("--upload-pack=touch {mark}", "strange pathname '--upload-pack=touch {mark}' blocked"),
        ("ext::sh -c touch% {mark}", "transport 'ext' not allowed"),
        ("-oProxyCommand=touch {mark}:x", "strange"),
        ("ssh://-oProxyCommand=touch+{mark}/x", "strange hostname '-oProxyCommand=touch"),
    ],
)
@pytest.mark.parametrize("ref", [VERSION, "0" * 40])
def test_failures_of_cloning(site: Site, tmp_path: Path, url: str, wrong: str, ref: str) -> None:
    mark = tmp_path / "mark"
    url = url.format(mark=mark)
    began = time.monotonic()
    with pytest.raises(BuildError) as caught:
        site.clone(Pin(url, ref, ref if ref != VERSION else None))
    assert str(caught.value).startswith(f"it cannot be fetched from {url}: ")
    assert wrong.format(mark=mark) in str(caught.value)
    assert str(caught.value).endswith(NO_MEANS)
    assert time.monotonic() - began < 120
    assert not mark.exists()
    assert site.left() == []
    assert not site.root.exists()


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections and never says a word."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


@pytest.mark.usefixtures("others_spared")
def test_server_that_does_not_answer(site: Site, silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checkouts._ANSWER_S + shell._TIDY_S <= 30
    monkeypatch.setattr(checkouts, "_ANSWER_S", 0.5)
    began = time.monotonic()
    url = f"git://127.0.0.1:{silent}/x.git"
    with pytest.raises(BuildError) as caught:
        site.clone(Pin(url, VERSION))
    assert time.monotonic() - began < 120
    assert str(caught.value) == f"it cannot be fetched from {url}: no answer within 0.5 s{NO_MEANS}"
    assert not site.root.exists()


def test_no_such_tag_or_commit(site: Site, tmp_path: Path) -> None:
    theirs = packages(tmp_path)
    branch = git(theirs, "branch", "--show-current")
    for tag in ("nosuch", branch):  # a branch is no pin
        with pytest.raises(BuildError) as caught:
            site.clone(Pin(str(theirs), tag))
        assert str(caught.value) == f"{theirs} has no tag {tag}; name one that it has"
    with pytest.raises(BuildError, match=f"it cannot be fetched from {theirs}: .*{'0' * 40}"):
        site.clone(Pin(str(theirs), "0" * 40, "0" * 40))
    assert site.left() == []


def test_without_git(site: Site, tmp_path: Path) -> None:
    theirs, site.env = packages(tmp_path), {**site.env, "PATH": "/nosuch"}
    for act in (
        lambda: site.clone(Pin(str(theirs), PIN)),
        lambda: checkouts.keep(site.shell, Pin(str(theirs), PIN), site.root / "kept", site.env, "it"),
    ):
        with pytest.raises(BuildError, match="git is not on PATH; install it, Spack needs it too"):
            act()


#: Clones with a git that never ends. argv: directory for PATH, url, tag, where to.
STOPPED = """
import os, sys
from pathlib import Path
from iosweep.programs.spack import checkouts
from iosweep.programs.spack.spack_yaml import Pin
from iosweep.programs.spack.shell import Shell
env = {**os.environ, "PATH": sys.argv[1] + ":" + os.environ["PATH"]}
checkouts.clone(Shell(open(os.devnull, "w"), print), Pin(sys.argv[2], sys.argv[3]), Path(sys.argv[4]), env, "it", "no")
"""


def test_clone_killed_before_its_end(site: Site, tmp_path: Path) -> None:
    theirs = packages(tmp_path)
    slow = tmp_path / "slow"
    slow.mkdir()
    real = shutil.which("git")
    # the last argument of a clone is the directory
    (slow / "git").write_text(
        f'#!/bin/sh\ncase "$*" in *"clone --quiet"*) for to; do :; done; mkdir -p "$to/.git"; echo half > "$to/half"\n'
        f'echo $$ > {slow}/pid; exec sleep 60;; esac\nexec {real} "$@"\n'
    )
    (slow / "git").chmod(0o755)
    into = site.root / "clone"
    started = subprocess.Popen([sys.executable, "-c", STOPPED, slow, theirs, PIN, into], stdout=subprocess.DEVNULL)
    end = time.monotonic() + 300
    while not ((slow / "pid").exists() and (slow / "pid").read_text().strip()) and time.monotonic() < end:
        time.sleep(0.01)
    started.send_signal(signal.SIGKILL)
    started.wait()
    os.kill(int((slow / "pid").read_text()), signal.SIGKILL)
    assert (site.root / "clone.part/half").exists()
    assert not into.exists()
    assert site.clone(Pin(str(theirs), PIN)) == into
    assert head(into) == head(theirs)
    assert not (into / "half").exists()
    assert not (site.root / "clone.part").exists()


def test_clone_that_fails_before_its_end(site: Site, tmp_path: Path) -> None:
    theirs = packages(tmp_path)
    tree = git(theirs, "rev-parse", f"{PIN}^{{tree}}")
    (theirs / ".git/objects" / tree[:2] / tree[2:]).unlink()  # a disk that has lost something
    with pytest.raises(BuildError, match=f"it cannot be fetched from file://{theirs}: "):
        site.clone(Pin(f"file://{theirs}", PIN))
    assert not list(site.root.glob("*"))


# --- the packages' directory ------------------------------------------------------------------------------------------


def test_packages_directory_of_a_site(site: Site, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.mkdir()
    (plain / "repo.yaml").write_text("repo: {namespace: ours}\n")
    found = checkouts.packages(site.shell, plain, site.root, None, site.env)
    assert found.document() == {"path": str(plain), "pin": None, "commit": None, "changed": False}
    assert found.directory == plain
    checkout = packages(tmp_path)
    (checkout / "spack-repo-index.yaml").write_text("repo_index: {paths: [nosuch, repos/spack_repo/builtin]}\n")
    found = checkouts.packages(site.shell, checkout, site.root, None, site.env)
    assert found.document() == {"path": str(checkout), "pin": None, "commit": head(checkout), "changed": True}
    assert found.directory == checkout / "repos/spack_repo/builtin"
    assert not site.root.exists()


@pytest.mark.parametrize(
    "index",
    [
        None,
        "",
        "repo_index: {}",
        "repo_index: 3",
        "repo_index: {paths: 3}",
        "repo_index: {paths: [nosuch]}",
        "[",
        "\x00",
    ],
)
def test_repository_without_packages(site: Site, tmp_path: Path, index: str | None) -> None:
    directory = tmp_path / "packages"
    directory.mkdir()
    if index is not None:
        (directory / "spack-repo-index.yaml").write_text(index)
    with pytest.raises(BuildError) as caught:
        checkouts.packages(site.shell, directory, site.root, None, site.env)
    why = "no repo.yaml where spack-repo-index.yaml says"
    assert (
        str(caught.value)
        == f"{directory} is not a packages repository of Spack ({why}); see repos.builtin in spack.yaml"
    )


def test_missing_packages_directory(site: Site) -> None:
    with pytest.raises(
        BuildError, match=r"^/nosuch is not a packages repository of Spack \(there is no such directory\); see repos"
    ):
        checkouts.packages(site.shell, Path("/nosuch"), site.root, None, site.env)


# --- mirrors ----------------------------------------------------------------------------------------------------------


def kept(site: Site, pin: Pin, mirror: Path, part: str = "packages") -> str:
    return checkouts.keep(site.shell, pin, mirror / part, site.env, "it")


def test_from_a_mirror(site: Site, tmp_path: Path) -> None:
    """Of another user, as all who build share it; and without the place that it was made from."""
    theirs, mirror = packages(tmp_path), tmp_path / "mirror"
    first = head(theirs)
    by_tag, by_commit = Pin(str(theirs), PIN), Pin(str(theirs), first, first)
    assert kept(site, by_tag, mirror) == kept(site, by_commit, mirror) == first
    second = move(theirs, "v2")
    assert kept(site, Pin(str(theirs), "v2"), mirror) == second
    theirs.rename(tmp_path / "away")
    before = len(site.said)
    assert kept(site, by_tag, mirror) == first  # it has that
    assert len(site.said) == before
    env = somebody_elses(mirror, site.env)
    for pin, commit in ((by_tag, first), (Pin(str(theirs), "v2"), second), (by_commit, first)):
        if pin.by_commit and os.geteuid() != 0:
            env = site.env  # what git assumes there it assumes of our own clone, too
        found = checkouts.packages(site.shell, pin, site.root, mirror, env)
        assert (found.pin, found.commit) == (pin.ref, commit)
    with pytest.raises(BuildError, match=f"{mirror}/packages has no tag v3; name one that it has"):
        checkouts.packages(site.shell, Pin(str(theirs), "v3"), site.root, mirror, env)


def test_the_release_from_a_mirror(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, mirror = repository(tmp_path / "theirs"), tmp_path / "mirror"
    monkeypatch.setattr(checkouts, "SPACK", Pin(str(theirs), VERSION, head(theirs)))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    kept(site, checkouts.SPACK, mirror, "spack")
    commit = head(theirs)
    shutil.rmtree(theirs)
    found = checkouts.spack(site.shell, None, site.root, mirror, site.env)
    assert (found.path, found.commit) == (site.root / "spack" / VERSION, commit)


def test_a_mirror_that_lacks_a_part(site: Site, tmp_path: Path) -> None:
    with pytest.raises(BuildError) as caught:
        checkouts.packages(site.shell, Pin("u", "v1"), site.root, tmp_path, site.env)
    made = "make it with `iosweep tools mirror` on a connected machine"
    assert str(caught.value) == f"tools.mirror: {tmp_path} has no packages; {made}"


def test_mirror_keeps_its_commits(site: Site, tmp_path: Path) -> None:
    theirs, mirror = packages(tmp_path), tmp_path / "mirror"
    first = kept(site, Pin(str(theirs), PIN), mirror)
    with pytest.raises(
        BuildError, match=f"{PIN} is {first} in {mirror}/packages, and not {'0' * 40}: the tag has been moved"
    ):
        kept(site, Pin(str(theirs), PIN, "0" * 40), mirror)
    with pytest.raises(BuildError, match=r"it cannot be fetched from /nosuch: .*; run it where there is a way to the"):
        kept(site, Pin("/nosuch", "v9"), mirror)
    with pytest.raises(BuildError, match="transport 'ext' not allowed"):
        kept(site, Pin(f"ext::sh -c touch% {tmp_path}/mark", "v9"), mirror)
    assert not (tmp_path / "mark").exists()
    assert kept(site, Pin("/nosuch", PIN), mirror) == first
