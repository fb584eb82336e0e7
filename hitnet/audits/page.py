"""The findings as one page that opens from disk: the most suspicious pictures beside what the networks draw."""

import base64
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from hitnet.audits.networks import Answers
from hitnet.core.model import Model
from hitnet.data import ImageSet, to_bytes, to_float
from hitnet.files import write_bytes
from hitnet.interpret.label_quality import KIND_WORDS, KINDS
from hitnet.interpret.prototypes import prototypes
from hitnet.runs.audit_folder import AuditFolder, Issue, duplicate_sets
from hitnet.runs.reopen import load_model
from hitnet.web.bundle import webp

MOST_OF_A_KIND = 200  # pictures shown of each kind
MOST_OF_PAIRS = 500  # wrong labels shown besides, so that each pair of classes has some of its own
MOST_SETS, MOST_OF_A_SET = 100, 12  # sets of copies shown, and pictures of each
MOST_CELLS = 30  # classes of a matrix; of more, the most frequent pairs are listed
MOST_PAIRS = 100
LARGEST_THUMBNAIL = 96  # pixels

# Nothing can be fetched, even if a name contains HTML.
POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"


def write_page(
    folder: AuditFolder,
    class_names: Sequence[str],
    images: ImageSet,
    issues: Sequence[Issue],
    order: Sequence[int],
    answers: Answers,
    summary: dict[str, Any],
) -> None:
    """index.html; `order` lists the issues, the most suspicious first."""
    pairs = summary["wrong_labels"][: MOST_CELLS**2 if len(class_names) <= MOST_CELLS else MOST_PAIRS]
    shown = _shown(issues, order, pairs)
    sets = _sets(issues)
    drawn, redrawn = _drawings([load_model(run.path) for run in answers.runs], images, shown, issues, class_names)
    index_of = {name: index for index, name in enumerate(class_names)}
    content = {
        "data": summary["data"],
        "way": summary["way"],
        "images": summary["images"],
        "kinds": summary["kinds"],
        "words": KIND_WORDS,
        "duplicates": summary["duplicates"],
        "notes": summary["notes"],
        "classes": list(class_names),
        "prototypes": drawn,
        "matrix": len(class_names) <= MOST_CELLS,
        "most_of_a_kind": MOST_OF_A_KIND,
        "pairs": [[index_of[each["given"]], index_of[each["suggested"]], each["images"]] for each in pairs],
        "pictures": [
            {
                "path": issues[index].path,
                "split": issues[index].split,
                "given": index_of[issues[index].given_label],
                "suggested": index_of[issues[index].predicted_label],
                "kind": issues[index].kind,
                "quality": issues[index].label_score,
                "own": issues[index].distance_given,
                "nearest": issues[index].distance_predicted,
                "network": issues[index].network,
                "picture": _thumbnail(images.images[index]),
                "redrawn": redrawn.get(index),
            }
            for index in shown
        ],
        "sets": [_set(members, issues, images, index_of) for members in sets[:MOST_SETS]],
        "more_sets": max(0, len(sets) - MOST_SETS),
    }
    parts = {
        "/* policy */": POLICY,
        "/* style */": _static("web", "style.css") + _static("audits", "findings.css"),
        "/* content */": json.dumps(content).replace("<", "\\u003c"),
        "/* script */": _without_modules(_static("web", "dom.js") + _static("audits", "findings.js")),
    }
    write_bytes(folder.page_file, _filled(_static("audits", "findings.html"), parts).encode())


def _shown(issues: Sequence[Issue], order: Sequence[int], pairs: Sequence[dict[str, Any]]) -> list[int]:
    """The pictures on the page, in their order: the worst of each kind, and the worst wrong labels of each pair."""
    room: dict[str, int] = dict.fromkeys(KINDS, MOST_OF_A_KIND)
    each_pair = max(1, MOST_OF_PAIRS // max(1, len(pairs)))
    room_of_pair = {(pair["given"], pair["suggested"]): each_pair for pair in pairs}
    shown = []
    for index in order:
        issue = issues[index]
        pair = (issue.given_label, issue.predicted_label)
        if room[issue.kind] > 0 or (issue.is_label_issue and room_of_pair.get(pair, 0) > 0):
            shown.append(index)
            room[issue.kind] -= 1
            if issue.is_label_issue and pair in room_of_pair:
                room_of_pair[pair] -= 1
    return shown


def _filled(page: str, parts: dict[str, str]) -> str:
    """The page with each text in its place; what is filled in is not searched, since names may look like places."""
    pieces = re.split(f"({'|'.join(map(re.escape, parts))})", page)
    assert sorted(pieces[1::2]) == sorted(parts), f"findings.html must have each of {', '.join(parts)} once"
    return "".join(parts.get(piece, piece) for piece in pieces)


def _sets(issues: Sequence[Issue]) -> list[list[int]]:
    """Sets of copies: those of different classes first, then those across splits, then the others."""

    def harmless(members: list[int]) -> tuple[bool, bool]:
        return (
            not any(issues[index].duplicate_in_other_class for index in members),
            not any(issues[index].duplicate_in_other_split for index in members),
        )

    return sorted(duplicate_sets(issues).values(), key=harmless)


def _set(members: list[int], issues: Sequence[Issue], images: ImageSet, index_of: dict[str, int]) -> dict[str, Any]:
    return {
        "exact": not issues[members[0]].is_near_duplicate_issue,
        "across_classes": any(issues[index].duplicate_in_other_class for index in members),
        "across_splits": any(issues[index].duplicate_in_other_split for index in members),
        "size": len(members),
        "pictures": [
            {
                "path": issues[index].path,
                "split": issues[index].split,
                "given": index_of[issues[index].given_label],
                "picture": _thumbnail(images.images[index]),
            }
            for index in members[:MOST_OF_A_SET]
        ],
    }


def _drawings(
    models: list[Model],
    images: ImageSet,
    shown: Sequence[int],
    issues: Sequence[Issue],
    class_names: Sequence[str],
) -> tuple[list[str], dict[int, str]]:
    """The prototypes of the first network, and each picture as its own network draws it, as the suggested class.

    Both are empty if the networks do not draw.
    """
    redrawn: dict[int, str] = {}
    if models[0].decoder is None:
        return [], redrawn
    drawn = [_thumbnail(_to_bytes(picture)) for picture in prototypes(models[0])]
    for number, model in enumerate(models):
        judged = [index for index in shown if issues[index].network == number]
        suggested = torch.tensor([class_names.index(issues[index].predicted_label) for index in judged])
        pictures = _reconstructions(model, images.images[judged], suggested)
        redrawn |= {index: _thumbnail(_to_bytes(each)) for index, each in zip(judged, pictures, strict=True)}
    return drawn, redrawn


@torch.no_grad()
def _reconstructions(model: Model, images: Tensor, suggested: Tensor) -> Tensor:
    """Each image as its suggested class: uint8, (count,) -> floats of the same shape."""
    if not len(images):
        return to_float(images)
    pieces = zip(images.split(256), suggested.to(model.device).split(256), strict=True)
    return torch.cat(
        [model(to_float(piece).to(model.device), classes).reconstruction.cpu() for piece, classes in pieces]
    )


def _to_bytes(picture: Tensor) -> Tensor:
    return to_bytes(picture).cpu()


def _thumbnail(picture: Tensor) -> str:
    """uint8 (channels, height, width) as a data URI, at most 96 pixels wide and high."""
    scale = LARGEST_THUMBNAIL / max(picture.shape[1:])
    if scale < 1:
        size = [max(1, round(side * scale)) for side in picture.shape[1:]]
        smaller = torch.nn.functional.interpolate(picture[None].float(), size, mode="bilinear", antialias=True)[0]
        picture = smaller.round().clamp(0, 255).byte()
    return f"data:image/webp;base64,{base64.b64encode(webp(picture)).decode()}"


def _static(part: str, name: str) -> str:
    return files(f"hitnet.{part}").joinpath("static").joinpath(name).read_text(encoding="utf-8")


def _without_modules(script: str) -> str:
    """Modules joined into one script, without imports and exports."""
    return re.sub(r"^export ", "", re.sub(r"^import .*\n", "", script, flags=re.MULTILINE), flags=re.MULTILINE)
