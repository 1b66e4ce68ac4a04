"""Compile caches kept between cells: a private copy for each cell, merged into the kept layer only after a pass."""

from runner.caches.store import Caches, Layer, clear

__all__ = ["Caches", "Layer", "clear"]
