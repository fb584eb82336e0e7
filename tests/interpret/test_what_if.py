"""What would make it another class: the nearest picture of that class, and the way to it."""

import re

import pytest
import torch

import hitnet
from hitnet.core.model import Model, create_model
from hitnet.data import load_dataset, to_float
from hitnet.interpret.what_if import FIRST, FRAMES, LAST, STEPS, morph, nearest_capsules

DECODERS = ["paper", "standardised", "picture"]


def small(decoder: str, classes: int = 3, dims: int = 5, shape: tuple[int, int, int] = (1, 12, 12)) -> Model:
    torch.manual_seed(0)
    return create_model("lenet5-hom", shape, classes, dims, decoder=decoder, width=2).eval()


def some(model: Model, count: int) -> torch.Tensor:
    return torch.rand(count, *model.config.image_shape, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize(
    ("pixels", "nearest"),
    [
        ([0.5, 0.52, 0.5, 0.44], [0.5, 0.52, 0.5, 0.44]),  # inside the hit zone: the image itself
        ([1.0, 0.5, 0.5, 0.5], [0.6, 0.5, 0.5, 0.5]),  # outside: the rim in its direction
        ([0.0, 1.0, 0.5, 0.5], [0.5 - 0.0707, 0.5707, 0.5, 0.5]),
    ],
)
def test_the_nearest_picture_is_known_where_pixels_are_components(ladder, pixels, nearest):
    image = torch.zeros(1, 1, 4, 5)
    image.view(-1)[:4] = torch.tensor(pixels)
    found = nearest_capsules(ladder(), image, torch.tensor([0]))
    torch.testing.assert_close(found, torch.tensor([nearest]), atol=0.006, rtol=0)


@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize(("classes", "dims", "shape"), [(2, 2, (1, 12, 12)), (10, 16, (3, 12, 10))])
def test_every_capsule_found_lies_in_the_hit_zone(decoder, classes, dims, shape):
    model = small(decoder, classes, dims, shape)
    found = nearest_capsules(model, some(model, 4), torch.arange(4) % classes)
    assert found.shape == (4, dims)
    assert not found.requires_grad
    assert (found - 0.5).norm(dim=1).max() <= model.head.hit_radius + 1e-6


def test_style_starts_as_the_image_has_it_and_may_lie_outside_the_hit_zone():
    model = create_model("lenet5-hom", (1, 12, 12), 3, 5, decoder="picture", style_dim=4, width=2).eval()
    model.head.style.batch_norm.running_mean -= 10  # units: style far from the centre
    images, classes, radius = some(model, 4), torch.tensor([0, 1, 2, 0]), model.head.hit_radius
    found, own = nearest_capsules(model, images, classes), model.all_capsules(images)[range(4), classes]
    assert (own[:, 5:] - 0.5).norm(dim=1).min() > 4 * radius, "the style of these images is far out"
    assert (found[:, :5] - 0.5).norm(dim=1).max() <= radius + 1e-6
    all_steps = sum(FIRST * (LAST / FIRST) ** (step / (STEPS - 1)) for step in range(STEPS)) * radius
    assert (found[:, 5:] - own[:, 5:]).norm(dim=1).max() <= all_steps + 1e-6


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_batch_gives_what_its_images_give_one_by_one(decoder):
    model, classes = small(decoder), torch.tensor([2, 0, 1])
    images = some(model, 3)
    one_by_one = [nearest_capsules(model, images[i : i + 1], classes[i : i + 1])[0] for i in range(3)]
    torch.testing.assert_close(nearest_capsules(model, images, classes), torch.stack(one_by_one), atol=1e-4, rtol=0)


def test_the_same_question_gives_the_same_capsule_and_leaves_the_network_alone():
    model = small("standardised").train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    images, classes = some(model, 2), torch.tensor([0, 1])
    assert torch.equal(nearest_capsules(model, images, classes), nearest_capsules(model, images, classes))
    assert model.training
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("decoder", DECODERS)
def test_a_morph_begins_and_ends_with_the_two_drawings_and_blends_what_enters_the_decoder(decoder):
    model, classes = small(decoder), torch.tensor([2, 0])
    capsules = torch.rand(2, 5, generator=torch.Generator().manual_seed(2))
    frames = morph(model, capsules, classes, 5)
    torch.testing.assert_close(frames[[0, -1]], model.draw(capsules, classes))
    rows = torch.zeros(2, 3, 5)
    rows[0, 2], rows[1, 0] = capsules
    first, last = model.decoder.inputs(rows, classes)
    for step, frame in enumerate(frames):
        torch.testing.assert_close(frame, model.decoder.picture((first + (last - first) * step / 4)[None])[0])
    assert (frames[2] - (frames[0] + frames[-1]) / 2).abs().max() > 1e-5, "pictures were blended"


def test_drawings_of_a_trained_network_are_nearer_to_the_image_than_prototypes(run_folder):
    model = hitnet.load(run_folder)
    images = to_float(load_dataset("mnist-mini").test.images[:12])
    others = model.scores(images).argsort(dim=1)[:, 1]
    drawn = model.draw(nearest_capsules(model, images, others), others)
    away, prototypes_away = (
        (pictures - images).square().flatten(1).sum(1) for pictures in (drawn, hitnet.prototypes(model)[others])
    )
    assert (away < prototypes_away).all()


def test_an_explanation_says_what_would_make_it_the_next_best_class(ladder):
    image = torch.zeros(1, 4, 5)
    image.view(-1)[:4] = torch.tensor([0.5, 0.52, 0.5, 0.44])
    model = ladder()
    found = hitnet.explain(model, image)
    assert found.what_if.class_index == found.rival_index == 1
    assert len(found.what_if.frames) == FRAMES
    torch.testing.assert_close(found.what_if.frames[0], found.reconstruction)
    assert torch.equal(found.what_if.picture, model.draw(found.what_if.capsule[None], torch.tensor([1]))[0])
    torch.testing.assert_close(found.what_if.change, found.what_if.picture - found.reconstruction)
    # The encoder reads pixels as the capsule of class 0, so that a drawing is always read as class 0.
    assert found.what_if.read_as == 0
    assert found.what_if_words.startswith("The network does not read the nearest drawing as 1 but as 0 (distance 0.")
    assert found.to_json()["what_if"]["class"] == "1"
    asked_back = hitnet.explain(model, torch.zeros(1, 4, 5), rival=0)  # read as 2, and class 0 reads its own drawings
    assert asked_back.what_if.read_as == 0
    assert re.fullmatch(r"The network reads the nearest drawing as 0 \(distance 0\.\d+\)\.", asked_back.what_if_words)


def test_another_class_can_be_asked_for(ladder):
    found = hitnet.explain(ladder(), torch.full((1, 4, 5), 0.5), rival=2)
    assert (found.class_index, found.rival_index, found.what_if.class_index) == (0, 1, 2)


def test_asked_for_the_predicted_class_it_answers_for_the_next_best(ladder):
    found = hitnet.explain(ladder(), torch.full((1, 4, 5), 0.5), rival=0)
    assert (found.class_index, found.what_if.class_index) == (0, 1)


@pytest.mark.parametrize("rival", [3, -1])
def test_a_class_that_does_not_exist_is_refused(ladder, rival):
    with pytest.raises(ValueError, match=f"rival must lie in 0..2, got {rival}; give the index of a class"):
        hitnet.explain(ladder(), torch.full((1, 4, 5), 0.5), rival=rival)


def test_a_network_without_a_hit_zone_has_no_answer(small_model):
    image = torch.rand(1, 28, 28)
    found = hitnet.explain(small_model("n2"), image)
    assert found.what_if is None
    assert "what_if" not in found.to_json()
    with pytest.raises(ValueError, match="n2 has no hit zone"):
        hitnet.explain(small_model("n2"), image, rival=1)
