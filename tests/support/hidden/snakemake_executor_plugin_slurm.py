"""Hides the package of this name from a Snakemake that has this directory on PYTHONPATH: a module is no plugin.

Snakemake imports all executor plugins whenever it starts. This one, which a benchmark alone uses, imports pandas: a
third of the CPU time of a start, which installations without the packages for tests do not have.
"""
