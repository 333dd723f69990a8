"""The nodes: how many took part, and whether another campaign measured."""

from __future__ import annotations

from iosweep.judge.checks.finding import NOT_APPLICABLE, Seen, failed, passed, per_node, unchecked
from iosweep.judge.checks.timing import SHORTEST
from iosweep.store.record import Finding
from iosweep.text import human_count


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
    if seen.tasks is not None and seen.tasks != threads:
        return failed(f"{human_count(seen.tasks, 'worker')} logged I/O, {threads} were asked for")
    ran = seen.worker_seconds
    if not ran:
        return unchecked("the tool does not say")
    asked = threads * s.point.nodes * s.point.phase_time_s
    if ran < SHORTEST * asked:
        return failed(
            f"the workers ran for {ran:.1f} s in all, {asked:.1f} s were asked for: fewer ran, or not to the end"
        )
    return passed(f"{ran:.1f} worker seconds of {asked:.1f}")


def exclusive(s: Seen) -> Finding:
    """No other campaign measured the file system at the same time (enforced by a lock)."""
    found = s.run.exclusive
    if found is None:
        return unchecked("no record of whether other campaigns were kept off")
    return passed(found.evidence) if found.enforced else unchecked(found.evidence)
