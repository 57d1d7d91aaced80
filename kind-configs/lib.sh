# shellcheck shell=bash
# What the scripts of this folder share: where things are kept, and how they speak.

# Everything that is built here outlives the run: the next one takes it from there.
SCHEDLAB_CACHE=${SCHEDLAB_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/schedlab}
# Sockets and process ids do not: they are as old as the boot.
SCHEDLAB_SOCKETS=${SCHEDLAB_SOCKETS:-/run/schedlab}
export SCHEDLAB_CACHE SCHEDLAB_SOCKETS

# say WORDS: progress, to standard error; data alone goes to standard output.
say() { printf 'schedlab: %s\n' "$*" >&2; }

# fail WORDS: one message with what to do, exit code 3 (nothing could be started).
fail() {
    say "$*"
    exit 3
}

# need COMMAND PACKAGE: the command is there, or the message says what brings it.
need() { command -v "$1" >/dev/null || fail "$1 is missing: apt-get install $2"; }

# answers [HOST]: a Docker daemon answers there (default: where the client looks by itself).
answers() { DOCKER_HOST=${1:-${DOCKER_HOST:-}} timeout 10 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; }

# use_engine: points the client at the daemon that answers, ours last.
use_engine() {
    need docker docker.io
    if answers; then return; fi
    [ -z "${DOCKER_HOST:-}" ] || fail "no Docker daemon answers at DOCKER_HOST=$DOCKER_HOST: start it, or unset DOCKER_HOST"
    answers "unix://$SCHEDLAB_SOCKETS/docker.sock" ||
        fail "no Docker daemon answers: start yours, or kind-configs/engine/start"
    export DOCKER_HOST=unix://$SCHEDLAB_SOCKETS/docker.sock
}

# emulated SCHEDLAB FEATURE...: runs them on the emulator, for another cluster to be held against.
emulated() { "$1" run "${@:2}" --results results/emulator >/dev/null 2>&1 || { say "they fail on the emulator"; exit 1; }; }

# stamp FILE...: one word that changes when any of the files does.
stamp() { cat -- "$@" | sha256sum | cut -c1-16; }
