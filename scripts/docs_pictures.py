"""Make the pictures of the docs anew, from finished runs.

    python scripts/docs_pictures.py --digits runs/mnist/hitnet-fast-s0 --clothes runs/fashion-mnist/hitnet-fast-s0 \\
        --photos runs/cifar10/hitnet-fast-s0 --before fashion-mnist/hitnet-fast-as-trained

Pictures of a run that is not given stay as they are. --before is the run of --clothes before its finishing phase, by
its name in the same runs folder. The pictures of the explorer need Chromium.

On the cards are test images: the first 2; the first mistake that is called unknown; the first 9, asked what would make
it a 4. The explorer is asked about that mistake, too.
"""

import argparse
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import torch
from matplotlib.figure import Figure
from PIL import Image
from playwright.sync_api import Browser, ViewportSize, sync_playwright

import hitnet
from hitnet.data import HybridAugmentation, to_float
from hitnet.interpret import figures
from hitnet.interpret.quality import measure
from hitnet.runs.reopen import Reopened, reopen_drawing
from hitnet.training.evaluation import all_scores

IMAGES = Path(__file__).parents[1] / "docs" / "images"
LAST_ROW = 213  # pixels of a card: what would make it another class
DESKTOP, PHONE = ViewportSize(width=1280, height=1560), ViewportSize(width=390, height=844)
STRIPS = "[data-component] canvas"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]


def keep(picture: Image.Image, name: str) -> None:
    """The picture in docs/images, with 256 colours: less than half of the bytes."""
    path = IMAGES / f"{name}.png"
    picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, optimize=True)
    print(path)


def draw(figure: Figure, name: str, dpi: int = 150, rows: int | None = None) -> None:
    """Keep a figure, or its lowest rows of pixels."""
    picture = Image.open(figures.save(figure, IMAGES / f"{name}.png", dpi))
    keep(picture.crop((0, picture.height - rows, *picture.size)) if rows else picture, name)


def draw_prototypes(opened: Reopened, name: str) -> None:
    names, words = opened.model.config.class_names, "what each class looks like at its centre"
    draw(figures.image_grid(hitnet.prototypes(opened.model), names, f"{opened.title()}: {words}"), name)


def draw_digits(opened: Reopened) -> int:
    """The pictures that explain how to read all others; -> the test image of the mistake."""
    model, test = opened.model, opened.load_data().test
    draw_prototypes(opened, "prototypes")
    measured = measure(model, test)
    draw(figures.class_page(model, 2, measured.quality, opened.exemplars()), "atlas-2")
    assert measured.statistics is not None
    words = f"{opened.title()}: components of true-class capsules"
    draw(figures.component_histograms(measured.statistics, words), "components")
    images, labels, scores = to_float(test.images[:]), test.labels, all_scores(model, test)
    augment, generator = HybridAugmentation(model, None), torch.Generator().manual_seed(0)
    draw(figures.hybrid_preview(augment, images[0], int(labels[0]), generator), "hybrid")
    said = model.head.decide(scores)
    unknown = torch.tensor([verdict == "unknown" for verdict in model.verdicts(scores)])
    two, mistake, nine = (
        int(found.nonzero()[0]) for found in (labels == 2, unknown & (said != labels), (labels == 9) & (said == 9))
    )
    for name, index in (("card-sure", two), ("card-unknown", mistake)):
        draw(figures.decision_card(hitnet.explain(model, images[index])), name, dpi=120)
    draw(figures.decision_card(hitnet.explain(model, images[nine], rival=4)), "card-what-if", dpi=120, rows=LAST_ROW)
    return mistake


@contextmanager
def explorer(run: Path) -> Iterator[str]:
    """The address of `hitnet explore`."""
    command = [sys.executable, "-u", "-m", "hitnet", "explore", str(run), "--no-browser", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        words = next(line for line in server.stdout if "http://" in line).split()
        try:
            yield next(word for word in words if word.startswith("http://"))
        finally:
            server.terminate()


def photograph(browser: Browser, address: str, ready: str, name: str, viewport: ViewportSize, **options: Any) -> None:
    """One view of the page, once `ready` is on it and its strips are drawn."""
    context = browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
    page = context.new_page()
    page.goto(address)
    page.wait_for_timeout(5_000)
    if not page.locator(ready).count():  # the server was still loading test images
        page.reload()
    page.wait_for_selector(ready, timeout=120_000)
    page.wait_for_timeout(5_000)
    keep(Image.open(BytesIO(page.screenshot())), name)
    context.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--digits", "--clothes", "--photos"):
        parser.add_argument(name, type=Path, metavar="RUN")
    parser.add_argument("--before", metavar="NAME")
    options = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS)
        if options.digits:
            mistake = draw_digits(reopen_drawing(options.digits, "cpu"))
            with explorer(options.digits) as address:
                answer = f"{address}#ask?test={mistake}"
                photograph(browser, address, STRIPS, "explorer-prototypes-light", DESKTOP)
                photograph(browser, answer, ".answer[data-of]", "explorer-ask-dark", DESKTOP, color_scheme="dark")
                photograph(browser, address, STRIPS, "explorer-phone", PHONE, device_scale_factor=2)
        if options.clothes:
            opened = reopen_drawing(options.clothes, "cpu")
            draw_prototypes(opened, "prototypes-fashion")
            strongest = measure(opened.model, opened.load_data().test).quality.by_importance[0]
            draw(figures.component_sweep(opened.model, strongest), "sweep-fashion")
            with explorer(options.clothes) as address:
                shown = f"{address}#prototypes?class=9"
                photograph(browser, shown, STRIPS, "explorer-clothes-dark", DESKTOP, color_scheme="dark")
                if options.before:
                    both = f"{address}#compare?second={quote(options.before)}"
                    photograph(browser, both, ".same figure", "explorer-compare-light", DESKTOP)
        if options.photos:
            draw_prototypes(reopen_drawing(options.photos, "cpu"), "prototypes-cifar10")
        browser.close()


if __name__ == "__main__":
    main()
