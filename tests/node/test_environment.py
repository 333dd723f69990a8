"""What tools get of the environment: a list, and what the configuration names."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from campaign import document, make, problems
from iosweep.node import environment, node_facts

#: What a rank, its launcher or a client of a file system does not work without, somewhere.
_PLAIN = """
    PATH HOME LC_ALL TZ TMPDIR LD_PRELOAD DARSHAN_LOGPATH SLURM_CONF SLURM_JOB_ID SLURM_NODELIST PMI_RANK PMI_FD
    SLURM_PMI_KVS_NO_DUP_KEYS PMIX_RANK PMIX_SECURITY_MODE PMIX_KEEPALIVE_PIPE MPICH_MPIIO_HINTS HYDRA_IFACE
    OMPI_MCA_btl PRTE_MCA_plm I_MPI_PMI_LIBRARY FI_PROVIDER UCX_NET_DEVICES UCX_IB_PKEY FI_OPX_PKEY
    UCX_RKEY_PTR_SEG_SIZE OMPI_MCA_btl_openib_pkey I_MPI_SHM_CACHE_BYPASS_THRESHOLDS HYDRA_MONKEY I_MPI_AUTH_METHOD
    MPIR_CVAR_CH4_OFI_ENABLE_MR_PROV_KEY OMPI_MCA_plm_rsh_pass_libpath _ModuleTable001_ IBV_FORK_SAFE
    MLX5_SINGLE_THREADED PSM2_CUDA OMP_NUM_THREADS HWLOC_COMPONENTS ROMIO_HINTS CUDA_VISIBLE_DEVICES MODULEPATH
    KRB5CCNAME
"""
NEEDED = dict.fromkeys(_PLAIN.split(), "x") | {
    # what looks like an address with a user, and is none
    "LD_LIBRARY_PATH": "/opt//mpich@4.1/lib://opt/fabric@2/lib:/a:/b",
    "CRAY_LD_LIBRARY_PATH": "//apps/mpich@4.1/lib:/usr/lib://x:/y@1",
    "PYTHONPATH": "//bin:/usr/bin:/x/python@3.11/bin",
    "PMIX_SERVER_URI41": "slurm.pmix.7.0.0;tcp4://127.0.0.1:41233",
    "OMPI_MCA_orte_hnp_uri": "4005.0;tcp://10.0.0.1,10.1.0.1:37701",
    "PRTE_MCA_prte_hnp_uri": "prterun-n1-4005@0.0;tcp4://10.0.0.1:37701:24;prte@0.1;tcp6://[fe80::1]:37701;prte@0.2",
    "BASH_FUNC_module%%": "() { eval `modulecmd bash $*`; }",
}
#: None of its business: what is on no list, and of the list by their beginnings secrets by their ends.
_NAMES = """
    MYSQL_PWD SMTP_PASS RESTIC_KEY WEKA_TOKEN A_NAME_OF_TOMORROW SLURM_JWT UCX_AUTH_KEY PYTHON_KEYRING_PASSWORD
    I_MPI_COOKIE WEKA_BASICAUTH LC_PSWD WEKA_PASSES IOSWEEP_AUTHORIZATION SLURM_BEARER SLURM_AUTH_HEADER
    FI_CXI_AUTH_KEY_2 UCX_KEYS PYTHON_PWDS PMIX_SERVER_COOKIE_V2 LC_PASS2 MPI_DBPW MPI_PGPASS UCX_PASSCODE LMOD_SSHKEY
    HDF5_AWSKEY WEKA_SSHKEYS_2 WEKA_CREDS HWLOC_CRED LC_S3CRED LC_OAUTH FI_MYSECRET UCX_GHTOKEN PATHS
"""
WITHHELD = dict.fromkeys(_NAMES.split(), "x") | {
    "DATABASE_URL": "postgres://db",
    "https_proxy": "http://proxy:3128",
    "SSH_AUTH_SOCK": "/tmp/agent",
    # secrets by their values
    "PYTHON_PEER": "//me:hunter2@host",
    "PYTHON_INDEX": "https://me:hunter2@pypi.example/simple",
    "FI_ADDRESS": "tcp://:hunter2@node",
    "UCX_PROXY": "http://me:hunt/er2@proxy:3128",
    "UCX_PROXIES": "http://me:hunt;er2@proxy:3128",
    "UCX_PORTLIKE": "http://me:12/er2@proxy:3128",
    "PYTHON_INDEXES": "https://one.example/simple https://ghp_abc@pypi.example/simple",
    "LC_SHARE": "//me:hunter2@server/share",
}


def test_tools_get_what_they_need_and_no_secret() -> None:
    assert environment.passed(NEEDED | WITHHELD) == NEEDED
    recorded = dict.fromkeys(node_facts.ENVIRONMENT, "x")
    assert environment.passed(recorded) == recorded


def test_more_is_passed_by_its_name_unless_that_tells_a_secret() -> None:
    assert environment.passed(NEEDED | WITHHELD, ["A_NAME_OF_TOMORROW"]) == NEEDED | {"A_NAME_OF_TOMORROW": "x"}
    assert environment.passed(WITHHELD, ["MYSQL_PWD"]) == {}


def test_what_is_named_and_not_passed_is_said(snapshot: SnapshotAssertion) -> None:
    given = {"A": "x", "B": "http://me:hunter2@proxy", "HOME": "/home/me"}
    assert environment.lacking(given, ("A", "HOME")) == []
    assert "\n".join(environment.lacking(given, ("A", "B", "C"))) == snapshot


def test_the_configuration_names_variables_and_no_secrets(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    named = make(tmp_path, document() | {"tools": {"variables": ["LIC_SERVER", "_x1"]}})
    assert named.variables == ("LIC_SERVER", "_x1")
    for name in (*filter(environment.is_secret, WITHHELD), "pgpassword"):
        assert environment.refused(name), name
    for name in ("", "A=1", "A B", "1A", "A-B", "A\n", "Ä", "A" * 129, "BASH_FUNC_x%%", 7):
        assert environment.refused(name), name
    wrong = problems(tmp_path, document() | {"tools": {"variables": ["A", "SLURM_JWT", "A B"]}})
    assert [f"tools.variables[{k}]" in one for k, one in zip((1, 2), wrong, strict=True)] == [True, True]
    assert "\n".join(one.replace(str(tmp_path), "") for one in wrong) == snapshot


def test_the_environment_that_is_recorded_has_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "PATH_TOKEN", "UCX_TOKEN", "ROMIO_HINTS_KEY", "path", "LD_")
    for name in node_facts.ENVIRONMENT:
        monkeypatch.setenv(name, f"value of {name}")
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    assert node_facts.environment() == {name: f"value of {name}" for name in node_facts.ENVIRONMENT}
    for name in node_facts.ENVIRONMENT:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TZ", "")  # set, and empty
    assert node_facts.environment() == {"TZ": ""}
