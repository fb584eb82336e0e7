"""Tables, claims and report from runs whose errors are known."""

import csv
import io
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from hitnet.experiments.claims import all_claims, claims_table, speed_claims
from hitnet.experiments.outcome import all_errors
from hitnet.experiments.protocol import CONSTANT, EXPERIMENTS, FALLING, HYBRID, SCALES, Protocol
from hitnet.experiments.report import report
from hitnet.experiments.reproduce import reproduce
from hitnet.experiments.speed import Speed, measure_speed, read_speed, speed_table
from hitnet.experiments.tables import Table, all_tables, decrease_table, to_csv, to_latex, to_markdown, write_results
from hitnet.files import read_json, write_bytes, write_json

ERRORS = {"N1": (0.50, 0.54), "N2": (0.80, 0.78), "N2b": (0.75, 0.77), "HitNet": (0.38, 0.40)}


@pytest.fixture
def laptop(tmp_path, pretend: Callable) -> Protocol:
    """Table 1 with two seeds of a constant rate, one of a falling one for HitNet, and one run unfinished."""
    protocol = Protocol(SCALES["laptop"], tmp_path / "out")
    grid = protocol.grid("table1")
    for network, errors in ERRORS.items():
        for trial, error in zip(grid[network, CONSTANT].trials, errors, strict=False):
            pretend(trial, error)
    pretend(grid["HitNet", FALLING].trials[0], 0.30)
    (pretend(grid["N1", FALLING].trials[0], 0.1).path / "result.json").unlink()
    return protocol


def table(protocol: Protocol, name: str) -> Table:
    return next(table for table in all_tables(protocol, {}, [name]) if table.name == name)


def test_table_1_has_mean_deviation_and_runs_beside_the_papers_numbers(laptop: Protocol):
    found = table(laptop, "table1")
    assert found.headings == ["", CONSTANT, "paper", FALLING, "paper", "best run on MNIST", "paper"]
    assert found.rows[0] == ["N1", "0.52 ± 0.028 (2)", "0.52 ± 0.060", "–", "0.42 ± 0.027", "0.50", "0.38"]
    assert found.rows[3][1:5] == ["0.39 ± 0.014 (2)", "0.38 ± 0.033", "0.30 (1)", "0.36 ± 0.025"]
    assert found.rows[3][5:] == ["0.30", "0.32"]


def test_runs_whose_rate_always_falls_stand_beside_the_papers_constant_one(tmp_path, pretend: Callable):
    workstation = Protocol(SCALES["workstation"], tmp_path / "out")
    pretend(workstation.grid("hybrid")[HYBRID, f"Fashion-MNIST, {FALLING}"].trials[0], 6.5)
    found = table(workstation, "hybrid")
    assert found.headings[1] == f"Fashion-MNIST, {FALLING}"
    assert next(row for row in found.rows if row[0] == HYBRID)[1:3] == ["6.50 (1)", "7.50 (derived)"]


def test_columns_keep_their_order_whichever_run_ends_first(laptop: Protocol, pretend: Callable):
    grid = laptop.grid("table1")
    for trial in (*grid["N1", CONSTANT].trials, *grid["N1", FALLING].trials):
        shutil.rmtree(trial.path, ignore_errors=True)
    pretend(grid["N1", FALLING].trials[0], 0.1)
    assert table(laptop, "table1").headings[1:5:2] == [CONSTANT, FALLING]


def test_an_unfinished_run_counts_nowhere(laptop: Protocol):
    assert ("N1", FALLING) not in all_errors(laptop.grid("table1"))
    rows = list(csv.DictReader(io.StringIO(write_results(laptop).read_text())))
    assert len(rows) == 9
    assert {row["error"] for row in rows if row["model"] == "n1"} == {"0.5", "0.54"}


def test_what_is_not_finished_is_named_below_the_tables_and_on_the_page(laptop: Protocol):
    lost = laptop.grid("table1")["N1", FALLING].trials[0]
    failures = {lost: "failed: N1: out of <luck>"}
    tables = {found.name: found for found in all_tables(laptop, failures, EXPERIMENTS)}
    notes = tables["table1"].notes
    assert notes[-1] == failures[lost]
    assert notes[-2].startswith("not finished: N1, constant rate (1 of 3 runs); N1, falling rate (3 of 3 runs); N2,")
    assert "LeNet-5, MNIST (5 of 5 runs)" in tables["table3-decrease"].notes[-1], "the other tables lack other runs"
    assert failures[lost] in claims_table(all_claims(laptop), laptop, failures).notes
    assert "failed: N1: out of &lt;luck&gt;" in report(laptop, [], [], list(failures.values()))


def test_every_table_of_runs_says_in_what_it_differs_from_the_paper(laptop: Protocol):
    for found in [*all_tables(laptop, {}, EXPERIMENTS), claims_table(all_claims(laptop), laptop, {})]:
        assert set(laptop.scale.notes) <= set(found.notes)


def test_a_run_of_several_tables_is_one_line_of_the_results(laptop: Protocol):
    rows = list(csv.DictReader(io.StringIO(write_results(laptop).read_text())))
    shared = next(row for row in rows if row["run"] == "runs/constant/mnist/hitnet-s0")
    assert shared["experiments"].split() == ["table1", "table3", "hybrid"]
    assert (shared["seed"], shared["error"], shared["mistakes"]) == ("0", "0.38", "38")


def test_seeds_that_an_earlier_command_added_count(laptop: Protocol, pretend: Callable):
    many = Protocol(laptop.scale, laptop.out, runs=11)
    pretend(many.grid("table1")["HitNet", CONSTANT].trials[10], 0.42)
    assert all_errors(laptop.grid("table1"))["HitNet", CONSTANT].values == (0.38, 0.40, 0.42)


def test_a_network_that_deforms_images_for_others_is_one_of_the_experiment(laptop: Protocol, pretend: Callable):
    pretend(laptop.grid("hybrid")[HYBRID, f"MNIST, {FALLING}"].trials[1].teacher, 0.5)
    rows = list(csv.DictReader(io.StringIO(write_results(laptop).read_text())))
    assert [row["experiments"] for row in rows if "decoder-standardised" in row["run"]] == ["hybrid figures"]
    assert "table1 table2 hybrid ablations" in {row["experiments"] for row in rows}, "each of them once"


def test_pupils_of_several_seeds_have_teachers_of_their_own(laptop: Protocol, pretend: Callable):
    cell = laptop.grid("hybrid")[HYBRID, f"MNIST, {FALLING}"]
    for trial, error in zip(cell.trials, (0.3, 0.4, 0.5), strict=True):
        pretend(trial, error)
    assert all_errors(laptop.grid("hybrid"))[HYBRID, f"MNIST, {FALLING}"].values == (0.3, 0.4, 0.5)
    shutil.rmtree(cell.trials[1].path)
    pretend(
        replace(cell.trials[1], settings=replace(cell.trials[1].settings, teacher=cell.trials[0].teacher.path)), 0.1
    )
    with pytest.raises(ValueError, match=r"was made with teacher .*hitnet-s0, expected .*hitnet-s1"):
        all_errors(laptop.grid("hybrid"))


def test_a_run_of_other_settings_enters_no_table(laptop: Protocol, pretend: Callable):
    added = Protocol(laptop.scale, laptop.out, runs=11).grid("table1")["HitNet", CONSTANT].trials[10]
    pretend(replace(added, settings=replace(added.settings, epochs=60)), 0.1)
    with pytest.raises(ValueError, match=r"hitnet-s10 was made with epochs 60, expected 4; choose another --out"):
        all_errors(laptop.grid("table1"))
    with pytest.raises(ValueError, match=r"hitnet-s10 was made with epochs 60"):
        reproduce("ablations", "laptop", laptop.out)


def test_a_copy_of_a_run_does_not_count_as_another_seed(laptop: Protocol):
    first = laptop.grid("table1")["HitNet", CONSTANT].trials[0].path
    shutil.copytree(first, first.with_name("hitnet-s0-copy"))
    assert all_errors(laptop.grid("table1"))["HitNet", CONSTANT].count == 2
    shutil.copytree(first, first.with_name("hitnet-s7"))
    with pytest.raises(ValueError, match=r"hitnet-s7 was made with seed 0, expected 7"):
        all_errors(laptop.grid("table1"))


def test_a_run_of_several_processes_is_none_of_the_protocols(laptop: Protocol):
    path = laptop.grid("table1")["HitNet", CONSTANT].trials[0].path
    write_json(path / "env.json", {**read_json(path / "env.json"), "processes": 4})
    with pytest.raises(ValueError, match=r"hitnet-s0 was made with processes 4, expected 1"):
        all_errors(laptop.grid("table1"))


def test_experiments_that_were_asked_for_and_have_finished_runs_have_a_table(laptop: Protocol, pretend, tmp_path):
    def names(*asked: str) -> list[str]:
        return [found.name for found in all_tables(laptop, {}, asked)]

    assert names(*EXPERIMENTS) == ["table1", "table2", "table3", "table3-decrease", "hybrid", "ablations"]
    assert names() == ["table1"], "the others only have runs that it has left for them"
    pretend(laptop.grid("ablations")["loss: smooth", "MNIST"].trials[0], 0.5)
    assert names("hybrid") == ["table1", "hybrid", "ablations"], "and what was begun before stays"
    assert all_tables(Protocol(laptop.scale, tmp_path / "nothing"), {}, EXPERIMENTS) == []


def test_a_csv_file_says_what_the_table_says(laptop: Protocol, pretend: Callable):
    best = [record for record in table(laptop, "table1").records if record["column"] == "best run on MNIST"]
    assert [(record["row"], record["mean"], record["paper_mean"]) for record in best][-1] == ("HitNet", 0.30, 0.32)
    quoted = [record for record in table(laptop, "table2").records if record["row"] == "CapsNet, Guo"]
    assert quoted == [{"row": "CapsNet, Guo", "column": "MNIST", "paper_mean": "0.34"}]
    assert to_csv(table(laptop, "table2").records).splitlines()[-1] == '"CapsNet, Shin",MNIST,,,,,,0.75,,'
    pretend(laptop.grid("ablations")["loss: smooth", "MNIST"].trials[0], 0.5)
    records = {record["row"]: record["against_default"] for record in table(laptop, "ablations").records}
    assert records["loss: smooth"] == "+0.20, too few runs to tell"
    claims = claims_table(all_claims(laptop), laptop, {})
    assert list(claims.records[0]) == ["claim", "conclusion", "found", "p"]


def test_the_relative_decrease_by_hand(laptop: Protocol):
    found = decrease_table(all_errors(laptop.grid("table3")), [])
    # From 0.52 to 0.39, and from 0.0283 to 0.0141.
    assert found.rows == [["N1 → HitNet", "25.0 / 50.0", "26.9"]]
    assert found.records[0]["error"] == pytest.approx(25)


def test_ablations_are_compared_with_the_default(laptop: Protocol, pretend: Callable):
    grid = laptop.grid("ablations")
    pretend(laptop.grid("table1")["HitNet", FALLING].trials[1], 0.32)
    for trial, error in zip(grid["BatchNorm's statistics: separate", "MNIST"].trials, (0.80, 0.82), strict=False):
        pretend(trial, error)
    rows = {row[0]: row[1:] for row in table(laptop, "ablations").rows}
    assert rows["BatchNorm's statistics: shared by the classes"] == ["0.31 ± 0.014 (2)", "default"]
    assert rows["BatchNorm's statistics: separate"] == ["0.81 ± 0.014 (2)", "+0.50, worse"]
    assert "loss: smooth" not in rows


def test_the_default_is_what_the_scales_runs_have(laptop: Protocol, pretend: Callable):
    grid = laptop.grid("ablations")
    for option in ("Keras' (0.01, 1e-3)", "torch's (0.1, 1e-5)"):
        pretend(grid[f"BatchNorm's constants: {option}", "MNIST"].trials[0], 0.5)
    rows = {row[0]: row[2] for row in table(laptop, "ablations").rows}
    assert rows["loss: stepwise"] == "default"
    # Runs of this scale have 0.1 and 1e-3.
    assert rows["BatchNorm's constants: Keras' (0.01, 1e-3)"] == "+0.20, too few runs to tell"
    assert rows["BatchNorm's constants: torch's (0.1, 1e-5)"] == "+0.20, too few runs to tell"
    paper = Protocol(SCALES["paper"], laptop.out / "paper")
    pretend(paper.grid("table1")["HitNet", FALLING].trials[0], 0.3)
    rows = {row[0]: row[2] for row in table(paper, "ablations").rows}
    assert rows["BatchNorm's constants: Keras' (0.01, 1e-3)"] == "default"


def test_what_the_paper_gives_as_a_difference_is_called_derived(tmp_path, pretend: Callable):
    protocol = Protocol(SCALES["paper"], tmp_path)
    pretend(protocol.grid("hybrid")["HitNet, hybrid augmentation", "MNIST, constant rate"].trials[0], 0.3)
    assert not any(note.startswith("derived") for note in table(protocol, "hybrid").notes)
    pretend(protocol.grid("hybrid")["HitNet, hybrid augmentation", "SVHN, constant rate"].trials[0], 5.0)
    found = table(protocol, "hybrid")
    assert found.rows == [[HYBRID, "0.30 (1)", "0.33", "5.00 (1)", "5.30 (derived)", "0.30", "0.24"]]
    assert [record.get("paper_derived") for record in found.records] == [False, True, None]
    assert found.notes[-1].startswith("derived: the paper gives the difference")


def test_claims_are_judged_on_what_is_there(laptop: Protocol):
    claims = {claim.words: claim for claim in all_claims(laptop)}
    assert claims[f"HitNet has a lower error than N1 on MNIST, {CONSTANT}"].conclusion == "holds"
    assert (
        claims[f"HitNet has a lower error than N1 on MNIST, {CONSTANT}"].measured
        == "0.39 ± 0.014 (2) against 0.52 ± 0.028 (2)"
    )
    assert (
        claims["HitNet has a lower error at a falling rate than at a constant one"].conclusion
        == "not decided at this scale"
    )
    assert not any("N2b has a lower error at" in words for words in claims)
    compared = [claim.measured for claim in claims.values() if "against" in claim.measured]
    assert len(set(compared)) == len(compared), "no test is listed twice"


def test_markdown_and_latex_have_a_row_for_each_row(laptop: Protocol):
    found = table(laptop, "table1")
    markdown = [line for line in to_markdown(found).splitlines() if line.startswith("|")]
    assert len(markdown) == 2 + len(found.rows)
    assert {line.count("|") for line in markdown} == {len(found.headings) + 1}
    latex = [line for line in to_latex(found).splitlines() if line.endswith("\\\\")]
    assert latex[1] == ("N1 & 0.52 $\\pm$ 0.028 (2) & 0.52 $\\pm$ 0.060 & -- & 0.42 $\\pm$ 0.027 & 0.50 & 0.38 \\\\")
    assert len(latex) == 1 + len(found.rows)


def test_latex_escapes_what_it_would_swallow():
    odd = Table("odd", "", ["a_b", "50 %"], [["x & y → z", "−1"]], [], [])
    assert "a\\_b & 50 \\% \\\\\n\\midrule\nx \\& y $\\to$ z & $-$1 \\\\" in to_latex(odd)


def test_nothing_in_a_latex_table_needs_more_than_ascii(laptop: Protocol):
    speed = Speed({"direct convolution": {"HitNet": [0.1], "CapsNet": [1.2]}}, 100, "abacus", 1)
    for found in [
        *all_tables(laptop, {}, EXPERIMENTS),
        claims_table(all_claims(laptop), laptop, {}),
        speed_table(speed),
    ]:
        assert to_latex(found).partition("\\begin")[2].isascii()


class Tags(HTMLParser):
    """Every opened tag is closed in order; addresses are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.addresses += [str(value) for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_holds_its_pictures_and_fetches_nothing(laptop: Protocol, tmp_path):
    write_bytes(tmp_path / "dot.png", b"\x89PNG")
    odd = Table("odd", "<b>", ["<i>"], [["<script>"]], ["a & b"], [])
    page = report(laptop, [*all_tables(laptop, {}, EXPERIMENTS), odd], [("“A” <caption>", tmp_path / "dot.png")], [])
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert all(address.startswith("data:image/png;base64,") for address in tags.addresses)
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "9 runs on abacus" in page, "the unfinished one is not counted"
    assert not re.search(r"https?://|url\(", page)


def test_speed_is_measured_by_both_paths_and_scaled_to_an_epoch(tmp_path):
    found = measure_speed(rounds=2, batch_size=4, width=16)
    assert {path: {name: len(times) for name, times in cases.items()} for path, cases in found.seconds.items()} == {
        path: {"HitNet": 2, "CapsNet": 2} for path in ("Winograd convolution", "direct convolution")
    }
    known = Speed({"direct convolution": {"HitNet": [0.1, 0.1], "CapsNet": [1.2, 1.2]}}, 100, "abacus", 3)
    assert speed_table(known).rows == [["direct convolution", "60 s", "720 s", "12.00 (12.00 to 12.00)", "≥ 10"]]
    assert speed_table(known).notes[0].startswith("on abacus, threads: 3, float32: medians of 2 steps of 100 images")
    assert speed_table(found).notes[0].startswith("encoders of 16 channels, not the paper's 256")
    assert list(speed_claims(found)) == [], "narrow networks say nothing about the paper's"
    assert [claim.conclusion for claim in speed_claims(known)] == ["holds"]
    write_json(tmp_path / "speed.json", vars(found))
    assert read_speed(tmp_path / "speed.json") == found
    write_json(tmp_path / "speed.json", {"rounds": 3})
    with pytest.raises(ValueError, match=r"speed.json holds no times .*; remove it"):
        read_speed(tmp_path / "speed.json")
    assert found.device
    assert found.threads == torch.get_num_threads()
