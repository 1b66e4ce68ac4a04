#!/usr/bin/env bash
# Installs what is missing and starts a Docker engine by hand: Debian or Ubuntu, as root, no init system needed.
# usage: engine-start.sh STATE_DIR      (engine-stop.sh STATE_DIR ends exactly what this started)
# Does nothing where an engine answers already. DOCKER_DATA_ROOT moves images and containers to another folder.
set -euo pipefail

state=${1:?usage: engine-start.sh STATE_DIR}
packages=(docker.io containerd iptables debootstrap)
here=$(cd "$(dirname "$0")" && pwd)

say() { printf 'engine-start: %s\n' "$*"; }
die() { printf 'engine-start: %s\n' "$*" >&2; exit 1; }
answers() { timeout 5 docker version --format '{{.Server.Version}}' 2>/dev/null; }

if command -v docker >/dev/null && version=$(answers) && [ -n "$version" ]; then
  say "Docker engine $version answers already: nothing to do"
  exit 0
fi
[ "$(id -u)" = 0 ] || die "no Docker engine answers, and starting one needs root: run this with sudo, or start the engine of this host"

missing=()
for pair in dockerd:docker.io docker:docker.io containerd:containerd iptables:iptables debootstrap:debootstrap; do
  PATH=$PATH:/usr/sbin:/sbin command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
done
if [ ${#missing[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || die "missing ${missing[*]} and no apt-get here: install a Docker engine by hand"
  say "installing ${packages[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq && apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
    die "apt-get could not install ${packages[*]}: see its message above"
  if version=$(answers) && [ -n "$version" ]; then
    say "Docker engine $version was started by the package: nothing more to do"
    exit 0
  fi
fi
export PATH=$PATH:/usr/sbin:/sbin

if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
  for controller in memory pids cpuset devices; do
    [ -d /sys/fs/cgroup/$controller ] ||
      die "cgroup controller '$controller' is not mounted under /sys/fs/cgroup: mount the cgroup hierarchy (for example: apt-get install cgroupfs-mount && cgroupfs-mount) and start again"
  done
fi

mkdir -p "$state"
state=$(cd "$state" && pwd)
"$here/engine-stop.sh" "$state" >/dev/null  # what an earlier start left half-way

start() { # name, command...: in a session of its own, so that no terminal and no caller takes it along
  local name=$1; shift
  setsid "$@" >"$state/$name.log" 2>&1 </dev/null &
  echo $! >"$state/$name.pid"
}

wait_for() { # seconds, pid file, command...
  local tries=$(($1 * 4)) pid; pid=$(cat "$2"); shift 2
  for _ in $(seq "$tries"); do
    "$@" >/dev/null 2>&1 && return 0
    kill -0 "$pid" 2>/dev/null || return 1
    sleep 0.25
  done
  return 1
}

socket=/run/containerd/containerd.sock
if ! { [ -S $socket ] && timeout 5 ctr --address $socket version >/dev/null 2>&1; }; then
  start containerd containerd
  wait_for 20 "$state/containerd.pid" timeout 5 ctr --address $socket version ||
    die "containerd did not start: $(tail -n 1 "$state/containerd.log")"
fi

# A bridge wider than the way out loses large packets without a word.
device=$(ip -o route show default 2>/dev/null | sed -n 's/.* dev \([^ ]*\).*/\1/p' | head -n 1 || true)
mtu=$(cat "/sys/class/net/${device:-none}/mtu" 2>/dev/null || echo 1500)
[ "$mtu" -le 1500 ] || mtu=1500

flags=(--containerd $socket --mtu "$mtu")
[ -z "${DOCKER_DATA_ROOT:-}" ] || flags+=(--data-root "$DOCKER_DATA_ROOT")
for attempt in 1 2 3; do
  start dockerd dockerd "${flags[@]}"
  if wait_for 40 "$state/dockerd.pid" answers; then
    say "Docker engine $(answers) answers (logs and pids: $state)"
    exit 0
  fi
  reason=$(grep -iE 'failed to start|error|fatal' "$state/dockerd.log" | tail -n 1 || tail -n 1 "$state/dockerd.log")
  kill "$(cat "$state/dockerd.pid")" 2>/dev/null || true
  if grep -qiE 'graphdriver|overlay' <<<"$reason" && [[ " ${flags[*]} " != *" vfs "* ]]; then
    say "the file system does not carry overlay2, trying the vfs storage driver (slower, larger)"
    flags+=(--storage-driver vfs)
  elif grep -qiE 'iptables|nat chain|bridge' <<<"$reason" && [[ " ${flags[*]} " != *"--bridge=none"* ]]; then
    say "iptables does not work here, starting without a bridge: cells need none, image builds use the host's network"
    flags+=(--iptables=false --ip6tables=false --bridge=none)
  else
    break
  fi
done
"$here/engine-stop.sh" "$state" >/dev/null || true
die "dockerd did not start (attempt $attempt): $reason"
