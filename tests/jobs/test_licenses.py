"""What a job's licenses are worth as a lock."""

from collections.abc import Callable
from pathlib import Path

import pytest

from iosweep.jobs import licenses
from iosweep.target.target_lock import Exclusion
from slurm import Cluster

#: `scontrol show licenses` of 22.05.8, with a second and a remote one.
PRINTED = """\
LicenseName=pfs
    Total=1 Used=1 Free=0 Reserved=0 Remote=no
LicenseName=matlab
    Total=40 Used=3 Free=37 Reserved=0 Remote=no
LicenseName=pfs2@slurmdb
    Total=2 Used=2 Free=0 Reserved=0 Remote=yes
"""
TOTALS = {"pfs": 1, "matlab": 40, "pfs2@slurmdb": 2}
NOT = Exclusion(False, "only campaigns on this machine are kept off", "a note")
LOCKED = Exclusion(True, "no other campaign that locks in /locks")


def test_what_there_is() -> None:
    assert licenses.parse(PRINTED) == TOTALS
    assert licenses.parse("No licenses configured in Slurm.\n") == {}
    assert licenses.parse("") == {}
    assert licenses.parse("LicenseName=a\nTotal=x\nLicenseName=b Total=2") == {"b": 2}


@pytest.mark.parametrize(
    ("asked", "evidence"),
    [
        ("pfs:1", "no other job has the license pfs: all there are (1) are ours"),
        ("pfs", "no other job has the license pfs: all there are (1) are ours"),
        ("pfs:", "no other job has the license pfs: all there are (1) are ours"),
        ("matlab:1,pfs:1", "no other job has the license pfs: all there are (1) are ours"),
        ("matlab:40", "no other job has the license matlab: all there are (40) are ours"),
        ("pfs2@slurmdb:2", "no other job has the license pfs2@slurmdb: all there are (2) are ours"),
    ],
)
def test_all_there_are_keep_others_off(asked: str, evidence: str) -> None:
    assert licenses.judge(asked, TOTALS, NOT) == Exclusion(True, evidence)
    assert licenses.judge(asked, TOTALS, LOCKED).enforced


@pytest.mark.parametrize(
    "asked",
    ["matlab:3", "pfs2@slurmdb:1", "pfs2:2", "gone:1", "pfs:1|matlab:1", "pfs:x", "matlab:1,gone", ",", "pfs:0"],
)
def test_others_may_have_what_is_left(asked: str) -> None:
    found = licenses.judge(asked, TOTALS, NOT)
    assert (found.enforced, found.note) == (False, "a note")
    assert found.evidence == f"{NOT.evidence}; of the license {asked} there are more, which other jobs may have"
    assert licenses.judge(asked, TOTALS, LOCKED).enforced  # by the lock, as before


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def made(script: str) -> None:
        (tmp_path / "scontrol").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "scontrol").chmod(0o755)

    return made


@pytest.mark.local
def test_without_slurm_or_licenses_it_is_as_before(scontrol: Callable[[str], None]) -> None:
    scontrol("exit 1")
    assert licenses.exclusion("pfs:1", NOT) is NOT
    scontrol(f"test \"$*\" = 'show licenses' && cat <<'E'\n{PRINTED}E")
    assert licenses.exclusion("", LOCKED) is LOCKED
    assert licenses.exclusion("pfs:1", NOT).enforced
    assert not licenses.exclusion("matlab:2", NOT).enforced


def test_the_license_of_a_real_one(slurm: Cluster) -> None:
    assert licenses.parse(slurm.run(["scontrol", "show", "licenses"]).stdout) == {"pfs": 1}
