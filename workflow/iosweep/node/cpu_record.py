"""What a result keeps of the CPUs and the load while a phase ran (docs/store.md)."""

from __future__ import annotations

from iosweep.files.fields import Count, Number, Part, Seconds


class Processes(Part, frozen=True, kw_only=True):
    """Processes with the same role (rank, worker, helper, agent) and the same masks, each mask a CPU list.

    masks, thread_masks: those of the processes and of their threads when they were looked at. early: the CPUs of their
    first moments, ran_on: those that they were on.
    """

    role: str
    masks: tuple[str, ...]
    thread_masks: tuple[str, ...]
    count: Count = 0
    early: str = ""
    ran_on: str = ""


class Looks(Part, frozen=True, kw_only=True):
    """What was seen on one node. gap_s: the longest time between two looks; cost_s: CPU time that looking took of
    `wall_s`; expected, seen: ranks or workers, at once."""

    looks: Count
    processes: tuple[Processes, ...]
    expected: Count = 0
    seen: Count = 0
    gap_s: Seconds = 0.0
    cost_s: Seconds = 0.0
    wall_s: Seconds = 0.0


class NodesCpus(Looks, frozen=True, kw_only=True):
    """Nodes that are alike. usable, reserved: CPU lists, None where it is not known what is reserved; by: the sources
    of `reserved`, problems: how they disagree."""

    hosts: tuple[str, ...]
    usable: str = ""
    reserved: str | None = None
    by: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


class CpuRecord(Part, frozen=True, kw_only=True):
    """The CPUs of a phase. planned: CPU list -> how many ranks or workers of a node were to have it; None where nothing
    was bound."""

    nodes: tuple[NodesCpus, ...]
    pinning: str
    placement: str | None = None
    width: str | None = None
    planned: dict[str, Count] | None = None


class Other(Part, frozen=True):
    """Processes of others: their name, the user of that which used most, and their share of the same CPU time."""

    name: str
    user: str
    share: Number


class Throttled(Part, frozen=True):
    """What the CPU quota of a control group did: periods in which something ran, those in which it stopped that, and
    for how long on all CPUs together."""

    periods: Count
    stopped: Count
    stopped_s: Seconds
    host: str = ""


class Bound(Part, frozen=True):
    """CPUs that ranks or workers were bound to, as a list, and the share of their time that others used."""

    cpus: str
    other: Number
    host: str = ""
    top: tuple[Other, ...] = ()


class Load(Part, frozen=True, kw_only=True):
    """Shares of the CPU time of all CPUs that are not reserved, the largest of any node.

    other: neither the tool, iosweep, the kernel's threads nor the target's client; client: None where its processes
    were not found; steal: withheld by the hypervisor; user_only: the kernel's threads could not be seen, and others
    count in user mode only; unknown: what may then be the kernel's threads or others in kernel mode; window_s: the time
    that was covered; host: where others used most; top: those of others that used most there; bound: the CPUs with a
    rank or worker of which others used most, None where that is not known; throttled: by the CPU
    quota that stopped longest on any node, None where control groups could not be read; unread: hosts without a load.
    """

    other: Number
    steal: Number
    client: Number | None = 0.0
    user_only: bool = False
    unknown: Number = 0.0
    window_s: Seconds = 0.0
    host: str = ""
    top: tuple[Other, ...] = ()
    bound: Bound | None = None
    throttled: Throttled | None = None
    unread: tuple[str, ...] = ()


class MachineCounters(Part, frozen=True):
    """Identifies a machine: when it was booted (in seconds since the epoch), and counts since then."""

    booted_s: int
    switches: int
    forks: int


class NodeLoad(Part, frozen=True, kw_only=True):
    """One node's shares of the CPU time of its CPUs that are not reserved, of which `Load` keeps the largest.

    busy: less the kernel's threads, where they can be seen; in user mode only where they cannot, and `system` in kernel
    mode. ours: of the tool, the runner and the agents; ours_system: in kernel mode, with the client's, beside `system`.
    machine: its counters at the first and the last look. top, bound, throttled: as for `Load`.
    """

    busy: float
    ours: float
    client: float | None
    steal: float
    user_only: bool
    window_s: float
    machine: tuple[MachineCounters, MachineCounters]
    system: float = 0.0
    ours_system: float = 0.0
    top: tuple[Other, ...] = ()
    bound: Bound | None = None
    throttled: Throttled | None = None
