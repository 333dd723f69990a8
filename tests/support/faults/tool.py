"""Faults of the tool."""

from typing import Any

from faults.case import ONE, Case
from faults.registry import Happening, fault

#: Short enough for a test, long enough for a busy machine.
QUICKLY = {"grace": "2s"}
#: For the run that goes on from there.
PATIENTLY = {"grace": "1min"}
#: One point of two ranks.
RANKS: dict[str, Any] = {
    "name": "s", "tool": "mdtest", "phases": ["create"], "repetitions": 1,
    "options": {"threads_per_node": 2, "files_per_thread": 3000},
}  # fmt: skip


@fault(sweep=ONE)
def tool_missing(case: Case) -> Happening:
    path, case.path = case.path, "/nonexistent"
    yield None
    case.path = path


@fault(sweep=ONE)
def tool_too_old(case: Case) -> Happening:
    case.fake('[ "$1" != --version ] || { echo fio-2.21; exit; }; exec "$fio" "$@"')
    yield None
    case.fake('exec "$fio" "$@"')


@fault(sweep=ONE)
def tool_without_its_interpreter(case: Case) -> Happening:
    case.fake("")
    program = case.place / "bin" / "fio"
    program.write_text("#!/nonexistent\n")
    yield None
    case.fake('exec "$fio" "$@"')


@fault(sweep=ONE)
def tool_that_crashes_at_once(case: Case) -> Happening:
    case.fake("kill -SEGV $$")
    yield None
    case.fake('exec "$fio" "$@"')


@fault()
def tool_fails(case: Case) -> Happening:
    case.at_call("echo 'fio: engine went away' >&2; exit 1")
    yield None


@fault()
def tool_crashes(case: Case) -> Happening:
    case.at_call("kill -SEGV $$")
    yield None


@fault()
def tool_killed_by_somebody(case: Case) -> Happening:
    """As the OOM killer does: its workers go on."""
    case.at_call('"$fio" "$@" --runtime=60s & sleep 0.5; kill -KILL $$')
    yield None


@fault()
def rubbish_printed(case: Case) -> Happening:
    case.at_call("printf 'Bus error\\0\\377\\033[31m}{\\n'; exit 0")
    yield None


@fault()
def nothing_printed(case: Case) -> Happening:
    case.at_call("exit 0")
    yield None


@fault()
def output_cut_short(case: Case) -> Happening:
    case.at_call('"$fio" "$@" | head -c 1500; exit 0')
    yield None


@fault()
def endless_output(case: Case) -> Happening:
    case.at_call("head -c 100000000 /dev/zero; exec sleep 600")
    yield None


@fault(limits=QUICKLY)
def tool_hangs(case: Case) -> Happening:
    case.at_call("exec sleep 600")
    yield None
    case.reset(limits=PATIENTLY)


@fault(limits=QUICKLY)
def tool_that_will_not_end(case: Case) -> Happening:
    """It ignores SIGTERM; a worker has a session of its own, a daemon has no parent any more."""
    case.at_call("trap '' TERM; setsid sleep 600 & (setsid setsid sleep 600 &); while :; do sleep 600; done")
    yield None
    case.reset(limits=PATIENTLY)


@fault()
def tool_replaced(case: Case) -> Happening:
    case.at_call('cp -p "$0" "$0.new"; mv "$0.new" "$0"')
    yield None


@fault()
def daemon_left(case: Case) -> Happening:
    case.at_call('"$fio" "$@"; code=$?; (setsid sleep 600 > /dev/null 2>&1 &); exit $code')
    yield None


@fault(sweep=RANKS, mpi=True)
def ranks_of_another_mpi(case: Case) -> Happening:
    case.more["STANDIN_FAULT"] = "singleton"
    yield None
    case.more.clear()


@fault(sweep=RANKS, mpi=True)
def rank_killed(case: Case) -> Happening:
    case.more["STANDIN_FAULT"] = "kill_rank"
    yield None
    case.more.clear()
    for file in (case.place / "shm").glob("mpich_shm_*"):  # MPICH leaves it
        file.unlink()
