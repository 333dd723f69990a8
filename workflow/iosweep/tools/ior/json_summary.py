"""IOR's JSON: nested by iteration in 3.3, a flat list without iterations from 4.0 on."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from iosweep.tools.ior.records import OPERATIONS, Printed, Printout, Result
from iosweep.tools.ior.text import MIB

_START = re.compile(r'^\{[ \t]*\r?\n(?=[ \t]*"Version")', re.MULTILINE)
#: What the summary has for figures of iterations that were not run (-T).
_NO_NUMBER = re.compile(r'(?<=": )-?nan(?=[ ,\r\n])')
#: without these figures cannot be judged
_NEEDED = (
    "transferSize", "blockSize", "segmentCount", "deadlineForStonewall", "readFile", "writeFile", "tasks",
    "repetitions",
)  # fmt: skip


def pieces(text: str) -> Iterator[str | list[Printout]]:
    """The text in order, with the runs of each JSON document in its place. A damaged document is a run without
    results, and is skipped up to the next one."""
    at, text = 0, _NO_NUMBER.sub("null", text)
    while start := _START.search(text, at):
        yield text[at : start.start()]
        try:
            document, at = _DECODER.raw_decode(text, start.start())
            yield _runs(document)
        except (ValueError, RecursionError) as error:
            following = _START.search(text, start.end())
            at = following.start() if following else len(text)
            yield [Printout("json", problems=[_why(text[start.start() : at], error)])]
    yield text[at:]


class _UnlikeError(ValueError):
    """What is not as IOR writes it; the message is for the user."""


def _no_figure(text: str) -> None:
    raise ValueError(f"{text} is not a figure")


_DECODER = json.JSONDecoder(parse_float=Printed.of, parse_constant=_no_figure)


def _why(damaged: str, error: Exception) -> str:
    if '"Finished"' not in damaged:
        return "the JSON is cut: the run did not end"
    if re.search(r'"verbose": [1-9]', damaged):
        return "the JSON is damaged: IOR 4.0 with -v writes it invalid"
    return f"the JSON is damaged (a quote in a path makes it so, too): {str(error)[:120]}, from its beginning on"


def _runs(document: Any) -> list[Printout]:
    """The tests of a document. What is not as IOR writes it is a problem of the run."""
    try:
        if not document["tests"] or not document["Finished"]:
            raise _UnlikeError("no tests, or not finished")
        return [_test(document, test) for test in document["tests"]]
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError) as error:
        lacking = "a value is not of the kind that IOR writes there"
        if isinstance(error, _UnlikeError | KeyError):
            lacking = str(error.args[0])
        return [Printout("json", problems=[f"the JSON lacks what is expected: {lacking}"[:200]])]


def _test(document: dict[str, Any], test: dict[str, Any]) -> Printout:
    parameters = {key: str(value) for key, value in test["Parameters"].items()}
    options = {key: str(value) for key, value in test["Options"].items()}
    options |= {key: str(document[key]) for key in ("Began", "Machine", "Finished") if key in document}
    options |= {"StartTime": str(test["StartTime"])} if "StartTime" in test else {}
    if missing := [name for name in _NEEDED if name not in parameters and name not in options]:
        raise _UnlikeError(f"no {', '.join(missing)}")
    results: list[Result] = []
    seen: Counter[str] = Counter()
    for number, entry in enumerate(test["Results"]):
        nested = isinstance(entry, list)
        for one in entry if nested else [entry]:
            if one["access"] == "remove":
                continue
            results.append(_result(one, number if nested else seen[one["access"]]))
            seen[one["access"]] += 1
    return Printout(
        "json",
        version=str(document["Version"]) or None,
        command=str(document.get("Command line") or "") or None,
        options=options,
        parameters=parameters,
        results=results,
        over=True,
    )


def _result(entry: dict[str, Any], iteration: int) -> Result:
    def printed(name: str, scale: float = 1.0) -> Printed:
        if not isinstance(value := entry[name], Printed):
            raise _UnlikeError(f"{str(value)[:40]} is not a figure")
        return value.times(scale)

    if entry["access"] not in OPERATIONS:
        raise _UnlikeError(f"unknown access {str(entry['access'])[:40]}")
    return Result(
        access=entry["access"],
        iteration=iteration,
        bandwidth_bytes_per_s=printed("bwMiB", MIB),
        ops_per_s=printed("iops"),
        block_bytes=printed("blockKiB", 1024.0),
        transfer_bytes=printed("xferKiB", 1024.0),
        open_s=printed("openTime"),
        io_s=printed("wrRdTime"),
        close_s=printed("closeTime"),
        total_s=printed("totalTime"),
    )
