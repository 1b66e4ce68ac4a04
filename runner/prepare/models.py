"""Models: made by a recipe inside the image, or fetched from a hub by explicit choice; cached by content."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runner.errors import PrepareError
from runner.facts import PreparedImage, Runtime
from runner.model import Fault, HostFolder, ModelRef
from runner.prepare.hub import fetch
from runner.prepare.jobs import Job, JobLimit, run_job
from runner.prepare.keys import check_room, open_to_readers, short, tree_hash
from runner.records import PreparedModel

Patiently = Callable[[Callable[[], PreparedModel], str, JobLimit], PreparedModel]

MODEL_BYTES = 256 << 20
"""Room that must be free before a recipe starts; the shipped recipes write under 10 MB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMaker:
    """Makes models in ``cache``. ``tools`` is the suite's folder, which holds the ``recipes`` package."""

    runtime: Runtime
    cache: Path
    tools: Path
    logs: Path
    labels: Mapping[str, str]
    note: Callable[[str], None]
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[HostFolder, ...] = ()
    limit: JobLimit
    patiently: Patiently
    """How to wait for a download: within the limit, and while the run goes on."""

    def make(self, image: PreparedImage, model: ModelRef) -> PreparedModel:
        """A model that any user can read, from the cache where its inputs are unchanged.

        The key covers the recipe's code, its arguments, and the image and engine it runs in: reference values come from the
        libraries of the image.

        Raises:
            PrepareError: the recipe or the download failed.

        """
        if model.hub is not None:
            return self.patiently(lambda: fetch(model, self.cache / "hub"), f"hub {model.hub}", self.limit)
        if model.recipe is None:
            msg = f"model {model.name} has neither 'recipe' nor 'hub'"
            raise PrepareError(msg, Fault.BUILD)
        code = tree_hash(self.tools / "recipes")
        final = (
            self.cache
            / "models"
            / short(code, (image.id or image.digest) + image.engine_digest, model.recipe, model.fault or "")
        )
        began = time.monotonic()
        if not (final / "config.json").is_file():
            self.note(
                f"making model {model.name} (recipe {model.recipe}{', fault ' + model.fault if model.fault else ''})"
            )
            check_room(self.cache, MODEL_BYTES, f"model {model.name}")
            self._run_recipe(image, model, final)
        return PreparedModel(
            name=model.name,
            path=str(final),
            digest=tree_hash(final),
            source=f"recipe {model.recipe}" + (f" --fault {model.fault}" if model.fault else ""),
            seconds=round(time.monotonic() - began, 3),
        )

    def _run_recipe(self, image: PreparedImage, model: ModelRef, final: Path) -> None:
        work = final.with_name(f".{final.name}.{os.getpid()}")
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        out = self.runtime.view(work, "/out")
        argv = ["{python}", "-m", "recipes", str(model.recipe), "--out", f"{out}/model"]
        argv += ["--fault", model.fault] if model.fault else []
        job = Job(
            name=f"recipe-{model.name}",
            tools=self.tools,
            argv=tuple(argv),
            out_dir=work,
            log_path=self.logs / f"recipe-{model.name}.log",
            env=self.env,
            mounts=self.mounts,
            labels=self.labels,
            total_s=self.limit.total_s,
        )
        try:
            run_job(self.runtime, image, job)
            open_to_readers(work / "model")
            (work / "model").rename(final)
        except OSError as error:
            if not (final / "config.json").is_file():  # another runner may have made the same model meanwhile
                msg = f"recipe-{model.name} wrote no model: {error}"
                raise PrepareError(msg, Fault.BUILD) from error
        finally:
            shutil.rmtree(work, ignore_errors=True)
