"""Where files come from: a folder without any network, or mirrors with checksums."""

import hashlib
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pooch
import pytest
from support.official_files import affnist_bytes, write_cifar, write_mnist, write_svhn

from hitnet.data import catalog, load_dataset
from hitnet.data.download import OfficialFile


@pytest.fixture
def no_network(monkeypatch):
    """Any download fails the test."""

    def refuse(*arguments, **options):
        pytest.fail(f"a download was tried: {arguments}")

    monkeypatch.setattr(pooch, "retrieve", refuse)
    monkeypatch.setattr(pooch, "HTTPDownloader", refuse)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of its own, and no HITNET_DATA."""
    monkeypatch.delenv("HITNET_DATA", raising=False)
    monkeypatch.setattr(pooch, "os_cache", lambda project: tmp_path / "cache" / project)
    return tmp_path / "cache" / "hitnet"


class CountingHandler(SimpleHTTPRequestHandler):
    """Serves a folder and notes what was asked for."""

    def __init__(self, asked, *arguments, **options):
        self.asked = asked
        super().__init__(*arguments, **options)

    def log_message(self, format, *arguments):
        self.asked.append(self.path)


@pytest.fixture
def mirror(tmp_path):
    """A folder, the address it is served at, and the list of requests."""
    folder, asked = tmp_path / "served", []
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(CountingHandler, asked, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield folder, f"http://127.0.0.1:{server.server_port}/", asked
    server.shutdown()
    server.server_close()
    thread.join()


def publish_mnist(monkeypatch, folder, mirrors):
    """Small MNIST files in a served folder, known to the catalog by their checksums."""
    written = write_mnist(folder)
    files = [
        OfficialFile(name, hashlib.md5((folder / name).read_bytes()).hexdigest(), mirrors) for name in catalog.IDX_NAMES
    ]
    monkeypatch.setitem(catalog.FILES, "mnist", tuple(files))
    return written


def test_data_dir_touches_no_network(tmp_path, no_network):
    write_mnist(tmp_path / "mnist")
    write_cifar(tmp_path / "cifar10")
    write_svhn(tmp_path / "svhn")
    for name in ("mnist", "cifar10", "svhn", "affnist-like"):
        assert load_dataset(name, data_dir=tmp_path).name == name


def test_the_environment_variable_does_what_data_dir_does(tmp_path, no_network, monkeypatch):
    write_mnist(tmp_path)
    monkeypatch.setenv("HITNET_DATA", str(tmp_path))
    assert len(load_dataset("mnist").train) == 40


def test_mnist_mini_needs_neither(no_network, monkeypatch):
    monkeypatch.delenv("HITNET_DATA", raising=False)
    assert len(load_dataset("mnist-mini").train) == 5000


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("mnist", "needs train-images-idx3-ubyte.gz, .*, t10k-labels-idx1-ubyte.gz"),
        ("cifar10", "needs data_batch_1.bin, .* or cifar-10-binary.tar.gz"),
        ("svhn", "needs train_32x32.mat, test_32x32.mat"),
        ("affnist", "needs test_batches.zip .* fetch https://www.cs.toronto.edu/.*/test_batches.zip by hand"),
    ],
)
def test_files_missing_from_data_dir_are_named_with_the_places_searched(tmp_path, no_network, name, expected):
    with pytest.raises(FileNotFoundError, match=expected) as caught:
        load_dataset(name, data_dir=tmp_path)
    assert f"looked in {tmp_path / name} and {tmp_path}" in str(caught.value)


def test_a_data_dir_that_does_not_exist_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist; check data_dir or HITNET_DATA"):
        load_dataset("mnist", data_dir=tmp_path / "nowhere")


def test_the_second_mirror_is_tried_and_files_are_fetched_once(cache, mirror, monkeypatch):
    folder, address, asked = mirror
    written = publish_mnist(monkeypatch, folder, (address + "gone/", address))
    loaded = load_dataset("mnist")
    assert np.array_equal(loaded.train.images[:, 0], written["train-images-idx3-ubyte"])
    assert sorted(path.name for path in (cache / "mnist").iterdir()) == sorted(catalog.IDX_NAMES)
    assert any("/gone/" in path for path in asked)
    asked.clear()
    load_dataset("mnist")
    assert asked == []


def test_what_is_there_is_kept_and_only_the_rest_is_fetched(cache, mirror, monkeypatch):
    folder, address, asked = mirror
    publish_mnist(monkeypatch, folder, (address,))
    load_dataset("mnist")
    asked.clear()
    (cache / "mnist" / catalog.IDX_NAMES[0]).unlink()
    (cache / "mnist" / catalog.IDX_NAMES[1]).write_bytes(b"damaged")
    load_dataset("mnist")
    assert [path.split('"')[0] for path in asked] == ["/" + name for name in catalog.IDX_NAMES[:2]]


def test_a_wrong_checksum_is_refused_and_leaves_nothing_behind(cache, mirror, monkeypatch):
    folder, address, _ = mirror
    publish_mnist(monkeypatch, folder, (address, address))
    (folder / catalog.IDX_NAMES[0]).write_bytes(b"something else")
    with pytest.raises(FileNotFoundError, match="could not be downloaded .*\n.*hash.*\n.*hash.*\nDownload it by hand"):
        load_dataset("mnist")
    assert list((cache / "mnist").iterdir()) == []


def test_affnist_is_never_downloaded(cache, no_network):
    with pytest.raises(FileNotFoundError, match="not downloaded for you"):
        load_dataset("affnist")


def test_affnist_fetched_by_hand_into_the_cache_is_found(cache, mirror, monkeypatch):
    folder, address, _ = mirror
    publish_mnist(monkeypatch, folder, (address,))
    data, images, _ = affnist_bytes(6, 0)
    (cache / "affnist").mkdir(parents=True)
    (cache / "affnist" / "test.mat").write_bytes(data)
    assert np.array_equal(load_dataset("affnist").test.images[:, 0], images)


def test_importing_the_package_loads_nothing_that_only_some_need():
    code = "import sys, hitnet.data; print({'scipy', 'pooch', 'matplotlib', 'requests'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"
