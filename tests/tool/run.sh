#!/bin/bash
# The tool test: what the loom command says and the code that it exits with. Sizes are tiny: no rate is looked at.
#
#   tests/tool/run.sh PATH_TO_LOOM
#
# One line for each check (ok NAME, not ok NAME: why, skip NAME: why), then the counts; exits 1 if any failed.
# shellcheck disable=SC2016 # sentences have backquotes
set -euo pipefail

loom=$(realpath "${1:?usage: run.sh PATH_TO_LOOM}")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
passed=0 failed=0 skipped=0

pass() {
    passed=$((passed + 1))
    echo "ok $1"
}

fail() { # NAME WHY; then what the tool printed last
    failed=$((failed + 1))
    echo "not ok $1: $2"
    tail -n 20 out err | sed 's/^/    /'
}

skip() {
    skipped=$((skipped + 1))
    echo "skip $1: $2"
}

# run ARGUMENT...: runs the tool; then $code is its exit code, and the files out and err are what it printed.
run() {
    code=0
    "$loom" "$@" >out 2>err || code=$?
}

# refused NAME SENTENCE ARGUMENT...: the tool exits with 2, prints nothing to stdout, and exactly this sentence to stderr.
refused() {
    local name=$1 sentence=$2
    shift 2
    run "$@"
    if [[ $code != 2 ]]; then
        fail "$name" "exit code $code instead of 2: loom $*"
    elif [[ -s out ]]; then
        fail "$name" "it prints to stdout: loom $*"
    elif [[ $(<err) != "loom: $sentence" ]]; then
        fail "$name" "another sentence than \"$sentence\": loom $*"
    else
        pass "$name"
    fi
}

# ---- Versions --------------------------------------------------------------------------------------------------

prints_version() {
    run "$1"
    if [[ $code = 0 && $(<out) =~ ^loom\ [0-9]+\.[0-9]+\.[0-9]+,\ library\ [0-9]+\.[0-9]+\.[0-9]+$ ]]; then
        pass "$2"
    else
        fail "$2" "exit code $code, or no version: loom $1"
    fi
}

prints_version version tool_version
prints_version --version tool_version_long_option
prints_version -V tool_version_short_option
refused tool_unknown_command 'There is no command "-v"; `loom help` lists the commands.' -v

# ---- Doctor ----------------------------------------------------------------------------------------------------

# holds NAME COMMAND...: the command, which looks at out, succeeds.
holds() {
    local name=$1
    shift
    if "$@"; then
        pass "$name"
    else
        fail "$name" "not so: $*"
    fi
}

exits_with() { [[ $code = "$1" ]]; }
says() { grep -qE -- "$1" out; }
advice() { sed '1,/^what would help$/d' out; }
advises_nothing_about() { [[ $(advice) ]] && ! advice | grep -iqE -- "$1"; }
advises() { advice | grep -qE -- "$1"; }

run doctor
holds tool_doctor_exit_code exits_with 0
holds tool_doctor_ends_with_advice says '^what would help$'
holds tool_doctor_tells_how_cuda_was_built \
    says '^  cuda machine  (part of this build|left out of this build: LOOM_CUDA=(off|auto found .+))$'
has_gpu=0 has_cuda=0
says '^  device        found$' && has_gpu=1
says '^  cuda          present$' && has_cuda=1
if says '^  cuda machine  left out of this build: LOOM_CUDA=off$'; then
    holds tool_doctor_off_no_advice advises_nothing_about 'nvcc|cuda toolkit|gpu|nvidia|driver'
    if [[ $has_cuda = 0 ]]; then
        holds tool_doctor_off_own_words says '^  cuda          not present: it was left out of this build$'
    else
        skip tool_doctor_off_own_words "a module for the cuda machine was found all the same"
    fi
else
    skip tool_doctor_off_no_advice "LOOM_CUDA was not off"
    skip tool_doctor_off_own_words "LOOM_CUDA was not off"
fi
if ! says '^  cuda machine  left out of this build: LOOM_CUDA=auto'; then
    skip tool_doctor_auto_advice "LOOM_CUDA=auto left nothing out"
elif [[ $has_gpu = 1 && $has_cuda = 0 ]]; then
    holds tool_doctor_auto_advice advises 'build hashloom again with -DLOOM_CUDA=on'
else
    holds tool_doctor_auto_advice advises_nothing_about 'nvcc|cuda toolkit|nvidia|driver|LOOM_CUDA'
fi
refused tool_doctor_arguments 'doctor takes no arguments.' doctor now

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed = 0 ]]
