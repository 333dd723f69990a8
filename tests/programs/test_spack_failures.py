"""Output of a failed Spack or git, and the sentence that is made from it."""

import os
import re
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iosweep.programs.spack import shell
from iosweep.programs.spack.failures import of_git, why
from iosweep.programs.spack.shell import Done
from spack import RECORDED, packages

SPACE = "there is no space left; make room below tools.directory, or name another one, and run it again"
NO_NETWORK = "is there a way to the network from here? If not, docs/tools.md says how to build without one"
NOT_MADE = "; name another tools.directory, or fix its permissions"
STAGE = "/site/stage/user/spack-stage-fio-3.37"
HASH = "qekd2ajlnyj5hgppouqpkgn4y3f3xq3h"

#: Every recording of a failure (recorded/spack/manifest.tsv), but for its step.
RECORDINGS = {
    "no-compiler": "there is no compiler on PATH; install one (gcc), load its module, or name it in spack.yaml"
    " (packages: gcc:)",
    "no-clingo": "Spack's Python has no clingo, and Spack cannot fetch it; run `make venv`, which installs it",
    "no-repository": "/site/packages is not a packages repository that Spack can use: No repo.yaml found in"
    " '/site/packages'; see repos in spack.yaml",
    "unknown-package": "there is no package `iorx` in the packages repository; see specs (spack.yaml)",
    "unknown-version": "no version fits `ior@9.9`; take one that the packages repository has, pin a newer one in"
    " repos.builtin, or (where it may not be built) see its externals",
    "unknown-variant": "`ior@4.0.0+nosuch` has no variant nosuch; see the package's recipe in the packages repository",
    "unsatisfiable": "what spack.yaml asks for contradicts itself: mpich: 'pmi=pmix' conflicts with '+hydra'",
    "not-buildable": "no version fits `mpich@4`; take one that the packages repository has, pin a newer one in"
    " repos.builtin, or (where it may not be built) see its externals",
    "other-target": "target=aarch64 does not fit this machine; name another in spack.yaml (packages: all: target)",
    "bad-target": "target=zen9 cannot be had here; name another one in spack.yaml (packages: all: target)",
    "bad-spec": "spack.yaml: unexpected characters in the spec string `ior@@4`",
    "bad-value": "spack.yaml, line 4: 'maybe' is not valid under any of the given schemas",
    "bad-yaml": "spack.yaml, line 1: expected the node content, but found '<stream end>'",
    "bad-key": "spack.yaml, line 2: Additional properties are not allowed ('veiw' was unexpected)",
    "no-sources": f"the source of compiler-wrapper 1.1.0 cannot be fetched; {NO_NETWORK}",
    "half-mirror": "the source of ior 4.0.0 cannot be fetched; the mirror does not have it: make it anew from this"
    " spack.yaml with `iosweep tools mirror`",
    "checksum": "compiler-wrapper-1.1.0.tar.gz is not the file that the recipe means (its sha256 is another): a mirror"
    " or a proxy gives a changed one, or half of it; remove it there, and `sources` below tools.directory",
    "configure-error": "fio 3.37 does not build: ProcessError: Command exited with status 1; its own log is"
    f" {STAGE}-wdjt53bpmr5whosk3d2w5enrlbdm76gv/spack-build-out.txt",
    "compile-error": "fio 3.37 does not build: <command-line>: error: expected '{' before numeric constant; its own log"
    f" is {STAGE}-y2ifs7twqxsww5s63636cm53f3nomcmr/spack-build-out.txt",
    "broken-compiler": "there is no compiler for C++; install one beside that for C (g++), or name one in spack.yaml"
    " (packages: gcc: externals)",
    "full-build": SPACE,
    "full-stage": SPACE,
    "full-sources": SPACE,
    "full-store": SPACE,
    "not-writable": f"/site/store/.spack-db cannot be made or written (permission denied){NOT_MADE}",
    "lock-database": "another process holds /site/store/.spack-db/lock; wait for it, or end it, and run it again",
    "ctrl-c": "exit code 2: Keyboard interrupt",
    "no-cache": f"/proc/nosuch cannot be made or written (no such file or directory){NOT_MADE}",
    "no-mirror-directory": f"/proc/nosuch cannot be made or written (no such file or directory){NOT_MADE}",
    "mirror-offline": f"the source of compiler-wrapper 1.1.0 cannot be fetched; {NO_NETWORK}",
}


def recordings() -> dict[str, Done]:
    """play.step -> what it was."""

    def text(name: str, stream: str) -> str:
        file = RECORDED / f"{name}.{stream}"
        return file.read_text() if file.exists() else ""

    rows = [line.split("\t") for line in (RECORDED / "manifest.tsv").read_text().splitlines()]
    return {name: Done(int(code), text(name, "out"), text(name, "err")) for name, code, *_ in rows if code != "0"}


@pytest.mark.parametrize("name", recordings())
def test_recorded_failures_of_spack(name: str) -> None:
    assert why(recordings()[name]) == RECORDINGS[name.partition(".")[0]]


def test_every_sentence_has_a_recording() -> None:
    assert {name.partition(".")[0] for name in recordings()} == set(RECORDINGS)


@pytest.mark.parametrize(
    ("said", "begins"),
    [  # Spack 1.2.0.dev0
        ("==> Error: spack requires 'git'. Make sure it is in your path.", "git is not on PATH; install it"),
        (
            "fatal: unable to access 'https://github.com/spack/x.git/': Could not resolve host: github.com\n"
            "==> Error: no compiler configured, and Spack cannot find working compilers in PATH",
            "a packages repository cannot be fetched; pin it",
        ),
        ("==> Error: no compiler configured, and Spack cannot find working compilers in PATH", "there is no compiler"),
        (
            f"==> Error: FetchError: All fetchers failed for spack-stage-libfabric-2.3.1-{HASH}",
            "the source of libfabric 2.3.1 cannot be fetched; is there a way to the network",
        ),
        (
            "==> Fetching file:///m/a.tar.gz\n"
            f"==> Error: FetchError: All fetchers failed for spack-stage-ior-4.0.0-{HASH}",
            "the source of ior 4.0.0 cannot be fetched; the mirror does not have it",
        ),
        ('==> Error: cannot bootstrap the "clingo" Python module from spec "clingo"', "Spack's Python has no clingo"),
        (
            "==> Error: [clingo-bootstrap] no\n    raised InstallError: nothing there\nof clingo",
            "Spack's Python has no clingo",
        ),
        (
            f"==> Error: ChecksumError: sha256 checksum failed for /s/spack-stage-ior-4.0.0-{HASH}/4.0.0.tar.gz",
            "4.0.0.tar.gz is not the file that the recipe means",
        ),
        ("==> Error: No version exists that satisfies ior@9.9", "no version fits `No version exists that satisfies"),
        ("==> Error: No version exists that satisfies 'ior@9.9'", "no version fits `ior@9.9`; take one"),
        (
            "==> Error: cannot concretize 'iorx', since 'iorx' does not exist",
            "there is no package `iorx` in the packages repository",
        ),
        ("==> Error: Package 'iorx' not found.", "there is no package `iorx` in the packages repository"),
        (
            "==> Error: Spack concretizer internal error. Please submit a bug report\n    ior@4.0.0 is unsatisfiable",
            "what spack.yaml asks for cannot be had together",
        ),
        (
            "==> Error: failed to concretize `ior`, `fio` for the following reasons:\n     1. ior: '+a' is not '+b'",
            "what spack.yaml asks for cannot be had: ior: '+a' is not '+b'",
        ),
        (
            "==> Error: /e/spack.yaml:8: 'maybe' is not valid under any of the given schemas",
            "spack.yaml, line 8: 'maybe' is not valid under any of the given schemas",
        ),
        (
            "==> Error: No such variant {'nosuch', 'other'} for spec: 'ior@4.0.0+nosuch+other'",
            "`ior@4.0.0+nosuch+other` has no variant nosuch, other; see",
        ),
        (
            "==> Error: Cannot build slurm, since it is configured `buildable:false` and no externals satisfy it",
            "slurm is needed and may not be built (buildable: false in spack.yaml); name where it is installed",
        ),
        ("==> Error: OSError: [Errno 122] Disk quota exceeded: '/s/x'", "the disk quota is used up; make room"),
        ("cp: error writing '/s/x': Disk quota exceeded", "the disk quota is used up; make room"),
        ("==> Error: [Errno 30] Read-only file system: '/s'", "/s cannot be made or written (read-only file system);"),
    ],
)
def test_other_texts_of_spack(said: str, begins: str) -> None:
    for done in (Done(1, "", said), Done(1, said, "")):
        assert why(done).startswith(begins)


@pytest.mark.parametrize(
    ("done", "sentence"),
    [
        (Done(1, "", ""), "exit code 1, and nothing was said"),
        (Done(-11, "", ""), "killed by signal 11, and nothing was said"),
        (Done(None, "==> Installing\n", ""), "it was not done in time: ==> Installing"),
        (Done(4, "out\n", "one\nthe last\n\n"), "exit code 4: the last"),
        (Done(4, "", "==> Error: the first\n==> Error: a second\nTraceback\n"), "exit code 4: the first"),
        (Done(1, "", "==> Error: it ends here...\n"), "exit code 1: it ends here"),
        (Done(1, "", "\x1b[31mred\x1b[0m\a"), r"exit code 1: \x1b[31mred\x1b[0m\x07"),
        (Done(1, "", "==> Error: [Errno 13] Permission denied: '/\x1b[2J\u202e/a'"), None),
        (Done(1, "", "/e/spack.yaml:3: \x1b[2J is no value"), r"spack.yaml, line 3: \x1b[2J is no value"),
    ],
)
def test_unknown_texts(done: Done, sentence: str | None) -> None:
    assert why(done) == (sentence or why(done))
    assert why(done).isprintable()


def test_long_line_is_shortened() -> None:
    assert len(why(Done(1, "", "x" * 10_000))) < 400
    assert len(why(Done(1, "", f"a.yaml:1: {'x' * 10_000}"))) < 1000
    assert len(of_git(Done(128, "", f"fatal: {'x' * 10_000}"))) <= 300


LINES = (
    f"==> Installing zlib-ng-2.2.2-{HASH} [1/2]\n",
    "clingo raised InstallError\n"[:7],
    "failed to concretize ",
    "is unsatisfiable\n",
    "Timed out waiting for a read lock after 1s\n",
    "Error while fetching x\n",
    "Error: Failed downloads\n",
    "raised InstallError\n",
    "[Errno 2] ",
    "cannot concretize '",
    "Cannot satisfy '",
    "@",
    "No such variant {'",
    "a.yaml:",
    "' target=",
    "error parsing YAML: near ",
    "No version exists that satisfies ",
    "  >> 1",
    "x",
    "1",
    " ",
    "\n",
)


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("first", ["", "ProcessError: Command exited with status 1\n", "Cannot satisfy '"])
def test_long_lines_are_matched_quickly(line: str, first: str) -> None:
    """A pattern that looks again from every place takes 40 s for 50 kB of it."""
    began = time.process_time()
    assert why(Done(1, "", first + line * (100_000 // len(line))))
    assert time.process_time() - began < 3


def test_large_log_is_matched_quickly() -> None:
    lines = f"==> Installing zlib-ng-2.2.2-{HASH} [1/2]\n[+] /site/store/zlib-ng-2.2.2-{HASH}\n" * 45_000
    assert len(lines) > 5_000_000
    began = time.process_time()
    assert why(Done(1, lines, "")).startswith("exit code 1: [+] /site/store/zlib-ng")
    assert time.process_time() - began < 10


PIECES = st.sampled_from([done.stderr for done in recordings().values()] + [*LINES, "\x1b[1m", "\u202e", "é", "'", "`"])


@given(st.lists(st.one_of(PIECES, st.text(max_size=20)), max_size=8).map("".join), st.sampled_from([None, -4, 1, 3]))
def test_any_output_becomes_one_line(said: str, exit_code: int | None) -> None:
    of_spack = (why(Done(exit_code, "", said)), why(Done(exit_code, said, "")))
    for sentence in (*of_spack, of_git(Done(exit_code, "", said))):
        assert sentence.isprintable()
        assert len(sentence) <= 1200
        assert not sentence.endswith(".")
    assert "1. " not in said or not any("You could consider" in sentence for sentence in of_spack)


# --- git ------------------------------------------------------------------------------------------------------------


def git(*words: str | Path) -> Done:
    # in the environment that git is given, without a proxy: where there is one, it is another that does not answer
    given = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    env = shell.environment(given, Path("/nosuch"))
    done = subprocess.run(["git", *words], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.local
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ls-remote", "https://nosuch.invalid/x.git"), "Could not resolve host: nosuch.invalid"),
        (("ls-remote", "https://127.0.0.1:9/x.git"), "Failed to connect to 127.0.0.1 port 9"),
        (("ls-remote", "git://127.0.0.1:9/x.git"), "Connection refused"),
        (("ls-remote", "/nosuch/x.git"), "'/nosuch/x.git' does not appear to be a git repository"),
        (("clone", "/nosuch/x.git", "{tmp}/new"), "repository '/nosuch/x.git' does not exist"),
        (("-C", "{tmp}", "rev-parse", "HEAD"), "not a git repository"),
        (("clone", "--branch", "nosuch", "{packages}", "{tmp}/new"), "Remote branch nosuch not found in upstream"),
        (("clone", "{packages}", "/proc/nosuch/new"), "could not create leading directories of '/proc/nosuch/new'"),
    ],
)
def test_failures_of_git(words: tuple[str, ...], said: str, tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    places = {"tmp": tmp_path / "tmp", "packages": packages(tmp_path)}
    told = of_git(git(*(word.format_map(places) for word in words)))
    assert said in told
    assert not told.startswith(("fatal", "error"))
    assert "\n" not in told
    assert not told.endswith((".", ":"))


@pytest.mark.parametrize(
    ("stderr", "sentence"),
    [
        ("Cloning into 'x'...\nwarning: no\nfatal: it is late.\n", "it is late"),
        ("hint: try\nremote: nothing\nerror: RPC failed; HTTP 500\nfatal: the end\n", "RPC failed; HTTP 500"),
        ("ssh: cannot resolve x: unknown\r\nfatal: Could not read\n", "ssh: cannot resolve x: unknown"),
        ("remote: denied\n", "remote: denied"),
        ("", "exit code 128"),
        ("Cloning into 'x'...\n", "exit code 128"),
        ("fatal: \x1b[31mred\n", r"\x1b[31mred"),
    ],
)
def test_other_texts_of_git(stderr: str, sentence: str) -> None:
    assert of_git(Done(128, "", stderr)) == sentence


def test_git_after_its_time_limit() -> None:
    assert of_git(Done(None, "", "fatal: the remote end hung up")) == ""


def test_first_compiler_error_is_shown() -> None:
    said = (
        "==> Error: ProcessError: Command exited with status 1:\n    './configure'\n\n3 errors found in build log:\n"
        "  >> 5    configure.ac:13: You should run autoupdate.\n  >> 9    configure: error: in `/site/stage/x':\n"
        "  >> 10    configure: error: C compiler cannot create executables\n\nSee build log for details:\n"
        f"  {STAGE}-{HASH}/spack-build-out.txt\n"
    )
    assert why(Done(1, "", said)) == (
        "fio 3.37 does not build: configure: error: C compiler cannot create executables; its own log is"
        f" {STAGE}-{HASH}/spack-build-out.txt"
    )


def test_two_mpis() -> None:
    said = (
        '==> Error: failed to concretize `ior` for the following reasons:\n     1. Cannot select a single "version" for'
    )
    assert why(Done(1, "", f'{said} package "openmpi"\n')) == (
        "openmpi cannot be had with the rest of spack.yaml; is another one required there (packages: mpi: require), or"
        " no version of it allowed?"
    )


#: What git says, and what is put together of two.
GIT = "Could not resolve host: github.com; name a"


def test_documentation_lists_the_sentences() -> None:
    """Each sentence of docs/tools.md is one that the product has, but for its names."""
    root = Path(__file__).parents[2]
    table = (root / "docs/tools.md").read_text().partition("| cause | sentence |")[2].partition("\n## ")[0]
    cells = [row.split(" | ")[1] for row in table.splitlines()[2:] if row.startswith("| ")]
    assert len(cells) > 20
    package = root / "workflow/iosweep"
    files = [*(package / "programs/spack").glob("*.py"), *(package / "commands/tools").glob("*.py")]
    source = "".join(file.read_text() for file in sorted(files))
    obstacles = re.sub(r'",\s*\n\s*f?"', "; ", source)  # what is wrong, and the remedy
    said = re.sub(r'"\s*\n\s*f?"', "", source + obstacles) + "".join(RECORDINGS.values())
    for cell in cells:
        parts = [part.strip(" `;:,()") for part in cell.split("...")]
        assert [part for part in parts if part and part not in said + GIT] == []
