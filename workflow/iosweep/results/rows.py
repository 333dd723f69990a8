"""The rows of the result table: those of every stored repetition, and a row for each that is missing.

`row_blocks` has what a repetition says alone. Here repetitions are compared with each other, and what is left is found.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from iosweep.plan.model import Allocation, Plan, Point
from iosweep.results import repeated, row_blocks
from iosweep.results.campaign_documents import Missing, Refusal
from iosweep.results.campaign_tables import CampaignTables
from iosweep.results.columns import NOT_YET
from iosweep.results.committed import Result
from iosweep.results.compared import compared
from iosweep.results.confirming import selection
from iosweep.results.judged_points import Held, JudgedPoints, intact
from iosweep.results.judging import State, base_values, missing, raw_is_damaged
from iosweep.results.origins import Origins
from iosweep.results.precision import Headline
from iosweep.results.remaining import Wanted, still_wanted, wanted
from iosweep.results.repeated import Agreements, Row, Values
from iosweep.results.row_blocks import Companions, Head, Sizes, Span, Stored
from iosweep.results.store import Store
from iosweep.tools.axes import NODES

#: Why there is no result, and what becomes of it.
_Absent = tuple[str, State]

#: Of a plan in which no point depends on the results of others.
_NOTHING = Wanted({}, {}, {})


@dataclass(frozen=True)
class Rows:
    """Writes the rows of a campaign. points: judges them, or has them from before; origins: collects where rows come
    from."""

    plan: Plan
    store: Store
    points: JudgedPoints
    tables: CampaignTables
    origins: Origins
    set_aside: set[str] = field(default_factory=set)  # files of results that were measured again

    def write(self) -> None:
        """Write all rows."""
        refusals, lacking = self.store.documents(Refusal), self.store.missing()
        ramps = {sweep.ramp for sweep in self.plan.sweeps if sweep.ramp}
        depends = ramps or any(point.repetitions.confirm for point in self.plan.points)
        counted: dict[str, Mapping[int, Result]] = {}
        if NODES.name in ramps:  # its steps are in several allocations
            counted = {point.id: self.points.intact(point) for point in self.plan.points}
        for allocation in self.plan.allocations:
            # an allocation is in memory at a time: its points tell how much a phase scatters
            held = self._noted(self.points.of(allocation.points))
            agreements = repeated.agreements(one for own in held for one in _headlines(own))
            numbers = {own.point.id: intact(own.state) for own in held}
            counted |= numbers
            chose = {
                point.id: selection(point, numbers[point.id]) if point.repetitions.confirm else numbers[point.id]
                for point in allocation.points
            }
            choosing = still_wanted(allocation, chose, allocation.points)
            needs = wanted(self.plan, counted, lacking) if depends else _NOTHING
            absent = _absent(allocation, refusals.get(allocation.name), lacking, choosing, needs)
            self._write(held, absent, agreements)
            if not ramps:
                counted.clear()

    def _noted(self, points: Iterable[tuple[Held, Companions]]) -> list[Held]:
        """Points, of which is noted what is damaged and where their rows come from. Their companions are written."""
        found: list[Held] = []
        run: tuple[Companions, Span, Span] | None = None  # rows that are side by side in a block
        for held, companions in points:
            state, folder = held.state, f"{self.store.path}/points/{held.point.id}"
            self.store.damaged.update(state.damaged)
            self.store.replaced.update(state.replaced)
            self.set_aside.update(f"{folder}/{name}" for name in state.aside)
            self.origins.join(state.origins)
            found.append(held)
            if run and run[0] is companions and run[2] == held.begin:
                run = (companions, run[1], held.end)
                continue
            self._companions(run)
            run = (companions, held.begin, held.end)
        self._companions(run)
        return found

    def _companions(self, run: tuple[Companions, Span, Span] | None) -> None:
        if run:
            self.tables.add_companions(row_blocks.companions_part(*run))

    def _write(self, held: Sequence[Held], absent: Mapping[str, Mapping[int, _Absent]], agreements: Agreements) -> None:
        """Write the rows of an allocation. Those that are side by side in a block are written together."""
        run: list[Held] = []
        for own in held:
            lacks = absent.get(own.point.id, {})
            plain = not lacks and own.state.clean and all(one.counts for one in own.state.repetitions)
            if run and not (plain and run[-1].main is own.main and run[-1].end == own.begin):
                self._rows(run, agreements)
                run = []
            if plain:
                run.append(own)
            else:
                self._point(own, lacks, agreements)
        if run:
            self._rows(run, agreements)

    def _rows(self, run: Sequence[Held], agreements: Agreements) -> None:
        """Write the rows of points that lack nothing."""
        known = [(own.point.id, head) for own in run for head in own.state.heads]
        self.tables.add_compared(
            compared(row_blocks.main_part(run[0].main, run[0].begin, run[-1].end), known, agreements)
        )

    def _point(self, held: Held, absent: Mapping[int, _Absent], agreements: Agreements) -> None:
        """Write the rows of a point. absent: its repetitions without a result that counts."""
        point, base = held.point, base_values(self.plan, held.point)
        results = row_blocks.results(held.state)
        at, heads = held.begin, iter(held.state.heads)
        for stored in held.state.repetitions:
            known = list(islice(heads, stored.rows))
            end = at.after(Sizes(stored.rows, sum(head is not False for head in known)))
            part = row_blocks.main_part(held.main, at, end)
            self.tables.add_compared(compared(part, [(point.id, head) for head in known], agreements))
            at = end
            for row in self._instead(point, base, stored, results[stored.number], absent):
                self.tables.add(row)
        stored_ones = results.keys()
        if rest := {number: found for number, found in absent.items() if number not in stored_ones}:
            damaged = _damaged(self.store, point.id)
            if stored_ones or damaged:
                for number, (why, state) in rest.items():
                    for row in missing(point, base, number, damaged.get(number) or why, state):
                        self.tables.add(row)
            else:
                for row in missing(point, base, None, *next(iter(rest.values()))):
                    self.tables.add(row)

    def _instead(
        self, point: Point, base: Values, stored: Stored, result: Result, absent: Mapping[int, _Absent]
    ) -> Iterator[Row]:
        """The rows of a stored repetition that does not count, or whose archive is damaged."""
        why, state = absent.get(stored.number, ("", ""))
        if not stored.counts:  # a mean over two builds or two file systems would describe neither
            other = f"measured with another build of {point.tool}, on another target, or with another layout"
            yield from missing(point, base, stored.number, f"{other} or placement", state)
        elif not result.intact:
            again = "the next run measures it again" if state == "left" else why
            reasons = filter(None, (raw_is_damaged(point, result), again))
            yield from missing(point, base, stored.number, "; ".join(reasons), state)


def _absent(
    allocation: Allocation,
    refusal: Refusal | None,
    lacking: Mapping[str, Missing],
    choosing: Mapping[str, Sequence[int]],
    needs: Wanted,
) -> dict[str, dict[int, _Absent]]:
    """point -> its repetitions that are not there, and why. choosing: those of `still_wanted`."""
    later: _Absent = (refusal.reason if refusal else NOT_YET, "left")
    found: dict[str, dict[int, _Absent]] = {}
    for point in allocation.points:
        fresh = [n for n in needs.now.get(point.id, ()) if point.repetitions.confirms(n)]
        lacks, unneeded = lacking.get(point.id), needs.unneeded.get(point.id)
        chooses: _Absent = (unneeded, "unneeded") if unneeded else (lacks.reason, "") if lacks else later
        found[point.id] = dict.fromkeys(choosing.get(point.id, ()), chooses) | dict.fromkeys(fresh, later)
    return found


def _headlines(held: Held) -> Iterator[Headline]:
    """What the rows of a point that count say."""
    point = held.point
    for head in held.state.heads:
        if isinstance(head, Head):
            like = (point.tool, point.nodes)
            yield Headline(point.id, head.phase, head.confirms, like, head.figure, (head.hosts, head.job))


def _damaged(store: Store, point: str) -> dict[int, str]:
    """repetition -> why its result is damaged."""
    found = {}
    for path, reason in store.damaged.items():
        folder, _, name = path.rpartition("/")
        if folder == str(store.point(point)) and (match := re.match(r"r(\d+)-\d+\.json$", name)):
            found[int(match[1])] = f"its result points/{point}/{name} is damaged ({reason}), and is measured again"
    return found
