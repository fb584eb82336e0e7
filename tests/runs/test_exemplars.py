"""The real pictures in a run's folder: when they are written, and what is said if they are missing or damaged."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from support.tiny import snapshot

from hitnet.core.checkpoint import write_tensors
from hitnet.data import load_dataset, split_training
from hitnet.export import export_html
from hitnet.files import write_text
from hitnet.runs.exemplars import read_exemplars
from hitnet.runs.reopen import reopen
from hitnet.runs.run import Run
from hitnet.runs.train import train
from hitnet.settings import TrainConfig
from hitnet.web.explorer import Explorer

Settings = Callable[..., TrainConfig]

pytestmark = pytest.mark.usefixtures("no_pictures")


@pytest.fixture
def run(settings: Settings) -> Run:
    return train(settings(validation=0.25, capsule_dim=4))


def test_a_run_keeps_pictures_of_its_training_images_only(run: Run, squares: Path) -> None:
    kept = read_exemplars(run, run.load_model())
    training, held_out = split_training(load_dataset(str(squares)), count=None, validation=0.25, seed=0)
    assert held_out is not None
    trained, others = ({image.numpy().tobytes() for image in part.images} for part in (training, held_out))
    found = {picture.numpy().tobytes() for picture in kept.pictures}
    assert found
    assert found <= trained
    assert not found & others


def test_a_run_without_exemplars_never_gets_any(settings: Settings, hitnet_says, tmp_path: Path) -> None:
    private = train(settings(no_exemplars=True, capsule_dim=4))
    hitnet_says("prototypes", private.path)
    hitnet_says("finish", private.path, "--steps", 1)
    hitnet_says("eval", private.path)
    assert not private.exemplars_file.exists()
    assert [file.suffix for file in private.path.glob("eval-*-mistakes.*")] == [".csv"]
    assert Explorer(private.path).exemplars is None
    assert "image/webp;base64,UklG" not in export_html(private.path).read_text()
    # Not even a copy from another run is shown.
    public = train(settings(out=tmp_path / "public", capsule_dim=4))
    shutil.copy(public.exemplars_file, private.exemplars_file)
    assert Explorer(private.path).exemplars is None
    assert '<script type="application/json" id="exemplars">null</script>' in export_html(private.path).read_text()


@pytest.mark.parametrize(("model", "options"), [("lenet5", {}), ("lenet5-hom", {"decoder": "none"})])
def test_a_network_without_drawings_keeps_no_pictures(settings: Settings, model: str, options: dict[str, str]) -> None:
    assert not train(settings(model=model, epochs=1, **options)).exemplars_file.exists()


def test_the_atlas_gives_a_former_run_the_same_pictures(run: Run, hitnet_says) -> None:
    before = run.exemplars_file.read_bytes()
    run.exemplars_file.unlink()
    note = Explorer(run.path).exemplars
    assert note is not None
    assert f"hitnet prototypes {run.path}" in note["note"]
    hitnet_says("prototypes", run.path)
    assert run.exemplars_file.read_bytes() == before
    assert len(Explorer(run.path).exemplars["pictures"]) > 0  # type: ignore[index]


def test_finish_gives_a_former_run_pictures_too(run: Run, hitnet_says) -> None:
    before = run.exemplars_file.read_bytes()
    run.exemplars_file.unlink()
    hitnet_says("finish", run.path, "--steps", 1)
    assert run.exemplars_file.read_bytes() == before


def test_without_its_data_a_former_run_gets_an_atlas_of_drawings(run: Run, squares: Path, hitnet_says) -> None:
    run.exemplars_file.unlink()
    squares.unlink()
    assert "note: drawn without real pictures:" in hitnet_says("prototypes", run.path)
    assert (run.plots_folder / "atlas" / "0.png").is_file()
    assert not run.exemplars_file.exists()


def damage(run: Run, kind: str) -> None:
    path, found = run.exemplars_file, vars(read_exemplars(run, run.load_model()))
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    elif kind == "text":
        write_text(path, "not pictures")
    elif kind == "a part missing":
        write_tensors(path, {name: found[name] for name in ("pictures", "typical")})
    elif kind == "floats":
        write_tensors(path, found | {"pictures": found["pictures"].float()})
    elif kind == "another model's":
        write_tensors(path, found | {"ends": found["ends"][:, :3]})
    elif kind == "another channel":
        write_tensors(path, found | {"pictures": found["pictures"].expand(-1, 3, -1, -1)})
    elif kind == "flat":
        write_tensors(path, found | {"typical": torch.tensor(0)})
    else:
        write_tensors(path, found | {"typical": found["typical"] + len(found["pictures"])})


@pytest.mark.parametrize(
    "kind",
    ["truncated", "text", "a part missing", "floats", "another model's", "another channel", "flat", "beyond the last"],
)
def test_a_damaged_file_is_named_with_a_remedy_and_spoils_nothing_else(run: Run, kind: str, hitnet_says) -> None:
    damage(run, kind)
    with pytest.raises(ValueError, match=r"exemplars\.safetensors.* remove it and make it again with: hitnet pro"):
        reopen(run.path).exemplars()
    note = Explorer(run.path).exemplars
    assert note is not None
    assert "cannot be read" in note["note"]
    assert "remove it" in hitnet_says("prototypes", run.path)
    assert (run.plots_folder / "atlas" / "0.png").is_file()


def test_only_the_page_contains_pictures_and_only_if_wanted(run: Run, hitnet_says, tmp_path: Path) -> None:
    def pictures_in(*options: str) -> bool:
        hitnet_says("export", run.path, "--out", tmp_path / "page.html", *options)
        return "UklG" in (tmp_path / "page.html").read_text()  # RIFF, how a WebP file begins

    assert pictures_in()
    assert not pictures_in("--no-exemplars")
    hitnet_says("export", run.path, "--format", "safetensors", "--out", tmp_path / "network.safetensors")
    content = (tmp_path / "network.safetensors").read_bytes()
    first = read_exemplars(run, run.load_model()).pictures[0].numpy().tobytes()
    assert first in run.exemplars_file.read_bytes()
    assert first not in content


def test_nothing_private_is_written_into_the_folder(settings: Settings, squares: Path) -> None:
    files = snapshot(train(settings(no_exemplars=True)).path)
    images = load_dataset(str(squares)).train.images
    assert not any(image.numpy().tobytes() in content for image in images for content in files.values())
