"""`iosweep history`: campaigns of one configuration over time, as nightly runs make them."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Sequence
from pathlib import Path

from iosweep.analysis import formats
from iosweep.analysis import history as words
from iosweep.analysis.changes import Changed
from iosweep.analysis.history import History, Line, Night, groups, history, night, unlike
from iosweep.commands import campaigns
from iosweep.commands.report import write_output
from iosweep.commands.terminal import Printer, prose, say, table, to_json
from iosweep.errors import CommandError
from iosweep.text import human_count, some

#: The smallest loss that matters, as a share, where nothing is said.
_AT_LEAST = 0.03
#: Exit code where there is nothing that compares.
_NOT_COMPARABLE = 2
_NAMED = 3
#: Campaigns that are named for one reason why they are left out.
_NAMED_LEFT_OUT = 20


def add_arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "campaign",
        nargs="+",
        metavar="DIR",
        help=f"{campaigns.NAMED}; or a directory that has such results",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON, in SI units")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write a page that opens without a network")
    parser.add_argument(
        "--at-least",
        type=campaigns.share,
        metavar="SHARE",
        default=_AT_LEAST,
        help="the smallest loss that matters; default: 3%%",
    )
    parser.add_argument(
        "--fail-on",
        choices=("regression",),
        help="exit with 1 if the last change of a headline was a loss that matters",
    )


def run(arguments: Namespace) -> int:
    """Exit codes: 0 shown; 1 what `--fail-on` names was found; 2 nothing compares."""
    nights, skipped = _nights(arguments.campaign)
    grouped = groups(nights)
    usable = [own for own in grouped if len(own) > 1]
    for line in skipped:
        say(line, file=sys.stderr)
    if not usable:
        raise CommandError(_nothing(grouped), _NOT_COMPARABLE)
    for line in _left_out(grouped, usable[0]):
        say(line, file=sys.stderr)
    found = history(usable[0], arguments.at_least)
    if arguments.html:  # first: whoever reads the text may stop before its end
        write_output(arguments.html, lambda: _page(found), _NOT_COMPARABLE)
    if arguments.json:
        sys.stdout.write(to_json(_document(found)))
    else:
        _show(found)
    if arguments.html and not arguments.json:
        prose(f"\npage: {arguments.html}")
    return int(arguments.fail_on == "regression" and bool(found.regressions))


def _nights(names: Sequence[str]) -> tuple[list[Night], list[str]]:
    """The campaigns that were named, and sentences on those that cannot be used."""
    nights: list[Night] = []
    skipped = []
    paths = [path for name in names for path in campaigns.find_all(name, _NOT_COMPARABLE)]
    for results in dict.fromkeys(paths):
        try:
            campaign = campaigns.load_tables(results)
        except CommandError as error:
            skipped.append(f"left out: {error}")
        else:
            one = night(results.name, campaign)
            if isinstance(one, str):
                skipped.append(f"left out: {results}: {one}")
            else:
                nights.append(one)
    return nights, skipped


def _left_out(grouped: Sequence[Sequence[Night]], chosen: Sequence[Night]) -> Iterator[str]:
    """Why nights are in no history that is shown, those with the same reason together."""
    reasons: dict[str, list[str]] = {}
    for own in grouped:
        if own is not chosen:
            for one in own:
                reasons.setdefault(unlike(one, chosen[0]), []).append(one.name)
    for why, names in reasons.items():
        yield f"left out: {some(names, _NAMED_LEFT_OUT)}: {why}"


def _nothing(grouped: Sequence[Sequence[Night]]) -> str:
    if not grouped:
        return "none of the campaigns has a measured repetition with a date"
    names = some([own[0].name for own in grouped], _NAMED)
    why = "one campaign is no history" if len(grouped) == 1 else "no two of them measured the same points on one target"
    return f"{why}: {names}"


def _show(found: History) -> None:
    prose(words.sentence(found))
    say("")
    whole = table("headline", "where", "last", "level", wrapped=["headline", "where"])
    for line in found.lines:
        mark = "▼ " if line.regressed else "▲ " if line.steps and line.steps[-1].better else "  "
        whole.add_row(
            mark + line.name,
            formats.brief(line.result),
            formats.quantity(line.last.value, line.units),
            words.level(line),
        )
    Printer().print(whole)
    for line in found.lines:
        for step in line.steps:
            at = words.when(found, step.night)
            prose(f"\n{line.name}, {formats.brief(line.result)}: {words.moved(step)} on {at}, {words.verdict(step)}")
            prose(f"  changed then: {words.changed(step.changed)}")
    if found.without:
        prose(f"\nfewer than two campaigns have a figure: {'; '.join(found.without)}")
    with_steps = {step.night for line in found.lines for step in line.steps}
    own = [index for index in found.marks if index not in with_steps]
    if own:
        last = f"; the last {_NAMED}" if len(own) > _NAMED else ""
        prose(f"\nwhat else was new, in {human_count(len(own), 'campaign')}{last}:")
        for index in own[-_NAMED:]:
            one = found.nights[index]
            prose(f"  {one.began:%Y-%m-%d} {one.name}: {words.changed(found.marks[index])}")


def _document(found: History) -> dict[str, object]:
    """`history --json`: SI units, as in the column names."""
    return {
        "target": found.nights[0].campaign.about.target.directory,
        "sentence": words.sentence(found),
        "campaigns": [
            {"name": one.name, "began": one.began.isoformat(), "changed": _changes(found.marks.get(index, ()))}
            for index, one in enumerate(found.nights)
        ],
        "headlines": [_line(found, line) for line in found.lines],
    }


def _changes(told: Sequence[Changed]) -> list[dict[str, str]]:
    return [{"topic": one.topic, "what": one.what, "before": one.a, "after": one.b} for one in told]


def _line(found: History, line: Line) -> dict[str, object]:
    return {
        "name": line.name,
        "point": line.result.point,
        "phase": line.result.phase,
        "column": line.column,
        "figures": [
            {
                "campaign": found.nights[one.index].name,
                "began": found.nights[one.index].began.isoformat(),
                "mean": one.value,
                "n": one.statistics.n,
                "ci95_low": one.statistics.interval.low if one.statistics.interval else None,
                "ci95_high": one.statistics.interval.high if one.statistics.interval else None,
                "suspect": one.suspect,
            }
            for one in line.figures
        ],
        "changes": [
            {
                "campaign": found.nights[step.night].name,
                "date": f"{found.nights[step.night].began:%Y-%m-%d}",
                "share": step.split.change.share,
                "ci95": list(step.split.change.within()),
                "p": step.split.change.p,
                "verdict": words.verdict(step),
                "changed": _changes(step.changed),
            }
            for step in line.steps
        ],
        "level": {"mean": line.level.center, "ci95_low": line.level.low, "ci95_high": line.level.high}
        if line.level
        else None,
        "regressed": line.regressed,
    }


def _page(found: History) -> bytes:
    from iosweep.report import history_page  # late: most runs write none

    return history_page.render(found).encode()
