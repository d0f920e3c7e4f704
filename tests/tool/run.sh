#!/bin/bash
# The tool test: the output of the loom command and its exit code. Sizes are tiny: no rate is checked.
#
#   tests/tool/run.sh PATH_TO_LOOM
#
# One line for each check (ok NAME, not ok NAME: why, skip NAME: why), then the counts; exits 1 if any failed.
# shellcheck disable=SC2016 # sentences have backquotes
set -euo pipefail

loom=$(realpath "${1:?usage: run.sh PATH_TO_LOOM}")
data=$(realpath "$(dirname "$0")/../data")

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

# run ARGUMENT...: runs the tool. Then $code is its exit code, and the files out and err hold its output.
run() {
    code=0
    timeout 20 "$loom" "$@" >out 2>err || code=$?
}

# refused NAME SENTENCE ARGUMENT...: the tool exits with 2, prints nothing to stdout, and this sentence to stderr.
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

# ---- Saved tables ----------------------------------------------------------------------------------------------

run info "$data/golden_rows_map_strings_8.loom"
holds tool_info_strings_exit_code exits_with 0
holds tool_info_strings_keys says '^  key bytes              byte strings of up to 40$'
holds tool_info_strings_values says '^  value bytes            8$'
holds tool_info_strings_bytes says '^  bytes of strings       [1-9][0-9]*, which take [1-9][0-9]*$'
holds tool_info_strings_room says '^  room for strings       8192 bytes, [1-9][0-9]* free, [1-9][0-9]* unused$'
run info "$data/golden_rows_map_strings_strings.loom"
holds tool_info_strings_as_values says '^  value bytes            byte strings of up to 25$'
run info "$data/golden_map_4_8.loom"
holds tool_info_numbers_keys says '^  key bytes              4$'
holds tool_info_numbers_values says '^  value bytes            8$'
holds tool_info_numbers_have_no_strings [ "$(grep -c string out)" = 0 ]
run check "$data/golden_rows_map_strings_strings.loom"
holds tool_check_strings exits_with 0
run info "$data/golden_durable_map_8_8"
holds tool_info_durable_exit_code exits_with 0
holds tool_info_durable_commit says '^  newest commit          6$'
run check "$data/golden_durable_map_8_8"
holds tool_check_durable exits_with 0
mkdir damaged && cp "$data"/golden_durable_map_8_8/* damaged/
printf x | dd of=damaged/journal bs=1 seek=12388 conv=notrunc 2>/dev/null
run check damaged
holds tool_check_durable_damage exits_with 1
holds tool_check_durable_damage_place grep -q 'damaged from byte 12288 on' err

# ---- Numbers out of range --------------------------------------------------------------------------------------

# Options are read from left to right: a sentence about the last one shows that those before it were accepted.
taken() { # NAME ARGUMENT...
    local name=$1
    shift
    refused "$name" 'There is no option --end.' "$@" --end
}

# ranged OPTION WANTS LOWEST HIGHEST TOO_LOW TOO_HIGH [COMMAND...]: both ends are accepted. Numbers beyond them are
# refused, and the sentence names the range. A - stands for a number that cannot be tested.
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
                "${command[@]}" "$option" "$number" --end
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
ranged --skew 'a Zipf exponent from 0 to 100, or real' 0 100 - 101
taken tool_range_bench_skew_takes_real bench --skew real
ranged --more 'a share of the keys from 0.000001 to 1' 0.000001 1 0 2
ranged --hot 'a share of the keys from 0 to 1' 0 1 - 1.5
ranged --key-bytes 'a number of bytes from 4 to 256' 4 256 3 257
ranged --value-bytes 'a number of bytes from 1 to 65536' 1 65536 0 65537
ranged --lanes '0, 1, 2, 4 or 8' 0 8 3 16
ranged --n 'a number of keys from 1 to 2^31 such as 2^22 or 1M' 1 2^31 0 2^32 tour
ranged --groups 'numbers of groups from 1 to 2^32' 1 4294967296 0.5 4294967297
ranged --seed 'a number from 0 to 2^64 - 1' 0 18446744073709551615 - 18446744073709551616 tour
refused tool_range_nothing_after \
    'Name at least one case: limits, map, perfect, filter, multi, threads, widths, stadium, group.' bench --n 1
refused tool_range_no_value '--repeat wants a number from 1 to 1000 after it.' bench map --repeat

many=$(printf '0.5,%.0s' {1..31})0.5
taken tool_list_of_32 bench --load "$many"
refused tool_list_of_33 '--load takes at most 32 values; leave some out.' bench --load "$many,0.6"
refused tool_list_of_33_in_two '--hit takes at most 32 values; leave some out.' bench --hit "$many" --hit 1
refused tool_list_of_33_operations '--ops takes at most 32 values; leave some out.' bench --ops "$many,find"
refused tool_list_wrong_value '--load wants loads from 0.001 to 0.95, not "0.96".' bench --load "$many,0.96"

# ---- Options that nothing uses ---------------------------------------------------------------------------------

# runs NAME ARGUMENT...: the arguments make sense. The run ends before it begins, since its file cannot be written.
runs() {
    local name=$1
    shift
    run bench --machine cpu "$@" --csv none/rows.csv
    if [[ $code = 1 && $(<err) = 'loom: none/rows.csv cannot be written: No such file or directory.' ]]; then
        pass "$name"
    else
        fail "$name" "exit code $code, or another sentence: loom bench $*"
    fi
}

# no_bench NAME SENTENCE ARGUMENT...: the arguments make no sense. If they are not refused, the run ends as above.
no_bench() {
    refused "$1" "$2" bench --csv none/rows.csv "${@:3}"
}

# unused CASES OPTION OPTION_OF [VALUE]: none of the named cases uses the option.
unused() {
    local cases option=$2 words="case $1 does"
    read -ra cases <<<"$1"
    [[ ${#cases[@]} = 1 ]] || words="cases ${1/ / and } do"
    no_bench "tool_unused_${1/ /_}_${option#--}" \
        "The $words not use $option; leave it out. It is an option of $3." "${cases[@]}" "$option" ${4:+"$4"}
}

# unused_by_ops NAME OPTION OPERATIONS ARGUMENT...: a case uses the option, but no operation that would run.
unused_by_ops() {
    local name=$1 option=$2 ops=$3
    shift 3
    no_bench "tool_unused_by_ops_$name" \
        "No operation that would run uses $option; leave it out, or let --ops name one that does: $ops." "$@"
}

tables='map, perfect, filter, multi, widths, stadium and group'
all='map, perfect, filter, multi, threads, widths, stadium and group'
loaded='map, perfect, multi, widths, stadium and group' engines=$all
unused limits --load "$loaded" 0.5
unused limits --n "$all" 5
unused limits --repeat "$tables" 3
unused limits --ops "$all" find
unused limits --engine "$engines" open
unused limits --lanes "$tables" 4
unused limits --key-bytes "$all" 8
unused filter --load "$loaded" 0.8
unused filter --skew 'map, perfect, multi and group' 1
unused filter --hot 'map and perfect' 0.5
unused filter --more 'map and perfect' 0.5
unused filter --type 'map and perfect' set
unused filter --value-bytes 'map, perfect, multi, threads, widths, stadium and group' 8
unused filter --concurrent-reads 'map, perfect and threads' yes
unused filter --workspace 'map and perfect' yes
unused limits --limits 'map, perfect, filter, widths and stadium' no
unused threads --limits 'map, perfect, filter, widths and stadium' no
unused threads --load "$loaded" 0.5
unused widths --batch 'map, perfect, filter, threads, stadium and group' 5
unused multi --from 'map, perfect and group' 0
unused multi --wait 'map, perfect, filter and group' last
unused map --groups group 5
unused map --callers threads 2
unused map --layout widths apart
unused map --ticket-bits widths 4
unused map --values-per-key multi 2
unused map --first-bucket multi 2
unused map --bucket-growth multi 2
unused map --bits-per-key filter 8
unused map --bytes filter 1Mi
unused map --absent filter 5
unused map --sweep 'perfect and multi'
unused map --figure stadium 14
unused perfect --absent filter 5
unused 'limits filter' --load "$loaded" 0.5
runs tool_used_limits limits --threads 1 --json rows.json
runs tool_used_by_one_of_two map filter --load 0.5 --bits-per-key 8 --hit 5
runs tool_used_map map --type counter --engine open --n 10 --queries 10 --load 0.5 --hit 5 --skew 1 --hot 0.1 \
    --batch 5 --wait last --concurrent-reads yes --key-bytes 8 --value-bytes 8 --repeat 1
runs tool_used_filter filter --engine bloom --n 10 --queries 10 --absent 5 --bits-per-key 8 --hit 5 --batch 5 \
    --wait last --key-bytes 8 --repeat 1
runs tool_used_threads threads --engine open --n 10 --batch 5 --callers 1,2 --concurrent-reads yes --key-bytes 8 \
    --value-bytes 8
runs tool_used_widths widths --n 10 --load 0.5 --hit 50 --engine rows --key-bytes 33 --value-bytes 7 --ops find \
    --layout apart --repeat 1
runs tool_used_tickets widths --n 100 --load 0.5 --hit 50 --engine tickets --key-bytes 33 --value-bytes 7 \
    --ticket-bits 4 --repeat 1
runs tool_used_stadium stadium --n 2000 --load 0.5 --hit 50 --batch 100 --key-bytes 33 --value-bytes 7 --repeat 1 \
    --ops build,insert,find,routes,grow
runs tool_used_stadium_on_the_machine stadium --n 2000 --engine rows --ops find --batch 300 --repeat 1
runs tool_used_stadium_figure stadium --figure 14 --n 2000 --batch 128 --repeat 1
runs tool_used_group group --n 2000 --groups 10,1e3 --from 0,0.5,1 --load 0.5 --skew 1 --batch 100 --wait last \
    --engine open --key-bytes 4 --value-bytes 4 --ops count,aggregate --repeat 1
runs tool_used_filter_of_wide_keys filter --n 10 --key-bytes 256
no_bench tool_width_of_map 'The case map wants --key-bytes 4 or 8; other widths are for filter, multi, widths and stadium.' \
    map widths --key-bytes 16
no_bench tool_width_of_two 'The cases perfect and threads want --value-bytes 4 or 8; other widths are for multi, widths and stadium.' \
    perfect threads --value-bytes 16
no_bench tool_width_of_keys '--key-bytes 5: the keys of the benchmark have 4 bytes, or 8 to 256.' widths --key-bytes 5
runs tool_used_multi_of_wide_pairs multi --n 10 --key-bytes 33 --value-bytes 7 --engine chain
runs tool_used_multi multi --n 10 --load 0.5 --skew 1 --values-per-key 2,3 --key-bytes 8 --value-bytes 8 --repeat 1
runs tool_used_multi_real multi --n 10 --skew real --ops build,find_paper --repeat 1
runs tool_used_multi_sweep multi --sweep --n 10 --engine chain --ops build,append --key-bytes 8 --repeat 1
runs tool_used_chain multi --engine chain --first-bucket 2 --bucket-growth 1.5 --n 10 --repeat 1
runs tool_used_sweep perfect --sweep --n 10 --queries 10 --type set --skew 1 --hot 0.1 --batch 5 --key-bytes 8 \
    --repeat 1

unused_by_ops more --more 'extend, insert_more or more_from' map --more 0.5
unused_by_ops more_of_perfect --more 'extend, insert_more or more_from' perfect --more 0.5
unused_by_ops from --from 'grow_from, build_from or more_from' map --from 0 --ops insert_more
unused_by_ops hit --hit 'find or churn' map --hit 50 --ops build,insert
unused_by_ops hit_of_widths --hit 'find or contains' widths --hit 50 --ops build
unused_by_ops queries --queries 'find, refuse or churn' map --queries 50 --ops insert
unused_by_ops hit_of_filter --hit contains filter --hit 50 --ops insert,bulk
unused_by_ops batch_of_filter --batch 'insert or contains' filter --batch 5 --ops bulk
unused_by_ops sweep --queries find perfect --sweep --queries 50 --ops insert
for option in --batch=5 --wait=last; do
    unused_by_ops "${option//[-=]/_}" "${option%=*}" \
        'insert, find_or_insert, apply, accumulate, count, update, overwrite, find, erase, insert_more, churn, grow_from or more_from' \
        map "$option" --ops build,grow
done
for option in --skew=1 --hot=0.5; do
    unused_by_ops "${option//[-=.]/_}_of_set" "${option%=*}" 'build, build_ways, insert, find, erase or churn' \
        map --type set "$option" --ops grow,extend
done
runs tool_used_more map --more 0.5 --batch 5 --wait last --ops insert_more
runs tool_used_apply map --batch 7 --ops apply
runs tool_used_from map --from 0,0.5 --ops grow_from
runs tool_used_more_from map --from 0,0.5 --more 0.5 --batch 7 --ops more_from
runs tool_used_queries_of_refuse perfect --queries 5 --ops refuse
runs tool_used_hit_of_churn map --hit 50 --ops churn
runs tool_used_batch map --batch 5 --ops build,find

for option in --load=0.5 --hit=50 --more=0.1; do
    no_bench "tool_sweep_has_its_own_${option//[-=.]/_}" \
        "With --sweep each figure has its own ${option%=*}; leave it out." perfect --sweep "$option"
done
for option in --load=0.5 --skew=real --values-per-key=8 --first-bucket=2 --bucket-growth=1.5; do
    no_bench "tool_sweep_of_multi_has_its_own_${option//[-=.]/_}" \
        "With --sweep each figure has its own ${option%=*}; leave it out." multi --sweep "$option"
done
for option in --load=0.5 --hit=50 --engine=rows --key-bytes=8 --ops=find --limits=no --batch=128; do
    no_bench "tool_figure_without_${option//[-=.]/_}" \
        "With --figure 17 the case stadium does not take ${option%=*}; leave it out." stadium --figure 17 "$option"
done
no_bench tool_figure_of_no_name '--figure wants 13, 14, 15, 16, 17, 18, 19 or table1, not "20".' stadium --figure 20
runs tool_figure_and_map stadium map --figure 17 --load 0.5
runs tool_sweep_and_map perfect map --sweep --load 0.5
no_bench tool_sweep_without_operation 'No figure of --sweep has the operation "churn"; leave it out.' \
    perfect --sweep --ops find,churn
no_bench tool_sweep_of_multi_without_operation 'No figure of --sweep has the operation "counts"; leave it out.' \
    multi --sweep --ops counts
no_bench tool_real_skew_of_map 'The case map has no --skew real; give a Zipf exponent.' map multi --skew real
no_bench tool_real_skew_has_its_values '--skew real has its own numbers of values: leave --values-per-key out.' \
    multi --skew real --values-per-key 8
no_bench tool_operation_of_no_case 'No case that was named has the operation "contains".' map --ops contains --hit 5
no_bench tool_operation_not_of_sets 'A set has no operation "update".' map --type set --ops update
no_bench tool_engine_of_filters 'The case map has no engine bloom; choose another one, or leave --engine out.' \
    map --engine bloom
no_bench tool_engine_of_maps 'The case filter has no engine open; choose another one, or leave --engine out.' \
    filter --engine open
runs tool_engine_of_perfect perfect --engine open
runs tool_keys_of_4_bytes map perfect --ops build,extend --n 3000000000
runs tool_keys_of_4_bytes_looked_up map --ops build,find --n 2^31
for case in 'map --ops build,find' 'map --ops find' map perfect 'widths --ops build' 'map widths --ops build'; do
    read -ra words <<<"$case"
    no_bench "tool_too_few_keys_of_4_bytes_${case//[ ,-]/_}" \
        '--n above 2147483648 wants --key-bytes 8: there are not enough different keys of 4 bytes.' \
        "${words[@]}" --n 3000000000
done
no_bench tool_too_few_keys_of_4_bytes_to_check \
    '--n above 4293918720 wants --key-bytes 8: there are not enough different keys of 4 bytes.' map --ops build --n 2^32
no_bench tool_lanes_of_cpu 'The cpu machine does not use --lanes; leave it out.' map --machine cpu --lanes 2

# ---- The tour --------------------------------------------------------------------------------------------------

# The engines that the help names are those that the tour goes over and that --engine takes.
run tour --help
engines=$(sed '1,/^Engines:$/d' out | awk '{ print $1 }' | paste -sd' ')
toured() { [[ $(sed -n 's/^Engine \([a-z]*\): .*/\1/p' out | paste -sd' ') = "$1" ]]; }
run tour --machine cpu --n 300
holds tool_tour_exit_code exits_with 0
holds tool_tour_has_every_engine toured "$engines"
holds tool_tour_is_right says 'answers checked in .*: all are right\.$'
for engine in $engines; do
    run tour --machine cpu --n 300 --engine "$engine"
    holds "tool_tour_of_$engine" toured "$engine"
    runs "tool_bench_of_$engine" map filter multi --engine "$engine"
done
choices=${engines// /, }
refused tool_tour_of_no_engine "--engine wants all, ${choices%, *} or ${choices##*, }, not \"none\"." tour --engine none

# ---- Rows ------------------------------------------------------------------------------------------------------

tiny=(--machine cpu --n 1000 --repeat 1 --csv rows.csv --json rows.json)

# cells COLUMN: that column of rows.csv, without its title. No field of these runs has a comma in it.
cells() {
    awk -F, -v name="$1" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
        { print at ? $at : "?" }' rows.csv
}

are() { [[ $(cells "$1" | sort -u | paste -sd' ') = "$2" ]]; } # COLUMN VALUES: those that are there, each once

# Skewed keys have no limits: measuring them would take longer than all the rest.
# Keys that exist cannot be inserted: extend, insert_more and grow bring each key once, whatever --skew says; extend and
# grow in one call, whatever --batch says.
run bench map "${tiny[@]}" --load 0.8 --hit 50 --skew 1 --batch 10 --ops insert,find,grow,extend,insert_more
holds tool_plain_keys_are_right exits_with 0
holds tool_plain_keys_checked are check ok
holds tool_plain_keys_in_one_call are batch '10 1000 90'
for wait in each last; do
    run bench map perfect "${tiny[@]}" --load 0.8 --hit 100 --more 0.5 --batch 64 --wait $wait --ops insert_more,find \
        --limits no
    holds tool_calls_${wait}_are_right exits_with 0
    holds tool_calls_${wait}_checked are check ok
    holds tool_calls_${wait}_batches are batch 64
    holds tool_calls_${wait}_have_times [ "$(cells call_us | grep -c '^[0-9]')" = 4 ]
    holds tool_calls_${wait}_of_half_of_the_keys [ "$(grep -c ' 8 calls of [0-9.]* µs' out)" = 2 ]
    holds tool_calls_${wait}_of_lookups [ "$(grep -c ' 16 calls of [0-9.]* µs' out)" = 2 ]
done
run bench threads --machine cpu --n 1000 --batch 10 --callers 1,3 --csv rows.csv
holds tool_threads_is_right exits_with 0
holds tool_threads_checked are check ok
holds tool_threads_callers are callers '1 3'
holds tool_threads_ops are op 'find find_beside_insert find_beside_save find_host find_pinned'
for type in map set; do # of 200,000 keys a partition holds less than 50,000
    run bench map perfect "${tiny[@]}" --type $type --n 200000 --queries 50000 --load 0.8 --ops refuse
    holds tool_refuse_${type}_is_right exits_with 0
    holds tool_refuse_${type}_checked are check ok
    holds tool_refuse_${type}_batches are batch 50000
    holds tool_refuse_${type}_refuses [ "$(cells refused | grep -c '^[1-9]')" = 2 ]
done
for engine in open perfect; do
    run bench map "${tiny[@]}" --engine $engine --load 0.8 --batch 100 --from 0,0.01,1 --more 0.5 \
        --ops grow_from,build_from,more_from
    holds tool_grow_from_${engine}_is_right exits_with 0
    holds tool_grow_from_${engine}_checked are check ok
    holds tool_grow_from_${engine}_capacities are from '0.0000 0.0100 1.0000'
    holds tool_grow_from_${engine}_keys are op 'build_from grow_from grow_from_repeats more_from'
done
for engine in open perfect rows; do
    run bench group "${tiny[@]}" --engine $engine --groups 10,1e3 --from 0,0.1,1 --batch 300
    holds tool_group_${engine}_is_right exits_with 0
    holds tool_group_${engine}_checked are check ok
    holds tool_group_${engine}_groups are groups '10 1000'
    holds tool_group_${engine}_capacities are from '0.0000 0.1000 1.0000'
    holds tool_group_${engine}_ops are op 'aggregate count'
    holds tool_group_${engine}_calls [ "$(grep -cE '; (4|12) calls of [0-9.]* µs' out)" = 12 ]
done
run bench group "${tiny[@]}" --groups 5e3 --skew 1 --wait last --batch 300 --key-bytes 4 --value-bytes 4
holds tool_group_last_is_right exits_with 0
holds tool_group_last_checked are check ok
run bench multi --machine cpu --n 3000 --load 0.8 --values-per-key 1,7,3000 --repeat 1 --csv rows.csv
holds tool_multi_is_right exits_with 0
holds tool_multi_checked are check ok
holds tool_multi_values are values_per_key '1.0000 3000.0000 7.0000'
holds tool_multi_ops are op 'append build counts find_all find_grown find_paper find_twice insert'
run bench multi "${tiny[@]}" --load 0.8 --skew real --ops build,find_all,insert
holds tool_multi_real_is_right exits_with 0
holds tool_multi_real_checked are check ok
holds tool_multi_real_values are drawn real
run bench multi "${tiny[@]}" --sweep
holds tool_multi_sweep_is_right exits_with 0
holds tool_multi_sweep_checked are check ok
holds tool_multi_sweep_ops are op 'build find_paper'
holds tool_multi_sweep_engines are engine 'chain open'
holds tool_multi_sweep_buckets are bucket_growth ' 1.0000 1.1001'
holds tool_multi_sweep_drawn are drawn 'real uniform'
holds tool_multi_sweep_has_density [ "$(cells density | grep -c '^0\.[0-9]')" = 72 ]
# Skips measuring limits, which takes long: only finds have one.
run bench widths "${tiny[@]}" --ops build,insert
holds tool_widths_are_right exits_with 0
holds tool_widths_checked are check ok
holds tool_widths_of_keys are key_bytes '16 32 4 40 8'
holds tool_widths_of_values are value_bytes '128 4 512 8'
holds tool_widths_engines are engine 'open rows'
holds tool_widths_rows [ "$(cells bytes_per_entry | grep -c '^[1-9]')" = 16 ]
run bench widths "${tiny[@]}" --engine rows --key-bytes 33 --value-bytes 7 --load 0.5,0.9
holds tool_widths_given_is_right exits_with 0
holds tool_widths_given_checked are check ok
holds tool_widths_given_ops are op 'build contains find insert update'
holds tool_widths_given_hits are hit ' 0.0000 100.0000'
holds tool_widths_given_share [ "$(cells share | grep -c '^[0-9]')" = 8 ]
run bench widths "${tiny[@]}" --layout apart --ops build
holds tool_widths_apart_exit_code exits_with 0
holds tool_widths_apart are check 'left out ok'
run bench widths "${tiny[@]}" --engine open --ops build
holds tool_widths_left_out_exit_code exits_with 0
holds tool_widths_left_out are check 'left out ok'
run bench filter "${tiny[@]}" --key-bytes 33 --bits-per-key 8 --absent 1000 --ops bulk
holds tool_filter_of_wide_keys_is_right exits_with 0
holds tool_filter_of_wide_keys_checked are check ok
run bench map filter "${tiny[@]}" --engine bloom --load 0.8 --bits-per-key 8 --absent 1000 --ops bulk,insert_more
holds tool_engine_of_the_other_case are engine 'bloom open'

# figure FIGURE ROWS OPERATIONS ENGINES [OPTION...]: so many rows are right, and the others are left out.
figure() {
    run bench stadium "${tiny[@]}" --figure "$1" "${@:5}"
    holds "tool_figure_$1_is_right" exits_with 0
    holds "tool_figure_$1_rows" [ "$(cells check | grep -c '^ok$')" = "$2" ]
    holds "tool_figure_$1_no_other_failed" [ "$(cells check | grep -cvE '^(ok|left out)$')" = 0 ]
    holds "tool_figure_$1_ops" are op "$3"
    holds "tool_figure_$1_engines" are engine "$4"
}
figure 13 200 'insert part' 'rows tickets'
figure 14 42 mixed 'cuckoo open rows tickets' --batch 128
holds tool_figure_14_shares [ "$(cells share | grep -c '^[0-9]')" = 36 ]
figure 15 28 'apart mixed' 'cuckoo open rows tickets' --batch 128
holds tool_figure_15_shares [ "$(cells share | grep -c '^[0-9]')" = 14 ]
figure 16 36 mixed 'cuckoo rows tickets' --batch 1
holds tool_figure_16_places are row_place host
figure 17 30 'erase find insert' 'cuckoo rows tickets'
holds tool_figure_17_hits are hit ' 100.0000 50.0000'
figure 18 39 'create find insert' 'cuckoo open rows tickets'
holds tool_figure_18_left_out [ "$(cells check | grep -c '^left out$')" = 1 ]
holds tool_figure_18_ticket_bits are ticket_bits ' 1 2 4 8'
figure 19 180 'erase find insert' 'rows tickets'
figure table1 12 insert 'cuckoo rows tickets'
if [[ $has_cuda = 1 ]]; then # without the reference
    run bench stadium "${tiny[@]}" --machine cuda --figure 18
    holds tool_figure_on_cuda_is_right exits_with 0
    holds tool_figure_on_cuda_checked are check 'left out ok'
else
    skip tool_figure_on_cuda "no cuda machine"
fi

run bench map perfect "${tiny[@]}" --load 0.8 --ops build,find,insert --hit 50 --workspace yes
holds tool_workspace_is_right exits_with 0
holds tool_workspace_checked are check ok
holds tool_workspace_told says 'workspace 0\.0'

# ---- The share of the cores ------------------------------------------------------------------------------------

columns=case,engine,machine,op,key_bytes,value_bytes,n,load,hit,skew,batch,mops,gbps,accesses,limit,share,check
columns+=,limit_name,hot,bits_per_key,probes,fp_measured,fp_theory,fp_stats,refused,code_bytes,stashed,lanes,figure
columns+=,core_share,from,callers,median_us,p99_us,longest_us,values_per_key,density
columns+=,drawn,first_bucket,bucket_growth,bytes_per_entry,groups,call_us,ticket_bits,row_place

columns_are() { [[ $(head -n 1 rows.csv) = "$1" ]]; }

# These keys are too few for two threads: one of them has nothing to do, however many cores there are. The tool prints a
# sentence with the number of the column if that is below 0.9. The clocks may add so much to a row of a few microseconds
# that it gets no sentence.
share_is_told() {
    cells core_share >shares
    grep -o 'threads had [0-9]* % of 2 cores' out | tr -dc '0-9\n' | sed 's/2$//' >told
    awk 'FNR == NR { told[NR] = $1; next }
        $1 <= 0 { exit wrong = 1 }
        $1 < 0.9 { rows++; if (told[rows] > 100 * $1 + 0.6 || told[rows] < 100 * $1 - 0.6) exit wrong = 1 }
        END { exit wrong || rows == 0 || rows != length(told) }' told shares
}

json_is_csv() { diff <(sed -n 's/.*"core_share": \([0-9.]*\)[,}].*/\1/p' rows.json) <(cells core_share); }

run bench map perfect filter "${tiny[@]}" --n 5000 --threads 2 --load 0.8 --hit 50 --skew 1 --bits-per-key 8 \
    --absent 1000 --ops find,bulk
holds tool_core_share_exit_code exits_with 0
holds tool_columns_of_the_files columns_are "$columns"
holds tool_core_share_cases are engine 'bloom open perfect'
holds tool_core_share_is_told share_is_told
holds tool_core_share_in_json json_is_csv
if [[ $has_cuda = 1 ]]; then
    run bench map "${tiny[@]}" --machine cuda --load 0.8 --hit 50 --ops find
    holds tool_core_share_not_on_cuda_exit_code exits_with 0
    holds tool_core_share_not_on_cuda_rows are machine cuda
    holds tool_core_share_not_on_cuda are core_share ''
else
    skip tool_core_share_not_on_cuda "no cuda machine"
fi

echo "$passed passed, $failed failed, $skipped skipped"
[[ $failed = 0 ]]
