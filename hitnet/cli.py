"""The command line: one function per verb; its docstring is the help text.

The work is done elsewhere and imported when needed, so that `--help` does not load torch.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from hitnet import __version__
from hitnet.errors import check_known, printable
from hitnet.experiments.protocol import ScaleName, Target
from hitnet.settings import NetworkOptions, RunOptions, TrainConfig

RunFolder = Annotated[Path, tyro.conf.Positional]


@dataclass(frozen=True, kw_only=True)
class TrainOptions(NetworkOptions, RunOptions):
    """With `--model hitnet`, the defaults are the paper's, except for the number of epochs (250 in the paper)."""

    # TrainConfig without its checks: tyro would wrap their errors in its own, longer messages.


def train(
    settings: TrainOptions = TrainOptions(),  # noqa: B008 - frozen
    resume: Annotated[Path | None, tyro.conf.arg(metavar="RUN")] = None,
    overwrite: bool = False,
) -> None:
    """Train a network on a data set or on your own pictures.

    Example: hitnet train --data mnist --model hitnet --epochs 6 --schedule one-cycle

    Args:
        resume: Resume this run folder, with its own settings.
        overwrite: Replace an existing run folder.
    """
    config = TrainConfig(**asdict(settings))
    if resume is not None and (overwrite or config != TrainConfig()):
        raise ValueError("--resume uses the settings of the run; leave out the other options")

    from hitnet import console
    from hitnet.runs import train as training
    from hitnet.training.needs import keep_freed_memory

    keep_freed_memory()
    view = console.TrainingView()
    watcher = view if _leads() else None
    try:
        with view:
            if resume is None:
                run = training.train(config, watcher=watcher, overwrite=overwrite)
            else:
                run = training.resume(resume, watcher=watcher)
    except (KeyboardInterrupt, OSError) as stop:
        if view.run is None:
            raise
        raise type(stop)(f"{str(stop) or 'stopped'}; resume with: {view.run.resume_command}") from stop
    if _leads():
        console.show_result(run)


@dataclass(frozen=True, kw_only=True)
class AuditOptions(NetworkOptions, RunOptions):
    """The other options are those of `hitnet train`."""

    data: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")] = field()
    """A folder of class folders, an .npz, or the name of a data set."""
    out: Path = Path("audit")
    """Where the findings and the networks go; the same command resumes an audit that was stopped."""
    fold: tyro.conf.Suppress[str | None] = None


def audit(settings: AuditOptions, folds: int = 1, workers: int = 1) -> None:
    """Find wrong labels, odd pictures and duplicates; nothing in your folder is changed.

    After each of the first epochs, the network classifies every picture; wrong labels are learned last.
    AUDIT/index.html shows what it found, AUDIT/issues.csv lists every picture, and `hitnet explore AUDIT` lets you
    decide about them, one by one.

    Example: hitnet audit my-pictures --epochs 10

    Args:
        folds: 1: one network learns from all pictures. 2 or more: so many networks; each judges its share of the
            pictures and learns from the others.
        workers: Number of networks that train at the same time, at most FOLDS; they share the cores.
    """
    config = TrainConfig(**asdict(settings))

    from hitnet import console
    from hitnet.audits.audit import audit_data

    with console.AuditView() as view:
        folder = audit_data(config, folds=folds, workers=workers, listener=view)
    console.show_audit(folder)


def evaluate(
    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN ...]")],
    data: str | None = None,
    views: int = 1,
    skip_bad: bool = False,
    data_dir: Path | None = None,
    device: str = "auto",
) -> None:
    """Measure the error of a trained network, class by class, and list the images it gets wrong.

    The numbers go to RUN/eval-DATA.json, the mistakes to RUN/eval-DATA-mistakes.csv and .png.
    Several networks answer together (a committee), by the mean of their distances.

    Example: hitnet eval runs/mnist/hitnet-fast-s0

    Args:
        runs: A run folder, or several of the same classes; the files of a committee go to the first.
        data: Another data set, by name or path: its test part, or all of it if it has none. Default: the run's own.
        views: Average the answers for this many views of each image, in this order: as it is; moved by a pixel to each
            of the 4 sides; to each of the 4 corners. After training with mirrored images, each is followed by its
            mirror image. So take 5 or 9 views, or 2, 10 or 18 after training with mirrored images.
        skip_bad: Skip unreadable picture files instead of stopping.
        data_dir: Folder that already holds the data sets.
        device: auto, cpu, cuda, cuda:1, mps.
    """
    from hitnet import console
    from hitnet.runs.evaluate import evaluate_committee, evaluate_run

    if len(runs) == views == 1:
        content, path = evaluate_run(runs[0], data, data_dir, device, skip_bad)
    else:
        content, path = evaluate_committee(runs, data, data_dir, device, skip_bad, views)
    console.show_evaluation(content)
    mistakes = path.with_name(f"{path.stem}-mistakes.csv")
    shown = " and shown in its .png" if mistakes.with_suffix(".png").is_file() else ""
    console.say(f"written to {path}; each mistake is listed in {mistakes.name}{shown}")


def predict(
    run: RunFolder,
    files: Annotated[tuple[Path, ...], tyro.conf.Positional],
    others: Annotated[tuple[Path, ...], tyro.conf.arg(name="with", metavar="RUN [RUN ...]")] = (),
    views: int = 1,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    device: str = "auto",
) -> None:
    """Classify picture files: class, verdict, and score (HitNet: distance to the class's centre, lower is better).

    With a rejection threshold (`hitnet calibrate --max-error`), it also says which answers are accepted.

    Example: hitnet predict runs/mnist/hitnet-fast-s0 seven.png

    Args:
        run: A run folder, a model folder or a safetensors file.
        files: PNG, JPEG, WebP, BMP, GIF or TIFF files of any size and colour, or folders of them.
        others: More networks of the same classes, which answer together with it by the mean of their distances. There
            are no verdicts and no rejected answers then: they were calibrated for each network alone.
        views: Average the answers for this many views of each picture, as in `hitnet eval`; no verdicts, either.
        as_json: Print JSON instead of a table.
        device: auto, cpu, cuda, cuda:1, mps.
    """
    from hitnet import console
    from hitnet.runs.answer import predict_files
    from hitnet.runs.calibrate import read_rejection
    from hitnet.runs.committee import open_committee

    if not files:
        remedy = "give picture files after the run folder"
        if others:
            remedy += "; --with takes all that follows it as run folders, so it comes last"
        raise ValueError(f"there is nothing to classify; {remedy}")
    committee = open_committee((run, *others), views, device)
    found = read_rejection(run)
    rejection = found if committee.is_one else None
    predictions = predict_files(committee, files, rejection.threshold if rejection else None)
    if as_json:
        print(printable(json.dumps([asdict(each) for each in predictions], indent=2, ensure_ascii=False)))
    else:
        may_have_verdicts = committee.is_one and committee.head.has_hit_zone
        console.show_predictions(predictions, rejection, committee.config, may_have_verdicts)
        if not committee.is_one and (committee.model.config.radii is not None or found is not None):
            console.say("no verdicts, no rejected answers: both were calibrated for one network and one view")
    if any(each.error for each in predictions):
        sys.exit(1)


def calibrate(
    run: RunFolder,
    coverage: float = 0.99,
    max_error: float | None = None,
    confidence: float = 0.95,
    data_dir: Path | None = None,
    device: str = "auto",
) -> None:
    """Find how far from its centre a class usually lands, for verdicts; or which answers to reject.

    Example: hitnet calibrate runs/mnist/hitnet-fast-s0 --coverage 0.999

    Args:
        run: A finished run that held out validation images; hitnet-fast calibrates itself after training.
        coverage: The true class should lie within its usual distance for this fraction of new images.
        max_error: Also choose which answers to reject, so that at most this fraction of the others is wrong.
        confidence: Confidence level of that bound, as a probability.
        data_dir: Folder that already holds the data sets.
        device: auto, cpu, cuda, cuda:1, mps.
    """
    from hitnet import console
    from hitnet.runs.calibrate import calibrate_run

    console.show_calibration(calibrate_run(run, coverage, max_error, confidence, data_dir, device))
    console.say(f"written to {run}; hitnet predict applies it")


def explore(
    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    no_browser: bool = False,
    device: str = "auto",
) -> None:
    """Open a local page to explore what a network learned: prototypes, deformations, your own images.

    Example: hitnet explore runs/mnist/hitnet-fast-s0

    Args:
        run: A run folder, or the folder of an audit; the newest finished run in runs/ if not given.
        host: Address to listen on. Any other than this machine's own lets others in.
        port: Port to listen on; 8421, or any free one if that is taken, by default.
        no_browser: Only print the address.
        device: auto, cpu, cuda, cuda:1, mps.
    """
    from hitnet import console
    from hitnet.web import launch

    launch.require_server()
    chosen = run or launch.newest_run(Path("runs")) or _train_demo()
    launch.serve(chosen, host, port, not no_browser, console.say, device)


def _train_demo() -> Path:
    """There is nothing to explore yet: offer to train on the built-in digits."""
    question = "There is no finished run with prototypes in runs/. Train the built-in demo now, a minute or two? [Y/n] "
    if not sys.stdin.isatty() or input(question).strip().lower() not in ("", "y", "yes"):
        raise FileNotFoundError("there is no finished run with prototypes in runs/; make one with: hitnet train")

    from hitnet import console
    from hitnet.runs import train as training

    with console.TrainingView() as view:
        return training.train(TrainConfig(epochs=6, out=Path("runs/demo")), watcher=view).path


def export(
    run: RunFolder,
    format: Literal["html", "onnx", "pt2", "safetensors"] = "html",
    out: Path | None = None,
    no_exemplars: bool = False,
) -> None:
    """Export a network for use without HitNet. ONNX and pt2 files are checked against PyTorch before they are written.

    Example: hitnet export runs/mnist/hitnet-fast-s0 --format onnx

    Args:
        run: A run folder; all formats except html also accept a model folder.
        format: html is a page of prototypes and sliders, with the decoder inside, that opens with a double click.
            onnx and pt2 (torch.export) are the classifier (image -> distances, capsules) and the decoder.
            safetensors is the model as one file that hitnet.load reads.
        out: The file (html, safetensors) or folder (onnx, pt2) to write; in RUN if not given.
        no_exemplars: Leave out real training pictures, which only html contains.
    """
    from hitnet import console
    from hitnet.export import export_run

    for path in export_run(run, format, out, not no_exemplars):
        console.say(f"written to {path} ({path.stat().st_size / 1e6:.1f} MB)")


def prototypes(run: RunFolder, evolution: bool = False, data_dir: Path | None = None, device: str = "auto") -> None:
    """Draw what each class looks like and what each component of its capsule does; the pictures go to RUN/plots.

    Example: hitnet prototypes runs/mnist/hitnet-fast-s0

    Args:
        run: A run folder.
        evolution: Make a film of the prototypes over the epochs; the run must have been trained with --snapshots.
        data_dir: Folder that already holds the data sets.
        device: auto, cpu, cuda, cuda:1, mps.
    """
    from hitnet import console
    from hitnet.runs.atlas import write_atlas, write_evolution
    from hitnet.runs.reopen import reopen_drawing

    opened = reopen_drawing(run, device)
    if evolution:
        console.say(f"written to {write_evolution(opened)}")
        return
    quality = opened.quality(data_dir)
    console.show_quality(quality, opened.title())
    try:
        exemplars = opened.exemplars(data_dir)
    except (OSError, ValueError) as error:
        exemplars = None
        console.say(f"note: drawn without real pictures: {error}")
    with console.progress("drawing", opened.model.head.num_classes) as done:
        written = write_atlas(opened, quality, exemplars, done)
    for path in written:
        console.say(f"written to {path}")


def finish(run: RunFolder, steps: int | None = None, data_dir: Path | None = None, device: str = "auto") -> None:
    """Give a finished run a convolutional decoder, trained so that the network recognises its own drawings.

    The classifier stays as it is, and so does its error; the run's model, pictures and result are updated. A second
    phase adds to the first.

    Example: hitnet finish runs/mnist/hitnet-fast-s0

    Args:
        run: A finished run of a network with Hit-or-Miss.
        steps: Training steps of the decoder; a third of the run's own, at least 200, if not given.
        data_dir: Folder that already holds the data sets.
        device: auto, cpu, cuda, cuda:1, mps.
    """
    from hitnet import console
    from hitnet.runs.finish import finish_run

    console.say(f"finishing the drawings of {run}")
    try:
        with console.progress("finishing", steps) as done:
            before, finished = finish_run(run, steps, data_dir, device, done)
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt("stopped; the same command resumes") from stop
    console.show_finished(before, finished.read_result())
    console.say(f"prototypes: {finished.plots_folder / 'prototypes.png'}")
    console.say(f"all deformations: hitnet prototypes {finished.path}")


def explain(
    run: RunFolder,
    images: Annotated[tuple[Path, ...], tyro.conf.Positional],
    rival: str | None = None,
    out: Path | None = None,
    device: str = "auto",
) -> None:
    """Explain the network's answers for picture files: a decision card and its numbers (JSON) for each.

    Example: hitnet explain runs/mnist/hitnet-fast-s0 seven.png

    Args:
        run: A run folder, a model folder or a safetensors file.
        images: PNG, JPEG, WebP, BMP, GIF or TIFF files of any size and colour, or folders of them.
        rival: The class for "What would make it ...?"; the next best if not given, or if it is the answer itself.
        out: Where the cards go; RUN/explanations if not given.
        device: auto, cpu, cuda, cuda:1, mps.
    """
    from hitnet import console
    from hitnet.runs.answer import write_cards
    from hitnet.runs.reopen import load_drawing
    from hitnet.runs.run import Run

    if not images:
        raise ValueError("there is nothing to explain; give picture files after the run folder")
    folder = out or Run.around(run).explanations_folder
    cards = write_cards(load_drawing(run, device), images, folder, rival)
    console.show_cards(cards)
    if any(card.error for card in cards):
        sys.exit(1)


def augment(
    run: RunFolder,
    data: str | None = None,
    out: Path | None = None,
    per_image: int = 1,
    tweak: float | None = None,
    format: Literal["folder", "npz"] = "folder",
    preview: bool = False,
    seed: int = 0,
    data_dir: Path | None = None,
    device: str = "auto",
) -> None:
    """Make new training images: the network deforms its reconstruction of each image, and the details stay.

    Example: hitnet augment runs/mnist/hitnet-fast-s0 --out more-digits --per-image 3

    Args:
        run: A run folder whose network has a decoder.
        data: Other images of the same classes, by name or path; the run's own if not given.
        out: A new folder (or .npz file) for the training images, the new images made from them, and the test images.
        per_image: New images per training image.
        tweak: The largest move of each component of the capsule; m/√n if not given (0.025 in the paper).
        format: An image folder, or one .npz file; `hitnet train --data` accepts both.
        preview: Only draw the paper's figure, RUN/plots/hybrid.png.
        seed: Seed of all random numbers.
        data_dir: Folder that already holds the data sets.
        device: auto, cpu, cuda, cuda:1, mps.
    """
    from hitnet import console
    from hitnet.runs.augment import write_augmented, write_preview
    from hitnet.runs.reopen import reopen_drawing

    if out is None and not preview:
        raise ValueError("say where the new images go with --out FOLDER, or look at some with --preview")
    opened = reopen_drawing(run, device)
    images = opened.load_data(data, data_dir)
    for note in images.notes:
        console.say(f"note: {note}")
    if out is None or preview:
        path = write_preview(opened.model, images, opened.run.plots_folder, tweak, seed)
    else:
        with console.progress("augmenting", len(images.train)) as done:
            path = write_augmented(opened.model, images, out, per_image, tweak, seed, format, done)
        if images.validation is None:
            console.say("train on them with --validation 0: held-out images would have near copies in the training set")
    console.say(f"written to {path}")


def reproduce(
    target: Annotated[Target, tyro.conf.Positional],
    scale: ScaleName = "laptop",
    runs: int | None = None,
    workers: int = 1,
    ray: str | None = None,
    out: Path | None = None,
) -> None:
    """Repeat the paper's experiments: many runs, then tables next to the paper's numbers. Finished runs are reused.

    Example: hitnet reproduce table1 --scale laptop --workers 2

    Args:
        target: A table of the paper, or all of it.
        scale: paper is the paper's exact protocol, workstation all images in fewer epochs (days on two cores), laptop a
            small version (hours), smoke only tests that everything runs.
        runs: Seeds per network; the scale's own number if not given. With more, only the missing ones are trained.
        workers: Number of runs at a time on this machine; they share its cores.
        ray: Address of a Ray cluster (auto: the one this machine belongs to) that trains the runs instead.
        out: Where runs and tables go; reproduce/SCALE if not given.
    """
    from hitnet import console
    from hitnet.experiments.reproduce import reproduce as reproduce_target

    with console.ExperimentsView() as view:
        place = out or Path("reproduce") / scale
        finished = reproduce_target(target, scale, place, runs=runs, workers=workers, ray=ray, listener=view)
    if not finished:
        sys.exit(1)


def runs(folder: Annotated[Path, tyro.conf.Positional] = Path("runs")) -> None:
    """List training runs with their epochs, test error and status.

    Example: hitnet runs

    Args:
        folder: Where the run folders are.
    """
    from hitnet import console
    from hitnet.runs.run import find_runs

    all_runs = find_runs(folder)
    if not all_runs:
        raise FileNotFoundError(f"there are no runs in {folder}; make one with: hitnet train")
    console.show_runs(all_runs)


VERBS: dict[str, Callable[..., None]] = {
    "train": train,
    "audit": audit,
    "eval": evaluate,
    "predict": predict,
    "calibrate": calibrate,
    "finish": finish,
    "prototypes": prototypes,
    "explain": explain,
    "augment": augment,
    "explore": explore,
    "export": export,
    "reproduce": reproduce,
    "runs": runs,
}


# Options of other tools.
TRUTHS = ("true", "false", "none", "yes", "no", "1", "0")  # what may follow --flip; tyro says which of them it takes
HABITS = {"--lr": "--learning-rate", "--batch": "--batch-size", "--size": "--image-size", "--dataset": "--data"}


def main() -> None:
    description = "An image classifier that explains itself."
    arguments = sys.argv[1:] or ["--help"]
    if arguments == ["--version"]:
        print(f"hitnet {__version__}")
        return
    try:
        if not arguments[0].startswith("-"):
            check_known(arguments[0], VERBS, "verb")
            _check_usual_slips(arguments)
            arguments = _with_optional_values(arguments)
        tyro.extras.subcommand_cli_from_dict(
            VERBS,
            prog="hitnet",
            description=description,
            args=arguments,
            config=(tyro.conf.FlagCreatePairsOff, tyro.conf.OmitArgPrefixes),
        )
    except KeyboardInterrupt as stop:
        print(printable(str(stop)) or "stopped", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # The reader of our output, `head` for example, has closed the pipe. Nothing must be flushed into it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, OSError, RuntimeError) as error:
        if "HITNET_DEBUG" in os.environ:
            raise
        where = "" if _leads() else f" in process {os.environ['RANK']}"
        sys.exit(f"hitnet: error{where}: {printable(str(error))}")


def _with_optional_values(arguments: list[str]) -> list[str]:
    """--pretrained alone means timm's own weights, --flip alone True; in tyro, no option's value may be left out."""
    full = []
    for place, word in enumerate(arguments):
        full.append(word)
        after = "".join(arguments[place + 1 : place + 2])
        if word == "--pretrained" and (not after or after.startswith("--")):
            full.append("timm")
        if word == "--flip" and after.lower() not in TRUTHS:
            full.append("True")
    return full


def _check_usual_slips(arguments: list[str]) -> None:
    """Answer what people type out of habit with what is meant; tyro would only call it unrecognized."""
    verb, *options = arguments
    if verb == "train" and options and not options[0].startswith("-"):
        raise ValueError(f"train takes its data as an option: hitnet train --data {shlex.quote(options[0])}")
    for option in options:
        if (meant := HABITS.get(option.partition("=")[0])) is not None:
            raise ValueError(f"there is no option {option.partition('=')[0]}; did you mean {meant}?")


def _leads() -> bool:
    """Whether this is the process that prints; torchrun numbers the processes it starts."""
    return os.environ.get("RANK", "0") == "0"


if __name__ == "__main__":
    main()
