"""Let an independent network judge what others draw. They never trained on it, so its word is evidence.

    python scripts/judge.py runs/mnist/resnet18-s0 --runs before runs/a/*-s? --runs after runs/b/*-s?

The first run is the judge; its data must be that of the others. After each --runs: a name, and runs that differ only in
their seed. Each run draws its prototypes, sweeps (one component moved by one or two units) and two kinds of samples:
components with the expected spread, m/√n, and components with the spread and correlations of the class's own training
images (`own spread`). Of these:

- recognised: the share that the judge assigns to their class; blurred: the same after a slight blur;
- precision: the share that is as close to a real test picture of the class, in the features before the judge's last
  layer, as that picture's third neighbour is (Kynkäänniemi et al. 2019);
- coverage: the share of real test pictures that have a sample as close as their fifth neighbour (Naeem et al. 2020);
- distance: to the nearest real picture, in parts of the distance between nearest real ones, medians.

The row of real pictures is the standard: test images are recognised, training images are compared with them.
What a network reads in its own drawings comes last. Writes OUT.json, OUT.md and OUT.png, a sheet of all prototypes;
OUT is results/judge-DATA if not given.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from matplotlib.figure import Figure
from record import markdown, write
from torch import Tensor

import hitnet
from hitnet.core.model import TEST_BATCH, Model, evaluating
from hitnet.data import Dataset, ImageSet, to_float
from hitnet.interpret.components import true_capsules
from hitnet.interpret.figures.canvas import save, shortened, show_pixels, tile
from hitnet.interpret.quality import moved, quality
from hitnet.interpret.sharpness import blurred
from hitnet.runs.reopen import reopen, reopen_drawing

PRECISION_NEIGHBOUR, COVERAGE_NEIGHBOUR = 3, 5  # as in the two papers
KINDS = ("prototypes", "sweeps", "samples", "own_spread")
GAP = 2  # pixels between two pictures of the sheet

Row = dict[str, Any]


@dataclass(frozen=True)
class Judge:
    """A network, and what it sees in real test pictures of each class."""

    model: Model
    pictures: list[Tensor]
    """Of each class: (count, channels, height, width)."""
    real: list[Tensor]
    """Their features: (count, features)."""

    @classmethod
    def of(cls, model: Model, test: ImageSet, per_class: int) -> "Judge":
        pictures = [to_float(test.images[test.labels == index][:per_class]) for index in range(model.head.num_classes)]
        return cls(model, pictures, [look(model, each) for each in pictures])

    def recognises(self, features: Tensor, index: int) -> float:
        """The share of pictures that it assigns to a class."""
        head = self.model.head
        with torch.no_grad():
            return float((head.decide(head.score(head(features))) == index).float().mean())

    def read(self, pictures: Tensor, index: int) -> Row:
        """All that it says of drawings of one class."""
        seen, real = look(self.model, pictures), self.real[index]
        return {
            "recognised": self.recognises(seen, index),
            "blurred": self.recognises(look(self.model, blurred(self.model.shrink(pictures))), index),
            **naturalness(seen[: len(real)], real),  # coverage depends on the number of samples
        }

    def typical(self) -> Tensor:
        """The real picture of each class that is closest to all others, at the size of drawings: (classes, c, h, w)."""
        middle = [int(torch.cdist(each, each).sum(1).argmin()) for each in self.real]
        chosen = torch.stack([pictures[index] for pictures, index in zip(self.pictures, middle, strict=True)])
        return self.model.shrink(chosen)


@torch.no_grad()
def look(model: Model, images: Tensor) -> Tensor:
    """The features before the last layer: images or drawings -> (count, features)."""
    with evaluating(model):
        return torch.cat([model.encoder(model.enlarge(part)) for part in images.split(TEST_BATCH)])


def naturalness(samples: Tensor, real: Tensor) -> Row:
    """Precision, coverage and relative distance of samples: (count, features), (real count, features)."""
    between = torch.cdist(real, real).fill_diagonal_(torch.inf).sort(dim=1).values
    precise, covering = (
        between[:, min(neighbour, len(real) - 1) - 1] for neighbour in (PRECISION_NEIGHBOUR, COVERAGE_NEIGHBOUR)
    )
    distances = torch.cdist(samples, real)
    return {
        "precision": float((distances <= precise).any(dim=1).float().mean()),
        "coverage": float((distances <= covering).any(dim=0).float().mean()),
        "distance": float(distances.amin(dim=1).median() / between[:, 0].median()),
    }


def sample_like(model: Model, capsules: Tensor, index: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw from the Gaussian with the mean and covariance of a class's capsules: (images, dims) -> pictures."""
    variances, directions = torch.linalg.eigh(torch.cov(capsules.double().T).reshape(2 * [capsules.shape[1]]))
    noise = torch.randn(count, capsules.shape[1], generator=generator, dtype=torch.float64)
    drawn = capsules.double().mean(0) + noise * variances.clamp(min=0).sqrt() @ directions.T
    return model.draw(model.head.nearest_possible(drawn), torch.full((count,), index))


def assess(judge: Judge, model: Model, data: Dataset, per_class: int) -> Row:
    """What the judge sees in a network's drawings, and what the network itself reads in them."""
    generator = torch.Generator().manual_seed(0)
    rows: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    for index, prototype in enumerate(hitnet.prototypes(model)):
        images = to_float(data.train.images[data.train.labels == index][:per_class])
        capsules = true_capsules(model, images, torch.full((len(images),), index))
        rows["prototypes"].append(judge.read(prototype.unsqueeze(0), index))
        rows["sweeps"].append(judge.read(moved(model, index), index))
        samples = hitnet.sample(model, index, per_class, generator=generator)
        rows["samples"].append(judge.read(samples, index))
        alike = sample_like(model, capsules, index, per_class, generator)
        rows["own_spread"].append(judge.read(alike, index))
    names = model.config.class_names
    mistaken = [name for name, row in zip(names, rows["prototypes"], strict=True) if not row["recognised"]]
    itself = quality(model, to_float(data.test.pixels()), data.test.labels, component_images=0).to_json()
    read = {name: value for name, value in itself.items() if name.endswith(("_hit", "_recognised", "_blurred"))}
    for name in ("read_back", "cross_talk"):
        read[name] = None if itself[name] is None else fmean(itself[name])
    return {
        **{kind: average(of_classes) for kind, of_classes in rows.items()},
        "mistaken": mistaken,
        "itself": {"r2": itself["r2"], "edge_energy": itself["edge_energy"], **read},
    }


def assess_real(judge: Judge, data: Dataset) -> Row:
    """The standard: how much the judge recognises of test images, how natural training images are beside them."""
    rows = []
    for index, (pictures, features) in enumerate(zip(judge.pictures, judge.real, strict=True)):
        others = to_float(data.train.images[data.train.labels == index][: len(pictures)])
        rows.append(judge.read(pictures, index) | naturalness(look(judge.model, others), features))
    return dict.fromkeys(KINDS, average(rows))


def average(rows: list[Row]) -> Row:
    """The mean of each number, also inside; what is not a number in all rows is left out."""
    means: Row = {}
    for name, value in rows[0].items():
        if isinstance(value, dict):
            means[name] = average([row[name] for row in rows])
        elif all(isinstance(row[name], int | float) for row in rows):
            means[name] = fmean(row[name] for row in rows)
    return means


def table(rows: list[Row]) -> str:
    """A Markdown table, one line per row, of what matters most; OUT.json has the rest."""
    titles = ["runs", "seed", "test error, %", "R²", "edges", "prototypes that hit alone, %"]
    titles += ["the judge recognises: prototypes, %", "sweeps, %", "samples, %", "samples after a blur, %"]
    titles += ["precision / coverage of samples, %"]
    lines = []
    for row in rows:
        itself, samples = row.get("itself", {}), row["samples"]
        recognised = [row[kind]["recognised"] for kind in ("prototypes", "sweeps", "samples")]
        lines.append(
            [
                *(row["name"], row["seed"], _number(row.get("test_error"), 2)),
                *(_number(itself.get(name), 2) for name in ("r2", "edge_energy")),
                *(_percent(share) for share in (itself.get("prototypes_hit"), *recognised, samples["blurred"])),
                f"{_percent(samples['precision'])} / {_percent(samples['coverage'])}",
            ]
        )
    return markdown(titles, lines, left=2)


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None else f"{value:.{digits}f}"


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def sheet(rows: list[tuple[str, Tensor]], names: tuple[str, ...], title: str) -> Figure:
    """Rows of pictures, one column per class: (label, (classes, channels, height, width))."""
    pixels = tile(torch.stack([pictures for _, pictures in rows]), GAP)
    height, width = (size + GAP for size in rows[0][1].shape[2:])
    figure = Figure(figsize=(0.7 * len(names), 0.7 * len(rows) * height / width))
    axes = figure.add_axes((0, 0, 1, 1))
    show_pixels(axes, pixels)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0, labeltop=True, labelbottom=False, labelsize=7)
    axes.set_yticks([(index + 0.5) * height for index in range(len(rows))], [label for label, _ in rows])
    axes.set_xticks([(index + 0.5) * width for index in range(len(names))], [shortened(name, 10) for name in names])
    axes.set_title(title, fontsize=9)
    return figure


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("judge", type=Path)
    parser.add_argument("--runs", nargs="+", action="append", required=True, metavar=("NAME", "RUN"))
    parser.add_argument("--per-class", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--no-real", action="store_true", help="no real pictures on the sheet, for their licence")
    options = parser.parse_args()
    opened = reopen(options.judge, "cpu")
    data, expected = opened.load_data(), opened.model.config
    judge = Judge.of(opened.model, data.test, options.per_class)
    rows: list[Row] = [{"name": "real pictures", "seed": "–", **assess_real(judge, data)}]
    pictures = [] if options.no_real else [("real", judge.typical())]
    for name, *paths in options.runs:
        of_name: list[Row] = []
        for path in map(Path, paths):
            drawing = reopen_drawing(path, "cpu")
            model, result, seed = drawing.model, drawing.run.read_result(), drawing.run.read_settings().seed
            config = model.config
            if (config.image_shape, config.class_names) != (expected.image_shape, expected.class_names):
                raise ValueError(f"{path} has other images or classes than {options.judge}; choose a judge of its data")
            about = {"name": name, "seed": str(seed), "model": config.name, "decoder": result["decoder"]}
            about |= {"epochs": result["epochs"], "test_error": result["test"]["error"]}
            of_name.append(about | assess(judge, model, data, options.per_class))
            pictures.append((f"{name}, seed {seed}", hitnet.prototypes(model)))
        rows += of_name
        if len(of_name) > 1:
            rows.append({"name": name, "seed": f"mean of {len(of_name)}"} | average(of_name))
    judged = f"{expected.name} ({opened.run.read_result()['test']['error']:.2f} % test error)"
    out = options.out or Path("results") / f"judge-{data.name}"
    write(out, {"judge": judged, "per_class": options.per_class, "rows": rows}, table(rows))
    title = f"{data.name}: {'' if options.no_real else 'real pictures that are typical, and '}prototypes"
    save(sheet(pictures, expected.class_names, title), out.with_suffix(".png"))
    print(f"the judge is {judged}\n\n{table(rows)}")


if __name__ == "__main__":
    main()
