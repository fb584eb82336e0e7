"""Data sets by name or path, kept whole as uint8 on the device and cut into batches there."""

from hitnet.data.batches import Batches
from hitnet.data.catalog import list_datasets, load_dataset
from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.npz import channels_first
from hitnet.data.picture import read_image
from hitnet.data.split import split_training, stratified_split, stratified_subset
from hitnet.data.variation import HybridAugmentation, Variation, flip, shift, to_float

__all__ = [
    "Batches",
    "Dataset",
    "HybridAugmentation",
    "ImageSet",
    "Variation",
    "channels_first",
    "flip",
    "list_datasets",
    "load_dataset",
    "read_image",
    "shift",
    "split_training",
    "stratified_split",
    "stratified_subset",
    "to_float",
]
