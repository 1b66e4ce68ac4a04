"""How quickly the page of 10,000 cells shows, filters and pivots in headless Chromium.

    python -m benchmarks.page [--rounds N]      # needs the dev extra (playwright) and /usr/bin/chromium or one on PATH

Times in milliseconds as the page itself measures them; results with their machine stand in docs/results.md.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from runner.report import html
from tests.runner.report import factory

PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
PAINTED = "requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - t)))"
FILTER = (
    """(text) => new Promise(done => { const f = document.getElementById('filter'); const t = performance.now();
  const seen = new MutationObserver(() => { seen.disconnect(); """
    + PAINTED
    + """ });
  seen.observe(document.getElementById('list'), {childList: true, attributes: true});
  f.value = text; f.dispatchEvent(new Event('input')); })"""
)
PIVOT = (
    """() => new Promise(done => { const c = document.getElementById('columns'); const t = performance.now();
  c.value = 'quantization'; c.dispatchEvent(new Event('change')); """
    + PAINTED
    + " })"
)
WORDS = ("tp=8", "method_3 failed", "rocm", "model=model-7 tp=2 float16")


def main() -> None:
    """Print size, first paint, filter and pivot: least and greatest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    text = html(factory.ten_thousand(), lambda _: "line of a log\n" * 2_000)
    print(f"size {len(text.encode()) / 1e6:.1f} MB")
    paint: list[float] = []
    filtered: list[float] = []
    pivot: list[float] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "index.html"
        file.write_text(text, "utf-8")
        chromium = shutil.which("chromium") or "/usr/bin/chromium"
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(rounds):
            page = browser.new_page(viewport={"width": 1360, "height": 1000})
            page.goto(file.as_uri(), wait_until="load")
            page.wait_for_timeout(1500)
            paint.append(page.evaluate(PAINT))
            filtered += [page.evaluate(FILTER, words) for words in WORDS]
            page.evaluate(FILTER, "")
            page.select_option("#rows", "tp")
            pivot.append(page.evaluate(PIVOT))
            page.close()
        print(f"Chromium {browser.version}")
        browser.close()
    for name, values in (("first paint", paint), ("filter", filtered), ("pivot", pivot)):
        print(f"{name} {min(values):.0f} to {max(values):.0f} ms")


if __name__ == "__main__":
    main()
