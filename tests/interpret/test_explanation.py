"""Explanations and verdicts."""

import json

import pytest
import torch

import hitnet


def test_an_explanation_says_what_the_weights_say(ladder):
    model = ladder(radii=(0.15, 0.1, 0.1), coverage=0.99)
    image = torch.zeros(1, 4, 5)
    # Component 1 lies 0.02 above the centre and component 3 0.06 below; class k's capsule lies 0.2 k further away.
    image.view(-1)[:4] = torch.tensor([0.5, 0.52, 0.5, 0.44])
    found = hitnet.explain(model, image)
    assert (found.class_index, found.rival_index, found.ranking) == (0, 1, [0, 1, 2])
    assert found.scores[0] == pytest.approx((0.02**2 + 0.06**2) ** 0.5, abs=1e-6)
    assert found.verdict == "sure"
    assert [deformation.component for deformation in found.deformations[:2]] == [3, 1]
    assert [deformation.units for deformation in found.deformations[:2]] == pytest.approx([-1.2, 0.4], abs=1e-4)
    assert [deformation.change for deformation in found.deformations[:2]] == pytest.approx([0.003, 0.001], abs=1e-6)
    assert torch.equal(found.prototype, hitnet.prototypes(model)[0])
    torch.testing.assert_close(found.reconstruction.view(-1)[:4], image.view(-1)[:4])
    torch.testing.assert_close(found.residual, image - found.reconstruction)
    alone = found.deformations[0].picture.view(-1)
    torch.testing.assert_close(alone[:4], torch.tensor([0.5, 0.5, 0.5, 0.44]))
    assert found.words == "0, sure (0.063 from its centre; usual for 0: up to 0.15); next is 1 at 0.190."


def test_the_answer_leads_and_the_verdict_follows(ladder):
    image = torch.full((1, 4, 5), 0.5)  # class k lies 0.2 k from its centre

    def words(*radii: float) -> str:
        return hitnet.explain(ladder(radii=radii, coverage=0.99), image).words

    assert words(0.1, 0.1, 0.1) == "0, sure (0.000 from its centre; usual for 0: up to 0.10); next is 1 at 0.200."
    usual = "0, ambiguous (0.000 from its centre; usual for 0: up to 0.30)"
    assert words(0.3, 0.3, 0.3) == f"{usual}: 1 (0.200) is within the usual distance too."
    assert words(0.3, 0.3, 0.5) == f"{usual}: 1 (0.200) and 1 more are within the usual distance too."
    far = hitnet.explain(ladder(radii=(0.1, 0.1, 0.2), coverage=0.99), torch.zeros(1, 4, 5)).words
    assert far.startswith("2, unknown (0.600 from its centre; usual for 2: up to 0.20): no class is within its usual")
    plain = hitnet.explain(ladder(), image)
    assert (plain.verdict, plain.radii) == (None, None)
    assert plain.words == "0, not calibrated (0.000 from its centre); next is 1 at 0.200."


@pytest.mark.parametrize("name", ["hitnet", "hitnet-fast", "n2", "n2b", "capsnet", "lenet5-hom"])
@pytest.mark.parametrize(("channels", "classes", "dims"), [(1, 10, 16), (3, 2, 2)])
def test_every_capsule_network_explains_any_image(small_model, name, channels, classes, dims):
    model = small_model(name, (channels, 28, 28), num_classes=classes, capsule_dim=dims)
    image = torch.rand(channels, 28, 28, generator=torch.Generator().manual_seed(0))
    found = hitnet.explain(model, image)
    assert found.class_index == int(model.predict(image.unsqueeze(0)))
    assert found.ranking[:2] == [found.class_index, found.rival_index]
    assert sorted(found.ranking) == list(range(classes))
    assert len(found.deformations) == dims
    assert found.verdict is None
    assert found.has_hit_zone == (name not in ("n2", "n2b", "capsnet"))
    assert found.reconstruction.shape == found.prototype.shape == found.residual.shape == image.shape
    json.dumps(found.to_json())


def test_a_transplanted_model_explains_itself():
    plain = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    model = hitnet.with_hit_or_miss(plain, num_classes=3, image_shape=(3, 4, 4))
    assert len(hitnet.explain(model, torch.rand(1, 3, 4, 4)).scores) == 3
    assert hitnet.prototypes(model).shape == (3, 3, 4, 4)


def test_explain_takes_one_image_at_a_time(ladder):
    with pytest.raises(ValueError, match="explain takes one image, got 2"):
        hitnet.explain(ladder(), torch.rand(2, 1, 4, 5))
