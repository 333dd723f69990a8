"""Faults: what can go wrong while a file system is measured, done for real. fault_outcomes.tsv has how each ends."""

from faults import others, results, space, stopping, target, tool
from faults.registry import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "others", "results", "space", "stopping", "target", "tool"]
