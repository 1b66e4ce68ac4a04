"""The page's script in a real browser: a deep link opens the cell with its proof, and nothing is thrown or blocked."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from runner.report import html
from tests.runner.report import factory as make
from tests.runner.report.test_report_page import hostile_run

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium on PATH: the page's script was not run")


def dom(page: str, folder: Path, anchor: str = "") -> tuple[str, str]:
    """The document after the script ran, and what the browser logged."""
    file = folder / "index.html"
    file.write_text(page, "utf-8")
    flags = "--headless --no-sandbox --disable-gpu --disable-background-networking --no-first-run --enable-logging=stderr"
    argv = [
        CHROMIUM,
        *flags.split(),
        f"--user-data-dir={folder}/profile",
        "--dump-dom",
        file.as_uri() + anchor,
    ]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=100, check=True)
    return done.stdout, "\n".join(line for line in done.stderr.splitlines() if "CONSOLE" in line)


def opened(document: str) -> str:
    """The text of the open dialog."""
    found = re.search(r"<dialog[^>]* open=.*?</dialog>", document, re.DOTALL)
    assert found
    return re.sub(r"<[^>]+>", " ", found[0])


def test_a_deep_link_opens_a_green_cell_with_its_proof(tmp_path: Path) -> None:
    document, console = dom(
        html(make.run(), lambda _: None), tmp_path, f"#cell-{make.short(2, 'quark_int8').slug}"
    )
    assert console == ""
    text = " ".join(opened(document).split())
    for part in (
        "✓ passed platform=cpu,dtype=bfloat16,tp=2,quantization=quark_int8",
        "engine vllm 0.32.0",
        "tensor parallel 2 2, 2 ranks reported",
        "log-probability distance at most 0.01 0.0013",
        "1 of 2 QuarkW8A8Int8MoEMethod int8 zentorch cpu",
        "ready 15 s",
        "Attempt 1: ✓ passed Exit code 0 Tests 9 tests, 9 passed",
        "--cell platform=cpu,dtype=bfloat16,tp=2,quantization=quark_int8 --runtime docker",
    ):
        assert part in text
    assert "null" not in text
    assert "undefined" not in text


def test_a_deep_link_opens_a_left_out_cell_with_its_reasons(tmp_path: Path) -> None:
    slug = make.cell("platform=rocm,dtype=bfloat16,tp=1,quantization=experts_int8").slug
    document, console = dom(html(make.mixed(), lambda _: None), tmp_path, f"#cell-{slug}")
    assert console == ""
    text = opened(document)
    assert "no AMD device: /dev/kfd is missing" in text
    assert "experts_int8 is not qualified on rocm (matrix.yaml:29)" in text


def test_e07_hostile_text_stays_text_in_the_browser(tmp_path: Path) -> None:
    run = hostile_run()
    document, console = dom(html(run, lambda _: "log"), tmp_path, f"#cell-{run.records[0].cell.slug}")
    assert console == ""
    assert "<img" not in document
    assert document.count("<script") == html(run, lambda _: "log").count("<script")
    assert "onerror=alert(2)" in opened(document)


def test_a_pivot_by_any_two_axes_never_hides_a_red(tmp_path: Path) -> None:
    document, console = dom(html(make.mixed(), lambda _: None), tmp_path, "#pivot=dtype,quantization")
    assert console == ""
    table = document[document.index('<table class="pivot">') :].split("</table>", 1)[0]
    rows = [re.findall(r"<button.*?</button>", row) for row in table.split("<tr>")[2:]]
    assert [len(row) for row in rows] == [4, 4, 4]
    said = [[re.sub(r"<[^>]+>", "|", slot) for slot in row] for row in rows]
    assert "↓ 1 fell back" in said[0][1]
    assert "⊘ 1 refused" in said[0][1]
    assert "✗ 1 failed" in said[0][2]
    assert "✓ 1 passed" in said[0][2]
    assert [re.findall(r'class="on (\w+)"', slot)[0] for slot in rows[0]] == ["good", "bad", "bad", "bad"]
    assert [re.findall(r'class="on (\w+)"', slot)[0] for slot in rows[2]] == ["good", "bad", "bad", "bad"]
    for word in ("3 passed", "1 failed", "1 fell back", "1 refused", "18 excluded", "48 not runnable"):
        assert word in said[2][3]


def test_a_cell_that_died_says_in_which_phase(tmp_path: Path) -> None:
    run = make.run()
    first = run.records[0]
    cut = replace(make.evidence(first.cell), ended=False, phase="load", phases={"import": 6.2})
    died = replace(first, attempts=(replace(first.attempts[0], evidence=cut),))
    page = html(replace(run, records=(died, *run.records[1:])), lambda _: None)
    document, console = dom(page, tmp_path, f"#cell-{first.cell.slug}")
    assert console == ""
    assert "the cell ended during load" in opened(document)
