#!/bin/bash
# Follows the README's section "Building and installing" word for word. A user without root runs every ```sh block as
# it stands, on a copy of this tree, in a mount namespace without an installed hashloom (an empty home, an empty
# /usr/local, an /etc of its own). The block with sudo is the other way to install what the first block built. It comes
# last: root runs it in the same directory, and then the installed files are used.
#
#   tests/install/readme.sh [--quick]
#
# --quick: the library is compiled without optimisation, by CMake's and the compiler's own settings in the environment.
#
# One line for each check, then the counts; exits 1 if any failed. Needs root, for the namespace; skipped without.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/../checks.sh"

skip_all() {
    skip readme_install "$1"
    finish_checks
}

path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
settings=()
if [[ ${1-} = --quick ]]; then
    settings=(CMAKE_BUILD_TYPE=Debug "CFLAGS=-O0 -g0 -DLOOM_ONE_COPY")
    shift
fi
if [[ ${1-} != --inside ]]; then
    [[ $EUID = 0 ]] || skip_all "it needs root, to mount an empty home and /usr/local"
    unshare --mount true 2>/dev/null || skip_all "this system allows no mount namespace"
    for tool in setpriv pkg-config cmake make cc; do
        [[ $(PATH=$path command -v $tool) = /usr/[^l]*/$tool ]] || skip_all "$tool is not in /usr/bin"
    done
    exec unshare --mount --propagation private bash "${BASH_SOURCE[0]}" \
        ${settings[0]+--quick} --inside
fi

# ---- Inside the namespace: its mounts are invisible outside, and end with this process -----------------------------

work=$(mktemp -d)
trap 'cd / && umount -l "$work" 2>/dev/null; rmdir "$work" 2>/dev/null' EXIT
mount -t tmpfs -o mode=755 none "$work"
mkdir -p "$work/home/hashloom" "$work/etc" "$work/upper" "$work/work"
if (cd "$root" && git ls-files -z --cached --others --exclude-standard) >"$work/files" 2>/dev/null; then
    tar -C "$root" -c --null --files-from="$work/files" --ignore-failed-read 2>/dev/null | tar -x -C "$work/home/hashloom"
else # no checkout: all but what was built
    tar -C "$root" -c --exclude=./build . | tar -x -C "$work/home/hashloom"
fi
cp "$root/README.md" "$work/README.md"

# From here on the tree itself may be invisible.
mount -t tmpfs -o mode=755 none /usr/local
mount -t overlay -o "lowerdir=/etc,upperdir=$work/upper,workdir=$work/work" none /etc 2>/dev/null || {
    cp -a /etc/. "$work/etc" && mount --bind "$work/etc" /etc
}
case $work in
    /root/*) ;;
    *) [[ ! -e /root ]] || mount -t tmpfs -o mode=700 none /root ;; # no PATH, package or setting from there
esac
cd "$work"
chown -R 65534:65534 "$work/home"

# The commands, in their order. A command that fails ends its script. Lines of a here-document stay as they are.
awk '/^## Building and installing/ { inside = 1 } /^## / && !/Building and installing/ { inside = 0 }
    inside && /^```$/ { block = 0 } block { print } inside && /^```sh$/ { block = 1 }' README.md >"$work/lines"
ending_where_it_fails() {
    awk '/<<.END.$/ { print; here = 1; next } here { print; here = !/^END$/; next } { print $0 " || exit 1" }'
}
grep -v '^sudo ' "$work/lines" | ending_where_it_fails >"$work/by_user"
grep '^sudo ' "$work/lines" | ending_where_it_fails >"$work/by_root"
blocks=$(grep -c . "$work/lines")

as_user() { # SCRIPT
    setpriv --reuid=65534 --regid=65534 --clear-groups env -i HOME="$work/home" PATH=$path \
        ${settings[@]+"${settings[@]}"} bash -c "cd ~/hashloom && set -x && . '$1'"
}

uses() { # PROGRAM shared|static: it does, or does not, ask for the shared library at run time
    local found=static
    test -x "$1" || return
    readelf -d "$1" | grep -q "NEEDED.*libloom\.so" && found=shared
    echo "$1 is linked $found"
    test $found = "$2"
}

nothing_installed() {
    ! ldconfig -p | grep libloom && ! find /usr/lib /usr/include /usr/local /opt \
        '(' -name 'libloom*' -o -name hashloomConfig.cmake -o -name 'hashloom*.pc' ')' 2>/dev/null | grep . &&
        ! PKG_CONFIG_PATH='' pkg-config --exists hashloom
}

# The build compiled sources of the library and of the tool, and none of tests, plants and examples.
library_and_tool_alone() {
    local database=$work/home/hashloom/build/compile_commands.json others='/(tests|examples)/'
    compgen -G '/dev/nvidia[0-9]*' >/dev/null || others+='|\.cu"'
    grep -q '/src/api/map.c"' "$database" && ! grep '"file"' "$database" | grep -E "$others"
}

system_wide() {
    cd "$work/home/hashloom"
    mkdir -p /usr/local/bin
    printf '#!/bin/sh\nexec "$@"\n' >/usr/local/bin/sudo && chmod +x /usr/local/bin/sudo # root needs none
    env -i PATH=$path bash -x "$work/by_root" && rm -f /usr/local/bin/sudo &&
        test -e /usr/local/lib/libloom.so
}

# Without rpath, LD_LIBRARY_PATH or PKG_CONFIG_PATH.
system_wide_program() {
    # shellcheck disable=SC2016 # for the shell inside
    echo 'cd ~/first && cc first.c $(pkg-config --cflags --libs hashloom) -o first-system && ./first-system' >"$work/use"
    as_user "$work/use" && uses "$work/home/first/first-system" shared
}

check readme_has_the_commands test "$blocks" -ge 15
check readme_nothing_is_installed_yet nothing_installed
check readme_commands_as_they_stand as_user "$work/by_user"
check readme_builds_library_and_tool_alone library_and_tool_alone
check readme_tool_runs "$work/home/.local/bin/loom" version
for program in first build/first; do
    check "readme_shared_${program//\//_}" uses "$work/home/first/$program" shared
done
for program in first-static first-alone build/first-static; do
    check "readme_static_${program//\//_}" uses "$work/home/first/$program" static
done
check readme_for_all_users system_wide
check readme_program_of_all_users system_wide_program
finish_checks
