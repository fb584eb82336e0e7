"""Data sets by name or path, as uint8, whole on the device or in a file, and cut into batches."""

from hitnet.data.batches import Batch, Batches
from hitnet.data.catalog import list_datasets, load_dataset
from hitnet.data.dataset import Dataset, ImageSet
from hitnet.data.npz import channels_first
from hitnet.data.picture import read_image
from hitnet.data.reading import Loading
from hitnet.data.split import at_most, split_training, stratified_split, stratified_subset
from hitnet.data.transforms import to_bytes, to_float
from hitnet.data.variation import HybridAugmentation, Variation, shift

__all__ = [
    "Batch",
    "Batches",
    "Dataset",
    "HybridAugmentation",
    "ImageSet",
    "Loading",
    "Variation",
    "at_most",
    "channels_first",
    "list_datasets",
    "load_dataset",
    "read_image",
    "shift",
    "split_training",
    "stratified_split",
    "stratified_subset",
    "to_bytes",
    "to_float",
]
