"""`iosweep watch`: draw the progress of a campaign from snapshots (snapshot.py)."""

from __future__ import annotations

import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from dataclasses import asdict

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.progress_bar import ProgressBar
from rich.text import Text

from iosweep.commands import campaigns
from iosweep.commands.safe_console import SafeConsole
from iosweep.commands.terminal import facts, to_json, working
from iosweep.commands.watch.snapshot import Campaign, Figure, Seen, Snapshot
from iosweep.hostlist import hosts
from iosweep.text import human_count, shortened
from iosweep.units import human_duration, human_rate, local_time

#: Minimum refresh interval in seconds; after a slow look, ten times its duration.
EVERY_S = 2.0
_DAY_S = 86400
#: Maximum number of phases of the newest results.
_ROWS = 10
_STYLES = {"valid": "green", "suspect": "yellow", "invalid": "red", "missing": "bright_black"}
_STATES = {"measuring": "bold green", "waiting": "cyan", "refused": "bold red", "stopped": "yellow"}


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("campaign", help=campaigns.NAMED)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--once", action="store_true", help="print the progress once, also on a terminal")
    form.add_argument("--json", action="store_true", help="print the progress once, as JSON")


def run(arguments: Namespace) -> int:
    """Show progress until the campaign ends, or Ctrl-C. Without a terminal, print it once."""
    if (results := campaigns.find_begun(arguments.campaign)) is None:
        return 1
    campaigns.refuse_ingested(results, "it has no plan, and nothing is measured")
    campaign, console = Campaign(results), SafeConsole()
    if arguments.json:
        snapshot = campaign.look()
        document = asdict(snapshot) | {"to_go_s": snapshot.to_go_s, "over": snapshot.over}
        sys.stdout.write(to_json(document))
    elif arguments.once or not console.is_terminal:
        with console.capture() as captured:
            console.print(Group(*draw(campaign.look(), bars=False)))
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))
    else:
        _live(campaign, console)
    return 0


def _live(campaign: Campaign, console: Console) -> None:
    try:
        with working("reading the store ..."):  # of 100,000 results it takes a while
            snapshot, took_s = campaign.look(), 0.0
        with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(Group(*draw(snapshot)), refresh=True)
                if snapshot.over:
                    return
                time.sleep(max(EVERY_S, 10 * took_s))
                began = time.monotonic()
                snapshot = campaign.look()
                took_s = time.monotonic() - began
    except KeyboardInterrupt:
        return


def draw(snapshot: Snapshot, bars: bool = True) -> Iterator[RenderableType]:
    """A snapshot for a person, for any width of terminal."""
    head = Text.assemble((snapshot.campaign, "bold"), f" on {snapshot.target}" if snapshot.target else "")
    head.append(f"  {local_time(snapshot.now):%H:%M:%S}", style="dim")
    yield head
    for wrong in snapshot.wrong:
        yield Text(wrong, style="yellow")
    if snapshot.plan is None:
        if not snapshot.wrong:
            yield Text(f"there is no plan in {snapshot.results} yet; snakemake writes it first")
        return
    for allocation in snapshot.allocations:
        yield from _allocation(allocation, snapshot.now, bars)
    yield Text()
    yield _facts(snapshot)
    if snapshot.newest:
        yield Text("\nnewest results", style="italic")
        yield _newest(snapshot)


def _allocation(a: Seen, now: float, bars: bool) -> Iterator[RenderableType]:
    total = a.repetitions_done + a.repetitions_left + a.repetitions_missing
    line = Text.assemble((human_count(a.nodes, "node"), "bold"), ": ")
    measured = f"{a.repetitions_done:,} of {human_count(total, 'repetition')} measured"
    line.append(measured if total else "nothing to measure: its ramps do not need it")
    if a.repetitions_missing:
        line.append(f", {a.repetitions_missing:,} missing", style=_STYLES["missing"])
    if a.repetitions_left:
        line.append(f", {a.repetitions_left:,} left, about {human_duration(a.to_go_s)} to go")
    yield line
    if bars and a.repetitions_left:
        yield Padding(ProgressBar(total=total, completed=a.repetitions_done, width=40), (0, 0, 0, 2))
    yield Padding(Text.assemble((a.state, _STATES.get(a.state, "")), _state(a, now)), (0, 0, 0, 2))


def _state(a: Seen, now: float) -> str:
    """The text after the state."""
    parts = []
    if a.hosts:
        parts.append(f" on {hosts(a.hosts)}")
    if a.since is not None:
        parts.append(f" since {clock(a.since, now)}")
    if a.ends is not None:
        parts.append(f", until {clock(a.ends, now)} at the latest")
    if a.why:
        parts.append(f": {a.why}" if parts or a.state != "measuring" else f" by {a.why}")
    if a.starts is not None and a.state == "waiting":
        parts.append(f"; Slurm expects it to begin at {clock(a.starts, now)}")
    if a.job:
        parts.append(f" (job {a.job})")
    if a.state == "measuring" and a.ends is not None and now + a.to_go_s > a.ends:
        parts.append("; it will not finish by then, another job continues")
    return "".join(parts)


def clock(moment: float, now: float) -> str:
    """A time of day, with its date if it is not near."""
    there = local_time(moment)
    return f"{there:%H:%M}" if abs(moment - now) < _DAY_S / 2 else f"{there:%F %H:%M}"


def _facts(s: Snapshot) -> RenderableType:
    table = facts()
    if len(s.allocations) > 1 and s.to_go_s:
        table.add_row("in all", f"about {human_duration(s.to_go_s)} to go, plus the time that jobs wait")
    verdicts = Text(", ").join(
        Text(f"{count:,} {verdict}", style=_STYLES.get(verdict, "") if count else "")
        for verdict, count in s.verdicts.items()
        if verdict != "missing"
    )
    table.add_row("repetitions", verdicts)
    for reason, repetitions in s.reasons.items():
        table.add_row("", Text(f"{repetitions:,}: {shortened(reason, 200)}"))
    for reason, repetitions in s.missing.items():
        missing = f"{repetitions:,} missing: {shortened(reason, 200)}"
        table.add_row("", Text(missing, style=_STYLES["missing"]))
    if s.limit_s is not None:
        table.add_row("limits.time", f"{human_duration(s.spent_s)} of {human_duration(s.limit_s)} spent")
    return table


def _newest(s: Snapshot) -> RenderableType:
    table = facts()
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=True)
    before = None
    for f in s.newest[:_ROWS]:
        # without the hash at its end
        name = f"{f.point.rpartition('.')[0]} r{f.repetition}"
        first = ("", "") if (f.point, f.ended) == before else (clock(f.ended, s.now), name)
        table.add_row(*first, f.phase, _figure(f), Text(f.verdict, style=_STYLES.get(f.verdict, "")))
        before = f.point, f.ended
    return table


def _figure(f: Figure) -> str:
    return "no figure" if f.value is None else human_rate(f.value, f.metric == "bandwidth_bytes_per_s")
