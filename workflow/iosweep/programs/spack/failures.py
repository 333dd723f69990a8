"""Turns the output of a failed Spack or git into a sentence with the next step. Pure.

Texts of Spack 1.1.0 and of 1.2.0.dev0, which differ; recorded in tests/support/standins/recorded/spack.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from iosweep.programs.spack.shell import Done
from iosweep.text import printable, shortened

_Match = re.Match[str]
#: Maximum characters of an unknown error, and of a sentence.
_MOST, _MOST_SENTENCE = 300, 900


NO_SPACE = "there is no space left; make room below tools.directory, or name another one, and run it again"


def why(done: Done, file: str = "spack.yaml", text: str = "") -> str:
    """Why a command of Spack failed: the first known cause, else its own first error.

    file, text: name and content of the spack.yaml that Spack read.
    """
    output = done.stderr + "\n" + done.stdout
    if match := _LINE.search(output):
        lines, number = text.splitlines(), int(match["line"])
        shown = f" (`{lines[number - 1].strip()[:80]}`)" if 0 < number <= len(lines) else ""
        return printable(shortened(f"{file}, line {number}{shown}: {match['what']}", _MOST_SENTENCE))
    for pattern, sentence in _KNOWN:
        if match := pattern.search(output):
            return printable(shortened(sentence(match), _MOST_SENTENCE))
    # the first error: later ones follow from it
    errors = re.findall(r"^==> Error: (.+)$", output, re.MULTILINE)
    errors = errors or _lines(done.stderr)[-1:] or _lines(done.stdout)[-1:]
    how = _how(done.exit_code)
    return printable(f"{how}: {errors[0][:_MOST].rstrip('. ')}" if errors else f"{how}, and nothing was said")


#: A value that Spack's schemas do not take.
_LINE = re.compile(r"/spack\.yaml:(?P<line>\d{1,9}): (?P<what>.+)")


def of_git(done: Done) -> str:
    """Why a command of git failed; empty after the time limit."""
    if done.exit_code is None:
        return ""
    lines = [line for line in _lines(done.stderr) if not line.startswith(("Cloning into", "warning:", "hint:"))]
    which = (n for n, line in enumerate(lines) if line.startswith(("fatal:", "error:", "ssh:")))
    first = next(which, 0)
    message = " ".join(
        lines[first : first + (2 if lines and lines[first].endswith(":") else 1)]
    )  # git:// errors have two lines
    return printable(re.sub(r"^(fatal|error): ", "", message)[:_MOST].rstrip(". ")) or _how(done.exit_code)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _how(exit_code: int | None) -> str:
    if exit_code is None:
        return "it was not done in time"
    return f"killed by signal {-exit_code}" if exit_code < 0 else f"exit code {exit_code}"


def does_not_build(done: Done) -> bool:
    """Whether a package failed to configure or compile."""
    return _BUILD.search(done.stderr) is not None


_BUILD = re.compile(r"\d errors? found in build log|ProcessError: Command exited with status|See build log")


def _known(pattern: str, sentence: str | Callable[[_Match], str]) -> tuple[re.Pattern[str], Callable[[_Match], str]]:
    return re.compile(pattern, re.MULTILINE), (lambda _: sentence) if isinstance(sentence, str) else sentence


def _short(reason: str) -> str:
    """The reason without Spack's advice on environments, which does not apply to ours."""
    return reason.partition(". You could consider setting")[0].strip()


def _unquoted(names: str) -> str:
    return names.replace("'", "")


def _package(stage: str) -> str:
    """spack-stage-libfabric-2.3.1-<hash> -> libfabric 2.3.1"""
    name = re.sub(r"-[a-z0-9]{32}$", "", stage.removeprefix("spack-stage-")).replace("@", " ")
    return re.sub(r"-(?=\d)", " ", name, count=1)


def _no_sources(match: _Match) -> str:
    if "file://" in match.string:
        then = "the mirror does not have it: make it anew from this spack.yaml with `iosweep tools mirror`"
    else:
        then = "is there a way to the network from here? If not, docs/tools.md says how to build without one"
    return f"the source of {_package(match['stage'])} cannot be fetched; {then}"


def _failed_build(match: _Match) -> str:
    # several builds may fail at the same time: take the first that names its log
    parts = match.string.split("==> Error: ")[1:]
    part = next((p for p in parts if "See build log" in p), parts[0] if parts else "")
    log = re.search(r"^See build log for details:[ \t]*\n\s*(\S+)", part, re.MULTILINE)
    stage = re.search(r"/(spack-stage-[^/\s]+)/", log[1]) if log else None
    # Spack marks warnings of autoconf as errors, too
    marked = re.findall(r"^[ \t]*>> \d+[ \t]+(.+)$", part, re.MULTILINE)
    # "error: in `directory`" is followed by the error itself
    own = [line for line in marked if "error" in line.lower() and "error: in `" not in line]
    errors = own or marked or part.split("\n", 1)[:1]
    package = _package(stage[1]) if stage else "a package"
    where = f"; its own log is {log[1]}" if log else ""
    return f"{package} does not build: {errors[0].strip().rstrip(':.')[:160]}{where}"


_LANGUAGES = {"c": "C", "cxx": "C++", "fortran": "Fortran"}

#: Ordered: misleading errors come after those that they follow from.
_KNOWN = (
    _known("spack requires 'git'", "git is not on PATH; install it, Spack needs it"),
    _known(r"No space left on device|\[Errno 28\]", NO_SPACE),
    _known(
        r"Disk quota exceeded|\[Errno 122\]",
        "the disk quota is used up; make room below tools.directory, or name another one, and run it again",
    ),
    _known(
        "ChecksumError: sha256 checksum failed for (?P<file>\\S+)",
        lambda m: (
            f"{m['file'].rpartition('/')[2]} is not the file that the recipe means (its sha256 is another): a mirror or"
            " a proxy gives a changed one, or half of it; remove it there, and `sources` below tools.directory"
        ),
    ),
    _known(
        "Could not resolve host|Failed to clone repository|failed to read \\S*spack-repo-index.yaml",
        "a packages repository cannot be fetched; pin it in repos.builtin of spack.yaml, and give others as paths",
    ),
    _known(
        'cannot bootstrap the "clingo" Python module'
        r"|\A(?=[\s\S]*clingo)[\s\S]*raised (FetchCacheError|InstallError)",
        "Spack's Python has no clingo, and Spack cannot fetch it; run `make venv`, which installs it",
    ),
    _known(
        r"Error constructing repository '(?P<path>[^'\n]+)': (?P<what>.+)",
        lambda m: f"{m['path']} is not a packages repository that Spack can use: {m['what']}; see repos in spack.yaml",
    ),
    _known(
        r"Required path \((?P<path>[^)\n]{1,1000})\) does not exist",
        lambda m: f"{m['path']}, which `include` in spack.yaml names, is not there; is it mounted here?",
    ),
    _known(
        "no compiler configured",
        "there is no compiler on PATH; install one (gcc), load its module, or name it in spack.yaml (packages: gcc:)",
    ),
    _known(r"\A(?=[\s\S]*Error: Failed downloads)[\s\S]*?Error while fetching (?P<stage>\S+)", _no_sources),
    _known(r"FetchError: All fetchers failed for (?P<stage>spack-stage-\S+)", _no_sources),
    _known(
        r"cannot concretize '[^'\n]*', since '(?P<name>[^'\n]+)' does not exist|Package '(?P<other>[^'\n]+)' not found",
        lambda m: f"there is no package `{m['name'] or m['other']}` in the packages repository; see specs (spack.yaml)",
    ),
    _known(
        r"Cannot satisfy '(?P<spec>[^'@\n]+@[^'\n]+)'"
        r"|No version exists that satisfies[^'`\n]*['`](?P<other>[^'`\n]+)['`]"
        r"|(?P<rest>No version exists that satisfies[^\n]*)",
        lambda m: (
            f"no version fits `{m['spec'] or m['other'] or m['rest']}`; take one that the packages repository has, pin"
            " a newer one in repos.builtin, or (where it may not be built) see its externals"
        ),
    ),
    _known(
        r"No such variant \{?(?P<what>[^}\n]{1,200}?)\}? for spec: '(?P<spec>[^'\n]+)'",
        lambda m: (
            f"`{m['spec']}` has no variant {_unquoted(m['what'])}; see the package's recipe in the packages repository"
        ),
    ),
    _known(
        r"Timed out waiting for a \S+ lock after \S+\s+Made \d+ attempts? on file: (?P<file>\S+)",
        lambda m: f"another process holds {m['file']}; wait for it, or end it, and run it again",
    ),
    _known(
        "Cannot build (?P<name>\\S+), since it is configured `buildable:false`",
        lambda m: (
            f"{m['name']} is needed and may not be built (buildable: false in spack.yaml); name where it is installed"
            f" (packages: {m['name']}: externals), or drop what needs it"
        ),
    ),
    _known(
        r"'[^\s']+ target=(?P<target>[^\s']+)' is not compatible with this machine",
        lambda m: f"target={m['target']} does not fit this machine; name another in spack.yaml (packages: all: target)",
    ),
    _known(
        r"cannot satisfy constraint 'target=(?P<target>[^\s':]+)'",
        lambda m: f"target={m['target']} cannot be had here; name another one in spack.yaml (packages: all: target)",
    ),
    _known(
        r'Cannot select a single "version" for package "(?P<name>[^"\n]+)"',
        lambda m: (
            f"{m['name']} cannot be had with the rest of spack.yaml; is another one required there (packages: mpi:"
            " require), or no version of it allowed?"
        ),
    ),
    _known(
        r"^[ \t]+1\. Only external, or concrete, compilers are allowed for the (?P<language>\w+) language",
        lambda m: (
            f"there is no compiler for {_LANGUAGES.get(m['language'], m['language'])}; install one beside that for C"
            " (g++), or name one in spack.yaml (packages: gcc: externals)"
        ),
    ),
    _known(
        r"Error: (?P<what>unexpected characters in the spec string)\n(?P<spec>.+)",
        lambda m: f"spack.yaml: {m['what']} `{m['spec'].strip()}`",
    ),
    _known(
        r"^[ \t]+1\. (?P<reason>.*conflicts with.*)$",
        lambda m: f"what spack.yaml asks for contradicts itself: {_short(m['reason'])}",
    ),
    _known(
        r"\A(?>[\s\S]*?(?:failed to concretize|is unsatisfiable|Spack concretizer internal error))[\s\S]*?"
        r"^[ \t]+1\. (?P<reason>.+)$",
        lambda m: f"what spack.yaml asks for cannot be had: {_short(m['reason'])}",
    ),
    _known(
        "Spack concretizer internal error|is unsatisfiable",
        "what spack.yaml asks for cannot be had together; change its specs, requirements or externals",
    ),
    _known(
        r"(?<![^\s/])(?P<place>[^\s/]+\.yaml):(?P<line>\d+): (?P<what>.+)",
        lambda m: f"{m['place']}, line {m['line']}: {m['what']}",
    ),
    _known(
        r"error parsing YAML: near (?P<place>[^,\n]{1,1000}), (?P<line>\d+), \d+: (?P<what>.+)",
        lambda m: f"{m['place'].rpartition('/')[2]}, line {m['line']}: {m['what']}",
    ),
    (_BUILD, _failed_build),
    _known(
        r"\[Errno (1|2|13|20|30)\] (?P<what>[^:\n\[]+): '(?P<file>[^'\n]+)'",
        lambda m: (
            f"{m['file']} cannot be made or written ({m['what'].lower()}); name another tools.directory, or fix its"
            " permissions"
        ),
    ),
)
