"""What changed between two campaigns beside their figures."""

from __future__ import annotations

import results_factory as factory
from iosweep.analysis.changes import NOT_KNOWN, Changed, find_changes
from iosweep.tables.reader import Campaign

NODE = factory.NODE | {"host": "n1"}
CONFIGURATION = """
campaign: {name}
target: {{directory: /mnt/a}}
sweeps:
  - name: one
    tool: fio
    axes: {{threads_per_node: [1, 2]}}
    phase_time: {time}
"""


def facts(row: dict[str, object] | None = None, node: dict[str, object] | None = None, **about: object) -> Campaign:
    usual = {"hosts": "n1", "tool_version": "fio-3.33", "tool_sha256": "a" * 64, "session": "1"}
    return factory.loaded([factory.row(**usual | (row or {}))], nodes=[NODE | (node or {})], **about)


def text(name: str, time: str) -> list[dict[str, str]]:
    return [{"file": "sweep.yaml", "text": CONFIGURATION.format(name=name, time=time)}]


def test_equal_campaigns_differ_in_nothing() -> None:
    assert find_changes(facts(), facts(campaign="another name")) == []
    assert find_changes(facts(configuration=text("a", "10s")), facts(configuration=text("b", "10s"))) == []


def test_each_fact_that_differs_is_named() -> None:
    row: dict[str, object]
    node: dict[str, object]
    for row, node, expected in (
        ({"tool_version": "fio-3.37"}, {}, Changed("tools", "fio", "3.33", "3.37")),
        ({"tool_sha256": "b" * 64}, {}, Changed("tools", "fio binary", f"sha256 {'a' * 12}", f"sha256 {'b' * 12}")),
        ({"target_fstype": "xfs"}, {}, Changed("target", "type", NOT_KNOWN, "xfs")),
        ({"pinning": "verify"}, {}, Changed("nodes", "pinning", NOT_KNOWN, "verify")),
        ({}, {"kernel": "6.8"}, Changed("nodes", "kernel", "6.1.0-28-amd64", "6.8")),
        ({}, {"nics": []}, Changed("nodes", "network", "ens1f0np0 100 Gbit/s", NOT_KNOWN)),
        (
            {},
            {"mount": "29 1 259:2 / /mnt/scratch rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro"},
            Changed("target", "mount options", "rw,relatime,errors=remount-ro", "rw,noatime,errors=remount-ro"),
        ),
        ({"hosts": "n2"}, {"host": "n2"}, Changed("nodes", "nodes", "n1", "n2")),
    ):
        assert find_changes(facts(), facts(row, node)) == [expected]
    found = find_changes(facts(), facts(targets={"": {"directory": "/mnt/b"}}, iosweep_version="9"))
    assert [one.what for one in found] == ["directory", "iosweep"]


def test_values_of_the_configuration_are_named_by_their_sweeps() -> None:
    found = find_changes(facts(configuration=text("a", "10s")), facts(configuration=text("b", "20s")))
    assert found == [Changed("configuration", "sweeps[one].phase_time", "10s", "20s")]


def test_what_differs_between_two_targets_of_a_campaign_is_theirs() -> None:
    targets = {name: {"directory": f"/mnt/{name}"} for name in ("a", "b")}
    nodes = [factory.NODE | {"node": fstype, "mount": f"/dev/{fstype} on /mnt/{fstype} type {fstype} (rw)"}
             for fstype in ("xfs", "ext4")]  # fmt: skip
    a, b = (
        factory.loaded([factory.row(target=name, target_fstype=fstype, target_source=f"/dev/{fstype}")],
                       nodes=nodes, targets=targets)
        for name, fstype in (("a", "xfs"), ("b", "ext4"))
    )  # fmt: skip
    found = {one.what: (one.a, one.b) for one in find_changes(a, b)}
    assert found == {"directory": ("/mnt/a", "/mnt/b"), "type": ("xfs", "ext4"), "source": ("/dev/xfs", "/dev/ext4")}
