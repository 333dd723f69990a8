"""What a file holds: documents of fio in a file of wekatester's, whose clients are added up with their histograms."""

import json
from pathlib import Path

import pytest

from iosweep.ingest import contents
from iosweep.ingest.detect import NotOurs
from iosweep.results.ingested import IO500
from iosweep.tools.fio.latency import merged_percentiles

FIO = Path(__file__).parents[1] / "samples" / "fio"


def read(data: bytes) -> contents.Contents:
    kinds = contents.kinds(data)
    assert isinstance(kinds, tuple)
    return contents.read("x", data, kinds)


def client_run() -> dict[str, object]:
    """A run of two clients with histograms (fio's JSON of `--client`)."""
    text = (FIO / "c1_client2.out").read_text()
    document: dict[str, object] = json.loads(text[text.index("{") :])
    return document


@pytest.mark.parametrize(
    "wrap",
    [
        lambda runs: {"011-bandwidthR.job": runs[0], "031-iopsR.job": runs[1]},
        lambda runs: list(runs),
        lambda runs: {"results": {"fio": list(runs)}},
    ],
    ids=["by job", "list", "deeper"],
)
def test_all_runs_of_a_result_file_are_read(wrap: object) -> None:
    runs = [client_run(), client_run()]
    assert callable(wrap)
    (reading,) = read(json.dumps(wrap(runs)).encode()).readings
    assert len(reading.rows) == 4
    assert [one.parts for one in reading.sums] == [(0, 1), (2, 3)]


def test_clients_are_added_up() -> None:
    (reading,) = read(json.dumps({"a": client_run()}).encode()).readings
    (one,) = reading.sums
    assert one.row["ops_per_s"] == pytest.approx(sum(float(str(row["ops_per_s"])) for row in reading.rows))
    assert one.row["tasks"] == 4


def test_jobs_with_the_same_options_are_added_up_with_their_histograms() -> None:
    text = (FIO / "own_rand_read.out").read_text()
    document = json.loads(text)
    first = document["jobs"][0]
    second = json.loads(json.dumps(first))
    second["jobname"] = second["job options"]["name"] = "other"
    document["jobs"] = [first, second]
    (reading,) = read(json.dumps(document, indent=1).encode()).readings
    (one,) = reading.sums
    bins = first["read"]["clat_ns"]["bins"]
    expected = merged_percentiles([bins, bins])["p99"] / 1e9
    assert one.row["completion_latency_p99_s"] == pytest.approx(expected)
    assert "latency_p99_s" not in one.row  # fio prints no bins of lat
    assert (one.row["label"], one.row["tasks"]) == ("2 jobs", 4)
    assert one.row["ops"] == 2 * first["read"]["total_ios"]


def test_a_failed_worker_is_missed_in_the_sum() -> None:
    text = (FIO / "s2_nj4_nogr.out").read_text()
    document = json.loads(text[text.index("{") :])
    document["jobs"][2]["error"] = 5
    (reading,) = read(json.dumps(document, indent=1).encode()).readings
    (one,) = reading.sums
    assert len(one.parts) == 4
    assert "ops_per_s" not in one.row


def test_jobs_one_after_the_other_are_not_added_up() -> None:
    assert read((FIO / "g2_newgroup.out").read_bytes()).readings[0].sums == []


def test_other_json_is_left_alone() -> None:
    assert isinstance(contents.kinds(b'{"a": 1}'), NotOurs)
    (reading,) = contents.read("x", b'{"a": {"fio version": 3}}', ("fio",)).readings
    assert not reading.rows
    deep = b'{"a":' * 500 + b'"fio version"' + b"}" * 500
    assert not contents.read("x", deep, ("fio",)).rows


def test_a_summary_of_io500_is_one() -> None:
    data = b"[RESULT]       ior-easy-write        1.500000 GiB/s : time 300.0 seconds\n"
    assert contents.kinds(data) == (IO500,)
    assert read(data).summary is not None


def test_a_result_file_that_was_appended_to_is_read_whole() -> None:
    twice = "".join(json.dumps({"011-bandwidthR.job": client_run()}, indent=2) for _ in range(2))
    (reading,) = read(twice.encode()).readings
    assert len(reading.rows) == 4 and len(reading.sums) == 2
    (cut,) = read(twice[:-5].encode()).readings
    assert not cut.rows
    assert [problem.severity for problem in cut.problems] == ["invalid"]
