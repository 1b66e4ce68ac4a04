#!/usr/bin/env bash
# Makes the image gpu-host:latest: a skeleton without a userland. What runs in it is mounted from this host, read-only
# (matrix.yaml beside this file: mounts). Needs a Docker engine, no registry.
set -euo pipefail
name=${1:-gpu-host:latest}
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
cd "$root"
mkdir -p proc sys dev etc root run work opt cache usr/local/nvidia sbin
mkdir -m 1777 tmp # runc gives a tmpfs the mode of the folder it hides: 755 would shut out the cell's user
for folder in bin lib lib64; do ln -s "usr/$folder" "$folder"; done
# /sbin is a real folder, since --init mounts its program there. Triton asks /sbin/ldconfig where libcuda lies; on
# Ubuntu that name is a wrapper around ldconfig.real.
for program in ldconfig ldconfig.real; do
  if [ -e /usr/sbin/ldconfig.real ]; then ln -s /usr/sbin/ldconfig.real "sbin/$program"; else ln -s /usr/sbin/ldconfig "sbin/$program"; fi
done
cp -r /etc/ld.so.* /etc/passwd /etc/group /etc/nsswitch.conf etc/ 2>/dev/null || true
[ ! -d /etc/alternatives ] || cp -r /etc/alternatives etc/ # gcc and cc may be links through here
tar -c . | docker import - "$name"
