"""Files of published figures: what is accepted, and what an error says."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from campaign import document, problems, read
from iosweep.config import published, references, selectors
from iosweep.config.published import FIGURES, UNITS
from iosweep.errors import ConfigError
from iosweep.plan.expand import make_plan
from iosweep.results.columns import result_columns

pytestmark = pytest.mark.unit

OLD = """\
title: Acceptance of the old system
publisher: Our site
url: https://example.org/old
tool: fio
where: {nodes: 1, o_direct: true}
setup: {ioengine: libaio}
entries:
  - phase: seq_read
    where: {transfer_size: 1m}
    figures: {bandwidth: 12.5 GB/s, latency: 300 us}
  - phase: rand_read
    where: {queue_depth: 32}
    relative_to: {queue_depth: 1}
    figures: {latency: +63 %}
"""


def site(place: Path, text: str = OLD) -> Path:
    file = place / "old-system.yaml"
    file.write_text(text)
    return file


def test_a_file_of_a_site(tmp_path: Path) -> None:
    found = references.read(site(tmp_path))
    assert (found.name, found.source) == ("old-system", 'Our site, "Acceptance of the old system"')
    bandwidth, latency, ratio = found.figures
    assert (bandwidth.value, bandwidth.printed, bandwidth.unit) == (12.5e9, "12.5 GB/s", "GB/s")
    assert bandwidth.where == {"nodes": 1, "o_direct": True, "transfer_size": 1 << 20}
    assert bandwidth.setup == {"ioengine": "libaio"}
    assert latency.value == pytest.approx(300e-6)
    assert (ratio.value, ratio.quantity, ratio.relative_to) == (pytest.approx(1.63), "ratio", {"queue_depth": 1})


@pytest.mark.parametrize(
    ("quantity", "text", "value"),
    [
        ("bandwidth", "8.9 GiB/s", 8.9 * 2**30),
        ("bandwidth", "100 Gbit/s", 12.5e9),
        ("iops", "393,333 ops/s", 393_333),
        ("iops", "4.6 M IOPS", 4.6e6),
        ("rate", "79.6 k ops/s", 79_600),
        ("latency", "144.76 µs", 144.76e-6),
        ("latency", "1.6 ms", 1.6e-3),
        ("ratio", "163 %", 1.63),
        ("ratio", "-14 %", 0.86),
    ],
)
def test_units_are_made_equal(quantity: Any, text: str, value: float) -> None:
    assert references.parse_value(text, quantity) == pytest.approx(value)


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("12.5 GB/s", "12 gallons", '10: entries[0].figures.bandwidth: "12 gallons" is not a number with its unit;'),
        ("12.5 GB/s", "12.5", "10: entries[0].figures.bandwidth: 12.5 is not a number with its unit;"),
        ("12.5 GB/s", "0 GB/s", '10: entries[0].figures.bandwidth: "0 GB/s" is not above zero'),
        ("bandwidth:", "bandwith:", "10: entries[0].figures.bandwith: unknown figure `bandwith`; did you mean"),
        ("bandwidth:", "rate:", "10: entries[0].figures.rate: is not a figure of seq_read; it has bandwidth or iops"),
        ("phase: seq_read", "phase: seqread", "8: entries[0].phase: unknown phase `seqread`; did you mean `seq_read`?"),
        ("transfer_size: 1m", "transfer_size: big", '9: entries[0].where.transfer_size: "big" is not a size;'),
        ("transfer_size: 1m", "transfersize: 1m", "9: entries[0].where.transfersize: unknown key `transfersize`;"),
        ("tool: fio", "tool: fo", "4: tool: unknown tool `fo`"),
        ("tool: fio", "tool: [fio]", "4: tool: unknown tool `['fio']`"),
        ("12.5 GB/s", '"12,5 GB/s"', "is not a number with its unit (the decimal mark is a point; a comma sets three"),
        ("tool: fio\n", "", "7: entries[0]: `tool` is missing, here and at the top of the file"),
        ("publisher: Our site\n", "", "1: `publisher` is missing"),
        ("https://example.org/old", '"javascript:alert(1)"', '3: url: "javascript:alert(1)" is not an address;'),
        ("relative_to: {queue_depth: 1}", "relative_to: {queue_depth: 32}", "13: entries[1].relative_to: is what"),
        ("12.5 GB/s", "{aws: 12.5 GB/s}", "10: entries[0].figures.bandwidth.aws: unknown system `aws`; the file has"),
        ("title: Acc", "systems: {a: A}\ntitle: Acc", "11: entries[0].figures.bandwidth: is of none of the file's 1"),
        ("  - phase: rand_read\n    where: {queue_depth: 32}\n    relative_to: {queue_depth: 1}\n    figures: {latency",
         "  - phase: seq_read\n    where: {transfer_size: 1m}\n    figures: {latency: 1 ms}\n  - phase: seq_read\n"
         "    figures: {p99", "has seq_read latency twice for the same `where`"),
    ],
)  # fmt: skip
def test_what_is_wrong(tmp_path: Path, old: str, new: str, wrong: str) -> None:
    assert old in OLD
    file = site(tmp_path, OLD.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        references.read(file)
    assert wrong in str(caught.value)
    assert str(caught.value).startswith(str(file))


class TestConfiguration:
    def test_those_of_the_suites_by_default(self, tmp_path: Path) -> None:
        config = read(tmp_path, document() | {"sweeps": [{"suite": "weka"}, {"suite": "mdtest"}]})
        names = ["weka.single_client", "weka.cluster", "lustre.mdtest"]
        assert [one.name for one in config.references] == names
        assert [one.name for one in make_plan(config).references] == names  # so that the report has them

    def test_names_and_files(self, tmp_path: Path) -> None:
        config = read(tmp_path, document() | {"references": ["weka.cluster", str(site(tmp_path))]})
        assert [one.name for one in config.references] == ["weka.cluster", "old-system"]
        config = read(tmp_path, {**document(), "sweeps": [{"suite": "weka"}], "references": []})
        assert config.references == ()

    def test_a_plan_without_any_is_as_before(self, tmp_path: Path) -> None:
        assert b'"references"' not in make_plan(read(tmp_path, document())).content()

    @pytest.mark.parametrize(
        ("listed", "wrong"),
        [
            ("weka.clusters", "references[0]: unknown reference `weka.clusters`; did you mean `weka.cluster`?"),
            ("/nowhere/x.yaml", 'references[0]: "/nowhere/x.yaml" cannot be read: No such file or directory'),
            ("/tmp/", 'references[0]: "/tmp/" cannot be read: it is not a file'),
        ],
    )
    def test_what_is_not_there(self, tmp_path: Path, listed: str, wrong: str) -> None:
        [found] = problems(tmp_path, document() | {"references": [listed]})
        assert wrong in found

    def test_an_error_in_a_file_names_that_file(self, tmp_path: Path) -> None:
        file = site(tmp_path, OLD.replace("12.5 GB/s", "much"))
        with pytest.raises(ConfigError) as caught:
            read(tmp_path, document() | {"references": [str(file)]})
        assert f"{file}:10: entries[0].figures.bandwidth" in str(caught.value)

    def test_a_name_stands_for_one_source(self, tmp_path: Path) -> None:
        file = site(tmp_path).rename(tmp_path / "weka.cluster.yaml")
        [found] = problems(tmp_path, document() | {"references": [str(file)]})
        assert "`weka.cluster` is the name of one that comes with iosweep" in found

    @pytest.mark.parametrize(
        ("of", "wrong"),
        [
            ("weka.singel_client", "accept.rand_read iops: unknown reference `weka.singel_client`; did you mean"),
            ("lustre.mdtest", "accept.rand_read iops: `lustre.mdtest` has no read_iops (it has dir_create rate, "),
        ],
    )
    def test_criteria_name_what_is_known(self, tmp_path: Path, of: str, wrong: str) -> None:
        [found] = problems(tmp_path, document() | {"accept": {"rand_read iops": f">= 90 % of {of}"}})
        assert wrong in found

    def test_a_reference_of_a_criterion_is_kept(self, tmp_path: Path) -> None:
        accept = {"rand_read iops": ">= 90 % of weka.single_client.aws"}
        assert [one.name for one in read(tmp_path, document() | {"accept": accept}).references] == [
            "weka.single_client"
        ]


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("where", {"transfer_size": "big"}), ("where", {"o_direct": 1}), ("setup", {"phase_time": True}),
        ("where", {"nodes": -1}), ("relative_to", {"colour": 1}), ("figure", "speed"), ("printed", "8 apples"),
        ("value", 0.0), ("phase", "sleep"), ("tool", "dd"), ("system", "a b"),
    ],
)  # fmt: skip
def test_a_stored_figure_that_no_file_makes_is_refused(part: str, value: object) -> None:
    """What a report reads is checked, too: it would draw half a page else."""
    whole = msgspec.to_builtins(references.shipped("weka.cluster").figures[0])
    assert msgspec.convert(whole, published.PublishedFigure)
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(whole | {part: value}, published.PublishedFigure)


def test_an_address_that_is_none_is_refused() -> None:
    whole = msgspec.to_builtins(references.shipped("weka.cluster"))
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(whole | {"url": "javascript:alert(1)"}, published.Reference)


def test_figures_are_columns() -> None:
    columns = {column.name for column in result_columns()}
    assert {figure.column for figure in FIGURES.values()} <= columns


def test_figures_are_called_as_in_criteria() -> None:
    for name, figure in selectors.FIGURES.items():
        assert (FIGURES[name].column, FIGURES[name].quantity) == (figure.column, figure.quantity)


@pytest.mark.parametrize("name", references.known())
def test_every_shipped_value_is_what_it_says(name: str) -> None:
    for figure in references.shipped(name).figures:
        assert figure.unit in UNITS[figure.quantity]
        assert figure.value == pytest.approx(references.parse_value(figure.printed, figure.quantity))
    assert published.find(name, [references.shipped(name)]) == (references.shipped(name), None)
