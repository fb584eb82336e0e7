"""Figures: every kind, from two classes to a hundred, grey and in colour."""

import pytest
import torch
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

import hitnet
from hitnet.core.model import Model, create_model
from hitnet.data import ImageSet, to_float
from hitnet.interpret import figures
from hitnet.interpret.exemplars import Exemplars, choose_exemplars
from hitnet.interpret.figures.canvas import shortened, tile
from hitnet.interpret.quality import quality

SIZES = [(1, 2, 2), (3, 2, 16), (1, 10, 16), (3, 10, 64), (3, 100, 2)]


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: "{} channels, {} classes, {} dims".format(*size))
def model(request: pytest.FixtureRequest) -> Model:
    channels, classes, dims = request.param
    names = tuple(f"class {index}" if index % 2 else f"one with a long name {index}" for index in range(classes))
    return create_model("lenet5-hom", (channels, 12, 12), classes, dims, width=2, class_names=names).eval()


def check(figure: Figure, widest: float = 30, tallest: float = 30) -> Figure:
    width, height = figure.get_size_inches()
    assert 2 < width <= widest
    assert 1 < height <= tallest
    FigureCanvasAgg(figure).draw()
    return figure


def row_names(figure: Figure) -> list[str]:
    """What stands on the left of each row of sweeps."""
    return [text.get_text() for axes in figure.axes for text in axes.texts if text.get_ha() == "right"]


def assert_shows(axes: Axes, image: torch.Tensor) -> None:
    """The picture, or the upper left one of its tiles, is this image: (channels, height, width)."""
    _, height, width = image.shape
    shown = torch.as_tensor(axes.images[0].get_array())[:height, :width]
    torch.testing.assert_close(shown.float(), image.permute(1, 2, 0).expand(-1, -1, 3))


def some_images(model: Model) -> tuple[torch.Tensor, torch.Tensor]:
    classes = model.head.num_classes
    images = torch.rand(2 * classes, *model.config.image_shape, generator=torch.Generator().manual_seed(0))
    return images, torch.arange(classes).repeat(2)


def real_pictures(model: Model) -> Exemplars:
    images, labels = some_images(model)
    return choose_exemplars(model, ImageSet((255 * images).byte(), labels))


def white_or(real: Exemplars, place: torch.Tensor) -> torch.Tensor:
    """The picture at a place, or white at −1."""
    return torch.ones(real.pictures.shape[1:]) if place < 0 else to_float(real.pictures[place])


def test_every_class_has_its_prototype_and_every_component_its_row(model):
    images, labels = some_images(model)
    names, pictures = [shortened(name) for name in model.config.class_names], hitnet.prototypes(model)
    grid = check(figures.image_grid(pictures, model.config.class_names, "prototypes"))
    assert [axes.get_title() for axes in grid.axes] == names
    for axes, picture in zip(grid.axes, pictures, strict=True):
        assert_shows(axes, picture)
    found = quality(model, images, labels, samples_per_class=1)
    page = check(figures.class_page(model, 1, found))
    assert [name.split()[0] for name in row_names(page)] == [f"c{feature}" for feature in found.by_importance]
    assert_shows(page.axes[0], hitnet.deformations(model, 1, found.by_importance[0])[0])
    real = real_pictures(model)
    page = check(figures.class_page(model, 1, found, real))
    assert [name.split()[0] for name in row_names(page)] == [f"c{feature}" for feature in found.by_importance]
    assert_shows(page.axes[0], hitnet.deformations(model, 1, found.by_importance[0])[0])
    assert_shows(page.axes[1], white_or(real, real.ends[1, found.by_importance[0], 0, 0]))
    assert_shows(page.axes[2], white_or(real, real.ends[1, found.by_importance[0], 1, 0]))
    assert_shows(page.axes[-2], hitnet.prototypes(model)[1])
    assert_shows(page.axes[-1], white_or(real, real.typical[1, 0]))
    sweep = check(figures.component_sweep(model, 1))
    assert row_names(sweep) == names
    assert_shows(sweep.axes[0], hitnet.deformations(model, 0, 1)[0])


def test_a_card_shows_the_image_and_where_every_class_landed(model):
    images, _ = some_images(model)
    card = check(figures.decision_card(hitnet.explain(model, images[0])))
    assert_shows(card.axes[0], images[0])
    landed = [line for line in card.axes[-1].lines if line.get_marker() == "o"]
    assert len(landed) == model.head.num_classes


def test_a_card_shows_what_would_make_it_another_class(model):
    found = hitnet.explain(model, some_images(model)[0][0])
    pictures = check(figures.decision_card(found)).axes[4:]
    for axes, frame in zip(pictures, found.what_if.frames, strict=False):
        assert_shows(axes, frame)
    change = torch.as_tensor(pictures[len(found.what_if.frames)].images[0].get_array())
    torch.testing.assert_close(change, found.what_if.change.mean(0))


def test_the_class_that_is_asked_for_has_one_colour_on_the_whole_card():
    net = create_model("lenet5-hom", (1, 12, 12), 10, 16, width=2).eval()
    image = torch.rand(1, 12, 12, generator=torch.Generator().manual_seed(0))
    asked = hitnet.explain(net, image).ranking[-1]
    texts = figures.decision_card(hitnet.explain(net, image, rival=asked)).findobj(Text)
    shown = [text for text in texts if text.get_text().startswith((f"{asked}\n", f"nearest “{asked}”"))]
    assert [text.get_color() for text in shown] == [figures.ORANGE] * 2


def test_every_component_has_its_histogram_with_its_mean(model):
    statistics = hitnet.component_statistics(model, *some_images(model))
    figure = check(figures.component_histograms(statistics, "components"))
    titles = [axes.get_title() for axes in figure.axes if axes.get_visible()]
    means = statistics.mean.mean(0).tolist()  # all classes have two images
    assert [title.split(" ±")[0] for title in titles] == [f"c{i}   {mean:.3f}" for i, mean in enumerate(means)]


def test_a_preview_begins_with_the_reconstruction_and_with_the_image(model):
    image = some_images(model)[0][0]
    augment = hitnet.HybridAugmentation(model)
    drawn, detailed = check(figures.hybrid_preview(augment, image, 0, torch.Generator().manual_seed(0))).axes
    assert_shows(drawn, model(image.unsqueeze(0), torch.tensor([0])).reconstruction[0].detach())
    assert_shows(detailed, image)


def test_confusion_matrices_stay_of_a_size_that_can_be_looked_at(model):
    classes = model.head.num_classes
    check(figures.confusion_matrix(torch.eye(classes).long(), model.config.class_names, "mistakes"))


@pytest.mark.parametrize("name", ["n2", "n2b", "capsnet"])
def test_a_card_without_hit_zone_has_bars(small_model, name):
    found = hitnet.explain(small_model(name), torch.rand(1, 28, 28))
    card = check(figures.decision_card(found))
    assert_shows(card.axes[4], found.rival_prototype)
    (bars,) = card.axes[-1].containers
    assert [bar.get_width() for bar in bars] == pytest.approx(sorted(found.scores, reverse=True))


def test_no_two_texts_of_a_card_overlap(model):
    figure = figures.decision_card(hitnet.explain(model, some_images(model)[0][0]))
    assert_texts_are_apart(figure)


def test_no_two_texts_of_a_page_overlap(model):
    assert_texts_are_apart(figures.class_page(model, 0))
    assert_texts_are_apart(figures.class_page(model, 0, exemplars=real_pictures(model)))
    assert_texts_are_apart(figures.image_grid(hitnet.prototypes(model), model.config.class_names, "prototypes"))


def assert_texts_are_apart(figure: Figure) -> None:
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    texts = [*figure.texts, *(text for axes in figure.axes for text in (axes.title, *axes.texts))]
    texts = [text for text in texts if text.get_text().strip()]
    boxes = [text.get_window_extent(renderer).padded(-1) for text in texts]
    for index, box in enumerate(boxes):
        for other in range(index):
            assert not box.overlaps(boxes[other]), (texts[index].get_text(), texts[other].get_text())


def test_the_loss_figure_draws_the_papers_staircase():
    figure = figures.loss_surfaces()
    check(figure)
    true_class, other = figure.axes[2].lines
    distances = torch.as_tensor(true_class.get_xdata())
    torch.testing.assert_close(torch.as_tensor(true_class.get_ydata()), hitnet.staircase(distances))
    away = 0.5 * hitnet.staircase(2**0.5 / 2 - distances, margin=2**0.5 / 2 - 0.6)
    torch.testing.assert_close(torch.as_tensor(other.get_ydata()), away)


def test_the_evolution_is_a_gif_with_a_frame_an_epoch(tmp_path, ladder):
    pictures = hitnet.prototypes(ladder())
    evolution = [(f"epoch {epoch}", pictures * epoch / 3) for epoch in (1, 2, 3)]
    with Image.open(figures.save_evolution(evolution, ("a", "b", "c"), "film", tmp_path / "film.gif")) as film:
        assert film.n_frames == 3


def test_names_with_dollars_are_words_and_not_mathematics(tmp_path, ladder):
    names = ("$10_$20", "$x^$", "$5")  # the first two are no mathematics that could be drawn
    matrix = figures.confusion_matrix(torch.eye(3).long(), names, "mistakes")
    drawn = figures.save(matrix, tmp_path / "matrix.svg").read_text()
    assert all(f"<!-- {name} -->" in drawn for name in names)
    pictures = hitnet.prototypes(ladder())
    figures.save(figures.image_grid(pictures, names, "prices"), tmp_path / "grid.png")
    figures.save_evolution([("epoch 1", pictures)], names, "prices", tmp_path / "film.gif")


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_figure_gives_the_same_file(tmp_path, ladder, suffix):
    paths = [figures.save(figures.class_page(ladder(), 0), tmp_path / f"{number}{suffix}") for number in (1, 2)]
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_tiles_lie_where_they_belong_with_white_between():
    images = torch.zeros(2, 3, 1, 2, 2)
    images[1, 2] = 0.5
    canvas = tile(images, gap=1)
    assert canvas.shape == (5, 8, 3)
    assert (canvas[3:, 6:] == 0.5).all()
    assert (canvas[2] == 1).all()
    assert not canvas[:2, :2].any()


def test_long_names_are_shortened():
    assert shortened("seven") == "seven"
    assert shortened("a rather long name", 10) == "a rather …"


def test_error_curves_show_the_mean_of_the_runs_and_a_band_of_one_deviation():
    figure = figures.errors_by_epoch({"MNIST": {"N1": [[4.0, 2.0, 1.0], [6.0, 4.0, 3.0]], "HitNet": [[3.0, 0.5]]}})
    check(figure)
    (axes,) = figure.axes
    assert [list(line.get_ydata()) for line in axes.lines] == [[5, 3, 2], [3, 0.5]]
    (band,) = axes.collections
    edges = band.get_paths()[0].vertices[:, 1]
    # The deviation of two runs that differ by 2 is √2.
    assert (edges.min(), edges.max()) == (pytest.approx(2 - 2**0.5), pytest.approx(5 + 2**0.5))
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["N1 (2)", "HitNet (1)"]


def test_pairs_of_error_curves_share_a_colour():
    figure = figures.errors_by_epoch({"": {name: [[1.0, 0.0]] for name in "abcd"}}, in_pairs=True)
    lines = figure.axes[0].lines
    assert [line.get_color() for line in lines] == ["C0", "C0", "C1", "C1"]
    assert [line.get_linestyle() for line in lines] == ["--", "-"] * 2
