"""What every test may use, and what happens to tests that cannot run on this machine.

A skip is loud: the reasons stand together at the end of the run. With `--require-all` a skip is a failure.
"""

import ctypes
import functools
import gc
import os
import random
import re
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import slurm as clusters
from held_job import Held
from iosweep.node import fs_types
from iosweep.programs import programs
from iosweep.target import identify
from slurm_campaign import NODES as STORY_NODES
from slurm_campaign import Stories, is_story

# Shared machines are slow at times: a deadline per example, or for making them, would then fail a test that is right.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples every time, so that a change is what makes a test fail; `make soak` draws new ones.
settings.register_profile("iosweep", _PATIENT, derandomize=True, max_examples=50)
settings.register_profile("unit", _PATIENT, derandomize=True, max_examples=20)  # `-m unit` is for every change
settings.register_profile("soak", _PATIENT, max_examples=2000)


#: Every test is in one: the fastest tier, then those that start processes, then those that need a cluster.
TIERS = {
    "unit": "Python only: a test that starts a process fails",
    "local": "programs, mounts or a browser of this machine",
    "cluster": "Slurm on nodes in namespaces of this machine",
}
#: What a unit test must not do (names of audit events).
PROCESS_EVENTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
PROGRAM_FIXTURES = {"fio", "chromium"}
SQUEUE = shutil.which("squeue")
_CLONE_NEWNS = 0x00020000  # os.unshare is there since Python 3.12
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
#: What takes a minute or so: first all files with tests of the tier `cluster`, which have one cluster.
LONGEST = (
    "cluster", "test_workflow.py", "test_demo.py",
    "test_kills.py", "test_lint.py", "test_report_browser.py", "test_faults.py",
)  # fmt: skip


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("iosweep")
    group.addoption("--require-all", action="store_true", help="a test that is skipped fails")
    group.addoption("--soak", action="store_true", help="only what is random or repeats, with its long counts")
    group.addoption("--seed", type=int, metavar="N", help="of what is random; default: 1, and drawn with --soak")


def pytest_configure(config: pytest.Config) -> None:
    if fs_types.lookup(str(identify.identify(tempfile.gettempdir())["fstype"])).memory:
        # Repetitions on a target in memory are suspect, and it is small: temporary files go where they are on a disk.
        os.environ["TMPDIR"] = tempfile.tempdir = "/var/tmp"
    for name, uses in TIERS.items():
        config.addinivalue_line("markers", f"{name}: {uses}")
    if config.args_source is pytest.Config.ArgsSource.TESTPATHS and not config.option.markexpr:
        config.option.markexpr = "unit"  # plain `pytest`; xdist hands the options on to its workers
    unit = config.option.markexpr == "unit"
    settings.load_profile("soak" if config.getoption("soak") else "unit" if unit else "iosweep")
    if unit:
        config.addinivalue_line("filterwarnings", "error::pytest.PytestUnhandledThreadExceptionWarning")
    sys.addaudithook(_refuse_processes)
    if config.option.seed is None:  # xdist hands the options on to its workers, and so this seed
        config.option.seed = random.SystemRandom().randrange(10**6) if config.getoption("soak") else 1
    if config.option.collectonly:
        config.option.warn_unused_snapshots = True  # nothing is run, so none is used


def pytest_report_header(config: pytest.Config) -> str:
    return f"--seed {config.option.seed}"


def tier(item: pytest.Item) -> str:
    """The tier of a test: by the fixtures that it uses, else `local` by its mark."""
    fixtures = set(getattr(item, "fixturenames", ()))
    if any(name.startswith(("slurm", "stories")) for name in fixtures):
        return "cluster"
    return "local" if fixtures & PROGRAM_FIXTURES or item.get_closest_marker("local") else "unit"


#: The unit test that runs now.
_unit: list[str] = []


def _refuse_processes(event: str, arguments: tuple[Any, ...]) -> None:
    if _unit and event in PROCESS_EVENTS:
        raise AssertionError(f"{_unit[0]} starts a process ({event}); mark it with @pytest.mark.local")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Keep unit tests from starting processes."""
    _unit[:] = [item.nodeid] if tier(item) == "unit" else []
    try:
        return (yield)
    finally:
        _unit.clear()


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if not item.get_closest_marker(name := tier(item)):
            item.add_marker(name)
    # Deselected and not skipped: they are left out on purpose, so --require-all has nothing to say about them.
    soak = config.getoption("soak")
    left_out = [item for item in items if (not repeats(item) if soak else item.get_closest_marker("soak"))]
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]
    config.hook.pytest_deselected(items=left_out)
    # Stories run side by side in threads, and nothing beside them: other tests change the environment of the process.
    items.sort(key=lambda item: not is_story(item))
    if lost := {item.path.name for item in items if tier(item) == "cluster" and not uses_cluster(item.path)}:
        raise pytest.UsageError(f"tests of the cluster in files that import neither slurm nor held_job: {lost}")


@functools.cache
def uses_cluster(file: Path) -> bool:
    """Whether tests of a file are on the cluster, by what it imports: xdist's scheduler knows nothing else of it."""
    return re.search("^(from|import) (slurm|held_job) ", file.read_text(), re.MULTILINE) is not None


def repeats(item: pytest.Item) -> bool:
    """Whether a test is for --soak: by its mark, or by a long count, of `rounds` or of Hypothesis' examples."""
    if item.get_closest_marker("soak"):
        return True
    return "rounds" in getattr(item, "fixturenames", ()) or hasattr(getattr(item, "obj", None), "hypothesis")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """`-n`: a worker takes whole files, which have fixtures in common, and those that last longest first."""
    from xdist.scheduler import LoadScopeScheduling  # not every environment has it

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = config.rootpath / nodeid.partition("::")[0]
            return "cluster" if uses_cluster(file) else file.name

        def _assign_work_unit(self, node: Any) -> None:
            lasts = {file: n for n, file in enumerate(LONGEST)}
            first = min(self.workqueue, key=lambda file: lasts.get(file, len(lasts)))
            self.workqueue.move_to_end(first, last=False)
            super()._assign_work_unit(node)

    return ByFile(config, log)


def pytest_collection_finish(session: pytest.Session) -> None:
    # What was collected stays to the end: no full collection of garbage need look at it.
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Skips of tests: from a mark, from a fixture, from the test itself. A failure names the seed."""
    report = yield
    if report.skipped and item.config.getoption("require_all"):
        report.outcome, report.longrepr = "failed", f"required here, but skipped: {skip_reason(report)}"
    if report.failed and "draw" in getattr(item, "fixturenames", ()):
        report.sections.append(("seed", f"the same again: --seed {item.config.option.seed}"))
    return report


def skip_reason(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = Counter(map(skip_reason, terminalreporter.stats.get("skipped", [])))
    if reasons:
        terminalreporter.section("NOT TESTED HERE", yellow=True, bold=True)
        for reason, count in sorted(reasons.items()):
            terminalreporter.write_line(f"{count} skipped: {reason}", yellow=True)


@pytest.fixture(scope="session", autouse=True)
def signals() -> None:
    """A job in the background of a script ignores Ctrl-C, and all under nohup the end of the terminal; so would
    everything that the tests start and send these signals to. What has a handler here starts with none there."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session", autouse=True)
def own_mounts() -> None:
    """What root mounts here is seen here only. A cluster of another worker would keep it, and with it a file system
    that was unmounted and is to be mounted anew."""
    libc = ctypes.CDLL(None)
    if os.geteuid() == 0 and libc.unshare(_CLONE_NEWNS) == 0:
        assert libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None) == 0


#: Functions that remember programs of this PATH. A test may replace them.
_CACHED = (programs.sha256, programs.mpiexec)


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    """The programs that a test found on its PATH are not those of the next."""
    yield
    for function in _CACHED:
        function.cache_clear()


@pytest.fixture(autouse=True)
def no_slurm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the squeue of this machine, which has no cluster behind it. A test's own squeue is found."""
    if SQUEUE and tier(request.node) != "cluster":
        which = shutil.which
        monkeypatch.setattr(
            shutil, "which", lambda *asked, **more: None if (found := which(*asked, **more)) == SQUEUE else found
        )


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the checkout."""
    return Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def soak(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("soak"))


@pytest.fixture(scope="session")
def rounds(soak: bool) -> Callable[[int, int], int]:
    """How often to repeat something random: `rounds(20, 200)` is 20, and 200 under --soak (`make soak`)."""
    return lambda usual, long: long if soak else usual


@pytest.fixture
def draw(request: pytest.FixtureRequest) -> random.Random:
    """What a test draws its moments, places and values from: its own numbers, the same ones with the same --seed."""
    return random.Random(f"{request.config.option.seed} {request.node.nodeid}")


@pytest.fixture(scope="session")
def fio() -> Path:
    return program("fio", package="fio")


@pytest.fixture(scope="session")
def chromium() -> Path:
    return program("chromium", package="chromium")


@pytest.fixture(scope="session")
def stories(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stories]:
    """The one cluster of this run, and the stories that run on it meanwhile."""
    if reason := clusters.missing():
        pytest.skip(reason)
    tmp_path_factory.getbasetemp()  # made once, not by each thread
    asked = [item.originalname for item in request.session.items if is_story(item)]
    with clusters.Cluster(workers=STORY_NODES if asked else 0) as cluster:
        made = Stories(cluster, asked, tmp_path_factory.mktemp)
        yield made
        made.close()


@pytest.fixture(scope="session")
def slurm_session(stories: Stories) -> clusters.Cluster:
    """The cluster for fixtures that outlive a test. They clean up after themselves."""
    return stories.cluster


@pytest.fixture
def slurm_alone(stories: Stories, slurm: clusters.Cluster) -> clusters.Cluster:
    """The cluster once all stories have ended: for what stops it."""
    stories.wait()
    return slurm


@pytest.fixture
def slurm(slurm_session: clusters.Cluster) -> Iterator[clusters.Cluster]:
    """The same cluster for one test: idle and with all nodes when it starts. A job that is left fails the test."""
    yield slurm_session
    clusters.tidy(slurm_session)


@pytest.fixture(scope="module")
def held(slurm_session: clusters.Cluster) -> Iterator[Held]:
    """A job that holds two nodes."""
    made = Held(slurm_session, "--time=50")
    yield made
    made.end()


def program(name: str, package: str) -> Path:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name}: not on PATH (Debian package {package})")
    return Path(path)
