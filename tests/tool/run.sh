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

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed = 0 ]]
