#!/bin/sh
# Install the system packages that a build and the emulated runs need, on Debian and Ubuntu.
# Uses sudo when not root; where that is not possible it says what is missing and goes on.
set -u

need=""
want() { # command, package...
    command -v "$1" >/dev/null 2>&1 && return
    shift
    need="$need $*"
}
want gcc gcc
want g++ g++
want make make
want cmake cmake
want ninja ninja-build
want qemu-system-arm qemu-system-arm
want arm-none-eabi-gcc gcc-arm-none-eabi libnewlib-arm-none-eabi
[ -f /usr/include/simde/x86/avx512.h ] || need="$need libsimde-dev"
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || need="$need python3-venv"
python3 - <<'PY' >/dev/null 2>&1 || need="$need python3-dev"
import pathlib, sysconfig
assert (pathlib.Path(sysconfig.get_path("include")) / "Python.h").is_file()
PY
[ -n "$need" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing, please install with your package manager:$need" >&2
    exit 0
fi
run=""
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "not root and no sudo; please have installed:$need" >&2
        exit 0
    fi
    run="sudo"
fi
echo "installing system packages:$need"
export DEBIAN_FRONTEND=noninteractive
$run apt-get update -qq || true
# shellcheck disable=SC2086
$run apt-get install -y -qq --no-install-recommends $need >/dev/null ||
    echo "could not install:$need; what needs them will be left out" >&2
exit 0
