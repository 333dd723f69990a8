"""Faults that end the runner, or the processes around it."""

import os
import signal
import sys
import time

import psutil

import mounts
from faults.case import ONE, PREPARING, READS, Case, Run
from faults.registry import Happening, Meanwhile, fault
from iosweep.files.documents import dump
from waiting import wait_for

#: Starts a runner through a shell, as Snakemake does, and ends with its exit code. SIGUSR2 kills the shell.
PARENT = """
import ctypes, os, signal, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)  # what loses its parent is ours
shell = subprocess.Popen(["sh", "-c", '"$@" & echo $!; wait', "sh", *sys.argv[1:]], stdout=subprocess.PIPE, text=True)
signal.signal(signal.SIGUSR2, lambda *_: shell.kill())
runner = int(shell.stdout.readline())
shell.wait()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(runner, 0)[1]))
"""


def in_its_middle(number: signal.Signals) -> Meanwhile:
    def stop(run: Run) -> None:
        run.tool()
        run.process.send_signal(number)

    return stop


@fault(sweep=ONE)
def ctrl_c(case: Case) -> Happening:
    case.measure_for_long()
    yield in_its_middle(signal.SIGINT)


@fault(sweep=ONE)
def terminated(case: Case) -> Happening:
    case.measure_for_long()
    yield in_its_middle(signal.SIGTERM)


@fault(sweep=ONE)
def terminal_closed(case: Case) -> Happening:
    case.measure_for_long()
    yield in_its_middle(signal.SIGHUP)


@fault(sweep=ONE)
def stopped_by_hand(case: Case) -> Happening:
    case.measure_for_long()
    yield in_its_middle(signal.SIGUSR1)


@fault(sweep=READS)
def stopped_while_a_set_is_written(case: Case) -> Happening:
    file = case.ours / "sets" / "fio-read-256k-1" / "0.0"
    case.at_call(f'"$fio" "$@"; truncate -s 4k {file}; sleep 600', nth=1, call=PREPARING)

    def stop(run: Run) -> None:
        wait_for(lambda: file.exists() and file.stat().st_size == 4096, over=run.over)
        run.process.send_signal(signal.SIGINT)

    yield stop


@fault()
def runner_killed(case: Case) -> Happening:
    case.measure_for_long()
    yield in_its_middle(signal.SIGKILL)


@fault(on=mounts.fuse, still=False)
def stopped_while_it_hangs(case: Case) -> Happening:
    server = psutil.Process(mounts.server(case.mount))
    case.at_call(f'"$fio" "$@"; code=$?; kill -STOP {server.pid}; exit $code', nth=1)

    def stop(run: Run) -> None:
        wait_for(lambda: server.status() == psutil.STATUS_STOPPED, over=run.over)
        time.sleep(0.3)
        run.process.send_signal(signal.SIGINT)

    yield stop
    server.resume()


@fault(sweep=ONE)
def parent_gone(case: Case) -> Happening:
    case.measure_for_long()
    case.prefix = [sys.executable, "-c", PARENT]
    yield in_its_middle(signal.SIGUSR2)
    case.prefix = []


@fault()
def agent_killed(case: Case) -> Happening:
    case.measure_for_long()

    def kill(run: Run) -> None:
        run.tool()
        os.kill(run.agent().pid, signal.SIGKILL)

    yield kill


@fault(limits={"time": "2s", "over_time": "trim"})
def time_spent_and_trimmed(case: Case) -> Happening:
    case.at_call('"$fio" "$@"; code=$?; sleep 2.1; exit $code', nth=1)
    yield None
    case.reset(limits={"time": None})


@fault(limits={"time": "2s"})
def time_spent(case: Case) -> Happening:
    case.at_call('"$fio" "$@"; code=$?; sleep 2.1; exit $code', nth=1)
    yield None
    case.reset(limits={"time": None})


@fault(limits={"bytes_written": "1g"})
def bytes_spent(case: Case) -> Happening:
    case.results.mkdir(parents=True)
    (case.results / "spent.json").write_bytes(dump({"spent_s": 1.0, "bytes_written": 1073741000}))
    yield None
    case.reset(limits={"bytes_written": None})


@fault(limits={"time": "1h"})
def spent_damaged(case: Case) -> Happening:
    case.results.mkdir(parents=True)
    (case.results / "spent.json").write_bytes(b"")
    yield None
    (case.results / "spent.json").unlink()


@fault()
def reader_gone(case: Case) -> Happening:
    case.prefix = ["bash", "-c", 'exec "$@" 2> >(exec true)', "bash"]
    case.at_call("sleep 0.2", nth=1)
    yield None
    case.prefix = []
