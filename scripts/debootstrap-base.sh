#!/usr/bin/env bash
# Makes the file system of a small Debian as a tar file, for hosts on which no base image can be pulled.
# usage: debootstrap-base.sh OUT.tar [SUITE]      (root; about half a minute)
# Mirror and keyring come from the host's own apt sources (one-line and deb822), where they carry the suite;
# DEBIAN_MIRROR and DEBIAN_KEYRING override them.
set -euo pipefail

out=${1:?usage: debootstrap-base.sh OUT.tar [SUITE]}
suite=${2:-bookworm}
export PATH=$PATH:/usr/sbin:/sbin
die() { printf 'debootstrap-base: %s\n' "$*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "debootstrap needs root: run as root, or load a base image and pass it as BASE"
command -v debootstrap >/dev/null || die "debootstrap is missing: apt-get install debootstrap"

mirror=${DEBIAN_MIRROR:-}
keyring=${DEBIAN_KEYRING:-}
if [ -z "$mirror" ] && command -v apt-get >/dev/null; then
  # apt knows its sources in either format; "entry" is FILE:LINE of the one that carries the suite.
  read -r mirror entry < <(apt-get indextargets --format '$(REPO_URI) $(SOURCESENTRY) $(CODENAME) $(COMPONENT)' \
    'Created-By: Packages' 'Origin: Debian' 2>/dev/null | awk -v suite="$suite" '$3 == suite && $4 == "main" {print $1, $2; exit}') || true
  if [ -n "${entry:-}" ] && [ -z "$keyring" ]; then
    keyring=$(sed -nE 's/^Signed-By: *(\/[^ ]+).*/\1/p; s/.*[[ ]signed-by=(\/[^] ]+).*/\1/p' "${entry%:*}" | head -n 1)
  fi
fi
for candidate in "$keyring" /usr/share/keyrings/debian-archive-keyring.gpg /etc/apt/trusted.gpg.d/debian-archive-keyring.gpg; do
  if [ -n "$candidate" ] && [ -r "$candidate" ]; then keyring=$candidate; break; fi
  keyring=
done
[ -n "$keyring" ] || die "no keyring to check Debian's packages with: apt-get install debian-archive-keyring, or set DEBIAN_KEYRING"
eval "$(apt-config shell http_proxy Acquire::http::Proxy https_proxy Acquire::https::Proxy 2>/dev/null || true)"
[ -z "${http_proxy:-}" ] || [ "$http_proxy" = DIRECT ] || export http_proxy
[ -z "${https_proxy:-}" ] || [ "$https_proxy" = DIRECT ] || export https_proxy

work=$(mktemp -d "${TMPDIR:-/var/tmp}/base-XXXXXX")
trap 'rm -rf --one-file-system "$work"' EXIT
printf 'debootstrap-base: %s from %s (keyring %s)\n' "$suite" "${mirror:-debootstrap default mirror}" "$keyring"
debootstrap --variant=minbase --keyring="$keyring" "$suite" "$work/root" ${mirror:+"$mirror"} >"$work/log" 2>&1 ||
  die "debootstrap failed: $(tail -n 1 "$work/log") (set DEBIAN_MIRROR to a mirror this host reaches)"

# What an image has no use for: caches, manuals, translations, and the host's name and resolver.
cd "$work/root"
rm -rf var/cache/apt/* var/lib/apt/lists/* var/log/* usr/share/man/* usr/share/info/* usr/share/locale/* usr/share/lintian
find usr/share/doc -mindepth 2 ! -name copyright -delete 2>/dev/null || true
rm -f etc/hostname etc/resolv.conf
cd - >/dev/null
tar --numeric-owner --one-file-system -C "$work/root" --exclude=./proc/* --exclude=./sys/* --exclude=./dev/* -cf "$out.part" .
mv "$out.part" "$out"
printf 'debootstrap-base: wrote %s (%s MiB)\n' "$out" "$(($(stat -c %s "$out") >> 20))"
