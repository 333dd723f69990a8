"""Results of others that do not tell every parameter, as IO500's stats and deletes do not tell the size of files."""

from msgspec import structs

from iosweep.analysis import slices
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.data import Campaign
from iosweep.report import benchmark_tables, figures
from results_factory import loaded, row, sweep_facts

_AXES = {"file_size": (0, 3901), "unique_directory": (False, True)}


def metadata(point: str, phase: str, size: int | None, own: bool) -> Result:
    made = row(
        point=point,
        phase=phase,
        kind="metadata",
        tool="mdtest",
        nodes=10,
        threads_per_node=192,
        file_size_bytes=size,
        unique_directory=own,
        ops_per_s=1000.0 + len(phase),
    )
    return summarize([made])[0]


def submission() -> tuple[Campaign, list[Result]]:
    """The easy creates are of empty files; which size was stat is not in the output."""
    results = [
        metadata("easy", "create", 0, True),
        metadata("easy-rest", "stat", None, True),
        metadata("easy-rest", "delete", None, True),
        metadata("hard", "create", 3901, False),
        metadata("hard", "stat", 3901, False),
    ]
    facts = structs.replace(sweep_facts(1, "easy", "easy-rest", "hard"), axes=_AXES, tool="mdtest")
    return loaded([r for one in results for r in one.rows], sweeps=[structs.asdict(facts)]), results


def test_a_table_has_a_column_for_what_is_not_known() -> None:
    own = {table.title: table for table in benchmark_tables.metadata(*submission())}["own directories"]
    assert own.columns == ("empty files", "file size not known")
    assert {one.title: [cell.value for cell in one.cells] for one in own.rows} == {
        "File creation": ["1,006", ""],
        "File stat": ["", "1,004"],
        "File removal": ["", "1,006"],
    }
    assert "not known" not in own.about


def test_a_figure_counts_what_has_no_place_on_its_axis() -> None:
    (figure,) = figures.figures(*submission())
    assert figure.x_column == "file_size_bytes"
    assert figure.notes[-1] == "Not drawn: 2 results of unknown file size."


def test_an_axis_that_tells_slices_apart_has_one_for_what_is_not_known() -> None:
    _, results = submission()
    found = {fixed["file_size_bytes"]: len(own) for fixed, own in slices.split(results, ["file_size_bytes"])}
    assert found == {0: 1, 3901: 2, None: 2}


def test_a_panel_axis_has_a_panel_for_what_is_not_known() -> None:
    results = [
        summarize([row(point=f"{n}-{size}-{depth}", nodes=n, threads_per_node=size, queue_depth=depth)])[0]
        for n in (1, 2)
        for size in (1, 2, None)
        for depth in (1, 2)
    ]
    axes = {"nodes": (1, 2), "threads_per_node": (1, 2), "queue_depth": (1, 2)}
    facts = structs.replace(sweep_facts(1, *(one.point for one in results)), axes=axes)
    campaign = loaded([r for one in results for r in one.rows], sweeps=[structs.asdict(facts)])
    figure = next(one for one in figures.figures(campaign, results) if one.x_column == "nodes")
    assert len(figure.marks) == len(results)
    assert [panel.title for panel in figure.panels][-1] == "threads per node not known"


def test_what_is_in_no_figure_is_counted() -> None:
    """One transfer size with O_DIRECT beside several without: nothing varies among its results."""
    own = [(4096, False), (65536, False), (1 << 20, True)]
    results = [
        summarize([row(point=f"p{size}", tool="ior", nodes=1, transfer_size_bytes=size, o_direct=direct)])[0]
        for size, direct in own
    ]
    facts = structs.replace(
        sweep_facts(1, *(one.point for one in results)),
        axes={"transfer_size": (4096, 65536, 1 << 20), "o_direct": (False, True)},
        tool="ior",
    )
    campaign = loaded([r for one in results for r in one.rows], sweeps=[structs.asdict(facts)])
    assert slices.undrawn(campaign, results) == {"s": ["1 of IOR, O_DIRECT"]}
