"""Environment variables that tools get, and those that a record keeps: an allow-list without secrets.

The output of tools is stored, so a secret must not reach them. No list of secrets is ever complete, so this is a list
of the variables that tools, MPI, networks and Slurm need; `tools.variables` of the configuration adds to it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping

from iosweep.text import printable

#: Slurm's commands authenticate with it at sites with auth/jwt. Commands that we run get it, tools do not.
TOKEN = "SLURM_JWT"  # noqa: S105 - its name

#: Variables passed by name.
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
#: Variables passed by prefix: locale, iosweep, Python, Slurm, process managers, MPI, networks, threads, I/O.
PREFIXES = (
    *("LC_", "IOSWEEP_", "PYTHON", "LMOD_", "_ModuleTable", "MALLOC_", "DARSHAN_", "WEKA_"),
    *("SLURM_", "SLURMD_", "PMI_", "PMI2_", "PMIX_", "PALS_", "HYDRA_", "HYDI_", "MPIEXEC_", "PRTE_", "ORTE_"),
    *("MPI_", "MPICH_", "MPIR_", "OMPI_", "OPAL_", "I_MPI_", "MV2_", "MVP_", "MPIO_", "ROMIO_"),
    *("FI_", "UCX_", "UCC_", "IBV_", "RDMAV_", "MLX4_", "MLX5_", "PSM_", "PSM2_", "PSM3_", "HFI_", "SLINGSHOT_"),
    *("OMP_", "KMP_", "GOMP_", "HWLOC_", "HDF5_", "PNETCDF_", "OPENBLAS_NUM_"),
)
#: Names of secrets: parts of words, and whole words between underscores, also in the plural and with a number. A word
#: may have a prefix (SSHKEY), except for words that mean something else: memory and partition keys of InfiniBand
#: (RKEY, PKEY), and BYPASS of Intel MPI.
_SECRET = re.compile(
    "SECRET|TOKEN|PASSW|PASSPHRASE|PASSCODE|CREDENTIAL|PRIVATE|ACCESS_?KEY|API_?KEY|JWT|BEARER|AUTHORI[SZ]|AUTHENTIC"
    "|(^|_)(?!([LMPQR]|HOT|MON)KEYS?[0-9]*(_|$)|(BY|COM)PASS(_|$))"
    "(PSK|PSWD|COOKIE|[A-Z0-9]*(KEY|AUTH|CRED|PWD?|PASS))(E?S)?[0-9]*(_|$)",
    re.IGNORECASE,
)
#: Names that match _SECRET but hold none: flags of Slurm's PMI-1, of MPICH's use of libfabric, the authentication
#: method of Intel MPI's hydra, and the variables that Open MPI passes on by ssh.
_HARMLESS = frozenset(
    (
        *("SLURM_PMI_KVS_NO_DUP_KEYS", "SLURM_PMI_KVS_DUP_KEYS"),
        *(f"{start}_CH4_OFI_ENABLE_MR_PROV_KEY" for start in ("MPICH", "MPIR_CVAR", "MPIR_PARAM")),
        "I_MPI_AUTH_METHOD",
        *(f"OMPI_MCA_plm_rsh_pass_{what}" for what in ("libpath", "environ_mca_params")),
        *(f"PRTE_MCA_plm_ssh_pass_{what}" for what in ("libpath", "environ_mca_params")),
    )
)
#: A user, with or without a password, in a URL; a password may have slashes. Must not match a path with `//` and `@`,
#: nor lists of process managers such as `prte@0.0;tcp4://10.0.0.1:37701:24;...`.
_IN_ADDRESS = re.compile(
    r"""(?<![\w+./-])[A-Za-z][\w+.-]*://(?:[^\s;|]*@|[^\s/:@\[]*:(?!\d+(?:[:;|,\s]|$))\S*@)"""
    r"""|://[^/\s:@\[]*:(?!\d+(?:[:;|,\s]|$))[^/\s@]+@"""
    r"""|(?:^|[\s"'=,;])//[^\s/:@]+:(?!/)[^\s@]*@"""
)
NAME_PATTERN = "^[A-Za-z_][A-Za-z0-9_]{0,127}$"


def is_secret(name: str) -> bool:
    """Whether the name of a variable says that its value is a secret."""
    return name not in _HARMLESS and bool(_SECRET.search(name))


def refused(name: object) -> str | None:
    """Why tools.variables may not name this variable, or None."""
    if not isinstance(name, str) or not re.fullmatch(NAME_PATTERN, name):
        return "not a name of a variable; write letters, digits and underscores, without a value"
    if is_secret(name):
        return "the name of a secret, which tools do not get; a file that only you can read may hold it"
    return None


def passed(given: Mapping[str, str], more: Collection[str] = ()) -> dict[str, str]:
    """The variables of an environment that tools get. `more`: names from tools.variables. Pure."""
    return {
        name: value
        for name, value in given.items()
        if (name in NAMES or name in more or name.startswith(PREFIXES))
        and not is_secret(name)
        and not _IN_ADDRESS.search(value)
    }


def lacking(given: Mapping[str, str], more: Collection[str]) -> list[str]:
    """Sentences about variables that tools.variables names and that tools still do not get. Pure."""
    passed_on = passed(given, more)
    return [
        f"tools.variables: {name} is "
        + ("withheld, its value holds an address with a user or a password" if name in given else "not set")
        for name in more
        if name not in passed_on
    ]


def reduce(more: Collection[str] = ()) -> None:
    """Remove all other variables from our environment, which every process that we start inherits.

    TOKEN stays: Slurm's commands need it, and process.run withholds it from tools.
    """
    passed_on = passed(os.environ, more)
    for name in set(os.environ) - set(passed_on) - {TOKEN}:
        del os.environ[name]


#: Variables that records keep because they may change what a tool does, such as MPI's choice of network and MPI-IO
#: hints. No others, and none by prefix: an environment holds secrets.
RECORDED = (
    *("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "LD_PRELOAD", "OMP_NUM_THREADS", "TZ"),
    *("HWLOC_COMPONENTS", "FI_PROVIDER", "HYDRA_IFACE", "UCX_NET_DEVICES", "UCX_TLS"),
    *("MPICH_MPIIO_HINTS", "ROMIO_FSTYPE_FORCE", "ROMIO_HINTS"),
)


def recorded() -> dict[str, str]:
    """The variables of RECORDED that are set."""
    return {name: printable(os.environ[name]) for name in RECORDED if name in os.environ}


def keep_hwloc_still() -> None:
    """Keep hwloc from probing the CPUs while MPI starts: its x86 component binds itself to each CPU in turn, reserved
    CPUs included. A value that the site has set stays."""
    os.environ.setdefault("HWLOC_COMPONENTS", "-x86")


def without_token() -> dict[str, str]:
    """Our environment without TOKEN, for a tool."""
    return {name: value for name, value in os.environ.items() if name != TOKEN}
