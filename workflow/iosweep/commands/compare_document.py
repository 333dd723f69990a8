"""`iosweep compare --json`: docs/comparing.md explains each key. SI units, shares as fractions."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, to_builtins

from iosweep.analysis import comparison_words as words
from iosweep.analysis.aggregate import Result
from iosweep.analysis.changes import Changed
from iosweep.analysis.data import Value
from iosweep.analysis.findings import Finding, Verdict
from iosweep.analysis.versus import Side, Versus

#: Raised when a key changes its meaning or goes.
SCHEMA_VERSION = 1


class _Campaign(Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    campaign: str
    target: str
    results_directory: str
    iosweep_version: str


class _Change(Struct, frozen=True, forbid_unknown_fields=True):
    topic: str
    what: str
    first: str
    other: str


class _Figure(Struct, frozen=True, forbid_unknown_fields=True):
    """Of one campaign. n: repetitions that enter the figure, which is their geometric mean."""

    point: str
    verdict: str
    n: int
    figure: float | None


class _Finding(Struct, frozen=True, forbid_unknown_fields=True):
    subject: str
    tool: str
    phase: str
    where: dict[str, Value]
    column: str
    results: int
    first: _Figure | None
    other: _Figure | None
    change_share: float | None
    ci95_low_share: float | None
    ci95_high_share: float | None
    p: float | None
    p_holm: float | None
    verdict: Verdict
    more_repetitions: int | None
    more_sessions: int | None
    sessions: int
    against_rest: bool
    beside_share: float | None
    beside_ci95_low_share: float | None
    beside_ci95_high_share: float | None
    suspect: bool
    why: str


class _Like(Struct, frozen=True, forbid_unknown_fields=True):
    """A campaign of `--like`. results: those that the first campaign has, too; changes: from the first campaign."""

    campaign: _Campaign
    results: int
    changes: list[_Change]


class _Sessions(Struct, frozen=True, forbid_unknown_fields=True):
    """How sessions of the first system differ in a phase."""

    subject: str
    tool: str
    phase: str
    sessions: int
    sd_share: float


class _Absent(Struct, frozen=True, forbid_unknown_fields=True):
    """campaign: the one that has it alone, or that lacks a figure of it."""

    campaign: str
    point: str
    phase: str
    why: str


class _Hint(Struct, frozen=True, forbid_unknown_fields=True):
    ignore: tuple[str, ...]
    conditions: tuple[str, ...]
    results: int


class _Comparison(Struct, frozen=True, forbid_unknown_fields=True):
    first: _Campaign
    other: _Campaign
    sentence: str
    sessions_known: list[str]
    sessions: list[_Sessions] | None
    like: list[_Like]
    changes: list[_Change]
    compared: int
    counts: dict[str, int]
    groups: list[_Finding]
    results: list[_Finding]
    not_compared: list[_Absent]
    hint: _Hint | None
    limits: list[str]


class CompareDocument(Struct, frozen=True, forbid_unknown_fields=True):
    """All that `iosweep compare --json` prints."""

    schema_version: int
    at_least_share: float
    ignored: list[str]
    comparisons: list[_Comparison]


def document(found: Sequence[Versus]) -> object:
    """The comparisons as JSON's own types. There is at least one."""
    first = found[0].found
    ignored = sorted(first.matching.ignored or ())
    return to_builtins(CompareDocument(SCHEMA_VERSION, first.at_least, ignored, list(map(_comparison, found))))


def _comparison(one: Versus) -> _Comparison:
    found = one.found
    absent = [_Absent(one.names[lone.side], lone.result.point, lone.result.phase, lone.why)
              for lone in found.matching.unmatched]  # fmt: skip
    lacking = (_Absent(one.names[side], pair.a.point, pair.a.phase, why) for pair, side, why in found.without)
    return _Comparison(
        first=_campaign(one.a),
        other=_campaign(one.b),
        sentence=words.sentence(found),
        sessions_known=words.sessions_known(one),
        sessions=None
        if found.learned is None
        else [
            _Sessions(words.phase_name(found, own), own.conditions.tool, own.phase, own.sessions, own.sd_share)
            for own in found.learned
        ],
        like=[_Like(_campaign(own.side), own.results, _changes(own.changes)) for own in one.like],
        changes=_changes(one.changes),
        compared=len(found.singles),
        counts={verdict: found.count(verdict) for verdict, _ in words.counted(found.at_least)},
        groups=[_finding(own, one) for own in found.groups],
        results=[_finding(own, one) for own in found.singles],
        not_compared=[*absent, *lacking],
        hint=_Hint(one.hint.differ, one.hint.conditions, one.hint.matched) if one.hint else None,
        limits=list(words.limits(one.a.campaign, one.b.campaign, found)),
    )


def _changes(changes: Sequence[Changed]) -> list[_Change]:
    return [_Change(own.topic, own.what, own.a, own.b) for own in changes]


def _campaign(side: Side) -> _Campaign:
    about = side.campaign.about
    return _Campaign(side.name, about.campaign, about.target.directory, str(side.path), about.iosweep_version)


def _finding(one: Finding, of: Versus) -> _Finding:
    pair, change = one.pairs[0], one.change
    column = of.found.column or pair.a.metric
    low, high = change.within() if change else (None, None)
    least, most = one.beside.within() if one.beside else (None, None)
    return _Finding(
        subject=words.subject(of.found, one),
        tool=pair.a.tool,
        phase=one.phase,
        where=words.parameters_of(of.found, one),
        column=column,
        results=len(one.pairs),
        first=_figure(pair.a, column) if one.single else None,
        other=_figure(pair.b, column) if one.single else None,
        change_share=change.share if change else None,
        ci95_low_share=low,
        ci95_high_share=high,
        p=change.p if change else None,
        p_holm=one.p if change else None,
        verdict=one.verdict,
        more_repetitions=None if one.sessions else one.more,
        more_sessions=one.more if one.sessions else None,
        sessions=one.sessions,
        against_rest=one.against_rest,
        beside_share=one.beside.share if one.beside else None,
        beside_ci95_low_share=least,
        beside_ci95_high_share=most,
        suspect=one.suspect,
        why=one.why,
    )


def _figure(result: Result, column: str) -> _Figure:
    return _Figure(result.point, result.verdict, len(result.values(column)), result.center(column))
