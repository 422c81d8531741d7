#!/bin/sh
# Installs the Debian packages of real programs that the tests run against; as root. Does nothing when they are there.
set -eu
export DEBIAN_FRONTEND=noninteractive
# Packages of servers start none of them: the tests start their own.
export RUNLEVEL=1

missing=""
need() { # PACKAGE PROGRAM...
  package=$1
  shift
  for program; do
    command -v "$program" >/dev/null || missing="$missing $package"
  done
}

need make make
need bubblewrap bwrap
need dropbear-bin dropbear dropbearkey
need git git
need iproute2 ip
need openssl openssl
need iptables iptables
need docker.io dockerd containerd
need docker-registry docker-registry
need procps ps
need util-linux setsid
need openssh-server /usr/sbin/sshd
need openssh-client ssh ssh-keygen
need openssl openssl
need iproute2 ip
need debootstrap debootstrap
need docker-registry docker-registry
need podman podman
need catatonit catatonit
need fish fish
need mksh mksh
need yash yash
need zsh zsh
need tcsh tcsh
need bash bash
# Debian's other busybox is linked to libraries that an image made of it alone does not have.
dpkg -s busybox-static >/dev/null 2>&1 || missing="$missing busybox-static"
if [ -n "$missing" ]; then
  echo "install:$missing"
  apt-get update -q >/dev/null
  # shellcheck disable=SC2086 # a list of words
  apt-get install -yq --no-install-recommends $missing >/dev/null
fi
# Since Debian 13 the client is a package of its own.
command -v docker >/dev/null || apt-get install -yq --no-install-recommends docker-cli >/dev/null
