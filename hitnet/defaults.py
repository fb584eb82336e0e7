"""What each network uses where the user chose nothing, and what suits few training images."""

import math
from typing import Any

# The paper's values.
PAPER: dict[str, Any] = {
    "norm_momentum": 0.01,  # Keras' 0.99 in torch's convention
    "reconstruction_weight": 0.392,
    "decoder": "paper",
    "schedule": "constant",
    "learning_rate": 0.001,
    "weight_decay": 0.0,
    "epochs": 10,
    "batch_size": 128,
    "finishing": 0.0,
    "validation": 0.0,
    "shift_fill": "zeros",
    "refresh_norm": False,
    "balance": False,
}
# What helps with few or light pictures, for networks that are not the paper's own.
MODERN: dict[str, Any] = {"shift_fill": "edge", "refresh_norm": True}
FAST: dict[str, Any] = {
    **MODERN,
    "norm_momentum": 0.1,
    "reconstruction_weight": 3.0,
    "decoder": "picture",
    "schedule": "one-cycle",
    "learning_rate": 0.004,
    "finishing": 1 / 3,
    "validation": 0.1,  # of few images; see usual_validation
}
OWN: dict[str, dict[str, Any]] = {
    "hitnet-fast": FAST,
    # With a reconstruction weight of 3, it explains less of the images than hitnet-fast.
    "hitnet-deep": {**FAST, "reconstruction_weight": 10.0, "weight_decay": 0.1},
    "n1": {"decoder": "none"},
    **{name: {**MODERN, "decoder": "none"} for name in ("lenet5", "resnet18", "densenet40-12")},
    **dict.fromkeys(("lenet5-hom", "resnet18-hom", "densenet40-12-hom", "timm"), MODERN),
    "pretrained timm": {**FAST, "learning_rate": 0.001},  # a higher one forgets what was learned
}
# Each step of finishing goes through the encoder and back: it would take longer than all the rest.
FROZEN: dict[str, Any] = {"learning_rate": FAST["learning_rate"], "finishing": 0.0}

# How training images are varied: recipes by name, each part of which can also be set by itself.
LARGEST_CHANGE = {"rotate": 180.0, "scale": 0.9, "shear": 60.0, "bend": 0.1, "colour": 1.0, "erase": 1.0}
UNVARIED: dict[str, Any] = {"shift": 0, "flip": False, **dict.fromkeys(LARGEST_CHANGE, 0.0)}
RECIPES: dict[str, dict[str, Any]] = {
    "none": UNVARIED,
    "shift": {**UNVARIED, "shift": 2},
    "hybrid": {**UNVARIED, "shift": 2},
    "digits": {**UNVARIED, "shift": 2, "rotate": 10.0, "scale": 0.1, "shear": 10.0},
    "objects": {**UNVARIED, "shift": 2, "flip": True, "rotate": 5.0, "scale": 0.05, "erase": 0.25},
    # Neither turned nor scaled: interpolation changes the grain of small photos, and tests show them as they are.
    "photos": {**UNVARIED, "shift": 2, "flip": True, "colour": 0.1, "erase": 0.25},
}

# Few images need small batches and many epochs, or training would end after a few steps.
USUAL_STEPS = 800  # at least, if no image were held out
BATCHES_PER_EPOCH = 25
SMALLEST_BATCH = 16
# Where the largest class has more than so many times the images of the smallest, all are shown equally often.
UNEVEN = 5


def usual_budget(images: int, batch: int | None = None) -> dict[str, int]:
    """Batch size, unless it is given, and epochs for so many training images; for many, 128 and 10."""
    if batch is None:
        batch = PAPER["batch_size"]
        while batch > SMALLEST_BATCH and images < BATCHES_PER_EPOCH * batch:
            batch //= 2
    steps = math.ceil(images / batch)
    return {"batch_size": batch, "epochs": max(PAPER["epochs"], math.ceil(USUAL_STEPS / steps))}


def usual_validation(images: int) -> float:
    """The fraction to hold out for verdicts: 500 images, but at most a tenth and at least 3 % of them."""
    return round(min(0.1, max(0.03, 500 / images)), 4)


def complete(options: dict[str, Any], network: str, images: int | None = None, uneven: bool = False) -> dict[str, Any]:
    """The options, each None replaced by the network's own value if it has one, for so many training images.

    uneven: whether their classes are of very different size.
    """
    if network.startswith("timm/"):
        network = "pretrained timm" if options.get("pretrained") or options.get("normalised") else "timm"
    own = {**PAPER, **OWN.get(network, {}), **(FROZEN if options.get("freeze") else {})}
    if images is not None and MODERN.items() <= own.items():
        own |= usual_budget(images, options["batch_size"])
        if own["validation"]:
            own["validation"] = usual_validation(images)
        own["balance"] = uneven
    if options.get("patience") and own["schedule"] == "one-cycle":
        own["schedule"] = "decay"  # stopped early, the rate of one cycle would still be high
    if options.get("decoder") not in (None, own["decoder"]):
        own["finishing"] = PAPER["finishing"]  # it would replace the decoder that was asked for
    if "augment" in options:
        own |= RECIPES[options["augment"]]
        if options.get("freeze"):
            own["shift"] = 0  # every picture is looked at once
    return {name: own.get(name) if value is None else value for name, value in options.items()}
