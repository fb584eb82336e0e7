"""What training does to the weights, and what it never does."""

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from support.tiny import snapshot, write_squares

import hitnet
from hitnet.core.model import Loss, Model, create_model
from hitnet.data import Variation, load_dataset, to_float
from hitnet.runs import train
from hitnet.runs.run import Row, Run
from hitnet.settings import TrainConfig
from hitnet.training.evaluation import Evaluation, evaluate
from hitnet.training.loop import Job, TrainingStopped, learning_rate
from hitnet.training.state import make_optimizer
from hitnet.training.statistics import refresh_norm
from hitnet.training.watchers import Watcher

Settings = Callable[..., TrainConfig]

pytestmark = pytest.mark.usefixtures("no_pictures")


def weights(run: Run) -> bytes:
    return (run.path / "model" / "model.safetensors").read_bytes()


@pytest.mark.parametrize(
    ("schedule", "progress", "expected"),
    [
        ("constant", 0, 0.001),
        ("constant", 9.9, 0.001),
        ("decay", 0, 0.001),
        ("decay", 0.99, 0.001),
        ("decay", 1, 0.00095),
        ("decay", 2.5, 0.0009025),
        # One cycle of 10 epochs: up from a twentieth in the first 2, then half a cosine down to 0.
        ("one-cycle", 0, 0.00005),
        ("one-cycle", 1, 0.000525),
        ("one-cycle", 2, 0.001),
        ("one-cycle", 4, 0.001 * 0.5 * (1 + math.sqrt(0.5))),
        ("one-cycle", 6, 0.0005),
        ("one-cycle", 10, 0.0),
    ],
)
def test_schedules_follow_values_computed_by_hand(schedule, progress, expected):
    config = TrainConfig(schedule=schedule, epochs=10, learning_rate=0.001).resolve()
    assert learning_rate(config, progress) == pytest.approx(expected, abs=1e-12)


def test_the_rate_changes_with_every_step_and_the_optimizer_gets_it(settings: Settings):
    config = settings(schedule="one-cycle", epochs=2)
    rates = []

    class Reads(Watcher):
        def stepped(self, images: int, loss: float) -> None:
            rates.append(job.state.optimizer.param_groups[0]["lr"])

    with train.prepare(config.resolve()) as (job, fingerprints):
        run = Run(config.out / "x")
        run.create(job.settings, fingerprints)
        train._train(run, job, [train.Recorder(run), Reads()])
    assert rates == pytest.approx([learning_rate(config.resolve(), step / 3) for step in range(6)])
    assert [row["learning_rate"] for row in run.read_metrics()] == pytest.approx([rates[2], rates[5]])


def test_the_network_sees_a_hole_the_decoder_draws_the_whole_and_every_second_epoch_is_mirrored(
    settings: Settings, squares: Path, monkeypatch: pytest.MonkeyPatch
):
    seen, drawn = [], []
    forward, loss = Model.forward, Model.loss

    def sees(model: Model, images: torch.Tensor, *labels: torch.Tensor):
        if model.training:
            seen.append(images)
        return forward(model, images, *labels)

    def draws(model: Model, out, images: torch.Tensor, labels: torch.Tensor) -> Loss:
        if model.training:
            drawn.append(images)
        return loss(model, out, images, labels)

    monkeypatch.setattr(Model, "forward", sees)
    monkeypatch.setattr(Model, "loss", draws)
    hitnet.train(settings(epochs=2, batch_size=96, shift=0, flip=True, erase=0.5))
    hidden = (seen[0] != drawn[0]).flatten(2).sum(2)
    assert int(hidden.min()) > 0
    assert int(hidden.max()) <= 14 * 14
    originals = {image.numpy().tobytes(): number for number, image in enumerate(to_float(training_images(squares)))}
    mirrored = [
        {originals[whole] for image in epoch if (whole := image.flip(-1).numpy().tobytes()) in originals}
        for epoch in drawn
    ]
    assert len(mirrored[0]) == len(mirrored[1]) == 48
    assert mirrored[0] | mirrored[1] == set(range(96))


def training_images(data: Path) -> torch.Tensor:
    return load_dataset(data).train.images


def test_averages_of_batchnorm_are_those_of_the_average_of_the_weights(settings: Settings, squares: Path):
    run = hitnet.train(settings(ema=0.9, refresh_norm=True))
    kept = hitnet.load(run.path)
    again = copy.deepcopy(kept)
    refresh_norm(again, training_images(squares))
    for name, value in kept.state_dict().items():
        torch.testing.assert_close(again.state_dict()[name], value, rtol=1e-4, atol=1e-5)
    row, measured = run.read_metrics()[-1], evaluate(kept, load_dataset(squares).test)
    assert (measured.error, measured.loss) == pytest.approx((row["test_error"], row["test_loss"]))


@pytest.mark.parametrize(("patience", "in_bfloat16"), [(0, [True, False]), (1, [False, False])])
def test_only_epochs_that_may_be_kept_are_measured_in_full_precision(
    settings: Settings, squares: Path, monkeypatch: pytest.MonkeyPatch, patience, in_bfloat16
):
    seen = []

    def measure(*args, **options) -> Evaluation:
        seen.append(torch.is_autocast_enabled("cpu"))
        return evaluate(*args, **options)

    monkeypatch.setattr("hitnet.training.loop.evaluate", measure)
    monkeypatch.setattr("hitnet.runs.train.choose_precision", lambda *_: torch.bfloat16)  # not every processor has it
    run = hitnet.train(settings(epochs=2, patience=patience, validation=0.2))
    assert seen == [wanted for wanted in in_bfloat16 for _ in ("test", "validation")]
    # Without autocast, the kept network has exactly the error and loss of the last row.
    again = evaluate(hitnet.load(run.path), load_dataset(squares).test)
    row = run.read_metrics()[-1]
    assert (again.error, again.loss) == pytest.approx((row["test_error"], row["test_loss"]))


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(settings: Settings, tmp_path: Path):
    first, again, other = (
        hitnet.train(settings(seed=seed, out=tmp_path / out)) for seed, out in ((1, "a"), (1, "b"), (2, "a"))
    )
    assert weights(first) == weights(again)
    assert (first.path / "metrics.csv").read_bytes() == (again.path / "metrics.csv").read_bytes()
    assert weights(first) != weights(other)


def test_training_learns_the_squares(settings: Settings):
    run = hitnet.train(settings(epochs=12, norm_momentum=0.1, learning_rate=0.003))
    assert run.read_metrics()[-1]["train_loss"] < 0.5 * run.read_metrics()[0]["train_loss"]
    assert run.read_result()["test"]["error"] < 10


@pytest.mark.parametrize("model", ["n1", "n2", "capsnet", "resnet18-hom"])
def test_other_networks_train_through_the_same_loop(model: str, settings: Settings):
    run = hitnet.train(settings(model=model, width=8, epochs=1, train_images=12))
    assert math.isfinite(run.read_metrics()[0]["test_loss"])
    assert run.read_result()["model"] == model


def test_the_test_images_change_nothing_but_the_test_numbers(settings: Settings, tmp_path: Path):
    others = write_squares(tmp_path / "others.npz", test=12, test_seed=5)
    config = settings(ema=0.9, validation=0.25, patience=2, epochs=4)
    first, second = hitnet.train(config), hitnet.train(replace(config, data=str(others)))
    assert weights(first) == weights(second)
    without_test = [
        [{k: v for k, v in row.items() if "test" not in k} for row in run.read_metrics()] for run in (first, second)
    ]
    assert without_test[0] == without_test[1]
    assert first.read_result()["test"] != second.read_result()["test"]


def test_the_average_of_the_weights_equals_a_naive_running_average(settings: Settings):
    class Averages(Watcher):
        average: dict[str, torch.Tensor] = {}  # noqa: RUF012
        steps = 0

        def started(self, job: Job) -> None:
            self.model = job.state.model

        def stepped(self, images: int, loss: float) -> None:
            now = {name: value.clone() for name, value in self.model.state_dict().items() if value.is_floating_point()}
            before = self.average or now
            decay = min(0.99, (1 + self.steps) / (10 + self.steps))
            self.average = {name: decay * before[name] + (1 - decay) * now[name] for name in now}
            self.steps += 1

    watcher = Averages()
    run = hitnet.train(settings(ema=0.99, refresh_norm=False), watcher=watcher)
    kept = hitnet.load(run.path).state_dict()
    for name, value in watcher.average.items():
        torch.testing.assert_close(kept[name], value, rtol=1e-5, atol=1e-6)
    differs = [not torch.equal(value, watcher.model.state_dict()[name]) for name, value in kept.items()]
    assert any(differs), "the average is not the last weights"


def test_settings_reach_the_encoder_the_images_and_the_optimizer(settings: Settings):
    config = settings(
        model="hitnet-deep", augment="photos", rotate=1.0, scale=0.2, shear=3.0, bend=0.05, weight_decay=0.5
    )
    with train.prepare(replace(config, validation=0.0, finishing=0.0, seed=4)) as (job, _):
        assert job.state.model.encoder.whitened
        assert job.batches.variation == Variation(
            shift=2, fill="edge", flip=True, rotate=1.0, scale=0.2, shear=3.0, bend=0.05, colour=0.1, erase=0.25, seed=4
        )
        assert [group["weight_decay"] for group in job.state.optimizer.param_groups] == [0.0, 0.5]


def test_the_usual_shift_of_tiny_images_is_smaller_and_a_larger_one_is_refused(settings: Settings, tmp_path: Path):
    np.savez(tmp_path / "tiny.npz", x_train=np.zeros((20, 2, 2), np.uint8), y_train=np.arange(20) % 2)
    usual = settings(data=str(tmp_path / "tiny.npz"), batch_size=4)
    with train.prepare(usual) as (job, _):
        assert job.batches.variation.shift == 1
        assert job.settings.shift == usual.resolve().shift == 2, "what an audit resumes from"
    for config in (replace(usual, shift=40), replace(usual, shift=40).resolve()):
        with pytest.raises(ValueError, match="smaller than the 2×2 images, got 40"), train.prepare(config):
            pass


def test_only_weights_of_encoder_and_capsules_shrink_by_the_decay():
    start = create_model("hitnet-deep", (1, 28, 28), 3, width=8)
    images, labels = torch.rand(6, 1, 28, 28), torch.tensor([0, 1, 2, 0, 1, 2])

    def after_one_step(weight_decay: float) -> dict[str, torch.Tensor]:
        model = copy.deepcopy(start)
        model.loss(model(images, labels), images, labels).total.backward()
        make_optimizer(model, 0.01, weight_decay).step()
        return dict(model.named_parameters())

    free, decayed = after_one_step(0.0), after_one_step(2.0)
    for name, before in start.named_parameters():
        shrinks = before.dim() > 1 and not name.startswith("decoder.")
        torch.testing.assert_close(decayed[name], free[name] - 0.01 * 2.0 * before if shrinks else free[name])


@pytest.mark.parametrize("name", ["hitnet", "n1"])
def test_evaluation_equals_a_loop_over_single_images(name: str, squares: Path):
    data = load_dataset(squares).test
    model = create_model(name, (1, 28, 28), 3, width=8)
    measured = evaluate(model, data, batch_size=7)
    model.eval()
    confusion, losses = [[0] * 3 for _ in range(3)], []
    for image, label in zip(to_float(data.images), data.labels, strict=True):
        out = model(image[None], label[None])
        scores = out.scores[0].tolist()
        answer = scores.index(min(scores) if name == "hitnet" else max(scores))
        confusion[int(label)][answer] += 1
        losses.append(model.loss(out, image[None], label[None]).total.item())
    assert measured.confusion.tolist() == confusion
    assert measured.loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
    mistakes = 30 - sum(confusion[index][index] for index in range(3))
    assert (measured.mistakes, measured.count, measured.error) == (mistakes, 30, pytest.approx(mistakes / 0.3))


def test_evaluation_counts_the_mistakes_of_each_class():
    measured = Evaluation(torch.tensor([[5, 1, 3], [0, 4, 0], [0, 0, 0]]), loss=0.5)
    assert measured.per_class(("ant", "bee", "cow")) == [
        {"class": "ant", "images": 9, "mistakes": 4, "error": pytest.approx(400 / 9), "as": "cow"},
        {"class": "bee", "images": 4, "mistakes": 0, "error": 0.0, "as": None},
        {"class": "cow", "images": 0, "mistakes": 0, "error": None, "as": None},
    ]
    assert measured.error == pytest.approx(400 / 13)
    assert measured.balanced_error == pytest.approx(200 / 9), "each class that has images counts equally"


def test_classes_of_very_different_size_are_shown_equally_often_and_the_user_is_told(tmp_path: Path, monkeypatch):
    images, labels = np.zeros((70, 8, 8), np.uint8), np.array([0] * 60 + [1] * 10)
    np.savez(tmp_path / "uneven.npz", x_train=images, y_train=labels)
    config = TrainConfig(data=str(tmp_path / "uneven.npz"), batch_size=4, validation=0.0, finishing=0.0, width=2)
    with train.prepare(config) as (job, _):
        shown = torch.cat([labels for _, labels, _ in job.batches.epoch(0)])
        assert any("--balance False" in note for note in job.data.notes)
    assert shown.bincount().tolist() == [28, 28]
    orders = []
    monkeypatch.setattr("hitnet.training.loop.refresh_norm", lambda model, images, order: orders.append(order))
    hitnet.train(replace(config, epochs=1, out=tmp_path / "runs"))
    found = job.batches.data.labels[orders[0]].bincount()
    assert found.tolist() == [28, 28], "and so are they for the averages of BatchNorm"
    with train.prepare(replace(config, balance=False)) as (job, _):
        assert torch.cat([labels for _, labels, _ in job.batches.epoch(0)]).bincount().tolist() == [48, 8]


def test_train_images_takes_a_balanced_subset_and_validation_a_part_of_it(settings: Settings):
    with train.prepare(settings(train_images=30, validation=0.2).resolve()) as (job, _):
        training, validation = job.batches.data, job.held_out["validation"]
    assert training.labels.bincount().tolist() == [8, 8, 8]
    assert validation.labels.bincount().tolist() == [2, 2, 2]
    seen = {image.numpy().tobytes() for image in training.images}
    assert not seen & {image.numpy().tobytes() for image in validation.images}


def test_patience_stops_and_keeps_the_best_epoch(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    errors = iter([50.0, 30.0, 20.0, 20.0, 40.0, 10.0])

    def scripted(model: Model, images: object, **_: object) -> Evaluation:
        # 19 of 96 images are held out; the 30 test images get a constant answer.
        percent = next(errors) if len(images) != 30 else 0.0  # type: ignore[arg-type]
        return Evaluation(torch.tensor([[1000 - int(10 * percent), int(10 * percent)], [0, 0]]), loss=1.0)

    class Keeps(Watcher):
        def started(self, job: Job) -> None:
            self.model, self.epochs = job.state.model, []

        def epoch_ended(self, row: Row) -> None:
            self.epochs.append({name: value.clone() for name, value in self.model.state_dict().items()})

    monkeypatch.setattr("hitnet.training.loop.evaluate", scripted)
    watcher = Keeps()
    run = hitnet.train(settings(validation=0.2, patience=2, epochs=20), watcher=watcher)
    assert [row["validation_error"] for row in run.read_metrics()] == [50, 30, 20, 20, 40]
    assert (run.read_result()["epochs"], run.read_result()["kept_epoch"]) == (5, 3)
    for name, value in hitnet.load(run.path).state_dict().items():
        torch.testing.assert_close(value, watcher.epochs[2][name], rtol=0, atol=0)


class TestALossThatIsNotFinite:
    def test_tells_epoch_batch_and_cause_and_keeps_the_last_good_state(
        self, settings: Settings, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        uninterrupted = hitnet.train(settings(out=tmp_path / "other"))
        steps = iter(range(100))
        real = Model.loss

        def breaks(model: Model, *arguments: torch.Tensor) -> Loss:
            loss = real(model, *arguments)  # type: ignore[arg-type]
            # Two epochs of 3 batches; evaluation asks for a loss too, once an epoch.
            return loss if next(steps) != 5 else loss._replace(total=loss.total * math.nan)

        monkeypatch.setattr(Model, "loss", breaks)
        config = settings()
        with pytest.raises(
            TrainingStopped, match=r"loss became nan in epoch 2, batch 2, .* rate is too high"
        ) as stopped:
            hitnet.train(config)
        run = Run.named(config, "squares")
        assert str(run.path) in str(stopped.value)
        assert [row["epoch"] for row in run.read_metrics()] == [1]
        monkeypatch.setattr(Model, "loss", real)
        assert weights(train.resume(run.path)) == weights(uninterrupted)

    def test_a_rate_far_too_high_is_stopped_before_it_is_saved(self, settings: Settings):
        with pytest.raises(TrainingStopped, match="learning rate 1e.30"):
            hitnet.train(settings(learning_rate=1e30, epochs=5))

    def test_weights_broken_by_the_last_step_of_an_epoch_are_not_saved(self, settings: Settings):
        class Breaks(Watcher):
            steps = 0

            def started(self, job: Job) -> None:
                self.model = job.state.model

            def stepped(self, images: int, loss: float) -> None:
                self.steps += 1
                if self.steps == 6:
                    next(self.model.parameters()).data.fill_(math.nan)

        config = settings()
        with pytest.raises(TrainingStopped, match="weights are no longer finite in epoch 2, batch 3"):
            hitnet.train(config, watcher=Breaks())
        kept = hitnet.load(Run.named(config, "squares").path)
        assert all(value.isfinite().all() for value in kept.state_dict().values())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"model": "lenet-hom"}, "there is no model 'lenet-hom'; did you mean 'lenet5-hom'"),
        ({"train_images": 2}, "3 classes"),
        ({"patience": 3}, "patience needs validation images to watch; add --validation 0.1"),
        ({"shift": 28}, "shift must be smaller than the 28×28 images, got 28; the usual one is 2"),
        ({"device": "gpu"}, "device 'gpu' cannot be used"),
        ({"data": "mnst"}, "did you mean 'mnist'"),
        ({"hit_radius": 2.0}, "hit_radius < miss_radius"),
        ({"miss_radius": math.inf}, "hit_radius < miss_radius"),
        ({"norm_momentum": 5.0}, r"norm_momentum must lie in \(0, 1\], got 5.0"),
        ({"norm_eps": 0.0}, "norm_eps must be positive and finite, got 0.0"),
        ({"reconstruction_weight": -1.0}, "reconstruction_weight must be finite and at least 0, got -1.0"),
        (
            {"validation": 0.99, "train_images": 3},
            "none of 3 images can be held out, since no class has 2; .*--validation 0",
        ),
    ],
)
def test_a_wrong_setting_leaves_no_trace_and_never_costs_a_former_run(
    options: dict[str, object], message: str, settings: Settings, tmp_path: Path
):
    config = settings(epochs=1)
    before = snapshot(hitnet.train(config).path)
    with pytest.raises(ValueError, match=message):
        hitnet.train(replace(config, **options), overwrite=True)
    assert snapshot(Run.named(config, "squares").path) == before
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["squares"]
    assert [path.name for path in (tmp_path / "runs" / "squares").iterdir()] == ["lenet5-hom-s0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"batch_size": 1}, "batch_size must be at least 2, got 1"),
        ({"threads": 0}, "threads must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be positive and finite, got 0.0"),
        ({"learning_rate": math.nan}, "learning_rate must be positive and finite, got nan"),
        ({"weight_decay": -0.1}, "weight_decay must be finite and at least 0, got -0.1"),
        (
            {"weight_decay": 500.0, "learning_rate": 0.01},
            r"weight_decay × learning_rate must be less than 1, got 500.0 × 0.01",
        ),
        ({"augment": "none", "shift": 3}, "augment none leaves the images as they are, shift changes them"),
        ({"ema": 1.0}, r"ema must lie in \[0, 1\), got 1.0"),
        ({"validation": -0.1}, r"validation must lie in \[0, 1\), got -0.1"),
        ({"seed": -1}, r"seed must lie in 0\.\.4294967295, got -1"),
        ({"seed": 2**32}, "seed must lie in"),
        ({"epochs": 2.5}, "epochs must be int or None, got 2.5"),
        ({"data": 3}, "data must be str, got 3"),
        ({"out": 3}, "out must be Path, got 3"),
        ({"flip": 1}, "flip must be bool or None, got 1"),
        ({"schedule": "cosine"}, r"schedule must be one of constant, decay, one-cycle or None, got 'cosine'"),
        ({"augment": "flip"}, "augment must be .*, got 'flip'"),
        ({"precision": "float16"}, "precision must be .*, got 'float16'"),
        ({"track": "wandb"}, "track must be .*, got 'wandb'"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(options: dict[str, object], message: str):
    with pytest.raises(ValueError, match=message):
        TrainConfig(**options)  # type: ignore[arg-type]


def test_patience_may_watch_the_pictures_of_a_validation_folder(settings: Settings, squares: Path, tmp_path: Path):
    with np.load(squares) as content:
        images, labels = content["x_train"], content["y_train"]
    for place, (image, label) in enumerate(zip(images, labels, strict=True)):
        folder = tmp_path / "pictures" / ("train", "test", "val")[place % 16 // 6] / str(label)
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(folder / f"{place}.png")
    run = hitnet.train(settings(data=str(tmp_path / "pictures"), epochs=2, patience=1))
    assert "validation_error" in run.read_metrics()[0]


def test_settings_may_be_numbers_of_numpy_as_a_grid_search_draws_them():
    assert TrainConfig(epochs=np.int64(3), ema=np.float32(0.5)).epochs == 3  # type: ignore[arg-type]
