"""A committee (ensemble): several networks answer together, by the mean of their distances to the centre.

    python scripts/committee.py runs/mnist/hitnet-s0 runs/mnist/hitnet-fast-s? [--data-dir FOLDER] [--out FILE]

All must be Hit-or-Miss networks trained on the same data. All members count equally; none is selected. Writes OUT.md:
the test error of each member and of the committee.
"""

import argparse
from pathlib import Path

import torch

from hitnet.data import to_float
from hitnet.files import write_text
from hitnet.runs.reopen import reopen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/committee"))
    args = parser.parse_args()
    rows, distances, fingerprints = [], [], set()
    for path in args.runs:
        opened = reopen(path)
        model, settings, result = opened.model, opened.run.read_settings(), opened.run.read_result()
        if not model.head.has_hit_zone:
            parser.error(f"{path} is {model.config.name}, which has no distances to a centre; leave it out")
        data = opened.load_data(data_dir=args.data_dir)
        fingerprints.add(data.fingerprint)
        if len(fingerprints) > 1:
            parser.error(f"{path} has other data than the runs before it; give runs trained on the same data")
        distances.append(model.scores(to_float(data.test.pixels()).to(model.device)).cpu())
        decoder = (result["decoder"] or "none").removesuffix("Decoder").lower()
        member = [model.config.name, decoder, str(settings.seed), str(result["epochs"])]
        rows.append([*member, error(distances[-1], data.test.labels)])
    together = error(torch.stack(distances).mean(0), data.test.labels)
    rows.append([f"**all {len(distances)} together**", "", "", "", f"**{together}**"])
    lines = [["network", "decoder", "seed", "epochs", "test error, %"], ["---", "---", *["---:"] * 3], *rows]
    text = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
    write_text(args.out.with_suffix(".md"), text)
    print(text)


def error(distances: torch.Tensor, labels: torch.Tensor) -> str:
    """Test error in percent; the answer is the class nearest to the centre."""
    wrong = distances.argmin(1) != labels
    return f"{100 * float(wrong.double().mean()):.2f}"


if __name__ == "__main__":
    main()
