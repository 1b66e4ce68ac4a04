"""Images, models and probes: made ready once per run, before any cell's clock starts, through the Runtime protocol."""

from runner.prepare.everything import SUITE, Means, make_image, prepare, probe
from runner.prepare.keys import model_key, resolve

__all__ = ["SUITE", "Means", "make_image", "model_key", "prepare", "probe", "resolve"]
