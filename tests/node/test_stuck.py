"""Which processes wait in the kernel, and the sentence on them."""

import os
from pathlib import Path

import pytest

from iosweep.node import procfs, stuck
from iosweep.node.stuck import Stuck

#: State and function of each thread, as /proc had them while a server did not answer.
READINGS = [
    ([("D", "request_wait_answer")], "request_wait_answer"),  # MooseFS, after SIGKILL
    ([("S", "request_wait_answer")], "request_wait_answer"),  # before it
    ([("S", "hrtimer_nanosleep"), ("D", "request_wait_answer"), ("S", "futex_wait_queue")], "request_wait_answer"),
    ([("S", "read_events")], "read_events"),  # libaio, waiting for what it has submitted
    ([("D", "0")], ""),  # a kernel that does not tell
    ([("D", "0"), ("D", "io_schedule")], "io_schedule"),
    ([("T", "do_signal_stop")], "do_signal_stop"),
    ([("S", "hrtimer_nanosleep"), ("S", "do_wait"), ("S", "futex_do_wait"), ("S", "do_sys_poll")], None),
    ([("S", "anon_pipe_read"), ("S", "0"), ("S", "")], None),
    ([("R", "0")], None),
    ([("Z", "0")], None),
    ([], None),
]


@pytest.mark.parametrize(("threads", "where"), READINGS)
def test_where_a_process_waits(threads: list[tuple[str, str]], where: str | None) -> None:
    assert stuck.place(threads) == where


def test_processes_of_a_program_that_wait_in_the_same_place_are_one_entry() -> None:
    seen = {12: ("fio", "request_wait_answer"), 11: ("fio", "request_wait_answer"), 7: ("fio", "io_schedule")}
    assert stuck.grouped(seen) == (
        Stuck(program="fio", where="io_schedule", pids=(7,)),
        Stuck(program="fio", where="request_wait_answer", pids=(11, 12)),
    )


def waiting(where: str, host: str, *pids: int, program: str = "fio") -> Stuck:
    return Stuck(program=program, where=where, pids=pids, host=host)


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        ((), ""),
        ((waiting("x", "", 3),), "1 process of fio waits in x (pid 3)"),
        ((waiting("", "n2", 3, 4),), "on n2: 2 processes of fio wait in the kernel (pids 3, 4)"),
        (
            (waiting("x", "n1", 3, 4), waiting("x", "n2", 9)),
            "on n1, n2: 3 processes of fio wait in x (pids n1: 3, 4; n2: 9)",
        ),
        (
            (waiting("x", "n1", 3), waiting("y", "n2", 9, program="ior")),
            "on n1: 1 process of fio waits in x (pid 3); on n2: 1 process of ior waits in y (pid 9)",
        ),
        ((waiting("b\n", "", 1, program="a\x1b[2J"),), r"1 process of a\x1b[2J waits in b\n (pid 1)"),
    ],
)
def test_the_sentence_on_them(found: tuple[Stuck, ...], sentence: str) -> None:
    assert stuck.sentence(found) == sentence


def test_many_nodes_and_processes_are_a_short_sentence() -> None:
    many = [waiting("x", f"w{n}", *range(100)) for n in range(128)]
    said = stuck.sentence(many)
    assert said.startswith("on w0, w1, w2, w3 and 124 more: 12,800 processes of fio wait in x (pids w0: 0, 1, ")
    assert len(said) < 400


def test_a_process_is_read_from_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"5/task/5/stat": b"5 (a b) D 1 2", "5/task/5/wchan": b"rpc_wait_bit_killable", "5/comm": b"a b\n"}
    monkeypatch.setattr(procfs, "threads", lambda pid: ["5"] if pid == "5" else [])
    monkeypatch.setattr(procfs, "read", lambda pid, name: files.get(f"{pid}/{name}", b""))
    assert stuck.of([4, 5]) == (Stuck(program="a b", where="rpc_wait_bit_killable", pids=(5,)),)
    assert stuck.waits(5) == "waits in rpc_wait_bit_killable"
    assert stuck.waits(4) == ""


def test_of_this_process_which_runs() -> None:
    assert stuck.of([os.getpid()]) == ()
    assert Path(f"/proc/{os.getpid()}/wchan").exists()
