"""A folder of pictures to try HitNet on: eight letters in the fonts of this machine, some in the wrong folder.

    python scripts/make_letters.py letters --fonts 10

Writes letters/train/A/…, from that many fonts, and letters/test/A/…, from thirty others. The same command with more
fonts adds pictures to letters/train and changes no others. On Debian, `apt install fonts-recommended` brings fonts.
"""

import argparse
import random
from pathlib import Path

import numpy as np
from matplotlib.font_manager import findSystemFonts, fontManager
from PIL import Image, ImageDraw, ImageFont

LETTERS, SIDE, TEST_FONTS = "ABEGQRSX", 64, 30
WRONG = 20  # one picture in so many lies in another letter's folder


def letter(path: str, text: str, chance: random.Random) -> Image.Image:
    """Dark on light, not quite in the middle."""
    picture = Image.new("L", (SIDE, SIDE), 255)
    place = (SIDE / 2 + chance.randint(-4, 4), SIDE / 2 + chance.randint(-4, 4))
    font = ImageFont.truetype(path, chance.randint(34, 46))
    ImageDraw.Draw(picture).text(place, text, font=font, fill=chance.randint(0, 90), anchor="mm")
    return picture


def has_letters(path: str) -> bool:
    """Whether each letter has a shape of its own: a font for symbols, or another script, shows boxes."""
    try:
        shapes = {np.asarray(letter(path, text, random.Random(0))).tobytes() for text in LETTERS}
    except OSError:
        return False
    return len(shapes) == len(LETTERS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--fonts", type=int, default=10, help="fonts of the training pictures")
    parser.add_argument("--test-fonts", type=int, default=TEST_FONTS)
    args = parser.parse_args()
    # One style of each family: others would put near copies of test pictures into the training pictures.
    paths = {*findSystemFonts(), *(font.fname for font in fontManager.ttflist)}
    families = {ImageFont.truetype(path).getname()[0]: path for path in sorted(paths) if has_letters(path)}
    fonts = [path for _, path in sorted(families.items())]
    random.Random(0).shuffle(fonts)
    wanted = args.test_fonts + args.fonts
    if len(fonts) < wanted:
        parser.error(f"needs {wanted} fonts with the letters {LETTERS}, found {len(fonts)}; install more, or use fewer")
    for index, path in enumerate(fonts[:wanted]):
        part = "test" if index < args.test_fonts else "train"
        chance = random.Random(index)
        for text in LETTERS:
            picture = letter(path, text, chance)
            wrong = part == "train" and chance.randrange(WRONG) == 0
            folder = args.folder / part / (chance.choice(LETTERS.replace(text, "")) if wrong else text)
            folder.mkdir(parents=True, exist_ok=True)
            picture.save(folder / f"{text}-{index:02d}.png")


if __name__ == "__main__":
    main()
