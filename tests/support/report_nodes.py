"""Nodes as the report's tables have them."""

from typing import Any

import results_factory as factory
from iosweep.node.cpus import Topology, listed


def node(of: Topology, **more: Any) -> dict[str, Any]:
    """A node with these CPUs, all of them allowed and none reserved."""
    numa = [{"node": n, "cpus": listed(own), "memory_bytes": None} for n, own in of.numa.items()]
    facts: dict[str, Any] = {"cpus_allowed": listed(of.cpus), "reserved_cpus": "", "reserved_sources": [], "numa": numa}
    return factory.NODE | {"nics": [], "used_cpus": None} | of.facts() | facts | more
