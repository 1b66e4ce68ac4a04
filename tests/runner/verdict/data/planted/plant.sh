#!/usr/bin/env bash
# Makes the logs again: plant.sh IMAGE MODELS OUT [FAULT...]. Root's Docker; one engine at a time.
set -u
image=$1 models=$2 out=$3
shift 3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
all=$(sed -n 's/^ "\([a-z0-9-]*\)".*/\1/p' "$here/labels.json")
for fault in ${*:-$all}; do
  limits=(--pids-limit 2048 --memory 8g --shm-size 1g --tmpfs /tmp:exec,size=1g)
  env=(-e HOME=/tmp -e TORCH_COMPILE_DISABLE=1)
  stop=0 bind=auto
  case $fault in rank* | shm*) bind='0|1' ;; esac
  case $fault in
    memory-limit) limits=(--memory 1g --memory-swap 1g --shm-size 1g --tmpfs /tmp:exec,size=1g) ;;
    tmp-full) limits=(--memory 8g --shm-size 1g --tmpfs /tmp:exec,size=64k) env=(-e HOME=/tmp) ;;
    shm-full) limits=(--memory 8g --shm-size 1m --tmpfs /tmp:exec,size=1g) ;;
    rank-hangs) env+=(-e VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=20) ;;
    rank-hangs-and-engine-waits) env+=(-e VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS=600) stop=110 ;;
    rank1-raises) env+=(-e VLLM_ALLOW_INSECURE_SERIALIZATION=1) ;;
    rank1-out-of-memory)
      env+=(-e VLLM_ALLOW_INSECURE_SERIALIZATION=1)
      limits=(--memory 4g --memory-swap 4g --shm-size 1g --tmpfs /tmp:exec,size=1g)
      ;;
    too-few-processes) limits+=(--pids-limit 24) ;;
    out-full) limits+=(--tmpfs /out:size=16k,mode=1777) ;;
    engine-library-cut)
      for name in _C _C_AVX2 _C_AVX512; do
        limits+=(-v "/dev/null:/opt/venv/lib/python3.11/site-packages/vllm/$name.abi3.so:ro")
      done
      ;;
    no-home) env=(-e TORCH_COMPILE_DISABLE=1 -e HOME=/nowhere -e TMPDIR=/nowhere) ;;
  esac
  model=qwen3moe
  case $fault in other-quantization) model=qwen3moe_quark_int8 ;; esac
  docker rm -f planted >/dev/null 2>&1
  docker run --init --name planted --network none --read-only --cap-drop ALL --security-opt no-new-privileges \
    --user 65532:65532 "${limits[@]}" "${env[@]}" -e HF_HUB_OFFLINE=1 \
    -e VLLM_CPU_KVCACHE_SPACE=1 -e "VLLM_CPU_OMP_THREADS_BIND=$bind" -v "$here:/plant:ro" \
    -v "$models/$model:/model:ro" "$image" /opt/venv/bin/python /plant/plant.py "$fault" /model \
    >"$out/$fault.log" 2>&1 &
  for _ in $(seq 1 "$((stop ? stop : 170))"); do
    sleep 1
    [ "$(docker inspect -f '{{.State.Status}}' planted 2>/dev/null)" = exited ] && break
  done
  docker kill planted >/dev/null 2>&1
  wait
  docker inspect -f "{\"fault\": \"$fault\", \"exit\": {{.State.ExitCode}}, \"oom_killed\": {{.State.OOMKilled}}}" planted | tee -a "$out/ends.jsonl"
  docker rm -f planted >/dev/null 2>&1
done
