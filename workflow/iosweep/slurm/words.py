"""Cases that only the text of Slurm's commands distinguishes, without an exit code or a state. Pure.

`said`: the first line on stderr (Unanswered.said), as Slurm 22.05 and 23.11 print it.
"""

from __future__ import annotations

import re


def is_unknown_job(said: str) -> bool:
    """`slurm_load_jobs error: Invalid job id specified`, from `scontrol show job`."""
    return "Invalid job id" in said


def has_no_cluster(said: str) -> bool:
    """Slurm's commands are installed, and no cluster is configured: `scontrol: error: resolve_ctls_from_dns_srv:
    res_nsearch error: Unknown host`, `scontrol: fatal: Could not establish a configuration source`."""
    return bool(re.search("resolve_ctls_from_dns|configuration source", said))


def is_without_nodes(said: str) -> bool:
    """`allocation failure: Requested node configuration is not available`, from sbatch: also while nodes are down."""
    return "node configuration" in said.lower()
