"""How well an audit finds wrong labels, beside cleanlab's scores and a softmax network of the same encoder.

    python scripts/audit_benchmark.py flips --data fashion-mnist mnist --images 20000 --seeds 3
    python scripts/audit_benchmark.py people --noise FOLDER/cifar10n.npz
    python scripts/audit_benchmark.py test-sets --errors FOLDER/label-errors.json
    python scripts/audit_benchmark.py pays --data fashion-mnist --images 20000 --seeds 3

flips: labels of official training images changed by chance in 5 % and 20 %, and between similar classes in 10 %.
people: CIFAR-10's training images with labels that people gave (CIFAR-10N).
test-sets: the labels of MNIST's and CIFAR-10's test images that five people found wrong.
pays: the test error after training on noisy labels, on those that the audit leaves, and on clean ones.

HitNet's own score is cleanlab's self-confidence, computed from distances at the temperature that suits the labels best.
The softmax network is reported as it is, at temperature 1, and with a temperature fitted in the same way. Minutes are
those of the whole way, from the images to the scores: with duplicates and the page for an audit, without finishing
the drawings.

Needs cleanlab. Everything that is trained stays in WORK; the same command goes on where it was stopped, and leaves out
what OUT.json has. Rows are added to OUT.json as they come, and OUT.md is written anew each time.
"""

import argparse
import io
import json
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from cleanlab.rank import get_label_quality_scores
from record import machine, markdown, mean, write
from rich.console import Console
from sklearn.metrics import average_precision_score, roc_auc_score
from torch import Tensor

from hitnet.audits.audit import audit_data
from hitnet.audits.trials import FoldTrial
from hitnet.core import encoders, heads, model
from hitnet.core.checkpoint import read_tensors
from hitnet.data import Dataset, ImageSet, load_dataset, stratified_subset
from hitnet.data.corrections import Correction, write_corrections
from hitnet.data.folds import fold_of, pool
from hitnet.data.mapped import MappedImages
from hitnet.experiments.runner import do
from hitnet.files import read_json, write_bytes, write_json
from hitnet.interpret.label_quality import best_temperature, label_quality
from hitnet.runs.audit_folder import AuditFolder
from hitnet.runs.reopen import load_data, load_model
from hitnet.runs.run import Run
from hitnet.runs.train import train
from hitnet.settings import TrainConfig
from hitnet.training.evaluation import all_scores

console = Console(soft_wrap=True)
DATA = {"test-sets": ["mnist", "cifar10"]}  # unless --data says otherwise; fashion-mnist and mnist for other parts
IMAGES = {"people": 50_000}
CLEANLAB = ("self_confidence", "normalized_margin", "confidence_weighted_entropy")
# Classes that are taken for each other: digits by shape, clothes for the upper body and shoes.
SIMILAR = {
    "mnist": {4: 9, 9: 4, 3: 5, 5: 3, 7: 1, 1: 7, 8: 3, 6: 0, 0: 6, 2: 7},
    "fashion-mnist": {0: 6, 6: 0, 2: 4, 4: 2, 3: 0, 1: 3, 5: 7, 7: 5, 9: 7, 8: 5},
}
# The softmax network has hitnet-fast's encoder and settings; its decoder would teach it nothing.
SOFTMAX = "fast-softmax"
SETTINGS: dict[str, Any] = {"schedule": "one-cycle", "learning_rate": 0.004, "shift_fill": "edge", "refresh_norm": True}


def flipped(labels: Tensor, share: float, similar: dict[int, int] | None, classes: int, seed: int) -> Tensor:
    """Labels of which a share is changed: to any other class, or to the similar one."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.randperm(len(labels), generator=generator)[: round(share * len(labels))]
    changed = labels.clone()
    if similar is None:
        changed[chosen] = (labels[chosen] + torch.randint(1, classes, (len(chosen),), generator=generator)) % classes
    else:
        changed[chosen] = torch.tensor([similar[int(label)] for label in labels[chosen]])
    return changed


def array(images: Tensor | MappedImages) -> Any:
    """Official images are always in memory."""
    assert isinstance(images, Tensor)
    return images.numpy()


def write_npz(path: Path, **arrays: Any) -> Path:
    """The data set of one case, once."""
    if not path.is_file():
        content = io.BytesIO()
        np.savez(content, **arrays)
        write_bytes(path, content.getvalue())
    return path


def qualities(distances: Tensor, labels: Tensor, networks: Tensor) -> dict[str, Any]:
    """All scores from one set of outputs: HitNet's own, and cleanlab's from probabilities at the best temperature."""
    own = torch.empty(len(labels), dtype=torch.float64)
    chances = torch.empty(distances.shape, dtype=torch.float64)
    for network in networks.unique():
        of = networks == network
        own[of] = label_quality(distances[of], labels[of])
        chances[of] = (-distances[of].double() / best_temperature(distances[of], labels[of])).softmax(dim=1)
    return {"HitNet": own.numpy(), **cleanlab_scores(chances, labels)}


def cleanlab_scores(chances: Tensor, labels: Tensor) -> dict[str, Any]:
    given, probabilities = labels.numpy(), chances.numpy()
    return {
        f"cleanlab {method}": get_label_quality_scores(given, probabilities, method=method, adjust_pred_probs=False)
        for method in CLEANLAB
    }


def measures(quality: Any, wrong: Any) -> dict[str, float]:
    """How well a low quality tells wrong labels: AUROC, average precision, precision among the first."""
    order = np.argsort(quality, kind="stable")
    return {
        "auroc": float(roc_auc_score(wrong, -quality)),
        "average_precision": float(average_precision_score(wrong, -quality)),
        "precision_100": float(wrong[order[:100]].mean()),
        "precision_errors": float(wrong[order[: int(wrong.sum())]].mean()),
    }


@contextmanager
def timed(place: Path) -> Iterator[None]:
    """Add the seconds of the block to those of the calls before, in PLACE.seconds.json; once done, they stay."""
    path = place.with_name(f"{place.name}.seconds.json")
    before = read_json(path) if path.is_file() else {"seconds": None if place.exists() else 0.0, "done": False}
    began, done = time.monotonic(), False
    try:
        yield
        done = True
    finally:
        # What was begun without a clock is never known.
        if not before["done"] and before["seconds"] is not None:
            write_json(path, {"seconds": before["seconds"] + time.monotonic() - began, "done": done})


def minutes(place: Path) -> float | None:
    """What `timed` measured; None if it is not known."""
    path = place.with_name(f"{place.name}.seconds.json")
    return read_json(path)["seconds"] / 60 if path.is_file() else None


def fitted(logits: Tensor, labels: Tensor, networks: Tensor) -> Tensor:
    """Probabilities at the best temperature of each network, as `qualities` has it for distances."""
    chances = torch.empty_like(logits)
    for network in networks.unique():
        of = networks == network
        chances[of] = (logits[of] / best_temperature(-logits[of], labels[of])).softmax(dim=1)
    return chances


def ask_softmax(config: TrainConfig, data: Dataset, folds: int) -> tuple[Tensor, Tensor]:
    """Out-of-fold logits of the softmax network, in the order of the pool, and the network that gave them."""
    names = pool(data).names
    answers: dict[str, tuple[Tensor, int]] = {}
    for fold in range(1, folds + 1):
        settings = replace(config, fold=f"{fold}/{folds}").resolve(len(data.train))
        trial = FoldTrial(variant=f"fold {fold}", settings=settings, data_name=data.name)
        do(trial)
        part = fold_of(data, f"{fold}/{folds}", config.seed).test
        assert part.files is not None
        logits = all_scores(load_model(trial.path, "cpu"), part).double()
        answers.update((name, (each, fold)) for name, each in zip(part.files, logits, strict=True))
    return torch.stack([answers[name][0] for name in names]), torch.tensor([answers[name][1] for name in names])


def options_of(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Of every network. No drawings are finished: they do not change what the network says."""
    return {
        "seed": seed,
        "epochs": args.epochs,
        "flip": args.flip,
        "threads": args.threads,
        "finishing": 0.0,
    }


def title(folds: int) -> str:
    """How an audit was made."""
    return "one network" if folds == 1 else f"{folds} folds"


def compare(args: argparse.Namespace, case: str, path: Path, truth: Tensor, seed: int) -> Iterator[dict[str, Any]]:
    """One row for each way to judge the images in an .npz without a test part; `truth` is in its order."""
    work = args.work / f"{case}-s{seed}"
    base = TrainConfig(data=str(path), **options_of(args, seed))
    data = load_data(base.resolve())
    everything = pool(data)
    place = torch.tensor([int(name.removeprefix("train/")) for name in everything.names])
    labels, wrong = everything.images.labels, (everything.images.labels != truth[place]).numpy()
    for way, folds in (("one", 1), ("folds", args.folds)):
        if way not in args.ways or (case, seed, title(folds)) in args.measured:
            continue
        config = replace(base, out=work / way)
        with timed(config.out):
            folder = audit_data(config, folds=folds, workers=min(folds, args.workers))
        tensors, _ = read_tensors(folder.distances_file)
        kinds = {issue.path: issue.is_label_issue for issue in folder.read_issues()}
        called = np.array([kinds[name] for name in everything.names])
        extra = {
            "called_wrong": int(called.sum()),
            "precision_of_calls": float(wrong[called].mean()) if called.any() else None,
            "recall_of_calls": float(called[wrong].mean()),
        }
        for name, quality in qualities(tensors["distances"], labels, tensors["networks"]).items():
            found = measures(quality, wrong)
            more = extra if name == "HitNet" else {}
            yield {"way": title(folds), "score": name, **found, **more, "minutes": minutes(folder.path)}
    if "softmax" in args.ways and (case, seed, "softmax") not in args.measured:  # cross-validated, as cleanlab asks for
        model._MODELS.setdefault(SOFTMAX, model.Recipe(encoders.FastEncoder, heads.SoftmaxHead))
        options = {**SETTINGS, "model": SOFTMAX, "decoder": "none", "norm_momentum": 0.1}
        like = Run(work / "folds" / "runs").path.rglob("args.json")
        if (first := next(like, None)) is not None:  # exactly the audit's budget
            settings = read_json(first)
            options |= {"epochs": settings["epochs"], "batch_size": settings["batch_size"]}
        config = replace(base, out=work / "softmax", **options)
        with timed(config.out):
            logits, networks = ask_softmax(config, data, args.folds)
        both = {"softmax": logits.softmax(dim=1), "softmax, fitted": fitted(logits, labels, networks)}
        for way, chances in both.items():
            for name, quality in cleanlab_scores(chances, labels).items():
                yield {"way": way, "score": name, **measures(quality, wrong), "minutes": minutes(config.out)}


def some_of(name: str, images: int, seed: int) -> tuple[Dataset, ImageSet]:
    """A data set, and so many of its training images, chosen by seed."""
    official = load_dataset(name)
    count = min(images, len(official.train))
    chosen = stratified_subset(official.train.labels, count, torch.Generator().manual_seed(seed))
    return official, official.train.subset(chosen)


def wanted(args: argparse.Namespace, noise: str) -> bool:
    return args.noises is None or noise in args.noises


def flips(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    for seed in range(args.seeds):
        for name in args.data:
            official, clean = some_of(name, args.images, seed)
            noises = {"5": (0.05, None), "20": (0.2, None), "similar-10": (0.1, SIMILAR[name])}
            for noise, (share, similar) in noises.items():
                if not wanted(args, noise):
                    continue
                noisy = flipped(clean.labels, share, similar, official.num_classes, seed)
                case = f"{name}-{len(clean)}-{noise}"
                arrays = {"x_train": array(clean.images), "y_train": noisy.numpy()}
                path = write_npz(args.work / f"{case}-s{seed}" / f"{name}.npz", **arrays)
                for row in compare(args, case, path, clean.labels, seed):
                    yield {"case": case, "seed": seed, **row}


def people(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    official = load_dataset("cifar10")
    with np.load(args.noise, allow_pickle=False) as file:
        given = {name: file[name] for name in ("aggregate", "random1")}
    count = min(args.images, len(official.train))
    for seed in range(args.seeds):
        for name, labels in given.items():
            if not wanted(args, name):
                continue
            case = f"cifar10-{count}-{name}"
            arrays = {"x_train": array(official.train.images)[:count], "y_train": labels[:count].astype(np.int64)}
            path = write_npz(args.work / f"{case}-s{seed}" / "cifar10.npz", **arrays)
            for row in compare(args, case, path, official.train.labels[:count], seed):
                yield {"case": case, "seed": seed, **row}


def test_sets(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """How many of the known wrong labels are among the first suspects of the test set."""
    checked = json.loads(args.errors.read_text())
    for seed in range(args.seeds):
        for name in args.data:
            if (f"{name}-test", seed, title(1)) in args.measured:
                continue
            known = {f"test/{each['index']}" for each in checked[name] if each["votes_given"] < 3}
            out = args.work / f"test-set-{name}-s{seed}"
            config = TrainConfig(data=name, out=out, **options_of(args, seed))
            with timed(out):
                folder = audit_data(config)
            suspects = [issue.path for issue in folder.read_issues() if issue.split == "test"]
            found = {f"among_{first}": len(known & set(suspects[:first])) for first in (len(known), 50, 100, 200)}
            case = {"case": f"{name}-test", "seed": seed, "way": title(1), "known": len(known)}
            yield {**case, **found, "minutes": minutes(out)}


def pays(args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Test error on clean test images after training on noisy labels, on what the audit leaves, and on clean ones."""
    for seed in range(args.seeds):
        for name in args.data:
            official, clean = some_of(name, args.images, seed)
            for noise, share in (("5", 0.05), ("20", 0.2)):
                case = f"{name}-{len(clean)}-{noise}"
                if not wanted(args, noise) or (case, seed, "clean labels") in args.measured:  # the last of its rows
                    continue
                noisy = flipped(clean.labels, share, None, official.num_classes, seed)
                work = args.work / f"{case}-s{seed}"
                alone = write_npz(work / f"{name}.npz", x_train=array(clean.images), y_train=noisy.numpy())
                folder = AuditFolder(work / "one")
                config = TrainConfig(**options_of(args, seed))
                with timed(folder.path):  # the audit of `flips`, if that was there before
                    audited = replace(config, data=str(alone), out=folder.path)
                    audit_data(audited)
                test = {"x_test": array(official.test.images), "y_test": official.test.labels.numpy()}
                for kind, labels in (("noisy", noisy), ("clean", clean.labels)):
                    arrays = {"x_train": array(clean.images), "y_train": labels.numpy(), **test}
                    write_npz(work / f"{kind}.npz", **arrays)
                left_out = [
                    Correction(issue.path, "leave out") for issue in folder.read_issues() if issue.is_label_issue
                ]
                write_corrections(work / "left-out.csv", left_out)
                for way, data, corrections in (
                    ("noisy labels", "noisy", None),
                    ("without what the audit calls wrong", "noisy", work / "left-out.csv"),
                    ("clean labels", "clean", None),
                ):
                    out = work / "pays" / way.replace(" ", "-")
                    options = {"data": str(work / f"{data}.npz"), "corrections": corrections, "out": out}
                    settings = replace(config, **options)
                    run = Run(out / data / f"hitnet-fast-s{seed}")
                    if not run.is_finished:
                        train(settings, overwrite=True)
                    yield {"case": case, "seed": seed, "way": way, "test_error": run.read_result()["test"]["error"]}


COLUMNS = {
    "auroc": ("AUROC", 4),
    "average_precision": ("average precision", 4),
    "precision_100": ("precision, first 100", 3),
    "precision_errors": ("precision, as many as errors", 3),
    "precision_of_calls": ("precision of `wrong label`", 3),
    "recall_of_calls": ("recall of `wrong label`", 3),
    "known": ("known wrong labels", 0),
    "among_50": ("among the first 50", 1),
    "among_100": ("among the first 100", 1),
    "test_error": ("test error, %", 2),
    "minutes": ("minutes", 1),
}


def table(rows: list[dict[str, Any]]) -> str:
    """One line for each case and way: the mean over its seeds, ± the standard deviation.

    HitNet's own score stands there, with the best of cleanlab's on the same outputs beside it; for the softmax network
    the best of cleanlab's, fitted or not. The best is the one with the highest AUROC.
    """
    groups: dict[tuple[str, str], dict[tuple[str, str], list[dict[str, Any]]]] = {}
    for row in rows:
        scores = groups.setdefault((row["case"], row["way"].removesuffix(", fitted")), {})
        scores.setdefault((row["way"], row.get("score", "")), []).append(row)
    columns = [name for name in COLUMNS if any(row.get(name) is not None for row in rows)]
    titles = ["case", "way", "seeds", *(COLUMNS[name][0] for name in columns)]
    with_scores = "auroc" in columns
    lines = []
    for (case, way), scores in groups.items():
        others = [key for key in scores if key[1] != "HitNet"]
        best = max(others or scores, key=lambda key: fmean(row.get("auroc", 0) for row in scores[key]))
        members = scores.get((way, "HitNet"), scores[best])
        measured = ([row[name] for row in members if row.get(name) is not None] for name in columns)
        cells = [mean(values, COLUMNS[name][1]) for name, values in zip(columns, measured, strict=True)]
        if with_scores:
            cells.insert(1, f"{fmean(row['auroc'] for row in scores[best]):.4f}")
        lines.append([case, way, str(len(members)), *cells])
    if with_scores:
        titles.insert(4, "AUROC of cleanlab's best score")
    return markdown(titles, lines, left=2)


def main() -> None:
    parts = {"flips": flips, "people": people, "test-sets": test_sets, "pays": pays}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=parts)
    parser.add_argument("--data", nargs="+", help="default: mnist cifar10 for test-sets, else fashion-mnist mnist")
    parser.add_argument("--images", type=int, help="default: all for people, else 20000")
    parser.add_argument("--noises", nargs="+", help="of 5 20 similar-10, or aggregate random1; default: all")
    parser.add_argument("--ways", nargs="+", default=["one", "folds", "softmax"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--flip", action="store_true")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--noise", type=Path, default=Path("label-noise/cifar10n.npz"))
    parser.add_argument("--errors", type=Path, default=Path("label-noise/label-errors.json"))
    parser.add_argument("--work", type=Path, default=Path("audit-benchmark"))
    parser.add_argument("--out", type=Path, default=Path("results/audit"))
    args = parser.parse_args()
    args.work = args.work.resolve()
    args.data = args.data or DATA.get(args.part, ["fashion-mnist", "mnist"])
    args.images = args.images or IMAGES.get(args.part, 20_000)
    out = args.out.with_name(f"{args.out.name}-{args.part}")
    path = out.with_suffix(".json")
    content = read_json(path) if path.is_file() else {"rows": []}
    content["machine"] = machine("see the cases")
    args.measured = {(row["case"], row["seed"], row["way"]) for row in content["rows"]}
    command = "python " + shlex.join(sys.argv)
    for row in parts[args.part](args):
        same = ("case", "seed", "way", "score")
        kept = [old for old in content["rows"] if any(old.get(key) != row.get(key) for key in same)]
        content["rows"] = [*kept, {**row, "command": command}]
        write(out, content, table(content["rows"]))
    console.print(table(content["rows"]), markup=False)


if __name__ == "__main__":
    main()
