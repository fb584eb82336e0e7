"""The test images of a run, scored once in the background, so that mistakes and uncertain answers can be listed."""

import base64
import time
from dataclasses import dataclass
from threading import Event, Lock, Thread
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from hitnet.core.model import Model
from hitnet.data import ImageSet, to_float
from hitnet.runs.reopen import data_for
from hitnet.runs.run import Run
from hitnet.web.bundle import as_small

BATCH = 64  # small, because a request that comes meanwhile waits for one batch
LARGEST_PAGE = 100

Filter = Literal["all", "mistakes", "unknown", "ambiguous"]
FILTERS: tuple[str, ...] = get_args(Filter)


@dataclass(frozen=True)
class Scored:
    """The network's answer for one test image."""

    index: int
    label: int
    predicted: int
    score: float
    verdict: str | None


class TestSet:
    """Loaded on first use. `phase` is waiting, loading, scoring, ready or gone."""

    def __init__(self, run: Run, model: Model, model_lock: Lock) -> None:
        self.run, self.model, self.model_lock = run, model, model_lock
        self.phase, self.message = "waiting", ""
        self.images: ImageSet | None = None
        self.scored: list[Scored] = []
        self.start_lock = Lock()
        self.loaded = Event()  # or known to be gone

    def start(self) -> None:
        """Start loading and scoring in the background, once."""
        with self.start_lock:
            if self.phase == "waiting":
                self.phase = "loading"
                Thread(target=self._work, name="score test images", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Whether there are test images, after waiting for them for at most so long."""
        self.loaded.wait(seconds)
        return self.images is not None and len(self.images) > 0

    def image(self, index: int) -> tuple[Tensor, int]:
        """(pixels, label) of one test image; pixels are uint8 (channels, height, width)."""
        if self.images is None:
            raise ValueError(self.message or "the test images are still being loaded; try again in a moment")
        if not 0 <= index < len(self.images):
            raise ValueError(f"there is no test image {index}; there are {len(self.images)}, counted from 0")
        return self.images.images[index], int(self.images.labels[index])

    def page(self, show: str, class_index: int | None, offset: int, limit: int) -> dict[str, Any]:
        """One page of the images scored so far, with their pixels, and the progress of the scoring."""
        matching = [
            scored
            for scored in self.scored[:]
            if (class_index is None or scored.label == class_index) and _belongs(scored, show)
        ]
        if show == "mistakes":
            matching.sort(key=lambda scored: scored.score)  # the most certain mistakes first
        elif show == "unknown":
            matching.sort(key=lambda scored: -scored.score)  # the farthest from every class first
        chosen = matching[offset : offset + limit]
        pixels = b""
        if chosen and self.images is not None:
            pixels = as_small(self.model, self.images.images[[scored.index for scored in chosen]])
        return {
            "phase": self.phase,
            "message": self.message,
            "done": len(self.scored),
            "total": 0 if self.images is None else len(self.images),
            "matching": len(matching),
            "images": [vars(scored) for scored in chosen],
            "pixels": base64.b64encode(pixels).decode(),
        }

    def _work(self) -> None:
        try:
            images = data_for(self.run, self.model).test
            self.images, self.phase = images, "scoring"
            self.loaded.set()
            for start in range(0, len(images), BATCH):
                part = images.subset(torch.arange(start, min(start + BATCH, len(images))))
                self.scored += self._score(part, start)
                time.sleep(0.002)  # lets another thread take the model's lock
            self.phase = "ready"
        except Exception as error:  # the rest of the page works without the test images
            what = "loaded" if self.images is None else "scored"
            self.phase, self.message = "gone", f"The test images of this run cannot be {what}: {error}"
            self.loaded.set()

    def _score(self, part: ImageSet, start: int) -> list[Scored]:
        with self.model_lock:
            scores = self.model.scores(to_float(part.pixels().to(self.model.device))).cpu()
        predicted, verdicts = self.model.head.decide(scores), self.model.verdicts(scores)
        own = scores.gather(1, predicted.unsqueeze(1)).squeeze(1)
        rows = zip(part.labels.tolist(), predicted.tolist(), own.tolist(), verdicts, strict=True)
        return [Scored(start + place, *row) for place, row in enumerate(rows)]


def _belongs(scored: Scored, show: str) -> bool:
    if show == "mistakes":
        return scored.label != scored.predicted
    return show == "all" or scored.verdict == show
