"""The paper's experiments as data: networks × data sets × rates × seeds, at four scales. Without torch.

Each number in a table is a cell: one network on one data set with one variant of the settings, trained several times.
Each training is a trial with an ordinary run folder, OUT/runs/<variant>/<data>/<model>-s<seed>. A variant is named
after its settings, not after the table that needs it, so runs that two tables share are trained once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from hitnet.settings import RunSettings, Schedule, TrainConfig

Target = Literal["table1", "table2", "table3", "hybrid", "speed", "ablations", "figures", "all"]
ScaleName = Literal["paper", "workstation", "laptop", "smoke"]

# ---- what the paper compares

NETWORKS = {"n1": "N1", "n2": "N2", "n2b": "N2b", "hitnet": "HitNet"}
# Without Hit-or-Miss, and with it.
PAIRS = {
    "N1 → HitNet": {"n1": "N1", "hitnet": "HitNet"},
    "LeNet-5": {"lenet5": "LeNet-5", "lenet5-hom": "LeNet-5, HoM"},
    "ResNet-18": {"resnet18": "ResNet-18", "resnet18-hom": "ResNet-18, HoM"},
    "DenseNet-40-12": {"densenet40-12": "DenseNet-40-12", "densenet40-12-hom": "DenseNet-40-12, HoM"},
}
DATA = {
    "MNIST": "mnist",
    "Fashion-MNIST": "fashion-mnist",
    "CIFAR-10": "cifar10",
    "SVHN": "svhn",
    "affNIST": "affnist",
}
FOUR = ("MNIST", "Fashion-MNIST", "CIFAR-10", "SVHN")
CONSTANT, FALLING = "constant rate", "falling rate"
PLAIN, HYBRID, STANDARDISED = "HitNet", "HitNet, hybrid augmentation", "HitNet, standardised decoder"

# What the paper does not specify; our choice comes first.
ABLATIONS: dict[str, dict[str, dict[str, Any]]] = {
    "BatchNorm's statistics": {"shared by the classes": {"norm": "shared"}, "separate": {"norm": "separate"}},
    "BatchNorm's constants": {
        "Keras' (0.01, 1e-3)": {"norm_momentum": 0.01, "norm_eps": 1e-3},
        "torch's (0.1, 1e-5)": {"norm_momentum": 0.1, "norm_eps": 1e-5},
    },
    "loss": {"stepwise": {"loss_shape": "stepwise"}, "smooth": {"loss_shape": "smooth"}},
    "hit radius": {str(radius): {"hit_radius": radius} for radius in (0.1, 0.05, 0.2)},
    "miss radius": {str(radius): {"miss_radius": radius} for radius in (0.9, 0.7, 1.1)},
    "decoder": {
        "paper's": {"decoder": "paper"},
        "none": {"decoder": "none"},
        "standardised": {"decoder": "standardised"},
    },
}

# Settings that make deformations visible after a few epochs, as in hitnet-fast.
DRAWING = {"decoder": "standardised", "reconstruction_weight": 3.0}

# ---- how much of it is done


@dataclass(frozen=True)
class Scale:
    """How large the experiments are: the budget of each run, and the number of seeds."""

    name: ScaleName
    data: Mapping[str, str]
    """The data set used for each of the paper's."""
    falling: Schedule
    """The schedule for the falling rate."""
    settings: Callable[[str, str], dict[str, Any]]
    """(network, data set) -> settings where they differ from the paper's."""
    runs: Callable[[str, str, str], int]
    """(experiment, network, data set) -> number of seeds; 0 leaves it out."""
    teacher: Mapping[str, Any]
    """Settings of the teacher for hybrid augmentation where they differ from the paper's."""
    speed: Mapping[str, int]
    """How many steps are timed, their batch size and the network's width."""
    notes: tuple[str, ...]
    """How it differs from the paper."""
    only_falling: bool = False
    """Whether the rate falls even where the paper's is constant."""


# Epochs of HitNet, N1, N2 and N2b on all training images: as many as days on two cores allow.
WORKSTATION_EPOCHS = {"MNIST": 14, "Fashion-MNIST": 12, "CIFAR-10": 15, "SVHN": 8, "affNIST": 8}


def workstation_settings(model: str, data: str) -> dict[str, Any]:
    if model.startswith("lenet5"):
        return {"epochs": 20, "norm_momentum": 0.1}
    if model.startswith(("resnet", "densenet")):
        images = 20_000 if data == "CIFAR-10" else 10_000
        # About twice as fast as float32 on processors made for it.
        return {"epochs": 8, "train_images": images, "norm_momentum": 0.1, "precision": "bfloat16"}
    epochs = WORKSTATION_EPOCHS[data]
    return {"epochs": epochs // 2 if model == "capsnet" else epochs}


def workstation_runs(experiment: str, model: str, data: str) -> int:
    if model == "capsnet":
        return 2 if data in ("MNIST", "Fashion-MNIST", "CIFAR-10") else 0
    if model.startswith("lenet5"):
        return 3
    if model.startswith(("resnet", "densenet")):
        return 3 if data in ("MNIST", "Fashion-MNIST", "CIFAR-10") else 0
    if experiment == "table2":
        return 2 if data in ("MNIST", "Fashion-MNIST", "CIFAR-10") else 1
    if experiment == "hybrid":
        return 3 if data in ("MNIST", "Fashion-MNIST") else 0
    if experiment == "table3":
        return 2 if data in ("MNIST", "Fashion-MNIST") else 0
    return 0 if experiment.startswith("ablations") else 2


def laptop_settings(model: str, data: str) -> dict[str, Any]:
    if model.startswith("lenet5"):
        return {"epochs": 12, "train_images": 10_000, "norm_momentum": 0.1}
    if model.startswith(("resnet", "densenet")):
        return {"epochs": 2, "train_images": 5_000, "norm_momentum": 0.1}
    return {"epochs": 4, "train_images": 10_000, "norm_momentum": 0.1}


def laptop_runs(experiment: str, model: str, data: str) -> int:
    if model.startswith("lenet5"):
        return 5
    if model.startswith(("resnet", "densenet")):
        return 2 if data == "MNIST" else 0
    if experiment == "table2" and data != "MNIST":
        return 1 if model == "hitnet" else 0
    if experiment == "table3":
        return 3 if data in ("MNIST", "Fashion-MNIST") else 0
    if experiment == "hybrid":
        return 3 if data == "MNIST" else 0
    if experiment.startswith("ablations"):
        return 3 if "BatchNorm" in experiment else 2
    return 3


def smoke_settings(model: str, data: str) -> dict[str, Any]:
    width = {"lenet5": 3, "resnet18": 2, "capsnet": 16}.get(model.removesuffix("-hom"), 8)
    # Few components: most of the time goes into measuring and drawing each of them.
    tiny = {"epochs": 2, "train_images": 200, "batch_size": 50, "width": width, "capsule_dim": 4}
    return {**tiny, "norm_momentum": 0.1}


def smoke_runs(experiment: str, model: str, data: str) -> int:
    if model.startswith("densenet"):
        return 0  # even narrow, its forty layers would take as long as all the rest
    return 2 if model.startswith("lenet5") else 1


# How all scales with few epochs differ from the paper.
SHORTENED = (
    "affNIST: affnist-like, MNIST's test images deformed by our own recipe",
    "hybrid augmentation: the network that deforms the images has the standardised decoder and a "
    "reconstruction weight of 3, with which it learns to draw quickly",
)

SCALES = {
    "paper": Scale(
        name="paper",
        data=DATA,
        falling="decay",
        settings=lambda model, data: {"epochs": 250},
        runs=lambda experiment, model, data: 20,
        teacher={},
        speed={"rounds": 20},
        notes=("the paper's protocol: 250 epochs on all training images; falling rate: ×0.95 each epoch; float32",),
    ),
    "workstation": Scale(
        name="workstation",
        data={**DATA, "affNIST": "affnist-like"},
        falling="one-cycle",
        only_falling=True,
        settings=workstation_settings,
        runs=workstation_runs,
        teacher=DRAWING,
        speed={"rounds": 20},
        notes=(
            "days on two cores instead of months: all training images, but MNIST 14 epochs, Fashion-MNIST 12, CIFAR-10 "
            "15, SVHN and affNIST 8, CapsNet half as many, instead of 250; LeNet-5 20 epochs; ResNet-18 and "
            "DenseNet-40-12 8 epochs on 10,000 images, CIFAR-10 on 20,000; test sets are complete",
            "the rate falls everywhere (one-cycle), also where the paper's is constant: so few epochs at a constant "
            "rate would measure the last few steps",
            "BatchNorm's momentum is 0.1 instead of 0.01 for LeNet-5, ResNet-18 and DenseNet-40-12",
            "ResNet-18 and DenseNet-40-12 in bfloat16, with and without Hit-or-Miss; all others in float32",
            *SHORTENED,
        ),
    ),
    "laptop": Scale(
        name="laptop",
        data={**DATA, "affNIST": "affnist-like"},
        falling="one-cycle",
        settings=laptop_settings,
        runs=laptop_runs,
        teacher=DRAWING,
        speed={"rounds": 20},
        notes=(
            "far from the paper's budget: 10,000 training images (chosen again for each seed) and 4 epochs, LeNet-5 "
            "12 epochs, ResNet-18 and DenseNet-40-12 5,000 images and 2 epochs, instead of all images and 250 epochs; "
            "test sets are complete",
            "falling rate: one-cycle; falling by 5 % per epoch has no effect in 4 epochs",
            "BatchNorm's momentum is 0.1 instead of 0.01, with which the running averages would lag behind in runs of "
            "a few hundred steps",
            "float32 on every device",
            *SHORTENED,
        ),
    ),
    "smoke": Scale(
        name="smoke",
        data={"MNIST": "mnist-mini"},
        falling="one-cycle",
        settings=smoke_settings,
        runs=smoke_runs,
        teacher=DRAWING,
        speed={"rounds": 3, "batch_size": 8, "width": 16},
        notes=("smoke: tiny networks, 200 of mnist-mini's images, 2 epochs; its numbers mean nothing",),
    ),
}

# ---- runs, cells and experiments


@dataclass(frozen=True)
class Trial:
    """One run of an experiment: its settings, and for hybrid augmentation its teacher, which must be finished first."""

    variant: str
    settings: RunSettings
    teacher: "Trial | None" = None

    @property
    def path(self) -> Path:
        from hitnet.runs.run import Run

        return Run.named(self.settings, self.settings.data).path

    def with_seed(self, seed: int) -> "Trial":
        """The same training with another seed; its teacher gets the same seed."""
        teacher = None if self.teacher is None else self.teacher.with_seed(seed)
        settings = replace(self.settings, seed=seed, teacher=None if teacher is None else teacher.path)
        return replace(self, settings=settings, teacher=teacher)

    @property
    def title(self) -> str:
        return f"{self.settings.model} on {self.settings.data}, {self.variant}, seed {self.settings.seed}"


@dataclass(frozen=True)
class Cell:
    """One number in a table: the same training with several seeds."""

    trials: tuple[Trial, ...]

    @property
    def title(self) -> str:
        return self.trials[0].title.removesuffix(", seed 0")


Grid = dict[tuple[str, str], Cell]
"""(row, column) -> cell"""


@dataclass(frozen=True)
class Protocol:
    """The experiments at one scale, in one folder; `runs` overrides the scale's numbers of seeds."""

    scale: Scale
    out: Path
    runs: int | None = None

    @property
    def rates(self) -> dict[str, Schedule]:
        falling = {FALLING: self.scale.falling}
        return falling if self.scale.only_falling else {CONSTANT: "constant", **falling}

    @property
    def usual_rate(self) -> str:
        """The one where the paper's is constant."""
        return next(iter(self.rates))

    def cell(
        self, experiment: str, model: str, data: str, schedule: Schedule | None = None, **changes: Any
    ) -> Cell | None:
        """None if the scale leaves it out."""
        count = self.scale.runs(experiment, model, data) if data in self.scale.data else 0
        if count:
            count = self.runs or count
        schedule = schedule or self.rates[self.usual_rate]
        trials = (self.trial(model, data, schedule, seed, **changes) for seed in range(count))
        return Cell(tuple(trials)) if count else None

    def trial(self, model: str, data: str, schedule: Schedule, seed: int, **changes: Any) -> Trial:
        usual: dict[str, Any] = {"model": model, "data": self.scale.data[data], "seed": seed}
        usual["precision"] = "float32"  # as in the paper; by default, GPUs would use bfloat16
        usual |= self.scale.settings(model, data)
        usual["no_exemplars"] = True  # nobody looks at hundreds of runs one by one
        usual |= {"shift_fill": "zeros", "refresh_norm": False}  # as in the paper, for all networks
        if data == "affNIST":
            usual["augment"] = "none"
        plain = TrainConfig(**usual, schedule=schedule).resolve()
        # A change to the value it already has is left out, so that the variant keeps its usual name.
        changes = {name: value for name, value in changes.items() if getattr(plain, name) != value}
        variant = "-".join([schedule, *(f"{name.replace('_', '-')}-{value}" for name, value in changes.items())])
        teacher = None
        if changes.get("augment") == "hybrid":
            # With the same seed, it has seen the same training images and no others.
            rate = self.scale.falling if data == "MNIST" else self.rates[self.usual_rate]
            teacher = self.trial(model, data, rate, seed, **self.scale.teacher)
            changes["teacher"] = teacher.path
        config = TrainConfig(**{**usual, "schedule": schedule, "out": self.out / "runs" / variant, **changes})
        return Trial(variant, config.resolve(), teacher)

    def grid(self, experiment: str) -> Grid:
        """The cells of an experiment, by row and column."""
        cells = EXPERIMENTS[experiment](self)
        return {place: cell for place, cell in cells.items() if cell is not None}

    def trials(self, target: Target) -> list[Trial]:
        """All runs of a target, ordered by seed: the first seed of every cell, then the second, and so on."""
        cells = [cell for experiment in TARGETS[target] for cell in self.grid(experiment).values()]
        trials: dict[Path, Trial] = {}
        for seed in range(max((len(cell.trials) for cell in cells), default=0)):
            for cell in cells:
                for trial in cell.trials[seed : seed + 1]:
                    if trial.teacher is not None:
                        trials.setdefault(trial.teacher.path, trial.teacher)
                    trials.setdefault(trial.path, trial)
        return list(trials.values())


MaybeGrid = dict[tuple[str, str], Cell | None]


def table1(protocol: Protocol) -> MaybeGrid:
    """N1, N2, N2b and HitNet on MNIST, at every rate of the scale."""
    return {
        (title, rate): protocol.cell("table1", model, "MNIST", schedule)
        for model, title in NETWORKS.items()
        for rate, schedule in protocol.rates.items()
    }


def table2(protocol: Protocol) -> MaybeGrid:
    """HitNet and CapsNet with routing on five data sets; a falling rate on MNIST, elsewhere the usual one."""
    return {
        (title, data): protocol.cell("table2", model, data, protocol.scale.falling if data == "MNIST" else None)
        for model, title in (("hitnet", "HitNet"), ("capsnet", "CapsNet"))
        for data in DATA
    }


def table3(protocol: Protocol) -> MaybeGrid:
    """Four networks with and without Hit-or-Miss on four data sets, at the usual rate."""
    return {
        (title, data): protocol.cell("table3", model, data)
        for pair in PAIRS.values()
        for model, title in pair.items()
        for data in FOUR
    }


def hybrid(protocol: Protocol) -> MaybeGrid:
    """HitNet trained on images that a trained HitNet deforms; on MNIST at every rate, elsewhere at the usual one."""
    columns = [("MNIST", rate) for rate in protocol.rates] + [(data, protocol.usual_rate) for data in FOUR[1:]]
    return {
        (row, f"{data}, {rate}"): protocol.cell("hybrid", "hitnet", data, protocol.rates[rate], **changes)
        for row, changes in ((PLAIN, {}), (HYBRID, {"augment": "hybrid"}))
        for data, rate in columns
    }


def ablations(protocol: Protocol) -> MaybeGrid:
    """HitNet on MNIST at a falling rate, one choice changed at a time."""
    return {
        (f"{question}: {option}", "MNIST"): protocol.cell(
            f"ablations: {question}", "hitnet", "MNIST", protocol.scale.falling, **changes
        )
        for question, options in ABLATIONS.items()
        for option, changes in options.items()
    }


def figures(protocol: Protocol) -> MaybeGrid:
    """The run for figures in addition to table 1: HitNet with the decoder whose deformations show within minutes."""
    trial = protocol.trial("hitnet", "MNIST", protocol.scale.falling, seed=0, **DRAWING)
    return {(STANDARDISED, "MNIST"): Cell((trial,))}


EXPERIMENTS: dict[str, Callable[[Protocol], MaybeGrid]] = {
    "table1": table1,
    "table2": table2,
    "table3": table3,
    "hybrid": hybrid,
    "ablations": ablations,
    "figures": figures,
}
# `speed` has no runs: it only times some training steps.
TARGETS: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in EXPERIMENTS},
    "speed": (),
    "figures": ("table1", "figures"),
    "all": tuple(EXPERIMENTS),
}
assert set(TARGETS) == set(get_args(Target))
