"""Build tools on PATH, and the package to install if Spack cannot build one."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

import spack as standin
from iosweep.programs.spack import build_tools
from iosweep.programs.spack.packages import Lock
from iosweep.programs.spack.spack_yaml import BUILD_TOOLS


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    directory = tmp_path / "bin"
    directory.mkdir()
    for name in ("gcc", "g++-12", "libtoolize", "make", "python3.11", "gcc-ar", "makeself", "perl5.36"):
        program(directory / name)
    (directory / "m4").write_text("not executable")
    (directory / "tar").symlink_to(directory / "nowhere")
    return directory


def program(file: Path) -> None:
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)


def test_build_tools_and_compilers_on_path(programs: Path) -> None:
    found = build_tools.offered(f"{programs}{os.pathsep}{programs.parent / 'nosuch'}{os.pathsep}")
    assert {name: [Path(line.split()[0]).name for line in lines] for name, lines in found.items()} == {
        "gcc": ["g++-12", "gcc"], "gmake": ["make"], "libtool": ["libtoolize"], "python": ["python3.11"],
    }  # fmt: skip


def test_the_order_of_path_and_links_to_the_same_do_not_matter(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "links").symlink_to(programs)
    first = build_tools.offered(f"{programs}:{tmp_path / 'links'}")
    assert (
        first
        == build_tools.offered(f"{tmp_path / 'links'}:{programs}:{programs}")
        == build_tools.offered(str(programs))
    )


def test_installed_removed_and_updated_programs_are_named(programs: Path) -> None:
    before = build_tools.offered(str(programs))
    assert build_tools.differs(before, json.loads(json.dumps(before))) is None
    program(programs / "autoconf")
    (programs / "make").unlink()
    os.utime(programs / "gcc", (1, 1))
    now = build_tools.offered(str(programs))
    assert build_tools.differs(before, now) == "new: autoconf; gone: gmake; other versions: gcc"


def lock(*not_here: str) -> Lock:
    """The recorded spack.lock, of a system without these build tools. m4 needs libsigsegv then."""
    found: dict[str, Any] = json.loads((standin.RECORDED / "ok.spack.lock").read_text())
    specs = found["concrete_specs"]
    by_name = {spec["name"]: spec for spec in specs.values()}
    for name in not_here:
        del by_name[name]["external"]
        by_name[name]["dependencies"] = [{"name": "compiler-wrapper", "hash": by_name["compiler-wrapper"]["hash"]}]
    if "m4" in not_here:
        specs["s" * 32] = {"name": "libsigsegv", "version": "2.14", "hash": "s" * 32}
        by_name["m4"]["dependencies"].append({"name": "libsigsegv", "hash": "s" * 32})
    return msgspec.convert(found, Lock)


def test_build_tools_that_spack_builds(programs: Path) -> None:
    assert build_tools.built_instead(lock()) == []
    assert build_tools.built_instead(lock("m4", "libtool")) == ["libtool", "m4"]
    assert "libtool" in BUILD_TOOLS


def unfetched(name: str, version: str) -> str:
    return f"==> Error: FetchError: All fetchers failed for spack-stage-{name}-{version}-{'a' * 32}\n  https://...\n"


@pytest.mark.parametrize(
    ("not_here", "output", "expected"),
    [
        (["libtool"], unfetched("libtool", "2.4.7"),
         "libtool is not on this system, so Spack builds it from source; install libtool "),
        (["libtool"], "==> Error: Failed downloads\nError while fetching libtool@2.4.7-" + "a" * 32,
         "libtool is not on this system"),
        (["gmake"], f"See build log for details:\n  /s/spack-stage-gmake-4.4.1-{'b' * 32}/spack-build-out.txt",
         "gmake is not on this system, so Spack builds it from source; install make "),
        # what is built for it only
        (["m4", "libtool"], unfetched("libsigsegv", "2.14"), "m4 is not on this system"),
        (["m4", "libtool"], unfetched("libsigsegv", "2.14") + unfetched("libtool", "2.4.7"),
         "libtool and m4 are not on this system, so Spack builds them from source; install libtool m4 "),
        # others need it, too
        (["libtool"], unfetched("compiler-wrapper", "1.0"), None),
        (["libtool"], unfetched("zlib-ng", "2.2.2"), None),
        ([], unfetched("ior", "4.0.0"), None),
        (["libtool"], "==> Error: something else", None),
    ],
)  # fmt: skip
def test_package_to_install_is_named(not_here: list[str], output: str, expected: str | None) -> None:
    found = build_tools.to_install(lock(*not_here), output)
    assert found is None if expected is None else found and found.startswith(expected)
