"""What every test may use, and what happens to tests that cannot run on this machine.

A skip is loud: the reasons stand together at the end of the run. With `--require=all` a skip is a failure,
with `--require=fio,chromium` only one whose reason starts with such a name and a colon, as those of the
fixtures here do.
"""

import gc
import os
import shutil
import signal
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

import slurm as clusters
import standins

# Shared machines are slow at times, and a deadline per example would then fail a test that is right.
settings.register_profile("iosweep", deadline=None)
settings.register_profile("soak", deadline=None, max_examples=2000)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("iosweep")
    group.addoption("--require", default="", metavar="all|NAME,...", help="skips that count as failures")
    group.addoption("--soak", action="store_true", help="long counts, and the tests marked soak")


def pytest_configure(config: pytest.Config) -> None:
    # A job in the background of a script ignores Ctrl-C, and so would everything that the tests start and interrupt.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    settings.load_profile("soak" if config.getoption("soak") else "iosweep")
    if config.getoption("require"):
        # A module that is refused its skip must not keep all the others from running.
        config.option.continue_on_collection_errors = True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # Deselected and not skipped: they are left out on purpose, so --require has nothing to say about them.
    if not config.getoption("soak"):
        left_out = [item for item in items if item.get_closest_marker("soak")]
        items[:] = [item for item in items if not item.get_closest_marker("soak")]
        config.hook.pytest_deselected(items=left_out)


def pytest_collection_finish(session: pytest.Session) -> None:
    # What was collected stays to the end: no full collection of garbage need look at it.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips of tests: from a mark, from a fixture, from the test itself."""
    report = yield
    refuse_skip(item.config, report)
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skips of whole modules."""
    report = yield
    refuse_skip(collector.config, report)
    return report


def refuse_skip(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    if not report.skipped or hasattr(report, "wasxfail"):  # an expected failure is reported as skipped, too
        return
    required = config.getoption("require").split(",")
    reason = skip_reason(report)
    if "all" in required or reason.partition(":")[0] in required:
        report.outcome = "failed"
        report.longrepr = f"required here, but skipped: {reason}"


def skip_reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(map(skip_reason, terminalreporter.stats.get("skipped", [])))
    if reasons:
        terminalreporter.section("NOT TESTED HERE", yellow=True, bold=True)
        for reason, count in sorted(reasons.items()):
            terminalreporter.write_line(f"{count} skipped: {reason}", yellow=True)


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture
def no_gc() -> Iterator[None]:
    """For tests that compare times: a full collection looks at what thousands of tests have left, too."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def soak(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("soak"))


@pytest.fixture(scope="session")
def rounds(soak: bool) -> Callable[[int, int], int]:
    """How often to repeat something random: `rounds(20, 200)` is 20, and 200 under --soak."""
    return lambda usual, long: long if soak else usual


@pytest.fixture(scope="session")
def fio() -> Path:
    return program("fio", package="fio")


@pytest.fixture(scope="session")
def chromium() -> Path:
    return program("chromium", package="chromium")


@pytest.fixture(scope="session")
def mpi_tools(stand_ins: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PATH with `ior` and `mdtest`: stand-ins, or the real ones if IOSWEEP_REAL_MPI_TOOLS=1 says so."""
    if os.environ.get("IOSWEEP_REAL_MPI_TOOLS") != "1":
        return stand_ins
    found = {tool: shutil.which(tool) for tool in standins.TOOLS}
    if None in found.values():
        pytest.fail("IOSWEEP_REAL_MPI_TOOLS=1 asks for the real ior and mdtest, and they are not both on PATH")
    directory = tmp_path_factory.mktemp("mpi-tools")
    for tool, path in found.items():
        (directory / tool).symlink_to(str(path))
    return directory


@pytest.fixture(scope="session")
def stand_ins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory for PATH with stand-ins for `ior` and `mdtest` (standins/README.md)."""
    if reason := standins.missing():
        pytest.skip(reason)
    return standins.build(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="session")
def slurm_session() -> Iterator[clusters.Cluster]:
    """A Slurm cluster without accounting, for fixtures that outlive a test. They clean up after themselves."""
    if reason := clusters.missing():
        pytest.skip(reason)
    with clusters.Cluster().up() as cluster:
        yield cluster


@pytest.fixture
def slurm(slurm_session: clusters.Cluster) -> Iterator[clusters.Cluster]:
    """The same cluster for one test: idle and with all nodes when it starts. A job that is left fails the test."""
    yield slurm_session
    tidy(slurm_session)


@pytest.fixture(scope="module")
def slurm_accounting() -> Iterator[clusters.Cluster]:
    """A Slurm cluster of its own with slurmdbd. Root may submit in the accounts `root` and `bench`."""
    if reason := clusters.missing(accounting=True):
        pytest.skip(reason)
    with clusters.Cluster().up(accounting=True) as cluster:
        yield cluster


def tidy(cluster: clusters.Cluster) -> None:
    """Everything as it was, for whoever comes next; and then a complaint about jobs that were left."""
    for node in cluster.killed:
        cluster.start_node(node)
    left = [job for job in cluster.squeue() if job.state != "COMPLETING"]
    cluster.cancel()
    cluster.idle()
    assert not left, f"left in the queue (a test that means to leave jobs ends with slurm.cancel()): {left}"


def program(name: str, package: str) -> Path:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name}: not on PATH (Debian package {package})")
    return Path(path)
