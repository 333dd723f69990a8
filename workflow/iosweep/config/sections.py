"""The sections of a configuration beside its sweeps: target, limits, CPUs, tools."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
    StrictBool,
    ValidationInfo,
    field_validator,
)

from iosweep.config.scalars import (
    MOST_VALUES,
    CpuList,
    Deadline,
    Duration,
    FileSystemType,
    Layout,
    Name,
    PathText,
    Share,
    Size,
    SizeOrZero,
    Strict,
    Variable,
)
from iosweep.tools.reading import SHORTEST_STEADY_S


class Target(Strict):
    """The file system under test."""

    directory: PathText = Field(
        description="A directory on it. Everything is written below `iosweep-<campaign>/` in there. A relative path"
        " counts from where snakemake is run."
    )
    type: FileSystemType | None = Field(
        None,
        description="Type of its file system, as /proc/self/mountinfo names it: lustre, wekafs, gpfs, beegfs, nfs (also"
        " nfs4), xfs ... (`glusterfs` is also fuse.glusterfs). A directory on another type, such as an empty mount"
        " point, is refused by `iosweep plan` and `snakemake -n` on the machine that measures, and on every node before"
        " anything is written. Default: any type.",
    )
    server_cache: SizeOrZero | None = Field(
        None,
        description="Memory that the servers may cache with, all together. Phases that read less than twice that, each"
        " byte counted once, are suspect; without it the check says `not checked`. 0 where there is no server.",
    )
    node_bandwidth: Size | None = Field(
        None,
        description="Bytes per second that one node can move at most (its links). Faster reads are suspect. It"
        " also limits the forecast of the bytes that timed phases write; without it the forecast assumes 4g.",
    )
    layout: Layout = Field(
        None,
        description="Striping of what is written: `inherit`, as the directory has it, or the arguments of the file"
        " system's own command, which is run on the campaign's directory: `lfs setstripe` on Lustre, `beegfs-ctl"
        ' --setpattern` on BeeGFS. For example ["-c", "4", "-S", "1m"]. Default: inherit.',
    )
    keep: Literal["none", "failed", "all"] = Field(
        "none",
        description="What stays on the target: `none`, nothing once everything is measured; `failed`, what repetitions"
        " that failed have written; `all`, data sets (another run is then spared writing them) and the new files of"
        " every repetition. `iosweep clean` removes it. Default: none.",
    )
    settle: Duration = Field(
        0.0,
        description="Time that passes after files were deleted before something is measured: a file system may work on"
        " a deletion long after it is done. Default: 0s.",
    )
    deadline: Deadline = Field(
        30.0,
        description="An operation on the target that makes no progress for this time counts as hanging, and the"
        " campaign stops. Default: 30s.",
    )
    lock: PathText | None = Field(
        None,
        description="A directory, not on the target, for the lock that keeps a second campaign off the same file"
        " system. All campaigns must see the same one; a relative path counts from where snakemake is run."
        " Default: a lock of this machine.",
    )


class Limits(Strict):
    """Ceilings. What cannot fit is refused before anything is written."""

    bytes_written: Size | None = Field(
        None,
        description="Bytes that the campaign may write, data sets included, in all its runs. A larger forecast is"
        " refused. Before each repetition, its bytes are forecast from the fastest write so far, and the campaign stops"
        " if they exceed what is left. Only a repetition that is faster than all before it can exceed the limit, and"
        " it is the last one. Must be given above 10t.",
    )
    time: Duration | None = Field(
        None,
        description="Time that the campaign may take, all allocations and runs together. When it is spent, the"
        " campaign stops before the next repetition.",
    )
    over_time: Literal["refuse", "trim"] = Field(
        "refuse",
        description="Where `time` is not enough: `refuse`, a longer forecast is refused, and a campaign whose time is"
        " spent fails; `trim`, as many repetitions are measured as fit, in each allocation the first of every point"
        " before the second of any, and the rest is missing with this reason. Default: refuse.",
    )
    grace: Deadline = Field(
        60.0,
        description="Extra time beyond 1.5 x the phase time before a tool is killed (start-up, slow flush, shutdown)."
        " Default: 60s.",
    )
    share_of_free: Share = Field(
        0.10, description="Share of the target's free space and inodes that may be used. Default: 10%."
    )
    retried: Share = Field(
        0.10,
        description="Share of an allocation's repetitions (at least 3 of them, unless it is 0%) that may be measured a"
        " second time because something disturbed the first: other load, a kill. Default: 10%.",
    )
    shortest_phase: Duration = Field(
        SHORTEST_STEADY_S,
        description="Timed phases that are shorter are too short to judge whether they are steady, and suspect; for a"
        " trial or a demonstration, 0s. Suites with a `scale` are exempt. Default: 10s.",
    )
    fill: Share = Field(
        0.80, description="How full the target may get, in space and in inodes, as df counts. Default: 80%."
    )


class Cpus(Strict):
    """Which CPUs of a node measure (docs/pinning.md)."""

    reserved: CpuList | None = Field(
        None,
        description="CPUs that the file system's client keeps for itself, as the kernel numbers them (`24-27`). It"
        " takes the place of what the nodes say, and is checked against it; siblings of the same core are added."
        " Default: what WEKA says on each node.",
    )
    placement: Literal["spread", "pack", "near_nic"] = Field(
        "spread",
        description="`spread`: over NUMA nodes in turn, one per core before siblings; `pack`: NUMA node after NUMA"
        " node; `near_nic`: as pack, the CPUs near the network interface first. Default: spread.",
    )
    nic: Name | None = Field(
        None,
        description="The interface for near_nic, such as ib0. Default: that of WEKA's mount, or the fastest one up.",
    )

    @field_validator("nic")
    @classmethod
    def _of_near_nic(cls, nic: str | None, info: ValidationInfo) -> str | None:
        if nic is not None and info.data.get("placement", "near_nic") != "near_nic":
            raise ValueError("without effect; it is for `placement: near_nic`")
        return nic

    width: Literal["cpu", "core"] = Field(
        "cpu", description="A rank gets one CPU, or all usable ones of a core. Default: cpu."
    )
    oversubscribe: StrictBool = Field(
        False,
        description="Whether a node may run more MPI ranks than it has usable CPUs. Without it such points are missing."
        " (fio's workers may always share CPUs.) Default: false.",
    )


class Tools(Strict):
    """Where the tools come from (docs/tools.md)."""

    provider: Literal["spack", "path"] | None = Field(
        None,
        description="`spack`: built from `environment`; `path`: what is on PATH where it is measured. Default: what the"
        " profile says, spack in profiles/slurm and path in profiles/local.",
    )
    environment: PathText | None = Field(
        None,
        description="The file that says what Spack builds. Default: spack.yaml where snakemake is run, or else the one"
        " that comes with iosweep.",
    )
    directory: PathText = Field(
        "tools",
        description="Where it is built: a directory that all nodes see, and not on the target. A relative path counts"
        " from where snakemake is run. Default: tools.",
    )
    spack: PathText | None = Field(
        None,
        description="Directory of the Spack that builds. Default: a clone of the release that iosweep is tried with.",
    )
    variables: Annotated[
        list[Variable],
        Field(max_length=MOST_VALUES),
    ] = Field(
        [],
        description="Names of variables of the environment that tools get, beside those that they always get"
        " (docs/tools.md). Names of secrets are refused. Default: none.",
    )
