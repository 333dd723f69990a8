"""Nodes as the report's tables have them."""

from collections.abc import Mapping
from typing import Any

import results_factory as factory
from iosweep.node.cpus import Topology, listed
from topologies import machine

#: 256 CPUs on 128 cores, eight NUMA nodes.
HUGE = machine(2, 4, 16, threads=2).topology
ONE = [factory.sweep("one", ["rand_read"], {"threads_per_node": [1]})]


def node(of: Topology, **more: Any) -> dict[str, Any]:
    numa = [{"node": n, "cpus": listed(own), "memory_bytes": None} for n, own in of.numa.items()]
    facts: dict[str, Any] = {"cpus_allowed": listed(of.cpus), "reserved_cpus": "", "reserved_sources": [], "numa": numa}
    return factory.NODE | {"nics": [], "used_cpus": None} | of.facts() | facts | more


def nodes(*rows: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{**row, "host": f"n{k}", "node": f"key{k}"} for k, row in enumerate(rows, 1)]
