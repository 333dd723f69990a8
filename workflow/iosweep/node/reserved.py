"""Which CPUs of a node a file system's client keeps for itself, and who says so.

WEKA is looked for: its command, its mounts, its cgroups. Of any other file system the configuration tells. What is read
is parsed by pure functions; `find` alone goes to the node.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from iosweep.errors import Unanswered
from iosweep.node.cpus import NO_CPUS, CpuSet, Topology, listed, named, parse
from iosweep.node.node_facts import NodeFacts, ReservedSource
from iosweep.node.process import without_token
from iosweep.text import printable, some

CONFIGURATION = "the configuration (cpus.reserved)"
#: The first words of a source's name.
_WEKA, _MOUNTS, _CGROUPS = "weka local", "/proc/mounts", "/sys/fs/cgroup"
#: What stands for a core that WEKA chooses itself.
_AUTOMATIC = 4294967295
#: So long is one question to WEKA waited for, and no further one is asked after that.
DEADLINE_S = 5.0
#: Containers of protocols; they own no core and have no resources of this kind.
_PROTOCOLS = re.compile(r"(ganesha|samba|smb|smbw|s3|envoy|nfs|nfsw|dataserv)\d*$")

Ask = Callable[[Sequence[str]], str]


@dataclass(frozen=True)
class Source:
    """What one source says of CPUs that are kept. `cpus`: of these; none: it keeps none; None: some, and not which,
    but `least`."""

    name: str
    cpus: CpuSet | None
    says: str
    least: int = 0


@dataclass(frozen=True)
class Reserved:
    """The CPUs that are kept, siblings among them; None where some are and it is not known which."""

    topology: Topology
    sources: tuple[Source, ...]
    cpus: CpuSet | None

    @property
    def configured(self) -> CpuSet | None:
        """What the configuration names, with siblings; None if it names nothing (an empty list is something)."""
        given = next((source.cpus for source in self.sources if source.name == CONFIGURATION), None)
        return None if given is None else self._here(given)

    @property
    def found(self) -> CpuSet:
        """What the node itself names, with siblings."""
        return self._here(_union(self._of_node))

    @property
    def why(self) -> str:
        """Who keeps CPUs and does not say which; empty where that is known."""
        return "; ".join(f"{s.name}: {s.says}" for s in self._of_node if s.cpus is None) if self.cpus is None else ""

    @property
    def unasked(self) -> str:
        """Who could not be asked, and why; empty where all answered."""
        return "; ".join(f"{source.name}: {source.says}" for source in self.sources if _is_failure(source))

    @property
    def problems(self) -> tuple[str, ...]:
        """Sources that do not agree, and CPUs that are not on this node: a sentence each."""
        return tuple(dict.fromkeys((*self._absent(), *self._disagreements())))

    def owners(self, cpus: Collection[int]) -> str:
        """Which sources name some of these CPUs, and what they say of them."""
        if self.configured is not None and not set(cpus) <= self.found:
            return CONFIGURATION
        named_by = [s for s in self._of_node if s.cpus and self._here(s.cpus) & set(cpus)]
        return "; ".join(f"{s.name}: {s.says}" for s in named_by) or CONFIGURATION

    @property
    def counting(self) -> tuple[Source, ...]:
        """The sources that name CPUs of those that count, or do not say which they keep."""
        return tuple(s for s in self.sources if s.cpus is None or self._here(s.cpus) & (self.cpus or NO_CPUS))

    def facts(self) -> dict[str, Any]:
        """For the table of nodes: `reserved_cpus` and `reserved_sources`; of_facts reads them."""
        return {
            "reserved_cpus": None if self.cpus is None else listed(self.cpus),
            "reserved_sources": [
                {"source": s.name, "cpus": None if s.cpus is None else listed(s.cpus), "says": s.says}
                for s in self.sources
            ],
        }

    @staticmethod
    def of_facts(facts: Mapping[str, Any]) -> Reserved:
        """What the facts of a node say; a node that was not looked at keeps CPUs that nobody knows."""
        cpus = facts.get("reserved_cpus")
        sources = tuple(
            Source(s["source"], None if s["cpus"] is None else parse(s["cpus"]), s["says"])
            for s in facts.get("reserved_sources") or ()
        )
        return Reserved(Topology.of_facts(facts), sources, None if cpus is None else parse(cpus))

    def stored(self) -> tuple[ReservedSource, ...]:
        """The sources as the facts of a node have them; of_node reads them."""
        return tuple(ReservedSource(s.name, None if s.cpus is None else listed(s.cpus), s.says) for s in self.sources)

    @staticmethod
    def of_node(facts: NodeFacts) -> Reserved:
        """What the facts of a node say; of a node that was not examined it is not known which CPUs are kept."""
        sources = tuple(
            Source(s.source, None if s.cpus is None else parse(s.cpus), s.says) for s in facts.reserved_sources or ()
        )
        return Reserved(facts.topology, sources, None if facts.reserved_cpus is None else parse(facts.reserved_cpus))

    @property
    def _of_node(self) -> list[Source]:
        return [source for source in self.sources if source.name != CONFIGURATION]

    def _here(self, cpus: Collection[int]) -> CpuSet:
        """With siblings, without what this node does not have."""
        whole = self.topology.with_siblings(cpus)
        return whole & self.topology.cpus if self.topology.cpus else whole

    def _absent(self) -> Iterator[str]:
        for source in self.sources:
            if self.topology.cpus and (absent := (source.cpus or NO_CPUS) - self.topology.cpus):
                are = "is not a CPU" if len(absent) == 1 else "are no CPUs"
                here = listed(self.topology.cpus)
                yield f"{source.name} names {named(absent)}, which {are} of this node; it has {here}"

    def _disagreements(self) -> Iterator[str]:
        asked = [s for s in self._of_node if s.name.startswith(_WEKA)]
        clear = bool(asked) and all(s.cpus is not None for s in asked) and not any(map(_is_failure, asked))
        cgroups = [s for s in self._of_node if s.name.startswith(_CGROUPS) and s.cpus]
        for source in self._of_node:
            if not source.cpus or source.name.startswith(_WEKA):
                continue
            # a node may run several containers, and a mount is one container's: only what it shares CPUs with counts
            if clear:
                same = [s for s in asked if s.cpus and self._here(s.cpus) & self._here(source.cpus)]
                yield from self._differ(source.name, source.cpus, _names(same or asked), _union(same))
            elif cgroups and source not in cgroups and self._here(source.cpus) - self._here(_union(cgroups)):
                yield from self._differ(source.name, source.cpus, _names(cgroups), _union(cgroups))
        told = [s for s in self._of_node if s.cpus is not None and not _is_failure(s)]
        unclear = any(s.cpus is None for s in self._of_node)  # then the configuration may well name more
        if self.configured is not None and told and not (unclear and self.found <= self.configured):
            says = [s for s in told if s.cpus] or told
            yield from self._differ(CONFIGURATION, self.configured, _names(says), _union(says))

    def _differ(self, one: str, ones: CpuSet, other: str, others: CpuSet) -> Iterator[str]:
        left, right = self._here(ones), self._here(others)
        only = [f"{named(a)} {'is' if len(a) == 1 else 'are'} named by the {which} only"
                for a, which in ((left - right, "former"), (right - left, "latter")) if a]  # fmt: skip
        if only:
            yield f"{one} says {named(left)}, and {other} says {named(right)}: {', '.join(only)}"


def resolve(topology: Topology, sources: Iterable[Source]) -> Reserved:
    """The union of what the sources say, and siblings; the configuration takes its place. Pure."""
    told = Reserved(topology, tuple(sources), NO_CPUS)
    if told.configured is not None:
        return Reserved(topology, told.sources, told.configured)
    for source in told.sources:
        others = (s for s in told.sources if _kind(s) != _kind(source))
        if source.cpus is None and len(_union(others)) < max(1, source.least):
            return Reserved(topology, told.sources, None)
    return Reserved(topology, told.sources, told.found)


@dataclass(frozen=True)
class Overlap:
    """Why the CPUs that a job may use on a node need a person. `change`: what would be right.

    fatal: ranks cannot be bound, or (`pinning: strict`) must not be.
    """

    seen: str
    change: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.seen}; {self.change}"


def overlap(
    allowed: Collection[int],
    reserved: Reserved | NodeFacts,
    configured: str | None,
    slurm: bool = True,
    strict: bool = False,
) -> Overlap | None:
    """Compare the CPUs that a job may use on a node with the reserved ones; None if ranks need nothing but a CPU.

    allowed: the CPUs of the job. reserved: what was found, or the node's facts. configured: the key `cpus.reserved`.
    Reserved CPUs that the job may use are avoided by the masks of ranks, unless the sources contradict each other or
    `strict`.
    """
    found = reserved if isinstance(reserved, Reserved) else Reserved.of_node(reserved)
    found = resolve(found.topology, _with(found.sources, configured)) if configured is not None else found
    may = frozenset(allowed)
    if found.cpus is None:
        return Overlap(
            f"CPUs are reserved, and it is not known which ({found.why or 'the node was not looked at'})",
            'name them with cpus.reserved ("" if there are none)',
            fatal=True,
        )
    open_ = (found.found - (found.configured or NO_CPUS)) & may
    they, are = ("it", "is") if len(open_) == 1 else ("they", "are")
    seen = f"the job may use {named(open_)}, and {they} {are} reserved ({found.owners(open_)})"
    every = listed(found.found | (found.configured or NO_CPUS))
    if open_ and strict:
        change = f'name {_them(open_)} with cpus.reserved: "{every}", or set `pinning: enforce`'
        lacks = f"{slurm_conf(found.topology, found.found)}; or " if slurm else ""
        return Overlap(f"{seen}, which `pinning: strict` refuses", lacks + change, fatal=True)
    if open_ and found.problems:
        change = f'name all reserved CPUs with cpus.reserved (`"{every}"` is what any source names)'
        return Overlap(f"{seen}, but the sources disagree ({'; '.join(found.problems)})", change, fatal=True)
    if not may - found.cpus:
        seen = f"no usable CPU is left: the job may use {named(may)}, and all are reserved ({found.owners(may)})"
        return Overlap(seen, "give the job other CPUs, or correct cpus.reserved", fatal=True)
    if not open_:
        return None
    change = slurm_conf(found.topology, found.found) if slurm else f'name {_them(open_)} with cpus.reserved: "{every}"'
    return Overlap(f"{seen}; ranks and workers are kept off {_them(open_)} by their masks", change, fatal=False)


def _them(cpus: CpuSet) -> str:
    return "it" if len(cpus) == 1 else "them"


def slurm_conf(topology: Topology, cpus: CpuSet) -> str:
    """What slurm.conf needs to keep jobs off CPUs, where it is not known how Slurm counts on the node."""
    if not topology.regular:
        return "`iosweep doctor` on that node says what slurm.conf lacks"
    shape = f", with CPUs={len(topology.cpus)} and ThreadsPerCore={len(topology.cores[0])} there"
    of = shape if len(topology.cores) < len(topology.cpus) else ""
    return f"slurm.conf lacks CpuSpecList={listed(topology.to_slurm(cpus))} on the node's line (Slurm's numbering{of})"


def find(topology: Topology, configured: str | None, root: Path = Path("/"), ask: Ask | None = None) -> Reserved:
    """Look at this node. `configured`: the key `cpus.reserved`. `ask`: runs a command of WEKA's and returns what it
    prints; raises Unanswered, FileNotFoundError where there is no such command."""
    mounted = _read(root / "proc/mounts")
    told, silent = mounts(mounted), silent_mounts(mounted)
    sources = [*told, *cgroups(root, topology.cpus)]
    loaded = re.search(r"^wekafs", _read(root / "proc/modules"), re.MULTILINE)
    try:
        sources = [*_ask_weka(ask or ask_weka), *sources]
    except FileNotFoundError:
        failed = ""
    except Unanswered as error:
        failed = str(error)
        unclear = silent or (loaded and not told) or any(s.name.startswith(_CGROUPS) for s in sources)
        source = Source(f"{_WEKA} ps", None if unclear else NO_CPUS, f"{_FAILED}{failed}", 1)
        sources = [source, *sources]
    else:
        silent = []  # what a mount does not say, WEKA has said
    sources += [Source(name, None, "does not say which cores, or that it owns none (net=udp)", 1) for name in silent]
    return resolve(topology, _with(sources, configured))


def _ask_weka(ask: Ask) -> list[Source]:
    """What its containers own. Raises what `ask` does if even these cannot be listed."""
    end = time.monotonic() + DEADLINE_S

    def asked(*words: str) -> str:
        if time.monotonic() > end:
            raise Unanswered(f"WEKA took more than {DEADLINE_S:g} s")
        return ask(["weka", "local", *words])

    found = containers(asked("ps"))
    sources = [] if found else [Source(f"{_WEKA} ps", NO_CPUS, "no container is here")]
    for container, state in found:
        name, words = f"{_WEKA} resources -C {container}", ("resources", "-C", container, "--stable")
        if _PROTOCOLS.match(container):
            continue
        if state.lower() == "stopped":
            sources.append(Source(name, NO_CPUS, "the container is stopped: reserves none"))
            continue
        try:
            try:
                sources += resources(name, asked(*words, "-J"))
            except (Unanswered, ValueError):  # an old one, without JSON
                sources += resources_text(name, asked(*words))
        except (Unanswered, ValueError) as error:
            sources.append(Source(name, None, f"{_FAILED}{error}", 1))
    return sources


_FAILED = "cannot be asked: "


def _is_failure(source: Source) -> bool:
    return source.says.startswith(_FAILED)


def ask_weka(argv: Sequence[str]) -> str:
    """What a command of WEKA's prints. Raises Unanswered, FileNotFoundError."""
    if not shutil.which(argv[0]):
        raise FileNotFoundError(argv[0])
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=DEADLINE_S,
            check=False,
            env={**without_token(), "LC_ALL": "C"},
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"no answer within {DEADLINE_S:g} s") from None
    except OSError as error:
        raise Unanswered(str(error.strerror)) from None
    if done.returncode:
        said = next((line.strip() for line in (done.stderr + done.stdout).splitlines() if line.strip()), "no reason")
        raise Unanswered(f"exit code {done.returncode}, {printable(said)[:200]}")
    return done.stdout


def containers(text: str) -> list[tuple[str, str]]:
    """What `weka local ps` prints -> name and state of each container (`client0`, `Running`)."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [(printable(row[0]), row[1] if row[1:] else "") for row in rows if row[0] not in ("CONTAINER", "NAME")]


def resources(name: str, text: str) -> list[Source]:
    """What `weka local resources -C <container> --stable -J` prints. Raises ValueError."""
    document = orjson.loads(text)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, dict):
        raise ValueError("its resources have no `nodes`")
    rows = []
    for node in nodes.values():
        roles = "+".join(str(role) for role in node.get("roles") or ()) or "?"
        dedicated = node.get("dedicate_core", roles != "MANAGEMENT")
        shared = str(node.get("dedicated_mode") or "FULL").upper() == "NONE"
        rows.append((roles, int(node.get("core_id", _AUTOMATIC)), bool(dedicated) and not shared))
    return _of_rows(name, rows)


def resources_text(name: str, text: str) -> list[Source]:
    """The same without -J: a table `ROLES  NODE ID  CORE ID`. It does not say what is dedicated: all but MANAGEMENT is
    taken to be. Raises ValueError."""
    _, there, table = text.partition("ROLES")
    if not there:
        raise ValueError("its resources have no table of ROLES")
    rows = []
    for m in re.finditer(r"^[ \t]*([A-Z][A-Z, +]*?)[ \t]+\d+[ \t]+(<auto>|auto|\d+)(?=\s|$)", table, re.MULTILINE):
        roles = "+".join(re.findall("[A-Z]+", m[1]))
        rows.append((roles, int(m[2]) if m[2].isdigit() else _AUTOMATIC, roles != "MANAGEMENT"))
    return _of_rows(name, rows)


def _of_rows(name: str, rows: Sequence[tuple[str, int, bool]]) -> list[Source]:
    """(roles, core, whether it is dedicated) of each process of a container."""
    kept = [(roles, core) for roles, core, dedicated in rows if dedicated]
    fixed = [(roles, core) for roles, core in kept if core != _AUTOMATIC]
    automatic = [(roles, core) for roles, core in kept if core == _AUTOMATIC]
    if not kept:
        others = Counter(roles for roles, _, _ in rows if roles != "MANAGEMENT")
        says = f"{_counted(others)}, not dedicated" if others else "no core of its own"
        return [Source(name, NO_CPUS, f"{says}: reserves none")]
    sources = []
    if fixed:
        says = f"{_counted(Counter(roles for roles, _ in fixed))}, dedicated"
        sources.append(Source(name, frozenset(core for _, core in fixed), says))
    if automatic:
        says = f"{_counted(Counter(roles for roles, _ in automatic))}, dedicated, which WEKA chooses itself (automatic)"
        sources.append(Source(name, None, says, len(automatic)))
    return sources


def _counted(roles: Mapping[str, int]) -> str:
    """`4 FRONTEND cores`, `1 COMPUTE and 2 DRIVES cores`"""
    told = " and ".join(f"{count} {role}" for role, count in sorted(roles.items()))
    return f"{told} core{'s' if sum(roles.values()) > 1 else ''}"


def mounts(text: str) -> list[Source]:
    """What mounts of WEKA in /proc/mounts say; those that say nothing of cores are `silent_mounts`."""
    told: dict[tuple[CpuSet | None, str, int], list[str]] = {}
    for directory, options in _mounts(text):
        if said := _of_options(options):
            told.setdefault(said, []).append(directory)
    return [Source(_of_mounts(where), cpus, says, least) for (cpus, says, least), where in told.items()]


def silent_mounts(text: str) -> list[str]:
    """The name of those that say nothing: one, or none."""
    where = [directory for directory, options in _mounts(text) if not _of_options(options)]
    return [_of_mounts(where)] if where else []


def net_of_mounts(text: str) -> list[str]:
    """The network interfaces that mounts of WEKA name (`net=ib0`)."""
    nets = [value.partition("/")[0] for _, options in _mounts(text) for key, value in options if key == "net"]
    return list(dict.fromkeys(net for net in nets if net and net != "udp"))


def _mounts(text: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    for line in text.splitlines():
        if len(words := line.split(" ")) >= 4 and words[2] == "wekafs":
            yield printable(words[1]), [(o.partition("=")[0], o.partition("=")[2]) for o in words[3].split(",")]


def _of_mounts(directories: Sequence[str]) -> str:
    return f"{_MOUNTS} {some(directories, 1)}"


def _of_options(options: Sequence[tuple[str, str]]) -> tuple[CpuSet | None, str, int] | None:
    given = dict(options)
    if given.get("net") == "udp":
        return NO_CPUS, "net=udp: reserves none", 0
    if given.get("dedicated_mode", "").lower() == "none":
        return NO_CPUS, "dedicated_mode=none: reserves none", 0
    cores = [value for key, value in options if key == "core"]
    if cores and all(value.isdecimal() for value in cores):
        says = ",".join(f"core={value}" for value in cores)
        return frozenset(map(int, cores)), says if len(cores) <= 8 else f"{len(cores)} times core=", 0
    number = given.get("num_cores", "")
    if number.isdecimal() and not int(number):
        return NO_CPUS, "num_cores=0: reserves none", 0
    if number.isdecimal() or cores:
        says = f"num_cores={number}" if number else f"core={cores[0]}"
        return None, f"{says}, and not which", int(number or len(cores))
    return None


def cgroups(root: Path, online: CpuSet) -> list[Source]:
    """What cgroups of WEKA's confine it to, of either version."""
    top = root / _CGROUPS[1:]
    found: dict[Path, Source] = {}
    for place in (top / "cpuset", top, top / "unified", top / "system.slice", top / "unified/system.slice"):
        for group in (g for pattern in ("weka*", "weka*/*") for g in sorted(place.glob(pattern)) if g.is_dir()):
            cpus = _confined(group, online)
            if cpus and group not in found:
                found[group] = Source(f"/{group.relative_to(root)}", cpus, f"its cpuset is {listed(cpus)}")
    return list(found.values())


def _confined(group: Path, online: CpuSet) -> CpuSet:
    """The CPUs of a cgroup; none where it has no set of its own, or all."""
    own = _read(group / "cpuset.cpus", "-").strip()
    if not own:  # what it has then is its parent's
        return NO_CPUS
    cpus = NO_CPUS
    for text in (_read(group / name).strip() for name in ("cpuset.cpus.effective", "cpuset.effective_cpus")):
        with contextlib.suppress(ValueError):
            cpus = cpus or parse(text)
    with contextlib.suppress(ValueError):
        cpus = cpus or parse(own)
    return NO_CPUS if online and cpus >= online else cpus


def _with(sources: Iterable[Source], configured: str | None) -> list[Source]:
    """The sources, and the configuration as the last one, if it says something."""
    told = [source for source in sources if source.name != CONFIGURATION]
    if configured is not None:
        told.append(Source(CONFIGURATION, parse(configured), f'"{configured}"'))
    return told


def _kind(source: Source) -> str:
    return next((kind for kind in (_WEKA, _MOUNTS, _CGROUPS) if source.name.startswith(kind)), source.name)


def _union(sources: Iterable[Source]) -> CpuSet:
    return NO_CPUS.union(*(source.cpus or NO_CPUS for source in sources))


def _names(sources: Iterable[Source]) -> str:
    return " and ".join(dict.fromkeys(source.name for source in sources))


def _read(file: Path, otherwise: str = "") -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return otherwise
