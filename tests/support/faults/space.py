"""Faults of space: bytes, inodes, quotas."""

import mounts
from faults.case import ONE, PREPARING, READS, Case
from faults.registry import Happening, fault

#: One point that makes many files.
CREATES = {
    "name": "s", "tool": "fio", "phases": ["create"], "options": {"files_per_thread": 8000}, "repetitions": 1,
}  # fmt: skip


@fault(sweep=ONE)
def does_not_fit(case: Case) -> Happening:
    case.reset(limits={"share_of_free": "0%"})
    yield None
    case.reset()


@fault(sweep=ONE)
def too_full(case: Case) -> Happening:
    case.reset(limits={"fill": "0%"})
    yield None
    case.reset()


@fault(sweep=CREATES)
def too_many_files(case: Case) -> Happening:
    case.reset(limits={"share_of_free": "10%"})
    yield None
    case.reset()


@fault(limits={"fill": "50%"}, still=False)
def filled_by_somebody_between(case: Case) -> Happening:
    filler = case.mount / "filler"
    case.at_call(f'"$fio" "$@"; code=$?; fallocate -l 40M {filler}; exit $code', nth=1)
    yield None
    filler.unlink()


@fault()
def full_while_it_writes(case: Case) -> Happening:
    case.at_call(while_full(case))
    yield None


@fault(sweep=READS | {"axes": {}})
def full_while_a_set_is_written(case: Case) -> Happening:
    case.at_call(while_full(case), nth=1, call=PREPARING)
    yield None


def while_full(case: Case) -> str:
    """Run fio while somebody else has all the space."""
    filler = case.mount / "filler"
    return f'cat /dev/zero > {filler} 2> /dev/null; "$fio" "$@"; code=$?; rm {filler}; exit $code'


@fault(sweep=CREATES)
def out_of_inodes(case: Case) -> Happening:
    away = case.mount / "many"
    many = f"mkdir {away}; (cd {away} && seq 12000 | xargs touch)"
    case.at_call(f'{many}; "$fio" "$@"; code=$?; rm -r {away}; exit $code', nth=1, call="--name=create")
    yield None


@fault(on=mounts.btrfs)
def quota_while_it_writes(case: Case) -> Happening:
    limit = "btrfs qgroup limit"
    case.at_call(f'{limit} 1m {case.mount}; "$fio" "$@" --runtime=60s; code=$?; {limit} none {case.mount}; exit $code')
    yield None
