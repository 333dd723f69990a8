"""The environment of tools, and what a record keeps of it: only variables that tools, MPI, networks and Slurm need.

What a tool does not have it cannot print, and what it prints is stored. A list of secrets can never be complete, so
this is a list of what is passed; `tools.variables` of the configuration adds to it. Pure, but for `reduce`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from iosweep.text import printable

#: What Slurm's commands authenticate with where a site uses auth/jwt: needed by those that we run, withheld from tools.
TOKEN = "SLURM_JWT"  # noqa: S105 - its name

#: Passed by their names.
NAMES = frozenset(
    (
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LOCPATH", "LOCALE_ARCHIVE", "TZ", "TMPDIR"),
        *("TERM", "LD_LIBRARY_PATH", "LD_PRELOAD", "LD_BIND_NOW", "GLIBC_TUNABLES", "XDG_RUNTIME_DIR"),
        *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "CRAY_LD_LIBRARY_PATH"),
        *("CEPH_CONF", "DAOS_AGENT_DRPC_DIR", "KRB5CCNAME", "KRB5_CONFIG"),  # clients of file systems; names of files
        # a wrapper of a tool may load modules
        *("LOADEDMODULES", "_LMFILES_", "MODULEPATH", "MODULESHOME", "MODULES_CMD", "BASH_ENV"),
        *("BASH_FUNC_module%%", "BASH_FUNC_ml%%", "VIRTUAL_ENV"),
    )
)
#: Passed by their beginnings: locale, our own and Python's, Slurm, process managers, MPI, networks, threads, I/O.
PREFIXES = (
    *("LC_", "IOSWEEP_", "PYTHON", "LMOD_", "_ModuleTable", "MALLOC_", "DARSHAN_", "WEKA_"),
    *("SLURM_", "SLURMD_", "PMI_", "PMI2_", "PMIX_", "PALS_", "HYDRA_", "HYDI_", "MPIEXEC_", "PRTE_", "ORTE_"),
    *("MPI_", "MPICH_", "MPIR_", "OMPI_", "OPAL_", "I_MPI_", "MV2_", "MVP_", "MPIO_", "ROMIO_"),
    *("FI_", "UCX_", "UCC_", "IBV_", "RDMAV_", "MLX4_", "MLX5_", "PSM_", "PSM2_", "PSM3_", "HFI_", "SLINGSHOT_"),
    *("OMP_", "KMP_", "GOMP_", "HWLOC_", "HDF5_", "PNETCDF_", "OPENBLAS_NUM_"),
)
#: Names that tell a secret: parts of words, and words between underscores, also in the plural and with a number. Words
#: may have a beginning of their own (SSHKEY), but for those that are other words: the numbers of memory and partitions
#: of InfiniBand (RKEY, PKEY), and Intel MPI's BYPASS.
_SECRET = re.compile(
    "SECRET|TOKEN|PASSW|PASSPHRASE|PASSCODE|CREDENTIAL|PRIVATE|ACCESS_?KEY|API_?KEY|JWT|BEARER|AUTHORI[SZ]|AUTHENTIC"
    "|(^|_)(?!([LMPQR]|HOT|MON)KEYS?[0-9]*(_|$)|(BY|COM)PASS(_|$))"
    "(PSK|PSWD|COOKIE|[A-Z0-9]*(KEY|AUTH|CRED|PWD?|PASS))(E?S)?[0-9]*(_|$)",
    re.IGNORECASE,
)
#: Names that look like it and are none: flags of Slurm's PMI-1, whether libfabric numbers memory for MPICH, how Intel
#: MPI's hydra proves who it is, and what Open MPI's ssh passes on.
_HARMLESS = frozenset(
    (
        *("SLURM_PMI_KVS_NO_DUP_KEYS", "SLURM_PMI_KVS_DUP_KEYS"),
        *(f"{start}_CH4_OFI_ENABLE_MR_PROV_KEY" for start in ("MPICH", "MPIR_CVAR", "MPIR_PARAM")),
        "I_MPI_AUTH_METHOD",
        *(f"OMPI_MCA_plm_rsh_pass_{what}" for what in ("libpath", "environ_mca_params")),
        *(f"PRTE_MCA_plm_ssh_pass_{what}" for what in ("libpath", "environ_mca_params")),
    )
)
#: A user, with or without a password, in an address; a password may have slashes. A path may have `//` and `@` too, and
#: process managers write lists such as `prte@0.0;tcp4://10.0.0.1:37701:24;...`.
_IN_ADDRESS = re.compile(
    r"""(?<![\w+./-])[A-Za-z][\w+.-]*://(?:[^\s;|]*@|[^\s/:@\[]*:(?!\d+(?:[:;|,\s]|$))\S*@)"""
    r"""|://[^/\s:@\[]*:(?!\d+(?:[:;|,\s]|$))[^/\s@]+@"""
    r"""|(?:^|[\s"'=,;])//[^\s/:@]+:(?!/)[^\s@]*@"""
)
NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,127}$"


def is_secret(name: str) -> bool:
    """Whether a variable's value is a secret, by its name."""
    return name not in _HARMLESS and bool(_SECRET.search(name))


def refused(name: object) -> str | None:
    """Why the configuration may not name a variable that is passed, or None."""
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        return "not a name of a variable; write letters, digits and underscores, without a value"
    if is_secret(name):
        return "the name of a secret, which tools do not get; a file that only you can read may hold it"
    return None


def passed(given: Mapping[str, str], more: Collection[str] = ()) -> dict[str, str]:
    """What is passed on of an environment. `more`: names beside the list (tools.variables)."""
    return {
        name: value
        for name, value in given.items()
        if (name in NAMES or name in more or name.startswith(PREFIXES))
        and not is_secret(name)
        and not _IN_ADDRESS.search(value)
    }


def lacking(given: Mapping[str, str], more: Collection[str]) -> list[str]:
    """Sentences on variables that the configuration names, and that tools do not get all the same. Pure."""
    kept = passed(given, more)
    return [
        f"tools.variables: {name} is "
        + ("withheld, its value holds an address with a user or a password" if name in given else "not set")
        for name in more
        if name not in kept
    ]


def reduce(more: Collection[str] = ()) -> None:
    """Take everything else out of our own environment, and so out of that of all that we start.

    TOKEN stays: Slurm's commands need it, and process.run withholds it from tools.
    """
    kept = passed(os.environ, more)
    for name in set(os.environ) - set(kept) - {TOKEN}:
        del os.environ[name]


#: Variables that may change what a tool does, MPI's choice of network and MPI-IO's hints among them. Nothing else is
#: stored, and nothing by its prefix: an environment holds secrets.
RECORDED = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "TZ"),
    *("HWLOC_COMPONENTS", "FI_PROVIDER", "HYDRA_IFACE", "UCX_NET_DEVICES", "UCX_TLS"),
    *("MPICH_MPIIO_HINTS", "ROMIO_FSTYPE_FORCE", "ROMIO_HINTS"),
)


def recorded() -> dict[str, str]:
    """The allow-listed variables that are set."""
    return {name: printable(os.environ[name]) for name in RECORDED if name in os.environ}


def keep_hwloc_still() -> None:
    """Have MPI libraries learn what the CPUs are like without binding themselves to one after the other, as hwloc does
    while MPI starts: to those, too, that a file system keeps for itself. What the site has set stays."""
    os.environ.setdefault("HWLOC_COMPONENTS", "-x86")


def without_token() -> dict[str, str]:
    """Our environment as a tool gets it."""
    return {name: value for name, value in os.environ.items() if name != TOKEN}
