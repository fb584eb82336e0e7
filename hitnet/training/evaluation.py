"""How well a network classifies a set of images."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hitnet.core.heads import Head
from hitnet.core.model import TEST_BATCH, Model, evaluating
from hitnet.data import Batches, ImageSet
from hitnet.training.devices import Team


def count_mistakes(count: int) -> str:
    """1 mistake, 2 mistakes."""
    return f"{count} mistake{'' if count == 1 else 's'}"


@dataclass(frozen=True)
class Evaluation:
    """The confusion matrix and the mean loss."""

    confusion: Tensor
    """(true class, predicted class): counts."""
    loss: float

    @property
    def count(self) -> int:
        return int(self.confusion.sum())

    @property
    def mistakes(self) -> int:
        return self.count - int(self.confusion.diagonal().sum())

    @property
    def error(self) -> float:
        """Percentage of images that are misclassified."""
        return 100 * self.mistakes / self.count

    @property
    def balanced_error(self) -> float:
        """The mean of the classes' own errors, in %: a class of ten images counts as much as one of a thousand."""
        images = self.confusion.sum(1)
        right = self.confusion.diagonal()[images > 0] / images[images > 0]
        return 100 * (1 - float(right.mean()))

    def per_class(self, class_names: tuple[str, ...]) -> list[dict[str, Any]]:
        """For each class: its images, its mistakes, and the class it is most often mistaken for."""
        rows = []
        for index, name in enumerate(class_names):
            counts = self.confusion[index].clone()
            images, right = int(counts.sum()), int(counts[index])
            counts[index] = 0
            taken_for = class_names[int(counts.argmax())] if images > right else None
            error = 100 * (images - right) / images if images else None
            rows.append({"class": name, "images": images, "mistakes": images - right, "error": error, "as": taken_for})
        return rows

    def to_json(self, class_names: tuple[str, ...]) -> dict[str, Any]:
        return {
            "error": self.error,
            "balanced_error": self.balanced_error,
            "mistakes": self.mistakes,
            "images": self.count,
            "loss": self.loss,
            "per_class": self.per_class(class_names),
            "confusion": self.confusion.tolist(),
        }


def all_scores(model: Model, data: ImageSet) -> Tensor:
    """The score of each class for each image: (count, classes)."""
    return torch.cat([model.scores(images.to(model.device)).cpu() for images, _ in Batches(data, TEST_BATCH)])


def judge(head: Head, scores: Tensor, labels: Tensor) -> Evaluation:
    """What scores are worth, whoever gave them; the loss is that of the classification alone: (count, classes)."""
    classes = scores.shape[1]
    pairs = torch.bincount(labels * classes + head.decide(scores), minlength=classes * classes)
    return Evaluation(pairs.view(classes, classes), float(head.loss(scores, labels)))


@torch.no_grad()
def evaluate(model: Model, data: ImageSet, *, batch_size: int = TEST_BATCH, team: Team | None = None) -> Evaluation:
    """Classify every image once, without augmentation; each process of a team takes its share."""
    team = team or Team()
    classes = model.head.num_classes
    share = data.subset(torch.arange(len(data), device=data.labels.device)[team.rank :: team.size])
    # The last entry is the summed loss, so that one all-reduce covers everything.
    totals = torch.zeros(classes * classes + 1, dtype=torch.float64)
    with evaluating(model):
        # With more processes than images, some have none.
        for images, labels in Batches(share, batch_size) if len(share) else ():
            out = model(images, labels)
            pairs = labels * classes + model.head.decide(out.scores)
            totals[:-1] += torch.bincount(pairs, minlength=classes * classes).cpu()
            totals[-1] += float(model.loss(out, images, labels).total) * len(labels)
    totals = team.sum(totals)
    confusion = totals[:-1].round().long().view(classes, classes)
    return Evaluation(confusion, float(totals[-1]) / int(confusion.sum()))
