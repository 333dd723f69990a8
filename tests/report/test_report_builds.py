"""The report says which build of a tool made each figure."""

import copy
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from msgspec import structs

import results_factory as factory
from iosweep.analysis import caveats
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import Campaign, load
from iosweep.programs import builds as documents
from iosweep.report import benchmark_tables, headline, page, provenance
from iosweep.report.figures import figures
from iosweep.report.results_table import payload

Document = dict[str, Any]
FIO = factory.sweep("depth", ["rand_read"], {"queue_depth": [1, 2, 4]})
IOR = factory.ior("ior", axes={"threads_per_node": [1, 8], "transfer_size": [2**20]})
MDTEST = factory.mdtest("files", axes={"nodes": [1, 2]})
PATH, SPACK = documents.key(factory.PATH), documents.key(factory.SPACK)


def changed(document: Mapping[str, Any], **parts: Mapping[str, Any]) -> Document:
    """The document with parts of its parts changed."""
    made = copy.deepcopy(dict(document))
    for name, part in parts.items():
        made[name] |= part
    return made


def campaign(directory: Path, *sweeps: factory.Sweep, **options: Any) -> tuple[Campaign, list[Result]]:
    found = load(factory.make(directory, sweeps=sweeps, **options))
    return found, summarize(found.rows)


def by_depth(shallow: Mapping[str, Any], deep: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
    """Queue depth 4 was measured with another build."""
    return lambda row: deep if row["queue_depth"] == 4 else shallow


def test_what_path_has(tmp_path: Path) -> None:
    found = provenance.builds(*campaign(tmp_path, FIO, IOR))
    assert found and found.spack == () and found.with_mpi
    assert found.sentence == "All figures of fio and IOR come from one build each."
    sha256 = factory.PATH["tools"]["fio"]["sha256"]
    origin = ("/usr/bin/fio", "package fio 3.33-3 (dpkg)")
    assert found.rows[0] == provenance.Build(PATH, "fio", "3.33", origin, (), sha256, 3, (PATH,))
    assert found.rows[1].origin == ("/usr/bin/ior", "of no package")
    assert found.rows[1].mpi == ("/usr/bin/mpiexec, 4.0.2", "package mpich 4.0.2-3 (dpkg)")
    assert (found.rows[1].results, found.rows[1].version) == (8, "4.0.0")


def test_what_spack_built(tmp_path: Path) -> None:
    found = provenance.builds(*campaign(tmp_path, IOR, MDTEST, build=lambda _: factory.SPACK))
    assert found
    mpich = "mpich@5.0.1 device=ch4 netmod=ofi pmi=pmi2/pq4zhix"
    for row in found.rows:
        assert row.origin == ("Spack: ior@4.0.0~hdf5~lustre~ncmpi/ngnuwql",)
        assert row.mpi == ("/sw/tools/store/mpich/bin/mpiexec, 5.0.1", f"package {mpich}")
    (made,) = found.spack
    assert made.about == f"Spack 1.1.0 (commit {'2e90' * 10}) with packages v2026.06.0 (commit {'c0de' * 10})"
    assert made.changed == ()
    assert made.packages[1] == "gcc@12.2.0 (the site's, in /usr)"
    assert made.packages[2].startswith("ior@4.0.0/")


def test_checkouts_that_were_changed(tmp_path: Path) -> None:
    spack = {"changed": True, "commit": None}
    document = changed(factory.SPACK, spack=spack, repository={"changed": True})
    found = provenance.builds(*campaign(tmp_path, IOR, build=lambda _: document))
    assert found and found.spack[0].about.startswith("Spack 1.1.0 with packages v2026.06.0 (commit ")
    assert found.spack[0].changed == (
        "The checkout of Spack 1.1.0 in /sw/tools/spack",
        "The checkout of packages v2026.06.0 in /sw/tools/packages/v2026.06.0",
    )
    text = page.render(tmp_path)
    assert "The checkout of Spack 1.1.0 in /sw/tools/spack has changes that are in no commit" in text


def test_the_page_links_to_what_was_built(tmp_path: Path) -> None:
    factory.make(tmp_path, sweeps=[FIO, IOR], build=lambda _: factory.SPACK)
    text = page.render(tmp_path)
    assert "<span>fio 3.37 (Spack), IOR 4.0.0 (Spack)</span>" in text
    for name in (f"{SPACK}.json", f"{SPACK}.spack.yaml", f"{SPACK}.spack.lock"):
        assert f'href="builds/{name}"' in text
    sha256 = factory.SPACK["tools"]["ior"]["sha256"]
    assert f'<code title="{sha256}">{sha256[:12]}</code>' in text
    assert "Unlike builds" not in text


def test_two_builds_of_a_tool(tmp_path: Path) -> None:
    """Said on the first screen, in the terminal, at the figures and their marks, and in the table of results."""
    found, results = campaign(tmp_path, FIO, MDTEST, build=by_depth(factory.SPACK, factory.PATH))
    told = (
        f"results of 2 builds of fio, which may differ: 3.37 of build {SPACK} (2 results) and 3.33 of build {PATH}"
        " (1 result)."
    )
    assert list(caveats.unlike_builds(results)) == [told]
    assert provenance.programs(found) == ["fio 3.37 (Spack)", "fio 3.33", "mdtest 4.0.0 (Spack)"]
    section = provenance.builds(found, results)
    assert section and section.sentence == (
        "Figures of fio come from several builds, which may differ; the table of results says which is of which."
        " All figures of mdtest come from one build."
    )
    assert {(row.tool, row.name): row.results for row in section.rows} == {
        ("fio", SPACK): 2, ("fio", PATH): 1, ("mdtest", SPACK): 16
    }  # fmt: skip

    text = page.render(tmp_path)
    assert f'href="#builds"><b>Unlike builds</b></a>: {told}' in text
    drawn = [figure for figure in figures(found, results) if figure.sweep == "depth"]
    assert drawn and all(told[1:] in note for figure in drawn for note in figure.notes if "builds" in note)
    assert all(any("builds" in note for note in figure.notes) for figure in drawn)
    marks = {mark.x: mark.what for mark in drawn[0].marks}
    assert marks == {1: f"queue depth 1, build {SPACK}", 2: f"queue depth 2, build {SPACK}",
                     4: f"queue depth 4, build {PATH}"}  # fmt: skip
    shown = payload(results, ())
    (place,) = (i for i, column in enumerate(shown.columns) if column.key == "build")
    assert [row[place] for row in shown.rows[:3]] == [SPACK, SPACK, PATH]

    best = [entry for group in headline.groups(results) for entry in group.entries]
    assert best[0].place.endswith(f"build {PATH}")
    assert "build" not in best[-1].place  # of mdtest there is one
    assert not any("builds" in note for table in benchmark_tables.metadata(found, results) for note in table.notes)


def test_one_build_is_told_nowhere_but_in_its_section(tmp_path: Path) -> None:
    found, results = campaign(tmp_path, FIO)
    assert list(caveats.unlike_builds(results)) == []
    assert not any("build" in note for figure in figures(found, results) for note in figure.notes)
    assert "build" not in str([mark.what for mark in figures(found, results)[0].marks])
    assert "build" not in [column.key for column in payload(results, ()).columns]


def test_a_tool_more_does_not_make_it_another_build(tmp_path: Path) -> None:
    """Its binary does, whatever else was built with it: another fio in spack.yaml leaves IOR as it was."""
    other = changed(factory.SPACK, environment={"digest": "another"})
    found, results = campaign(tmp_path, IOR, build=lambda row: other if row["threads_per_node"] == 8 else factory.SPACK)
    assert list(caveats.unlike_builds(results)) == []
    section = provenance.builds(found, results)
    assert section and [set(row.documents) for row in section.rows] == [{SPACK, documents.key(other)}]
    assert {made.key for made in section.spack} == {SPACK, documents.key(other)}


def test_another_mpi_makes_another_build(tmp_path: Path) -> None:
    """The binary is the same where the system's MPI was updated below it; fio has none."""
    other = changed(factory.PATH, mpi={"version": "4.1.0"})

    def build(row: Mapping[str, Any]) -> Mapping[str, Any]:
        return other if row["repetition"] == 2 else factory.PATH

    _, results = campaign(tmp_path, IOR, FIO, build=build)
    (told,) = caveats.unlike_builds(results)
    assert told.startswith("results of 2 builds of IOR, which may differ: 4.0.0 of build ")
    assert told.endswith(" (8 results). 8 results are means over several of them.")
    details = payload(results, ())
    (first, *_) = (d for d, result in zip(details.details, results, strict=True) if result.tool == "ior")
    where = [details.texts[text] for texts in first.where.values() for text in texts]
    keys = [PATH, documents.key(other), PATH]
    assert [text.rpartition(", ")[2] for text in where] == [f"build {key}" for key in keys]


def test_results_without_a_document(tmp_path: Path) -> None:
    """It was removed, or changed: hash and version of the binary are in the results all the same."""
    found, results = campaign(tmp_path, FIO, IOR)
    section = provenance.builds(replace(found, about=structs.replace(found.about, builds={})), results)
    assert section and section.spack == ()
    assert [(row.origin, row.documents, row.version) for row in section.rows] == [
        (("not recorded",), (), "3.33"), (("not recorded",), (), "4.0.0")
    ]  # fmt: skip
    assert section.rows[1].mpi == ("not known",)


def test_nothing_measured(tmp_path: Path) -> None:
    found, results = campaign(tmp_path, FIO, spoil=lambda _: ("missing", "fio is not on PATH"))
    assert provenance.builds(found, results) is None
    assert found.about.builds == {}
    assert 'id="builds"' not in page.render(tmp_path)


def test_paths_stay_text(tmp_path: Path) -> None:
    evil = '/opt/"><script>alert(1)</script>'
    fio = factory.PATH["tools"]["fio"] | {"path": evil, "package": evil, "version": evil, "sha256": '"><script>'}
    own = changed(factory.PATH, tools={"fio": fio})
    spack = {"version": evil, "path": evil, "changed": True}
    made = changed(factory.SPACK, spack=spack, mpi={"package": evil})
    made["packages"] = [{"name": evil, "version": evil, "hash": "0", "external": evil}]
    factory.make(tmp_path, sweeps=[FIO, IOR], build=lambda row: own if row["tool"] == "fio" else made)
    assert "<script>alert" not in page.render(tmp_path)
