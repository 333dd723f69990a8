"""What tools get of the environment: a list, and what the configuration names."""

from pathlib import Path

import pytest

from campaign import document, make, problems
from iosweep.node import environment, node_facts

#: What a rank, its launcher or a client of a file system does not work without, somewhere.
NEEDED = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/me",
    "LC_ALL": "C.UTF-8",
    "TZ": "Europe/Berlin",
    "TMPDIR": "/local/7",
    "LD_LIBRARY_PATH": "/opt//mpich@4.1/lib://opt/fabric@2/lib:/a:/b",
    "CRAY_LD_LIBRARY_PATH": "//apps/mpich@4.1/lib:/usr/lib://x:/y@1",
    "LD_PRELOAD": "/opt/darshan/lib/libdarshan.so",
    "DARSHAN_LOGPATH": "/logs",
    "SLURM_CONF": "/site/slurm.conf",
    "SLURM_JOB_ID": "7",
    "SLURM_NODELIST": "n[1-2]",
    "SLURM_PMI_KVS_NO_DUP_KEYS": "1",
    "PMI_RANK": "0",
    "PMI_FD": "9",
    "PMIX_RANK": "0",
    "PMIX_SECURITY_MODE": "munge,native",
    "PMIX_KEEPALIVE_PIPE": "7",
    "PMIX_SERVER_URI41": "slurm.pmix.7.0.0;tcp4://127.0.0.1:41233",
    "MPICH_MPIIO_HINTS": "*:romio_ds_write=disable",
    "HYDRA_IFACE": "ib0",
    "OMPI_MCA_btl": "^openib",
    "OMPI_MCA_orte_hnp_uri": "4005.0;tcp://10.0.0.1,10.1.0.1:37701",
    "PRTE_MCA_plm": "slurm",
    "PRTE_MCA_prte_hnp_uri": "prterun-n1-4005@0.0;tcp4://10.0.0.1:37701:24;prte@0.1;tcp6://[fe80::1]:37701;prte@0.2",
    "I_MPI_PMI_LIBRARY": "/usr/lib/libpmi2.so",
    "FI_PROVIDER": "verbs",
    "UCX_NET_DEVICES": "mlx5_0:1",
    "UCX_IB_PKEY": "0x8001",
    "FI_OPX_PKEY": "0x8001",
    "UCX_RKEY_PTR_SEG_SIZE": "512k",
    "OMPI_MCA_btl_openib_pkey": "0x8001",
    "I_MPI_SHM_CACHE_BYPASS_THRESHOLDS": "16384,16384",
    "MPIR_CVAR_CH4_OFI_ENABLE_MR_PROV_KEY": "1",
    "HYDRA_MONKEY": "1",
    "I_MPI_AUTH_METHOD": "munge",
    "OMPI_MCA_plm_rsh_pass_libpath": "/opt/lib",
    "_ModuleTable001_": "X01vZHVsZVRhYmxlXw==",
    "PYTHONPATH": "//bin:/usr/bin:/x/python@3.11/bin",
    "IBV_FORK_SAFE": "1",
    "MLX5_SINGLE_THREADED": "1",
    "PSM2_CUDA": "0",
    "OMP_NUM_THREADS": "1",
    "HWLOC_COMPONENTS": "-x86",
    "ROMIO_HINTS": "/etc/romio",
    "CUDA_VISIBLE_DEVICES": "0",
    "MODULEPATH": "/apps/modules",
    "BASH_FUNC_module%%": "() { eval `modulecmd bash $*`; }",
    "KRB5CCNAME": "FILE:/tmp/krb5cc_1000",
}
#: None of its business.
WITHHELD = {
    "MYSQL_PWD": "x",
    "SMTP_PASS": "x",
    "RESTIC_KEY": "x",
    "DATABASE_URL": "postgres://db",
    "https_proxy": "http://proxy:3128",
    "SSH_AUTH_SOCK": "/tmp/agent",
    "WEKA_TOKEN": "x",
    "A_NAME_OF_TOMORROW": "x",
    "PATHS": "not PATH",
    # of the list by their beginnings, and secrets by their ends or by their values
    "SLURM_JWT": "x",
    "UCX_AUTH_KEY": "x",
    "PYTHON_KEYRING_PASSWORD": "x",
    "I_MPI_COOKIE": "x",
    "WEKA_BASICAUTH": "x",
    "LC_PSWD": "x",
    "WEKA_PASSES": "x",
    "PYTHON_PEER": "//me:hunter2@host",
    "PYTHON_INDEX": "https://me:hunter2@pypi.example/simple",
    "FI_ADDRESS": "tcp://:hunter2@node",
    "UCX_PROXY": "http://me:hunt/er2@proxy:3128",
    "UCX_PROXIES": "http://me:hunt;er2@proxy:3128",
    "UCX_PORTLIKE": "http://me:12/er2@proxy:3128",
    "PYTHON_INDEXES": "https://one.example/simple https://ghp_abc@pypi.example/simple",
    "LC_SHARE": "//me:hunter2@server/share",
    "IOSWEEP_AUTHORIZATION": "x",
    "SLURM_BEARER": "x",
    "SLURM_AUTH_HEADER": "x",
    "FI_CXI_AUTH_KEY_2": "x",
    "UCX_KEYS": "x",
    "PYTHON_PWDS": "x",
    "PMIX_SERVER_COOKIE_V2": "x",
    "LC_PASS2": "x",
    "MPI_DBPW": "x",
    "MPI_PGPASS": "x",
    "UCX_PASSCODE": "x",
    "LMOD_SSHKEY": "x",
    "HDF5_AWSKEY": "x",
    "WEKA_SSHKEYS_2": "x",
    "WEKA_CREDS": "x",
    "HWLOC_CRED": "x",
    "LC_S3CRED": "x",
    "LC_OAUTH": "x",
    "FI_MYSECRET": "x",
    "UCX_GHTOKEN": "x",
}


def test_what_is_passed() -> None:
    assert environment.passed(NEEDED | WITHHELD) == NEEDED


def test_what_is_recorded_is_passed() -> None:
    given = dict.fromkeys(node_facts.ENVIRONMENT, "x")
    assert environment.passed(given) == given


def test_more_is_passed_by_its_name() -> None:
    assert environment.passed(NEEDED | WITHHELD, ["A_NAME_OF_TOMORROW"]) == NEEDED | {"A_NAME_OF_TOMORROW": "x"}
    assert environment.passed(WITHHELD, ["MYSQL_PWD"]) == {}


def test_variables_of_the_configuration(tmp_path: Path) -> None:
    assert make(tmp_path, document() | {"tools": {"variables": ["LIC_SERVER", "_x1"]}}).variables == (
        "LIC_SERVER",
        "_x1",
    )
    assert make(tmp_path).variables == ()


@pytest.mark.parametrize("name", [*(name for name in WITHHELD if environment.is_secret(name)), "pgpassword"])
def test_a_secret_is_not_passed_by_its_name(tmp_path: Path, name: str) -> None:
    [wrong] = problems(tmp_path, document() | {"tools": {"variables": ["A", name]}})
    assert f': tools.variables[1]: "{name}" is the name of a secret, which tools do not get; ' in wrong


@pytest.mark.parametrize("name", ["", "A=1", "A B", "1A", "A-B", "A\n", "Ä", "A" * 129, "BASH_FUNC_x%%"])
def test_invalid_names(tmp_path: Path, name: str) -> None:
    [wrong] = problems(tmp_path, document() | {"tools": {"variables": [name]}})
    assert "tools.variables[0]: " in wrong and "is not a name of a variable; write letters, digits" in wrong


def test_what_is_named_and_not_passed_is_said() -> None:
    given = {"A": "x", "B": "http://me:hunter2@proxy", "HOME": "/home/me"}
    assert environment.lacking(given, ("A", "HOME")) == []
    assert environment.lacking(given, ("A", "B", "C")) == [
        "tools.variables: B is withheld, its value holds an address with a user or a password",
        "tools.variables: C is not set",
    ]
