"""Keeps the file `rates` while commands run (results/current_rates.py): who watches reads it, and asks nobody.

A thread writes, so that results which do not answer delay no measurement. The file is not synced: it is worth nothing
after a crash.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from iosweep.files import safe_paths
from iosweep.hostlist import hosts as named
from iosweep.results import current_rates
from iosweep.results.current_rates import CurrentRates, NodeRates
from iosweep.run.remote import RemoteAgents
from iosweep.tools import Step

#: Minimum interval between two versions of the file.
_EVERY_S = 1.5
#: Time limit for the last write to end.
_END_S = 1.0


@dataclass(frozen=True)
class Heard:
    """The rates of a node, and when they arrived (monotonic)."""

    at_s: float
    rates: NodeRates


def recent(heard: Mapping[str, Heard], now_s: float) -> dict[str, NodeRates]:
    """Those that are still true, by host. Pure."""
    return {
        host: one.rates
        for host, one in sorted(heard.items())
        if now_s - one.at_s <= current_rates.longest_s(one.rates.over_s)
    }


class RateFile:
    """The file of one allocation; a context manager. `begin` and `running` say what is measured, `heard` brings
    rates. None of them waits or raises."""

    def __init__(self, results: Path, allocation: str) -> None:
        self._results, self._allocation = results, allocation
        self._point, self._repetition, self._phases = "", 1, ""
        self._hosts: Sequence[str] = ()
        self._began = self._written_s = 0.0
        self._heard: dict[str, Heard] = {}
        self._writer: _Writer | None = None

    def __enter__(self) -> RateFile:
        return self

    def __exit__(self, *_: object) -> None:
        if self._writer:
            self._writer.end()

    def begin(self, point: str, repetition: int) -> None:
        """A repetition begins to be measured."""
        self._point, self._repetition = point, repetition

    @contextlib.contextmanager
    def running(self, hosts: Sequence[str], phases: Sequence[str] = ()) -> Iterator[None]:
        """While a command runs on some hosts. `phases`: none if it prepares a data set."""
        self._hosts, self._phases, self._began = hosts, ", ".join(phases), time.time()
        try:
            yield
        finally:  # its rates are not those of now any longer
            self._hosts = ()
            if self._heard and self._writer:
                self._writer.write(None)
            self._heard.clear()

    def heard(self, host: str, rates: object) -> None:
        """Take the rates of a host, as JSON has them."""
        if host not in self._hosts:  # of a command that has ended
            return
        with contextlib.suppress(msgspec.ValidationError):
            self._heard[host] = Heard(time.monotonic(), msgspec.convert(rates, NodeRates))
            self._write()

    def _write(self) -> None:
        now_s = time.monotonic()
        if now_s - self._written_s < _EVERY_S:
            return
        self._written_s = now_s
        nodes = recent(self._heard, now_s)
        try:
            text = current_rates.encode(
                CurrentRates(
                    allocation=self._allocation,
                    point=self._point,
                    repetition=self._repetition,
                    phases=self._phases,
                    began=self._began,
                    at=time.time(),
                    expected=len(self._hosts),
                    nodes=nodes,
                    silent=named(set(self._hosts) - nodes.keys()),
                )
            )
            self._writer = self._writer or _Writer(self._results)
        except RuntimeError:  # no thread can be started
            return
        self._writer.write(text)


@dataclass(frozen=True)
class FirstNode:
    """What the runner does while a command runs (agent.Meanwhile): it takes the rates of its node and of the others."""

    file: RateFile
    host: str
    remote: RemoteAgents | None = None

    def heard(self, rates: object) -> None:
        self.file.heard(self.host, rates)

    def idle(self) -> None:
        if self.remote:
            self.remote.drain()


def first_node(rates: RateFile | None, hosts: Sequence[str], remote: RemoteAgents | None = None) -> FirstNode | None:
    """None where no rates are kept."""
    return FirstNode(rates, hosts[0], remote) if rates and hosts else None


def shown(rates: RateFile | None, hosts: Sequence[str], step: Step | None) -> contextlib.AbstractContextManager[None]:
    """While the command of a step runs, or (None) one that prepares a data set."""
    phases = [phase.name for phase in step.phases] if step else ()
    return rates.running(hosts, phases) if rates else contextlib.nullcontext()


class _Writer:
    """A thread that writes the newest text; what it did not get to is left out."""

    def __init__(self, results: Path) -> None:
        self._results = results
        self._news = threading.Condition()
        self._text: bytes | None = None
        self._new = self._over = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, text: bytes | None) -> None:
        """None to remove the file."""
        with self._news:
            self._text, self._new = text, True
            self._news.notify()

    def end(self) -> None:
        with self._news:
            self._over = True
            self._news.notify()
        self._thread.join(_END_S)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._new or self._over)
                if not self._new:
                    return
                text, self._new = self._text, False
            with contextlib.suppress(OSError):  # a full disk, or none: it is only for who watches
                replace(self._results, text)


def replace(results: Path, text: bytes | None) -> None:
    """Replace the file at once, without a sync; None removes it. Raises OSError."""
    with safe_paths.folder(results) as place:
        if text is None:
            place.remove(current_rates.NAME)
        else:
            place.write(current_rates.NAME, text, synced=False)
