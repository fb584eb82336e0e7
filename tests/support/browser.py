"""What tests of the page share: Chromium, pages that fail when they complain, and what is drawn on them."""

import json
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from playwright.sync_api import Browser, Page, Route, expect, sync_playwright

from hitnet.core.model import Model

FLAGS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
]
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 320, "height": 700}
NewPage = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = "/usr/bin/chromium" if Path("/usr/bin/chromium").is_file() else shutil.which("chromium")
    if program is None:
        reason = "Chromium is missing: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def new_page(browser: Browser) -> Iterator[NewPage]:
    """Opens pages; whatever a page complains about on its console fails the test, but for refusals it shows itself."""
    complaints: list[str] = []
    contexts = []

    def open_page(
        url: str, viewport: dict[str, int] = DESKTOP, change: dict[str, dict[str, Any]] | None = None, **options: Any
    ) -> Page:
        """`change` gives the parts of answers that shall be others: {"**/api/run": {"radii": [0.3, …]}}."""
        context = browser.new_context(**{"viewport": viewport, "reduced_motion": "reduce", **options})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        for path, parts in (change or {}).items():
            page.route(path, partial(answer_with, parts))
        page.set_default_timeout(20_000)
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(url)
        page.wait_for_selector("body[data-ready]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    refusals = ("the server responded with a status of 400", "the server responded with a status of 409")
    assert [text for text in complaints if not any(refusal in text for refusal in refusals)] == []


def answer_with(parts: dict[str, Any], route: Route) -> None:
    answer = route.fetch()
    route.fulfill(response=answer, json=answer.json() | parts)


def open_ask(new_page: NewPage, address: str, *arguments: Any, **options: Any) -> Page:
    """The view Ask, once it has answered its example."""
    page = new_page(f"{address}/#ask", *arguments, **options)
    expect(page.locator('.answer[data-of="the example"]')).to_be_visible()
    return page


def canvas_bytes(page: Page, selector: str = ".stage canvas") -> np.ndarray[Any, Any]:
    """The red, green and blue bytes of a canvas: (height, width, 3)."""
    found = page.eval_on_selector(
        selector,
        """canvas => ({ width: canvas.width, height: canvas.height,
            data: [...canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data] })""",
    )
    return np.array(found["data"], np.uint8).reshape(found["height"], found["width"], 4)[:, :, :3]


def torch_bytes(model: Model, class_index: int, capsule: list[float]) -> np.ndarray[Any, Any]:
    picture = model.draw(torch.tensor([capsule]), torch.tensor([class_index]))[0]
    return (picture * 255).round().byte().permute(1, 2, 0).expand(-1, -1, 3).numpy()


def capsule_of(page: Page) -> list[float]:
    """The capsule that is drawn on the stage."""
    return list(json.loads(page.get_attribute(".stage canvas", "data-capsule") or "[]"))


def wait_until(page: Page, done: Callable[[], bool]) -> None:
    # Playwright's own way evaluates text inside the page, which the page's security policy forbids.
    for _ in range(400):
        if done():
            return
        page.wait_for_timeout(25)
    raise AssertionError("waited too long")


def set_slider(page: Page, component: int, value: float) -> None:
    # Sliders come once their effects are measured, so this waits for them.
    page.locator(f'[data-component="{component}"] .film-slider').evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input', { bubbles: true })); }",
        value,
    )
    wait_until(page, lambda: capsule_of(page)[component] == value)


def assert_sliders_draw_as_torch(page: Page, model: Model) -> None:
    dims, classes = model.head.capsule_dim, model.head.num_classes
    chosen = classes - 1
    page.locator(".class-card").nth(chosen).click()
    capsule = [0.5] * dims
    assert np.abs(canvas_bytes(page).astype(int) - torch_bytes(model, chosen, capsule)).max() <= 1
    for component, value in ((0, 0.47), (dims - 1, 0.53), (0, 0.52)):
        capsule[component] = value
        set_slider(page, component, value)
        drawn, expected = canvas_bytes(page).astype(int), torch_bytes(model, chosen, capsule)
        assert np.abs(drawn - expected).max() <= 1
    assert np.abs(expected.astype(int) - torch_bytes(model, chosen, [0.5] * dims)).max() > 3, "nothing moved"


def draw_stroke(page: Page, *points: tuple[float, float]) -> None:
    """Draw with the mouse, in fractions of the pad."""
    box = page.locator(".pad").bounding_box()
    assert box is not None
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=10)
    page.mouse.up()
