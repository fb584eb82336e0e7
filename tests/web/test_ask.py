"""The view Ask as a person uses it: an answer from the start, the pad, files of any kind, and what is told of them."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw
from playwright.sync_api import Page, expect
from support.browser import PHONE, NewPage, canvas_bytes, draw_stroke, open_ask
from support.explorer_runs import fake_run, serving

from hitnet.core.model import create_model
from hitnet.data import load_dataset, to_float
from hitnet.web.explorer import Explorer

CALIBRATED = {"**/api/run": {"radii": [round(0.2 + 0.01 * index, 2) for index in range(10)], "coverage": 0.99}}


def seven(ink: int, paper: int, size: tuple[int, int] = (300, 220)) -> bytes:
    """A 7 in the upper left of a picture, as a PNG."""
    image = Image.new("L", size, paper)
    ImageDraw.Draw(image).line([(20, 25), (90, 25), (50, 130)], fill=ink, width=14, joint="curve")
    content = io.BytesIO()
    image.save(content, "PNG")
    return content.getvalue()


def give_file(page: Page, content: bytes, name: str = "seven.png") -> None:
    page.get_by_label("File", exact=True).check(force=True)
    page.set_input_files(".file-input", {"name": name, "mimeType": "image/png", "buffer": content})
    expect(page.locator(f'.answer[data-of="{name}"]')).to_be_visible()


def seen(page: Page) -> np.ndarray[Any, Any]:
    """The image as the network sees it, in bytes of grey."""
    return canvas_bytes(page, ".seen")[:, :, 0].astype(int)


# An answer from the start


def test_it_opens_with_the_answer_about_a_test_image(new_page: NewPage, address: str, explorer: Explorer) -> None:
    page = open_ask(new_page, address)
    test = load_dataset("mnist-mini").test
    expect(page.locator(".verdict-title")).to_have_text(str(int(explorer.model.predict(to_float(test.images[:1])))))
    expect(page.locator(".verdict-note")).to_have_text("Test image 0.")
    assert (seen(page) == test.images[0, 0].numpy()).all()


@pytest.mark.parametrize("real", [True, False])
def test_without_test_images_it_opens_with_a_real_picture_or_a_prototype(
    new_page: NewPage, copied_run: Path, real: bool
) -> None:
    settings = json.loads((copied_run / "args.json").read_text())
    (copied_run / "args.json").write_text(json.dumps(settings | {"data": "gone.npz", "no_exemplars": not real}))
    with serving(Explorer(copied_run)) as url:
        page = open_ask(new_page, url)
        words = "A training image." if real else "The prototype of 0, drawn by the network."
        expect(page.locator(".verdict-note")).to_have_text(words)
        assert page.locator("#messages").inner_text() == ""


def test_the_image_becomes_numbers_that_land_on_the_target(new_page: NewPage, address: str, explorer: Explorer) -> None:
    page = open_ask(new_page, address)
    image = to_float(load_dataset("mnist-mini").test.images[:1])
    capsules = explorer.model.all_capsules(image)[0]
    index = int(explorer.model.predict(image))
    units = (capsules[index] - 0.5) / explorer.model.head.unit
    bars = page.locator(".asked-way .bars rect")
    expect(bars).to_have_count(16)
    heights = torch.tensor([float(bar.get_attribute("height") or "") for bar in bars.all()])
    assert int(heights.argmax()) == int(units.abs().argmax())
    assert torch.allclose(heights / heights.max(), (units.abs() / units.abs().max()).clamp(min=0.5 / 46), atol=0.02)
    distance = float((capsules[index] - 0.5).norm())
    expect(page.locator(".asked-way")).to_contain_text(f"{distance:.3f} from the centre of {index}")


# The pad


def test_the_pad_asks_for_digits_only_where_the_classes_are(new_page: NewPage, address: str, tmp_path: Path) -> None:
    expect(open_ask(new_page, address).locator(".pad-words")).to_have_text("Draw a digit")
    model = create_model("lenet5-hom", (3, 16, 16), 2, 4, class_names=("a cat", "a dog"), width=2)
    with serving(Explorer(fake_run(tmp_path / "pets" / "run", model))) as url:
        page = open_ask(new_page, url)
        expect(page.locator(".pad-words")).to_have_text("Draw here")
        names = [swatch.get_attribute("aria-label") for swatch in page.locator(".swatch").all()]
        assert names == ["white", "black", "red", "yellow", "green", "blue", "purple", "brown"]


def test_undo_takes_back_a_stroke_and_clear_the_answer_too(new_page: NewPage, address: str) -> None:
    def drawn() -> str:
        return str(page.eval_on_selector(".pad", "pad => pad.toDataURL()"))

    page = open_ask(new_page, address)
    empty = drawn()
    undo, clear = (page.get_by_role("button", name=name, exact=True) for name in ("Undo", "Clear"))
    expect(undo).to_be_disabled()
    draw_stroke(page, (0.5, 0.2), (0.5, 0.8))
    expect(page.locator(".pad-words")).to_be_hidden()
    first = drawn()
    draw_stroke(page, (0.2, 0.5), (0.8, 0.5))
    assert drawn() != first
    undo.click()
    assert drawn() == first
    expect(page.locator('.answer[data-of="the drawing"]')).to_be_visible()
    clear.click()
    assert drawn() == empty
    expect(page.locator(".answer")).to_be_hidden()
    expect(page.locator(".no-answer")).to_be_visible()
    draw_stroke(page, (0.5, 0.2), (0.5, 0.8))
    expect(page.locator(".answer")).to_be_visible()
    undo.click()
    expect(page.locator(".answer")).to_be_hidden()


# Files


def test_dark_ink_on_white_is_noticed_and_inverting_it_makes_it_a_seven(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    expect(page.locator(".offer")).to_be_hidden()
    give_file(page, seven(ink=20, paper=240))
    expect(page.locator(".offer")).to_contain_text("The background of this picture is light")
    page.get_by_role("button", name="Invert it", exact=True).click()
    expect(page.locator(".verdict-title")).to_have_text("7")
    expect(page.locator(".verdict-note")).to_contain_text("nverted, centred and scaled as in MNIST, from 300×220")
    expect(page.locator(".offer")).to_be_hidden()
    assert page.get_by_label("Invert it (dark ink on white paper)").is_checked()


def test_ink_of_a_file_is_centred_as_in_mnist_if_wished(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    give_file(page, seven(ink=255, paper=0))
    expect(page.locator(".verdict-title")).to_have_text("7")
    ink = seen(page)
    rows, columns = np.nonzero(ink > 20)
    assert abs((ink.sum(1) @ np.arange(28)) / ink.sum() - 13.5) < 1
    assert abs((ink.sum(0) @ np.arange(28)) / ink.sum() - 13.5) < 1
    assert 19 <= np.ptp(rows) + 1 <= 22
    assert np.ptp(columns) + 1 <= 22
    page.get_by_label("Centre and scale as in MNIST").last.uncheck()
    expect(page.locator(".verdict-note")).to_have_text("28×28 from 300×220.")
    assert (seen(page) > 20).nonzero()[1].max() < 14, "as in the file, in its left half"


def test_a_picture_of_the_networks_size_is_left_as_it_is(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    pixels = load_dataset("mnist-mini").test.images[11, 0].numpy()
    content = io.BytesIO()
    Image.fromarray(pixels).save(content, "PNG")
    give_file(page, content.getvalue(), "own.png")
    assert (seen(page) == pixels).all()


def test_a_picture_can_be_pasted(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    paste = """content => {
        const data = new DataTransfer();
        if (content) data.items.add(new File([new Uint8Array(content)], "pasted.png", { type: "image/png" }));
        document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
    }"""
    page.evaluate(paste, list(seven(ink=255, paper=0)))
    expect(page.locator('.answer[data-of="pasted.png"] .verdict-title')).to_have_text("7")
    expect(page.get_by_label("File", exact=True)).to_be_checked()
    page.evaluate(paste, None)
    expect(page.locator("#messages")).to_contain_text("The clipboard holds no picture")


# The verdict


@pytest.mark.parametrize(
    ("verdict", "words"),
    [("sure", "sure"), ("ambiguous", "ambiguous"), ("unknown", "unknown"), (None, "not calibrated")],
)
def test_the_class_leads_and_the_verdict_follows(
    new_page: NewPage, address: str, verdict: str | None, words: str
) -> None:
    said = "3, as it is said (0.148 from its centre; usual for a 3: up to 0.31)"
    answer = {"verdict": verdict, "words": said, "class_index": 3}
    page = open_ask(new_page, address, change={"**/api/example": answer} | CALIBRATED)
    expect(page.locator(".verdict-title")).to_have_text("3")
    expect(page.locator(".verdict-word")).to_have_text(words)
    expect(page.locator(".verdict-words")).to_have_text(said)
    shown = page.locator(".verdict").inner_text().split()
    assert shown[0] == "3"


def test_calibrated_radii_are_shown_beside_the_one_of_training(new_page: NewPage, address: str) -> None:
    far = {"class_index": 3, "scores": [0.2, 0.21, 0.23, 0.22, 1, 1, 1, 1, 1, 0.5]}
    page = open_ask(new_page, address, change={"**/api/example": far} | CALIBRATED)
    zones = {row.split("\n")[0]: row.split("\n")[-1] for row in page.locator(".distance").all_inner_texts()}
    assert {name: zones[name] for name in "01239"} == {
        "0": "hit",
        "1": "hit",
        "2": "between",
        "3": "hit",
        "9": "between",
    }
    expect(page.locator(".rings .ring-label").first).to_have_text("usual 0.23")
    for place in (".rings", ".asked-way"):
        training, hit = (
            float(page.locator(f"{place} .{name}").get_attribute("r") or "") for name in ("ring-training", "zone-hit")
        )
        assert training / hit == pytest.approx((0.1 / 0.23) ** 0.5, rel=1e-3)
    page.goto(f"{address}/#prototypes?class=5")
    expect(page.locator(".radius-words")).to_contain_text("up to 0.25, as on held-out images; in training 0.1")
    page = open_ask(new_page, address)
    assert page.locator(".ring-training").count() == 0
    page.goto(f"{address}/#prototypes")
    expect(page.locator(".radius-words")).to_contain_text("not calibrated")


def test_verdicts_can_be_looked_up_only_where_there_are_any(new_page: NewPage, address: str) -> None:
    for change, choices in (({}, ["all", "mistakes"]), (CALIBRATED, ["all", "mistakes", "unknown", "ambiguous"])):
        page = open_ask(new_page, address, change=change)
        page.get_by_label("Test images", exact=True).check(force=True)
        options = page.get_by_label("Show").locator("option").all()
        assert [option.get_attribute("value") for option in options] == choices


# On a phone


def test_on_a_phone_the_answer_comes_into_view_when_the_drawing_rests(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address, PHONE)
    assert page.evaluate("scrollY") == 0, "the example stays below"
    draw_stroke(page, (0.5, 0.2), (0.5, 0.8))
    expect(page.locator('.answer[data-of="the drawing"]')).to_be_visible()
    assert page.evaluate("scrollY") == 0, "a digit may need another stroke"
    page.wait_for_timeout(1700)
    box = page.locator(".verdict-title").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < PHONE["height"] / 2


def test_on_a_phone_the_picture_stays_in_view_while_sliders_move(new_page: NewPage, address: str) -> None:
    page = new_page(address, PHONE)
    slider = page.locator(".film-slider").last
    slider.scroll_into_view_if_needed()
    slider.focus()
    before = canvas_bytes(page, ".follow canvas")
    for _ in range(20):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(100)
    box = page.locator(".follow canvas").bounding_box()
    assert box is not None
    assert 0 <= box["y"] < 100
    assert box["height"] > 60
    assert (canvas_bytes(page, ".follow canvas") != before).any()
    assert (canvas_bytes(page, ".follow canvas") == canvas_bytes(page)).all()
