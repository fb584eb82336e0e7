"""Models to share: a folder with a card, and the hub behind a stub of its network."""

import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import create_autospec

import huggingface_hub
import pytest
import torch
from huggingface_hub import ModelCard
from PIL import Image

import hitnet
from hitnet import errors
from hitnet.files import write_json
from hitnet.runs.calibrate import Answers, Rejection, read_rejection
from hitnet.runs.train import train
from hitnet.settings import TrainConfig


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which hitnet-fast was trained on a few digits: runs/mnist-mini/hitnet-fast-s0."""
    folder = tmp_path_factory.mktemp("home")
    options = {
        "model": "hitnet-fast",
        "width": 4,
        "capsule_dim": 2,
        "epochs": 1,
        "train_images": 100,
        "finishing": 0,
        "threads": 1,
    }
    train(TrainConfig(out=folder / "runs", **options))
    return folder


@pytest.fixture
def run(home: Path) -> Path:
    return home / "runs" / "mnist-mini" / "hitnet-fast-s0"


class FakeHub:
    """The hub's side of the network: repositories are folders."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, []

    def api(self, token: str | None = None) -> SimpleNamespace:
        return SimpleNamespace(
            create_repo=self.create_repo,
            upload_folder=self.upload_folder,
            file_exists=lambda repo_id, name, revision: (self.root / repo_id / name).is_file(),
            hf_hub_download=lambda repo_id, name, revision: str(self.root / repo_id / name),
        )

    def create_repo(self, repo_id: str, **options: object) -> SimpleNamespace:
        self.calls.append(("create_repo", repo_id, options))
        (self.root / repo_id).mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(repo_id=repo_id)

    def upload_folder(self, *, repo_id: str, folder_path: Path, **options: object) -> SimpleNamespace:
        self.calls.append(("upload_folder", repo_id, options))
        ignored = shutil.ignore_patterns(*(options["ignore_patterns"] or ()))
        shutil.copytree(folder_path, self.root / repo_id, dirs_exist_ok=True, ignore=ignored)
        return SimpleNamespace(commit_url=f"https://huggingface.co/{repo_id}/commit/1")

    def snapshot_download(self, repo_id: str, *, allow_patterns: list[str], **options: object) -> str:
        self.calls.append(("snapshot_download", repo_id, options))
        if not (self.root / repo_id).is_dir():
            raise OSError("404 Client Error: repository not found\nlong story")
        snapshot = self.root / "cache" / repo_id
        snapshot.mkdir(parents=True, exist_ok=True)
        for name in allow_patterns:
            shutil.copy(self.root / repo_id / name, snapshot)
        return str(snapshot)


@pytest.fixture
def fake_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    fake = FakeHub(tmp_path / "hub")
    monkeypatch.setattr(huggingface_hub, "HfApi", fake.api)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", fake.snapshot_download)
    return fake


def same(first: hitnet.core.model.Model, second: hitnet.core.model.Model) -> bool:
    weights = second.state_dict()
    return first.config == second.config and all(weights[name].equal(w) for name, w in first.state_dict().items())


def test_a_folder_comes_back_as_the_same_model_with_a_card_and_a_picture(run: Path, tmp_path: Path):
    folder = hitnet.save_pretrained(run, tmp_path / "digits")
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["README.md", "config.json", "model.safetensors", "prototypes.png"]
    loaded = hitnet.from_pretrained(folder)
    assert same(loaded, hitnet.load(run))
    assert not loaded.training
    with Image.open(folder / "prototypes.png") as picture:
        assert picture.width > 400
    card = (folder / "README.md").read_text()
    assert "![The prototype of each class](prototypes.png)" in card
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9" in card


def test_the_hub_reads_the_test_error_from_the_card(run: Path, tmp_path: Path):
    card = ModelCard.load(hitnet.save_pretrained(run, tmp_path / "digits") / "README.md")
    assert (card.data.library_name, card.data.pipeline_tag) == ("hitnet", "image-classification")
    (found,) = card.data.eval_results
    test = hitnet.runs.run.Run(run).read_result()["test"]
    assert found.metric_type == "accuracy"
    assert found.metric_value == pytest.approx(1 - test["mistakes"] / test["images"])
    assert found.dataset_name == "mnist-mini"
    assert f"| test error | {test['error']:.2f} % ({test['mistakes']} of 1,000 images) |" in card.text


def test_a_bare_model_has_a_card_without_metrics_and_odd_names_stay_text(tmp_path: Path):
    model = hitnet.create_model("n1", (3, 32, 32), 3, width=8, class_names=("a|b", "<script>", "[old]\nfox"))
    folder = hitnet.save_pretrained(model, tmp_path / "n1")
    card = ModelCard.load(folder / "README.md")
    assert card.data.eval_results is None
    assert r"a\|b, \<script\>, \[old\] fox" in card.text
    assert not (folder / "prototypes.png").exists()
    assert same(hitnet.from_pretrained(str(folder)), model)


@pytest.mark.parametrize(
    ("name", "options", "tags"),
    [
        ("lenet5-hom", {}, ["hitnet", "hit-or-miss", "capsule-network", "prototypes", "interpretability"]),
        ("lenet5-hom", {"decoder": "none"}, ["hitnet", "hit-or-miss", "capsule-network"]),
        ("n2", {"width": 8}, ["hitnet", "capsule-network"]),
        ("n1", {"width": 8}, ["hitnet"]),
        ("lenet5", {}, ["hitnet"]),
    ],
)
def test_a_card_promises_only_what_the_network_has(name: str, options: dict, tags: list[str], tmp_path: Path):
    hitnet.save_pretrained(hitnet.create_model(name, **options), tmp_path)
    assert ModelCard.load(tmp_path / "README.md").data.tags == tags
    assert (tmp_path / "prototypes.png").exists() == ("prototypes" in tags)


def test_the_picture_of_a_former_network_goes(run: Path, tmp_path: Path):
    hitnet.save_pretrained(run, tmp_path)
    assert (tmp_path / "prototypes.png").exists()
    hitnet.save_pretrained(hitnet.create_model("n1", width=8), tmp_path)
    assert not (tmp_path / "prototypes.png").exists()


def test_a_rejection_threshold_travels_with_its_network_and_with_no_other(run: Path, tmp_path: Path, hitnet_says):
    calibrated = Path(shutil.copytree(run, tmp_path / "run"))
    counts = Answers(images=1200, answered=900, mistakes=3)
    found = Rejection(0.0625, 0.02, 0.95, validation=counts, test=counts, test_bound=0.01)
    write_json(calibrated / "calibration.json", asdict(found))

    folder = hitnet.save_pretrained(calibrated, tmp_path / "digits")
    promise = (
        "outlier score up to 0.0625; at most 2 % of such answers are wrong (95 % confidence, 1,200 validation images)"
    )
    assert f"| answers to accept | {promise} |" in (folder / "README.md").read_text()
    again = hitnet.save_pretrained(folder, tmp_path / "again")
    assert read_rejection(folder) == read_rejection(again) == found
    Image.new("L", (28, 28)).save(tmp_path / "black.png")
    assert "an outlier score up to 0.0625" in hitnet_says("predict", again, tmp_path / "black.png")

    hitnet.save_pretrained(run, again)
    assert not (again / "calibration.json").exists()
    assert "answers to accept" not in (again / "README.md").read_text()


def test_radii_travel_with_the_model_and_its_card_tells_them(tmp_path: Path):
    model = hitnet.create_model("lenet5-hom", num_classes=3)
    assert "| verdicts | not calibrated |" in (hitnet.save_pretrained(model, tmp_path / "a") / "README.md").read_text()
    model.config = replace(model.config, radii=(0.25, 0.25, 0.31), coverage=0.99, calibrated_on=1800)
    folder = hitnet.save_pretrained(model, tmp_path / "b")
    told = "the true class lies within 0.25 to 0.31 of the centre, by class, for 99 % of new images (1,800 held-out"
    assert told in (folder / "README.md").read_text()
    assert hitnet.from_pretrained(folder).config.radii == (0.25, 0.25, 0.31)


def test_the_example_of_the_card_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    hitnet.save_pretrained(hitnet.create_model("lenet5-hom", (3, 20, 24)), tmp_path / "owner" / "name")
    monkeypatch.chdir(tmp_path)
    exec((tmp_path / "owner" / "name" / "README.md").read_text().split("```")[1].removeprefix("python"), {})


def test_a_card_of_ones_own_stays(tmp_path: Path):
    (tmp_path / "README.md").write_text("mine")
    hitnet.save_pretrained(hitnet.create_model("lenet5-hom"), tmp_path)
    assert (tmp_path / "README.md").read_text() == "mine"


def test_a_generated_card_tells_of_the_model_that_is_there(run: Path, tmp_path: Path):
    hitnet.save_pretrained(run, tmp_path)
    hitnet.save_pretrained(hitnet.create_model("lenet5-hom"), tmp_path)
    card = ModelCard.load(tmp_path / "README.md")
    assert "# lenet5-hom" in card.text
    assert card.data.eval_results is None
    assert "0, 1, 2" in card.text


def test_a_shared_folder_goes_to_the_hub_with_its_card(run: Path, tmp_path: Path, fake_hub: FakeHub):
    folder = hitnet.save_pretrained(run, tmp_path / "digits")
    generated = (folder / "README.md").read_text()
    hitnet.push_to_hub(folder, "me/digits")
    assert (fake_hub.root / "me/digits/README.md").read_text() == generated.replace("owner/name", "me/digits")
    assert "| test error |" in generated
    assert (folder / "README.md").read_text() == generated
    (folder / "README.md").write_text('mine, as from_pretrained("owner/name")')
    hitnet.push_to_hub(folder, "me/digits")
    assert (fake_hub.root / "me/digits/README.md").read_text() == 'mine, as from_pretrained("owner/name")'


def test_a_readme_of_somebodys_own_stays_on_the_hub(run: Path, fake_hub: FakeHub):
    hitnet.push_to_hub(run, "me/digits")
    card = fake_hub.root / "me/digits/README.md"
    card.write_text("My own words.")
    hitnet.push_to_hub(run, "me/digits")
    assert card.read_text() == "My own words."
    assert same(hitnet.from_pretrained("me/digits"), hitnet.load(run))


def test_a_model_goes_to_the_hub_and_comes_back(run: Path, fake_hub: FakeHub):
    address = hitnet.push_to_hub(run, "me/digits", private=True, commit_message="first", branch="dev", create_pr=True)
    assert address == "https://huggingface.co/me/digits/commit/1"
    assert fake_hub.calls == [
        ("create_repo", "me/digits", {"private": True, "exist_ok": True}),
        (
            "upload_folder",
            "me/digits",
            {
                "commit_message": "first",
                "revision": "dev",
                "create_pr": True,
                "ignore_patterns": None,
                "delete_patterns": ["prototypes.png", "calibration.json"],
            },
        ),
    ]
    loaded = hitnet.from_pretrained("me/digits", revision="v1", local_files_only=True)
    assert same(loaded, hitnet.load(run))
    assert fake_hub.calls[-1][2]["revision"] == "v1"
    assert fake_hub.calls[-1][2]["local_files_only"] is True


def test_the_calls_to_the_hub_are_those_the_library_knows(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    api = create_autospec(huggingface_hub.HfApi, instance=True)
    api.create_repo.return_value = SimpleNamespace(repo_id="me/digits")
    (tmp_path / "README.md").write_text("My own words.")
    api.hf_hub_download.return_value = str(tmp_path / "README.md")
    monkeypatch.setattr(huggingface_hub, "HfApi", lambda token: api)
    hitnet.push_to_hub(run, "me/digits")
    api.upload_folder.assert_called_once()
    assert api.upload_folder.call_args.kwargs["ignore_patterns"] == ["README.md"]
    download = create_autospec(huggingface_hub.snapshot_download, return_value=str(run))
    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    assert same(hitnet.from_pretrained("me/digits"), hitnet.load(run))


def test_what_cannot_be_saved_makes_no_repository(fake_hub: FakeHub):
    own = hitnet.with_hit_or_miss(torch.nn.Linear(4, 2), num_classes=2)
    with pytest.raises(ValueError, match=r"your own Linear cannot be rebuilt by name.*state_dict\(\)"):
        hitnet.push_to_hub(own, "me/own")
    assert fake_hub.calls == []


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "me/nothing",
            r"me/nothing is not a folder and cannot be loaded from the hub \(404 Client Error.*not found\);",
        ),
        (
            "runs/mnist/hitnet-s0",
            "there is no folder runs/mnist/hitnet-s0, and it is not the name of a model on the hub",
        ),
        ("../me", "there is no folder"),
    ],
)
def test_a_model_that_is_nowhere_is_answered_with_the_remedy(fake_hub: FakeHub, name: str, message: str):
    with pytest.raises(FileNotFoundError, match=message):
        hitnet.from_pretrained(name)


def test_somebody_elses_model_is_refused(tmp_path: Path):
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"], "hidden_size": 8}')
    with pytest.raises(
        ValueError, match="config.json does not hold a valid ModelConfig: unknown fields architectures, hidden_size"
    ):
        hitnet.from_pretrained(tmp_path)


def test_a_missing_library_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(errors, "find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match=r"needs huggingface_hub; install: pip install 'hitnet\[hub\]'"):
        hitnet.from_pretrained("me/digits")


def test_importing_hitnet_and_its_folders_needs_no_hub_library():
    code = "import sys, hitnet; hitnet.save_pretrained; assert 'huggingface_hub' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_examples_of_the_page_run(home: Path, run: Path, fake_hub: FakeHub, run_examples):
    names = run_examples("docs/hub.md", home)
    assert same(names["net"], hitnet.load(run))
    assert names["address"].startswith("https://huggingface.co/me/digits")
