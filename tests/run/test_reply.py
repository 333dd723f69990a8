"""The one answer of a node's agent to a request, also where the target holds the agent."""

import pytest
from msgspec import convert

from iosweep.errors import TargetHangs
from iosweep.run import remote_agent
from iosweep.run.remote_agent import Request
from iosweep.slurm import fan_out
from iosweep.target import directory as directories
from iosweep.target.protocol import Answer
from waiting import wait_for


def test_an_agent_reports_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel does not let go of it; only another thread can answer, once."""
    sent: list[Answer] = []
    monkeypatch.setattr(fan_out, "send", lambda number, who, value: sent.append(convert(value, Answer)))
    with remote_agent._Reply(Request(3, "check", [], None, 0.05), "n2") as reply:
        wait_for(lambda: sent)
        reply.send(Answer(value=None))
    assert len(sent) == 1 and "no progress for 0.05 s" in (sent[0].hangs or "")
    outcome = sent[0].outcome(directories.check)
    assert isinstance(outcome, TargetHangs)
    assert str(outcome) == sent[0].hangs


def test_an_agent_answers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Answer] = []
    monkeypatch.setattr(fan_out, "send", lambda number, who, value: sent.append(convert(value, Answer)))
    for operation, report_s in (("check", 0.0), ("check", 60.0), ("clock", 0.01)):
        with remote_agent._Reply(Request(3, operation, [], None, report_s), "n2") as reply:
            assert bool(reply._timer) == (report_s == 60)
            reply.send(Answer(value=7))
        assert [sent.pop(), *sent] == [Answer(value=7)], operation
