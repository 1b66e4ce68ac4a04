#!/usr/bin/env bash
# Runs the matrix and annotates the build. The exit code is the runner's, whatever the annotation does.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=reports/buildkite-${BUILDKITE_JOB_ID:-local}
# A build that is cancelled: the agent signals the whole process group. The runner stops its cells and writes its
# folder; this shell waits for it, and annotates what is known.
trap : TERM INT
make setup || exit 75
# Not `make run`: make turns every exit code into 2, and Buildkite retries by exit code.
# shellcheck disable=SC2086 # MATRIX_ARGS is a list of words
.venv/bin/python -m runner "${MATRIX:-matrix.yaml}" --out "$out" ${MATRIX_ARGS:-}
code=$?
for summary in "$out"/*/summary.md; do
  [ -s "$summary" ] || continue
  style=success; [ "$code" -eq 0 ] || style=error
  # By standard input: a body as an argument fails above the kernel's limit. The context replaces an older note.
  timeout 10 buildkite-agent annotate --context vllm-matrix --style "$style" <"$summary" ||
    echo "annotation failed; the verdict stands (exit code $code)"
done
exit "$code"
