"""The nodes: how many took part, and whether anything else used them or the file system."""

from __future__ import annotations

from iosweep.results.checks.finding import (
    NOT_APPLICABLE,
    SHOWN_NODES,
    Finding,
    Seen,
    failed,
    passed,
    per_node,
    unchecked,
)
from iosweep.results.checks.timing import SHORTEST
from iosweep.text import human_count

#: Share of a node's CPU time that others may use while a phase runs.
OTHER_LOAD = 0.25


@per_node
def workers(s: Seen) -> Finding:
    """As many ranks and nodes took part as were requested; every worker ran for the whole time."""
    seen = s.parsed.evidence
    threads = int(s.point.options["threads_per_node"] or 1)
    if seen.mpi:
        ranks, nodes, wanted = seen.tasks, seen.nodes or s.point.nodes, threads * s.point.nodes
        if ranks is None:
            return unchecked("the tool does not say")
        if ranks != wanted:
            another = "was it built with another MPI than its launcher?"
            return failed(f"the tool ran with {human_count(ranks, 'rank')}, {wanted} were asked for: {another}")
        if nodes != s.point.nodes:
            return failed(f"the tool ran on {human_count(nodes, 'node')}, {s.point.nodes} were asked for")
        ran_on = s.run.ran_on
        if odd := {host: ranks for host, ranks in ran_on.items() if ranks > threads or (not ranks and threads)}:
            seen_on = ", ".join(f"{ranks} on {host}" for host, ranks in sorted(odd.items()))
            return failed(f"{human_count(threads, 'rank')} were asked for on each node, and {seen_on} were seen")
        return passed(f"{human_count(ranks, 'rank')} on {human_count(nodes, 'node')}, as asked")
    if s.phase.kind == "metadata" or s.point.phase_time_s is None:
        return NOT_APPLICABLE
    ran = seen.worker_seconds
    if not ran:
        return unchecked("the tool does not say")
    asked = threads * s.point.nodes * s.point.phase_time_s
    if ran < SHORTEST * asked:
        return failed(
            f"the workers ran for {ran:.1f} s in all, {asked:.1f} s were asked for: fewer ran, or not to the end"
        )
    return passed(f"{ran:.1f} worker seconds of {asked:.1f}")


def other_load(s: Seen) -> Finding:
    """No node was busy with anything but the tool and the target's client, and no hypervisor withheld CPU time."""
    load = s.run.load
    short = "it takes runs of half a second"
    if not load:
        return unchecked(f"the node's load was not read ({short})")
    where = f" on {load.host}" if s.point.nodes > 1 and load.host else ""
    if load.steal > OTHER_LOAD:
        return failed(f"the hypervisor withheld {load.steal:.0%} of the CPU time", True)
    client = load.client
    if load.other > OTHER_LOAD:
        used = f"{load.other:.0%} of the CPU time{where}"
        if client is None:
            why = "its processes were not found"
            return unchecked(f"others used {used}, and the client of {s.fstype} may be one of them: {why}")
        return failed(f"other processes used {used}", True)
    if unread := load.unread:
        return unchecked(f"the load of {', '.join(unread[:SHOWN_NODES])} was not read ({short})")
    by_client = f", the target's client {client:.0%}" if client else ""
    user_only = " (others in user mode only: the kernel's threads are hidden here)" if load.user_only else ""
    others = f"others used {load.other:.0%}{where}{by_client}"
    return passed(f"{others}, the hypervisor withheld {load.steal:.0%} of the CPU time{user_only}")


def exclusive(s: Seen) -> Finding:
    """No other campaign measured the file system at the same time (enforced by a lock)."""
    found = s.run.exclusive
    if found is None:
        return unchecked("no record of whether other campaigns were kept off")
    return passed(found.evidence) if found.enforced else unchecked(found.evidence)
