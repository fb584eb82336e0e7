"""The run folder. `result.json` is written last: if it exists, the run is finished."""

import csv
import io
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hitnet.core.checkpoint import CONFIG, WEIGHTS
from hitnet.core.model import MODEL_FOLDER, Model, load
from hitnet.files import is_leftover, new_folder, read_json, read_record, write_json, write_text
from hitnet.settings import RunSettings, read_run_settings
from hitnet.training.watchers import Row


@dataclass(frozen=True)
class Run:
    """One training run on disk. Only this class knows where its records, model and folders are.

    args.json             the settings
    env.json              versions, hardware, git, data
    corrections.csv       a copy of the corrections, with --corrections
    metrics.csv           one line per epoch
    model/                config.json, model.safetensors
    state.safetensors     what resuming needs; removed when the run is finished
    finishing.safetensors the same for the finishing phase
    features/             what a frozen encoder saw, with --freeze; removed likewise
    plots/                pictures; inputs.png shows real ones, not with --no-exemplars
    snapshots/            the decoder after each epoch, with --snapshots
    tensorboard/          curves and more, with --track
    result.json           test error, time and quality of the finished run
    calibration.json      which answers are rejected, written by `hitnet calibrate`
    component-names.json  names that people gave to components
    eval-DATA.json        what `hitnet eval` measured; its mistakes are in eval-DATA-mistakes.csv, and real pictures of
                          them in eval-DATA-mistakes.png, not with --no-exemplars
    explanations/         what `hitnet explain` wrote
    exemplars.safetensors real training pictures to show beside drawn ones; not with --no-exemplars
    epochs.safetensors    with `hitnet audit`: what the first epochs said of each picture
    """

    path: Path

    @property
    def settings_file(self) -> Path:
        return self.path / "args.json"

    @property
    def environment_file(self) -> Path:
        return self.path / "env.json"

    @property
    def corrections_file(self) -> Path:
        return self.path / "corrections.csv"

    @property
    def metrics_file(self) -> Path:
        return self.path / "metrics.csv"

    @property
    def model_folder(self) -> Path:
        return self.path / MODEL_FOLDER

    @property
    def config_file(self) -> Path:
        return self.model_folder / CONFIG

    @property
    def weights_file(self) -> Path:
        return self.model_folder / WEIGHTS

    @property
    def state_file(self) -> Path:
        return self.path / "state.safetensors"

    @property
    def finishing_file(self) -> Path:
        return self.path / "finishing.safetensors"

    @property
    def features_folder(self) -> Path:
        return self.path / "features"

    @property
    def plots_folder(self) -> Path:
        return self.path / "plots"

    @property
    def inputs_file(self) -> Path:
        return self.plots_folder / "inputs.png"

    @property
    def snapshots_folder(self) -> Path:
        return self.path / "snapshots"

    @property
    def tensorboard_folder(self) -> Path:
        return self.path / "tensorboard"

    @property
    def result_file(self) -> Path:
        return self.path / "result.json"

    @property
    def calibration_file(self) -> Path:
        return self.path / "calibration.json"

    @property
    def component_names_file(self) -> Path:
        return self.path / "component-names.json"

    @property
    def exemplars_file(self) -> Path:
        return self.path / "exemplars.safetensors"

    @property
    def epochs_file(self) -> Path:
        return self.path / "epochs.safetensors"

    @property
    def explanations_folder(self) -> Path:
        return self.path / "explanations"

    def evaluation_file(self, data: str) -> Path:
        return self.path / f"eval-{data}.json"

    @property
    def records(self) -> tuple[Path, ...]:
        """The files that document a run, without its weights and pictures."""
        return self.settings_file, self.environment_file, self.metrics_file, self.result_file

    @classmethod
    def named(cls, settings: RunSettings, data_name: str) -> "Run":
        """The folder for a run with these settings."""
        fold = "" if settings.fold is None else f"-fold-{settings.fold.replace('/', '-of-')}"
        return cls(settings.out / data_name / f"{settings.model.replace('/', '-')}-s{settings.seed}{fold}")

    @classmethod
    def open(cls, path: str | Path) -> "Run":
        """An existing run, finished or not."""
        run = cls(Path(path))
        if not run.exists:
            raise FileNotFoundError(f"there is no run in {run.path}: expected args.json; `hitnet runs` lists the runs")
        return run

    @classmethod
    def around(cls, source: Path) -> "Run":
        """The folder for what is made from a run or a model: the folder itself, or the one that holds the file.

        Of the model in a run, the run: `hitnet finish` replaces the model's folder.
        """
        folder = source if source.is_dir() else source.parent
        around = cls(folder.resolve().parent)
        return around if around.exists and folder.resolve() == around.model_folder else cls(folder)

    def create(self, settings: RunSettings, environment: dict[str, Any], *, overwrite: bool = False) -> None:
        """Make the folder with its first two files; an existing one is only replaced on request."""
        if not overwrite and self.path.is_dir() and any(self.path.iterdir()):
            status = "finished" if self.is_finished else f"unfinished: resume it with {self.resume_command}"
            what = f"a run ({status})" if self.exists else "something that is not a run"
            raise FileExistsError(
                f"there is already {what} in {self.path}; "
                "choose another --seed or --out, or replace it with --overwrite"
            )
        with new_folder(self.path, replace=True) as folder:
            write_json(Run(folder).environment_file, environment)
            if settings.corrections is not None:
                shutil.copyfile(settings.corrections, Run(folder).corrections_file)
            write_json(Run(folder).settings_file, settings.to_json())

    @property
    def exists(self) -> bool:
        return self.settings_file.is_file()

    @property
    def is_finished(self) -> bool:
        return self.result_file.exists()

    @property
    def resume_command(self) -> str:
        """The command that resumes this run."""
        return f"hitnet train --resume {shlex.quote(str(self.path))}"

    def check_same(self, fingerprints: dict[str, str]) -> None:
        """Refuse to continue with a data set or teacher that changed since the run began."""
        environment = self.read_environment()
        for what, now in fingerprints.items():
            if (before := environment.get(what)) != now:
                raise ValueError(
                    f"the {what} of {self.path} changed since it began (fingerprint {before}, now {now}); "
                    f"restore the former {what}, or start a new run"
                )

    def read_settings(self) -> RunSettings:
        return read_run_settings(self.settings_file)

    def read_own_settings(self) -> RunSettings:
        """With the run's copy of its corrections: where they came from, more may have been decided since."""
        settings = self.read_settings()
        return replace(settings, corrections=self.corrections_file) if self.corrections_file.is_file() else settings

    def read_environment(self) -> dict[str, Any]:
        return read_json(self.environment_file)

    def read_result(self) -> dict[str, Any]:
        if not self.is_finished:
            raise ValueError(f"{self.path} is not finished; resume it with: {self.resume_command}")
        return read_json(self.result_file)

    def read_metrics(self) -> list[Row]:
        """One row per epoch; empty until the first has ended."""
        if not self.metrics_file.is_file():
            return []
        try:
            rows = csv.DictReader(io.StringIO(read_record(self.metrics_file).decode(), newline=""))
            return [{name: float(value) for name, value in row.items() if value} for row in rows]
        except (
            csv.Error,
            TypeError,
            ValueError,
        ) as error:  # TypeError: a line is too long
            raise ValueError(f"{self.metrics_file} must hold one line of numbers per epoch ({error})") from None

    def write_metrics(self, rows: list[Row]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        write_text(self.metrics_file, text.getvalue())

    def load_model(self) -> Model:
        return load(self.path)

    def remove_state(self) -> None:
        """Delete what resuming needs: the run is finished, and so are its drawings."""
        self.remove_training_state()
        self.finishing_file.unlink(missing_ok=True)

    def remove_training_state(self) -> None:
        """Delete what resuming the training needs, but not a stopped `hitnet finish`."""
        self.state_file.unlink(missing_ok=True)
        shutil.rmtree(self.features_folder, ignore_errors=True)


def find_runs(folder: Path) -> list[Run]:
    """All runs below a folder, oldest first."""
    files = [file for file in folder.rglob(Run(folder).settings_file.name) if file.is_file()]
    files.sort(key=lambda file: file.stat().st_mtime)
    return [Run(file.parent) for file in files if not is_leftover(file.parent)]


def finished_neighbours(run: Run, most: int) -> Iterator[Run]:
    """The finished runs that share a runs folder with this one, by name; nothing else on the disk is searched."""
    pattern = f"*/[!.]*/{run.result_file.name}"
    for file in sorted(run.path.resolve().parent.parent.glob(pattern))[:most]:
        yield Run(file.parent)
