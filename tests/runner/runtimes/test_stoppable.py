import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.errors import PrepareError
from runner.interrupt import CancelToken
from runner.model import Fault, Stop
from runner.runtimes import FakeCell, FakeRuntime, Stoppable


class Never:
    def poll(self, elapsed_s: float) -> Stop | None:
        return None


def test_a_job_whose_watch_does_not_look_at_the_token_is_stopped(make_spec: Callable[..., Any]) -> None:
    cancel = CancelToken()
    cancel.cancel(signal.SIGTERM)
    runtime = Stoppable(FakeRuntime({"*": FakeCell(hangs=True, exit_code=143)}), cancel)
    assert runtime.run(make_spec("x"), Never()).stopped is Stop.CANCELLED


def test_a_run_that_goes_on_is_not_touched(make_spec: Callable[..., Any], tmp_path: Path) -> None:
    runtime = Stoppable(FakeRuntime({"*": FakeCell(exit_code=3)}), CancelToken())
    assert (runtime.name, runtime.view(Path("a"), "/b")) == ("fake", "/b")
    assert runtime.run(make_spec("x"), Never()).exit_code == 3
    assert runtime.image("i", tmp_path / "log").ref == "i"


def test_faults_of_an_image_pass(tmp_path: Path) -> None:
    runtime = Stoppable(FakeRuntime({}, images={"i": Fault.PULL}), CancelToken())
    with pytest.raises(PrepareError, match="scripted pull fault") as error:
        runtime.image("i", tmp_path / "log")
    assert error.value.fault is Fault.PULL


def test_a_build_is_not_waited_for_once_the_run_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.runtimes.stoppable._END_S", 0.1)
    cancel, release = CancelToken(), threading.Event()

    class Building(FakeRuntime):
        def image(self, ref: str, log_path: Path, watch: Any = None) -> Any:
            cancel.cancel(signal.SIGINT)
            release.wait(60)
            return super().image(ref, log_path)

    with pytest.raises(PrepareError, match="image i: the run was stopped"):
        Stoppable(Building({}), cancel).image("i", tmp_path / "log")
    release.set()


class Bound:
    """A limit of 0.3 s."""

    def poll(self, elapsed_s: float) -> Stop | None:
        return Stop.TIMED_OUT if elapsed_s > 0.3 else None


class Hanging(FakeRuntime):
    """An image that is never ready; ``told`` is set once the runtime is told to end."""

    def __init__(self, heeds: bool) -> None:
        super().__init__({})
        self.heeds, self.release, self.told = heeds, threading.Event(), threading.Event()

    def image(self, ref: str, log_path: Path, watch: Any = None) -> Any:
        while not self.release.wait(0.05):
            if watch.poll(0.0) is not None:
                self.told.set()
                if self.heeds:
                    message = "ended"
                    raise PrepareError(message, Fault.DAEMON)
        return super().image(ref, log_path)


@pytest.mark.parametrize(("ref", "fault"), [("{here}", Fault.BUILD), ("reg.invalid/x:1", Fault.PULL)])
def test_a_preparation_that_hangs_is_ended_at_its_limit(tmp_path: Path, ref: str, fault: Fault) -> None:
    hanging = Hanging(heeds=True)
    ref = ref.format(here=tmp_path)
    with pytest.raises(
        PrepareError, match=r"was not ready after 0 s \(limits\.prepare; log: .*/log\)"
    ) as caught:
        Stoppable(hanging, CancelToken()).image(ref, tmp_path / "log", Bound())
    assert (caught.value.fault, hanging.told.is_set()) == (fault, True)


def test_a_preparation_that_cannot_be_ended_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runner.runtimes.stoppable._END_S", 0.1)
    hanging = Hanging(heeds=False)
    with pytest.raises(PrepareError, match=r"limits\.prepare"):
        Stoppable(hanging, CancelToken()).image("i", tmp_path / "log", Bound())
    hanging.release.set()
