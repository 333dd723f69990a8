"""Sweeps -> points -> allocations, with their cost. Pure: sees no result and no machine."""
