"""The progress of an audit, and what it found."""

import shlex

from hitnet.audits.audit import Listener
from hitnet.console.experiments import ExperimentsView
from hitnet.console.printing import add_row, duration, new_table, say, show
from hitnet.console.training import TrainingView
from hitnet.data import Dataset
from hitnet.experiments.runner import Progress
from hitnet.interpret.label_quality import KIND_WORDS
from hitnet.runs.audit_folder import AuditFolder

SUSPECTS = 10  # pictures that are listed after an audit


class AuditView(Listener):
    """The progress of the networks of an audit; that of a single one is shown like any training."""

    def __init__(self) -> None:
        self.watcher = self.training = TrainingView()
        self.experiments = ExperimentsView()
        self.notes: tuple[str, ...] = ()  # on the data, not yet said; the training of a single network says them

    def __enter__(self) -> "AuditView":
        return self

    def __exit__(self, *error: object) -> None:
        self.training.__exit__(*error)
        self.experiments.__exit__(*error)

    def opened(self, data: Dataset, images: int) -> None:
        say(f"auditing {data.name}: {images:,} images in {data.num_classes} classes")
        self.notes = data.notes

    def changed(self, all_progress: list[Progress], seconds_left: float | None) -> None:
        for note in self.notes:
            say(f"note: {note}")
        self.notes = ()
        self.experiments.changed(all_progress, seconds_left)

    def looking(self) -> None:
        self.__exit__()
        say("looking for duplicates and writing the findings")


def show_audit(folder: AuditFolder) -> None:
    """How many pictures of each kind there are, and what to do next."""
    summary = folder.read_summary()
    kinds, copies = summary["kinds"], summary["duplicates"]
    took = duration(max(1, summary["seconds"]))
    title = f"{summary['images']:,} images of {summary['data']}, {summary['way']}, {took} of training"
    table = new_table(["kind", "images", ""], "lrl", title)
    for kind, meaning in KIND_WORDS.items():
        add_row(table, kind, f"{kinds[kind]:,}", meaning)
    sorts = f"{copies['in_different_classes']} across classes, {copies['across_splits']} across splits"
    add_row(table, "duplicates", f"{copies['images']:,}", f"in {copies['sets']} sets, {copies['exact']} exact; {sorts}")
    show(table)
    worst = folder.read_issues()[:SUSPECTS]
    table = new_table(["most suspicious", "given", "suggested", "quality", "kind"], "lllrl")
    for issue in worst:
        names = (_cut(name, 24) for name in (issue.given_label, issue.predicted_label))
        add_row(table, _cut(issue.path, 60), *names, f"{issue.label_score:.4f}", issue.kind)
    show(table)
    say(f"look:   {folder.page_file}")
    say(f"decide: hitnet explore {shlex.quote(str(folder.path))}")


def _cut(name: str, most: int) -> str:
    """A long name without its middle, so that the table fits the terminal."""
    return name if len(name) <= most else f"{name[: most // 2]}…{name[most // 2 + 1 - most :]}"
