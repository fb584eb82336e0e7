"""Components of style: only the decoder uses them, and they are the same for every class."""

import pytest
import torch

from hitnet.core.heads import HitOrMissHead
from hitnet.core.layer import Style
from hitnet.core.model import create_model
from hitnet.settings import ModelConfig

UNIT = 0.1 / 16**0.5


def head(**options: object) -> HitOrMissHead:
    return HitOrMissHead(32, ModelConfig.from_options(num_classes=4, style_dim=3, **options)).double()


def test_over_a_batch_style_lies_around_the_centre_by_one_unit():
    style = Style(32, 5, UNIT).double()
    away = (style(3 + 7 * torch.randn(512, 32, dtype=torch.float64)) - 0.5) / UNIT
    torch.testing.assert_close(away.mean(0), torch.zeros(5, dtype=torch.float64), atol=0.02, rtol=0)
    torch.testing.assert_close(away.std(0), torch.ones(5, dtype=torch.float64), atol=0.03, rtol=0)


def test_style_follows_the_capsules_and_is_the_same_for_every_class():
    made = head().eval()
    capsules = made(torch.randn(6, 32, dtype=torch.float64))
    assert capsules.shape == (6, 4, 19)
    assert (made.counted_dim, made.capsule_dim, made.unit) == (16, 19, UNIT)
    assert torch.equal(capsules[:, :1, 16:].expand(-1, 4, -1), capsules[:, :, 16:])


def test_style_has_no_say_in_the_score():
    made = head().eval()
    capsules = made(torch.randn(6, 32, dtype=torch.float64))
    moved = torch.cat([capsules[..., :16], torch.rand_like(capsules[..., 16:])], dim=2)
    assert torch.equal(made.score(moved), made.score(capsules))
    naive = torch.tensor(
        [[sum((v - 0.5) ** 2 for v in row[:16]) ** 0.5 for row in image] for image in capsules.tolist()]
    )
    torch.testing.assert_close(made.score(capsules), naive.double(), atol=1e-6, rtol=0)


def test_style_changes_the_drawing():
    model = create_model("hitnet-fast", num_classes=3, width=4, style_dim=2)
    centre = torch.full((1, 18), 0.5)
    moved = centre.clone()
    moved[0, 17] += 4 * model.head.unit
    assert not torch.equal(model.draw(moved, torch.tensor([1])), model.draw(centre, torch.tensor([1])))


def test_one_image_is_refused_in_training():
    with pytest.raises(ValueError, match="at least 2 images per batch, got 1: .* or style_dim=0"):
        head().train()(torch.randn(1, 32, dtype=torch.float64))


def test_a_network_without_hit_or_miss_has_no_style():
    with pytest.raises(ValueError, match="style_dim needs a hit zone, n2b has none; leave it out"):
        create_model("n2b", width=4, style_dim=2)


def test_style_without_a_decoder_is_refused():
    with pytest.raises(ValueError, match="style_dim 2 has no use without a decoder"):
        create_model("hitnet-fast", width=4, style_dim=2, decoder="none")


def test_a_negative_number_is_refused():
    with pytest.raises(ValueError, match="style_dim must be at least 0, got -1; 0 means no style"):
        create_model("hitnet-fast", width=4, style_dim=-1)
