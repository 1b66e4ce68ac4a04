"""Where a file says what only the host can judge, and bounds that can never be reached."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from runner.matrix.shape import LimitsSpec, MatrixFile, layers
from runner.model import Limits
from runner.strictyaml.mistakes import Mark, Mistakes

_WITHIN_TOTAL = ("start", "idle")


def places(file: MatrixFile, where: str) -> dict[str, str]:
    """``matrix.yaml:41:9`` of each suite path, test, secret, image, mounted folder and model, by a key that says what.

    The first place counts where a name stands in several.
    """
    found: dict[str, Mark] = {}
    for key, mark in _marks(file):
        found.setdefault(key, mark)
    return {key: f"{where}:{mark.line}:{mark.column}" for key, mark in found.items()}


def _marks(file: MatrixFile) -> Iterator[tuple[str, Mark]]:
    if file.suite.path:
        yield "suite", file.suite.path.mark
    for word in file.suite.tests:
        yield f"test {word.text}", word.mark
    for layer in layers(file):
        for word in layer.secrets:
            yield f"secret {word.text}", word.mark
    for platform in file.platforms.values():
        if platform.image:
            yield f"image {platform.image.text}", platform.image.mark
        for mount in platform.mounts:
            yield f"host path {mount.source}", platform.marks["mounts"]
        for word in platform.engine_digest:
            yield f"host path {word.text}", word.mark
    for name, model in file.models.items():
        yield f"model {name}", model.mark


def check_limits(file: MatrixFile, mistakes: Mistakes) -> None:
    """Note bounds that stand beside a total that is reached first."""
    for spec in _limits(file):
        for name, seconds, mark in _bounds(spec):
            if spec.total is not None and seconds > spec.total:
                text = f"limits.{name} {_time(seconds)} is never reached: limits.total {_time(spec.total)} ends the cell first"
                mistakes.add(mark, text, "raise total, or lower it")


def unreachable(file: MatrixFile, where: str, ends: Sequence[Limits]) -> list[str]:
    """The same where bound and total come from different layers of a cell; ``ends`` are the limits of cells."""
    said: dict[tuple[str, float], Mark] = {}
    for spec in _limits(file):
        for name, seconds, mark in _bounds(spec):
            said.setdefault((name, seconds), mark)
    found: dict[tuple[str, float, float], None] = {}
    for limits in ends:
        for name, seconds in _given(limits).items():
            if seconds > limits.total_s and (name, seconds) in said:
                found[name, seconds, limits.total_s] = None
    return [
        f"{where}:{said[name, seconds].line}:{said[name, seconds].column}: limits.{name} {_time(seconds)} is never reached in"
        f" cells whose limits.total is {_time(total)}"
        for name, seconds, total in found
    ]


def _limits(file: MatrixFile) -> Iterator[LimitsSpec]:
    yield from (layer.limits for layer in layers(file) if layer.limits is not None)


def _bounds(spec: LimitsSpec) -> Iterator[tuple[str, float, Mark]]:
    for name in _WITHIN_TOTAL:
        seconds = getattr(spec, name)
        if seconds is not None:
            yield name, seconds, spec.marks[name]
    for phase, seconds in spec.phases.items():
        if phase != "prepare":  # over before the total's clock starts
            yield f"phases.{phase}", seconds, spec.marks["phases"]


def _given(limits: Limits) -> Mapping[str, float]:
    own = {"start": limits.start_s, "idle": limits.idle_s}
    return own | {f"phases.{phase}": seconds for phase, seconds in limits.phase_s.items()}


def _time(seconds: float) -> str:
    """A bound as a matrix file writes it."""
    whole = int(seconds)
    parts = ((whole // 3600, "h"), (whole % 3600 // 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or f"{seconds:g}s"
