"""The page as a person uses it, in Chromium: what is drawn is what PyTorch draws."""

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, Route, expect
from support.browser import (
    PHONE,
    NewPage,
    assert_sliders_draw_as_torch,
    canvas_bytes,
    capsule_of,
    draw_stroke,
    open_ask,
    set_slider,
    wait_until,
)
from support.explorer_runs import serving

from hitnet.core.model import create_model, load
from hitnet.data import load_dataset, to_float
from hitnet.export import export_html
from hitnet.interpret.explanation import explain
from hitnet.interpret.prototypes import prototypes
from hitnet.interpret.what_if import morph
from hitnet.runs.exemplars import read_exemplars
from hitnet.runs.run import Run
from hitnet.web.bundle import describe_model, pack_decoder
from hitnet.web.explorer import Explorer


def test_moving_a_slider_draws_what_torch_draws(new_page: NewPage, address: str, explorer: Explorer) -> None:
    page = new_page(address)
    assert_sliders_draw_as_torch(page, explorer.model)
    assert float(page.get_attribute(".stage canvas", "data-latency") or "inf") < 1000


@pytest.mark.parametrize("decoder", ["paper", "standardised", "picture"])
@pytest.mark.parametrize(
    ("shape", "classes", "dims"),
    [((1, 28, 28), 2, 2), ((3, 20, 24), 5, 7), ((1, 12, 12), 100, 3), ((1, 12, 12), 3, 64)],
)
def test_the_decoder_in_the_page_equals_torchs(
    new_page: NewPage, address: str, decoder: str, shape: tuple[int, int, int], classes: int, dims: int
) -> None:
    model = create_model("lenet5-hom", shape, classes, dims, decoder=decoder, width=2).eval()
    capsules = 0.5 + 0.2 * (torch.rand(3, dims) - 0.5)
    indices = torch.tensor([0, classes // 2, classes - 1])
    expected = torch.cat([model.draw(capsules, indices), morph(model, capsules[:2], indices[:2], 4)[1:3]]).flatten(1)
    drawn = new_page(address).evaluate(
        """async ([model, weights, capsules, indices]) => {
            const { Decoder } = await import("/static/decoder.js");
            const { bytesFromBase64 } = await import("/static/picture.js");
            const decoder = new Decoder(model, bytesFromBase64(weights).buffer);
            const [first, last] = [0, 1].map(i => [indices[i], capsules[i]]);
            return [
                ...capsules.map((capsule, i) => [...decoder.draw(indices[i], capsule)]),
                ...[1 / 3, 2 / 3].map(share => [...decoder.morph(first, last, share)]),
            ];
        }""",
        [
            describe_model(model),
            base64.b64encode(pack_decoder(model, half=False)).decode(),
            capsules.tolist(),
            indices.tolist(),
        ],
    )
    assert (torch.tensor(drawn) - expected).abs().max() < 1e-4


def test_a_one_drawn_by_mouse_is_taken_for_a_one(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    draw_stroke(page, (0.52, 0.2), (0.48, 0.8))
    expect(page.locator('.answer[data-of="the drawing"] .verdict-title')).to_have_text("1")
    assert page.get_attribute(".answer", "data-class") == "1"
    expect(page.locator(".distance.winner .distance-name")).to_have_text("1")


def test_a_finger_draws_too(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address, PHONE, has_touch=True, is_mobile=True)
    page.locator(".pad").scroll_into_view_if_needed()
    box = page.locator(".pad").bounding_box()
    assert box is not None
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(page.locator('.answer[data-of="the drawing"]')).to_be_visible()


def test_a_broken_file_is_answered_with_a_message_and_the_page_goes_on(new_page: NewPage, address: str) -> None:
    page = new_page(f"{address}/#ask")
    page.get_by_label("File", exact=True).check(force=True)
    broken = {"name": "broken.png", "mimeType": "image/png", "buffer": b"\x89PNG\r\n\x1a\n and then nothing"}
    page.set_input_files(".file-input", broken)  # type: ignore[arg-type]
    expect(page.locator("#messages")).to_contain_text("broken.png")
    expect(page.locator("#messages")).to_contain_text("PNG, JPEG")
    expect(page.locator(".answer")).to_be_hidden()  # the former one is not about this file
    content = io.BytesIO()
    Image.fromarray(load_dataset("mnist-mini").test.images[0][0].numpy()).save(content, "PNG")
    page.set_input_files(".file-input", {"name": "good.png", "mimeType": "image/png", "buffer": content.getvalue()})
    expect(page.locator('.answer[data-of="good.png"]')).to_be_visible()
    expect(page.locator("#messages")).to_be_empty()


def test_the_page_as_one_file_does_the_same_from_disk(new_page: NewPage, run: Path, tmp_path: Path) -> None:
    file = export_html(run, tmp_path / "talk.html")
    assert file.stat().st_size < 10_000_000
    page = new_page(file.as_uri(), service_workers="block", offline=True)
    assert_sliders_draw_as_torch(page, load(run))
    assert page.locator("nav").count() == 0
    shown = canvas_bytes(page, ".class-card canvas >> nth=0")
    expected = (prototypes(load(run))[0] * 255).round().byte().permute(1, 2, 0).numpy()
    assert np.abs(shown.astype(int) - expected).max() <= 1
    assert page.locator(".component-name").first.get_attribute("readonly") is not None


def shown_bytes(page: Page, selector: str) -> np.ndarray[Any, Any]:
    """The grey bytes of an img: (height, width)."""
    data = page.eval_on_selector(selector, "image => image.src").removeprefix("data:image/webp;base64,")
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(data))).convert("L")).astype(int)


def test_real_pictures_stand_beside_the_drawn_ones(new_page: NewPage, address: str, run: Path, tmp_path: Path) -> None:
    kept = read_exemplars(Run(run), load(run))
    for url in (address, export_html(run, tmp_path / "page.html").as_uri()):
        page = new_page(url)
        page.locator(".class-card").nth(7).click()
        expect(page.locator(".real")).to_contain_text("Real training pictures")
        expect(page.locator(".typical img")).to_have_count(6)
        for place, number in enumerate(kept.typical[7].tolist()):
            seen = shown_bytes(page, f".typical img >> nth={place}")
            assert np.abs(seen - kept.pictures[number, 0].numpy()).mean() < 4, "WebP is nearly lossless"
        for side, word in enumerate(("low", "high")):
            real = page.get_by_label(f"Real pictures, component 5 {word}", exact=True).locator("img")
            number = int((kept.ends[7, 5, side] >= 0).sum())
            expect(real).to_have_count(number)
            assert real.first.get_attribute("alt") == f"a real 7, component 5 {word}"
        assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth === 28)")


def test_a_page_without_real_pictures_says_how_to_get_them_or_nothing(
    new_page: NewPage, copied_run: Path, tmp_path: Path
) -> None:
    page = new_page(export_html(copied_run, tmp_path / "page.html", exemplars=False).as_uri())
    expect(page.locator(".real")).to_be_hidden()
    expect(page.locator(".ends-words")).to_be_hidden()
    Run(copied_run).exemplars_file.unlink()
    with serving(Explorer(copied_run)) as url:
        page = new_page(url)
        expect(page.locator(".real")).to_contain_text(f"hitnet prototypes {copied_run}")
        assert page.locator("img").count() == 0


def test_a_class_name_with_html_stays_text_beside_real_pictures(
    new_page: NewPage, copied_run: Path, tmp_path: Path
) -> None:
    config = copied_run / "model" / "config.json"
    content = json.loads(config.read_text())
    content["class_names"][0] = evil = '"><img src=x onerror=alert(1)></script>'
    config.write_text(json.dumps(content))
    page = new_page(export_html(copied_run, tmp_path / "page.html").as_uri())
    assert page.locator(".typical img").first.get_attribute("alt") == f"a typical real {evil}"
    assert page.locator("img:not(.picture)").count() == 0


def test_names_in_an_exported_page_cannot_become_code(new_page: NewPage, copied_run: Path, tmp_path: Path) -> None:
    (copied_run / "component-names.json").write_text(json.dumps({"0": {"0": "</script><script>alert(1)//"}}))
    page = new_page(export_html(copied_run, tmp_path / "page.html").as_uri())
    assert page.locator('[data-component="0"] .component-name').input_value() == "</script><script>alert(1)//"


def test_a_phone_shows_every_view_without_horizontal_scroll(
    new_page: NewPage, address: str, colour_run: Path, run: Path, tmp_path: Path
) -> None:
    def widest(page: Page) -> int:
        return int(page.evaluate("document.documentElement.scrollWidth"))

    with serving(Explorer(colour_run)) as colour:
        for url in (address, colour):
            page = new_page(url, PHONE)
            assert widest(page) <= PHONE["width"]
            page.goto(f"{url}/#ask")
            draw_stroke(page, (0.3, 0.3), (0.6, 0.6))
            expect(page.locator('.answer[data-of="the drawing"]')).to_be_visible()
            assert widest(page) <= PHONE["width"]
            page.get_by_label("Test images", exact=True).check(force=True)
            expect(page.locator(".test-images .status")).not_to_be_empty()
            assert widest(page) <= PHONE["width"]
            page.goto(f"{url}/#compare")
            expect(page.locator(".only-one, .pair-card").filter(visible=True).first).to_be_visible()
            assert widest(page) <= PHONE["width"]
    page = new_page(export_html(run, tmp_path / "page.html").as_uri(), PHONE)
    expect(page.locator(".typical img").first).to_be_visible()
    assert widest(page) <= PHONE["width"]


def test_a_name_is_kept_in_the_run_folder(new_page: NewPage, copied_run: Path) -> None:
    with serving(Explorer(copied_run)) as url:
        page = new_page(url)
        page.locator(".class-card").nth(4).click()
        page.get_by_label("Name of component 2", exact=True).fill("open at the top")
        page.keyboard.press("Enter")
        # Not until it is marked as kept: the mark goes after a second and a half, which a busy machine can miss.
        wait_until(page, (copied_run / "component-names.json").is_file)
        page.reload()
        page.wait_for_selector("body[data-ready]")
        page.locator(".class-card").nth(4).click()
        expect(page.get_by_label("Name of component 2", exact=True)).to_have_value("open at the top")
    assert json.loads((copied_run / "component-names.json").read_text()) == {"4": {"2": "open at the top"}}


def test_everything_can_be_reached_and_moved_by_keyboard(new_page: NewPage, address: str) -> None:
    page = new_page(address)
    slider = page.get_by_label("Component 5", exact=True)
    slider.focus()
    before = canvas_bytes(page)
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    assert slider.input_value() == "0.52"
    page.keyboard.press("Shift+ArrowRight")
    assert slider.input_value() == "0.5202"
    assert "0.5202" in (slider.get_attribute("aria-valuetext") or "")
    wait_until(page, lambda: capsule_of(page)[5] == 0.5202)
    assert (canvas_bytes(page) != before).any()
    page.get_by_label("Exact value of component 5").fill("0.5")
    page.keyboard.press("Enter")
    wait_until(page, lambda: capsule_of(page)[5] == 0.5)
    assert (canvas_bytes(page) == before).all()
    unlabelled = page.evaluate(
        """[...document.querySelectorAll("button, input, select")]
            .filter(each => !(each.ariaLabel || each.textContent.trim() || each.labels?.length))
            .map(each => each.outerHTML)"""
    )
    assert unlabelled == []


def test_style_is_named_as_such_and_leaves_the_distance_alone(
    new_page: NewPage, copied_run: Path, tmp_path: Path
) -> None:
    model = create_model("hitnet-fast", capsule_dim=4, style_dim=2, width=4).eval()
    model.save(copied_run / "model")
    page = new_page(export_html(copied_run, tmp_path / "page.html", exemplars=False).as_uri())
    assert_sliders_draw_as_torch(page, model)
    page.get_by_role("button", name="Reset").click()
    set_slider(page, 5, 0.55)
    assert page.get_by_label("Style 5", exact=True).count() == 1
    assert page.locator(".distance-value").first.inner_text() == "0.000"
    assert page.locator(".distance-zone").first.inner_text() == "inside the hit zone"
    set_slider(page, 3, 0.53)
    assert page.locator(".distance-value").first.inner_text() == "0.030"


def test_reset_sample_and_range(new_page: NewPage, address: str) -> None:
    page = new_page(address)
    before = canvas_bytes(page)
    page.get_by_role("button", name="Random sample").click()
    assert (canvas_bytes(page) != before).any()
    capsule = capsule_of(page)
    assert 0 < np.abs(np.array(capsule) - 0.5).max() < 0.2
    page.get_by_role("button", name="Reset").click()
    assert (canvas_bytes(page) == before).all()
    page.get_by_label("0 … 1", exact=True).check(force=True)
    slider = page.get_by_label("Component 0", exact=True)
    assert (slider.get_attribute("min"), slider.get_attribute("max")) == ("0", "1")


def test_a_class_chosen_while_another_is_moving_shows_its_prototype(new_page: NewPage, address: str) -> None:
    page = new_page(address, reduced_motion="no-preference")
    page.evaluate(
        "[document.querySelector('.sample'), document.querySelectorAll('.class-card')[3]].map(each => each.click())"
    )
    page.wait_for_timeout(500)  # longer than a film
    assert page.get_attribute(".stage canvas", "data-class") == "3"
    assert capsule_of(page) == [0.5] * 16


def test_the_sliders_can_be_set_to_an_image_and_it_can_be_saved(
    new_page: NewPage, address: str, explorer: Explorer
) -> None:
    page = new_page(f"{address}/#ask")
    page.get_by_label("Test images", exact=True).check(force=True)
    page.locator(".test-tile").nth(3).click()
    expect(page.locator('.answer[data-of="the test image"]')).to_be_visible()
    shown = canvas_bytes(page, ".drawn")
    page.get_by_role("button", name="Set the sliders to this image").click()
    expect(page.locator("#prototypes")).to_be_visible()
    assert (canvas_bytes(page) == shown).all()
    image = to_float(load_dataset("mnist-mini").test.images[3:4])
    expected = (explorer.model.eval()(image).reconstruction[0] * 255).round().byte().permute(1, 2, 0).numpy()
    assert np.abs(shown.astype(int) - expected).max() <= 1
    with page.expect_download() as download:
        page.locator(".stage").get_by_role("button", name="Save PNG").click()
    saved = np.asarray(Image.open(download.value.path()).convert("RGB"))
    assert saved.shape == (560, 560, 3)
    assert (saved[::20, ::20] == shown).all()


def test_a_slider_leads_from_the_image_to_the_class_that_is_asked_for(
    new_page: NewPage, address: str, explorer: Explorer
) -> None:
    page = new_page(f"{address}/#ask")
    page.get_by_label("Test images", exact=True).check(force=True)
    page.locator(".test-tile").nth(3).click()
    expect(page.locator('.answer[data-of="the test image"] .what-if-words')).to_contain_text("The network")
    image = to_float(load_dataset("mnist-mini").test.images[3])
    predicted = explain(explorer.model, image).class_index
    asked = (predicted + 5) % 10
    assert page.locator(".what-if-class option").count() == 9
    with page.expect_response(lambda response: "what-if" in response.url):
        page.get_by_label("What would make it").select_option(str(asked))
    expect(page.locator(".other-title")).to_have_text(f"Nearest {asked}")
    found = explain(explorer.model, image, asked).what_if
    assert found is not None
    slider = page.get_by_label("On the way")
    slider.focus()
    for key, share, frame in (("Home", 0, 0), ("End", 100, -1)):
        page.keyboard.press(key)
        assert slider.get_attribute("aria-valuetext") == f"{share} % of the way to {asked}"
        expected = (found.frames[frame] * 255).round().byte().permute(1, 2, 0).numpy()
        assert np.abs(canvas_bytes(page, ".morph").astype(int) - expected).max() <= 1
    assert (canvas_bytes(page, ".morph") == canvas_bytes(page, ".other")).all()
    assert (canvas_bytes(page, ".own") == canvas_bytes(page, ".drawn")).all()


def test_mistakes_can_be_looked_up(new_page: NewPage, address: str, explorer: Explorer) -> None:
    page = new_page(f"{address}/#ask")
    page.get_by_label("Test images", exact=True).check(force=True)
    page.get_by_label("Show").select_option("mistakes")
    expect(page.locator(".test-images progress")).to_be_hidden()
    expect(page.locator(".test-tile:not(.wrong)")).to_have_count(0)
    page.locator(".test-tile.wrong").first.click()
    expect(page.locator(".verdict-truth")).to_contain_text("a mistake")


def test_the_newest_question_about_test_images_wins(new_page: NewPage, address: str) -> None:
    page = new_page(f"{address}/#ask")
    held_back: list[Route] = []
    page.route(lambda url: "show=all" in url, lambda route: held_back.append(route))
    page.get_by_label("Test images", exact=True).check(force=True)
    wait_until(page, lambda: bool(held_back))
    page.get_by_label("Show").select_option("mistakes")
    expect(page.locator(".test-tile.wrong").first).to_be_visible()
    with page.expect_response(lambda response: "show=all" in response.url):
        held_back[0].continue_()
    page.wait_for_timeout(100)
    assert page.locator(".test-tile:not(.wrong)").count() == 0


def test_hybrid_images_in_the_page_follow_the_librarys_formula(
    new_page: NewPage, address: str, explorer: Explorer
) -> None:
    model = explorer.model.eval()
    image = to_float(load_dataset("mnist-mini").test.images[5:6])
    label = int(load_dataset("mnist-mini").test.labels[5])
    capsule = model.capsules(image)[0, label].detach()
    moves = 2 * torch.rand(16) - 1
    reconstruction, modified = model.draw(torch.stack([capsule, capsule + 0.05 * moves]), torch.tensor([label, label]))
    expected = (image[0] + modified - reconstruction).clamp(0, 1).flatten()
    made = new_page(address).evaluate(
        """async ([index, capsule, image, moves]) => {
            const [{ Decoder }, { hybrid }, { ask, fetchWeights }] = await Promise.all(
                ["decoder", "hybrid", "api"].map(name => import(`/static/${name}.js`)));
            const decoder = new Decoder(await ask("/api/run"), await fetchWeights());
            return [...hybrid(decoder, index, capsule, Float32Array.from(image), moves, 0.05)];
        }""",
        [label, capsule.tolist(), image.flatten().tolist(), moves.tolist()],
    )
    assert (torch.tensor(made) - expected).abs().max() < 1e-4


def test_stronger_augmentation_moves_the_images_further(new_page: NewPage, address: str) -> None:
    page = open_ask(new_page, address)
    draw_stroke(page, (0.5, 0.2), (0.5, 0.8))
    expect(page.locator('.answer[data-of="the drawing"] .hybrids canvas')).to_have_count(12)
    page.get_by_label("Strength").fill("0")
    expect(page.locator(".strength-value")).to_contain_text("0.0 units")
    page.wait_for_timeout(300)
    seen = canvas_bytes(page, ".seen").astype(int)
    assert np.abs(canvas_bytes(page, ".hybrids canvas >> nth=2") - seen).max() <= 1
    page.get_by_label("Strength").fill("3")
    page.wait_for_timeout(300)
    assert np.abs(canvas_bytes(page, ".hybrids canvas >> nth=2") - seen).max() > 5


def test_dark_and_light_follow_the_system_and_the_switch(new_page: NewPage, address: str) -> None:
    def background(page: Page) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = (background(new_page(address, color_scheme=scheme)) for scheme in ("light", "dark"))
    assert light != dark
    page = new_page(address, color_scheme="light")
    switch = page.locator(".theme")
    while switch.get_attribute("data-theme") != "dark":
        switch.click()
    assert background(page) == dark
    page.reload()
    page.wait_for_selector("body[data-ready]")
    assert background(page) == dark
