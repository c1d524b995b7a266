import numpy as np
import pytest

from supquant.errors import InputError
from supquant_lab.gist import gist_descriptors


@pytest.fixture(scope="module")
def pictures():
    images = np.random.default_rng(0).integers(256, size=(70, 32, 32, 3), dtype=np.uint8)
    images.flags.writeable = False
    return images


def by_definition(picture):
    """The descriptor of one square grey picture, in float64 and computed step by step."""
    grey = picture.astype(float) - picture.min()
    x = np.pad(np.log(1 + 255 * grey / grey.max()), 5, mode="symmetric")
    down, across = np.meshgrid(*[np.fft.fftfreq(len(x)) * len(x)] * 2, indexing="ij")
    low_pass = np.exp(-np.log(2) * (down**2 + across**2) / 4**2)
    x = x - np.fft.ifft2(np.fft.fft2(x) * low_pass).real
    x = x / (0.2 + np.sqrt(np.abs(np.fft.ifft2(np.fft.fft2(x**2) * low_pass))))
    x = np.pad(x[5:-5, 5:-5], 32, mode="symmetric")
    down, across = np.meshgrid(*[np.fft.fftfreq(len(x))] * 2, indexing="ij")
    rho, theta = np.hypot(down, across), np.arctan2(down, across)
    values, cell = [], len(picture) // 4
    for scale in range(4):
        for orientation in range(8):
            angle = np.angle(np.exp(1j * (theta + orientation * np.pi / 8)))
            transfer = np.exp(-3.5 * (rho * 1.85**scale / 0.3 - 1) ** 2 - 2 * np.pi * angle**2)
            response = np.abs(np.fft.ifft2(np.fft.fft2(x) * transfer))[32:-32, 32:-32]
            for column in range(4):
                for row in range(4):
                    part = response[row * cell : (row + 1) * cell, column * cell : (column + 1) * cell]
                    values.append(part.mean())
    return np.array(values)


def test_every_dimension_agrees_with_the_sample_of_cifar10(data_folder):
    sample = np.load(data_folder / "cifar10_sample.npz")
    ours, theirs = gist_descriptors(sample["images"][:300]), sample["gist"][:300]
    correlations = [np.corrcoef(ours[:, k], theirs[:, k])[0, 1] for k in range(512)]
    assert min(correlations) > 0.99999
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("side", [4, 12, 32, 48])
def test_descriptor_is_its_definition(side, rng):
    images = rng.integers(256, size=(3, side, side), dtype=np.uint8)
    expected = [by_definition(picture) for picture in images]
    np.testing.assert_allclose(gist_descriptors(images), expected, atol=2e-5)


def test_grey_is_the_mean_of_the_colours(pictures):
    grey = pictures[:3, :, :, 0]
    same = np.repeat(grey[..., None], 3, axis=3)
    np.testing.assert_allclose(gist_descriptors(same), gist_descriptors(grey), atol=1e-5)
    swapped = pictures[:3, :, :, ::-1]
    np.testing.assert_allclose(gist_descriptors(swapped), gist_descriptors(pictures[:3]), atol=1e-5)


def test_brightness_and_contrast_do_not_matter(rng):
    dark = rng.integers(100, size=(2, 32, 32), dtype=np.uint8)
    np.testing.assert_allclose(gist_descriptors(2 * dark + 40), gist_descriptors(dark), atol=1e-5)


@pytest.mark.parametrize("value", [0, 255])
def test_picture_of_one_grey_has_no_shape(value):
    assert not gist_descriptors(np.full((1, 32, 32), value, dtype=np.uint8)).any()


def test_filters_respond_to_stripes_across_them():
    stripes = np.zeros((32, 32), dtype=np.uint8)
    stripes[:, ::4] = 255  # upright: they vary along a row of pixels
    upright, lying = gist_descriptors(np.stack([stripes, stripes.T])).reshape(2, 4, 8, 16).mean(axis=(1, 3))
    assert upright.argmax() == 0
    assert lying.argmax() == 4


@pytest.mark.parametrize("shape", [(17, 33), (40, 23), (5, 64)])
def test_pictures_need_not_be_square(shape, rng):
    images = rng.integers(256, size=(2, *shape), dtype=np.uint8)
    descriptors = gist_descriptors(images)
    assert np.isfinite(descriptors).all()
    assert descriptors.std() > 0.01


@pytest.mark.parametrize("n", [0, 1, 31, 32, 33, 65])
def test_descriptors_depend_neither_on_threads_nor_on_other_pictures(n, pictures):
    one, two = (gist_descriptors(pictures[:n], n_jobs=n_jobs) for n_jobs in (1, 2))
    assert one.shape == (n, 512)
    assert one.dtype == np.float32
    np.testing.assert_array_equal(one, two)
    if n:
        np.testing.assert_allclose(gist_descriptors(pictures[n - 1 : n])[0], one[-1], atol=1e-6)


def test_mapped_pictures_are_read(pictures, tmp_path):
    np.save(tmp_path / "images.npy", pictures[:5])
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    np.testing.assert_array_equal(gist_descriptors(mapped), gist_descriptors(pictures[:5]))


def test_progress_is_reported_after_every_block(pictures):
    events = []
    gist_descriptors(pictures, callback=events.append)
    assert [(event.step, event.total) for event in events] == [(1, 3), (2, 3), (3, 3)]


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((32, 32), dtype=np.uint8), r"got \(32, 32\)"),
        (np.zeros((2, 32, 32, 4), dtype=np.uint8), r"got \(2, 32, 32, 4\)"),
        (np.zeros((2, 32, 3), dtype=np.uint8), "at least 4 x 4"),
        (np.zeros((2, 32, 32)), "uint8, intensities of 0..255, got float64"),
    ],
)
def test_other_arrays_are_refused(images, message):
    with pytest.raises(InputError, match=message):
        gist_descriptors(images)
