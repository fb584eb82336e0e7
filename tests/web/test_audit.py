"""An audit in the browser: its page of findings, and the view that decides: keys, restarts, windows, hostile names."""

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from playwright.sync_api import Page, expect
from starlette.testclient import TestClient
from support.audits import audited, write_folder
from support.browser import NewPage, wait_until
from support.explorer_runs import serving

from hitnet.audits.audit import audit_data
from hitnet.data.corrections import Correction, read_corrections, write_corrections
from hitnet.data.folds import pool
from hitnet.runs.audit_folder import AuditFolder
from hitnet.runs.reopen import load_data
from hitnet.web.audit import Audit
from hitnet.web.explorer import Explorer
from hitnet.web.server import create_app

__all__ = ["audited"]  # a fixture


@pytest.fixture
def audit(audited: Path, tmp_path: Path) -> Path:
    """A copy that a test may decide about; the pictures stay where they are."""
    return Path(shutil.copytree(audited, tmp_path / "audit"))


def decided(audit: Path) -> list[tuple[str, str]]:
    path = audit / "corrections.csv"
    return [(each.action, each.label) for each in read_corrections(path)] if path.is_file() else []


def open_audit(new_page: NewPage, url: str) -> Page:
    page = new_page(f"{url}/#audit?show=all")
    expect(page.locator("#audit .suspect")).to_be_visible()
    return page


def paths(audit: Path) -> list[str]:
    return [issue.path for issue in AuditFolder(audit).read_issues()]


def press(page: Page, key: str, audit: Path, count: int) -> None:
    page.keyboard.press(key)
    wait_until(page, lambda: f"{count} decided" in page.inner_text(".audit-place"))
    assert len(decided(audit)) == count


def test_the_page_of_findings_shows_the_worst_first_and_filters_them_from_disk(audited: Path, new_page: NewPage):
    issues = AuditFolder(audited).read_issues()
    page = new_page((audited / "index.html").as_uri(), offline=True)
    expect(page.locator(".lede")).to_have_text(
        "90 pictures, judged by networks that were not trained on them (2 folds)."
    )
    suspects = page.locator(".suspects .suspect")
    shown = [each.get_attribute("data-path") for each in suspects.all()]
    assert shown == [issue.path for issue in issues][: len(shown)]
    page.select_option(".by-given", label=issues[0].given_label)
    page.select_option(".by-kind", "wrong label")
    expected = [issue.path for issue in issues if issue.is_label_issue and issue.given_label == issues[0].given_label]
    expect(suspects).to_have_count(len(expected))
    assert [each.get_attribute("data-path") for each in suspects.all()] == expected
    assert page.eval_on_selector_all("img", "all => all.every((image) => image.src.startsWith('data:'))")


def test_the_page_of_an_audit_with_one_network_says_what_judged(
    settings, no_pictures, new_page: NewPage, tmp_path: Path
):
    folder = audit_data(settings(out=tmp_path / "audit", epochs=1, decoder="none"))
    page = new_page((folder.path / "index.html").as_uri(), offline=True)
    expect(page.locator(".lede")).to_contain_text("judged by what one network said of them in its first epochs")


def test_keys_decide_undo_and_survive_a_restart(audit: Path, new_page: NewPage):
    with serving(Explorer(audit)) as url:
        page = open_audit(new_page, url)
        suggested = page.inner_text(".suggested-name")
        press(page, "s", audit, 1)
        press(page, "k", audit, 2)
        press(page, "x", audit, 3)
        assert decided(audit) == [("relabel", suggested), ("keep", ""), ("leave out", "")]
        press(page, "u", audit, 2)
        expect(page.locator(".audit-place")).to_contain_text("3 of 90")
        page.select_option(".other-class", index=1)
        expect(page.locator(".audit-place")).to_contain_text("3 decided")
        assert decided(audit)[-1][0] == "relabel"
        page.keyboard.press("ArrowLeft")
        expect(page.locator(".decision-words")).to_contain_text("Relabelled as")
    with serving(Explorer(audit)) as url:
        page = open_audit(new_page, url)
        expect(page.locator(".decision-words")).to_have_text(f"Relabelled as {suggested}")
        press(page, "u", audit, 2)


def test_a_letter_after_a_closed_list_is_a_key_and_not_a_choice_in_the_list(audit: Path, new_page: NewPage):
    with serving(Explorer(audit)) as url:
        page = open_audit(new_page, url)
        page.keyboard.press("r")
        page.keyboard.press("Escape")
        press(page, "x", audit, 1)
        page.locator(".other-class").focus()
        page.keyboard.press("s" if page.inner_text(".given-name") != page.inner_text(".suggested-name") else "k")
        expect(page.locator(".audit-place")).to_contain_text("2 decided")
        page.locator(".audit-show").focus()
        press(page, "x", audit, 3)
        assert [action for action, _ in decided(audit)][::2] == ["leave out", "leave out"]
        expect(page.locator('.audit-show option[value="decided"]')).to_have_text("decided (3)")


def test_an_arrow_opens_the_list_of_classes_instead_of_deciding(audit: Path, new_page: NewPage):
    with serving(Explorer(audit)) as url:
        page = open_audit(new_page, url)
        page.locator(".other-class").focus()
        page.keyboard.press("ArrowDown")
        page.wait_for_function("document.querySelector('.other-class').matches(':open')")
        assert decided(audit) == []
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        expect(page.locator(".audit-place")).to_contain_text("1 decided")


@pytest.fixture
def gone(audit: Path) -> Iterator[str]:
    """The second suspect, whose file is away while a test runs."""
    path = paths(audit)[1]
    file = Path(AuditFolder(audit).networks()[0].read_settings().data) / path
    file.rename(file.with_suffix(".away"))
    yield path
    file.with_suffix(".away").rename(file)


def test_a_picture_that_is_gone_can_be_decided_about_and_passed(audit: Path, gone: str, new_page: NewPage):
    with serving(Explorer(audit)) as url:
        page = open_audit(new_page, url)
        page.keyboard.press("ArrowRight")
        expect(page.locator(".suspect-words")).to_contain_text("does not exist")
        expect(page.locator(".suspect-picture")).to_be_hidden()
        press(page, "x", audit, 1)
        expect(page.locator(".audit-place")).to_contain_text("3 of 90")
        expect(page.locator(".suspect-picture")).to_be_visible()
        assert read_corrections(audit / "corrections.csv")[0].path == gone


def test_a_decision_of_an_old_window_is_about_the_picture_that_it_shows(audit: Path, new_page: NewPage):
    """The audit was made again meanwhile, and its order is another one."""
    with serving(Explorer(audit)) as url:
        page = open_audit(new_page, url)
        shown = page.inner_text(".suspect-path bdi")
    folder = AuditFolder(audit)
    folder.write_issues(folder.read_issues()[::-1])
    with serving(Explorer(audit), port=int(url.rsplit(":", 1)[1])):
        press(page, "x", audit, 1)
    assert [each.path for each in read_corrections(folder.corrections_file)] == [shown]


def test_copies_are_shown_set_by_set_and_named(client: TestClient, audit: Path):
    folder = AuditFolder(audit)
    issues = folder.read_issues()
    for number, places in enumerate([(3, 40), (7, 20, 60)]):
        for place in places:
            issues[place] = replace(issues[place], duplicate_set=number)
    folder.write_issues(issues)
    opened = Audit(folder)
    assert opened.describe()["counts"]["copies"] == 5
    seen = [opened.suspect("copies", place) for place in range(5)]
    assert [each["index"] for each in seen] == [3, 40, 7, 20, 60]
    assert seen[2]["copies"] == [issues[20].path, issues[60].path]
    assert opened.suspect("all", 0)["copies"] == []


def test_the_network_sees_a_picture_as_in_training_however_it_was_fitted(settings, no_pictures, tmp_path: Path):
    for name, colour in (("red", 40), ("green", 90)):
        (tmp_path / "pictures" / name).mkdir(parents=True)
        for number in range(6):
            pixels = np.random.default_rng(number).integers(0, colour, (20, 31, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pictures" / name / f"{number}.png")
    config = settings(data=str(tmp_path / "pictures"), out=tmp_path / "audit", epochs=1, image_size=16, fit="pad")
    opened = Audit(audit_data(config))
    everything = pool(load_data(config.resolve()))
    trained = dict(zip(everything.names, everything.images.images, strict=True))
    for issue in opened.issues:
        _, seen = opened._read_picture(issue, opened._file(issue))
        assert torch.equal(seen, trained[issue.path])


def test_an_audit_that_is_not_finished_says_so(audit: Path):
    (audit / "summary.json").unlink()
    with pytest.raises(FileNotFoundError, match="is not finished; the `hitnet audit` that began it goes on"):
        Explorer(audit)


def test_a_second_window_is_told(audit: Path, new_page: NewPage):
    with serving(Explorer(audit)) as url:
        first, second = open_audit(new_page, url), open_audit(new_page, url)
        press(first, "k", audit, 1)
        second.keyboard.press("x")
        expect(second.locator("#messages")).to_contain_text("Another window")
        expect(second.locator(".decision-words")).to_contain_text("Kept as")
        assert decided(audit) == [("keep", "")]
        second.keyboard.press("ArrowRight")
        expect(second.locator(".audit-place")).to_contain_text("2 of 90")
        press(second, "x", audit, 2)


@pytest.fixture
def client(audit: Path) -> TestClient:
    return TestClient(create_app(Explorer(audit)), base_url="http://127.0.0.1:8421", raise_server_exceptions=False)


def test_requests_that_do_not_fit_change_nothing(client: TestClient, audit: Path):
    good = {"path": paths(audit)[0], "action": "keep", "label": "", "version": "none"}
    for bad in (
        {"path": "nowhere/1.png"},
        {"path": "../../etc/passwd"},
        {"path": 0},
        {"action": "rm -rf"},
        {"action": "relabel", "label": "../x"},
    ):
        assert client.put("/api/audit/decide", json=good | bad).status_code == 400, bad
    assert client.put("/api/audit/decide", json=good | {"version": "old"}).status_code == 409
    assert client.put("/api/audit/undo", json={"version": "none"}).status_code == 400
    foreign = {"sec-fetch-site": "cross-site"}
    assert client.put("/api/audit/decide", json=good, headers=foreign).status_code == 403
    assert not (audit / "corrections.csv").exists()
    assert client.put("/api/audit/decide", json=good).status_code == 200


def test_a_file_of_decisions_that_cannot_be_read_is_not_overwritten(client: TestClient, audit: Path):
    (audit / "corrections.csv").write_text("path,action,label\nx,oops,\n")
    answer = client.get("/api/audit")
    assert answer.status_code == 400
    assert "line 2" in answer.json()["error"]
    assert (audit / "corrections.csv").read_text() == "path,action,label\nx,oops,\n"


@pytest.mark.parametrize(
    ("line", "words"),
    [("nowhere/1.png,keep,", "has no picture 'nowhere/1.png'"), ("{path},relabel,dgo", "no class 'dgo'")],
)
def test_a_hand_written_line_that_does_not_fit_is_named_and_not_counted(
    line: str, words: str, client: TestClient, audit: Path
):
    path = AuditFolder(audit).read_issues()[0].path.replace('"', '""')
    written = "path,action,label\n" + line.format(path=f'"{path}"') + "\n"
    (audit / "corrections.csv").write_text(written)
    version = hashlib.sha256(written.encode()).hexdigest()[:16]
    for answer in (client.get("/api/audit"), client.put("/api/audit/undo", json={"version": version})):
        assert answer.status_code == 400
        assert "line 2" in answer.json()["error"]
        assert words in answer.json()["error"]
    assert (audit / "corrections.csv").read_text() == written


def test_undo_after_a_decision_that_could_not_be_written_takes_back_the_one_before(
    client: TestClient, audit: Path, monkeypatch
):
    decide, [first, second, *_] = {"action": "keep", "label": ""}, paths(audit)
    version = client.put("/api/audit/decide", json={"path": first, "version": "none", **decide}).json()["version"]
    with monkeypatch.context() as full:
        full.setattr("hitnet.web.audit.write_corrections", lambda *_: (_ for _ in ()).throw(OSError("disk is full")))
        assert client.put("/api/audit/decide", json={"path": second, "version": version, **decide}).status_code >= 400
    answer = client.put("/api/audit/undo", json={"version": version}).json()
    assert (answer["index"], answer["decided"]) == (0, 0)


def test_deciding_keeps_the_columns_of_the_user(client: TestClient, audit: Path):
    first, second = AuditFolder(audit).read_issues()[:2]
    write_corrections(audit / "corrections.csv", [Correction(first.path, "keep", notes={"why": "clear"})])
    version = client.get("/api/audit").json()["version"]
    for issue in (first, second):
        wish = {"path": issue.path, "action": "leave out", "label": "", "version": version}
        version = client.put("/api/audit/decide", json=wish).json()["version"]
    read = {each.path: each for each in read_corrections(audit / "corrections.csv")}
    assert read[first.path].notes == {"why": "clear"}
    assert read[second.path].notes == {"why": ""}


def test_a_second_round_goes_on_from_the_first_and_its_file_is_enough(audit: Path):
    """Three pictures were corrected before this audit: relabelled twice, left out once."""
    issues = AuditFolder(audit).read_issues()
    given, other = issues[0].given_label, next(i.given_label for i in issues if i.given_label != issues[0].given_label)
    first, second = [issue.path for issue in issues if issue.given_label == given][:2]
    before = [Correction(first, "relabel", given, other), Correction(second, "relabel", given, other)]
    before.append(Correction("gone.png", "leave out", "", other))
    for name in ("former.csv", "corrections.csv"):
        write_corrections(audit / name, before)
    opened = Audit(AuditFolder(audit))
    assert opened.describe()["counts"]["decided"] == 2
    with pytest.raises(ValueError, match="nothing to undo"):
        opened.undo(opened.describe()["version"])
    version = opened.decide(first, "keep", "", opened.describe()["version"])["version"]
    version = opened.decide(second, "leave out", "", version)["version"]
    assert sorted(read_corrections(audit / "corrections.csv"), key=lambda each: each.path) == sorted(
        [before[0], Correction(second, "leave out", "", other), before[2]], key=lambda each: each.path
    )
    restarted = Audit(AuditFolder(audit))
    assert restarted.undo(version)["index"] == opened.places[second]
    assert before[1] in read_corrections(audit / "corrections.csv")


def test_a_table_that_names_files_elsewhere_shows_none(audit: Path):
    table = (audit / "issues.csv").read_text().splitlines()
    path = table[1].rpartition(".png")[0]
    (audit / "issues.csv").write_text(
        "\n".join([table[0], table[1].replace(path + ".png", "../squares.png", 1)]) + "\n"
    )
    client = TestClient(create_app(Explorer(audit)), base_url="http://127.0.0.1:8421", raise_server_exceptions=False)
    answer = client.get("/api/audit/one", params={"show": "all"})
    assert answer.status_code == 400
    assert "is not a picture in" in answer.json()["error"]


def test_pictures_that_are_links_are_shown(settings, no_pictures, tmp_path: Path):
    originals, links = write_folder(tmp_path / "originals"), tmp_path / "links"
    for file in originals.rglob("*.png"):
        link = links / file.relative_to(originals)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(file)
    folder = audit_data(settings(data=str(links), out=tmp_path / "audit", epochs=1, decoder="none"))
    shown = Audit(folder).suspect("all", 0)
    assert shown["missing"] is None
    assert shown["picture"]


def test_pictures_of_a_named_data_set_are_not_looked_for_in_a_folder_of_that_name(
    settings, no_pictures, tmp_path: Path, monkeypatch
):
    config = settings(data="mnist-mini", out=tmp_path / "audit", epochs=1, decoder="none", train_images=100)
    folder = audit_data(config, folds=2)
    (tmp_path / "mnist-mini").mkdir()
    monkeypatch.chdir(tmp_path)
    assert Audit(folder).suspect("all", 0)["picture"]


def test_images_that_changed_since_the_audit_are_not_shown_under_their_names(
    settings, squares: Path, no_pictures, tmp_path: Path
):
    folder = audit_data(settings(out=tmp_path / "audit", epochs=1, decoder="none"))
    with np.load(squares) as file:
        arrays = dict(file)
    np.savez(squares, **arrays | {"x_train": arrays["x_train"][::-1]})
    shown = Audit(folder).suspect("all", 0)
    assert shown["picture"] is None
    assert "changed since it began" in shown["missing"]


def test_an_audit_shows_its_images_although_its_corrections_were_changed_since(settings, no_pictures, tmp_path: Path):
    write_corrections(tmp_path / "decided.csv", [Correction("train/1", "leave out")])
    config = settings(out=tmp_path / "audit", corrections=tmp_path / "decided.csv", epochs=1, decoder="none")
    folder = audit_data(config)
    write_corrections(tmp_path / "decided.csv", [Correction(folder.read_issues()[0].path, "leave out")])
    assert Audit(folder).suspect("all", 0)["picture"]


def test_a_run_has_no_audit(run: Path):
    client = TestClient(create_app(Explorer(run)), base_url="http://127.0.0.1:8421")
    assert client.get("/api/audit").status_code == 404
