"""The report in Chromium, from a file: how soon something is seen, and how fast the table is filtered."""

from __future__ import annotations

import sys
from pathlib import Path

_FLAGS = ("--headless", "--no-sandbox", "--disable-gpu")
_FILTER = """async words => {
  const begin = performance.now();
  const box = document.getElementById("filter");
  box.value = words;
  box.dispatchEvent(new Event("input"));
  document.body.getBoundingClientRect();
  return performance.now() - begin;
}"""


def measured(report: Path, words: str = "random read 64 KiB") -> tuple[float, float]:
    """Seconds to the first contentful paint, and of a filter with its layout: the upper median of ten.

    Every other one takes the filter away.
    """
    from playwright.sync_api import sync_playwright

    with sync_playwright() as session:
        browser = session.chromium.launch(executable_path="/usr/bin/chromium", args=list(_FLAGS))
        tab = browser.new_page(viewport={"width": 1280, "height": 900})
        tab.goto(report.as_uri())
        tab.wait_for_selector("html[data-drawn]", state="attached", timeout=120_000)
        paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
        times = sorted(tab.evaluate(_FILTER, words if i % 2 else "") for i in range(10))
        browser.close()
    return float(paint) / 1000, float(times[5]) / 1000


if __name__ == "__main__":
    paint, filtered = measured(Path(sys.argv[1]).absolute())
    print(f"first paint {paint:.2f} s, filter {1000 * filtered:.0f} ms")
