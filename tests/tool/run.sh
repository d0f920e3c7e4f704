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

# ---- Numbers out of range --------------------------------------------------------------------------------------

# Options are read from left to right, so that the sentence about the last one says that those before it were taken.
taken() { # NAME ARGUMENT...
    local name=$1
    shift
    refused "$name" 'There is no option --end.' "$@" --end
}

# ranged OPTION WANTS LOWEST HIGHEST TOO_LOW TOO_HIGH [COMMAND...]: both ends are taken, and what lies beyond them is
# refused with the range. A - stands for a number that cannot be had.
ranged() {
    local option=$1 wants=$2 lowest=$3 highest=$4 too_low=$5 too_high=$6 number
    shift 6
    local command=("${@:-bench}") name=tool_range_${1:-bench}_${option#--}
    for number in "$lowest" "$highest"; do
        taken "${name}_takes_$number" "${command[@]}" "$option" "$number"
    done
    for number in "$too_low" "$too_high" many -1 ""; do
        [[ $number = - ]] ||
            refused "${name}_refuses_${number:-nothing}" "$option wants $wants, not \"$number\"." \
                "${command[@]}" "$option" "$number"
    done
}

keys='a number of keys from 1 to 2^40 such as 2^24, 1M or 16Mi'
ranged --n "$keys" 1 2^40 0 2^41
ranged --queries "$keys" 1 1099511627776 0 1099511627777
ranged --absent "$keys" 1 1024Gi 0 1025Gi
ranged --batch "${keys/keys/keys per call}" 1 2^40 0 2^41
ranged --bytes 'a number of bytes from 1 to 2^38 such as 64Mi' 1 2^38 0 2^39
ranged --threads 'a number of threads from 0 to 1024' 0 1024 - 70000
ranged --repeat 'a number from 1 to 1000' 1 1000 0 1001
ranged --bits-per-key 'numbers of bits from 1 to 512' 1 512 0.99 600
ranged --load 'loads from 0.001 to 0.95' 0.001 0.95 0.0009 0.99
ranged --hit 'percentages from 0 to 100' 0 100 - 101
ranged --skew 'a Zipf exponent from 0 to 100' 0 100 - 101
ranged --more 'a share of the keys from 0.000001 to 1' 0.000001 1 0 2
ranged --hot 'a share of the keys from 0 to 1' 0 1 - 1.5
ranged --key-bytes '4 or 8' 4 8 3 5
ranged --value-bytes '4 or 8' 4 8 0 16
ranged --lanes '0, 1, 2, 4 or 8' 0 8 3 16
ranged --n 'a number of keys from 1 to 2^31 such as 2^22 or 1M' 1 2^31 0 2^32 tour
ranged --seed 'a number from 0 to 2^64 - 1' 0 18446744073709551615 - 18446744073709551616 tour
refused tool_range_nothing_after 'Name at least one case: limits, map, perfect, filter.' bench --n 1
refused tool_range_no_value '--repeat wants a number from 1 to 1000 after it.' bench map --repeat

many=$(printf '0.5,%.0s' {1..31})0.5
taken tool_list_of_32 bench --load "$many"
refused tool_list_of_33 '--load takes at most 32 values; leave some out.' bench --load "$many,0.6"
refused tool_list_of_33_in_two '--hit takes at most 32 values; leave some out.' bench --hit "$many" --hit 1
refused tool_list_of_33_operations '--ops takes at most 32 values; leave some out.' bench --ops "$many,find"
refused tool_list_wrong_value '--load wants loads from 0.001 to 0.95, not "0.96".' bench --load "$many,0.96"

# ---- Rows ------------------------------------------------------------------------------------------------------

tiny=(--machine cpu --n 1000 --repeat 1 --csv rows.csv --json rows.json)

# cells COLUMN: that column of rows.csv, without its title. No field of these runs has a comma in it.
cells() {
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next } { print at ? $at : "?" }' rows.csv
}

are() { [[ $(cells "$1" | sort -u | paste -sd' ') = "$2" ]]; } # COLUMN VALUES: those that are there, each once

# Keys that are there already cannot be inserted: whatever --skew says, these bring each key once, and in one call.
run bench map "${tiny[@]}" --load 0.8 --hit 50 --skew 1 --batch 10 --ops insert_more,grow,find
holds tool_plain_keys_are_right exits_with 0
holds tool_plain_keys_checked are check ok
run bench map "${tiny[@]}" --load 0.8 --batch 10 --ops insert,extend,insert_more
holds tool_extension_in_one_call are batch "10 90"

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed = 0 ]]
