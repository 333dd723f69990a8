"""Built binaries are run before tools.json is written, and the content of tools.json."""

import json
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from msgspec import structs

from iosweep.errors import BuildError, Unusable
from iosweep.files.documents import dump
from iosweep.files.documents import read as stored
from iosweep.plan.launchers import Mpiexec
from iosweep.programs import find
from iosweep.programs.find import Program
from iosweep.programs.spack import build, built, packages, verify
from iosweep.programs.spack.packages import Lock, Package, Spec
from iosweep.programs.spack.spack_yaml import Place
from iosweep.programs.spack.verify import Verified, documents, doubts
from iosweep.target import agent
from spack import RECORDED

SCRIPTS = Path(sysconfig.get_path("scripts"))  # with MPICH's mpiexec


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    directory = tmp_path / "prefix/bin"
    directory.mkdir(parents=True)
    return directory


def check(tmp_path: Path, *path: Path, roots: Collection[str] = (), engines: Collection[str] = ()) -> Verified:
    scratch = tmp_path / "scratch"
    try:
        return verify.verify(path, roots, engines, scratch)
    finally:
        assert not list(scratch.glob("*"))


def wrong(tmp_path: Path, *path: Path, **asked: Any) -> str:
    with pytest.raises(BuildError) as caught:
        check(tmp_path, *path, **asked)
    return str(caught.value)


def script(directory: Path, name: str, body: str) -> Path:
    file = directory / name
    file.write_text(f"#!/bin/sh\n{body}\n")
    file.chmod(0o755)
    return file


@pytest.mark.local
def test_programs_that_run(tmp_path: Path, prefix: Path, fio: Path, stand_ins: Path) -> None:
    (prefix / "fio").symlink_to(fio)
    found = check(tmp_path, prefix, stand_ins, SCRIPTS, roots={"fio", "ior", "mpich"}, engines={"libaio", "psync"})
    paths = {name: program.path for name, program in found.programs.items()}
    assert paths == {"fio": f"{prefix}/fio", "ior": f"{stand_ins}/ior", "mdtest": f"{stand_ins}/mdtest"}
    assert found.programs["fio"].version.startswith("fio-3.")
    assert found.programs["ior"].version == found.programs["mdtest"].version == "4.0.0"
    assert all(p.sha256 == find.hash_of(p.path) for p in found.programs.values())
    assert {"libaio", "psync", "io_uring"} <= set(found.engines)
    assert "Available" not in found.engines
    assert found.mpiexec
    assert Path(found.mpiexec.path).parent == SCRIPTS
    assert found.ranks == verify.RANKS == 2


@pytest.mark.local
def test_unrequested_tools_may_be_absent(tmp_path: Path, prefix: Path, fio: Path) -> None:
    (prefix / "fio").symlink_to(fio)
    found = check(tmp_path, prefix, roots={"fio", "mpich", "zlib"})
    assert (list(found.programs), found.mpiexec, found.ranks) == (["fio"], None, None)
    said = wrong(tmp_path, prefix, roots={"fio", "ior"})
    assert said == f"ior is among the specs, and ior is in none of {prefix}"
    assert check(tmp_path, prefix.parent) == Verified({}, (), None, None)


@pytest.mark.local
def test_programs_on_path_do_not_count(tmp_path: Path, prefix: Path, fio: Path, stand_ins: Path) -> None:
    """Nor an mpiexec beside our Python: its ranks are of another MPI."""
    assert shutil.which("fio")
    assert list(check(tmp_path, stand_ins).programs) == ["ior", "mdtest"]
    assert check(tmp_path, stand_ins).mpiexec is None


@pytest.mark.local
def test_missing_library(tmp_path: Path, prefix: Path) -> None:
    for name in ("one", "two"):
        source = tmp_path / f"{name}.c"
        source.write_text(f"int {name}(void) {{ return 0; }}\n")
        compiled(source, prefix / f"lib{name}.so", "-shared", "-fPIC")
    (tmp_path / "fio.c").write_text(
        '#include <stdio.h>\nint one(void), two(void);\nint main(void) { return one() + two() + !puts("fio-3.99"); }\n'
    )
    compiled(tmp_path / "fio.c", prefix / "fio", f"-L{prefix}", "-lone", "-ltwo", f"-Wl,-rpath,{prefix}")
    assert check(tmp_path, prefix, roots={"fio"}).programs["fio"].version == "fio-3.99"
    for name in ("one", "two"):
        (prefix / f"lib{name}.so").unlink()
    find.sha256.cache_clear()
    said = wrong(tmp_path, prefix, roots={"fio"})
    assert said == f"{prefix}/fio does not find libone.so, libtwo.so; load what it needs, or build it"


def compiled(source: Path, to: Path, *flags: str) -> None:
    if shutil.which("cc") is None:
        pytest.skip("cc: not on PATH (Debian package gcc)")
    subprocess.run(["cc", "-o", to, source, *flags], check=True)


ENGINES = (
    "case $1 in --version) echo fio-3.37;; --enghelp) printf 'Available IO engines:\\n\\tpsync\\n\\tsync\\n';; esac"
)


@pytest.mark.local
def test_fio_without_an_engine(tmp_path: Path, prefix: Path) -> None:
    script(prefix, "fio", ENGINES)
    assert check(tmp_path, prefix, engines={"psync"}).engines == ("psync", "sync")
    assert wrong(tmp_path, prefix, engines={"psync", "libaio", "io_uring"}) == (
        "fio is built without io_uring, libaio, which sweeps use; build it with that (fio+libaio), or take another"
        " ioengine (it has psync, sync)"
    )


@pytest.mark.local
@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "kill -ILL $$",
            "does not run: killed by signal 4; it is built for another processor; name an older target in spack.yaml"
            " (packages: all: target)",
        ),
        ("kill -SEGV $$", "does not run: killed by signal 11"),
        ("echo no >&2; exit 3", "does not run: exit code 3 no"),
        (r"printf '\033[31mred\n\033[0m' >&2; exit 3", r"does not run: exit code 3 \x1b[31mred\n\x1b[0m"),
        ("echo fio-2.21", "cannot be used: fio-2.21 is too old; 3.2 or newer is needed; get another with"),
        ("sleep 60", "does not run: not done within 30 s"),
    ],
)
def test_a_program_that_does_not_run(
    tmp_path: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str
) -> None:
    script(prefix, "fio", body)
    run = agent.Agent.run
    if body.startswith("sleep"):
        monkeypatch.setattr(agent.Agent, "run", lambda self, argv, limit, *rest: run(self, argv, 0.3, *rest))
    assert wrong(tmp_path, prefix, roots={"fio"}).startswith(f"{prefix}/fio {said}")


@pytest.mark.local
def test_program_for_another_processor(tmp_path: Path, prefix: Path) -> None:
    (prefix / "fio").write_bytes(b"\x7fELF of another")
    (prefix / "fio").chmod(0o755)
    assert wrong(tmp_path, prefix) == f"{prefix}/fio does not run: Exec format error: {prefix}/fio"


@pytest.mark.local
def test_unknown_version(tmp_path: Path, prefix: Path) -> None:
    script(prefix, "fio", "")
    script(prefix, "ior", "echo something else")
    found = check(tmp_path, prefix, roots={"fio", "ior"})
    assert {name: program.version for name, program in found.programs.items()} == {"fio": "unknown", "ior": "unknown"}


# --- ranks ------------------------------------------------------------------------------------------------------------


@pytest.mark.local
def test_ior_of_another_mpi(tmp_path: Path, stand_ins: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FAULT", "singleton")
    said = wrong(tmp_path, stand_ins, SCRIPTS)
    assert said.startswith(f"of 2 ranks of ior each is alone: ior ({stand_ins}/ior) is built with another MPI than")
    assert f"{SCRIPTS}/mpiexec" in said


def hydra(directory: Path, body: str) -> Path:
    """An mpiexec of MPICH, as far as that says so itself."""
    return script(directory, "mpiexec", f'case "$*" in --version) echo "HYDRA build details:"; exit;; esac\n{body}')


IOR = "echo 'IOR-4.0.0: MPI Coordinated Test of Parallel I/O'"


@pytest.mark.local
@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("echo 'tasks               : 2'", None),
        ("echo 'Participating tasks : 2'", None),
        ("echo 'tasks               : 1'", "of 2 ranks of ior each is alone: ior ({prefix}/ior) is built with another"),
        ("exit 1", "2 ranks of ior do not start with {prefix}/mpiexec: nothing was said"),
        ("echo 'tasks : 2'; exit 1", "2 ranks of ior do not start with {prefix}/mpiexec: tasks : 2"),
        ("echo nothing; exit 0", "2 ranks of ior do not start with {prefix}/mpiexec: nothing"),
        ("printf 'a\\n\\033[1mred\\n\\n' >&2", r"2 ranks of ior do not start with {prefix}/mpiexec: \x1b[1mred"),
        ("kill -ILL $$", "2 ranks of ior do not start with {prefix}/mpiexec: nothing was said"),
        ("echo 'tasks : 2'; sleep 60", "2 ranks of ior do not start with {prefix}/mpiexec: tasks : 2"),
    ],
)
def test_ranks_that_do_not_start(
    tmp_path: Path, prefix: Path, monkeypatch: pytest.MonkeyPatch, body: str, said: str | None
) -> None:
    monkeypatch.setattr(verify, "_ANSWER_S", 0.5 if "sleep" in body else 30.0)
    script(prefix, "ior", IOR)
    hydra(prefix, body)
    if said is None:
        assert check(tmp_path, prefix).ranks == 2
    else:
        assert wrong(tmp_path, prefix).startswith(said.format(prefix=prefix))


@pytest.mark.local
def test_how_ranks_are_started(tmp_path: Path, prefix: Path) -> None:
    script(prefix, "ior", IOR)
    hydra(prefix, f'printf "%s\\n" "$@" > {tmp_path}/words; pwd >> {tmp_path}/words; echo "tasks : 2"')
    assert check(tmp_path, prefix).ranks == 2
    words = (tmp_path / "words").read_text().splitlines()
    assert words[words.index("-n") : words.index("-n") + 3] == ["-n", "2", f"{prefix}/ior"]
    assert words[-2].startswith(f"{tmp_path}/scratch/")  # what it writes
    assert words[-1] == words[-2].removesuffix("/ranks")


@pytest.mark.local
def test_an_mpiexec_that_is_not_of_mpich(tmp_path: Path, prefix: Path) -> None:
    script(prefix, "ior", IOR)
    script(prefix, "mpiexec", "echo 'mpiexec (OpenRTE) 4.1.4'")
    found = check(tmp_path, prefix)
    assert (found.mpiexec, found.ranks) == (None, None)


# --- tools.json -------------------------------------------------------------------------------------------------------


def recorded() -> list[Package]:
    """The packages of the recorded installation."""

    def said(name: str) -> str:
        return (RECORDED / f"ok.{name}").read_text()

    prefixes = dict(line.split(" ", 1) for line in said("find-format.out").splitlines())
    roots = [root["hash"] for root in json.loads(said("spack.lock"))["roots"]]
    return packages.installed(msgspec.json.decode(said("find-json.out"), type=list[Spec]), prefixes, roots)


def program(path: str, version: str = "4.0.0") -> Program:
    return Program(path, "0" * 64, version, ())


STORE = "/site/store/linux-x86_64_v2"
FIO, IOR_DIRECTORY = (
    f"{STORE}/fio-3.37-bcvzxup4a24bwxkc25pf63kbfh2mfk32",
    f"{STORE}/ior-4.0.0-ngnuwqljwsopqjcinsmbtvtmk6wjrjxj",
)
RUN = Verified(
    {"fio": program(f"{FIO}/bin/fio", "fio-3.37"), "ior": program(f"{IOR_DIRECTORY}/bin/ior")},
    ("libaio", "psync"),
    Mpiexec("/site/venv/bin/mpiexec", "5.0.1"),
    2,
)
MPICH = "mpich@5.0.1/pq4zhix"


def test_content_of_tools_json() -> None:
    tools, mpi = documents(RUN, recorded())
    fio = {"path": f"{FIO}/bin/fio", "sha256": "0" * 64, "version": "fio-3.37"}
    assert tools == {
        "fio": {**fio, "package": "fio@3.37~doc~gui~libaio/bcvzxup", "engines": ["libaio", "psync"]},
        "ior": {
            "path": f"{IOR_DIRECTORY}/bin/ior",
            "sha256": "0" * 64,
            "version": "4.0.0",
            "package": "ior@4.0.0~aio~hdf5~lustre~ncmpi/ngnuwql",
        },
    }
    assert mpi == {
        "path": "/site/venv/bin/mpiexec",
        "version": "5.0.1",
        "package": MPICH,
        "external": "/site/venv",
        "ranks": 2,
    }


def test_without_ranks_or_without_mpi() -> None:
    alone = Verified(RUN.programs, (), None, None)
    assert documents(alone, recorded())[1] == {
        "path": None,
        "version": "5.0.1",
        "package": MPICH,
        "external": "/site/venv",
        "ranks": None,
    }
    without = [package for package in recorded() if package.name != "mpich"]
    assert documents(alone, without)[1] is None
    assert documents(RUN, without)[1] == {
        "path": "/site/venv/bin/mpiexec",
        "version": "5.0.1",
        "package": None,
        "external": None,
        "ranks": 2,
    }


def test_mpi_without_a_package(tmp_path: Path) -> None:
    """Specs of fio and MPICH only: it is known by its mpiexec."""
    alone = [structs.replace(each, provides_mpi=False) for each in recorded() if each.name in ("fio", "mpich")]
    mpi = documents(RUN, alone)[1]
    assert mpi
    assert (mpi["package"], mpi["external"]) == (MPICH, "/site/venv")


def test_packages_of_an_installation() -> None:
    found = {package.name: package for package in recorded()}
    assert list(found) == sorted(found)
    assert len(found) == 14
    fio, mpich, gcc = found["fio"], found["mpich"], found["gcc"]
    assert structs.asdict(fio) == {
        "name": "fio",
        "version": "3.37",
        "hash": "bcvzxup4a24bwxkc25pf63kbfh2mfk32",
        "variants": {"build_system": "autotools", "doc": False, "gui": False, "libaio": False},
        "target": "x86_64_v2",
        "os": "debian12",
        "compiler": "gcc@12.2.0",
        "external": None,
        "prefix": FIO,
        "explicit": True,
        "provides_mpi": False,
    }
    assert (mpich.external, mpich.explicit, mpich.provides_mpi) == ("/site/venv", True, True)
    assert (gcc.compiler, gcc.external, gcc.explicit) == (None, "/usr", False)
    assert [name for name, package in found.items() if package.explicit] == ["fio", "ior", "mpich"]


def test_a_target_of_one_processor() -> None:
    """Spack describes it in a mapping."""
    specs = json.loads((RECORDED / "ok.find-json.out").read_text())
    specs[0]["arch"]["target"] = {"name": "icelake", "vendor": "GenuineIntel"}
    found = {one.hash: one for one in packages.installed(msgspec.convert(specs, list[Spec]), {}, ())}
    assert found[specs[0]["hash"]].target == "icelake"
    assert {one.prefix for one in found.values()} == {""}


def test_built_packages_come_before_externals(tmp_path: Path) -> None:
    for name in ("mpich", "fio", "ior", "zlib"):
        (tmp_path / name / "bin").mkdir(parents=True)
    (tmp_path / "library").mkdir()
    known = [
        package("fio", str(tmp_path / "fio"), external=str(tmp_path / "fio")),
        package("ior", str(tmp_path / "ior")),
        package("ior-again", str(tmp_path / "ior")),
        package("library", str(tmp_path / "library")),
        package("mpich", str(tmp_path / "mpich"), explicit=False, provides_mpi=True),
        package("zlib", str(tmp_path / "zlib"), explicit=False),
    ]
    assert packages.bin_directories(known) == [tmp_path / name / "bin" for name in ("ior", "mpich", "fio")]


@pytest.mark.local
def test_unchanged_files_are_not_rewritten(tmp_path: Path) -> None:
    place = Place(tmp_path, "0123456789ab")
    place.build.mkdir()
    document = {"path": ["/opt/a'b $HOME/bin", "/opt/mpich/bin"], "b": 1, "a": 2}
    assert build._write(place, document)
    said = subprocess.run(
        ["sh", "-c", f". {place.script}; echo $PATH"], env={"PATH": "/usr/bin"}, capture_output=True, text=True
    )
    assert said.stdout == "/opt/a'b $HOME/bin:/opt/mpich/bin:/usr/bin\n"
    assert stored(place.file) == document
    before = place.file.stat()
    assert not build._write(place, dict(reversed(document.items())))
    assert place.file.stat() == before
    assert build._write(place, {**document, "a": 3})
    place.script.unlink()
    assert build._write(place, {**document, "a": 3})


def test_scope_is_rewritten(tmp_path: Path) -> None:
    build.write_scope(tmp_path / "scope", {"mirrors.yaml": {"mirrors:": {}}, "config.yaml": {"config": {"a": [1]}}})
    build.write_scope(tmp_path / "scope", {"config.yaml": {"config": {"a": [1]}}})
    [file] = (tmp_path / "scope").iterdir()
    assert (file.name, yaml.safe_load(file.read_text())) == ("config.yaml", {"config": {"a": [1]}})


@pytest.mark.parametrize("content", ["", "{", "[]", "3", "null", '{"roots": [3]}', '{"roots": 3}'])
def test_a_lock_that_cannot_be_read(tmp_path: Path, content: str) -> None:
    (tmp_path / "spack.lock").write_text(content)
    assert build._unlike(["fio"], tmp_path / "spack.lock") == "it cannot be read"


def package(name: str, prefix: str, explicit: bool = True, **more: Any) -> Package:
    known = {"variants": {}, "target": "x86_64", "os": "debian12", "compiler": None, "external": None} | more
    return Package(
        **{"name": name, "version": "1", "hash": f"{name}-0123456789", "prefix": prefix, "provides_mpi": False}
        | {"explicit": explicit}
        | known
    )


def test_packages_built_in_another_directory(tmp_path: Path) -> None:
    """A copied directory knows only where the original is."""
    store = tmp_path / "store"
    known = [package("fio", f"{store}/linux/fio-3.37-a"), package("gcc", "/usr", external="/usr")]
    assert packages.outside(store, known) is None
    (tmp_path / "link").symlink_to(store)
    assert packages.outside(tmp_path / "link", known) is None
    assert packages.outside(tmp_path / "copy/store", known) == f"{store}/linux/fio-3.37-a"


def test_a_version_that_cannot_be_used() -> None:
    """Spack takes `ior` for 3.3.0."""
    lock = json.loads((RECORDED / "ok.spack.lock").read_text())
    assert packages.unfit_version(msgspec.convert(lock, Lock)) is None
    root = next(root for root in lock["roots"] if root["spec"].startswith("ior"))
    root["spec"], lock["concrete_specs"][root["hash"]]["version"] = "ior", "3.3.0"
    said = "`ior` in specs is ior 3.3.0 to Spack, which cannot be used: IOR 3.3.0 has neither "
    assert (packages.unfit_version(msgspec.convert(lock, Lock)) or "").startswith(said)


def test_package_of_a_program() -> None:
    """Externals may lie in one another; what nobody asked for is none of the tools'."""
    known = [package("root", "/"), package("usr", "/usr"), package("glibc", "/usr/bin", explicit=False)]
    run = Verified({"fio": program("/usr/bin/fio"), "ior": program("/opt/bin/ior")}, (), None, None)
    tools, mpi = documents(run, known)
    assert {name: tool["package"] for name, tool in tools.items()} == {"fio": "usr@1/usr-012", "ior": "root@1/root-01"}
    assert mpi is None
    assert documents(run, known[2:])[0]["fio"]["package"] is None


@pytest.mark.parametrize(
    ("variants", "text"),
    [
        ({}, ""),
        ({"b": False, "a": True}, "+a~b"),
        ({"build_system": "autotools", "pmi": "default", "x": True}, "+x pmi=default"),
        ({"netmod": ["ofi"], "device": ["ch4", "ch3"]}, " device=ch4,ch3 netmod=ofi"),
        ({"cflags": [], "patches": "", "n": 3}, " n=3"),
    ],
)
def test_how_a_package_is_written(variants: Mapping[str, Any], text: str) -> None:
    assert package("a", "/", variants=variants).spec == f"a@1{text}/a-01234"
    # most variants of an external are what Spack takes for granted
    assert package("a", "/", variants=variants, external="/usr").spec == "a@1/a-01234"


def test_differences_from_the_request() -> None:
    assert doubts(RUN, recorded(), ["fio", "ior"]) == []
    assert doubts(RUN, recorded(), ["mdtest"]) == [
        "mdtest, which sweeps use, is not among what is built; its points will be missing"
    ]
    other = Verified({"fio": program(f"{FIO}/bin/fio", "fio-3.33")}, (), Mpiexec("/site/venv/bin/mpiexec", "4.3"), None)
    assert doubts(other, recorded(), []) == [
        f"{FIO}/bin/fio says 3.33, and its package is fio@3.37",
        "/site/venv/bin/mpiexec says 4.3, and its package is mpich@5.0.1; correct its spec in spack.yaml",
    ]
    develop = package("ior", IOR_DIRECTORY, version="develop")
    assert doubts(RUN, [develop], []) == []


# --- what is read of it -----------------------------------------------------------------------------------------------


@pytest.fixture
def document(tmp_path: Path, prefix: Path) -> dict[str, Any]:
    """The part of a tools.json that is read, of programs that are there."""
    (tmp_path / "tools/store").mkdir(parents=True)
    paths = {name: str(script(prefix, name, "")) for name in ("fio", "ior", "mpiexec")}
    return {
        "provider": "spack",
        "store": str(tmp_path / "tools/store"),
        "tools": {name: {"path": paths[name], "sha256": name[0] * 64} for name in ("fio", "ior")},
        "mpi": {"path": paths["mpiexec"], "version": "5.0.1"},
        "path": [str(prefix), "/opt/mpich/bin"],
    }


FILE = "tools/0123456789ab/tools.json"


def read(tmp_path: Path, document: Any) -> built.Built | None:
    file = tmp_path / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(document.encode() if isinstance(document, str) else dump(document))
    return built.read(file)


def test_what_was_built(tmp_path: Path, prefix: Path, document: dict[str, Any]) -> None:
    assert built.read(tmp_path / "nosuch/tools.json") is None
    found = read(tmp_path, document)
    assert found
    assert found.document == document
    assert found.search == f"{prefix}:/opt/mpich/bin"
    assert found.hashes() == {"fio": "f" * 64, "ior": "i" * 64}
    for mpi in (None, {"path": None, "version": "5"}):
        assert read(tmp_path, {**document, "mpi": mpi})


@pytest.mark.parametrize(
    "change",
    [
        "",
        "{",
        "null",
        "[]",
        '"text"',
        "{}",
        {"tools": None},
        {"tools": {}},
        {"tools": []},
        {"tools": {"fio": None}},
        {"tools": {"fio": {"sha256": "0"}}},
        {"tools": {"fio": {"path": None, "sha256": "0"}}},
        {"path": None},
        {"path": []},
        {"path": [None]},
        {"path": 3},
        {"mpi": "x"},
        {"mpi": {"version": "5"}},
    ],
)
def test_what_cannot_be_read(tmp_path: Path, document: dict[str, Any], change: Any) -> None:
    with pytest.raises(Unusable) as caught:
        read(tmp_path, change if isinstance(change, str) else {**document, **change})
    again = "remove it, and the next run builds the tools again"
    assert re.fullmatch(rf"{tmp_path}/{FILE} is damaged \(.+\); {again}", str(caught.value))


def test_a_directory_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(Unusable, match=r"is damaged \(it is not a regular file\); remove it"):
        built.read(tmp_path)


@pytest.mark.parametrize("name", ["fio", "ior", "mpiexec"])
@pytest.mark.parametrize("how", ["gone", "not run"])
def test_a_program_that_is_gone(tmp_path: Path, prefix: Path, document: dict[str, Any], name: str, how: str) -> None:
    if how == "gone":
        (prefix / name).unlink()
    else:
        (prefix / name).chmod(0o644)
    with pytest.raises(Unusable) as caught:
        read(tmp_path, document)
    assert str(caught.value) == (
        f"{prefix}/{name} is gone, which {tmp_path}/{FILE} says was built; is its file system mounted here? If it"
        f" was removed, remove {tmp_path}/{FILE}, and the next run builds the tools again"
    )


def test_tools_that_were_carried_elsewhere(tmp_path: Path, document: dict[str, Any]) -> None:
    assert read(tmp_path, document)
    (tmp_path / "link").symlink_to(tmp_path / "tools")  # it is the same by another name
    assert built.read(tmp_path / "link" / FILE.removeprefix("tools/"))
    shutil.copytree(tmp_path / "tools", tmp_path / "copy")
    with pytest.raises(Unusable) as caught:
        built.read(tmp_path / "copy" / FILE.removeprefix("tools/"))
    assert str(caught.value) == (
        f"the tools of {tmp_path}/copy/{FILE.removeprefix('tools/')} were built in {tmp_path}/tools/store, and cannot"
        f" be moved or copied: paths are in the binaries; remove {tmp_path}/copy, and the next run builds them anew"
    )


def test_tools_whose_installation_is_gone(tmp_path: Path, prefix: Path, document: dict[str, Any]) -> None:
    assert read(tmp_path, document)
    shutil.rmtree(tmp_path / "tools/store", ignore_errors=True)
    shutil.rmtree(prefix)
    with pytest.raises(Unusable, match=r"is gone, which .* says was built; is its file system mounted here"):
        built.read(tmp_path / FILE)


TARGET = {"device": 7, "fstype": "lustre", "source": "mgs@tcp:/scratch", "fsid": "1", "real": "/scratch/me"}


@pytest.mark.parametrize(
    ("there", "same"),
    [
        ({"device": 7, "fstype": "lustre", "source": "mgs@tcp:/scratch", "fsid": "1"}, True),
        ({"device": 8, "fstype": "lustre", "source": "mgs@tcp:/scratch", "fsid": "2"}, True),  # mounted a second time
        ({"device": 7, "fstype": "nfs4", "source": "a:/b", "fsid": "3"}, True),  # by its device
        ({"device": 8, "fstype": "lustre", "source": "mgs@tcp:/home", "fsid": "1"}, False),
        ({"device": 8, "fstype": "tmpfs", "source": "tmpfs", "fsid": "1", "mounted": "0:8"}, False),
    ],
)
def test_tools_on_the_file_system_under_test(there: dict[str, Any], same: bool) -> None:
    sentence = "the tools (/home/me/tools) are on the file system under test"
    found = [built.on_target(TARGET, there, Path("/home/me/tools"), slurm, "quick") for slurm in (True, False)]
    refused = (True, f"{sentence}; name a tools.directory elsewhere that all nodes see")
    assert found == ([refused, (False, sentence)] if same else [None, None])


@pytest.mark.parametrize("slurm", [True, False])
def test_tools_in_what_a_campaign_removes(tmp_path: Path, slurm: bool) -> None:
    facts = {**TARGET, "real": str(tmp_path)}
    inside = tmp_path / "iosweep-quick/tools"
    assert built.on_target(facts, facts, inside, slurm, "quick") == (
        True,
        f"tools.directory {inside} is inside the campaign's directory; name another one",
    )
    inside.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inside)
    assert (built.on_target(facts, facts, tmp_path / "link/more", slurm, "quick") or (False, ""))[0]
    found = built.on_target(facts, facts, tmp_path / "iosweep-other/tools", slurm, "quick")
    assert found
    assert "inside" not in found[1]
