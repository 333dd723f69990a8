"""Collects the lines of one IOR run while its file is read."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from iosweep.tools.ior import text_before_3_2
from iosweep.tools.ior.records import MIXED, Layout, Result, Run, Total

#: What IOR prints of its launch, and not of what it runs.
OF_THE_LAUNCH = {"Command line", "TestID", "Began", "Machine", "StartTime", "Finished"}


@dataclass
class Segment:
    """A run while its lines are read. `last`: the last line that was its own."""

    layout: Layout
    first: int
    last: int
    run: Run
    test: str = "0"
    results: list[Result] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    old_layout: bool | None = None  # that of IOR 3.1 and earlier; None: no line was there that differs
    begun: int | None = None  # of the old layout: the number in `Test 0 started`
    over: bool = False  # IOR said that it finished

    def option(self, name: str, value: str) -> None:
        """Take what the run says of itself; twice and otherwise is a problem."""
        if self.options.setdefault(name, value) != value:
            self.problems.append(f"says both {name} {self.options[name][:80]} and {value[:80]}: {MIXED}")

    def has_layout(self, old_layout: bool) -> None:
        """Take that a line was there that only the old layout has, or only the new one."""
        if self.old_layout not in (None, old_layout):
            self.problems.append(f"has lines of IOR 3.1 and earlier and of later versions: {MIXED}")
        self.old_layout = old_layout if self.old_layout is None else self.old_layout

    def made(self, mixed: bool) -> Run:
        """The run as read, not judged yet."""
        if mixed:
            self.problems.append(MIXED)
        if self.layout == "table" and text_before_3_2.TOO_OLD.match(self.run.version or ""):
            self.problems.insert(0, f"the layout of IOR {self.run.version} is not read (3.0 and later are)")
        lost = [name for name in text_before_3_2.NEEDED if name not in self.options]
        if lost and self.results and (self.old_layout or text_before_3_2.RELEASES.fullmatch(self.run.version or "")):
            self.problems.append(f"the layout of IOR 3.1 and earlier is not whole: no {', '.join(lost)}")
        if self.layout == "table" and self.results and not set(self.options) - OF_THE_LAUNCH:
            self.problems.append("a table without the options that IOR prints above it: what ran is not told")
        command = self.options.get("Command line")
        return replace(
            self.run, command=self.run.command or command, options={**self.run.options, **self.options},
            results=self.run.results + tuple(self.results), totals=self.run.totals + tuple(self.totals),
            old=bool(self.old_layout), problems=self.run.problems + tuple(dict.fromkeys(self.problems)),
        )  # fmt: skip
