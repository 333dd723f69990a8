"""Programs of the tools on PATH: path, hash and version, and the build documents of them."""

import hashlib
import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from iosweep.errors import Obstacle
from iosweep.programs import programs
from iosweep.programs.programs import Mpiexec, Program
from iosweep.target.agent import Agent
from iosweep.tools import tools


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """PATH with nothing but what a test puts there."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(programs, "sha256", programs.sha256.__wrapped__)  # asked once for each process
    return tmp_path / "bin"


def put(path: Path, name: str, script: str) -> Path:
    (path / name).write_text(f"#!/bin/sh\n{script}\n")
    (path / name).chmod(0o755)
    return path / name


def found(name: str = "fio") -> Program | Obstacle:
    with Agent() as agent:
        return programs.find(tools()[name], agent.run)


# Programs


def test_a_program_is_known_by_its_hash(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fio = put(path, "fio", "")
    assert programs.sha256("fio") == hashlib.sha256(fio.read_bytes()).hexdigest()
    with monkeypatch.context() as unreadable:
        unreadable.setattr(Path, "read_bytes", Mock(side_effect=PermissionError))
        assert programs.hash_of(str(fio)) == ""  # and not as if it were absent, which nodes are refused for
    fio.unlink()
    assert programs.sha256("fio") is None


@pytest.mark.local
@pytest.mark.parametrize(
    ("script", "version", "lasting"),
    [
        ("echo 'fio-4.0-dirty and more'", "fio-4.0-dirty", None),
        (":", "unknown", None),
        ("echo fio-3.17", "", True),
        ("echo no library >&2; exit 127", "no library", False),  # it may run another time
    ],
)
def test_a_program_that_is_too_old_or_does_not_run_is_not_used(
    path: Path, script: str, version: str, lasting: bool | None
) -> None:
    fio = put(path, "fio", script)
    program = found()
    if lasting is None:
        assert isinstance(program, Program)
        assert (program.path, program.version) == (str(fio), version)
        assert program.sha256 == hashlib.sha256(fio.read_bytes()).hexdigest()
        assert not program.replaced()
        os.utime(fio, ns=(1, 1))  # an update in the night
        assert program.replaced()
        fio.unlink()
        assert program.replaced()
    else:
        assert isinstance(program, Obstacle)
        assert program.lasting == lasting
        assert str(fio) in str(program)
        assert version in str(program)


@pytest.mark.usefixtures("path")
def test_a_program_that_is_not_there_is_named_with_how_to_get_it() -> None:
    program = found("ior")  # no agent is started
    assert isinstance(program, Obstacle)
    assert program.lasting
    assert program.what.startswith("ior ")
    assert tools()["ior"].get_it in program.remedy


# Build documents


def program(path: str = "/nowhere/fio", sha256: str = "ab" * 32) -> Program:
    return Program(path, sha256, "fio-3.33", (1, 2, 3, 4))


@pytest.mark.local
def test_a_build_document_has_the_tools_and_what_starts_ranks(path: Path) -> None:
    mpiexec = Mpiexec("/nowhere/mpiexec", "5.0.1")
    assert programs.describe({"fio": program()}, mpiexec) == {
        "tools": {"fio": {"path": "/nowhere/fio", "sha256": "ab" * 32, "version": "fio-3.33", "package": None}},
        "mpi": {"path": "/nowhere/mpiexec", "version": "5.0.1", "package": None},
    }
    assert programs.describe({}, None) == {"tools": {}, "mpi": None}
    # srun does not say which MPI the ranks have: the program that is linked with it does
    lines = ["linux-vdso.so.1 (0x00007ffc)", "libmpi.so.12 => /opt/mpi/lib/libmpi.so.12 (0x00007f01)"]
    put(path, "ldd", "\n".join(f"printf '\\t%s\\n' '{line}'" for line in lines))
    found = programs.describe({"fio": program(), "ior": program("/nowhere/ior")}, None)["mpi"]
    assert found == {"path": "/opt/mpi/lib/libmpi.so.12", "version": "", "package": None}
    script = programs.describe({"fio": program(str(put(path, "fio", "")))}, None)["tools"]
    assert script["fio"]["script"]  # type: ignore[index]


# What it is linked with


@pytest.mark.parametrize(
    ("printed", "mpi", "absent"),
    [
        ("\tlibmpi.so.40 => /lib/libmpi.so.40 (0x7f)", "Open MPI", []),
        ("\tlibmpi.so.12 => not found\n\tlibm.so.6 => /lib/libm.so.6 (0x7f)", "MPICH", ["libmpi.so.12"]),
        ("\tlibmpich.so.12 => /lib/libmpich.so.12 (0x7f)", "MPICH", []),
        ("\tlibmpi_cray.so.12 => /opt/cray/libmpi_cray.so.12 (0x7f)", "MPICH", []),
        ("x: /lib/libfabric.so.1: version `FABRIC_1.9' not found (required by x)", None,
         ["/lib/libfabric.so.1 with FABRIC_1.9"]),
        ("\tnot a dynamic executable", None, []),
    ],
)  # fmt: skip
def test_the_loader_tells_the_mpi_of_a_program_and_the_libraries_that_a_node_lacks(
    printed: str, mpi: str | None, absent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "libraries", lambda path: f"\tlinux-vdso.so.1 (0x7f)\n{printed}\n")
    assert (programs.mpi("/x/ior"), programs.absent("/x/ior")) == (mpi, absent)
