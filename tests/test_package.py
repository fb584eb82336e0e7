"""The package as a whole: its public names, what importing it costs, and the examples in its docstrings."""

import doctest
import importlib
import subprocess
import sys
from importlib import metadata

import pytest

import hitnet


@pytest.mark.parametrize("name", hitnet.__all__)
def test_a_public_name_can_be_imported_and_is_documented(name):
    value = getattr(hitnet, name)
    assert name in dir(hitnet)
    assert value.__doc__


def test_the_names_that_were_promised_are_there():
    promised = {
        *("HitOrMiss", "distance_to_centre", "staircase", "centripetal_loss", "CentripetalLoss", "margin_loss"),
        *("squash", "create_model", "list_models", "with_hit_or_miss"),
    }
    assert promised <= set(hitnet.__all__)
    assert len(hitnet.__all__) == len(set(hitnet.__all__))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'hitnet' has no attribute 'HitNot'"):
        hitnet.HitNot  # noqa: B018


def test_importing_the_package_does_not_wait_for_torch():
    code = "import sys, hitnet, hitnet.settings; assert 'torch' not in sys.modules, 'torch was imported'"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_the_version_is_the_installed_one():
    assert hitnet.__version__ == metadata.version("hitnet")


@pytest.mark.parametrize(
    "name",
    [
        "hitnet",
        "hitnet.core.layer",
        "hitnet.core.loss",
        "hitnet.core.model",
        "hitnet.core.transplant",
        "hitnet.estimator",
    ],
)
def test_examples_in_docstrings_are_true(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_there_are_examples_to_run():
    finder = doctest.DocTestFinder()
    for name in ["hitnet", "hitnet.core.layer", "hitnet.core.model", "hitnet.core.transplant"]:
        assert any(found.examples for found in finder.find(importlib.import_module(name))), name
