"""What tools get of the environment: a list, and what the configuration names."""

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from campaign import document, make, problems
from iosweep.node import environment

#: What a rank, its launcher or a client of a file system does not work without, somewhere.
_PLAIN = """
    PATH HOME LC_ALL TZ TMPDIR LD_PRELOAD SLURM_CONF SLURM_JOB_ID PMI_RANK PMI_FD SLURM_PMI_KVS_NO_DUP_KEYS PMIX_RANK
    PMIX_SECURITY_MODE MPICH_MPIIO_HINTS OMPI_MCA_btl I_MPI_PMI_LIBRARY FI_PROVIDER UCX_NET_DEVICES UCX_IB_PKEY
    I_MPI_SHM_CACHE_BYPASS_THRESHOLDS HYDRA_MONKEY I_MPI_AUTH_METHOD MPIR_CVAR_CH4_OFI_ENABLE_MR_PROV_KEY
    OMPI_MCA_plm_rsh_pass_libpath OMP_NUM_THREADS ROMIO_HINTS KRB5CCNAME
"""
NEEDED = dict.fromkeys(_PLAIN.split(), "x") | {
    # what looks like an address with a user, and is none
    "LD_LIBRARY_PATH": "/opt//mpich@4.1/lib://opt/fabric@2/lib:/a:/b",
    "PMIX_SERVER_URI41": "slurm.pmix.7.0.0;tcp4://127.0.0.1:41233",
    "PRTE_MCA_prte_hnp_uri": "prterun-n1-4005@0.0;tcp4://10.0.0.1:37701:24;prte@0.1;tcp6://[fe80::1]:37701;prte@0.2",
    "BASH_FUNC_module%%": "() { eval `modulecmd bash $*`; }",
}
#: None of its business: what is on no list, and of the list by their beginnings secrets by their ends.
_NAMES = """
    MYSQL_PWD SMTP_PASS RESTIC_KEY WEKA_TOKEN A_NAME_OF_TOMORROW SLURM_JWT UCX_AUTH_KEY PYTHON_KEYRING_PASSWORD
    I_MPI_COOKIE WEKA_BASICAUTH LC_PSWD IOSWEEP_AUTHORIZATION SLURM_BEARER FI_CXI_AUTH_KEY_2 MPI_PGPASS UCX_PASSCODE
    HDF5_AWSKEY WEKA_CREDS LC_OAUTH FI_MYSECRET PATHS
"""
WITHHELD = dict.fromkeys(_NAMES.split(), "x") | {
    "DATABASE_URL": "postgres://db",
    "https_proxy": "http://proxy:3128",
    "SSH_AUTH_SOCK": "/tmp/agent",
    # secrets by their values
    "PYTHON_PEER": "//me:hunter2@host",
    "PYTHON_INDEX": "https://me:hunter2@pypi.example/simple",
    "UCX_PROXY": "http://me:hunt/er2@proxy:3128",
    "UCX_PORTLIKE": "http://me:12/er2@proxy:3128",
    "PYTHON_INDEXES": "https://one.example/simple https://ghp_abc@pypi.example/simple",
    "LC_SHARE": "//me:hunter2@server/share",
}


def test_tools_get_what_they_need_and_no_secret() -> None:
    assert environment.passed(NEEDED | WITHHELD) == NEEDED
    recorded = dict.fromkeys(environment.RECORDED, "x")
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
    for name in environment.RECORDED:
        monkeypatch.setenv(name, f"value of {name}")
    for name in secrets:
        monkeypatch.setenv(name, "hunter2")
    assert environment.recorded() == {name: f"value of {name}" for name in environment.RECORDED}
    for name in environment.RECORDED:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TZ", "")  # set, and empty
    assert environment.recorded() == {"TZ": ""}
