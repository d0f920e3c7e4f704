#!/bin/bash
# Other ways to build: shared or static alone, as a subproject, inside a user's shared library; and what configuring
# says about each. Compiled without optimisation, with one copy of each algorithm, since only the build is tested here.
#
#   tests/install/variants.sh
#
# One line for each check (ok NAME, not ok NAME: why), then the counts; exits 1 if any failed.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
cc=${CC:-$(command -v gcc || command -v cc || command -v clang)}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$here/../checks.sh"
common=("-DCMAKE_C_COMPILER=$cc" -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS=-O0 -g0 -DLOOM_ONE_COPY")
! command -v ninja >/dev/null || common+=(-G Ninja)

# check_pkg_config NAME COMMAND...: a check that needs pkg-config.
check_pkg_config() {
    if command -v pkg-config >/dev/null; then
        check "$@"
    else
        skip "$1" "no pkg-config"
    fi
}

# Looks for an NVIDIA GPU like cmake/LoomCuda.cmake. Where there is one, the cuda machine takes too long to compile for
# this test.
gpu=no auto_or_off=auto
if compgen -G '/dev/nvidia[0-9]*' >/dev/null || nvidia-smi -L 2>/dev/null | grep -q '^GPU '; then
    gpu=yes auto_or_off=off
fi

# built NAME SOURCE OPTION...: configures and builds. The output of configuring is kept.
built() {
    local name=$1 source=$2
    shift 2
    cmake -S "$source" -B "$work/$name" "${common[@]}" "$@" | tee "$work/$name.said" &&
        cmake --build "$work/$name" --parallel "$(nproc)"
}

said() { # NAME TEXT
    cat "$work/$1.said" && grep -qF -e "$2" "$work/$1.said"
}

installed() { # NAME: into NAME.prefix
    cmake --install "$work/$1" --prefix "$work/$1.prefix"
}

# has NAME yes|no PATTERN: whether the installed tree has a file of this pattern.
has() {
    find "$work/$1.prefix" | sort
    test "$(find "$work/$1.prefix" -name "$3" | grep -c . >/dev/null && echo yes || echo no)" = "$2"
}

# The program links hashloom::loom, whichever library it is.
used_by_cmake() { # NAME shared|static
    local program=$work/$1.outside/c_shared found=static
    cmake -S "$here/outside" -B "$work/$1.outside" "${common[@]}" -DCMAKE_PREFIX_PATH="$work/$1.prefix" \
        -DWITH_CXX=OFF -DWITH_STATIC=OFF && cmake --build "$work/$1.outside" --target c_shared && "$program" || return
    readelf -d "$program" | grep -q 'NEEDED.*libloom\.so' && found=shared
    test $found = "$2"
}

used_by_pkg_config() { # NAME
    local flags libdir
    libdir=$(dirname "$(find "$work/$1.prefix" -name hashloom.pc)")
    read -ra flags < <(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs hashloom)
    "$cc" "$here/outside/main.c" "${flags[@]}" -o "$work/$1.program" && LD_LIBRARY_PATH=$libdir/.. "$work/$1.program"
}

# ---- One library alone -----------------------------------------------------------------------------------------

# The second build is the first one, configured anew: the library's sources are not compiled again.
check shared_alone_builds built one "$root" -DLOOM_CUDA=off -DBUILD_SHARED_LIBS=ON
check shared_alone_says_so said one "left out: the static library (BUILD_SHARED_LIBS is ON"
check shared_alone_installs installed one
check shared_alone_has_the_library has one yes 'libloom.so'
check shared_alone_has_no_archive has one no '*.a'
check shared_alone_by_cmake used_by_cmake one shared
check_pkg_config shared_alone_by_pkg_config used_by_pkg_config one

rm -rf "$work/one.prefix" "$work/one.outside"
check static_alone_builds built one "$root" -DBUILD_SHARED_LIBS=OFF
check static_alone_says_so said one "left out: the shared library (BUILD_SHARED_LIBS is OFF"
check static_alone_installs installed one
check static_alone_has_the_archive has one yes 'libloom.a'
check static_alone_has_no_library has one no 'libloom.so*'
check static_alone_tool_runs "$work/one.prefix/bin/loom" version
check static_alone_by_cmake used_by_cmake one static
check_pkg_config static_alone_by_pkg_config used_by_pkg_config one

# ---- Inside a shared library -----------------------------------------------------------------------------------

# With the flags of hashloom-static the functions stay inside; with the archive alone they are exported.
hidden_inside() {
    local flags libdir code='#include <loom/loom.h>
        __attribute__((visibility("default"))) unsigned mine(void) { return loom_version(); }'
    libdir=$(dirname "$(find "$work/one.prefix" -name hashloom-static.pc)")
    read -ra flags < <(PKG_CONFIG_PATH=$libdir pkg-config --cflags --libs hashloom-static)
    "$cc" -shared -fPIC -x c - -x none "${flags[@]}" -o "$work/hidden.so" <<<"$code" &&
        "$cc" -shared -fPIC "-I$root/include" -x c - -x none "$libdir/../libloom.a" -o "$work/open.so" <<<"$code" &&
        nm -D --defined-only "$work/open.so" | grep -q ' loom_version$' &&
        nm -D --defined-only "$work/hidden.so" | grep -q ' mine$' &&
        ! nm -D --defined-only "$work/hidden.so" | grep ' loom_'
}
check_pkg_config static_inside_a_shared_library hidden_inside

# ---- As a subproject -------------------------------------------------------------------------------------------

library_and_tool_alone() {
    cmake --build "$work/parent" --target help | grep -E 'loom_(tests|sim|fuzz|device_tests)|example_|plant_' && return 1
    find "$work/parent" -name 'loom' -type f -perm -u+x | grep -q . &&
        find "$work/parent" -name 'libloom.so' | grep -q . && find "$work/parent" -name 'libloom.a' | grep -q .
}
check subproject_builds built parent "$here/parent" "-DHASHLOOM=$root" -DLOOM_CUDA=$auto_or_off
check subproject_is_library_and_tool library_and_tool_alone
check subproject_program_runs "$work/parent/program"

# ---- The tool of builds without CUDA ---------------------------------------------------------------------------

# `loom doctor` tells why there is no cuda machine: LOOM_CUDA is off, or auto without a GPU.
check tool_of_cuda_off "$here/../tool/run.sh" "$work/one/bin/loom"
check tool_of_cuda_$auto_or_off "$here/../tool/run.sh" "$(find "$work/parent" -name loom -type f -perm -u+x)"

# ---- What configuring refuses and says -------------------------------------------------------------------------

refuses_other_values() {
    ! cmake -S "$root" -B "$work/wrong" "${common[@]}" -DLOOM_CUDA=perhaps >"$work/wrong.said" 2>&1 &&
        said wrong "LOOM_CUDA is 'perhaps'; it may be auto, on or off"
}
check cuda_takes_auto_on_off refuses_other_values
check cuda_off_says_so said one "left out: the cuda machine (LOOM_CUDA is off)"
configured_auto() {
    cmake -S "$root" -B "$work/auto" "${common[@]}" -DLOOM_CUDA=auto >"$work/auto.said"
}
check cuda_auto_configures configured_auto
if [[ $gpu = no ]]; then
    check cuda_auto_without_a_gpu said auto "left out: the cuda machine (no NVIDIA GPU was found"
else
    check cuda_auto_with_a_gpu grep -E 'with the cuda machine|there is a GPU but no nvcc|older than 12.4' "$work/auto.said"
fi
check configuring_says_what_is_left_out said one "left out: the tests (LOOM_TESTS is OFF)"

finish_checks
