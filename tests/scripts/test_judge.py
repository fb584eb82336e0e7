"""scripts/judge.py: its measures against naive loops, and on tiny runs."""

import json
import runpy
import sys
from pathlib import Path

import pytest
import torch

import hitnet
from hitnet.data import load_dataset, to_float
from hitnet.interpret.sharpness import blurred

SCRIPT = Path(__file__).parent.parent.parent / "scripts" / "judge.py"
judge = runpy.run_path(str(SCRIPT))


def test_precision_coverage_and_distance_equal_a_naive_loop():
    real, samples = torch.randn(40, 3), 1.5 * torch.randn(30, 3) + 0.5
    found = judge["naturalness"](samples, real)
    real, samples = real.double(), samples.double()
    neighbours = [
        sorted(float((a - b).norm()) for j, b in enumerate(real) if j != i) for i, a in enumerate(real)
    ]  # of each real point, the nearest first
    away = [[float((sample - point).norm()) for point in real] for sample in samples]
    precise = [any(d <= near[2] for d, near in zip(row, neighbours, strict=True)) for row in away]
    covered = [any(row[i] <= near[4] for row in away) for i, near in enumerate(neighbours)]
    nearest = (
        torch.tensor([min(row) for row in away]).median() / torch.tensor([near[0] for near in neighbours]).median()
    )
    assert found["precision"] == pytest.approx(sum(precise) / 30)
    assert found["coverage"] == pytest.approx(sum(covered) / 40)
    assert found["distance"] == pytest.approx(float(nearest), rel=1e-4)
    assert 0 < found["precision"] < 1
    assert 0 < found["coverage"] < 1


def test_copies_of_one_picture_are_precise_but_cover_little_and_noise_is_neither():
    real = torch.randn(200, 4)
    alike = judge["naturalness"](torch.randn(200, 4), real)
    assert alike["precision"] > 0.8
    assert alike["coverage"] > 0.9
    assert alike["distance"] == pytest.approx(1, abs=0.15)
    copies = judge["naturalness"](real[:1].expand(200, 4) + 0.001, real)
    assert copies["precision"] == 1
    assert copies["coverage"] < 0.2
    noise = judge["naturalness"](20 + torch.randn(200, 4), real)
    assert (noise["precision"], noise["coverage"]) == (0, 0)
    assert noise["distance"] > 10


def test_samples_of_the_own_spread_have_the_mean_and_the_covariance_of_the_capsules(ladder):
    model, generator = ladder(), torch.Generator().manual_seed(0)
    mixing = torch.tensor([[0.05, 0, 0, 0], [0.04, 0.01, 0, 0], [0, 0, 0.02, 0], [0, 0, 0, 0]])
    capsules = 0.4 + torch.randn(500, 4, generator=generator) @ mixing.T
    pictures = judge["sample_like"](model, capsules, 1, 20_000, generator)
    assert float(pictures[:, 0, -1, -1].mean()) == pytest.approx(1 / 3), "the class that was asked for"
    drawn = pictures.flatten(1)[:, :4]  # the ladder draws components as pixels
    torch.testing.assert_close(drawn.mean(0), capsules.mean(0), atol=0.002, rtol=0)
    torch.testing.assert_close(torch.cov(drawn.T), torch.cov(capsules.T), atol=1e-4, rtol=0.05)


def test_the_mean_over_seeds_leaves_out_words_and_missing_numbers():
    rows = [{"seed": "0", "a": 1, "in": {"b": 0.5, "c": None}}, {"seed": "1", "a": 2, "in": {"b": 1.0, "c": 3.0}}]
    assert judge["average"](rows) == {"a": 1.5, "in": {"b": 0.75}}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    """A judge and two seeds of a network that draws, on a few digits."""
    options = {"train_images": 300, "epochs": 6, "norm_momentum": 0.1, "capsule_dim": 4, "device": "cpu", "threads": 1}
    out = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hitnet.runs.result.plot", lambda *_: None)
        return {
            model: [hitnet.train(hitnet.TrainConfig(model=model, seed=seed, out=out, **options)).path for seed in seeds]
            for model, seeds in (("lenet5", (0,)), ("lenet5-hom", (0, 1)))
        }


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr(sys, "argv", ["judge.py", *map(str, arguments)])
    runpy.run_path(str(SCRIPT), run_name="__main__")


def test_rows_of_real_pictures_of_runs_and_their_mean(runs, tmp_path: Path, monkeypatch):
    out = tmp_path / "found"
    call(monkeypatch, *runs["lenet5"], "--runs", "new", *runs["lenet5-hom"], "--per-class", 30, "--out", out)
    content = json.loads(out.with_suffix(".json").read_text())
    real, first, second, mean = content["rows"]
    assert [row["seed"] for row in content["rows"]] == ["–", "0", "1", "mean of 2"]
    assert mean["sweeps"]["blurred"] == pytest.approx((first["sweeps"]["blurred"] + second["sweeps"]["blurred"]) / 2)

    net, test = hitnet.load(runs["lenet5"][0]), load_dataset("mnist-mini").test
    chosen = [index for k in range(10) for index in torch.where(test.labels == k)[0][:30].tolist()]
    for name, images in (("recognised", to_float(test.images)), ("blurred", blurred(to_float(test.images)))):
        right = (net.predict(images) == test.labels)[chosen].float().mean()
        assert real["samples"][name] == pytest.approx(float(right))
    assert real["samples"]["precision"] > 0.5
    assert real["samples"]["distance"] == pytest.approx(1, abs=0.3)

    drawn = hitnet.prototypes(hitnet.load(runs["lenet5-hom"][0]))
    right = net.predict(drawn) == torch.arange(10)
    assert first["prototypes"]["recognised"] == pytest.approx(float(right.float().mean()))
    assert first["mistaken"] == [str(k) for k in range(10) if not right[k]]
    assert first["itself"]["sweeps_hit"] is not None

    table = out.with_suffix(".md").read_text().splitlines()
    assert table[2].startswith(f"| real pictures | – | – | – | – | – | {100 * real['samples']['recognised']:.1f} | ")
    assert table[5].startswith(f"| new | mean of 2 | {mean['test_error']:.2f} | {mean['itself']['r2']:.2f} | ")
    assert len({line.count("|") for line in table}) == 1
    assert out.with_suffix(".png").stat().st_size > 1000


def test_a_judge_of_other_data_is_refused(runs, settings, tmp_path: Path, monkeypatch, no_pictures):
    other = hitnet.train(settings()).path
    with pytest.raises(ValueError, match="has other images or classes than .*; choose a judge of its data"):
        call(monkeypatch, *runs["lenet5"], "--runs", "squares", other, "--out", tmp_path / "found")
