#!/bin/bash
# The install test: installs BUILD_DIR into a temporary prefix, moves the prefix, and builds an outside project against
# it in every way that a user might: CMake package and pkg-config, shared and static, C and C++. Also checks the exports
# of the shared library, and each header by itself.
#
#   tests/install/run.sh BUILD_DIR          CC and CXX choose the compilers
#
# One line for each check (ok NAME, not ok NAME: why, skip NAME: why), then the counts; exits 1 if any failed.
set -euo pipefail

build=$(cd "${1:?usage: run.sh BUILD_DIR}" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
headers=$here/../../include/loom
cc=${CC:-$(command -v gcc || command -v cc || command -v clang)}
cxx=${CXX:-$(command -v g++ || command -v c++ || command -v clang++ || true)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
. "$here/../checks.sh"

# ---- The installed tree ----------------------------------------------------------------------------------------

# Installed under one name and used under another, because a package may be unpacked anywhere.
install_and_move() {
    cmake --install "$build" --prefix "$work/installed" && mv "$work/installed" "$work/moved"
}

staged_install() {
    DESTDIR=$work/stage cmake --install "$build" --prefix /opt/loom && test -e "$work/stage/opt/loom/include/loom/loom.h"
}

holds_no_build_path() {
    ! grep -rIlF -e "$build" -e "$work/installed" "$work/moved"
}

check install_moved_prefix install_and_move
check install_destdir staged_install
check install_no_absolute_paths holds_no_build_path

prefix=$work/moved
library=$(find "$prefix" -name libloom.so -print -quit)
libdir=$(dirname "${library:-$prefix/lib/none}")
version=$(sed -n 's/^#define LOOM_VERSION_\(MAJOR\|MINOR\|PATCH\) *//p' "$headers/base.h" | paste -sd.)

# ---- The shared library ----------------------------------------------------------------------------------------

# The soname carries the major version, the file name the full version.
soname_is_right() {
    local soname
    soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
    echo "soname $soname, version $version"
    test "$soname" = "libloom.so.${version%%.*}" && test -e "$libdir/libloom.so.$version"
}

exports_are_the_header() {
    nm -D --defined-only "$library" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort >"$work/exported"
    sed -n 's/^LOOM_API.*\b\(loom_[a-z0-9_]*\)(.*/\1/p' "$headers"/*.h | sort >"$work/declared"
    test -s "$work/declared" && diff "$work/declared" "$work/exported" && ! grep -v '^loom_[a-z]' "$work/exported"
}

tool_runs() {
    # Without LD_LIBRARY_PATH: the tool finds the library beside itself.
    "$prefix/bin/loom" doctor
}

check install_soname soname_is_right
check install_exports_match_header exports_are_the_header
check install_tool_runs tool_runs

# ---- The headers, each by itself -------------------------------------------------------------------------------

strict=(-fsyntax-only -pedantic -Wall -Wextra -Werror "-I$prefix/include")
mkdir "$work/alone"
for header in "$headers"/*.h; do
    name=$(basename "$header" .h)
    echo "#include <loom/$name.h>" | tee "$work/alone/$name.c" >"$work/alone/$name.cpp"
done
for header in "$headers"/*.cuh; do
    echo "#include <loom/$(basename "$header")>" >"$work/alone/$(basename "$header" .cuh).cu"
done
check install_header_c11 "$cc" -std=c11 "${strict[@]}" "$work/alone"/*.c "$here/outside/main.c"
if [[ $cxx ]]; then
    check install_header_cxx11 "$cxx" -std=c++11 "${strict[@]}" "$work/alone"/*.cpp "$here/outside/main.cpp"
else
    skip install_header_cxx11 "no C++ compiler"
fi

# ---- Outside projects ------------------------------------------------------------------------------------------

# links PROGRAM shared|static: whether the program needs the shared library at run time.
links() {
    local found=static
    readelf -d "$1" | grep -q "NEEDED.*libloom\.so" && found=shared
    echo "linked $found"
    test $found = "$2"
}

configure_outside() {
    # shellcheck disable=SC2046 # two words or none
    cmake $(command -v ninja >/dev/null && echo -G Ninja) -S "$here/outside" -B "$work/outside" \
        -DCMAKE_PREFIX_PATH="$prefix" -DWANTED_VERSION="${version%.*}" -DCMAKE_C_COMPILER="$cc" \
        ${cxx:+-DCMAKE_CXX_COMPILER="$cxx"} -DWITH_CXX="$([[ $cxx ]] && echo ON || echo OFF)"
}

by_cmake() { # LANGUAGE shared|static
    local program=$work/outside/$1_$2
    cmake --build "$work/outside" --target "$1_$2" && links "$program" "$2" && "$program"
}

by_pkg_config() { # LANGUAGE shared|static
    local program=$work/pc_$1_$2 compile=("$cc" "$here/outside/main.c") ask=(pkg-config --cflags --libs) flags
    [[ $1 = cxx ]] && compile=("$cxx" -std=c++11 "$here/outside/main.cpp")
    [[ $2 = static ]] && compile+=(-static) && ask+=(--static)
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    test "$(pkg-config --modversion hashloom)" = "$version" || return
    read -ra flags < <("${ask[@]}" hashloom)
    "${compile[@]}" "${flags[@]}" -o "$program" && links "$program" "$2" && LD_LIBRARY_PATH=$libdir "$program"
}

# Kernels of users: every header that device.cuh includes was installed.
device_header_compiles() {
    local flags
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    read -ra flags < <(pkg-config --variable=device_cflags hashloom)
    nvcc -std=c++17 -arch=sm_90 "${flags[@]}" -c "$here/../../examples/filter_insert.cu" -o "$work/device.o"
}

device_headers_alone() {
    local flags unit
    export PKG_CONFIG_PATH=$libdir/pkgconfig
    read -ra flags < <(pkg-config --variable=device_cflags hashloom)
    for unit in "$work/alone"/*.cu; do
        nvcc -std=c++17 -arch=sm_90 -Werror all-warnings "${flags[@]}" -c "$unit" -o "$work/device.o" || return
    done
}

check install_cmake_configure configure_outside
if command -v nvcc >/dev/null && command -v pkg-config >/dev/null; then
    check install_device_header device_header_compiles
    check install_device_headers_alone device_headers_alone
else
    skip install_device_header "no nvcc, or no pkg-config"
    skip install_device_headers_alone "no nvcc, or no pkg-config"
fi
for language in c cxx; do
    for kind in shared static; do
        if [[ $language = cxx && ! $cxx ]]; then
            skip "install_cmake_${language}_$kind" "no C++ compiler"
            skip "install_pkgconfig_${language}_$kind" "no C++ compiler"
            continue
        fi
        check "install_cmake_${language}_$kind" by_cmake "$language" "$kind"
        if command -v pkg-config >/dev/null; then
            check "install_pkgconfig_${language}_$kind" by_pkg_config "$language" "$kind"
        else
            skip "install_pkgconfig_${language}_$kind" "no pkg-config"
        fi
    done
done

finish_checks
