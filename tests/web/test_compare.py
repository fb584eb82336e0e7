"""Two runs side by side, and one run through its epochs."""

import json
import shutil
from pathlib import Path

import numpy as np
from playwright.sync_api import expect
from support.browser import PHONE, NewPage, canvas_bytes, open_ask, wait_until
from support.explorer_runs import fake_run, serving

from hitnet.core.checkpoint import read_tensors, write_tensors
from hitnet.core.model import create_model, load
from hitnet.data import load_dataset, to_float
from hitnet.export import export_html
from hitnet.runs.atlas import read_evolution
from hitnet.runs.run import Run
from hitnet.web.explorer import Explorer


def test_two_runs_stand_side_by_side(new_page: NewPage, address: str, run: Path) -> None:
    page = new_page(f"{address}/#compare")
    expect(page.locator(".numbers")).to_contain_text("lenet5-hom")
    drawn = Run(run).read_result()["quality"]["r2"]
    expect(page.locator(".numbers tr", has_text="R²").locator("td").first).to_have_text(f"{drawn:.2f}")
    expect(page.locator(".numbers tr", has_text="R²").locator("td").last).to_have_text("–")
    expect(page.locator(".pairs-note")).to_contain_text("no Hit-or-Miss layer")
    expect(page.locator(".curve")).to_have_count(2)
    assert page.locator(".chart .tick").count() >= 3
    expect(page.locator(".pair-card")).to_have_count(10)
    expect(page.locator(".differ")).to_be_hidden()


def test_a_run_is_never_compared_with_itself(new_page: NewPage, address: str, colour_run: Path) -> None:
    page = new_page(f"{address}/#compare?first=mnist-mini%2Flenet5-s0&second=mnist-mini%2Flenet5-s0")
    expect(page.locator(".pair-card").first).to_be_visible()
    first, second = page.locator(".run-choice select").all()
    assert first.input_value() != second.input_value()
    for one, other in ((first, second), (second, first)):
        disabled = [option.get_attribute("value") for option in one.locator("option:disabled").all()]
        assert disabled == [other.input_value()]
    with serving(Explorer(colour_run)) as url:
        page = new_page(f"{url}/#compare")
        expect(page.locator(".only-one")).to_be_visible()
        expect(page.locator(".compared")).to_be_hidden()


def test_the_same_image_goes_through_both(new_page: NewPage, address: str, runs: Path) -> None:
    page = open_ask(new_page, address)
    page.get_by_label("Test images", exact=True).check(force=True)
    page.locator(".test-tile").nth(5).click()
    expect(page.locator(".verdict-note")).to_have_text("Test image 5.")
    page.get_by_role("link", name="Compare").click()
    expect(page.locator(".same figure")).to_have_count(3)
    pixels = load_dataset("mnist-mini").test.images[5:6]
    assert (canvas_bytes(page, ".same canvas >> nth=0")[:, :, 0] == pixels[0, 0].numpy()).all()
    said = [int(load(runs / "mnist-mini" / name).predict(to_float(pixels))) for name in ("lenet5-hom-s0", "lenet5-s0")]
    assert [int(text) for text in page.locator(".same-class").all_inner_texts()] == said
    drawn = canvas_bytes(page, ".same canvas >> nth=1")[:, :, 0].astype(int)
    model = load(runs / "mnist-mini" / "lenet5-hom-s0")
    expected = (model(to_float(pixels)).reconstruction[0, 0] * 255).round().detach().numpy()
    assert np.abs(drawn - expected).max() <= 1
    page.get_by_role("button", name="Another test image").click()
    expect(page.locator(".same figcaption").first).to_contain_text("test image 1")


def test_different_data_and_sizes_are_told(new_page: NewPage, copied_run: Path) -> None:
    model = create_model("lenet5-hom", (3, 24, 30), 3, 4, class_names=("a", "b", "c"), width=2)
    other = fake_run(copied_run.parents[1] / "pictures" / "run", model, data="pictures")
    shutil.copy(copied_run / "result.json", other / "result.json")
    result = json.loads((other / "result.json").read_text())
    (other / "result.json").write_text(json.dumps(result | {"data": "pictures"}))
    with serving(Explorer(copied_run)) as url:
        page = new_page(f"{url}/#compare")
        expect(page.locator(".differ")).to_contain_text("different data, mnist-mini and pictures")
        expect(page.locator(".same-note")).to_contain_text("different size or colour")


def test_labels_of_the_chart_and_the_target_are_never_cut_off(
    new_page: NewPage, address: str, colour_run: Path
) -> None:
    outside = """svg => {
        const box = svg.getBoundingClientRect();
        const inside = own => own.left >= box.left - 1 && own.right <= box.right + 1
            && own.top >= box.top - 1 && own.bottom <= box.bottom + 1;
        const texts = [...svg.querySelectorAll("text")];
        return texts.filter(text => !inside(text.getBoundingClientRect())).map(text => text.textContent);
    }"""
    with serving(Explorer(colour_run)) as colour:
        for viewport in (PHONE, {"width": 1280, "height": 900}):
            page = new_page(f"{address}/#compare", viewport)
            expect(page.locator(".chart")).to_be_visible()
            assert page.locator(".chart").evaluate(outside) == []
            page = open_ask(new_page, colour, viewport)
            assert page.locator(".rings svg").evaluate(outside) == []


# Watch it learn


def test_a_slider_leads_the_prototypes_through_the_epochs(
    new_page: NewPage, address: str, run: Path, tmp_path: Path
) -> None:
    model = load(run)
    films = dict(read_evolution(model, Run(run)))
    errors = [row["test_error"] for row in Run(run).read_metrics()]
    for url in (address, export_html(run, tmp_path / "page.html").as_uri()):
        page = new_page(url)
        slider = page.get_by_label("Watch it learn")
        expect(slider).to_have_attribute("aria-valuetext", f"epoch 4, test error {errors[3]:.2f} %")
        slider.focus()
        page.keyboard.press("Home")
        expect(page.locator(".epoch-words")).to_have_text(f"epoch 1, test error {errors[0]:.2f} %")
        for index in (0, 9):
            shown = canvas_bytes(page, f".class-card canvas >> nth={index}")[:, :, 0].astype(int)
            assert np.abs(shown - (films["epoch 1"][index, 0] * 255).round().numpy()).max() <= 1
        page.get_by_role("button", name="Play").click()
        wait_until(page, lambda slider=slider: slider.input_value() == "3")  # type: ignore[misc]
        expect(page.get_by_role("button", name="Play")).to_be_visible()


def test_a_snapshot_cannot_bring_a_script_into_the_page(new_page: NewPage, copied_run: Path, tmp_path: Path) -> None:
    first = copied_run / "snapshots" / "epoch-0001.safetensors"
    weights, _ = read_tensors(first)
    write_tensors(first, weights, {"epoch": "</script><script>document.title = 'taken'</script>"})
    page = new_page(export_html(copied_run, tmp_path / "page.html").as_uri())
    expect(page.locator(".learning")).to_contain_text("must say which epoch it is from")
    assert page.title() != "taken"


def test_runs_without_snapshots_have_no_such_slider_and_damaged_ones_say_so(
    new_page: NewPage, copied_run: Path
) -> None:
    (copied_run / "snapshots" / "epoch-0002.safetensors").write_bytes(b"nothing")
    with serving(Explorer(copied_run)) as url:
        expect(new_page(url).locator(".learning")).to_contain_text("The snapshots of this run cannot be read")
    shutil.rmtree(copied_run / "snapshots")
    with serving(Explorer(copied_run)) as url:
        page = new_page(url)
        expect(page.locator(".idea .way")).to_be_visible()
        expect(page.locator(".learning")).to_be_hidden()
