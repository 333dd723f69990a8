"""What changed between two campaigns beside the figures."""

import pytest

import results_factory as factory
from iosweep.analysis.changes import NOT_KNOWN, Changed, changes, sessions
from iosweep.analysis.data import Campaign

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


def campaign(row: dict[str, object] | None = None, node: dict[str, object] | None = None, **about: object) -> Campaign:
    usual = {"hosts": "n1", "tool_version": "fio-3.33", "tool_sha256": "a" * 64, "session": "1"}
    return factory.loaded([factory.row(**usual | (row or {}))], nodes=[NODE | (node or {})], **about)


def text(name: str, time: str) -> list[dict[str, str]]:
    return [{"file": "sweep.yaml", "text": CONFIGURATION.format(name=name, time=time)}]


def test_equal_campaigns_differ_in_nothing() -> None:
    assert changes(campaign(), campaign(campaign="another name")) == []
    assert changes(campaign(configuration=text("a", "10s")), campaign(configuration=text("b", "10s"))) == []


@pytest.mark.parametrize(
    ("row", "node", "expected"),
    [
        ({"tool_version": "fio-3.37"}, {}, Changed("tools", "fio", "3.33", "3.37")),
        ({"tool_sha256": "b" * 64}, {}, Changed("tools", "fio binary", f"sha256 {'a' * 12}", f"sha256 {'b' * 12}")),
        ({"target_fstype": "xfs"}, {}, Changed("target", "type", NOT_KNOWN, "xfs")),
        ({"target_layout": "stripe 4"}, {}, Changed("target", "layout", NOT_KNOWN, "stripe 4")),
        ({"pinning": "off"}, {}, Changed("CPUs", "pinning", NOT_KNOWN, "off")),
        ({}, {"kernel": "6.8"}, Changed("nodes", "kernel", "6.1.0-28-amd64", "6.8")),
        ({}, {"cpu_model": "Xeon"}, Changed("nodes", "CPU", "AMD EPYC 7543P 32-Core Processor", "Xeon")),
        ({}, {"nics": []}, Changed("nodes", "network", "1 × 100 Gbit/s", NOT_KNOWN)),
        (
            {},
            {"mount": "29 1 259:2 / /mnt/scratch rw,noatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro"},
            Changed("target", "mount options", "rw,relatime,errors=remount-ro", "rw,noatime,errors=remount-ro"),
        ),
    ],
)
def test_what_differs(row: dict[str, object], node: dict[str, object], expected: Changed) -> None:
    assert changes(campaign(), campaign(row, node)) == [expected]


def test_other_nodes() -> None:
    found = changes(campaign(), campaign({"hosts": "n2"}, {"host": "n2"}))
    assert found == [Changed("nodes", "nodes", "n1", "n2")]


def test_values_of_the_configuration_are_named_by_their_sweeps() -> None:
    found = changes(campaign(configuration=text("a", "10s")), campaign(configuration=text("b", "20s")))
    assert found == [Changed("configuration", "sweeps[one].phase_time", "10s", "20s")]


def test_a_configuration_that_is_no_yaml_is_compared_as_it_is() -> None:
    broken = [{"file": "sweep.yaml", "text": "a: [1"}]
    assert changes(campaign(configuration=broken), campaign(configuration=broken)) == []
    [*_, last] = changes(campaign(configuration=text("a", "10s")), campaign(configuration=broken))
    assert (last.what, last.b) == ("sweep.yaml", "a: [1")


def test_the_target_and_the_version_of_iosweep() -> None:
    found = changes(campaign(), campaign(target={"directory": "/mnt/b"}, iosweep_version="9"))
    assert found == [
        Changed("target", "directory", "/mnt/scratch/bench", "/mnt/b"),
        Changed("tools", "iosweep", "0.1.0", "9"),
    ]


def test_verdicts() -> None:
    [found] = changes(campaign(), campaign({"verdict": "suspect", "reasons": "too short"}))
    assert found == Changed("verdicts", "repetitions", "1 valid", "1 suspect")


def test_sessions() -> None:
    assert sessions(campaign()) == 1
    assert sessions(campaign({"session": None})) == 0
