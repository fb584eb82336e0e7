"""Data sets by name or path, kept whole as uint8 on the device and cut into batches there."""

from hitnet.data.arrays import channels_first
from hitnet.data.augment import flip, shift
from hitnet.data.batches import Batches, to_float
from hitnet.data.catalog import list_datasets
from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.load import load_dataset
from hitnet.data.picture import read_image
from hitnet.data.split import stratified_split, stratified_subset

__all__ = [
    "Batches",
    "Dataset",
    "ImageSet",
    "channels_first",
    "flip",
    "list_datasets",
    "load_dataset",
    "read_image",
    "shift",
    "stratified_split",
    "stratified_subset",
    "to_float",
]
