"""The finishing phase: drawings come back as what was drawn, nothing else of the network changes, and it resumes."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import hitnet
from hitnet.core.decoder import PictureDecoder
from hitnet.core.model import Model, create_model
from hitnet.data import ImageSet, load_dataset, to_float
from hitnet.training import finishing
from hitnet.training.finishing import (
    CENTRES,
    Critic,
    Finishing,
    _sieve,
    crisper_half,
    gather,
    random_deviations,
    shifted,
    typical_image,
)


@pytest.fixture(scope="module")
def digits_set() -> ImageSet:
    data = load_dataset("mnist-mini").train
    return data.subset(torch.arange(300))


@pytest.fixture
def model() -> Model:
    torch.manual_seed(0)
    return create_model("lenet5-hom", width=3, capsule_dim=4, decoder="picture").eval()


def weights(module: torch.nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


def test_only_the_decoder_changes(model: Model, digits_set: ImageSet):
    before = weights(model)
    phase = Finishing(model, digits_set, steps=25)  # the critic joins in at step 20
    while not phase.done:
        phase.step()
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name]), name
    finished = phase.finished_decoder()
    assert any(not torch.equal(value, before[f"decoder.{name}"]) for name, value in finished.state_dict().items())


@pytest.fixture(scope="module")
def trained(digits_set: ImageSet) -> Model:
    torch.manual_seed(0)
    model = create_model("lenet5-hom", capsule_dim=4, decoder="picture", norm_momentum=0.1).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    images, labels = to_float(digits_set.images), digits_set.labels
    for _ in range(40):
        loss = model.loss(model(images, labels), images, labels).total
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model.eval()


def test_read_back_brings_the_drawn_centres_nearer_to_what_was_drawn(trained: Model, digits_set: ImageSet, monkeypatch):
    def distance_after(weight: float) -> float:
        """Mean distance between the centres and what the network reads in their drawings."""
        monkeypatch.setattr(finishing, "READ_BACK", weight)
        monkeypatch.setattr(finishing, "TYPICAL", 0.0)  # a typical image is also read near the centre
        phase = Finishing(trained, digits_set, steps=60)
        while not phase.done:
            phase.step()
        drawn = phase.decoder.paint(torch.zeros(10, 4), torch.arange(10)).detach()
        return float(trained.scores(drawn).diagonal().mean())

    assert distance_after(0.3) < 0.7 * distance_after(0.0)


def test_a_phase_that_was_saved_resumes_to_the_same_weights(model: Model, digits_set: ImageSet, tmp_path: Path):
    whole = Finishing(model, digits_set, steps=26)
    while not whole.done:
        whole.step()
    stopped = Finishing(model, digits_set, steps=26)
    for _ in range(22):
        stopped.step()
    stopped.save(tmp_path / "phase.safetensors")
    stopped.step()  # lost with the kill
    resumed = Finishing(model, digits_set, steps=26)
    resumed.restore(tmp_path / "phase.safetensors")
    assert resumed.steps_done == 22
    while not resumed.done:
        resumed.step()
    expected = weights(whole.finished_decoder())
    for name, value in resumed.finished_decoder().state_dict().items():
        assert torch.equal(value, expected[name]), name


def test_a_network_with_another_decoder_gets_a_picture_decoder(digits_set: ImageSet):
    model = create_model("lenet5-hom", width=3, capsule_dim=4, decoder="standardised")
    phase = Finishing(model, digits_set, steps=1)
    phase.step()
    assert isinstance(phase.finished_decoder(), PictureDecoder)
    assert phase.finished_decoder()(torch.rand(2, 10, 4), torch.tensor([3, 7])).shape == (2, 1, 28, 28)


def test_sifting_equals_drawing_from_sifted_deviations():
    torch.manual_seed(0)
    decoder, sieves = PictureDecoder((1, 9, 6), 3, 5, 0.1).double(), torch.randn(3, 5, 5, dtype=torch.float64)
    deviations, classes = 0.01 * torch.randn(4, 5, dtype=torch.float64), torch.tensor([0, 2, 1, 2])
    expected = decoder.paint(torch.einsum("bij,bj->bi", sieves[classes], deviations), classes)
    decoder.sift(sieves)
    torch.testing.assert_close(decoder.paint(deviations, classes), expected, rtol=1e-3, atol=1e-6)


def test_the_typical_image_is_the_middle_of_the_nearest_ones_in_the_eyes_of_the_encoder(model, monkeypatch):
    degrees = torch.tensor([0, 6, 23, 29, 52, 80, 86], dtype=torch.uint8)
    monkeypatch.setattr(model, "features", lambda images: _on_a_circle(255 * images.mean((1, 2, 3))))
    data = ImageSet(degrees.view(-1, 1, 1, 1).expand(-1, 1, 28, 28), torch.zeros(7, dtype=torch.long))
    distances = torch.tensor([[3.0], [1], [2], [4], [5], [9], [8]])
    everything = torch.arange(7)
    assert typical_image(model, data, everything, distances, near=7) == 3
    assert typical_image(model, data, everything, distances, near=5) == 2
    assert typical_image(model, data, torch.tensor([6]), distances) == 6


def test_only_the_crisper_half_of_a_class_can_be_typical():
    contrasts = torch.tensor([5.0, 1, 4, 2, 3])
    images = contrasts.view(-1, 1, 1, 1) * torch.tensor([[0.0, 0.1], [0.1, 0.0]])
    assert crisper_half(images, torch.arange(5)).tolist() == [0, 2, 4]
    assert crisper_half(images, torch.tensor([1, 3])).tolist() == [1, 3], "neither of two is left out"
    assert crisper_half(images, torch.tensor([1])).tolist() == [1]


def _on_a_circle(degrees: torch.Tensor) -> torch.Tensor:
    angles = degrees.deg2rad()
    return torch.stack([angles.cos(), angles.sin()], dim=1)


def test_shifting_moves_the_picture_and_repeats_its_rim():
    picture = torch.arange(12.0).view(1, 1, 3, 4)
    expected = torch.tensor([[1.0, 2, 3, 3], [1, 2, 3, 3], [5, 6, 7, 7]])
    assert torch.equal(shifted(picture, 1, -1)[0, 0], expected)
    assert torch.equal(shifted(picture, 0, 0), picture)


@pytest.mark.parametrize("classes", [2, 10, 37])
def test_random_capsules_begin_with_centres_of_as_many_classes_as_there_are(classes: int):
    deviations, labels = random_deviations(64, classes, 16, torch.Generator().manual_seed(0))
    assert not deviations[:CENTRES].any()
    assert deviations[CENTRES:].any()
    assert len(set(labels[:CENTRES].tolist())) == min(classes, CENTRES)
    assert labels.min() >= 0
    assert labels.max() < classes


def test_directions_in_which_a_class_does_not_vary_are_damped():
    deviations = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0))
    deviations[:, 1] = 0.2
    sieve = _sieve(deviations)
    assert torch.allclose(sieve.diagonal(), torch.tensor([1 / 1.1, 0.0, 1 / 1.1]), atol=0.02)
    assert (sieve - torch.diag(sieve.diagonal())).abs().max() < 0.02


def test_every_class_has_a_sieve_of_its_own(model: Model, digits_set: ImageSet):
    material = gather(model, digits_set, flip=False, generator=torch.Generator().manual_seed(0))
    assert material.sieve.shape == (10, 4, 4)
    assert material.typical.shape == (10, 1, 28, 28)
    values = torch.linalg.eigvalsh(material.sieve.double())
    assert values.min() >= -1e-6
    assert values.max() < 1


@pytest.mark.parametrize(
    "shape", [(1, 28, 28), (3, 32, 32), (1, 5, 17), (3, 48, 64), (1, 8, 40), (1, 1, 8), (2, 160, 32), (1, 1, 1)]
)
def test_the_critic_takes_any_size(shape: tuple[int, int, int]):
    assert Critic(shape, 3)(torch.rand(2, *shape), torch.tensor([0, 2])).shape == (2,)


def test_no_steps_are_refused(model: Model, digits_set: ImageSet):
    with pytest.raises(ValueError, match="at least 1 step, got 0"):
        Finishing(model, digits_set, steps=0)


def test_pixels_do_not_outweigh_all_else_where_a_class_has_one_image(model: Model, digits_set: ImageSet):
    first = torch.tensor([int((digits_set.labels == index).nonzero()[0]) for index in range(10)])
    data = digits_set.subset(first)
    material = gather(model, data, flip=False, generator=torch.Generator().manual_seed(0))
    images = to_float(data.images)
    assert material.variation == pytest.approx(0.1 * float((images - images.mean(0)).square().mean()), rel=1e-5)


def test_a_class_without_images_is_not_drawn(model: Model, digits_set: ImageSet):
    phase = Finishing(model, digits_set.subset((digits_set.labels > 2).nonzero().squeeze(1)), steps=2)
    assert phase.material.present.tolist() == [3, 4, 5, 6, 7, 8, 9]
    drawn = []
    phase.decoder.paint = lambda *inputs: drawn.append(inputs[1]) or PictureDecoder.paint(phase.decoder, *inputs)
    while not phase.done:
        phase.step()
    assert min(int(classes.min()) for classes in drawn) == 3


def test_no_image_is_imitated_if_none_may_be(model: Model, digits_set: ImageSet):
    phase = Finishing(model, digits_set, steps=1, imitate=False)
    assert phase.material.typical is None
    phase.step()


def test_a_network_that_does_not_know_its_images_is_refused(digits_set: ImageSet):
    net = hitnet.with_hit_or_miss(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), capsule_dim=4)
    with pytest.raises(ValueError, match=r"does not know the size of its images; make it with image_shape="):
        Finishing(net, digits_set, steps=1)


def test_a_network_of_ones_own_gets_a_picture_decoder_and_stays_the_same_classifier(digits_set: ImageSet):
    backbone = nn.Sequential(nn.Flatten(), nn.Linear(784, 8), nn.ReLU(), nn.Linear(8, 10))
    net = hitnet.with_hit_or_miss(backbone, capsule_dim=4, image_shape=(1, 28, 28))
    images, labels = to_float(digits_set.images), digits_set.labels
    frozen = next(net.encoder.parameters()).requires_grad_(False)
    before = net.eval().scores(images)
    hitnet.finish(net.train(), images, labels, steps=2)
    assert net.training
    assert not frozen.requires_grad
    assert sum(not parameter.requires_grad for parameter in net.parameters()) == 1
    assert isinstance(net.decoder, PictureDecoder)
    assert net.config.decoder == "picture"
    assert torch.equal(net.eval().scores(images), before)
    assert hitnet.prototypes(net).shape == (10, 1, 28, 28)
    decoder = net.decoder
    hitnet.finish(net, images, labels, steps=1)
    assert net.decoder is decoder, "an optimizer may hold its weights"


def test_finishing_takes_images_as_the_network_does_and_a_stop_leaves_it_trainable(digits_set: ImageSet, monkeypatch):
    net = create_model("lenet5-hom", width=3, capsule_dim=4, decoder="picture").train()
    with pytest.raises(TypeError, match="images must be floating point in"):
        hitnet.finish(net, digits_set.images, digits_set.labels, steps=1)
    images = to_float(digits_set.images)
    with pytest.raises(ValueError, match="labels must have shape"):
        hitnet.finish(net, images, digits_set.labels[1:], steps=1)
    double = create_model("lenet5-hom", width=3, capsule_dim=4).double()
    with pytest.raises(
        ValueError, match=r"finished in float32, got a network in torch.float64; call its .float\(\) first"
    ):
        hitnet.finish(double, images.double(), digits_set.labels, steps=1)

    def stop(phase: Finishing) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(Finishing, "step", stop)
    with pytest.raises(KeyboardInterrupt):
        hitnet.finish(net, images, digits_set.labels, steps=1)
    assert net.training
    assert all(parameter.requires_grad for parameter in net.parameters())
