"""Build documents of programs on PATH, and the packages that own a program."""

import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from iosweep.plan.launchers import Mpiexec
from iosweep.programs import builds
from iosweep.programs.find import Program

pytestmark = pytest.mark.local

FIO = shutil.which("fio", path="/usr/bin:/bin")
debian = pytest.mark.skipif(not (FIO and shutil.which("dpkg-query")), reason="needs fio of a Debian package")


def program(path: str = "/nowhere/fio", sha256: str = "ab" * 32) -> Program:
    return Program(path, sha256, "fio-3.33", (1, 2, 3, 4))


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PATH with nothing but what a test puts there."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path / "bin"


def put(directory: Path, name: str, script: str) -> None:
    """A package manager that says what a real one said."""
    (directory / name).write_text(f"#!/bin/sh\n{script}\n")
    (directory / name).chmod(0o755)


@debian
def test_package_of_debians_fio(tmp_path: Path) -> None:
    owner = builds.package_of("/usr/bin/fio")
    assert owner is not None
    assert owner.startswith("fio 3.")
    assert owner.endswith(" (dpkg)")
    (tmp_path / "fio").symlink_to("/usr/bin/fio")  # as update-alternatives makes them
    (tmp_path / "default").symlink_to(tmp_path / "fio")
    assert builds.package_of(str(tmp_path / "default")) == owner


def test_a_file_of_a_package_from_pypi() -> None:
    """Ours: its files are found from where they are, whatever is on PATH."""
    mpiexec = shutil.which("mpiexec", path=sysconfig.get_path("scripts"))
    assert mpiexec, "MPICH comes with the lock"
    owner = builds.package_of(mpiexec) or ""
    assert owner.startswith("mpich ")
    assert owner.endswith(" (Python)")


def test_files_without_a_package(tmp_path: Path) -> None:
    for name in ("fio", "a [b]* c", "-fio", 'x"; y'):
        (tmp_path / name).write_bytes(b"")
        assert builds.package_of(str(tmp_path / name)) is None
    assert builds.package_of(str(tmp_path / "gone")) is None


def test_a_machine_without_dpkg_and_rpm(manager: Path) -> None:
    assert builds.package_of(sys.executable) is None
    assert builds.package_of("/usr/bin/env") is None


def test_rpm(manager: Path, tmp_path: Path) -> None:
    """As Rocky Linux 9 answers."""
    put(manager, "rpm", "printf 'fio 3.35-1.el9'")
    assert builds.package_of(str(tmp_path / "fio")) == "fio 3.35-1.el9 (rpm)"
    put(manager, "rpm", f"echo 'file {tmp_path}/fio is not owned by any package'; exit 1")
    assert builds.package_of(str(tmp_path / "fio")) is None


def test_a_package_manager_that_does_not_answer(manager: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builds, "_ANSWER_S", 0.2)
    put(manager, "dpkg-query", "exec /bin/sleep 60")
    put(manager, "rpm", "kill -9 $$")
    assert builds.package_of(str(tmp_path)) is None


def test_document_of_programs_on_path(manager: Path) -> None:
    mpiexec = Mpiexec("/nowhere/mpiexec", "5.0.1")
    document = builds.of_path({"fio": program()}, mpiexec)
    assert document == {
        "provider": "path",
        "tools": {"fio": {"path": "/nowhere/fio", "sha256": "ab" * 32, "version": "fio-3.33", "package": None}},
        "mpi": {"path": "/nowhere/mpiexec", "version": "5.0.1", "package": None},
    }
    assert builds.of_path({}, None) == {"provider": "path", "tools": {}, "mpi": None}


def test_the_key_of_a_document(manager: Path) -> None:
    """It depends on the content alone, and is the same tomorrow."""
    one = builds.of_path({"fio": program(), "ior": program("/nowhere/ior")}, None)
    other = builds.of_path({"ior": program("/nowhere/ior"), "fio": program()}, None)
    assert builds.key(one) == builds.key(other)
    assert builds.key({"mpi": None, "provider": "path", "tools": {}}) == "89a1a420b264"
    assert builds.key(builds.of_path({"fio": program(sha256="cd" * 32)}, None)) != builds.key(one)


def test_the_mpi_of_ranks_that_srun_starts(mpi_tools: Path) -> None:
    ior = str(mpi_tools / "ior")
    found = builds.of_path({"fio": program(), "ior": program(ior)}, None)["mpi"]
    assert re.fullmatch(r"/.*/libmpi\S*\.so\S*", found["path"])
    assert (found["version"], found["package"]) == ("", builds.package_of(found["path"]))
    assert f"=> {found['path']} (" in subprocess.run(["ldd", ior], capture_output=True, text=True, check=True).stdout
