"""Settings from their files: as they were written, or refused with the name of the file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from hitnet.defaults import RECIPES
from hitnet.files import read_json, write_json
from hitnet.settings import TrainConfig, _revive, read_model_config, read_run_settings


@dataclass(frozen=True)
class Recipe:
    name: str = "cake"
    eggs: int = 3
    sugar: float = 0.5
    baked: bool = True
    shape: tuple[int, int] | None = None
    layers: tuple[str, ...] = ()
    tin: Path | None = None
    icing: Literal["white", "brown"] | None = None

    def __post_init__(self) -> None:
        if self.eggs < 0:
            raise ValueError(f"eggs must be at least 0, got {self.eggs}")


def read_settings(path: Path, kind: type[Recipe]) -> Recipe:
    return _revive(read_json(path), kind, kind, path)


def test_settings_come_back_as_they_were_written(tmp_path: Path):
    content = {"sugar": 1, "shape": [2, 3], "layers": ["jam"], "tin": "round/one", "icing": "brown", "baked": False}
    write_json(tmp_path / "recipe.json", content)
    expected = Recipe(
        sugar=1, shape=(2, 3), layers=("jam",), tin=Path("round/one"), icing="brown", baked=False, name="cake"
    )
    assert read_settings(tmp_path / "recipe.json", Recipe) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"egs": 3}, "unknown fields egs; the fields are name, eggs"),
        ({"eggs": "3"}, "eggs must be int, got '3'"),
        ({"eggs": 3.5}, "eggs must be int, got 3.5"),
        ({"eggs": True}, "eggs must be int, got True"),
        ({"eggs": None}, "eggs must be int, got None"),
        ({"baked": 1}, "baked must be bool, got 1"),
        ({"sugar": "much"}, "sugar must be float, got 'much'"),
        ({"shape": 3}, "shape must be .*, got 3"),
        ({"layers": [1]}, r"layers must be .*, got \(1,\)"),
        ({"tin": 7}, "tin must be .*, got 7"),
        ({"icing": "pink"}, "icing must be .*, got 'pink'"),
        ({"eggs": -1}, "eggs must be at least 0, got -1"),
    ],
)
def test_settings_of_another_name_or_type_are_refused(content: dict[str, object], message: str, tmp_path: Path):
    write_json(tmp_path / "recipe.json", content)
    with pytest.raises(ValueError, match=rf"recipe.json does not hold a valid Recipe: {message}"):
        read_settings(tmp_path / "recipe.json", Recipe)


def test_only_a_network_with_its_own_picture_decoder_is_finished_unasked():
    assert TrainConfig().resolve().decoder == "picture"
    assert TrainConfig().resolve().finishing == pytest.approx(1 / 3)
    assert TrainConfig(decoder="paper").resolve().finishing == 0, "it would replace the decoder that was asked for"
    assert TrainConfig(model="hitnet").resolve().finishing == 0
    assert TrainConfig(model="hitnet", finishing=0.5).resolve().finishing == 0.5
    assert TrainConfig(model="n1").resolve().decoder == "none"


@pytest.mark.parametrize(
    ("images", "batch_size", "epochs"),
    [(60_000, 128, 10), (3_200, 128, 32), (3_199, 64, 16), (800, 32, 32), (75, 16, 160), (2, 16, 800)],
)
def test_few_images_get_small_batches_and_enough_epochs(images, batch_size, epochs):
    settings = TrainConfig().resolve(images)
    assert (settings.batch_size, settings.epochs) == (batch_size, epochs)
    assert settings.epochs * -(-images // settings.batch_size) >= 800


def test_what_is_given_stays_and_the_papers_networks_keep_their_budget():
    assert TrainConfig(epochs=3).resolve(75).epochs == 3
    assert TrainConfig(batch_size=75).resolve(75).epochs == 800
    paper = TrainConfig(model="hitnet").resolve(75)
    assert (paper.batch_size, paper.epochs) == (128, 10)
    assert TrainConfig(model="timm/resnet10t").resolve(75).batch_size == 16
    assert paper.resolve(10_000) is paper


@pytest.mark.parametrize(("images", "share"), [(60_000, 0.03), (10_000, 0.05), (5_000, 0.1), (75, 0.1)])
def test_some_500_images_are_held_out_within_3_to_10_percent(images, share):
    assert TrainConfig().resolve(images).validation == share
    assert TrainConfig(model="hitnet").resolve(images).validation == 0
    assert TrainConfig(validation=0.2).resolve(images).validation == 0.2


def test_a_run_that_may_stop_early_has_no_rate_that_falls_only_at_the_end():
    assert TrainConfig(patience=3).resolve().schedule == "decay"
    assert TrainConfig(patience=3, schedule="one-cycle").resolve().schedule == "one-cycle"
    assert TrainConfig().resolve().schedule == "one-cycle"


def test_classes_of_very_different_size_are_balanced_unless_the_network_is_the_papers_or_the_user_says_otherwise():
    assert TrainConfig().resolve(100, uneven=True).balance
    assert not TrainConfig().resolve(100, uneven=False).balance
    assert not TrainConfig(balance=False).resolve(100, uneven=True).balance
    assert not TrainConfig(model="hitnet").resolve(100, uneven=True).balance
    assert TrainConfig(model="hitnet", balance=True).resolve(100).balance


def test_paths_may_be_given_as_text():
    assert TrainConfig(out="there", data_dir="here") == TrainConfig(out=Path("there"), data_dir=Path("here"))


def test_files_of_former_versions_mean_what_was_done_then(tmp_path: Path):
    path = tmp_path / "args.json"
    path.write_text('{"model": "hitnet-fast", "decoder": null}')
    settings = read_run_settings(path)
    assert (settings.decoder, settings.finishing) == ("standardised", 0)
    path.write_text('{"model": "hitnet-fast", "freeze": true, "pretrained": "run", "shift": 2}')
    assert read_run_settings(path).shift == 0, "it had no effect then either"
    path.write_text('{"name": "hitnet-fast"}')
    assert read_model_config(path).decoder == "standardised"
    path.write_text('{"name": "lenet5", "decoder": null}')
    assert read_model_config(path).decoder == "none"


def test_a_finishing_phase_of_negative_length_is_refused():
    with pytest.raises(ValueError, match="finishing must be finite and at least 0, got -1; 0 turns it off"):
        TrainConfig(finishing=-1)


def test_a_recipe_fills_in_what_was_left_open_and_a_given_part_replaces_its_own():
    assert TrainConfig(augment="shift").resolve().shift == 2
    assert TrainConfig(augment="none").resolve().shift == 0
    digits = TrainConfig(augment="digits", rotate=30.0, shift=0).resolve()
    assert (digits.rotate, digits.shift, digits.scale, digits.flip) == (30.0, 0, RECIPES["digits"]["scale"], False)
    assert TrainConfig(augment="photos").resolve().flip
    assert TrainConfig(augment="photos", flip=False).resolve().flip is False
    assert TrainConfig().resolve().flip is False
    assert TrainConfig(freeze=True, pretrained="run").resolve().shift == 0
    assert TrainConfig(augment="digits", flip=True).resolve().flip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rotate": 181.0}, r"rotate must lie in \[0, 180\], got 181.0; 0 turns it off"),
        ({"scale": 1.0}, r"scale must lie in \[0, 0.9\]"),
        ({"bend": 0.2}, r"bend must lie in \[0, 0.1\], got 0.2; 0 turns it off"),
        ({"erase": -0.1}, r"erase must lie in \[0, 1\]"),
        ({"colour": float("nan")}, r"colour must lie in \[0, 1\], got nan"),
        ({"freeze": True, "pretrained": "run", "shift": 3}, "freeze looks at every picture once"),
        ({"augment": "none", "shear": 5.0}, "augment none leaves the images as they are, shear changes them"),
    ],
)
def test_a_variation_that_cannot_work_is_refused(options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**options)  # type: ignore[arg-type]
