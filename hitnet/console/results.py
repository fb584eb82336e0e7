"""What a command found, as tables: results, answers, verdicts, drawings."""

import shlex
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from rich.table import Table

from hitnet.console.printing import add_row, duration, new_table, say, show
from hitnet.interpret.quality import Quality
from hitnet.interpret.verdicts import VerdictCounts, in_percent
from hitnet.runs.answer import Card, Prediction
from hitnet.runs.calibrate import Calibrated, Rejection
from hitnet.runs.run import Run
from hitnet.settings import ModelConfig, read_model_config
from hitnet.training.evaluation import count_mistakes

QUALITY = {
    "variation within classes explained (R²)": "r2",
    "share of prototypes recognised as their class": "prototypes_recognised",
    "share of random samples recognised": "samples_recognised",
    "share of prototypes that hit their class alone": "prototypes_hit",
    "share of sweeps that do": "sweeps_hit",
    "edge energy of prototypes (real images: 1)": "edge_energy",
}


def show_result(run: Run) -> None:
    """The result of a training run, and what to do next."""
    result = run.read_result()
    test, kept = result["test"], result["kept_epoch"]
    table = new_table(["", ""], "ll", f"{result['model']} on {result['data']}")
    table.show_header = False
    add_row(table, "test error", f"{test['error']:.2f} %  ({test['mistakes']} of {test['images']:,} images)")
    if _is_uneven(test):
        add_row(table, "mean of the classes' errors", f"{test['balanced_error']:.2f} %")
    simple = result.get("baseline")
    if simple is not None:
        add_row(table, simple["name"], f"{simple['error']:.2f} %")
    best = f"; kept the best, epoch {kept}" if kept != result["epochs"] else ""
    add_row(table, "epochs", f"{result['epochs']} in {duration(result['seconds'])}{best}")
    if finishing := result.get("finishing"):
        add_row(table, "finishing", f"{finishing['steps']:,} steps in {duration(finishing['seconds'])}")
    if "verdicts" in result:
        _add_verdicts(table, read_model_config(run.config_file), VerdictCounts(**result["verdicts"]))
    add_row(table, "parameters", f"{result['parameters']:,}")
    if result["decoder"]:
        add_row(table, "decoder", result["decoder"])
        quality = Quality.from_json(result["quality"])
        _add_quality(table, quality)
    add_row(table, "run folder", str(run.path))
    pictures = sorted(run.plots_folder.glob("*.png"))
    add_row(table, "pictures", f"{', '.join(path.name for path in pictures)} in its plots/")
    show(table)
    if result["decoder"]:
        show_components(quality)
    if simple is not None and simple["error"] < test["error"]:
        say(
            f"note: a {simple['name']} does better on these pictures; the network needs more of them, more --epochs, "
            "or --model resnet18-hom"
        )
    elif "verdicts" in result and 2 * result["verdicts"]["sure"] < result["verdicts"]["images"]:
        data = shlex.quote(str(run.read_settings().data))
        say(f"note: few answers are sure: classes look alike, or labels are wrong (hitnet audit {data} finds those)")
    folder = shlex.quote(str(run.path))
    say(f"next: hitnet predict {folder} PICTURE.png")
    if result["decoder"]:
        say(f"      hitnet explore {folder}")


def show_evaluation(content: dict[str, Any]) -> None:
    """The error of each class and of all together."""
    for note in content["notes"]:
        say(f"note: {note}")
    if len(content.get("members", [])) > 1:
        for member in content["members"]:
            say(f"{member['run']} alone: {member['error']:.2f} % error")
    title = f"{count_mistakes(content['mistakes'])} in {content['images']:,} images: {content['error']:.2f} % error"
    if _is_uneven(content):
        title += f", mean of the classes' errors {content['balanced_error']:.2f} %"
    table = new_table(["class", "images", "mistakes", "error, %", "most often mistaken for"], "lrrrl", title)
    for row in content["per_class"]:
        error = "–" if row["error"] is None else f"{row['error']:.2f}"
        add_row(table, row["class"], f"{row['images']:,}", str(row["mistakes"]), error, row["as"] or "–")
    show(table)


def _is_uneven(test: dict[str, Any]) -> bool:
    """Whether the error of all images may hide that of a small class; results of former versions do not say."""
    images = [row["images"] for row in test["per_class"] if row["images"]]
    return "balanced_error" in test and max(images) > 2 * min(images)


def show_predictions(
    predictions: Sequence[Prediction], rejection: Rejection | None, config: ModelConfig, may_have_verdicts: bool
) -> None:
    """One line per file; with a rejection threshold, also whether the answer is accepted."""
    extra = ["accepted"] if rejection else []
    titles = ["file", "class", "verdict", "score", "usual", *extra, "note"]
    table = new_table(titles, "lllrr" + "l" * len(extra) + "l")
    for each in predictions:
        accepted = ["–" if each.accepted is None else "yes" if each.accepted else "no" for _ in extra]
        if each.error is not None:
            add_row(table, each.file, "–", "–", "–", "–", *accepted, f"not read: {each.error}")
        else:
            usual = "–" if each.radius is None else f"≤ {each.radius:.3f}"
            verdict = _verdict_in_words(each) if may_have_verdicts else "–"
            add_row(
                table,
                each.file,
                each.class_name or "–",
                verdict,
                f"{each.score:.3f}",
                usual,
                *accepted,
                each.note or "",
            )
    show(table)
    if config.coverage is not None:
        share = in_percent(config.coverage)
        say(f"usual: how far from its centre a class lands for {share} of new images of the same kind, at most")
    if rejection:
        say(f"accepted: images with {_promise(rejection)}")


def _verdict_in_words(each: Prediction) -> str:
    """The verdict; for an ambiguous one also the other classes that it may be."""
    others = [name for name in each.candidates or () if name != each.class_name]
    if each.verdict == "ambiguous" and others:
        more = f" and {len(others) - 2} more" if len(others) > 2 else ""
        return f"ambiguous, or {', '.join(others[:2])}{more}"
    return each.verdict or "not calibrated"


def show_calibration(found: Calibrated) -> None:
    """What the verdicts say of the test images and, if asked for, the effect of the rejection threshold."""
    for note in found.notes:
        say(f"note: {note}")
    if found.verdicts is not None:
        table = new_table(["", ""], "ll")
        table.show_header = False
        _add_verdicts(table, found.config, found.verdicts)
        show(table)
    if found.rejection is not None:
        _show_rejection(found.rejection)


def _add_verdicts(table: Table, config: ModelConfig, found: VerdictCounts) -> None:
    wrong = f"{found.sure_mistakes} of them wrong"
    counts = f"{found.sure:,} sure ({wrong}), {found.ambiguous:,} ambiguous, {found.unknown:,} unknown"
    add_row(table, "verdicts on test images", counts)
    assert config.radii is not None
    assert config.coverage is not None
    low, high = (f"{edge(config.radii):.3f}" for edge in (min, max))
    shared = low if low == high else f"{low} to {high}, by class"
    promise = f"for {in_percent(config.coverage)} of new images, by {config.calibrated_on:,} held-out ones"
    add_row(table, "usual distance of the true class", f"up to {shared}, {promise}")
    share = f"{100 * found.covered / found.images:.1f} %"
    add_row(table, "test images within it", f"{share}; {found.mean_candidates:.2f} classes are, on average")


def _show_rejection(rejection: Rejection) -> None:
    """The effect of the threshold on the validation images, which chose it, and on the test images."""
    table = new_table(["", "validation", "test"], "lrr")
    parts = (rejection.validation, rejection.test)
    add_row(table, "images", *(f"{part.images:,}" for part in parts))
    add_row(table, "answered", *(f"{part.answered:,} ({100 * part.answered / part.images:.1f} %)" for part in parts))
    add_row(table, "mistakes among the answers", *(f"{part.mistakes:,}" for part in parts))
    # No bound for the validation images: they chose the threshold, so they cannot also test it.
    add_row(
        table,
        f"upper bound of their error rate ({_percent(rejection.confidence)})",
        "",
        f"{100 * rejection.test_bound:.3f} %",
    )
    show(table)
    say(f"answered: images with {_promise(rejection)}")


def _promise(rejection: Rejection) -> str:
    return (
        f"an outlier score up to {rejection.threshold:.4f}; at most {_percent(rejection.max_error)} of such "
        f"answers are wrong, with {_percent(rejection.confidence)} confidence "
        f"(chosen on {rejection.validation.images:,} validation images)"
    )


def _percent(share: float) -> str:
    """With all its digits: 99.99999 % is not 100 %."""
    return f"{100 * share:.15g} %"


def show_cards(cards: Sequence[Card]) -> None:
    for card in cards:
        say(f"{card.file}: not read: {card.error}" if card.error is not None else f"{card.file}: {card.words}")
        if card.path is not None:
            say(f"  {card.path}" + (f"  ({card.note})" if card.note else ""))


def show_quality(quality: Quality, title: str) -> None:
    """How well capsules describe the images, in total and component by component."""
    table = new_table(["", ""], "lr", title)
    table.show_header = False
    _add_quality(table, quality)
    add_row(table, "measured on test images", f"{quality.images:,}")
    show(table)
    show_components(quality)


def _add_quality(table: Table, quality: Quality) -> None:
    worse = "; below 0: the mean image of a class is nearer to its images than the drawings" if quality.r2 < 0 else ""
    r2 = f"{quality.r2:.3f}{worse}"
    if not quality.something_varies:
        r2 = "–: no class has two different test images, so nothing varies"
    add_row(table, "variation within classes explained (R²)", r2)
    add_row(table, "drawings recognised as their class", _of_drawings(quality, "recognised"))
    if quality.prototypes_hit is not None:
        add_row(table, "drawings within its hit zone, and no other's", _of_drawings(quality, "hit"))
    if quality.read_back is not None and quality.cross_talk is not None:
        means = (fmean(quality.read_back), fmean(quality.cross_talk))
        add_row(table, "a moved component read again", "{:.2f} of the change, {:.2f} leaks into others".format(*means))
    if quality.edge_energy is not None:
        both = f"{quality.edge_energy:.2f} of a real image's, {quality.edge_energy_blurred:.2f} if both are blurred"
        add_row(table, "edge energy of prototypes", both)


def _of_drawings(quality: Quality, what: str) -> str:
    """The shares of prototypes, sweeps and samples; runs made before have no shares of sweeps."""
    shares = {kind: getattr(quality, f"{kind}_{what}") for kind in ("prototypes", "sweeps", "samples")}
    return ", ".join(f"{kind} {100 * share:.0f} %" for kind, share in shares.items() if share is not None)


def show_finished(before: dict[str, Any], after: dict[str, Any]) -> None:
    """The drawings of a run before its finishing phase and after it."""
    table = new_table(["", "before", "after"], "lrr")
    add_row(table, "decoder", str(before["decoder"] or "none"), after["decoder"])
    for name, key in QUALITY.items():
        values = ((result.get("quality") or {}).get(key) for result in (before, after))
        add_row(table, name, *("–" if value is None else f"{value:.3f}" for value in values))
    add_row(table, "test error, %", f"{before['test']['error']:.2f}", f"{after['test']['error']:.2f}")
    show(table)
    finishing = after["finishing"]
    say(f"{finishing['steps']} steps in {duration(finishing['seconds'])}")


def show_components(quality: Quality) -> None:
    """Each component on its own, the others at the centre; the most important first."""
    titles = ["component", "R² alone", "more than the prototype", "changes a pixel by up to", "read back", "cross-talk"]
    table = new_table(titles, "lrrrrr")
    for component in quality.by_importance:
        name = f"c{component} (dead)" if component in quality.dead else f"c{component}"
        r2 = (f"{quality.component_r2[component]:.3f}", f"{quality.component_gain[component]:+.3f}")
        read = [
            "–" if values is None else f"{values[component]:.2f}" for values in (quality.read_back, quality.cross_talk)
        ]
        add_row(table, name, *r2, f"{100 * quality.sweep_change[component]:.0f} %", *read)
    show(table)
    say(f"dead components: {', '.join(f'c{component}' for component in quality.dead) or 'none'}")


def show_runs(runs: Sequence[Run]) -> None:
    """One line per run; one that cannot be read does not hide the others."""
    table = new_table(["run", "epochs", "test error, %", "status"], "lrrl")
    for run in runs:
        try:
            add_row(table, str(run.path), *_outcome(run))
        except (ValueError, LookupError, TypeError, OSError):
            add_row(table, str(run.path), "–", "–", "damaged")
    show(table)


def _outcome(run: Run) -> tuple[str, str, str]:
    """(epochs, test error, status)."""
    if run.is_finished:
        result = run.read_result()
        return str(result["epochs"]), f"{result['test']['error']:.2f}", "finished"
    rows = run.read_metrics()
    return f"{len(rows)}/{run.read_settings().epochs}", f"{rows[-1]['test_error']:.2f}" if rows else "–", "unfinished"
