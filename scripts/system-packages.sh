#!/usr/bin/env bash
# Checks what vLLM for CPU needs from the system where cells run as local processes; installs it where this is root.
# usage: system-packages.sh            (exit code 0: all there; 1: something is missing and could not be installed)
set -euo pipefail

# What is needed, how to see it, and the Debian or Ubuntu package that has it. The last three are used when torch
# compiles a kernel for the CPU, which also an eager model does once.
needs=(
  "python3-venv|python3 -c 'import ensurepip, venv'"
  "libnuma1|has libnuma.so.1"
  "libgomp1|has libgomp.so.1"
  "python3-dev|python3 -c 'import pathlib, sysconfig; assert pathlib.Path(sysconfig.get_path(\"include\"), \"Python.h\").exists()'"
  "g++|command -v g++"
  "openssl|command -v openssl"
)
has() { PATH=$PATH:/usr/sbin:/sbin ldconfig -p | grep -q "$1"; }

missing_packages() {
  for need in "${needs[@]}"; do
    eval "${need#*|}" >/dev/null 2>&1 || printf '%s\n' "${need%%|*}"
  done
}

mapfile -t missing < <(missing_packages)
if [ ${#missing[@]} -eq 0 ]; then
  printf 'system-packages: all there\n'
  exit 0
fi
line="apt-get install -y --no-install-recommends ${missing[*]}"
if ! command -v apt-get >/dev/null; then
  printf 'system-packages: missing %s: install what has them on this system\n' "${missing[*]}" >&2
  exit 1
fi
if [ "$(id -u)" != 0 ]; then
  printf 'system-packages: missing %s. As root: %s\n' "${missing[*]}" "$line" >&2
  exit 1
fi
printf 'system-packages: %s\n' "$line"
export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
mapfile -t missing < <(missing_packages)
[ ${#missing[@]} -eq 0 ] || { printf 'system-packages: still missing: %s\n' "${missing[*]}" >&2; exit 1; }
printf 'system-packages: installed\n'
