"""Share models as folders or on the Hugging Face hub, with a model card that shows what was learned.

config.json, model.safetensors   what `hitnet.load` reads
README.md                        the model card: metrics, classes, how to use it
prototypes.png                   what each class looks like, if the network draws
calibration.json                 which answers are rejected, if the run was calibrated
"""

from __future__ import annotations

import json
import re
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hitnet
from hitnet.core.checkpoint import CONFIG, WEIGHTS
from hitnet.core.model import Model, load
from hitnet.errors import require
from hitnet.files import write_json, write_text
from hitnet.interpret.quality import Quality
from hitnet.interpret.verdicts import VerdictCounts, in_percent
from hitnet.runs.calibrate import Rejection, read_rejection
from hitnet.runs.run import Run
from hitnet.settings import ModelConfig

if TYPE_CHECKING:
    from huggingface_hub import HfApi

CARD, PICTURE = "README.md", "prototypes.png"
GENERATED = "<!-- Written by HitNet, and again whenever the model is saved here: delete this line to keep changes. -->"


def save_pretrained(source: Model | str | Path, save_directory: str | Path) -> Path:
    """Write a model, or the model of a run folder, as a folder to share. A README.md of your own in it is kept.

    The card's metrics come from the run's result.json, so a bare model has neither metrics nor a threshold. A folder
    that was made by this function keeps both.
    """
    model, result, rejection = _opened(source)
    folder = Path(save_directory)
    model.save(folder)
    pictured = model.decoder is not None and model.head.has_hit_zone
    if pictured:
        _draw_prototypes(model, folder / PICTURE)
    else:
        (folder / PICTURE).unlink(missing_ok=True)  # it would show another network's prototypes
    if rejection is not None:
        write_json(Run(folder).calibration_file, asdict(rejection))
    else:
        Run(folder).calibration_file.unlink(missing_ok=True)
    card = folder / CARD
    if not card.exists() or _is_generated(card):
        write_text(card, _former_card(source) or model_card(model, result, rejection, pictured))
    return folder


def from_pretrained(
    pretrained_model_name_or_path: str | Path,
    *,
    revision: str | None = None,
    cache_dir: str | Path | None = None,
    force_download: bool = False,
    local_files_only: bool = False,
    token: str | bool | None = None,
) -> Model:
    """A shared model, in evaluation mode: from a folder, without internet access, or from the hub by its owner/name.

    Loading is strict and reads only safetensors, so nothing from the hub can run code here.
    """
    name = str(pretrained_model_name_or_path)
    if Path(name).exists():
        return load(name)
    if not re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name):
        raise FileNotFoundError(
            f"there is no folder {name}, and it is not the name of a model on the hub, owner/name; check the path"
        )
    _require_hub()
    from huggingface_hub import snapshot_download

    try:
        folder = snapshot_download(
            name,
            revision=revision,
            cache_dir=cache_dir,
            force_download=force_download,
            local_files_only=local_files_only,
            token=token,
            allow_patterns=[CONFIG, WEIGHTS],
        )
    except OSError as error:
        reason = str(error).strip().splitlines()[0]
        raise FileNotFoundError(
            f"{name} is not a folder and cannot be loaded from the hub ({reason}); "
            "check the name and the connection, or log in with `hf auth login` if it is private"
        ) from error
    return load(folder)


def push_to_hub(
    source: Model | str | Path,
    repo_id: str,
    *,
    commit_message: str = "Model trained with HitNet",
    private: bool | None = None,
    token: str | None = None,
    branch: str | None = None,
    create_pr: bool | None = None,
) -> str:
    """Upload a model, or the model of a run folder, to the hub as owner/name; returns the URL of the commit."""
    _require_hub()
    from huggingface_hub import HfApi

    api = HfApi(token=token)
    with tempfile.TemporaryDirectory() as temporary:
        # Saved first: if that fails, no empty repository is created.
        folder = save_pretrained(source, temporary)
        repo_id = api.create_repo(repo_id, private=private, exist_ok=True).repo_id
        _name_repository(folder / CARD, repo_id)
        stays = _is_generated(folder / CARD) and _has_own_card(api, repo_id, branch)
        commit = api.upload_folder(
            repo_id=repo_id,
            folder_path=folder,
            commit_message=commit_message,
            revision=branch,
            create_pr=create_pr,
            ignore_patterns=[CARD] if stays else None,
            delete_patterns=[PICTURE, Run(folder).calibration_file.name],  # left from a former network
        )
    return commit.commit_url


def model_card(model: Model, result: dict[str, Any] | None, rejection: Rejection | None, pictured: bool) -> str:
    """README.md of a shared model: metadata for the hub, then text for people."""
    name = model.config.name
    title = f"{name} on {result['data']}" if result else name
    picture = f"![The prototype of each class]({PICTURE})\n\n" if pictured else ""
    return f"""---
{_metadata(title, _tags(model, pictured), result)}---

{GENERATED}

# {_plain(title)}

An image classifier trained with hitnet {hitnet.__version__}, after A. Deliège, A. Cioppa and M. Van
Droogenbroeck, *An Effective Hit-or-Miss Layer Favoring Feature Interpretation as Learned Prototypes Deformations*
(2019).

{picture}{_table(_facts(model, result, rejection))}

## Use it

```python
import torch, hitnet

net = hitnet.from_pretrained("owner/name")  # this repository, or a folder with its files
net.predict(torch.rand(2, {", ".join(str(size) for size in model.config.image_shape or ())}))  # images in [0, 1]
```

## Classes

{", ".join(_plain(word) for word in model.config.class_names)}
"""


def _is_generated(card: Path) -> bool:
    return GENERATED in card.read_text("utf-8")


def _has_own_card(api: HfApi, repo_id: str, branch: str | None) -> bool:
    """Whether a repository has a README that somebody wrote."""
    if not api.file_exists(repo_id, CARD, revision=branch):
        return False
    return not _is_generated(Path(api.hf_hub_download(repo_id, CARD, revision=branch)))


def _former_card(source: Model | str | Path) -> str | None:
    """The card of a shared folder, which may hold more than the model itself: metrics, or text that people wrote."""
    if isinstance(source, Model) or not (Path(source) / CONFIG).is_file() or not (Path(source) / CARD).is_file():
        return None
    return (Path(source) / CARD).read_text("utf-8")


def _name_repository(card: Path, repo_id: str) -> None:
    """Make the example in a generated card load the model from this repository."""
    if _is_generated(card):
        example = re.compile(r'from_pretrained\(".*?"\)')
        write_text(card, example.sub(f'from_pretrained("{repo_id}")', card.read_text("utf-8")))


def _facts(model: Model, result: dict[str, Any] | None, rejection: Rejection | None) -> list[tuple[str, str]]:
    """The rows of the card's table."""
    channels, height, width = model.config.image_shape or (0, 0, 0)
    facts = [
        ("images", f"{width}×{height}, {'grey' if channels == 1 else f'{channels} channels'}, values in [0, 1]"),
        ("classes", str(model.head.num_classes)),
        ("decision", f"the class with the {model.head.decision} score"),
        ("parameters", f"{sum(parameter.numel() for parameter in model.parameters()):,}"),
    ]
    if model.head.has_hit_zone:
        radii = f"trained to hit within {model.config.hit_radius:g} of it, to miss beyond "
        facts.append(("score", f"distance to the centre; {radii}{model.config.miss_radius:g}"))
        if model.head.has_style:
            styles = model.head.capsule_dim - model.head.counted_dim
            facts.append(("style", f"{styles} components that only the decoder uses"))
        facts.append(("verdicts", _verdicts(model.config, result)))
    if model.decoder is not None:
        _, tall, wide = model.config.drawing_shape or (0, 0, 0)
        facts.append(("decoder", f"{type(model.decoder).__name__}, draws {wide}×{tall}"))
    if result is not None:
        test = result["test"]
        facts.append(("test error", f"{test['error']:.2f} % ({test['mistakes']} of {test['images']:,} images)"))
        facts.append(("epochs", str(result["kept_epoch"])))
        if "quality" in result:
            quality = Quality.from_json(result["quality"])
            r2 = f"{quality.r2:.2f}" if quality.something_varies else "–: nothing varies in the test images"
            facts.append(("variation within classes explained (R²)", r2))
            recognised = 100 * quality.prototypes_recognised
            facts.append(("prototypes recognised as their class", f"{recognised:.0f} %"))
        facts += [("note", _plain(note)) for note in result["notes"]]
    if rejection is not None:
        wrong = f"at most {100 * rejection.max_error:g} % of such answers are wrong"
        chosen = f"{100 * rejection.confidence:g} % confidence, {rejection.validation.images:,} validation images"
        facts.append(("answers to accept", f"outlier score up to {rejection.threshold:.6g}; {wrong} ({chosen})"))
    return facts


def _verdicts(config: ModelConfig, result: dict[str, Any] | None) -> str:
    if config.radii is None:
        return "not calibrated"
    low, high = (f"{edge(config.radii):.2f}" for edge in (min, max))
    usual = f"{low} of the centre" if low == high else f"{low} to {high} of the centre, by class,"
    share = f"{in_percent(config.coverage or 0)} of new images ({config.calibrated_on:,} held-out images)"
    words = f"the true class lies within {usual} for {share}"
    if result is None or "verdicts" not in result:
        return words
    found = VerdictCounts(**result["verdicts"])
    return (
        f"{words}; of {found.images:,} test images {found.sure:,} are sure ({found.sure_mistakes} of them wrong), "
        f"{found.ambiguous:,} ambiguous, {found.unknown:,} unknown"
    )


def _table(facts: list[tuple[str, str]]) -> str:
    return "\n".join(["| | |", "| --- | --- |", *(f"| {name} | {value} |" for name, value in facts)])


def _tags(model: Model, pictured: bool) -> list[str]:
    """Tags under which people may search for such a network."""
    tags = ["hitnet"]
    if model.head.has_hit_zone:
        tags.append("hit-or-miss")
    if model.head.has_capsules:
        tags.append("capsule-network")
    return [*tags, "prototypes", "interpretability"] if pictured else tags


def _metadata(title: str, tags: list[str], result: dict[str, Any] | None) -> str:
    """The hub's metadata. Written as JSON, which is valid YAML and quotes every name."""
    content: dict[str, Any] = {
        "library_name": "hitnet",
        "pipeline_tag": "image-classification",
        "tags": tags,
    }
    if result is not None:
        metric = {"type": "accuracy", "value": round(1 - result["test"]["error"] / 100, 6), "name": "test accuracy"}
        task = {"type": "image-classification"}
        data = {"name": result["data"], "type": result["data"], "split": "test"}
        content["model-index"] = [{"name": title, "results": [{"task": task, "dataset": data, "metrics": [metric]}]}]
    return "".join(f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in content.items())


def _plain(text: str) -> str:
    """Escaped text that Markdown shows literally."""
    return re.sub(r"([\\`*_{}\[\]<>|#&])", r"\\\1", " ".join(text.split()))


def _draw_prototypes(model: Model, path: Path) -> None:
    from hitnet.interpret import figures  # matplotlib takes a while to load
    from hitnet.interpret.prototypes import prototypes

    title = f"{model.config.name}: what each class looks like at its centre"
    figures.save(figures.image_grid(prototypes(model), model.config.class_names, title), path)


def _opened(source: Model | str | Path) -> tuple[Model, dict[str, Any] | None, Rejection | None]:
    """The model, and its run's result and rejection threshold if there are any."""
    if isinstance(source, Model):
        return source, None, None
    run = Run(Path(source))
    return load(source), run.read_result() if run.is_finished else None, read_rejection(run.path)


def _require_hub() -> None:
    require("the model hub", ["huggingface_hub"], "hub")
