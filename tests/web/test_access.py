"""The page for everyone: axe-core finds nothing, keyboard and touch reach all, and every state has an address."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from support.browser import DESKTOP, PHONE, NewPage, capsule_of, open_ask, set_slider, wait_until
from support.explorer_runs import fake_run, serving

from hitnet.core.model import create_model
from hitnet.export import export_html
from hitnet.web.explorer import Explorer

AXE = Path(__file__).parents[2] / ".npm" / "node_modules" / "axe-core" / "axe.min.js"
CALIBRATED = {"**/api/run": {"radii": [0.3] * 10, "coverage": 0.99}}


@pytest.fixture(scope="module")
def axe() -> str:
    if not AXE.is_file():
        reason = "axe-core is missing: make axe (needs npm)"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return AXE.read_text()


def violations(page: Page, axe: str) -> list[str]:
    """What axe-core finds wrong with what is on the page now, one line for each element."""
    page.evaluate(axe)
    found: list[dict[str, Any]] = page.evaluate("axe.run(document).then(result => result.violations)")
    return [f"{rule['id']}: {node['target']} {node['failureSummary']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_wrong_in_any_view(
    new_page: NewPage, address: str, run: Path, tmp_path: Path, axe: str, scheme: str
) -> None:
    options = {"color_scheme": scheme, "bypass_csp": True}
    page = new_page(address, change=CALIBRATED, **options)
    expect(page.locator(".idea .way, .typical img").first).to_be_visible()
    set_slider(page, 0, 0.52)
    page.get_by_role("button", name="capsule").first.focus()
    assert violations(page, axe) == []
    page.goto(f"{address}/#compare")
    expect(page.locator(".same figure")).to_have_count(3)
    assert violations(page, axe) == []
    for verdict in ("sure", "ambiguous", "unknown", None):
        page = open_ask(new_page, address, change={"**/api/example": {"verdict": verdict}}, **options)
        if verdict == "sure":
            page.get_by_label("Test images", exact=True).check(force=True)
            expect(page.locator(".test-tile").first).to_be_visible()
        if verdict == "unknown":
            page.get_by_label("File", exact=True).check(force=True)
            page.evaluate("document.querySelector('.offer').hidden = false")
        assert violations(page, axe) == []
    page = new_page(export_html(run, tmp_path / "page.html").as_uri(), PHONE, **options)
    assert violations(page, axe) == []


def test_axe_finds_nothing_wrong_with_colours_and_a_message(new_page: NewPage, colour_run: Path, axe: str) -> None:
    with serving(Explorer(colour_run)) as url:
        page = open_ask(new_page, url, bypass_csp=True)
        page.evaluate("document.dispatchEvent(new ClipboardEvent('paste', { clipboardData: new DataTransfer() }))")
        expect(page.locator("#messages")).to_contain_text("no picture")
        assert violations(page, axe) == []


# Words


def test_every_term_has_a_sentence_for_mouse_keyboard_touch_and_screen_readers(new_page: NewPage, address: str) -> None:
    page = new_page(address)
    tip = page.locator(".tip")
    expect(page.locator(".idea .way")).to_be_visible()  # comes with the image that it is about
    terms = {str(each.get_attribute("data-term")) for each in page.locator(".term").all()}
    assert terms == {"capsule", "component", "centre", "unit", "hit", "r2"}
    for button in page.locator(".term").all():
        words = page.locator(f"#{button.get_attribute('aria-describedby')}").text_content()
        assert words
        if button.is_visible():
            button.focus()
            expect(tip).to_have_text(words)
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.locator("h1").first.click()
    page.locator(".idea .term").last.hover()
    expect(tip).to_contain_text("Within 0.1 of the centre, the radius of training. This run is not calibrated")
    page.mouse.move(0, 0)
    expect(tip).to_be_hidden()
    phone = new_page(address, PHONE, has_touch=True, is_mobile=True, change=CALIBRATED)
    phone.locator(".idea .term").last.tap()
    expect(phone.locator(".tip")).to_contain_text("99 % of the images of the class")
    box = phone.locator(".tip").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= PHONE["width"]
    phone.locator("h1").first.tap()
    expect(phone.locator(".tip")).to_be_hidden()


def test_only_the_verdict_is_read_aloud(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    live = page.locator("#ask [aria-live]")
    assert [region.get_attribute("class") for region in live.all()] == ["verdict"]
    assert len(live.inner_text()) < 300


def test_names_cannot_turn_the_words_around_them(new_page: NewPage, tmp_path: Path) -> None:
    model = create_model("lenet5-hom", (1, 12, 12), 2, 4, class_names=("שלום", "cat"), width=2)
    with serving(Explorer(fake_run(tmp_path / "words" / "run", model))) as url:
        page = open_ask(new_page, url)
        bare = page.evaluate(
            """() => {
                const walk = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
                // An option and an SVG hold plain text only; the sentences come whole from the server.
                const excused = "bdi, option, svg, .verdict-words, .what-if-words, .what-if-share, .verdict-note";
                const found = [];
                while (walk.nextNode()) {
                    const { data, parentElement } = walk.currentNode;
                    if (/שלום/.test(data) && !parentElement.closest(excused)) found.push(parentElement.outerHTML);
                }
                return found;
            }"""
        )
        assert bare == []
        assert page.locator("bdi", has_text="שלום").count() > 5


def test_the_skip_link_leads_to_the_content_and_keeps_the_view(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    page.locator(".skip").focus()
    expect(page.locator(".skip")).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    expect(page.locator("#ask")).to_be_visible()


def test_high_contrast_keeps_what_is_chosen_apart(new_page: NewPage, address: str) -> None:
    page = new_page(address, forced_colors="active")
    chosen, other = (
        page.locator(f'.class-card[aria-pressed="{pressed}"]').first.evaluate(
            "card => getComputedStyle(card).borderColor"
        )
        for pressed in ("true", "false")
    )
    assert chosen != other
    marked, plain = (
        page.locator(f".segments {state} + span").first.evaluate("span => getComputedStyle(span).outlineStyle")
        for state in ("input:checked", "input:not(:checked)")
    )
    assert (marked, plain) == ("solid", "none")
    assert page.locator(".zone-hit").first.evaluate("zone => getComputedStyle(zone).fill") == "rgb(227, 165, 18)"


# Addresses


def test_class_and_sliders_can_be_linked(new_page: NewPage, address: str, run: Path, tmp_path: Path) -> None:
    for url in (address, export_html(run, tmp_path / "page.html").as_uri()):
        page = new_page(url)
        page.locator(".class-card").nth(4).click()
        set_slider(page, 2, 0.47)
        set_slider(page, 11, 0.53)
        wait_until(page, lambda page=page: page.url.endswith("#prototypes?class=4&moved=2:0.47,11:0.53"))  # type: ignore[misc]
        assert page.title().startswith("Prototype of 4: lenet5-hom on mnist-mini")
        again = new_page(page.url)
        wait_until(again, lambda again=again: capsule_of(again)[11] == 0.53)  # type: ignore[misc]
        assert again.get_attribute(".stage canvas", "data-class") == "4"
        assert capsule_of(again) == capsule_of(page)


def test_an_address_with_nonsense_opens_the_first_class(new_page: NewPage, address: str) -> None:
    for nonsense in ("#prototypes?class=99", "#prototypes?class=x&moved=1:2,-1:0.3,a:b", "#elsewhere?test=1"):
        page = new_page(f"{address}/{nonsense}")
        assert page.get_attribute(".stage canvas", "data-class") == "0"
        assert capsule_of(page) == [0.5] * 16


def test_a_test_image_and_two_runs_can_be_linked_and_every_view_has_its_title(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    page.get_by_label("Test images", exact=True).check(force=True)
    page.locator(".test-tile").nth(5).click()
    expect(page.locator('.answer[data-of="the test image"]')).to_be_visible()
    assert page.url.endswith("#ask?test=5")
    again = new_page(page.url)
    expect(again.locator(".verdict-note")).to_have_text("Test image 5.")
    assert again.title().startswith("Asked: ")
    again.get_by_role("link", name="Compare").click()
    expect(again.locator(".compared")).to_be_visible()
    assert again.url.endswith("#compare?first=mnist-mini%2Flenet5-hom-s0&second=mnist-mini%2Flenet5-s0")
    assert again.title().startswith("Compare runs: ")


# Names


def test_it_is_visible_that_components_can_be_renamed(new_page: NewPage, copied_run: Path, tmp_path: Path) -> None:
    with serving(Explorer(copied_run)) as url:
        page = new_page(url, DESKTOP)
        page.get_by_role("button", name="Rename component 6", exact=True).click()
        expect(page.get_by_label("Name of component 6", exact=True)).to_be_focused()
        page.keyboard.type("slant")
        page.keyboard.press("Enter")
        page.wait_for_selector(".component-name[data-kept]")
    assert json.loads((copied_run / "component-names.json").read_text()) == {"0": {"6": "slant"}}
    page = new_page(export_html(copied_run, tmp_path / "page.html").as_uri())
    assert page.locator(".pencil").count() == 0
