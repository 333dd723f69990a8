"""`iosweep doctor` in an allocation: how it asks the nodes."""

from collections.abc import Sequence

import pytest

from iosweep.commands.doctor import this_machine
from iosweep.errors import Unanswered
from iosweep.node import cpu_probe


def test_nodes_import_nothing_from_the_directory_that_it_runs_in(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Sequence[str]] = []

    def srun(argv: Sequence[str], **_: object) -> None:
        asked.append(argv)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(cpu_probe, "controller", lambda hosts, ask: None)
    monkeypatch.setattr(this_machine.query, "forget_options", lambda: None)
    monkeypatch.setattr(this_machine.subprocess, "run", srun)
    with pytest.raises(Unanswered, match="srun cannot be run"):
        this_machine._ask(["n1-ib", "n2-ib"], None)
    assert "--nodelist=n1-ib,n2-ib" in asked[0]
    assert asked[0].index("-P") < asked[0].index("-m")
