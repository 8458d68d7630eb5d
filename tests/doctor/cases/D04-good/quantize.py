import numpy as np
from kws.data import CLIPS, features, load


def augment(wave):
    return wave + 0.01 * np.random.randn(*wave.shape)


def representative_dataset():
    for path in sorted(CLIPS)[:200]:
        yield [features(load(path))]


def train_step():
    return augment(load(CLIPS[0]))
