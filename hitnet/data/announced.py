"""What a file announces to hold is compared with the machine's memory before it is unpacked."""

import os
from pathlib import Path

LARGEST_RATIO = 1032  # deflate, the method of gzip, zip and .mat, cannot pack more tightly


def check_announced(source: str | Path, size: int) -> None:
    """Refuse a file whose content needs more than half of the memory; the other half is for working with it."""
    if size > (limit := most_bytes()):
        raise ValueError(
            f"{source} announces {gigabytes(size)}, more than half of this machine's memory ({gigabytes(limit)}); "
            "it is damaged, or needs a larger machine"
        )


def most_bytes() -> int:
    """Half of the memory; 8 GB where it is not known."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
    except (AttributeError, ValueError, OSError):  # Windows
        return 8_000_000_000


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB"
