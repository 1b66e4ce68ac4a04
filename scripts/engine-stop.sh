#!/usr/bin/env bash
# Ends the engine that engine-start.sh STATE_DIR started, and nothing else.
# usage: engine-stop.sh STATE_DIR
set -euo pipefail

state=${1:?usage: engine-stop.sh STATE_DIR}
found=0

is() { # pid, program: a pid file may have outlived its process and its number
  [ "$(cat "/proc/$1/comm" 2>/dev/null)" = "$2" ]
}

stop() { # program, sockets and pid files it leaves behind
  local name=$1 pid; shift
  [ -f "$state/$name.pid" ] || return 0
  pid=$(cat "$state/$name.pid")
  if is "$pid" "$name"; then
    found=1
    kill "$pid"
    for _ in $(seq 80); do is "$pid" "$name" || break; sleep 0.25; done
    if is "$pid" "$name"; then kill -9 "$pid"; sleep 0.5; fi
    rm -f "$@"
    printf 'engine-stop: %s (pid %s) ended\n' "$name" "$pid"
  fi
  rm -f "$state/$name.pid"
}

stop dockerd /var/run/docker.sock /var/run/docker.pid
stop containerd /run/containerd/containerd.sock /run/containerd/containerd.sock.ttrpc
[ $found = 1 ] || printf 'engine-stop: no engine of %s is running\n' "$state"
