"""What a run qualifies, and whether that is what the policy asks for: engine, images, models, runtime, age."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date

from runner.records import Run
from runner.release import times
from runner.release.standing import Placed, passing_attempt
from runner.release.values import ANY_ENGINE, Because, Policy, Refusal, Seen
from runner.version import same_version

_DIGEST = re.compile(r"(?:.*@)?sha256:[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
UNKNOWN = "unknown"


def reasons(run: Run, policy: Policy, today: date, passed: Sequence[Placed]) -> list[Refusal]:
    """Every way in which the passed cells are of something else than what the policy qualifies."""
    return [
        *_engine(run, policy, passed),
        *_images(run, policy, passed),
        *_models(run, passed),
        *_suites(run, policy, passed),
        *_runtime(run, policy),
        *_age(run, policy, today, passed),
    ]


def versions(run: Run, passed: Sequence[Placed]) -> tuple[str, ...]:
    """Engine versions of the passed cells, each once, in plan order."""
    return tuple(dict.fromkeys(_version(run, each) for each in passed))


def _version(run: Run, placed: Placed) -> str:
    """What the cell reported; what the probe of its image said where the suite gives no evidence."""
    attempt = passing_attempt(placed.record) if placed.record else None
    if attempt and attempt.evidence and attempt.evidence.engine_version:
        return attempt.evidence.engine_version
    probe = run.prepared.probes.get(placed.entry.settings.image, {})
    return str(probe.get("engine_version") or probe.get("version") or UNKNOWN)


def _engine(run: Run, policy: Policy, passed: Sequence[Placed]) -> list[Refusal]:
    if policy.engine_version is None and run.expect_engine is None:
        text = "nobody said which engine is qualified"
        fix = "set engine_version in the policy, or run with --expect-engine VERSION"
        return [Refusal(kind=Because.ENGINE, text=text, fix=fix)]
    if policy.engine_version in (None, ANY_ENGINE):  # what the run was told to expect is part of its verdicts
        found = versions(run, passed)
        wrong = tuple(passed) if len(found) > 1 or UNKNOWN in found else ()
        text = f"the cells report {'more than one engine' if len(found) > 1 else 'no engine'}: {', '.join(found)}"
    else:
        wanted = policy.engine_version
        wrong = tuple(each for each in passed if not same_version(_version(run, each), wanted))
        text = f"{len(wrong)} passed cell{'' if len(wrong) == 1 else 's'} ran another engine than {wanted}"
    cells = tuple(Seen(cell=each.cell, text=f"engine {_version(run, each)}") for each in wrong)
    return [Refusal(kind=Because.ENGINE, text=text, cells=cells)] if wrong else []


def _images(run: Run, policy: Policy, passed: Sequence[Placed]) -> list[Refusal]:
    found = []
    used = dict.fromkeys((each.cell.get("platform"), each.entry.settings.image) for each in passed)
    for platform, key in used:
        image = run.prepared.images.get(key)
        digest = image.digest if image else ""
        if not _DIGEST.fullmatch(digest):
            text = (
                f"image {key} of {platform} was never resolved to a digest ({digest or 'none is recorded'})"
            )
            found.append(
                Refusal(kind=Because.IMAGE, text=text, fix="run it again with an image that has one")
            )
        elif platform in policy.images and not digest.endswith(policy.images[platform]):
            text = f"image {key} of {platform} is {digest}, the policy qualifies {policy.images[platform]}"
            found.append(Refusal(kind=Because.IMAGE, text=text))
    return found


def _models(run: Run, passed: Sequence[Placed]) -> list[Refusal]:
    """A model from a hub counts only with the commit that was loaded."""
    hubs = {
        f"{settings.image}|{model.name}": model.hub
        for settings in (each.entry.settings for each in passed)
        for model in (settings.model, *settings.extra_models)
        if model and model.hub
    }
    found = []
    for key, hub in hubs.items():
        model = run.prepared.models.get(key)
        if model is None or not _COMMIT.fullmatch(model.revision):
            text = f"model {hub} was never resolved to a commit of its hub"
            found.append(Refusal(kind=Because.MODEL, text=text, fix="name a revision in the matrix file"))
    return found


def _suites(run: Run, policy: Policy, passed: Sequence[Placed]) -> list[Refusal]:
    """The tests that passed are those that the policy names by content, and it names suites that passed cells have."""
    used = {each.entry.settings.suite.path for each in passed}
    found = []
    for name, digest in policy.suites.items():
        had = run.prepared.suites.get(name, "")
        if name not in used:
            text = f"no passed cell ran the suite {name}, which the policy qualifies"
            found.append(Refusal(kind=Because.SUITE, text=text))
        elif had != digest:
            text = f"the suite {name} is {had or 'of an unknown content'}, the policy qualifies {digest}"
            fix = "run the suite that was agreed on, or have the policy changed with it"
            found.append(Refusal(kind=Because.SUITE, text=text, fix=fix))
    return found


def _runtime(run: Run, policy: Policy) -> list[Refusal]:
    if run.runtime in policy.runtimes:
        return []
    text = f"the cells ran in the runtime {run.runtime}, the policy asks for {' or '.join(policy.runtimes)}"
    return [Refusal(kind=Because.RUNTIME, text=text, fix=f"run with --runtime {policy.runtimes[0]}")]


def _age(run: Run, policy: Policy, today: date, passed: Sequence[Placed]) -> list[Refusal]:
    """A run is as old as the oldest attempt that a pass rests on: resuming it does not make that one newer."""
    attempts = (passing_attempt(each.record) for each in passed if each.record)
    ends = [end.date() for attempt in attempts if attempt and (end := times.ended(attempt))]
    last = times.last_end(run) or times.moment(run.started_at)
    if last is None:
        return [Refusal(kind=Because.AGE, text="the run does not say when it ended")]
    ended = last.date()
    oldest = min(ends, default=ended)
    if ended > today:
        text = f"the run ended on {ended}, after the day of this decision ({today})"
        return [Refusal(kind=Because.AGE, text=text, fix="see the clocks of both hosts")]
    if (today - oldest).days > policy.max_age_days:
        whole = (today - ended).days > policy.max_age_days
        what, day = ("the run", ended) if whole else ("the oldest of its passed cells", oldest)
        text = f"{what} ended on {day}, {(today - day).days} days ago; the policy takes {policy.max_age_days}"
        return [Refusal(kind=Because.AGE, text=text, fix="run it again")]
    return []


def suites(run: Run, passed: Sequence[Placed]) -> dict[str, str]:
    """The content hash of every suite that passed cells ran, by its path."""
    used = dict.fromkeys(each.entry.settings.suite.path for each in passed)
    return {name: run.prepared.suites.get(name, UNKNOWN) for name in used}


def image_lines(run: Run) -> tuple[str, ...]:
    """The images of a run, each with its digest."""
    return tuple(
        f"{key}: {image.ref} {image.digest or 'without a digest'}"
        for key, image in run.prepared.images.items()
    )
