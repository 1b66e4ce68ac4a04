"""Images are kept from the moment they are there until the run lets go of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from pathlib import Path

import pytest

from runner.errors import PrepareError
from runner.facts import HandOver, PreparedImage, Watch
from runner.model import CellSettings, Fault, Limits, Suite
from runner.prepare import Means, make_image
from runner.runtimes import FakeRuntime

SETTINGS = CellSettings(image="team/app:v1", suite=Suite(), limits=Limits(), devices=0)


class Pruned(FakeRuntime):
    """Somebody prunes: ``lost`` images are gone before they could be kept, and letting go fails with ``stuck``."""

    def __init__(self, lost: int = 0, fault: Fault = Fault.PULL, stuck: str = "") -> None:
        super().__init__({})
        self.lost, self.fault, self.stuck = lost, fault, stuck
        self.made = 0

    def image(self, ref: str, log_path: Path, watch: Watch | None = None) -> PreparedImage:
        self.made += 1
        return super().image(ref, log_path)

    def keep(self, image: PreparedImage, labels: Mapping[str, str]) -> Callable[[], str]:
        if self.lost:
            self.lost -= 1
            msg = f"image {image.ref} cannot be kept"
            raise PrepareError(msg, self.fault)
        assert labels == {"run": "r"}
        let_go = super().keep(image, labels)
        return lambda: let_go() or self.stuck


def means(runtime: FakeRuntime, held: ExitStack, folder: Path, notes: list[str]) -> Means:
    return Means(
        runtime=runtime,
        root=folder,
        cache=folder,
        logs=folder,
        note=notes.append,
        lease=lambda _: nullcontext(HandOver()),
        held=held,
        labels={"run": "r"},
    )


@pytest.mark.parametrize("lost", [0, 1])
def test_an_image_is_kept_until_the_run_ends_and_made_again_where_it_was_pruned_first(
    tmp_path: Path, lost: int
) -> None:
    runtime, notes = Pruned(lost, stuck="container x is left behind"), list[str]()
    with ExitStack() as held:
        assert (
            make_image(SETTINGS, means(runtime, held, tmp_path, notes), tmp_path / "log").ref == "team/app:v1"
        )
        assert (runtime.kept, runtime.made) == (["team/app:v1"], 1 + lost)
    assert runtime.kept == []
    assert notes == ["container x is left behind"]


@pytest.mark.parametrize(("lost", "fault", "made"), [(2, Fault.PULL, 2), (1, Fault.DAEMON, 1)])
def test_an_image_that_cannot_be_kept_is_not_used(tmp_path: Path, lost: int, fault: Fault, made: int) -> None:
    runtime = Pruned(lost, fault)
    with ExitStack() as held, pytest.raises(PrepareError, match="team/app:v1 cannot be kept"):
        make_image(SETTINGS, means(runtime, held, tmp_path, []), tmp_path / "log")
    assert (runtime.made, runtime.kept) == (made, [])
