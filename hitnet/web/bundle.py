"""What a page shows on its own: the model as JSON, its decoder's weights as plain bytes, and real pictures."""

import base64
import copy
import io
from itertools import pairwise
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from hitnet.core.decoder import REACH, Doubling, PaperDecoder, PictureDecoder, StandardisedDecoder
from hitnet.core.layer import CENTRE
from hitnet.core.model import Model
from hitnet.core.resizing import resized
from hitnet.data import to_bytes, to_float
from hitnet.interpret.exemplars import Exemplars
from hitnet.interpret.prototypes import prototypes

SAMPLES = 64  # drawings that decide whether weights of half the bytes will do
WEBP_QUALITY = 90  # a fifth of the bytes of a lossless picture, and no difference that the eye sees


def check_drawable(model: Model) -> None:
    """Refuse networks that cannot draw prototypes."""
    if not model.head.has_hit_zone:
        raise ValueError(
            f"{model.config.name} has no Hit-or-Miss layer, so it has no prototypes; "
            "choose a run of hitnet, hitnet-fast or a network with -hom"
        )
    if not isinstance(model.decoder, (PaperDecoder, StandardisedDecoder, PictureDecoder)):
        raise ValueError(f"this {model.config.name} has no decoder, so it cannot draw; train it with a decoder")


def describe_model(model: Model) -> dict[str, Any]:
    """Everything the page knows about a model, as JSON."""
    return {
        "name": model.config.name,
        "classes": list(model.config.class_names),
        "shape": list(model.config.image_shape or ()),
        "drawing": list(model.config.drawing_shape or ()),
        "dims": model.head.capsule_dim,
        "counted": model.head.counted_dim,
        "unit": model.head.unit,
        "radii": model.config.radii,
        "coverage": model.config.coverage,
        "hit_radius": model.config.hit_radius,
        "miss_radius": model.config.miss_radius,
        "decoder": describe_decoder(model),
    }


def describe_decoder(model: Model) -> dict[str, Any]:
    """What enters the decoder, and its layers in order; `pack_decoder` gives their weights."""
    check_drawable(model)
    decoder, in_units = model.decoder, not isinstance(model.decoder, PaperDecoder)
    return {
        "kind": type(decoder).__name__.removesuffix("Decoder").lower(),
        # The inputs: if `indicator`, a one-hot class vector first; then (component − offset) / scale, within ± reach.
        "indicator": in_units,
        "offset": CENTRE if in_units else 0.0,
        "scale": model.head.unit if in_units else 1.0,
        "reach": REACH if isinstance(decoder, PictureDecoder) else None,
        "layers": [[layer.in_features, layer.out_features] for layer in _linear_layers(model)],
        # PictureDecoder only: [channels in, channels out, height, width] of each layer that doubles the size.
        "doublings": [
            [*channels, *size] for channels, size in zip(pairwise(decoder.channels), decoder.sizes[1:], strict=True)
        ]
        if isinstance(decoder, PictureDecoder)
        else [],
        "coarsest": decoder.sizes[0] if isinstance(decoder, PictureDecoder) else None,
    }


def pack_decoder(model: Model, half: bool | None = None) -> bytes:
    """Little-endian float16 if that changes no byte of a picture by more than 1, otherwise float32.

    Fully connected layers: the weights, input by input, then the biases. Of a picture decoder then the layers that
    double: weights by row and column of the kernel, channels out in fours, channels in, and the four channels out; then
    the biases. Last the colours: by row, column, channel out, channel in.
    """
    check_drawable(model)
    parts: list[Tensor] = []
    for layer in _linear_layers(model):
        # Input by input: the page skips inputs that are zero, and most are.
        parts += [layer.weight.t(), layer.bias]
    if isinstance(model.decoder, PictureDecoder):
        coarse, (height, width) = parts[2:4], model.decoder.sizes[0]
        # The coarse picture with its channels last.
        parts[2:4] = [part.unflatten(-1, (-1, height, width)).movedim(-3, -1).flatten(-3) for part in coarse]
        for double in model.decoder.doublings:
            assert isinstance(double, Doubling)
            fours = double.kernel.permute(2, 3, 1, 0).unflatten(2, (-1, 4)).movedim(3, 4)
            parts += [fours, double.bias]
        assert model.decoder.colours.bias is not None
        parts += [model.decoder.colours.weight.permute(2, 3, 0, 1), model.decoder.colours.bias]
    kind = "<f2" if (draws_alike_in_half(model) if half is None else half) else "<f4"
    return b"".join(part.detach().cpu().float().contiguous().numpy().astype(kind).tobytes() for part in parts)


def draws_alike_in_half(model: Model) -> bool:
    """Whether weights rounded to float16 draw the same, to 1/255: all prototypes, and samples near and far."""
    assert model.decoder is not None
    halved = copy.deepcopy(model)
    assert halved.decoder is not None
    for weight in halved.decoder.parameters():
        weight.data = weight.data.half().to(weight.dtype)
        if not weight.isfinite().all():
            return False
    generator = torch.Generator().manual_seed(0)
    near = CENTRE + model.head.unit * torch.randn(SAMPLES, model.head.capsule_dim, generator=generator)
    far = torch.rand(SAMPLES, model.head.capsule_dim, generator=generator)  # where the sliders reach at most
    indices = torch.arange(2 * SAMPLES) % model.head.num_classes

    def drawn(each: Model) -> Tensor:
        pictures = torch.cat([prototypes(each), each.draw(torch.cat([near.clamp(0, 1), far]), indices)])
        return (255 * pictures).round()

    return bool((drawn(model) - drawn(halved)).abs().max() <= 1)


def pack_exemplars(exemplars: Exemplars) -> dict[str, Any]:
    """Real pictures as base64 WebP files, and where each belongs, as JSON: lists are shorter where there are fewer."""
    return {
        "pictures": [base64.b64encode(webp(picture)).decode() for picture in exemplars.pictures],
        "typical": [_present(places) for places in exemplars.typical],
        "ends": [[[_present(end) for end in component] for component in of_class] for of_class in exemplars.ends],
    }


def pack_ways(model: Model, exemplars: Exemplars | None) -> list[dict[str, Any] | None]:
    """How one picture of each class becomes numbers and lands on the target, as JSON; None where that is not finite.

    The picture is the first real one of the class, otherwise its prototype.
    """
    shape, classes = model.config.image_shape, model.head.num_classes
    assert shape is not None
    images = model.enlarge(prototypes(model))
    first = [-1] * classes if exemplars is None else [next(iter(_present(places)), -1) for places in exemplars.typical]
    for index, place in enumerate(first):
        if exemplars is not None and place >= 0:
            images[index] = to_float(enlarge(exemplars.pictures[place], shape)).to(images)
    capsules = model.all_capsules(images)
    scores = model.head.score(capsules)
    own = capsules[torch.arange(classes), torch.arange(classes)]
    finite = (own.isfinite().all(1) & scores.isfinite().all(1)).tolist()
    return [
        {"real": first[index] >= 0, "capsule": _rounded(own[index]), "scores": _rounded(scores[index])}
        if fine
        else None
        for index, fine in enumerate(finite)
    ]


def _rounded(values: Tensor) -> list[float]:
    return [round(value, 4) for value in values.tolist()]


def enlarge(picture: Tensor, shape: tuple[int, int, int]) -> Tensor:
    """A kept picture at the network's size again: uint8 (channels, height, width)."""
    return resized(picture.unsqueeze(0).float(), shape[1:])[0].round().clamp(0, 255).byte()


def as_small(model: Model, pixels: Tensor) -> bytes:
    """Pictures at the size of drawings: uint8 (count, channels, height, width) -> their bytes."""
    small = model.shrink(to_float(pixels))
    return to_bytes(small.clamp(0, 1)).cpu().contiguous().numpy().tobytes()


def _present(places: Tensor) -> list[int]:
    return [place for place in places.tolist() if place >= 0]


def webp(picture: Tensor) -> bytes:
    """uint8 (channels, height, width); channels that are no colours are averaged to grey."""
    pixels = picture.permute(1, 2, 0) if len(picture) == 3 else picture.float().mean(0).byte()
    content = io.BytesIO()
    Image.fromarray(pixels.contiguous().numpy()).save(content, "WEBP", quality=WEBP_QUALITY)
    return content.getvalue()


def _linear_layers(model: Model) -> list[nn.Linear]:
    if isinstance(model.decoder, PictureDecoder):
        return [model.decoder.first, model.decoder.coarse]
    assert isinstance(model.decoder, (PaperDecoder, StandardisedDecoder))
    return [part for part in model.decoder.layers if isinstance(part, nn.Linear)]
