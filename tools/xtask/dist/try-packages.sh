#!/bin/sh
# Tries the packages of durio and durio-fleet: installs, uses and removes them. Runs as root in a fresh
# Debian that is deleted afterwards, with the packages in /packages (cargo xtask dist --test).
#
# Prints `ok NAME` or `FAILED NAME` for each check, after a failed one what it printed.
set -u
cd /
# What durio remembers of its runs is the user's, and stays when the package goes.
export XDG_STATE_HOME=/tmp/state

# check NAME COMMAND...
check() {
    name=$1
    shift
    if "$@" >/tmp/output 2>&1; then
        echo "ok $name"
    else
        echo "FAILED $name"
        sed 's/^/    /' /tmp/output
    fi
}

# Every path but those of the kernel, of this test, and what dpkg and man-db keep for themselves.
list_files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run \
        -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune -o -print | sort
}

version_is_the_package_s() {
    version=$(dpkg-deb --field /packages/"$1"_*.deb Version) && "$1" --version &&
        [ "$version" = "$("$1" --version | sed "s/^$1 //; s/-/~/")" ]
}

# Nothing is changed since it was packed, and dpkg knows of it.
files_are_as_packed() {
    dpkg --listfiles "$1" && [ -z "$(dpkg --verify "$1")" ]
}

man_pages_are_readable() {
    man --where durio durio-check durio-compare &&
        man durio | grep -q 'durio check' &&
        man durio-check | grep -q -- '--quick' &&
        # groff says on stderr what it does not understand.
        [ -z "$(man --warnings durio-check 2>&1 >/dev/null)" ]
}

# Every page of the package, for whatis and for man.
all_man_pages_are_readable() {
    pages=$(dpkg --listfiles "$1" | grep '/man1/.*\.gz$') || return 1
    for page in $pages; do
        echo "$page"
        lexgrog "$page" && [ -z "$(man --warnings "$page" 2>&1 >/dev/null)" ] || return 1
    done
}

fleet_man_pages_are_found() {
    man --where durio-fleet durio-fleet-run durio-fleet-report &&
        man durio-fleet-run | grep -q -- '--lost-after'
}

bash_completes() {
    bash -c ". /usr/share/bash-completion/completions/$1 && complete -p $1"
}

other_shells_have_completions() {
    grep -q "^#compdef $1" "/usr/share/zsh/vendor-completions/_$1" &&
        grep -q "^complete -c $1" "/usr/share/fish/vendor_completions.d/$1.fish"
}

documents_are_there() {
    cd "/usr/share/doc/$1" && [ -s README.md ] && gzip -t changelog.gz third-party-licences.gz &&
        grep -q 'Permission is hereby granted' copyright && cd /
}

# What a unit starts is where the package has it.
units_start_what_is_there() {
    for unit in /usr/lib/systemd/system/durio*.service; do
        [ -e "$unit" ] || continue
        echo "$unit"
        sed -n 's/^Exec[A-Za-z]*=[-+!@:]*\([^ ]*\).*/\1/p' "$unit" >/tmp/programs
        while read -r program; do
            [ -x "$program" ] || return 1
        done </tmp/programs
        # With a minus before it the file may be missing; a package has it all the same.
        sed -n 's/^EnvironmentFile=-*//p' "$unit" >/tmp/settings
        while read -r settings; do
            # Of an instance, which an administrator makes.
            case $settings in *%*) continue ;; esac
            [ -s "$settings" ] || return 1
        done </tmp/settings
    done
}

# The verdict is the storage's own; that there is one and that it is kept is durio's.
check_measures() {
    mkdir -p /srv/data /tmp/runs && "$1" check --quick --quiet --out "$2" /srv/data &&
        ls "$2"/*/report.html && [ -z "$(ls -A /srv/data)" ] && rmdir /srv/data
}

specs_and_profiles_are_inside() {
    durio plan snia-iops --target /tmp && durio stack plan loop-layers &&
        durio profile show etcd && durio advise --help
}

# durio finds the other program, and each prints its own help.
fleet_commands_start() {
    durio-fleet --help | grep -q resume && durio fleet --help | grep -q confirm &&
        durio fleet run --help | grep -q -- --push && durio fleet report --help
}

fleet_examples_are_there() {
    cd /usr/share/doc/durio-fleet/examples && [ -s slurm/durio-fleet.sbatch ] &&
        [ -s ansible/roles/durio_fleet/tasks/main.yml ] && [ -s kubernetes/fleet.yml ] && cd / &&
        [ -s /usr/lib/systemd/system/durio-fleet.service ]
}

durio_stays_while_it_is_needed() {
    ! dpkg --remove durio && durio --version
}

nothing_is_left() {
    list_files >/tmp/after
    diff /tmp/before /tmp/after
}

tarball_works() {
    tar -xzf "$1" -C /usr/local --strip-components=1 && /usr/local/bin/durio --version &&
        man /usr/local/share/man/man1/durio.1.gz | grep -q 'durio check' &&
        tar -tzf "$1" | sed 's,^[^/]*/,/usr/local/,' | grep -v '/$' | xargs rm
}

# Alone: no loader, no library, no shell.
static_program_runs_alone() {
    mkdir -p /tmp/alone && tar -xzf "$1" -C /tmp/alone --strip-components=2 --wildcards '*/bin/durio' &&
        [ "$(ls /tmp/alone)" = durio ] && chroot /tmp/alone /durio --version
}

static_fleet_runs_alone() {
    mkdir -p /tmp/alone-fleet &&
        tar -xzf "$1" -C /tmp/alone-fleet --strip-components=2 --wildcards '*/bin/durio-fleet' &&
        [ "$(ls /tmp/alone-fleet)" = durio-fleet ] && chroot /tmp/alone-fleet /durio-fleet --version
}

static_program_measures() {
    check_measures /tmp/alone/durio /tmp/runs-static
}

list_files >/tmp/before
check "dpkg installs the package" dpkg --install /packages/durio_*.deb
check "durio says the package's version" version_is_the_package_s durio
check "the files are as packed" files_are_as_packed durio
check "man pages are readable" man_pages_are_readable
check "bash completes" bash_completes durio
check "zsh and fish have completions" other_shells_have_completions durio
check "documents and licences are there" documents_are_there durio
check "units start what is there" units_start_what_is_there
check "specs and profiles are inside" specs_and_profiles_are_inside
check "check --quick measures" check_measures durio /tmp/runs
check "all man pages are readable" all_man_pages_are_readable durio
check "dpkg installs durio-fleet" dpkg --install /packages/durio-fleet_*.deb
check "durio-fleet says the package's version" version_is_the_package_s durio-fleet
check "the files of durio-fleet are as packed" files_are_as_packed durio-fleet
check "durio fleet starts durio-fleet" fleet_commands_start
check "all man pages of durio-fleet are readable" all_man_pages_are_readable durio-fleet
check "man finds the pages of durio fleet" fleet_man_pages_are_found
check "bash completes durio-fleet" bash_completes durio-fleet
check "zsh and fish have completions of durio-fleet" other_shells_have_completions durio-fleet
check "documents and licences of durio-fleet are there" documents_are_there durio-fleet
check "the unit and the examples of durio-fleet are there" fleet_examples_are_there
check "units of both packages start what is there" units_start_what_is_there
check "dpkg keeps durio while durio-fleet is installed" durio_stays_while_it_is_needed
check "dpkg removes durio-fleet" dpkg --remove durio-fleet
check "dpkg purges durio-fleet" dpkg --purge durio-fleet
check "dpkg removes the package" dpkg --remove durio
check "dpkg purges the package" dpkg --purge durio
check "no file is left" nothing_is_left
check "the tarball works below /usr/local" tarball_works /packages/durio-*-linux-gnu.tar.gz
for tarball in /packages/durio-*-linux-musl.tar.gz; do
    if [ -e "$tarball" ]; then
        check "the static program runs alone" static_program_runs_alone "$tarball"
        check "the static program measures" static_program_measures
        check "the static durio-fleet runs alone" static_fleet_runs_alone "$tarball"
    fi
done
