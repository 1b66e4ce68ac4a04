#!/usr/bin/env bash
# Runs on a GPU host what docs/cuda.md reports, with one command. README.md beside this file says what the host needs.
#
#   run.sh [STEP...]     steps: prepare mamba timings matrix methods starts devices rules imports flake; all if none is named
#                        (devices: second_runner killed_runner leak)
#
# Variables: PYTHON (an interpreter with torch; default /opt/torch/.venv/bin/python3), REPORTS (where run folders go),
# LIMIT (seconds for each row of flake, default 600), AT_ONCE (processes of flake at once).
# A red cell does not stop the rest. Each step says what it ended with; 10 is expected of the first run of `rules`, a refused cell (docs/cuda.md).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
project=$(cd "$here/../.." && pwd)
python=${PYTHON:-/opt/torch/.venv/bin/python3}
reports=${REPORTS:-$project/reports/gpu-host}
mkdir -p "$reports"
export PYTHONPATH=/opt/gpu-host/site LD_LIBRARY_PATH=/usr/local/nvidia/lib64:/usr/local/nvidia/lib PYTHONUNBUFFERED=1
devices=$(ls /dev/nvidia[0-9]* 2>/dev/null | wc -l)

runner() { (cd "$project" && "$python" -m runner "$@"); }
step() { local began=$SECONDS name=$1; shift; echo "== $name"; "$@"; echo "== $name ended with $?, $((SECONDS - began)) s"; }

prepare() { # the image, and byte code: without it every cell compiles thousands of files again, since it sees them read-only
  docker image inspect gpu-host:latest >/dev/null 2>&1 || "$here/image.sh"
  local site
  site=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
  for folder in /opt/gpu-host/site /opt/gpu-host/vllm "$site"/{torch,transformers,triton,numpy,tokenizers,huggingface_hub,pydantic,safetensors}; do
    [ ! -d "$folder" ] || "$python" -m compileall -q -j 0 "$folder" >/dev/null 2>&1
  done
  runner doctor
}

matrix() { runner run "$here/matrix.yaml" --jobs 2 --out "$reports/matrix"; }

rules() { # the rule's word first; then the engine's own, for the cell that the rule refuses
  runner run "$here/matrix-rules.yaml" --jobs 2 --out "$reports/rules"
  runner run "$here/matrix-rules.yaml" --no-rules -k "prefix_caching=with" --out "$reports/rules-engine"
}

mamba() { # a crash is an answer here, and red; then the one operation that crashes, by itself
  runner run "$here/matrix-mamba.yaml" --out "$reports/mamba"
  PYTHONPATH=/opt/gpu-host/site:/opt/gpu-host/vllm "$python" "$here/mamba/norm.py" | tee "$reports/norm.txt"
}

methods() { # three parts at once: while one makes its models, the cells of another have the devices
  local part pids=()
  for part in 1 2 3; do
    runner run "$here/matrix-methods.yaml" --shard $part/3 --jobs 2 --out "$reports/methods-$part" >"$reports/methods-$part.txt" 2>&1 & pids+=($!)
  done
  trap 'kill "${pids[@]}"' INT TERM # a shell's background jobs do not hear SIGINT
  for part in "${pids[@]}"; do while kill -0 "$part" 2>/dev/null; do wait "$part"; done; done
  trap - INT TERM
  cat "$reports"/methods-[123].txt
}

starts() { # float16, compiled, a shared expert; then the compiled ones again, with the compile caches that the first left
  runner run "$here/matrix-starts.yaml" --jobs 2 --out "$reports/starts"
  runner run "$here/matrix-starts.yaml" -k "start=compiled" --out "$reports/starts-again"
}

imports() { # what importing vLLM takes with byte code and without any, each twice: the first also reads the files from disk
  local way prefix
  for way in with without with without; do
    [ $way = with ] && prefix= || prefix=$(mktemp -d)
    PYTHONPATH=/opt/gpu-host/site:/opt/gpu-host/vllm PYTHONPYCACHEPREFIX=$prefix PYTHONDONTWRITEBYTECODE=1 "$python" -c "
import time; began = time.monotonic()
from vllm import LLM
print('from vllm import LLM,', '$way', 'byte code:', round(time.monotonic() - began, 1), 's')" 2>/dev/null
  done | tee "$reports/imports.txt"
}

second_runner() { # two runners at once: each gets a device of its own, or, where there is one, waits for its turn
  local one two
  runner run "$here/matrix-devices.yaml" -k "what=quick and tp=1" --out "$reports/second-a" >"$reports/second-a.txt" 2>&1 & one=$!
  runner run "$here/matrix-devices.yaml" -k "what=quick and tp=1" --out "$reports/second-b" >"$reports/second-b.txt" 2>&1 & two=$!
  wait $one; local a=$?; wait $two; local b=$?
  grep -h -A2 '"device_ids"\|"started_at"' "$reports"/second-[ab]/*/cells/*/cell.json | grep -o 'GPU-[0-9a-f]*\|"started_at.*'
  echo "exit codes $a $b"
}

killed_runner() { # SIGKILL while a cell holds every device; the next run must get them all
  local tp=$((devices > 1 ? 2 : 1)) pid
  (cd "$project" && exec "$python" -m runner run "$here/matrix-devices.yaml" -k "what=hold and tp=$tp" --out "$reports/killed") \
    >"$reports/killed.txt" 2>&1 & pid=$!
  for _ in $(seq 120); do grep -qs holding "$reports"/killed/*/cells/*/*/log.txt && break; sleep 0.5; done
  kill -9 $pid; wait $pid 2>/dev/null
  echo "killed; still there: $(docker ps --format '{{.Names}}' | wc -l) container, memory $(nvidia-smi --query-gpu=memory.used --format=csv,noheader | tr '\n' ' ')"
  runner run "$here/matrix-devices.yaml" -k "what=quick and tp=$tp" --out "$reports/after-kill"
  local code=$?
  echo "left after the next run: $(docker ps -a --format '{{.Names}}' | wc -l) container"
  return $code
}

leak() { # a child that cannot be found keeps device memory: only a process of the host can do so
  runner run "$here/matrix-devices.yaml" -k "what=leak and tp=1" --runtime process --out "$reports/leak"
}

timings() { # the same cell cold, then with what it left, then with compile caches off
  local cell="quantization=quark_int8 and tp=1"
  runner clean --caches
  runner run "$here/matrix.yaml" -k "$cell" --repeat 3 --out "$reports/timings"
  runner run "$here/matrix.yaml" -k "$cell" --no-caches --out "$reports/timings-off"
}

flake() { # the two forms of upstream's Quark int8 test; LIMIT seconds for each row
  local limit=${LIMIT:-600} model=$reports/flake/model all; all=$(seq -s, 0 $((devices - 1)))
  local at=${AT_ONCE:-$((8 * devices))}
  export PYTHONPATH=$project/tests/moe:/opt/gpu-host/site:/opt/gpu-host/vllm HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1
  export VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_USE_DEEP_GEMM=0 TORCH_COMPILE_DISABLE=1 TRITON_LIBCUDA_PATH=/usr/local/nvidia/lib64
  export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1 VLLM_ALLREDUCE_USE_SYMM_MEM=0
  [ -d "$model" ] || "$python" -m recipes qwen3moe_quark_int8 --out "$model"
  many() { "$python" -m flake many --model "$model" --out "$reports/flake" --devices "$all" --limit "$limit" "$@"; }
  many --form bare --processes 2 --times 50 --at-once 2
  many --form bare --processes 2 --times 50 --at-once 2 --poison
  many --form bare --processes 50 --at-once $((at * 3 / 2))
  many --form engine --processes 50 --at-once "$at"
  many --form engine --processes "$at" --times $(((50 + at - 1) / at)) --at-once "$at"
}

[ $# -gt 0 ] || set -- prepare mamba timings matrix methods starts devices rules imports flake
for name; do
  [ "$name" != devices ] || { for each in second_runner killed_runner leak; do step $each $each; done; continue; }
  step "$name" "$name"
done
