"""How figures of two campaigns differ: verdicts, what tells them, and what is said of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import results_factory as factory
from iosweep.analysis import comparison_words as words
from iosweep.analysis.aggregate import Result, summarize
from iosweep.analysis.comparison import Comparison, compare, most_elsewhere, told
from iosweep.analysis.matching import match

K = factory.K
SIZES, THREADS = (4 * K, 64 * K), (1, 2, 4)
#: Transfer size, threads -> factor.
Speed = Callable[[int, int], float]


def campaign(seed: int, sd: float = 0.01, n: int = 5, speed: Speed = lambda *_: 1.0, **more: Any) -> list[Result]:
    draw = random.Random(seed)
    rows = [
        factory.row(
            **{"point": f"{size}.{threads}", "nodes": 1, "transfer_size_bytes": size, "threads_per_node": threads}
            | {"o_direct": True, "repetition": number, "session": "1", "hosts": "n1"}
            | {"ops_per_s": 1e4 * threads * draw.lognormvariate(0, sd) * speed(size, threads)}
            | {key: value(size, threads, number) if callable(value) else value for key, value in more.items()}
        )
        for size in SIZES
        for threads in THREADS
        for number in range(1, n + 1)
    ]
    return summarize(rows)


def compared(a: Sequence[Result], b: Sequence[Result], **more: Any) -> Comparison:
    return compare(match(a, b), (a, b), **more)


def test_equal_campaigns_have_no_change() -> None:
    found = compared(campaign(1), campaign(2))
    assert not found.regressions
    assert told(found) == []
    assert {one.verdict for one in found.singles} <= {"same", "undecided"}


def test_quiet_campaigns_say_how_little_has_changed() -> None:
    found = compared(campaign(1, 0.002), campaign(2, 0.002))
    assert found.count("same") == 6
    assert words.sentence(found) == "Nothing differs by more than 0.6 %."


def test_a_loss_of_one_size_is_told_as_that() -> None:
    found = compared(campaign(1), campaign(2, speed=lambda size, _: 0.9 if size == 4 * K else 1.0))
    assert words.sentence(found).startswith("Random reads at 4 KiB: 9.9 % lower (9.2 to 10.6)")
    assert "in the mean of 3 results" in words.sentence(found)
    [one] = told(found)
    assert one.verdict == "regression"
    assert one.where == {"transfer_size_bytes": 4 * K}


def test_a_loss_of_everything_is_told_as_that() -> None:
    found = compared(campaign(1), campaign(2, speed=lambda *_: 0.9))
    assert [one.where for one in told(found)] == [{}]
    assert words.sentence(found).startswith("Random reads: ")


def test_a_loss_of_one_point_is_told_with_all_that_tells_it_from_others() -> None:
    found = compared(campaign(1), campaign(2, speed=lambda *at: 0.85 if at == (64 * K, 2) else 1.0))
    assert words.sentence(found).startswith("Random reads at 2 threads per node, 64 KiB: ")
    assert found.count("regression") == 1


def test_changes_in_both_directions_are_told_apart() -> None:
    found = compared(campaign(1), campaign(2, speed=lambda size, _: 0.9 if size == 4 * K else 1.1))
    assert {one.verdict for one in told(found)} == {"regression", "improvement"}
    assert sum(len(one.pairs) for one in told(found)) == 6


def test_a_change_smaller_than_matters_is_none() -> None:
    slower = campaign(2, 0.002, speed=lambda *_: 0.98)
    assert not compared(campaign(1, 0.002), slower).regressions
    assert compared(campaign(1, 0.002), slower, at_least=0.01).regressions


def test_latency_that_rises_is_a_regression() -> None:
    def latency(factor: float) -> Callable[[int, int, int], float]:
        return lambda size, threads, number: factor * 1e-3 * threads * (1 + 0.01 * (number % 3))

    found = compared(
        campaign(1, latency_p99_s=latency(1)), campaign(1, latency_p99_s=latency(1.2)), column="latency_p99_s"
    )
    assert found.regressions
    assert words.sentence(found).startswith("P99 latency of random reads: 20.0 % higher")


def test_what_is_undecided_says_how_many_repetitions_would_decide() -> None:
    found = compared(campaign(1, 0.05), campaign(2, 0.05))
    undecided = found.undecided
    assert undecided
    assert all(one.more is None or one.more > 0 for one in undecided)
    more = max(one.more or 0 for one in undecided)
    again = compared(campaign(1, 0.05, 5 + more), campaign(2, 0.05, 5 + more))
    assert len(again.undecided) < len(undecided)


def test_invalid_repetitions_never_count_and_are_marked() -> None:
    spoilt = campaign(
        2,
        verdict=lambda size, threads, number: "invalid" if number == 1 else "valid",
        ops_per_s=lambda size, threads, number: 1e4 * threads * (1 + 0.001 * number) if number > 1 else 1.0,
    )
    found = compared(campaign(1, 0.002), spoilt)
    assert not found.regressions
    assert all(one.suspect for one in found.singles)


def test_a_point_without_a_valid_repetition_is_not_compared() -> None:
    found = compared(campaign(1), campaign(2, verdict=lambda size, *_: "invalid" if size == 4 * K else "valid"))
    assert len(found.singles) == 3
    assert {(side, why) for _, side, why in found.without} == {(1, "invalid")}
    assert list(words.absent(found, ("a", "b"))) == ["3 results are not compared: invalid in b."]


def test_one_result_that_only_one_campaign_has() -> None:
    a = campaign(1)
    found = compared(a, campaign(2)[:-1])
    assert list(words.absent(found, ("a", "b"))) == ["1 result of 1 point is only in a."]
    found = compared(a, campaign(2)[:-2])
    assert list(words.absent(found, ("a", "b"))) == ["2 results of 2 points are only in a."]


def test_the_figures_of_a_result_never_contradict_its_change() -> None:
    """One fast repetition lifts the arithmetic mean, and not the geometric one that the change is of."""
    spread = (1.0, 1.0, 1.0, 1.0, 0.35, 1.9)
    wild = campaign(2, n=6, ops_per_s=lambda size, threads, number: 1e4 * threads * spread[number - 1])
    found = compared(campaign(1, 0.001, n=6), wild)
    own = found.singles[0]
    assert own.change
    assert own.change.share < 0
    assert own.pairs[0].b.statistics["ops_per_s"].mean > own.pairs[0].a.statistics["ops_per_s"].mean
    first, other = (pair.center("ops_per_s") or 0.0 for pair in (own.pairs[0].a, own.pairs[0].b))
    assert other / first - 1 == pytest.approx(own.change.share)
    assert words.figures(own, "") == ("10.0 k IOPS", "9,343 IOPS")


def test_a_figure_of_zero_is_shown_as_zero() -> None:
    found = compared(campaign(1), campaign(2, ops_per_s=lambda *at: 0.0 if at[-1] == 1 else 1e4))
    assert {one.why for one in found.singles} == {"a figure of zero"}
    assert words.figures(found.singles[0], "")[1] == "0 IOPS"


def test_repetitions_on_different_nodes_decide_nothing() -> None:
    found = compared(campaign(1), campaign(2, speed=lambda *_: 0.5, hosts=lambda s, t, n: f"n{n}"))
    assert {one.verdict for one in found.singles} == {"undecided"}
    assert {one.why for one in found.singles} == {"its repetitions ran on different nodes"}
    assert most_elsewhere(found.singles) is None


def test_a_single_repetition_is_compared_with_the_noise_of_the_other_points() -> None:
    def only_first(size: int, threads: int, number: int) -> str:
        return "valid" if number == 1 or (size, threads) != (4 * K, 1) else "invalid"

    found = compared(campaign(1), campaign(2, verdict=only_first, speed=lambda *at: 0.7 if at == (4 * K, 1) else 1))
    assert [one.pairs[0].a.point for one in found.singles if one.verdict == "regression"] == [f"{4 * K}.1"]


def test_lone_single_repetitions_decide_nothing() -> None:
    found = compared(campaign(1, n=1), campaign(2, n=1))
    assert {one.why for one in found.singles} == {"one repetition, and no others that tell how it scatters"}
    assert words.sentence(found) == "No difference of 3 % or more can be shown: all 6 results are undecided."


def test_undecided_results_are_counted_among_those_that_the_sentence_is_not_about() -> None:
    noisy = campaign(2, 0.05, speed=lambda *at: 0.3 if at == (4 * K, 1) else 1.0)
    assert words.sentence(compared(campaign(1, 0.05), noisy)).endswith(
        "can be shown: all the other 5 results are undecided."
    )


def test_the_sentence_says_that_most_results_are_in_doubt() -> None:
    def reason(size: int, threads: int, number: int) -> str:
        return f"other processes used {70 + number}% of the CPU time (cc1 {60 + number}%)" + (
            " | too short" if size == 4 * K else "")  # fmt: skip

    doubted = campaign(
        2, speed=lambda *at: 0.5 if at == (4 * K, 1) else 1.0, verdict=lambda *_: "suspect", reasons=reason
    )
    said = words.sentence(compared(campaign(1), doubted))
    assert said.endswith("; all 6 results are in doubt: other processes used 75% of the CPU time.")
    few = campaign(2, verdict=lambda size, *_: "suspect" if size == 4 * K else "valid", reasons=reason)
    assert "in doubt" not in words.sentence(compared(campaign(1), few))
    four = campaign(2, verdict=lambda size, threads, _: "valid" if threads == 4 else "suspect", reasons=reason)
    assert "; 4 of 6 results are in doubt: " in words.sentence(compared(campaign(1), four))


def system(seed: int, session: float, speed: Speed = lambda *_: 1.0) -> list[Result]:
    """A campaign whose session makes all its figures faster or slower, with this standard deviation."""
    by = random.Random(f"session {seed}").lognormvariate(0, session)
    return campaign(seed, speed=lambda *at: by * speed(*at))


def test_what_sessions_of_a_system_differ_by_is_no_change_once_it_is_known() -> None:
    """Campaigns of one system that differ by 4 % or so from session to session."""
    sessions = [system(seed, 0.04) for seed in range(20, 26)]
    pairs = [(a, b) for i, a in enumerate(sessions) for b in sessions[i + 1 :]]
    alone = [compared(a, b) for a, b in pairs]
    known = [compared(a, b, like=[o for o in sessions if o is not a and o is not b]) for a, b in pairs]
    assert sum(bool(told(one)) for one in alone) > len(pairs) / 3
    assert not any(told(one) for one in known)


def test_a_loss_beyond_what_sessions_differ_by_is_found() -> None:
    found = compared(
        system(1, 0.005), system(2, 0.005, lambda *_: 0.9), like=[system(seed, 0.005) for seed in range(3, 7)]
    )
    assert [one.where for one in told(found)] == [{}]
    assert words.sentence(found).startswith("Random reads lost ")
    assert {one.sessions for one in found.findings} == {5}
    [learned] = found.learned or ()
    assert (learned.phase, learned.sessions) == ("rand_read", 5)
    assert 0.002 < learned.sd_share < 0.02
    assert words.sessions_differ(found, "a").startswith("Sessions of a differ by ")


def test_without_sessions_nothing_is_said_to_be_lost() -> None:
    found = compared(campaign(1), campaign(2, speed=lambda *_: 0.9))
    assert found.learned is None
    assert "lost" not in words.sentence(found)


def test_two_sessions_are_too_few_for_a_change_that_is_not_huge() -> None:
    found = compared(system(1, 0.02), system(2, 0.02, lambda *_: 0.9), like=[system(3, 0.02)])
    assert not told(found)
    assert {one.verdict for one in found.singles} == {"undecided"}


def test_invalid_repetitions_of_a_campaign_of_the_system_are_never_used() -> None:
    def bad(size: int, threads: int, number: int) -> str:
        return "invalid" if number == 1 else "valid"

    like = [campaign(seed, speed=lambda *_: 1.0) for seed in (3, 4, 5)]
    spoilt = campaign(5, verdict=bad, ops_per_s=lambda s, threads, n: 1e4 * threads * (1 + 0.001 * n) if n > 1 else 1.0)
    found = compared(campaign(1), campaign(2), like=[*like[:2], spoilt])
    [learned] = found.learned or ()
    assert learned.sessions == 4
    assert learned.sd_share < 0.02


def test_results_that_a_session_lacks_are_undecided() -> None:
    lacking = campaign(4, verdict=lambda size, threads, _: "invalid" if (size, threads) == (4 * K, 1) else "valid")
    found = compared(campaign(1), campaign(2), like=[campaign(3), lacking])
    whys = {one.pairs[0].a.point: one.why for one in found.singles}
    assert whys.pop(f"{4 * K}.1") == "not in the campaigns of --like"
    assert set(whys.values()) == {""}


def test_a_campaign_that_has_less_than_half_of_a_phase_is_no_session_of_it() -> None:
    few = campaign(4, verdict=lambda size, threads, _: "valid" if (size, threads) == (4 * K, 1) else "invalid")
    [learned] = compared(campaign(1), campaign(2), like=[campaign(3), few]).learned or ()
    assert learned.sessions == 2
    alone = compared(campaign(1), campaign(2), like=[few])
    assert alone.learned == ()
    assert {one.verdict for one in alone.singles} == {"undecided"}
