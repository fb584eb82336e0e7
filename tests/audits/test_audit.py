"""An audit from beginning to end: what it finds, what it writes, what it leaves alone, how it goes on."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pytest
import torch
from support.audits import WRONG, audited
from support.tiny import snapshot

import hitnet
from hitnet.audits.audit import Listener, audit_data
from hitnet.audits.networks import EpochAnswers, _seconds_left
from hitnet.console import show_audit
from hitnet.core.checkpoint import read_tensors
from hitnet.data import ImageSet
from hitnet.data.corrections import Correction, read_corrections, write_corrections
from hitnet.data.folds import pool
from hitnet.files import write_json
from hitnet.interpret.label_quality import KIND_WORDS
from hitnet.runs.audit_folder import AuditFolder
from hitnet.runs.reopen import load_data
from hitnet.runs.train import resume
from hitnet.settings import TrainConfig
from hitnet.training.evaluation import all_scores
from hitnet.training.loop import Job
from hitnet.training.watchers import Row, Watcher

__all__ = ["audited"]  # a fixture


def wrong_files(folder: AuditFolder) -> set[str]:
    return {issue.path for issue in folder.read_issues() if int(Path(issue.path).stem) < WRONG}


def test_the_wrong_labels_are_the_worst_suspects_and_the_right_class_is_suggested(audited: Path):
    folder = AuditFolder(audited)
    issues = folder.read_issues()
    assert len(issues) == 90
    assert {issue.path for issue in issues[:WRONG]} == wrong_files(folder)
    assert all(issue.given_label != issue.predicted_label for issue in issues[:WRONG])
    assert [issue.label_score for issue in issues] == sorted(issue.label_score for issue in issues)


def test_the_table_has_cleanlabs_columns_and_agrees_with_the_summary(audited: Path):
    table = pandas.read_csv(audited / "issues.csv")
    assert {"is_label_issue", "label_score", "given_label", "predicted_label"} <= set(table.columns)
    summary = AuditFolder(audited).read_summary()
    counted = table["kind"].value_counts().to_dict()
    assert summary["kinds"] == {kind: counted.get(kind, 0) for kind in summary["kinds"]}
    assert (table["is_label_issue"] == (table["kind"] == "wrong label")).all()


def test_the_table_comes_back_as_it_was_written_whatever_the_names(audited: Path, tmp_path: Path):
    issue = AuditFolder(audited).read_issues()[0]
    names = ["carriage\rreturn.png", "line\nbreak.png", 'a,b "c".png', "\r", "not-utf8-\udcff.png"]
    issues = [replace(issue, path=name, given_label=name) for name in names]
    folder = AuditFolder(tmp_path)
    folder.write_issues(issues)
    folder.summary_file.write_text("{}")
    assert folder.read_issues() == issues


def test_the_terminal_says_what_kinds_mean_and_never_that_it_took_no_time(audited: Path, tmp_path: Path, capsys):
    copied = AuditFolder(Path(shutil.copytree(audited, tmp_path / "audit")))
    write_json(copied.summary_file, copied.read_summary() | {"seconds": 0.2})
    show_audit(copied)
    printed = capsys.readouterr().out
    assert "2 folds, 1 s" in printed
    assert all(words in printed for words in KIND_WORDS.values())
    assert KIND_WORDS["wrong label"] in (audited / "index.html").read_text()


def test_long_names_leave_room_for_the_rest_of_the_table(audited: Path, tmp_path: Path, capsys):
    copied = AuditFolder(Path(shutil.copytree(audited, tmp_path / "audit")))
    issue = replace(copied.read_issues()[0], given_label="g" * 200 + "END", path="p" * 200 + "/7.png")
    copied.write_issues([issue])
    show_audit(copied)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if "END" in line)
    assert len(line) < 200
    assert "/7.png" in line
    assert issue.kind in line


@pytest.mark.parametrize(("epochs", "seconds"), [((0, 0), None), ((3, 1), 20.0), ((4, 4), None)])
def test_the_time_left_is_known_after_the_first_epoch_and_until_the_last(epochs: tuple[int, int], seconds):
    trial = SimpleNamespace(settings=SimpleNamespace(epochs=4))
    assert _seconds_left([SimpleNamespace(trial=trial, epochs=done, began=0) for done in epochs], 20.0) == seconds


def test_the_page_fetches_nothing_and_escapes_every_name(audited: Path):
    page = (audited / "index.html").read_text()
    assert "<b onload" not in page
    assert not re.search(r'(?:src|href)="(?!data:|#)', page)


def test_the_same_call_again_trains_nothing_and_changes_nothing(audited: Path):
    before = snapshot(audited)
    summary = AuditFolder(audited).read_summary()
    run = AuditFolder(audited).networks()[0].read_settings()
    config = TrainConfig(
        **{name: getattr(run, name) for name in ("data", "model", "width", "epochs", "batch_size", "learning_rate")},
        out=audited,
        threads=1,
    )
    audit_data(config, folds=2)
    assert snapshot(audited) == before
    assert AuditFolder(audited).read_summary() == summary


def test_other_settings_or_other_labels_in_the_same_folder_are_refused(audited: Path, tmp_path: Path):
    copied = Path(shutil.copytree(audited.parent, tmp_path / "copy"))
    run = AuditFolder(copied / "audit").networks()[0].read_settings()
    config = TrainConfig(
        **{name: getattr(run, name) for name in ("data", "model", "width", "epochs", "batch_size", "learning_rate")},
        out=copied / "audit",
    )
    with pytest.raises(ValueError, match="was made with epochs 12, expected 3"):
        audit_data(replace(config, epochs=3), folds=2)


def test_an_audit_of_arrays_gives_a_row_per_image_in_their_order(squares: Path, no_pictures, tmp_path: Path):
    with np.load(squares) as file:
        images, labels = file["x_train"], file["y_train"]
    labels[:3] = (labels[:3] + 1) % 3
    options = {"model": "lenet5-hom", "width": 3, "epochs": 8, "batch_size": 16, "threads": 1, "learning_rate": 0.004}
    table = hitnet.audit(images, labels, out=tmp_path / "audit", **options)
    assert isinstance(table, pandas.DataFrame)
    assert table["given_label"].astype(int).tolist() == labels.tolist()
    assert set(table["label_score"].nsmallest(3).index) == {0, 1, 2}


def test_labels_come_back_as_they_were_given(squares: Path, no_pictures, tmp_path: Path):
    with np.load(squares) as file:
        images, labels = file["x_train"], 10 * file["y_train"]
    options = {"model": "lenet5-hom", "width": 3, "epochs": 1, "batch_size": 16, "threads": 1, "decoder": "none"}
    given = pandas.Series(labels, index=[f"image {number}" for number in range(len(labels))])
    table = hitnet.audit(images, given, **options)
    assert table["given_label"].equals(given.rename("given_label"))
    assert set(table["predicted_label"]) <= {0, 10, 20}
    assert table["duplicate_set"].dtype == "Int64"


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_an_image_without_a_label_is_refused(missing, squares: Path, tmp_path: Path):
    with np.load(squares) as file:
        images, labels = file["x_train"], file["y_train"].astype(object)
    labels[4] = missing
    with pytest.raises(ValueError, match=f"every image must have a label, got {missing} for image 4; leave it out"):
        hitnet.audit(images, labels, out=tmp_path / "audit")
    assert not (tmp_path / "audit").exists()


def test_an_audit_of_another_source_in_the_same_folder_is_refused(settings, squares, no_pictures, tmp_path: Path):
    folder = audit_data(settings(out=tmp_path / "audit", epochs=1, decoder="none"))
    write_corrections(folder.corrections_file, [Correction("train/0", "keep")])
    before, other = snapshot(folder.path), shutil.copy(squares, tmp_path / "other.npz")
    with pytest.raises(ValueError, match=r"holds an audit of .*squares.npz, got .*other.npz; choose another --out"):
        audit_data(settings(data=str(other), out=tmp_path / "audit", epochs=1, decoder="none"))
    assert snapshot(folder.path) == before


def test_an_audit_with_another_seed_in_the_same_folder_has_answers_of_its_own(settings, no_pictures, tmp_path):
    def worst(out: str, seed: int) -> bytes:
        config = settings(out=tmp_path / out, seed=seed, epochs=1, decoder="none")
        return audit_data(config).issues_file.read_bytes()

    first, second = worst("same", 0), worst("same", 1)
    assert worst("same", 0) == first
    assert worst("alone", 1) == second != first


def test_a_killed_audit_goes_on_to_the_same_answers(squares: Path, no_pictures, tmp_path: Path, monkeypatch):
    config = TrainConfig(data=str(squares), model="lenet5-hom", width=3, epochs=4, batch_size=32, threads=1)
    whole = audit_data(replace(config, out=tmp_path / "whole"))
    usual, calls = EpochAnswers._add, []

    def killed(self: EpochAnswers) -> None:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt  # the epoch is saved, its answers are not
        usual(self)

    monkeypatch.setattr(EpochAnswers, "_add", killed)
    with pytest.raises(KeyboardInterrupt, match="the same command resumes"):
        audit_data(replace(config, out=tmp_path / "part"))
    part = audit_data(replace(config, out=tmp_path / "part"))
    assert part.issues_file.read_bytes() == whole.issues_file.read_bytes()


class Recorder(Watcher):
    """Asks every epoch, as the audit does; stops the training after `last` epochs."""

    def __init__(self, images: ImageSet, last: int) -> None:
        self.images, self.last, self.said = images, last, []

    def started(self, job: Job) -> None:
        self.job = job

    def epoch_ended(self, row: Row) -> None:
        self.said.append(all_scores(self.job.state.kept_model, self.images))
        if row["epoch"] == self.last:
            raise KeyboardInterrupt


def test_an_audit_asks_only_the_first_epochs_also_after_a_stop(settings, no_pictures, tmp_path: Path, monkeypatch):
    monkeypatch.setattr("hitnet.audits.networks.EPOCHS_ASKED", 2)
    config = settings(out=tmp_path / "audit", epochs=4, decoder="none")
    listener = Listener()
    listener.watcher = recorder = Recorder(pool(load_data(config.resolve())).images, last=3)
    with pytest.raises(KeyboardInterrupt):
        audit_data(config, listener=listener)
    tensors, _ = read_tensors(audit_data(config).distances_file)
    assert len(recorder.said) == 3
    assert torch.allclose(tensors["distances"], (recorder.said[0] + recorder.said[1]) / 2)


@pytest.mark.parametrize("epochs", [3, 4])
def test_a_network_that_was_trained_on_without_being_asked_is_refused(epochs, settings, no_pictures, tmp_path: Path):
    config = settings(out=tmp_path / "audit", epochs=4, decoder="none")
    listener = Listener()
    listener.watcher = Recorder(pool(load_data(config.resolve())).images, last=1)
    with pytest.raises(KeyboardInterrupt):
        audit_data(config, listener=listener)
    [run] = (tmp_path / "audit" / "runs").glob("*/*")
    stop = Recorder(listener.watcher.images, last=epochs)
    with pytest.raises(KeyboardInterrupt):
        resume(run, watcher=stop)
    if epochs == 4:
        resume(run)
    with pytest.raises(
        ValueError, match="was trained without being asked after each epoch; remove it, and audit again"
    ):
        audit_data(config)


def test_an_audit_without_corrections_forgets_those_of_the_one_before(settings, no_pictures, tmp_path: Path):
    write_corrections(tmp_path / "first.csv", [Correction("train/0", "relabel", "1", "0")])
    config = settings(out=tmp_path / "audit", epochs=1, decoder="none")
    assert audit_data(replace(config, corrections=tmp_path / "first.csv"), folds=2).former_file.exists()
    assert not audit_data(config).former_file.exists()


def test_training_with_corrections_learns_the_corrected_labels(audited: Path, tmp_path: Path, no_pictures):
    folder = AuditFolder(audited)
    worst = folder.read_issues()[:WRONG]
    changes = [Correction(issue.path, "relabel", issue.predicted_label, issue.given_label) for issue in worst]
    write_corrections(tmp_path / "corrections.csv", changes)
    config = TrainConfig(data=folder.networks()[0].read_settings().data, model="lenet5-hom", width=3, epochs=1)
    run = hitnet.train(replace(config, corrections=tmp_path / "corrections.csv", out=tmp_path / "runs", threads=1))
    assert f"{WRONG} labels corrected" in " ".join(run.read_result()["notes"])


def test_images_that_corrections_leave_out_have_no_row(squares: Path, no_pictures, tmp_path: Path):
    with np.load(squares) as file:
        images, labels = file["x_train"], file["y_train"]
    write_corrections(tmp_path / "decided.csv", [Correction("train/1", "leave out")])
    options = {"model": "lenet5-hom", "width": 3, "epochs": 1, "batch_size": 16, "threads": 1, "decoder": "none"}
    named = pandas.Series(labels, index=[f"image {number}" for number in range(len(labels))])
    for given, expected in ((labels, list(range(len(labels)))), (named, list(named.index))):
        table = hitnet.audit(images, given, corrections=tmp_path / "decided.csv", **options)
        assert table.index.tolist() == [expected[0], *expected[2:]]
        assert table["given_label"].tolist() == [labels[0], *labels[2:]]


@pytest.mark.parametrize("folds", [1, 2])
def test_uneven_classes_are_shown_equally_often_as_in_training(settings, no_pictures, tmp_path: Path, folds: int):
    random = np.random.default_rng(0)
    labels = np.array([0] * 60 + [1] * 8)
    np.savez(tmp_path / "uneven.npz", x_train=random.integers(0, 255, (68, 28, 28), dtype=np.uint8), y_train=labels)
    options = {"data": str(tmp_path / "uneven.npz"), "model": "hitnet-fast", "width": 4, "epochs": 1, "decoder": "none"}
    trained = hitnet.train(settings(**options, finishing=0.0))
    audit = audit_data(settings(**options, finishing=0.0, out=tmp_path / "audit"), folds=folds)
    assert [run.read_settings().balance for run in (trained, *audit.networks())] == [True] * (1 + folds)


def test_an_audit_with_corrections_hands_them_on_as_they_were(settings, no_pictures, tmp_path: Path):
    """The second round's file alone corrects the original data."""
    before = [Correction("train/0", "relabel", "1", "0"), Correction("train/4", "leave out", "", "1")]
    write_corrections(tmp_path / "first.csv", before)
    config = settings(out=tmp_path / "second", corrections=tmp_path / "first.csv", epochs=1, decoder="none")
    folder = audit_data(config)
    assert read_corrections(folder.corrections_file) == before
    write_corrections(folder.corrections_file, before[:1])
    audit_data(config)
    assert read_corrections(folder.corrections_file) == before[:1]
    assert read_corrections(folder.former_file) == before


def test_an_audit_that_is_killed_while_it_writes_does_not_count_as_finished(audited: Path, tmp_path: Path, monkeypatch):
    copied = AuditFolder(Path(shutil.copytree(audited, tmp_path / "audit")))
    monkeypatch.setattr(AuditFolder, "write_issues", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    run = copied.networks()[0].read_settings()
    names = ("data", "model", "width", "epochs", "batch_size", "learning_rate")
    with pytest.raises(KeyboardInterrupt):
        audit_data(TrainConfig(**{name: getattr(run, name) for name in names}, out=copied.path, threads=1), folds=2)
    assert not copied.is_finished


def test_other_images_in_the_same_folder_are_refused_before_anything_is_written(squares, no_pictures, tmp_path: Path):
    with np.load(squares) as file:
        images, labels = file["x_train"], file["y_train"]
    options = {"model": "lenet5-hom", "width": 3, "epochs": 1, "threads": 1, "decoder": "none", "out": tmp_path / "a"}
    hitnet.audit(images, labels, **options)
    before = snapshot(tmp_path / "a")
    with pytest.raises(ValueError, match="must hold these images and labels, got others; choose another out"):
        hitnet.audit(255 - images, labels, **options)
    assert snapshot(tmp_path / "a") == before
    hitnet.audit(images, labels, **options)
    assert snapshot(tmp_path / "a") == before


@pytest.mark.parametrize(
    ("count", "options", "error"),
    [
        (96, {"epochs": -1}, ValueError),
        (96, {"epoch": 1}, TypeError),
        (96, {"folds": 0}, ValueError),
        (8, {}, ValueError),
    ],
)
def test_a_refused_audit_of_arrays_leaves_no_folder_behind(count, options, error, squares: Path, tmp_path: Path):
    with np.load(squares) as file, pytest.raises(error):
        hitnet.audit(file["x_train"][:count], file["y_train"][:count], out=tmp_path / "audit", **options)
    assert not (tmp_path / "audit").exists()


@pytest.mark.parametrize("out", [".", "audit", "cat/audit"])
def test_an_audit_inside_the_folder_of_pictures_is_refused_and_writes_nothing(out: str, tmp_path: Path, monkeypatch):
    for name in ("cat", "dog"):
        (tmp_path / "pictures" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "pictures")
    with pytest.raises(ValueError, match="outside the folder of pictures, got .*; choose another place with --out"):
        audit_data(TrainConfig(data=".", out=Path(out)))
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "pictures", *(tmp_path / "pictures" / n for n in ("cat", "dog"))]


@pytest.mark.parametrize(
    ("options", "wishes", "message"),
    [
        ({}, {"folds": 0}, "folds must be at least 1"),
        ({}, {"workers": 0}, "workers must be at least 1"),
        ({}, {"workers": 2}, "workers must be at most folds, .* got 2 for 1; try --folds 2"),
        ({"fold": "1/3"}, {}, "an audit makes its own folds"),
        ({"model": "n1"}, {}, "n1 has no Hit-or-Miss layer"),
    ],
)
def test_what_cannot_be_audited_is_refused(options, wishes, message: str, squares: Path, tmp_path: Path):
    with pytest.raises(ValueError, match=message):
        audit_data(TrainConfig(data=str(squares), out=tmp_path / "a", **options), **wishes)
    assert not (tmp_path / "a").exists()


SCRIPT = """
import numpy as np
import hitnet

with np.load({squares!r}) as file:
    images, labels = file["x_train"], file["y_train"]
options = dict(model="lenet5-hom", width=3, epochs=1, batch_size=32, threads=1, decoder="none")
print(len(hitnet.audit(images, labels, folds=2, workers={workers}, **options)), "rows")
"""


@pytest.mark.parametrize(("workers", "code", "words"), [(1, 0, "96 rows"), (2, 1, 'if __name__ == "__main__":')])
def test_a_script_without_a_guard_audits_in_its_own_process_and_else_hears_of_the_guard(
    workers: int, code: int, words: str, squares: Path, tmp_path: Path
):
    (tmp_path / "script.py").write_text(SCRIPT.format(squares=str(squares), workers=workers))
    environment = {**os.environ, "PYTHONPATH": str(Path(hitnet.__file__).parent.parent)}
    command = [sys.executable, str(tmp_path / "script.py")]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    last_words = (ended.stdout + ended.stderr).splitlines()[-1]
    assert (ended.returncode, words in last_words) == (code, True), ended.stderr
