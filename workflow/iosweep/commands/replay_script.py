"""A stored repetition as a script for bash: what each phase needs, as comments, and its commands. Pure.

Stored text may come from others: a comment never continues on another line, and each word is one word for bash.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from iosweep.analysis import formats
from iosweep.plan.model import Point, file_set
from iosweep.results.campaign_documents import DataSet
from iosweep.results.record import PhaseRun, Record
from iosweep.target import marker
from iosweep.text import human_count, printable
from iosweep.tools import FileSet, tools
from iosweep.units import human_size

_FILES = {
    "read": "complete files that are only read",
    "write": "complete files that are written over",
    "fresh": "an empty directory, which the phases before it in this list fill",
}
_ESCAPED = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e"}


def quoted(word: str) -> str:
    """A word for bash, on one line: `a`, `'a b'`, or `$'a\\nb'` where it has characters that a terminal escapes."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(map(_escaped, word)) + "'"


def _escaped(character: str) -> str:
    if character in _ESCAPED:
        return _ESCAPED[character]
    if character.isprintable():
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))


def joined(words: Iterable[str]) -> str:
    """Words as a command line for bash."""
    return " ".join(map(quoted, words))


def lines(point: Point, record: Record, campaign: str, sets: dict[str, DataSet], phase: str | None) -> Iterator[str]:
    """The lines of the script. campaign: the name of its results; sets: name -> how a data set was written."""
    where = f"on {formats.hosts(record.hosts or (record.host,))}"
    yield _comment(f"{point.id}, repetition {record.repetition} of {campaign}, {record.started:%F %H:%M %Z} {where}")
    build = f"{record.tool.path or point.tool} {record.tool.version}, sha256 {record.tool.sha256}"
    yield _comment(f"measured with {build}")
    if record.slurm and len(record.hosts) > 1:
        yield "# to be run in an allocation of these nodes"
        yield _comment(f"  salloc --exclusive --nodes={len(record.hosts)} --nodelist={','.join(record.hosts)}")
    steps = {step.name: step for step in point.steps()}
    first = next(iter(steps))
    for name in dict.fromkeys(
        run.phase if run.phase in steps else first for run in record.phases if phase in (None, run.phase)
    ):
        own = next(one for one in record.phases if one.phase == name or name == first)
        files = file_set(point, steps[name], record.repetition)
        yield ""
        yield from _needs(record, own, files, [one.name for one in steps[name].phases], point)
        if (prepared := sets.get(files.directory.replace("/", "."))) and prepared.argv:
            yield "# they were written by"
            yield f"#   {joined(prepared.argv)}"
        directory = _directory(record, own, files)
        yield f'mkdir -p {quoted(directory)} && cd "$(mktemp -d)"'
        yield from _commands(record, own)


def _needs(record: Record, run: PhaseRun, files: FileSet, phases: Sequence[str], point: Point) -> Iterator[str]:
    yield _comment(f"{', '.join(phases)}: {_figure(run, point)}{run.wall_s:.3g} s")
    size = f"{human_count(run.files.files, 'file')} of {human_size(run.files.file_size_bytes)}, "
    there = size if run.files.files else ""
    yield _comment(f"needs {_directory(record, run, files)}: {there}{_FILES[files.role]}")


def _directory(record: Record, run: PhaseRun, files: FileSet) -> str:
    """The absolute directory of the files of a phase. A relative target counts from where Snakemake ran, which the
    command tells."""
    own = f"{record.target.directory}/{marker.name_of(record.campaign)}/{files.directory}"
    if own.startswith("/"):
        return own
    below = f"/{Path(own)}"
    for word in (word for argv in run.argvs or (run.argv,) for word in argv):
        value = word[word.find("/") :] if "/" in word else ""
        if (end := f"{value}/".find(f"{below}/")) >= 0:
            return value[: end + len(below)]
    return own


def _comment(text: str) -> str:
    return f"# {printable(text)}"


def _figure(run: PhaseRun, point: Point) -> str:
    """`valid, 12.5 k IOPS, `; empty where there is no figure."""
    known = tools()[point.tool].phases.get(run.phase)
    if run.headline is None or known is None:
        return ""
    return f"{run.verdict}, {formats.quantity(run.headline, formats.units_of(known.metric, known.kind))}, "


def _commands(record: Record, run: PhaseRun) -> Iterator[str]:
    """The commands of a phase, each on the CPUs and with the environment that it had."""
    node = run.cpus.nodes[0] if run.cpus and run.cpus.nodes else None
    cpus = ",".join(run.cpus.planned) if run.cpus and run.cpus.planned else node.usable if node else ""
    environment = ["env", *(f"{name}={value}" for name, value in record.environment.items())]
    commands = run.argvs or (run.argv,)
    hosts = record.hosts or (record.host,)
    places = _places(hosts, len(commands)) if run.argvs else []
    served = len(commands) == len(hosts) + 1
    order = [*range(1, len(commands)), 0] if served else list(range(len(commands)))
    for number in order:
        argv = commands[number]
        host, where = places[number] if number < len(places) else ("", "")
        if where:
            yield _comment(where)
        # srun binds the ranks itself
        bound = ["taskset", "--cpu-list", cpus] if cpus and argv[:1] != ("srun",) else []
        step = _STEP if record.slurm and host and len(record.hosts) > 1 else ()
        over = [*step, f"--nodelist={host}"] if step else []
        waits = " &" if step and number != order[-1] else ""
        yield " \\\n    ".join([joined([*over, *bound, *environment]), *map(quoted, argv)]) + waits
    if record.slurm and len(commands) > 1:
        yield "kill $(jobs -p)" if served else "wait"


#: How a command starts on one node of an allocation, beside those on the others.
_STEP = ("srun", "--overlap", "--nodes=1", "--ntasks=1", "--cpu-bind=none")


def _places(hosts: Sequence[str], commands: int) -> list[tuple[str, str]]:
    """(host, sentence) of several commands: one on each host, or before these a client of theirs on the first."""
    if commands == len(hosts) + 1:
        return [(hosts[0], f"on {hosts[0]}, the client, after the servers")] + [
            (host, f"on {host}, a server") for host in hosts
        ]
    return [(host, f"on {host}, at the same time as the others") for host in hosts]
