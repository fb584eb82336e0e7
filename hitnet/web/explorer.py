"""One run opened for exploring: everything the page can ask, independent of HTTP. All calls are thread-safe."""

import base64
import math
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import torch
from torch import Tensor

from hitnet.core.model import Model
from hitnet.data import to_bytes, to_float
from hitnet.interpret.exemplars import Exemplars
from hitnet.interpret.explanation import Explanation, explain
from hitnet.interpret.prototypes import prototypes
from hitnet.runs.audit_folder import AuditFolder
from hitnet.runs.exemplars import keeps_exemplars, read_exemplars, remake_command
from hitnet.runs.reopen import load_model
from hitnet.runs.run import Run
from hitnet.web.audit import Audit
from hitnet.web.bundle import as_small, describe_model, enlarge, pack_decoder, pack_exemplars, pack_ways
from hitnet.web.decoding import DecodingProcess
from hitnet.web.evolution import pack_evolution
from hitnet.web.names import ComponentNames
from hitnet.web.records import number, part, text
from hitnet.web.testset import TestSet

EXAMPLE_SECONDS = 2  # that the page waits for test images; then a real picture or a prototype is its example


class Explorer:
    """A run's model, names and test images; of an audit, its first network and its suspects."""

    def __init__(self, path: Path, device: str = "cpu") -> None:
        folder = AuditFolder(path)
        if folder.is_begun and not folder.is_finished:
            raise FileNotFoundError(f"the audit in {path} is not finished; the `hitnet audit` that began it goes on")
        self.audit = Audit(folder, device) if folder.is_finished else None
        if self.audit is not None:
            path = self.audit.runs[0].path
        self.run = Run.open(path)
        self.model = load_model(path, device)
        self.weights = pack_decoder(self.model)
        self.lock = Lock()  # of the model
        self.decoding = DecodingProcess()
        self.names = ComponentNames(self.run, self.model.head.num_classes, self.model.head.capsule_dim)
        self.tests = TestSet(self.run, self.model, self.lock)

    def describe(self) -> dict[str, Any]:
        return describe_run_and_model(self.run, self.model, self.names) | {
            "ways": self.ways,
            "audit": self.audit is not None,
        }

    @cached_property
    def kept(self) -> Exemplars | None:
        """The real pictures of the run, if it has some that can be read."""
        try:
            there = keeps_exemplars(self.run, self.model) and self.run.exemplars_file.is_file()
            return read_exemplars(self.run, self.model) if there else None
        except (OSError, ValueError):  # `exemplars` says what is wrong with them
            return None

    @cached_property
    def ways(self) -> list[dict[str, Any] | None]:
        """How a picture of each class becomes numbers and lands on the target."""
        with self.lock:
            return pack_ways(self.model, self.kept)

    @cached_property
    def exemplars(self) -> dict[str, Any] | None:
        """Real pictures of the run, or a note that says why there are none; None if it was trained without."""
        if not keeps_exemplars(self.run, self.model):
            return None
        if not self.run.exemplars_file.is_file():
            remedy = f"Make them with {remake_command(self.run)}, then start the explorer again."
            return {"note": f"This run has no real pictures yet. {remedy}"}
        try:
            return pack_exemplars(read_exemplars(self.run, self.model))
        except ValueError as error:  # the rest of the page works without them
            return {"note": f"The real pictures of this run cannot be read: {error}"}

    @cached_property
    def evolution(self) -> dict[str, Any] | None:
        """The prototypes through the epochs, if the run kept snapshots."""
        with self.lock:
            return pack_evolution(self.run, self.model)

    def explain_example(self) -> dict[str, Any]:
        """An answer to begin with: about a test image, else about a real picture, else about a prototype."""
        self.tests.start()
        if self.tests.wait(EXAMPLE_SECONDS):
            return self.explain_test(0)
        pixels, label, note = self._stand_in()
        with self.lock:
            return self._explain(pixels, label) | {"note": note}

    def _stand_in(self) -> tuple[Tensor, int | None, str]:
        """A picture of the first class that has a real one, or the first prototype: (pixels, label, what it is)."""
        shape, names = self.model.config.image_shape, self.model.config.class_names
        assert shape is not None
        if self.kept is not None:
            for index, places in enumerate(self.kept.typical.tolist()):
                if places and places[0] >= 0:
                    return enlarge(self.kept.pictures[places[0]], shape), index, "a training image"
        with self.lock:
            drawn = prototypes(self.model)[0]
            image = self.model.enlarge(drawn.unsqueeze(0))[0]
        return to_bytes(image).cpu(), None, f"the prototype of {names[0]}, drawn by the network"

    def explain_picture(self, content: bytes, invert: bool = False) -> dict[str, Any]:
        """The explanation of a picture file; a ValueError says what is wrong with the file."""
        shape = self.model.config.image_shape
        assert shape is not None
        decoded, note = self.decoding.read(content, shape, self.model.config.fit)
        pixels = torch.from_numpy(decoded).permute(2, 0, 1)
        with self.lock:
            return self._explain(255 - pixels if invert else pixels, None) | {"note": note}

    def explain_test(self, index: int) -> dict[str, Any]:
        pixels, label = self.tests.image(index)
        with self.lock:
            return self._explain(pixels, label) | {"note": f"test image {index}"}

    def what_if(self, content: bytes, class_index: int) -> dict[str, Any]:
        """What would make an image this class; `content` is its pixels, as an explanation gave them."""
        shape = self.model.config.image_shape
        assert shape is not None
        if len(content) != math.prod(shape):
            raise ValueError(
                f"expected the {math.prod(shape)} bytes of an image, got {len(content)}; ask about it first"
            )
        pixels = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(shape)
        with self.lock:
            return _describe_what_if(explain(self.model, to_float(pixels.to(self.model.device)), class_index))

    def _explain(self, pixels: Tensor, label: int | None) -> dict[str, Any]:
        """Everything except the drawings: the page draws those itself, from the capsule."""
        explanation = explain(self.model, to_float(pixels.to(self.model.device)))
        capsules = explanation.capsules.tolist()
        return {
            "pixels": base64.b64encode(pixels.contiguous().numpy().tobytes()).decode(),
            "small": base64.b64encode(as_small(self.model, pixels.unsqueeze(0))).decode(),  # to compare with drawings
            "class_index": explanation.class_index,
            "rival_index": explanation.rival_index,
            "scores": explanation.scores,
            "verdict": explanation.verdict,
            "words": explanation.words,
            "capsule": capsules[explanation.class_index],
            "deformations": explanation.to_json()["deformations"],
            "label": label,
            "label_capsule": None if label is None else capsules[label],
            "what_if": _describe_what_if(explanation),
        }


def _describe_what_if(explanation: Explanation) -> dict[str, Any]:
    found = explanation.what_if
    assert found is not None, "the explorer opens no network without a hit zone"
    return {
        "class_index": found.class_index,
        "capsule": found.capsule.tolist(),
        "words": explanation.what_if_words,
    }


def describe_run_and_model(run: Run, model: Model, names: ComponentNames) -> dict[str, Any]:
    """The description that both the served page and the static one start with."""
    complaints = []
    try:
        result = run.read_result() if run.is_finished else {}
    except ValueError as error:
        result = {}
        complaints.append(text(error))
    try:
        given = names.read()
    except ValueError as error:
        given = {}
        complaints.append(text(error))
    return {
        **describe_model(model),
        "run": text(f"{run.path.resolve().parent.name}/{run.path.resolve().name}"),
        "data": text(result.get("data") or run.read_settings().data),
        "error": number(part(result, "test").get("error")),
        "epochs": number(result.get("epochs")),
        "quality": part(result, "quality") or None,
        "names": given,
        "complaint": "; ".join(complaints) or None,
    }
