"""The explorer over HTTP: what it answers."""

import base64
import copy
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from starlette.testclient import TestClient
from support.explorer_runs import fake_run
from support.http import is_error, png

from hitnet.console import show_runs
from hitnet.core.model import create_model, load
from hitnet.data import load_dataset, to_float
from hitnet.interpret.explanation import explain
from hitnet.runs.run import find_runs
from hitnet.web.bundle import check_drawable, pack_decoder
from hitnet.web.explorer import Explorer
from hitnet.web.server import create_app


def wait_until(done: Callable[[], bool]) -> None:
    for _ in range(600):
        if done():
            return
        time.sleep(0.05)
    raise AssertionError("waited too long")


def test_the_page_and_everything_it_needs_come_from_this_server(client: TestClient) -> None:
    page = client.get("/").text
    assert "HitNet" in page
    for name in ("style.css", "app.js", "decoder.js"):
        answer = client.get(f"/static/{name}")
        assert answer.status_code == 200
        assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "https://" not in answer.text
    assert "src 'self'" in client.get("/").headers["content-security-policy"]


@pytest.mark.parametrize(("half", "kind"), [(True, "<f2"), (False, "<f4")])
def test_the_weights_are_the_decoders_layer_by_layer(explorer: Explorer, half: bool, kind: str) -> None:
    numbers = np.frombuffer(pack_decoder(explorer.model, half), kind)
    at = 0
    linear = [part for part in explorer.model.decoder.layers if isinstance(part, torch.nn.Linear)]  # type: ignore[union-attr]
    for layer, (inputs, outputs) in zip(linear, explorer.describe()["decoder"]["layers"], strict=True):
        weight = numbers[at : at + inputs * outputs].reshape(inputs, outputs)
        assert np.array_equal(weight, layer.weight.detach().numpy().T.astype(kind))
        at += inputs * outputs
        assert np.array_equal(numbers[at : at + outputs], layer.bias.detach().numpy().astype(kind))
        at += outputs
    assert at == len(numbers)


def test_weights_have_half_the_bytes_only_if_the_pictures_stay_the_same(explorer: Explorer) -> None:
    whole = len(pack_decoder(explorer.model, half=False))
    assert len(explorer.weights) == whole / 2
    coarse = copy.deepcopy(explorer.model)
    last = [part for part in coarse.decoder.layers if isinstance(part, torch.nn.Linear)][-1]  # type: ignore[union-attr]
    last.weight.data *= 1000  # any rounding now shows
    assert len(pack_decoder(coarse)) == whole
    last.weight.data /= 1000
    last.bias.data -= 1e6  # all black, but more than a half can hold
    assert len(pack_decoder(coarse)) == whole


def test_an_uploaded_image_is_explained_as_the_library_does(client: TestClient, explorer: Explorer) -> None:
    pixels = load_dataset("mnist-mini").test.images[7]
    answer = client.post("/api/explain", content=png(pixels[0].numpy())).json()
    expected = explain(explorer.model, to_float(pixels.unsqueeze(0)))
    assert base64.b64decode(answer["pixels"]) == pixels.numpy().tobytes()
    assert answer["words"] == expected.words
    assert answer["scores"] == pytest.approx(expected.scores)
    capsule = explorer.model.capsules(to_float(pixels.unsqueeze(0)))[0, answer["class_index"]]
    assert answer["capsule"] == pytest.approx(capsule.tolist(), abs=1e-6)


def test_what_would_make_it_another_class_is_answered_as_the_library_does(
    client: TestClient, explorer: Explorer
) -> None:
    pixels = load_dataset("mnist-mini").test.images[7]
    answer = client.post("/api/explain", content=png(pixels[0].numpy())).json()
    assert answer["what_if"]["class_index"] == answer["rival_index"]
    asked = next(index for index in range(10) if index not in (answer["class_index"], answer["rival_index"]))
    found = client.post(f"/api/what-if?class={asked}", content=base64.b64decode(answer["pixels"])).json()
    expected = explain(explorer.model, to_float(pixels), asked)
    assert expected.what_if is not None
    assert (found["class_index"], found["words"]) == (asked, expected.what_if_words)
    assert found["capsule"] == pytest.approx(expected.what_if.capsule.tolist(), abs=1e-4)


def test_what_would_make_it_nothing_known_is_refused(client: TestClient) -> None:
    assert is_error(
        client.post("/api/what-if?class=1", content=b"123"), 400, "expected the 784 bytes of an image, got 3"
    )
    assert is_error(
        client.post("/api/what-if?class=10", content=bytes(784)), 400, "class must be a whole number in 0..9"
    )
    assert is_error(client.post("/api/what-if", content=bytes(784)), 400, "which class")


def test_an_image_can_be_inverted_first(client: TestClient) -> None:
    pixels = load_dataset("mnist-mini").test.images[7][0].numpy()
    straight = client.post("/api/explain", content=png(pixels)).json()
    inverted = client.post("/api/explain?invert=1", content=png(255 - pixels)).json()
    assert straight == inverted


def test_test_images_can_be_filtered_by_what_happened_to_them(client: TestClient, explorer: Explorer) -> None:
    client.get("/api/tests")
    wait_until(lambda: client.get("/api/tests").json()["phase"] == "ready")
    test = load_dataset("mnist-mini").test
    predicted = explorer.model.predict(to_float(test.images))
    wrong = set((predicted != test.labels).nonzero()[:, 0].tolist())
    mistakes = client.get("/api/tests?show=mistakes&limit=100").json()
    assert mistakes["matching"] == len(wrong)
    assert {image["index"] for image in mistakes["images"]} <= wrong
    assert len(base64.b64decode(mistakes["pixels"])) == 784 * len(mistakes["images"])
    nines = client.get("/api/tests?class=9&limit=100").json()
    assert nines["matching"] == int((test.labels == 9).sum())
    assert all(image["label"] == 9 for image in nines["images"])
    one = client.get(f"/api/tests/one?index={mistakes['images'][0]['index']}").json()
    assert one["label"] == mistakes["images"][0]["label"] != one["class_index"]
    assert len(one["label_capsule"]) == 16


def test_test_images_can_be_filtered_by_their_verdict(copied_run: Path) -> None:
    config = copied_run / "model" / "config.json"
    calibration = {"radii": [0.2] * 5 + [1.2] * 5, "coverage": 0.9, "calibrated_on": 100}
    config.write_text(json.dumps(json.loads(config.read_text()) | calibration))
    model = load(copied_run)
    verdicts = model.verdicts(model.scores(to_float(load_dataset("mnist-mini").test.images)))
    client = TestClient(create_app(Explorer(copied_run)), base_url="http://localhost")
    wait_until(lambda: client.get("/api/tests").json()["phase"] == "ready")
    for show in ("unknown", "ambiguous"):
        found = client.get(f"/api/tests?show={show}").json()
        assert found["matching"] == verdicts.count(show) > 0
        assert all(image["verdict"] == show for image in found["images"])


def test_a_test_image_can_be_asked_for_first(copied_run: Path) -> None:
    """As a page does that was open while the server was started anew."""
    client = TestClient(create_app(Explorer(copied_run)), base_url="http://localhost")
    wait_until(lambda: client.get("/api/tests/one?index=0").status_code == 200)


def test_without_its_data_the_rest_of_a_run_is_there(colour_run: Path) -> None:
    client = TestClient(create_app(Explorer(colour_run)), base_url="http://localhost")
    client.get("/api/tests")
    wait_until(lambda: client.get("/api/tests").json()["phase"] == "gone")
    assert "nowhere" in client.get("/api/tests").json()["message"]
    assert is_error(client.get("/api/tests/one?index=0"), 400, "nowhere")
    answer = client.post("/api/explain", content=png(np.zeros((9, 7, 3), np.uint8)))
    assert len(answer.json()["scores"]) == 37


def test_of_data_that_changed_no_test_images_are_shown(copied_run: Path) -> None:
    environment = json.loads((copied_run / "env.json").read_text())
    (copied_run / "env.json").write_text(json.dumps(environment | {"data": "0123456789abcdef"}))
    client = TestClient(create_app(Explorer(copied_run)), base_url="http://localhost")
    client.get("/api/tests")
    wait_until(lambda: client.get("/api/tests").json()["phase"] == "gone")
    assert is_error(client.get("/api/tests/one?index=0"), 400, "changed since it began (fingerprint 0123456789abcdef")


def test_the_page_is_told_how_good_the_drawings_are(copied_run: Path) -> None:
    result = json.loads((copied_run / "result.json").read_text())
    assert Explorer(copied_run).describe()["quality"] == result["quality"]
    (copied_run / "result.json").unlink()
    assert Explorer(copied_run).describe()["quality"] is None


def test_a_component_keeps_the_name_it_was_given(copied_run: Path) -> None:
    client = TestClient(create_app(Explorer(copied_run)), base_url="http://localhost")
    client.put("/api/names", json={"class": 3, "component": 5, "name": "  how far it leans "})
    client.put("/api/names", json={"class": 3, "component": 6, "name": "thickness"})
    client.put("/api/names", json={"class": 3, "component": 6, "name": ""})
    assert json.loads((copied_run / "component-names.json").read_text()) == {"3": {"5": "how far it leans"}}
    assert Explorer(copied_run).describe()["names"] == {"3": {"5": "how far it leans"}}


@pytest.mark.parametrize(
    "content",
    [
        {"class": 10, "component": 0, "name": "a"},
        {"class": 0, "component": 16, "name": "a"},
        {"class": -1, "component": 0, "name": "a"},
        {"class": True, "component": 0, "name": "a"},
        {"class": 0.0, "component": 0, "name": "a"},
        {"class": 0, "component": 0, "name": "a" * 41},
        {"class": 0, "component": 0, "name": "a\nb"},
        {"class": 0, "component": 0, "name": "\x1b[31m"},
        {"class": 0, "component": 0},
        {"class": 0, "component": 0, "name": None},
        ["class"],
    ],
)
def test_impossible_names_are_refused_and_not_kept(copied_run: Path, content: Any) -> None:
    client = TestClient(create_app(Explorer(copied_run)), base_url="http://localhost")
    assert client.put("/api/names", json=content).status_code == 400
    assert not (copied_run / "component-names.json").exists()


def test_a_damaged_file_of_names_is_complained_about_and_left_alone(copied_run: Path) -> None:
    (copied_run / "component-names.json").write_text("{broken")
    client = TestClient(create_app(Explorer(copied_run)), base_url="http://localhost")
    assert "not valid JSON" in client.get("/api/run").json()["complaint"]
    assert client.put("/api/names", json={"class": 0, "component": 0, "name": "a"}).status_code == 400
    assert (copied_run / "component-names.json").read_text() == "{broken"


def test_runs_are_compared_with_and_without_prototypes(client: TestClient) -> None:
    found = {run["id"]: run for run in client.get("/api/runs").json()["runs"]}
    assert set(found) == {"mnist-mini/lenet5-hom-s0", "mnist-mini/lenet5-s0"}
    assert found["mnist-mini/lenet5-hom-s0"]["current"]
    one = client.get("/api/runs/one", params={"id": "mnist-mini/lenet5-hom-s0"}).json()
    assert len(base64.b64decode(one["prototypes"])) == 10 * 784
    assert len(one["curves"]["test_error"]) == 4
    other = client.get("/api/runs/one", params={"id": "mnist-mini/lenet5-s0"}).json()
    assert other["prototypes"] is None
    assert "Hit-or-Miss" in other["why"]


UNREADABLE = [b"", b"[]", b"{", b"null", b"\xff\xfe", b"[" * 100_000, b'{"test": ' + b"9" * 5_000 + b"}"]
STRANGE = [
    {"test": [], "quality": [1], "data": {"a": 1}},
    {"test": {"error": float("nan")}, "quality": {"r2": float("inf"), "read_back": [float("nan")]}},
    {"test": {"error": "low"}, "epochs": [], "seconds": {}, "decoder": 7, "parameters": 10**400},
    {"data": "\ud800", "model": "\udfff", "test": {"error": 1e999}},
]


@pytest.mark.parametrize("content", [*UNREADABLE, *(json.dumps(content).encode() for content in STRANGE)])
def test_damaged_results_break_nothing_and_an_unreadable_run_is_listed_as_unreadable(
    copied_run: Path, content: bytes
) -> None:
    beside = Path(shutil.copytree(copied_run, copied_run.with_name("beside")))
    for run in (copied_run, beside):
        (run / "result.json").write_bytes(content)
    client = TestClient(create_app(Explorer(copied_run)), base_url="http://localhost", raise_server_exceptions=False)
    page = client.get("/api/run")
    found = {run["id"]: run for run in client.get("/api/runs").json()["runs"]}["mnist-mini/beside"]
    one = client.get("/api/runs/one?id=mnist-mini/beside")
    assert page.status_code == 200
    if content in UNREADABLE:
        assert "result.json" in page.json()["complaint"]
        assert "result.json" in found["unreadable"]
        assert is_error(one, 400, "result.json")
    else:
        assert found["unreadable"] is None
        assert found["error"] is None
        assert one.status_code == 200


@pytest.mark.parametrize(
    ("table", "points"),
    [
        ("epoch,test_error\n1,nan\n2,5\n3,inf\n", [[2, 5]]),
        ("test_error\n5\n", None),
        ("epoch,test_error\n1\n2,5\n", [[2, 5]]),
        ("", None),
        ("epoch,test_error\n1,2,3\n", "one line of numbers"),
        ("epoch,test_error\n1,low\n", "one line of numbers"),
        ("epoch,test_error\n1,\0\n", "one line of numbers"),
    ],
)
def test_damaged_metrics_lose_their_points_or_are_refused(copied_run: Path, table: str, points: Any) -> None:
    (copied_run / "metrics.csv").write_text(table)
    client = TestClient(create_app(Explorer(copied_run)), base_url="http://localhost", raise_server_exceptions=False)
    assert client.get("/api/runs").status_code == client.get("/api/run").status_code == 200
    one = client.get("/api/runs/one?id=mnist-mini/copy")
    if isinstance(points, str):
        assert is_error(one, 400, points)
    else:
        assert one.json()["curves"].get("test_error") == points


@pytest.mark.parametrize("name", ["args.json", "result.json", "metrics.csv", "env.json", "component-names.json"])
def test_a_pipe_in_a_run_folder_is_not_waited_for(copied_run: Path, name: str) -> None:
    """Nor are links that lead nowhere, in circles or to what never ends."""
    explorer = Explorer(copied_run)
    client = TestClient(create_app(explorer), base_url="http://localhost", raise_server_exceptions=False)
    for number, place in enumerate((None, "nowhere", name, "/dev/zero")):
        strange = Path(shutil.copytree(copied_run, copied_run.with_name(f"strange{number}"))) / name
        strange.unlink(missing_ok=True)
        os.mkfifo(strange) if place is None else strange.symlink_to(place)
    assert client.get("/api/runs").status_code == 200
    for number in range(4):
        assert client.get(f"/api/runs/one?id=mnist-mini/strange{number}").status_code < 500
    assert len(find_runs(copied_run.parent)) >= 1
    show_runs(find_runs(copied_run.parent))


def test_networks_without_prototypes_are_refused_with_the_reason() -> None:
    for model in (create_model("n2", width=4), create_model("lenet5-hom", decoder="none")):
        with pytest.raises(ValueError, match="prototypes|cannot draw"):
            check_drawable(model)


def test_extremes_of_classes_and_components_are_described(tmp_path: Path) -> None:
    for classes, dims in ((2, 2), (100, 64)):
        model = create_model("lenet5-hom", (1, 28, 28), classes, dims, width=2)
        explorer = Explorer(fake_run(tmp_path / "extreme" / f"{classes}-{dims}", model))
        client = TestClient(create_app(explorer), base_url="http://localhost")
        assert len(client.get("/api/run").json()["classes"]) == classes
        answer = client.post("/api/explain", content=png(np.zeros((28, 28), np.uint8))).json()
        assert len(answer["capsule"]) == dims


def test_test_images_that_cannot_be_scored_are_not_waited_for(run: Path, monkeypatch: pytest.MonkeyPatch):
    found = Explorer(run)

    def fail(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(found.tests.model, "scores", fail)
    found.tests.start()
    deadline = time.monotonic() + 60
    while found.tests.phase != "gone" and time.monotonic() < deadline:
        time.sleep(0.01)
    page = found.tests.page("all", None, 0, 10)
    assert (page["phase"], page["images"]) == ("gone", [])
    assert page["message"] == "The test images of this run cannot be scored: out of memory"
    assert found.tests.wait(0), "those that were loaded can still be asked about"
