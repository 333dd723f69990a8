"""Reading spack.yaml: content, digest, and errors."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from iosweep.errors import ConfigError
from iosweep.programs.spack.packages import Lock
from iosweep.programs.spack.spack_yaml import BUILTIN, Pin, Place, read, scope, stale, unfit
from spack import RECORDED, SPECS, spack_yaml

COMMIT = "3c1e1f0a5d2b4c6d7e8f90123456789abcdef012"


def written(directory: Path, text: str | dict[str, Any]) -> Path:
    file = directory / "spack.yaml"
    file.write_text(text if isinstance(text, str) else yaml.safe_dump(text, sort_keys=False))
    return file


def document(**keys: Any) -> dict[str, Any]:
    repos = {BUILTIN: {"git": "https://example.org/p.git", "tag": "v1"}}
    return {"spack": {"specs": ["ior@4.0.0", "fio"], "repos": repos, **keys}}


def digest(directory: Path, text: str | dict[str, Any]) -> str:
    return read(written(directory, text)).digest


def test_content_that_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, spack_yaml("https://example.org/p.git"))
    found = read(file)
    assert (found.file, found.specs) == (file, SPECS)
    assert found.repository == Pin("https://example.org/p.git", "v2026.06.0")
    assert len(found.digest) == 12
    assert int(found.digest, 16)


def test_shipped_spack_yaml(root: Path) -> None:
    found = read(root / "spack.yaml")
    assert found.repository == Pin("https://github.com/spack/spack-packages.git", "v2026.06.0")
    assert [spec.partition("@")[0] for spec in found.specs] == ["ior", "fio", "mpich"]


def test_repositories(tmp_path: Path) -> None:
    def repository(said: Any, key: str = "repos") -> Pin | Path:
        given = document()
        del given["spack"]["repos"]
        given["spack"][key] = {BUILTIN: said}
        return read(written(tmp_path, given)).repository

    assert repository("/opt/packages") == Path("/opt/packages")
    by_tag = repository({"git": "u", "tag": "releases/v0.1"}, "repos:")  # in place of the site's
    assert by_tag == Pin("u", "releases/v0.1")
    assert isinstance(by_tag, Pin)
    assert not by_tag.by_commit
    by_commit = repository({"git": "u", "commit": COMMIT})
    assert by_commit == Pin("u", COMMIT, COMMIT)
    assert isinstance(by_commit, Pin)
    assert by_commit.by_commit
    # a tag that is known to be a commit is no commit
    assert not Pin("u", "v1", COMMIT).by_commit


MISSING = "is missing: the packages that are built; write {git: <address>, tag: <release>}"
UNPINNED = "pin it with `tag:`, or with `commit:` and its 40 digits in quotes (a branch is another one tomorrow)"
NO_SPECS = "spack.specs: name what is to be built, for example [ior@4.0.0, fio]"
REPOS = "  repos: {builtin: {git: u, tag: v1}}\n"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", ["1: must be a mapping of keys to values"]),
        ("spack: [\n", ["2: not valid YAML: expected the node content, but found '<stream end>'"]),
        ("specs: [fio]\n", ["1: there is no mapping `spack:`; is it an environment of Spack?"]),
        ("spack: [fio]\n", ["1: there is no mapping `spack:`; is it an environment of Spack?"]),
        ("spack:\n", ["1: there is no mapping `spack:`; is it an environment of Spack?"]),
        (f"spack:\n{REPOS}", [f"1: {NO_SPECS}"]),
        (f"spack:\n{REPOS}  specs: []\n", [f"3: {NO_SPECS}"]),
        (f"spack:\n{REPOS}  specs: fio\n", [f"3: {NO_SPECS}"]),
        (f"spack:\n{REPOS}  specs: [fio]\n  specs: [ior]\n", ["4: spack.specs: is defined twice (first on line 3)"]),
        ("spack:\n  specs: [fio]\n", [f"1: spack.repos.builtin: {MISSING}"]),
        ("spack:\n  specs: [fio]\n  repos: [builtin]\n", [f"3: spack.repos.builtin: {MISSING}"]),
        ("spack:\n  specs: [fio]\n  repos:\n    other: /opt\n", [f"3: spack.repos.builtin: {MISSING}"]),
        ("spack:\n  specs: [fio]\n  repos::\n    builtin: 7\n", [f"4: spack.repos:.builtin: {MISSING}"]),
        ("spack:\n  specs: [fio]\n  repos:\n    builtin: {tag: v1}\n", [f"4: spack.repos.builtin: {MISSING}"]),
        ("spack:\n  specs: [fio]\n  repos:\n    builtin: {git: '', tag: v1}\n", [f"4: spack.repos.builtin: {MISSING}"]),
        (
            "spack:\n  specs: [fio]\n  repos:\n    builtin: packages\n",
            ["4: spack.repos.builtin: `packages` is relative; write the whole path"],
        ),
        (
            "spack:\n  include:\n  - /etc\n  - site.yaml\n  - {path: ../x.yaml}\n  repos: {builtin: p}\n",
            [
                f"1: {NO_SPECS}",
                "6: spack.repos.builtin: `p` is relative; write the whole path",
                "4: spack.include[1]: `site.yaml` is relative, and Spack reads a copy elsewhere; write the whole path",
                "5: spack.include[2]: `../x.yaml` is relative, and Spack reads a copy elsewhere; write the whole path",
            ],
        ),
        *(
            (f"spack:\n  specs: [fio]\n  repos:\n    builtin:\n      {said}\n", [f"4: spack.repos.builtin: {UNPINNED}"])
            for said in (
                "{git: u}",
                "{git: u, branch: develop}",
                "{git: u, tag: 1.0}",  # a number
                "{git: u, tag: v1, commit: 3c1e1f0a5d2b4c6d7e8f90123456789abcdef012}",
                "{git: u, tag: --upload-pack=x}",
                "{git: u, tag: ../../etc}",
                "{git: u, tag: a..b}",
                "{git: u, tag: /etc}",
                "{git: u, tag: 'v1 x'}",
                "{git: u, tag: \"v1\\n\"}",
                "{git: u, tag: ''}",
                "{git: u, commit: 3c1e1f0}",
                "{git: u, commit: 1234567890123456789012345678901234567890}",  # a number
                "{git: u, commit: 3C1E1F0A5D2B4C6D7E8F90123456789ABCDEF012}",
                '{git: u, commit: "3c1e1f0a5d2b4c6d7e8f90123456789abcdef012\\n"}',
            )
        ),
    ],
)  # fmt: skip
def test_invalid_spack_yaml(tmp_path: Path, text: str, wrong: list[str]) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read(file)
    assert [str(problem) for problem in caught.value.problems] == [f"{file}:{each}" for each in wrong]


def test_unreadable_spack_yaml(tmp_path: Path) -> None:
    for name, why in (("nosuch.yaml", "No such file or directory"), (".", "Is a directory")):
        with pytest.raises(ConfigError, match=f":1: cannot be read: {why}"):
            read(tmp_path / name)
    (tmp_path / "x.yaml").write_bytes(b"spack: \xff")
    with pytest.raises(ConfigError, match=":1: cannot be read: not UTF-8 text"):
        read(tmp_path / "x.yaml")


# --- the digest -------------------------------------------------------------------------------------------------------


def test_comments_and_order_keep_the_digest(tmp_path: Path) -> None:
    plain = digest(tmp_path, spack_yaml())
    lines = spack_yaml().splitlines()
    assert digest(tmp_path, "# ours\n" + "\n\n".join(f"{line}   # so" for line in lines)) == plain
    assert digest(tmp_path, yaml.safe_load(spack_yaml())) == plain  # other quotes, other indentation
    turned = {"spack": dict(reversed(yaml.safe_load(spack_yaml())["spack"].items()))}
    assert digest(tmp_path, turned) == plain
    (tmp_path / "other").mkdir()
    assert digest(tmp_path / "other", spack_yaml()) == plain  # its name is not part of it


def leaves(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path] if not items else [leaf for key, value in items for leaf in leaves(value, (*path, key))]


@pytest.mark.parametrize("path", leaves(yaml.safe_load(spack_yaml())), ids=lambda path: ".".join(map(str, path)))
def test_every_value_changes_the_digest(tmp_path: Path, path: tuple[Any, ...]) -> None:
    data = yaml.safe_load(spack_yaml())
    plain, place = digest(tmp_path, data), data
    for key in path[:-1]:
        place = place[key]
    was = place[path[-1]]
    place[path[-1]] = (not was) if isinstance(was, bool) else f"{was}0"
    assert digest(tmp_path, data) != plain
    del place[path[-1]]
    if path[1] != "repos":  # which cannot be left out
        assert digest(tmp_path, data) != plain


def test_order_of_a_list_changes_the_digest(tmp_path: Path) -> None:
    assert digest(tmp_path, document(specs=["a", "b"])) != digest(tmp_path, document(specs=["b", "a"]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["", "a", "true", "1", "~"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)


@given(VALUES, VALUES)
def test_equal_content_has_an_equal_digest(tmp_path_factory: pytest.TempPathFactory, one: Any, other: Any) -> None:
    directory = tmp_path_factory.getbasetemp()
    found = [digest(directory, document(config=value)) for value in (one, other)]
    assert (found[0] == found[1]) == (json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True))


@pytest.mark.parametrize("key", ["include", "include:"])
def test_included_files(tmp_path: Path, key: str) -> None:
    site, folder = tmp_path / "packages.yaml", tmp_path / "site"
    folder.mkdir()
    entries = [str(site), {"path": str(folder), "optional": True}, "https://example.org/x.yaml", "$spack/etc", 3, {}]

    def now() -> str:
        return digest(tmp_path, document(**{key: entries}))

    seen = [now()]
    for file, content in (
        (site, "packages: {}\n"),
        (site, "packages: {all: {}}\n"),
        (folder / "config.yaml", "config: {}\n"),
        (folder / "config.yaml", "config: {a: 1}\n"),
        (folder / "another.yaml", "\xe9"),
    ):
        file.write_text(content, encoding="latin-1")
        seen.append(now())
        assert now() == seen[-1]
    assert len(set(seen)) == len(seen)
    (folder / "README").write_text("Spack does not read it")
    (folder / "deeper.yaml").mkdir()
    assert now() == seen[-1]
    for include in (None, [], "no list"):
        assert digest(tmp_path, document(**{key: include}))
    with pytest.raises(ConfigError, match=rf"spack.yaml:10: spack\.{key}\[0\]: `site.yaml` is relative, and Spack"):
        digest(tmp_path, document(**{key: ["site.yaml"]}))


def test_environment_without_other_configuration(tmp_path: Path) -> None:
    assert read(written(tmp_path, document(**{"include:": []}))).alone
    assert not read(written(tmp_path, document(include=[]))).alone
    assert not read(written(tmp_path, document())).alone


@pytest.mark.parametrize(
    ("packages", "lacking"),
    [
        ({"mpich": {"externals": [{"spec": "mpich@5", "prefix": "/usr"}]}}, []),
        (
            {"mpich": {"externals": [{"spec": "mpich@5", "prefix": "/usr"}, {"prefix": "/nosuch"}]}},
            ["mpich.externals[1]"],
        ),
        ({"a": {"externals": [{"prefix": "/dev/null"}]}}, ["a.externals[0]"]),
        ({"a": {"externals": [{"prefix": "$HOME"}, {"prefix": 3}, {}, None]}}, []),  # Spack knows better, or says it
        ({"a": {"externals": {}}, "b": None, "c": []}, []),
        ([], []),
        (None, []),
    ],
)
def test_missing_externals(tmp_path: Path, packages: Any, lacking: list[str]) -> None:
    """It can be read nevertheless: on a node that sees other directories."""
    found = read(written(tmp_path, document(packages=packages))).lacking
    assert [problem.where for problem in found] == [f"spack.packages.{each}.prefix" for each in lacking]
    for problem in found:
        assert "is not a directory; write where" in problem.message
        assert "prefix" in (tmp_path / "spack.yaml").read_text().splitlines()[problem.line - 1]


# --- where it is built ------------------------------------------------------------------------------------------------


def test_places() -> None:
    place = Place(Path("tools"), "0123456789ab")
    below = {place.file, place.script, place.environment}
    assert {path.parent for path in below} == {place.build} == {Path("tools/0123456789ab")}
    assert place.log == Path("tools/logs/0123456789ab.log")


@pytest.mark.parametrize(
    ("path", "wrong"),
    [
        ("/opt/tools", None),
        ("/opt/tools-2.0_x86+a@b", None),
        ("/opt/my tools", "/opt/my tools has a space, with which nothing can be built; name another directory"),
        ("/opt/my\ttools", "/opt/my\ttools has a space, with which nothing can be built; name another directory"),
        ("/opt/$USER", "/opt/$USER has the character $, with which nothing can be built; name another directory"),
        ("/opt/a:b", "/opt/a:b has the character :, with which nothing can be built; name another directory"),
        ("/" + "a" * 149, None),
        (
            "/" + "a" * 150,
            f"/{'a' * 150} is longer than 150 characters, with which Spack's own paths get too long; name another",
        ),
        *((f"/opt/{c}", f"/opt/{c} has the character {c}, with which") for c in "~\"'`\\;&|<>(){}*?!#%=,"),
    ],
)
def test_paths_that_cannot_be_built_in(path: str, wrong: str | None) -> None:
    found = unfit(Path(path))
    assert (found is None) == (wrong is None)
    assert (found or "").startswith(wrong or "")


def test_relative_directory_is_below_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my place").mkdir()
    monkeypatch.chdir(tmp_path / "my place")
    assert f"{tmp_path}/my place/tools has a space" in str(unfit(Path("tools")))
    monkeypatch.chdir("/")
    assert unfit(Path("tools")) is None


def test_the_scope() -> None:
    found = scope(Path("/w/tools"), Path("/w/tools/packages/v1/repos/builtin"), None, 4)
    assert found["repos.yaml"] == {"repos": {"builtin": "/w/tools/packages/v1/repos/builtin"}}
    assert set(found) == {"config.yaml", "repos.yaml"}
    config = found["config.yaml"]["config"]
    assert config["install_tree"] == {"root": "/w/tools/store"}
    assert config["build_stage:"] == ["/w/tools/stage"]
    assert (config["source_cache"], config["misc_cache"]) == ("/w/tools/sources", "/w/tools/cache")
    assert config["build_jobs"] == 4
    assert 0 < config["connect_timeout"] <= 10


def test_mirror_is_the_only_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for mirror in (tmp_path / "mirror", Path("mirror")):
        found = scope(Path("/w"), Path("/p"), mirror, 1)["mirrors.yaml"]
        assert found == {"mirrors:": {"iosweep": f"file://{tmp_path}/mirror"}}


# --- locks ------------------------------------------------------------------------------------------------------------


def lock(name: str) -> Lock:
    return msgspec.json.decode((RECORDED / f"{name}.spack.lock").read_bytes(), type=Lock)


@pytest.mark.parametrize(
    ("specs", "wrong"),
    [
        (SPECS, None),
        (tuple(reversed(SPECS)), None),
        (("ior@4.0.0 ~hdf5", " fio@3.37+libaio", "mpich device=ch4"), None),  # Spack sees to variants
        (("ior@=4.0.0", "fio@3.37", "mpich"), None),
        (("$tools",), None),  # a list of the site's own
        ((), None),
        (("ior@4.0.0", "fio@3.37"), "it has fio@3.37, ior@4.0.0, mpich, but spack.yaml asks for fio@3.37, ior@4.0.0"),
        (
            ("ior@4.0.1", "fio@3.37", "mpich"),
            "it has fio@3.37, ior@4.0.0, mpich, but spack.yaml asks for fio@3.37, ior@4.0.1, mpich",
        ),
        (
            ("ior", "fio@3.37", "mpich"),
            "it has fio@3.37, ior@4.0.0, mpich, but spack.yaml asks for fio@3.37, ior, mpich",
        ),
        (
            (*SPECS, "mpich"),
            "it has fio@3.37, ior@4.0.0, mpich, but spack.yaml asks for fio@3.37, ior@4.0.0, mpich, mpich",
        ),
    ],
)
def test_a_lock_of_other_specs(specs: tuple[str, ...], wrong: str | None) -> None:
    assert stale(specs, lock("ok")) == wrong


def test_the_lock_of_our_own_spack_yaml(root: Path) -> None:
    assert stale(read(RECORDED / "own.spack.yaml").specs, lock("own")) is None
    assert stale(read(root / "spack.yaml").specs, lock("own")) is None


def test_a_lock_without_roots() -> None:
    for empty in ({}, {"roots": []}):
        assert stale(["fio"], msgspec.convert(empty, Lock)) == "it has nothing, but spack.yaml asks for fio"
    assert stale(["fio"], msgspec.convert({"roots": [{}]}, Lock)) is not None
