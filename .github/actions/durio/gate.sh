#!/usr/bin/env bash
# Measures, writes the report to the job's summary, and decides.
#
# In: the inputs of action.yml as DURIO_… variables. Out: the summary, the outputs `runs` and
# `verdict`, and an exit code. Nothing leaves the machine.
set -euo pipefail

command=${DURIO_COMMAND:-check}
target=${DURIO_TARGET:-.}
summary=${GITHUB_STEP_SUMMARY:-/dev/stdout}
output=${GITHUB_OUTPUT:-/dev/null}
# Words, as on a command line; none of durio's options needs quotes here.
read -ra options <<<"${DURIO_OPTIONS:-}"

# Ends the gate: its verdict, its exit code, and a line for the job's page.
end() {
    echo "verdict=$1" >>"$output"
    [ -z "$3" ] || echo "$3"
    exit "$2"
}

# Adds an option for each line that is not blank.
add_lines() {
    local option=$1 line
    while IFS= read -r line; do
        [ -z "${line//[[:space:]]/}" ] || options+=("$option" "$line")
    done
}

run_check() {
    add_lines --goal <<<"${DURIO_GOALS:-}"
    add_lines --database <<<"${DURIO_DATABASES:-}"
    local code=0
    durio check "${options[@]}" --quiet --yes --format markdown --out "$runs" -- "$target" \
        >>"$summary" || code=$?
    case $code in
        0) end pass 0 "" ;;
        1) end fail 1 "::error::the storage of $target does not meet a goal" ;;
        *) end fail "$code" "::error::durio check ended with $code" ;;
    esac
}

run_compare() {
    local number code=0
    for ((number = 1; number <= ${DURIO_REPEATS:-5}; number++)); do
        durio check "${options[@]}" --quiet --yes --out "$runs" -- "$target" >/dev/null
    done
    # The first run of a branch has nothing to be compared with.
    if [ -z "$(ls -A "${DURIO_BASELINE:-}" 2>/dev/null)" ]; then
        end no-baseline 0 "::warning::no runs in the baseline '${DURIO_BASELINE:-}'; nothing is compared"
    fi
    durio compare --fail-over "${DURIO_FAIL_OVER:-5%}" --format markdown \
        "$DURIO_BASELINE" "$runs" >>"$summary" || code=$?
    case $code in
        0) end pass 0 "" ;;
        1) end fail 1 "::error::$target is slower than its baseline" ;;
        3)
            if [ "${DURIO_UNDECIDED:-pass}" = pass ]; then
                end undecided 0 "::warning::neither a regression nor its absence is shown"
            fi
            end undecided 3 "::error::neither a regression nor its absence is shown"
            ;;
        *) end fail "$code" "::error::durio compare ended with $code" ;;
    esac
}

# A new folder: runs of an earlier step are no repeats of this one.
runs=$(mktemp -d "${RUNNER_TEMP:-${TMPDIR:-/tmp}}/durio-runs-XXXXXX")
echo "runs=$runs" >>"$output"
case $command in
    check) run_check ;;
    compare) run_compare ;;
    *) end fail 2 "::error::the input 'command' is '$command'; it must be check or compare" ;;
esac
