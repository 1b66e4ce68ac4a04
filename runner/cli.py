"""argv to exit code. Everything heavy is imported when a verb needs it, so that ``--help`` stays quick."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from runner import outlet
from runner.arguments import make_parser

if TYPE_CHECKING:  # at run time nothing else of the program is imported before a verb is known
    import argparse

    from runner.pipeline import Past, Wish
    from runner.records import Run
    from runner.report import Progress


def main(argv: Sequence[str] | None = None) -> int:
    """Run a verb; ``FILE`` alone means ``run FILE``. Errors a user can cause are one line each, no traceback."""
    outlet.install()
    try:
        return _main(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:  # before a run listens to signals, or in a verb that starts nothing
        print("interrupted", file=sys.stderr)
        return 130
    finally:
        sys.stdout.flush()


def _main(words: list[str]) -> int:
    parser, verbs = make_parser()
    if words and words[0] not in (*verbs, "-h", "--help"):
        words.insert(0, "run")
    if any(not word.strip() or (word.startswith("--") and word.rstrip().endswith("=")) for word in words):
        parser.error("an argument is empty: is a variable unset?")  # an empty -k would choose every cell
    args = parser.parse_args(words)
    args.words = words
    from runner.errors import ExitCode, RunnerError

    try:
        return int(_VERBS[args.verb](args))
    except RunnerError as error:
        print(error, file=sys.stderr)
        return int(error.exit_code)
    except OSError as error:  # a full disk, a folder taken away: this host's fault, and no cell's
        print(outlet.host_error(error, getattr(args, "out", None), _cache()), file=sys.stderr)
        return int(ExitCode.HOST)


def _wish(args: argparse.Namespace) -> Wish:
    from runner import pipeline
    from runner.errors import UsageError

    resumed = getattr(args, "resume", None)
    if (args.file is None) == (resumed is None):
        message = "give either FILE or --resume RUN_DIR" if hasattr(args, "resume") else "FILE is missing"
        raise UsageError(message)
    if resumed is not None and (given := args.stored(args)):
        message = f"--resume {resumed}: the run goes on as it was begun; leave out {', '.join(given)}"
        raise UsageError(message)
    return pipeline.Wish(
        matrix=args.file or Path(),
        failed_in=args.failed_in,
        settle=args.settle,
        baseline=getattr(args, "baseline", None),
        repeat=getattr(args, "repeat", 1),
        until_fail=getattr(args, "until_fail", False),
        caches=not getattr(args, "no_caches", False),
        select=args.select,
        cells=tuple(args.cell),
        cover=args.cover,
        rotate=args.rotate,
        pins=tuple(args.pin),
        shard=args.shard,
        durations=args.durations,
        images=tuple(args.image),
        apply_rules=not args.no_rules,
        runtime=getattr(args, "runtime", "auto"),
        jobs=getattr(args, "jobs", 1),
        out=getattr(args, "out", Path("reports")),
        cache=_cache(),
        expect_engine=args.expect_engine,
        max_cells=args.max_cells,
        command="python -m runner " + shlex.join(args.words),
        environ=dict(os.environ),
    )


def _cache() -> Path:
    base = os.environ.get("VLLM_MATRIX_CACHE") or Path(
        os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    )
    return Path(base) if "VLLM_MATRIX_CACHE" in os.environ else Path(base) / "vllm-matrix"


def _run(args: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from runner import pipeline
    from runner.interrupt import CancelToken, listening

    waivers = pipeline.read_waivers(args.waivers)
    cancel = CancelToken()
    with listening(cancel):
        if args.resume is not None:
            done = pipeline.resume(args.resume, _wish(args), _show, cancel)
        else:
            done = pipeline.run(_wish(args), _show, cancel)
    _print_grid(done.run, done.folder, done.past)
    waived = pipeline.waive(done.run, waivers, datetime.now(UTC).date(), interrupted=cancel.signal)
    print(waived.text(outlet.width()), end="")
    return waived.exit_code


def _show(run: Run) -> Progress:
    """The first lines of a run, then its live view."""
    from runner import pipeline, report

    print(f"runtime: {run.runtime}: {run.runtime_detail}", flush=True)
    print(f"plan: {pipeline.plan_sentence(run.plan)}", flush=True)
    for line in run.plan.certificate[:1]:
        print(f"sample: {line}", flush=True)
    return report.progress(len(run.plan.planned()), sys.stdout)


def _print_grid(run: Run, folder: Path, past: Past) -> None:
    from runner import report

    text = report.terminal(
        run,
        color=sys.stdout.isatty(),
        plain=outlet.plain(),
        width=outlet.width(),
        folder=str(folder),
        comparison=past.comparison,
        since=past.since,
    )
    print(text, end="")


def _plan(args: argparse.Namespace) -> int:
    from runner import pipeline, report

    wish = _wish(args)
    if args.diff is not None:
        print(pipeline.plan_diff(wish, args.diff, outlet.width()), end="")
        return 0
    seen = pipeline.outlook(wish)
    if args.json:
        said = {**pipeline.plan_json(seen.plan), "order": seen.order, "cost": seen.cost}
        print(json.dumps(said, indent=2, ensure_ascii=False))
    else:
        text = report.plan_text(
            seen.plan,
            runtime="",
            color=sys.stdout.isatty(),
            width=outlet.width(),
            plain=outlet.plain(),
            order=seen.order,
            cost=seen.cost,
        )
        print(text, end="")
    return 0


def _explain_cell(args: argparse.Namespace) -> int:
    from runner import pipeline

    for line in pipeline.explain_cell(
        args.file, args.cell, apply_rules=not args.no_rules, max_cells=args.max_cells
    ):
        print(line)
    return 0


def _report(args: argparse.Namespace) -> int:
    from runner import pipeline

    run, past = pipeline.load_report(args.run_dir, args.baseline)
    _print_grid(run, args.run_dir, past)
    for note in pipeline.folder_notes(args.run_dir, run):
        print(f"note: {note}", file=sys.stderr)
    return pipeline.exit_code(run)


def _history(args: argparse.Namespace) -> int:
    from runner import pipeline, report

    found = pipeline.history(args.cell, args.dir)
    text = report.history_text(
        found.cell,
        found.seen,
        found.judgement,
        earlier=found.earlier,
        unread=found.unread,
        color=sys.stdout.isatty(),
        plain=outlet.plain(),
        width=outlet.width(),
    )
    print(text, end="")
    return 0


def _gate(args: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    from runner import pipeline

    result = pipeline.gate(args.run_dir, args.policy, args.waivers, datetime.now(UTC).date())
    if args.page:
        pipeline.write_page(args.page, result)
    if args.statement:
        pipeline.write_statement(args.statement, result)
    if args.json:
        print(json.dumps(result.as_json(), indent=2, ensure_ascii=False))
    else:
        print(result.text(outlet.width()), end="")
    return result.exit_code


def _images(args: argparse.Namespace) -> int:
    from runner import pipeline
    from runner.errors import ExitCode

    codes = []
    for line in pipeline.images(_wish(args), args.action, note=_say):
        print(line.text, file=sys.stderr if line.code else sys.stdout, flush=True)
        codes.append(line.code)
    order = (ExitCode.RED, ExitCode.HOST_NETWORK, ExitCode.HOST, ExitCode.NOTHING_RAN)
    return next((code for code in order if code in codes), ExitCode.OK)


def _say(text: str) -> None:
    print(text, flush=True)


def _explain(args: argparse.Namespace) -> int:
    from runner import pipeline
    from runner.errors import UsageError

    if args.junit is args.log is args.exit_code is args.evidence is None:
        msg = "explain: give at least one of --junit, --log, --exit-code, --evidence"
        raise UsageError(msg)
    said = pipeline.explain(args.junit, args.log, args.exit_code, args.evidence)
    if args.json:
        print(json.dumps(said, ensure_ascii=False))
    else:
        print(f"{said['outcome']}, culprit {said['culprit']}: {said['cause'] or 'nothing to add'}")
        read = "tests until the report breaks off: " if said.get("tests_partial") else "tests: "
        print(read + ", ".join(f"{count} {name}" for name, count in said["tests"].items()))
    return 0


def _doctor(_: argparse.Namespace) -> int:
    from runner import pipeline

    for line in pipeline.doctor(dict(os.environ), _cache()):
        print(line)
    return 0


def _clean(args: argparse.Namespace) -> int:
    from runner import pipeline

    compiled = _cache() if args.caches else None
    for line in pipeline.clean(images=args.images, compiled=compiled) or ("nothing to remove",):
        print(line)
    return 0


_VERBS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "run": _run,
    "plan": _plan,
    "explain-cell": _explain_cell,
    "report": _report,
    "history": _history,
    "gate": _gate,
    "images": _images,
    "explain": _explain,
    "doctor": _doctor,
    "clean": _clean,
}
