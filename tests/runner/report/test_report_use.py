"""The page as a person uses it, driven in Debian's Chromium through Playwright: keyboard, filter, dialog, dark, print."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runner.report import html
from tests.runner.report import factory as make

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or ""

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="no chromium on PATH: the page was not used")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Iterator[Any]:
    file = tmp_path / "index.html"
    file.write_text(html(make.mixed(), lambda _: "a log line"), "utf-8")
    opened = browser.new_page(viewport={"width": 1300, "height": 1000})
    errors: list[str] = []
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.goto(file.as_uri())
    yield opened
    opened.close()
    assert errors == []


def test_slash_goes_to_the_filter_and_words_narrow_the_list(page: Any) -> None:
    page.keyboard.press("/")
    page.keyboard.type("failed platform=cpu")
    # Locators and no script to poll: the page's own policy forbids evaluating one.
    page.locator("#list").get_by_text("failed").first.wait_for()
    page.locator("#list").get_by_text("passed").first.wait_for(state="hidden")
    assert page.evaluate("document.activeElement.id") == "filter"
    assert page.locator("#list").is_visible()


def test_a_cell_opens_by_click_and_closes_by_escape(page: Any) -> None:
    page.locator("#blocks a.on.bad:visible").first.click()
    page.wait_for_selector("dialog#cell[open]")
    assert "--cell" in page.locator("dialog#cell").inner_text()
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog#cell[open]", state="hidden")


def test_the_keyboard_alone_reaches_a_cell(page: Any) -> None:
    page.locator("#blocks a.on:visible").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog#cell[open]")
    assert "platform=" in page.locator("dialog#cell").inner_text()


def test_dark_and_light_follow_the_reader(page: Any) -> None:
    backgrounds = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        backgrounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert backgrounds[0] != backgrounds[1]


def test_print_shows_every_red_cell_and_no_tools(page: Any) -> None:
    page.emulate_media(media="print")
    assert page.locator("#red").is_visible()
    assert not page.locator("#filter").is_visible()


def test_a_narrow_screen_does_not_scroll_sideways(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
