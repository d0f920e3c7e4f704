# Test scripts source this file. It prints one line for each check (ok NAME, not ok NAME: why, skip NAME: why), then the
# counts, which ./dev reads. The script sets `work`, a directory of its own.

passed=0 failed=0 skipped=0

# check NAME COMMAND...: one check. If the command fails, its output is shown.
check() {
    local name=$1
    shift
    if "$@" >"$work/log" 2>&1; then
        passed=$((passed + 1))
        echo "ok $name"
    else
        failed=$((failed + 1))
        echo "not ok $name: $*"
        sed 's/^/    /' "$work/log" | tail -n 40
    fi
}

skip() { # NAME WHY
    skipped=$((skipped + 1))
    echo "skip $1: $2"
}

# Ends the script: exits with 1 if any check failed.
finish_checks() {
    echo "$passed passed, $failed failed, $skipped skipped"
    exit $((failed > 0))
}
