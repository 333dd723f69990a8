"""The CPUs of a node: CPU lists, the topology, and the CPUs that the client of a file system (WEKA) reserves.

CPUs have the kernel's numbers (hwloc's P#), as WEKA and taskset use them. Slurm's CpuSpecList uses hwloc's L#, which
number CPUs in another order. Sources of reserved CPUs are WEKA (its command, mounts and cgroups), and the configuration
for any other file system. Only `Topology.read` and `find` read the node; the rest is pure.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import msgspec

from iosweep.errors import Unanswered
from iosweep.files.documents import Part
from iosweep.node.environment import without_token
from iosweep.node.procfs import text
from iosweep.text import printable, shortened, some

CpuSet = frozenset[int]
NO_CPUS: CpuSet = frozenset()
#: No machine has more CPUs; a larger number is a typo (`0-99999999`).
MOST = 1 << 16


@lru_cache(10_000)  # judging parses a few lists again and again
def parse(text: str) -> CpuSet:
    """`0-3,8` -> the set of CPUs; empty text -> the empty set. Raises ValueError."""
    cpus: set[int] = set()
    for part in filter(None, re.split(r"[,\s]+", text.strip())):
        if not (m := re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", part)):
            raise ValueError(f"{shortened(part)!r} is not a CPU or a range of CPUs; write a list such as 0-3,8")
        first, last = int(m[1]), int(m[2] or m[1])
        if last < first:
            raise ValueError(f"{shortened(part)!r} is not a range of CPUs; write the smaller one first, such as 0-3")
        if last >= MOST:
            raise ValueError(f"{shortened(part)!r} is not a range of CPUs below {MOST}; write those of the node")
        cpus.update(range(first, last + 1))
    return frozenset(cpus)


def parsed(text: str | None) -> CpuSet:
    """The set of CPUs in a text that the kernel or a program printed; empty if the text is not a CPU list."""
    try:
        return parse(text or "")
    except ValueError:
        return NO_CPUS


def listed(cpus: Iterable[int]) -> str:
    """A set of CPUs -> `0-3,8`, as the kernel writes it."""
    runs: list[list[int]] = []
    for cpu in sorted(set(cpus)):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def named(cpus: Collection[int]) -> str:
    """`CPU 3` or `CPUs 0-3,8`, for a sentence."""
    return f"CPU{'' if len(cpus) == 1 else 's'} {listed(cpus) or 'none'}"


@dataclass(frozen=True)
class Topology:
    """The online CPUs of a node."""

    #: The CPUs (siblings) of each core, in logical order: flattened, the order of hwloc's L# and of Slurm's numbers.
    cores: tuple[CpuSet, ...]
    sockets: tuple[CpuSet, ...]
    #: NUMA node -> its CPUs, without nodes that have no CPU.
    numa: Mapping[int, CpuSet]

    @property
    def logical(self) -> tuple[int, ...]:
        """The kernel's number (P#) of each logical CPU (L#)."""
        return tuple(cpu for core in self.cores for cpu in sorted(core))

    @property
    def cpus(self) -> CpuSet:
        return frozenset(self.logical)

    def with_siblings(self, cpus: Collection[int]) -> CpuSet:
        """These CPUs, and all that share a core with them."""
        return frozenset(cpus).union(*(core for core in self.cores if core & set(cpus)))

    def to_slurm(self, cpus: Collection[int]) -> CpuSet:
        """The kernel's numbers -> Slurm's numbers for CpuSpecList. CPUs that this node lacks are left out."""
        return frozenset(number for number, cpu in enumerate(self.logical) if cpu in cpus)

    def facts(self) -> dict[str, str]:
        """`cores` and `socket_cpus` of the table `nodes`: CPU lists separated by blanks, which of_texts reads."""
        return {"cores": " ".join(map(listed, self.cores)), "socket_cpus": " ".join(map(listed, self.sockets))}

    @staticmethod
    def of_texts(cores: str | None, socket_cpus: str | None, numa: Mapping[int, str | None]) -> Topology:
        """The topology from the texts of `facts` and the CPU list of each NUMA node."""
        nodes = {number: parse(cpus or "") for number, cpus in numa.items()}
        cores_, sockets = (tuple(filter(None, map(parse, (text or "").split(" ")))) for text in (cores, socket_cpus))
        return Topology(cores_, sockets, {number: cpus for number, cpus in nodes.items() if cpus})

    @staticmethod
    def read(root: Path = Path("/")) -> Topology:
        """The topology from the kernel's files. Without these (containers) every CPU is a core, all on one socket."""
        system = root / "sys/devices/system"
        stat = text(root / "proc/stat") or ""
        online = parsed(text(system / "cpu/online")) or frozenset(map(int, re.findall(r"^cpu(\d+) ", stat, re.M)))
        numa = {
            int(node.name[4:]): cpus
            for node in (system / "node").glob("node[0-9]*")
            if (cpus := parsed(text(node / "cpulist")) & online)
        }

        def sharing(*names: str) -> dict[int, CpuSet]:
            """CPU -> the CPUs that share its core or socket, from the first of these files that lists any."""
            groups: dict[int, CpuSet] = {}
            for cpu in sorted(online):
                if cpu not in groups:
                    sets = (parsed(text(system / f"cpu/cpu{cpu}/topology" / name)) for name in names)
                    group = next(filter(None, sets), NO_CPUS) & online
                    groups.update(dict.fromkeys(group, group))
            return groups

        sockets = sharing("package_cpus_list", "core_siblings_list") or dict.fromkeys(online, online)
        cores = {c: frozenset([c]) for c in online} | sharing("core_cpus_list", "thread_siblings_list")
        node_of = {cpu: cpus for cpus in numa.values() for cpu in cpus}

        def order(core: CpuSet) -> tuple[int, ...]:
            """hwloc's order: by the lowest CPU of the socket or NUMA node, whichever is wider, then of the other."""
            cpu = min(core)
            widest_first = sorted((group[cpu] for group in (sockets, node_of) if cpu in group), key=len, reverse=True)
            return (*map(min, widest_first), cpu)

        ordered = tuple(sorted(set(cores.values()), key=order))
        return Topology(ordered, tuple(sorted(set(sockets.values()), key=min)), numa)


# Reserved CPUs

CONFIGURATION = "the configuration (cpus.reserved)"
#: Begins `says` of a source that could not be asked.
FAILED = "cannot be asked: "


class ReservedSource(Part, frozen=True):
    """The CPUs that a file system's client reserves according to one source."""

    source: str
    #: CPU list; empty: reserves none; None: reserves some, unknown which.
    cpus: str | None = None
    #: The evidence, or FAILED and the error.
    says: str = ""

    @property
    def failed(self) -> bool:
        return self.says.startswith(FAILED)

    @property
    def kind(self) -> str:
        """`weka` (its command), `/proc/mounts`, or the path of a cgroup."""
        return self.source.partition(" ")[0]


@dataclass(frozen=True)
class Reserved:
    """The reserved CPUs of a node. `cpus`: with siblings; None if some are reserved, but it is not known which."""

    topology: Topology
    sources: tuple[ReservedSource, ...]
    cpus: CpuSet | None

    @property
    def listed(self) -> str | None:
        """`cpus` as a list, for records."""
        return None if self.cpus is None else listed(self.cpus)

    @property
    def configured(self) -> CpuSet | None:
        """The CPUs that cpus.reserved names, with siblings; None if the key is not set."""
        given = [source for source in self.sources if source.source == CONFIGURATION]
        return self._present(given) if given else None

    @property
    def detected(self) -> CpuSet:
        """The CPUs that sources on the node name, with siblings."""
        return self._present(self._on_node)

    @property
    def why(self) -> str:
        """The sources that reserve CPUs without naming them, or could not be asked; empty if `cpus` is known."""
        unclear = [source for source in self._on_node if source.cpus is None or source.failed]
        return _sentence(unclear) if self.cpus is None else ""

    @property
    def unasked(self) -> str:
        """The sources that could not be asked, and why; empty if all answered."""
        return _sentence([source for source in self.sources if source.failed])

    @property
    def problems(self) -> tuple[str, ...]:
        """Disagreements, a sentence each: sources that name CPUs which another source or the node does not have."""
        problems = []
        for source in self.sources:
            if self.topology.cpus and (absent := parse(source.cpus or "") - self.topology.cpus):
                problems.append(
                    f"{source.source} names {named(absent)}, and this node has {listed(self.topology.cpus)}"
                )
        asked = [source for source in self._on_node if source.kind == "weka"]
        if asked and all(source.cpus is not None and not source.failed for source in asked):
            for source in self._on_node:
                if more := self._present([source]) - self._present(asked):
                    problems.append(f"{source.source} names {named(more)}, which WEKA itself does not")
        if self.configured is not None and (more := self.detected - self.configured):
            problems.append(f"{CONFIGURATION} leaves out {named(more)} ({self.owners(more)})")
        return tuple(dict.fromkeys(problems))

    @property
    def counting(self) -> tuple[ReservedSource, ...]:
        """The sources that name CPUs in `cpus`, or reserve CPUs without naming them."""
        reserved = self.cpus or NO_CPUS
        return tuple(source for source in self.sources if source.cpus is None or self._present([source]) & reserved)

    def owners(self, cpus: Collection[int]) -> str:
        """The sources on the node that name any of these CPUs, with their evidence."""
        owners = [source for source in self._on_node if self._present([source]) & set(cpus)]
        return _sentence(owners) or CONFIGURATION

    @property
    def _on_node(self) -> list[ReservedSource]:
        return [source for source in self.sources if source.source != CONFIGURATION]

    def _present(self, sources: Iterable[ReservedSource]) -> CpuSet:
        """The CPUs that sources name, with siblings, as far as this node has them."""
        whole = self.topology.with_siblings(NO_CPUS.union(*(parse(source.cpus or "") for source in sources)))
        return whole & self.topology.cpus if self.topology.cpus else whole


def _sentence(sources: Iterable[ReservedSource]) -> str:
    return "; ".join(f"{source.source}: {source.says}" for source in sources)


def resolve(topology: Topology, sources: Iterable[ReservedSource], configured: str | None = None) -> Reserved:
    """The configured CPUs (the key cpus.reserved) if the key is set, else the union of all sources; with siblings.

    A source that does not name its CPUs is ignored if a source of another kind names some.
    """
    every = list(sources)
    if configured is not None:
        every.append(ReservedSource(CONFIGURATION, listed(parse(configured)), f'"{configured}"'))
    reserved = Reserved(topology, tuple(every), NO_CPUS)
    if reserved.configured is not None:
        return replace(reserved, cpus=reserved.configured)
    naming = {source.kind for source in every if source.cpus}
    clear = all(source.cpus is not None or naming - {source.kind} for source in every)
    return replace(reserved, cpus=reserved.detected if clear else None)


@dataclass(frozen=True)
class Overlap:
    """A problem with the CPUs that a job may use on a node."""

    issue: str
    #: The remedy.
    change: str
    #: Ranks cannot be bound, or (`pinning: strict`) must not be.
    fatal: bool

    def __str__(self) -> str:
        return f"{self.issue}; {self.change}"


def overlap(allowed: Collection[int], reserved: Reserved, slurm: bool = True, strict: bool = False) -> Overlap | None:
    """The problem if a job may use reserved CPUs of a node, or None.

    Not fatal as long as masks keep ranks off these CPUs, unless cpus.reserved leaves them out, or `strict` is set.
    """
    job_cpus = frozenset(allowed)
    if reserved.cpus is None:
        issue = f"CPUs are reserved, and it is not known which ({reserved.why or 'the node was not looked at'})"
        return Overlap(issue, 'name them with cpus.reserved ("" if there are none)', fatal=True)
    exposed = (reserved.detected - (reserved.configured or NO_CPUS)) & job_cpus
    are = "is" if len(exposed) == 1 else "are"
    issue = f"this job may use {named(exposed)}, which {are} reserved ({reserved.owners(exposed)})"
    everything = reserved.detected | (reserved.configured or NO_CPUS)
    name = f'name all reserved CPUs with cpus.reserved: "{listed(everything)}"'
    if exposed and reserved.configured is not None:
        return Overlap(f"{issue}, and {CONFIGURATION} leaves that out", name, fatal=True)
    numbers = f"CpuSpecList={listed(reserved.topology.to_slurm(reserved.detected))} on the node's line of slurm.conf"
    keep_off = (
        f"to keep all jobs off, write {numbers} (in Slurm's numbering), with TaskPlugin=task/affinity,task/cgroup and"
        " ConstrainCores=yes"
    )
    if exposed and strict:
        change = "; or ".join([*([keep_off] if slurm else []), name, "set `pinning: enforce`"])
        return Overlap(f"{issue}; `pinning: strict` refuses that", change, fatal=True)
    if not job_cpus - reserved.cpus:
        owners = reserved.owners(job_cpus)
        issue = f"no usable CPU is left: the job may use {named(job_cpus)}, and all are reserved ({owners})"
        return Overlap(issue, "give the job other CPUs, or correct cpus.reserved", fatal=True)
    if not exposed:
        return None
    return Overlap(f"{issue}; ranks and workers are kept off by their masks", keep_off if slurm else name, fatal=False)


# WEKA

#: The core id of a core that WEKA chooses itself.
_AUTOMATIC = 4294967295
#: Deadline of a command of WEKA, and time after which no further command is started.
DEADLINE_S = 5.0
#: Names of protocol containers, which have no cores and so no resources to list.
_PROTOCOLS = re.compile(r"(ganesha|samba|smb|smbw|s3|envoy|nfs|nfsw|dataserv)\d*$")

Ask = Callable[[Sequence[str]], str]


def find(topology: Topology, configured: str | None, root: Path = Path("/"), ask: Ask | None = None) -> Reserved:
    """The reserved CPUs of this node. `configured`: the key `cpus.reserved`.

    `ask` runs a command of WEKA and returns its output; it raises Unanswered, or FileNotFoundError without WEKA.
    """
    mounted = mounts(text(root / "proc/mounts") or "")
    try:
        asked = _ask_weka(ask or ask_weka)
    except FileNotFoundError:
        asked = []
    except Unanswered as error:
        unmounted = re.search(r"^wekafs", text(root / "proc/modules") or "", re.MULTILINE) and not mounted
        asked = [ReservedSource("weka local ps", None if unmounted else "", f"{FAILED}{error}")]
    else:  # WEKA has answered: mounts that name no CPUs are of no use
        mounted = [source for source in mounted if source.cpus is not None]
    return resolve(topology, [*asked, *mounted, *cgroups(root, topology.cpus)], configured)


def _ask_weka(ask: Ask) -> list[ReservedSource]:
    """The CPUs of WEKA's containers. Raises the exceptions of `ask` if the containers cannot be listed."""
    end = time.monotonic() + DEADLINE_S

    def asked(*words: str) -> str:
        if time.monotonic() > end:
            raise Unanswered(f"WEKA took more than {DEADLINE_S:g} s")
        return ask(["weka", "local", *words])

    states = containers(asked("ps"))
    sources = [] if states else [ReservedSource("weka local ps", "", "no container is here")]
    for container, state in states:
        name, words = f"weka local resources -C {container}", ("resources", "-C", container, "--stable")
        if _PROTOCOLS.match(container):
            continue
        if state.lower() == "stopped":
            sources.append(ReservedSource(name, "", "the container is stopped: reserves none"))
            continue
        try:
            sources += resources(name, asked(*words, "-J"))
        except (Unanswered, ValueError) as error:
            sources.append(ReservedSource(name, None, f"{FAILED}{error}"))
    return sources


def ask_weka(argv: Sequence[str]) -> str:
    """The output of a command of WEKA. Raises Unanswered, FileNotFoundError."""
    if not shutil.which(argv[0]):
        raise FileNotFoundError(argv[0])
    environment = {**without_token(), "LC_ALL": "C"}
    try:
        done = subprocess.run(
            list(argv), stdin=subprocess.DEVNULL, capture_output=True, timeout=DEADLINE_S, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        raise Unanswered(f"no answer within {DEADLINE_S:g} s") from None
    except OSError as error:
        raise Unanswered(str(error.strerror)) from None
    output, errors = (printed.decode("utf-8", "replace") for printed in (done.stdout, done.stderr))
    if done.returncode:
        reason = next((line.strip() for line in (errors + output).splitlines() if line.strip()), "no reason")
        raise Unanswered(f"exit code {done.returncode}, {printable(reason)[:200]}")
    return output


def containers(text: str) -> list[tuple[str, str]]:
    """Name and state of each container (`client0`, `Running`) from the output of `weka local ps`."""
    rows = [line.split() for line in text.splitlines() if line.strip()]
    return [(printable(row[0]), row[1] if row[1:] else "") for row in rows if row[0] not in ("CONTAINER", "NAME")]


def resources(name: str, text: str) -> list[ReservedSource]:
    """The reserved CPUs from the output of `weka local resources -C <container> --stable -J`. Raises ValueError."""
    document = msgspec.json.decode(text)
    nodes = document.get("nodes") if isinstance(document, dict) else None
    if not isinstance(nodes, dict):
        raise ValueError("its resources have no `nodes`")
    fixed, automatic, shared = Counter[str](), Counter[str](), Counter[str]()
    cores = set()
    for node in nodes.values():
        roles = "+".join(str(role) for role in node.get("roles") or ()) or "?"
        core = int(node.get("core_id", _AUTOMATIC))
        dedicated = node.get("dedicate_core", roles != "MANAGEMENT")
        if not dedicated or str(node.get("dedicated_mode") or "FULL").upper() == "NONE":
            shared[roles] += roles != "MANAGEMENT"
        elif core == _AUTOMATIC:
            automatic[roles] += 1
        else:
            fixed[roles] += 1
            cores.add(core)
    sources = []
    if fixed:
        sources.append(ReservedSource(name, listed(cores), f"{_counted(fixed)}, dedicated"))
    if automatic:
        says = f"{_counted(automatic)}, dedicated, which WEKA chooses itself (automatic)"
        sources.append(ReservedSource(name, None, says))
    if not sources:
        says = f"{_counted(shared)}, not dedicated" if shared.total() else "no core of its own"
        sources.append(ReservedSource(name, "", f"{says}: reserves none"))
    return sources


def _counted(roles: Counter[str]) -> str:
    """`4 FRONTEND cores`, `1 COMPUTE and 2 DRIVES cores`"""
    counts = " and ".join(f"{count} {role}" for role, count in sorted(roles.items()) if count)
    return f"{counts} core{'s' if roles.total() > 1 else ''}"


def mounts(text: str) -> list[ReservedSource]:
    """The CPUs that mounts of WEKA in /proc/mounts name; mounts with equal options share a source."""
    points: dict[tuple[str | None, str], list[str]] = {}
    for line in text.splitlines():
        if len(words := line.split(" ")) >= 4 and words[2] == "wekafs":
            points.setdefault(_mount_options(words[3]), []).append(printable(words[1]))
    return [ReservedSource(f"/proc/mounts {some(where, 1)}", *claim) for claim, where in points.items()]


def _mount_options(options: str) -> tuple[str | None, str]:
    """`cpus` and `says` of a source, by its mount options."""
    pairs = [(name, value) for name, _, value in (option.partition("=") for option in options.split(","))]
    given = dict(pairs)
    for name, value in (("net", "udp"), ("dedicated_mode", "none"), ("num_cores", "0")):
        if given.get(name, "").lower() == value:
            return "", f"{name}={value}: reserves none"
    cores = [value for name, value in pairs if name == "core"]
    if cores and all(value.isdecimal() for value in cores):
        return listed(map(int, cores)), ",".join(f"core={value}" for value in cores)
    if "num_cores" in given:
        return None, f"num_cores={given['num_cores']}, and not which"
    return None, "does not say which cores, or that it owns none (net=udp)"


def cgroups(root: Path, online: CpuSet) -> list[ReservedSource]:
    """The CPUs that cgroups (v1 or v2) confine WEKA to."""
    top = root / "sys/fs/cgroup"
    sources: dict[Path, ReservedSource] = {}
    for folder in (top / "cpuset", top, top / "unified", top / "system.slice", top / "unified/system.slice"):
        for group in (g for pattern in ("weka*", "weka*/*") for g in sorted(folder.glob(pattern)) if g.is_dir()):
            if (group / "cpuset.cpus").exists() and not text(group / "cpuset.cpus"):
                continue  # not set here: its effective CPUs are those of its parent
            files = ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus")
            cpus = parsed(next(filter(None, (text(group / name) for name in files)), None))
            if cpus and group not in sources and not (online and cpus >= online):  # else it confines nothing
                says = f"its cpuset is {listed(cpus)}"
                sources[group] = ReservedSource(f"/{group.relative_to(root)}", listed(cpus), says)
    return list(sources.values())
