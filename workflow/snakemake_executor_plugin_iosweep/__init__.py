"""Snakemake's executor for allocations as batch jobs of Slurm. Snakemake finds this package by its name.

Everything that knows Snakemake's interfaces is here; what is asked of Slurm, and what its answers mean, is in
`iosweep.jobs` and `iosweep.slurm`.
"""

from dataclasses import dataclass, field

from snakemake_interface_executor_plugins.settings import CommonSettings, ExecutorSettingsBase

from snakemake_executor_plugin_iosweep.executor import Executor

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

common_settings = CommonSettings(non_local_exec=True, implies_no_shared_fs=False, job_deploy_sources=False)


@dataclass
class ExecutorSettings(ExecutorSettingsBase):  # type: ignore[misc]  # Snakemake has no types
    """Keys of a profile, with `iosweep-` before them."""

    poll_seconds: int = field(
        default=20, metadata={"help": "Longest time between two questions to Slurm's controller on the jobs' states."}
    )
