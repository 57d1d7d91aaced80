# shellcheck shell=bash
# Functions and paths that the scripts of this folder share.

# Build results, which later runs reuse.
SCHEDLAB_CACHE=${SCHEDLAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/schedlab}
# Sockets and process ids, which do not survive a reboot.
SCHEDLAB_SOCKETS=${SCHEDLAB_SOCKETS:-/run/schedlab}
export SCHEDLAB_CACHE SCHEDLAB_SOCKETS

# say WORDS: prints progress to standard error; standard output is for data only.
say() { printf 'schedlab: %s\n' "$*" >&2; }

# fail WORDS: prints an error with a suggestion and exits with 3 (nothing could be started).
fail() {
    say "$*"
    exit 3
}

# need COMMAND PACKAGE: fails with the package to install if the command is missing.
need() { command -v "$1" >/dev/null || fail "$1 is missing: apt-get install $2"; }

# responds [HOST]: whether a Docker daemon responds (default: the host of the client).
responds() { DOCKER_HOST=${1:-${DOCKER_HOST:-}} timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# use_engine: makes the client use a daemon that responds, with our own daemon as the last choice.
use_engine() {
    need docker docker.io
    if responds; then return; fi
    [ -z "${DOCKER_HOST:-}" ] || fail "no Docker daemon responds at DOCKER_HOST=$DOCKER_HOST: start it, or unset DOCKER_HOST"
    responds "unix://$SCHEDLAB_SOCKETS/docker.sock" ||
        fail "no Docker daemon responds: start one, or run kind-configs/engine/start"
    export DOCKER_HOST=unix://$SCHEDLAB_SOCKETS/docker.sock
}

# run_baseline SCHEDLAB FEATURE...: runs the features on the emulator, as the baseline for another cluster.
run_baseline() { "$1" run "${@:2}" --results results/emulator >/dev/null 2>&1 || { say "the features fail on the emulator"; exit 1; }; }

# stamp FILE...: prints a hash of the files.
stamp() { cat -- "$@" | sha256sum | cut -c1-16; }
