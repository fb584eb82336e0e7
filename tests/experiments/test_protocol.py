"""Protocols: the paper's to the letter, and what tables have in common trained once."""

from dataclasses import replace
from pathlib import Path

import pytest

from hitnet.experiments.protocol import ABLATIONS, CONSTANT, FALLING, HYBRID, PLAIN, SCALES, TARGETS, Protocol
from hitnet.settings import TrainConfig


def protocol(scale: str, runs: int | None = None) -> Protocol:
    return Protocol(SCALES[scale], Path("out"), runs)


def test_the_paper_scale_is_the_papers_protocol_to_the_letter():
    for (_, rate), cell in protocol("paper").grid("table1").items():
        assert [trial.settings.seed for trial in cell.trials] == list(range(20))
        for trial in cell.trials:
            config = trial.settings
            schedule = {CONSTANT: "constant", FALLING: "decay"}[rate]
            plain = TrainConfig(
                data="mnist", model=config.model, epochs=250, seed=config.seed, schedule=schedule
            ).resolve()
            assert replace(config, out=plain.out) == replace(plain, precision="float32", no_exemplars=True)
            assert (config.batch_size, config.shift, config.learning_rate) == (128, 2, 0.001)
    affnist = protocol("paper").grid("table2")["HitNet", "affNIST"].trials[0].settings
    assert (affnist.data, affnist.augment, affnist.schedule) == ("affnist", "none", "constant")
    assert protocol("paper").grid("table2")["HitNet", "MNIST"].trials[0].settings.schedule == "decay"


@pytest.mark.parametrize(
    ("experiment", "rows", "columns"),
    [("table1", 4, 2), ("table2", 2, 5), ("table3", 8, 4), ("hybrid", 2, 5), ("ablations", 15, 1)],
)
def test_the_paper_scale_leaves_nothing_out(experiment, rows, columns):
    assert len(protocol("paper").grid(experiment)) == rows * columns


def test_the_laptop_scale_has_the_seeds_that_were_promised():
    grids = {name: protocol("laptop").grid(name) for name in ("table1", "table2", "table3", "hybrid", "ablations")}
    seeds = {name: {place: len(cell.trials) for place, cell in grid.items()} for name, grid in grids.items()}
    assert set(seeds["table1"].values()) == {3}
    assert [seeds["table2"]["HitNet", data] for data in ("Fashion-MNIST", "CIFAR-10", "SVHN", "affNIST")] == [1] * 4
    assert seeds["table2"]["CapsNet", "MNIST"] == seeds["table2"]["HitNet", "MNIST"] == 3
    for data in ("MNIST", "Fashion-MNIST", "CIFAR-10", "SVHN"):
        assert seeds["table3"]["LeNet-5", data] == seeds["table3"]["LeNet-5, HoM", data] == 5
    assert seeds["table3"]["N1", "Fashion-MNIST"] == 3
    assert seeds["table3"]["DenseNet-40-12, HoM", "MNIST"] == 2
    assert set(seeds["hybrid"].values()) == {3}
    assert {count for (row, _), count in seeds["ablations"].items() if "BatchNorm" in row} == {3}
    assert min(seeds["ablations"].values()) == 2


def test_on_a_workstation_every_rate_falls_and_the_papers_networks_see_all_images():
    workstation = protocol("workstation")
    assert all(trial.settings.schedule == "one-cycle" for trial in workstation.trials("all"))
    assert {column for _, column in workstation.grid("table1")} == {FALLING}
    assert set(workstation.grid("hybrid")) == {
        (row, f"{data}, {FALLING}") for row in (PLAIN, HYBRID) for data in ("MNIST", "Fashion-MNIST")
    }
    epochs = {
        place: (cell.trials[0].settings.epochs, cell.trials[0].settings.train_images)
        for place, cell in workstation.grid("table2").items()
    }
    assert epochs["HitNet", "CIFAR-10"] == (15, None)
    assert all(len(workstation.grid("table2")[name, "CIFAR-10"].trials) == 2 for name in ("HitNet", "CapsNet"))
    assert epochs["CapsNet", "CIFAR-10"] == (7, None)
    assert ("CapsNet", "SVHN") not in epochs
    narrow = workstation.grid("table3")["ResNet-18, HoM", "CIFAR-10"].trials
    assert [trial.settings.train_images for trial in narrow] == [20_000] * 3
    in_bfloat16 = {trial.settings.model for trial in workstation.trials("all") if trial.settings.precision != "float32"}
    assert in_bfloat16 == {"resnet18", "resnet18-hom", "densenet40-12", "densenet40-12-hom"}


@pytest.mark.parametrize("scale", SCALES)
def test_runs_with_the_same_folder_have_the_same_settings(scale):
    found = {}
    for target in TARGETS:
        for trial in protocol(scale).trials(target):
            assert found.setdefault(trial.path, trial) == trial
    assert set(found) == {trial.path for trial in protocol(scale).trials("all")}
    settings = [replace(trial.settings, out=Path("x")) for trial in found.values()]
    assert len({str(config) for config in settings}) == len(settings), "no two folders for the same settings"


def test_what_two_tables_share_is_one_run():
    laptop = protocol("laptop")
    plain = laptop.grid("table1")["HitNet", FALLING].trials[0]
    assert laptop.grid("table2")["HitNet", "MNIST"].trials[0] == plain
    for question, options in ABLATIONS.items():
        if question != "BatchNorm's constants":
            assert laptop.grid("ablations")[f"{question}: {next(iter(options))}", "MNIST"].trials[0] == plain
    assert laptop.grid("table3")["N1", "MNIST"] == laptop.grid("table1")["N1", CONSTANT]


def test_the_first_seed_of_everything_comes_first_and_a_teacher_before_its_pupil():
    trials = protocol("laptop").trials("all")
    seeds = [trial.settings.seed for trial in trials]
    assert seeds == sorted(seeds)
    paths = [trial.path for trial in trials]
    pupils = [trial for trial in trials if trial.teacher is not None]
    assert len(pupils) == 6
    for trial in pupils:
        assert paths.index(trial.teacher.path) < paths.index(trial.path)
        assert trial.settings.teacher == trial.teacher.path
        assert trial.teacher.settings.seed == trial.settings.seed, "it has seen no other training images"


def test_more_runs_add_seeds_and_change_nothing_else():
    few, many = (set(protocol("laptop", runs).trials("table1")) for runs in (2, 5))
    assert few < many
    assert {trial.settings.seed for trial in many - few} == {2, 3, 4}
