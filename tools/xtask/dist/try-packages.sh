#!/bin/sh
# Tries durio's packages: installs, uses and removes them. Runs as root in a fresh Debian that nobody
# needs afterwards, with the packages in /packages (cargo xtask dist --test).
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
    version=$(dpkg-deb --field /packages/durio_*.deb Version) && durio --version &&
        [ "durio $version" = "$(durio --version | sed 's/-/~/')" ]
}

# Nothing is changed since it was packed, and dpkg knows of it.
files_are_as_packed() {
    dpkg --listfiles durio && [ -z "$(dpkg --verify durio)" ]
}

man_pages_are_readable() {
    man --where durio durio-check durio-compare &&
        man durio | grep -q 'durio check' &&
        man durio-check | grep -q -- '--quick' &&
        # groff says on stderr what it does not understand.
        [ -z "$(man --warnings durio-check 2>&1 >/dev/null)" ]
}

bash_completes() {
    bash -c '. /usr/share/bash-completion/completions/durio && complete -p durio'
}

other_shells_have_completions() {
    grep -q '^#compdef durio' /usr/share/zsh/vendor-completions/_durio &&
        grep -q '^complete -c durio' /usr/share/fish/vendor_completions.d/durio.fish
}

documents_are_there() {
    cd /usr/share/doc/durio && [ -s README.md ] && gzip -t changelog.gz third-party-licences.gz &&
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

static_program_measures() {
    check_measures /tmp/alone/durio /tmp/runs-static
}

list_files >/tmp/before
check "dpkg installs the package" dpkg --install /packages/durio_*.deb
check "durio says the package's version" version_is_the_package_s
check "the files are as packed" files_are_as_packed
check "man pages are readable" man_pages_are_readable
check "bash completes" bash_completes
check "zsh and fish have completions" other_shells_have_completions
check "documents and licences are there" documents_are_there
check "units start what is there" units_start_what_is_there
check "specs and profiles are inside" specs_and_profiles_are_inside
check "check --quick measures" check_measures durio /tmp/runs
check "dpkg removes the package" dpkg --remove durio
check "dpkg purges the package" dpkg --purge durio
check "no file is left" nothing_is_left
check "the tarball works below /usr/local" tarball_works /packages/durio-*-linux-gnu.tar.gz
for tarball in /packages/durio-*-linux-musl.tar.gz; do
    if [ -e "$tarball" ]; then
        check "the static program runs alone" static_program_runs_alone "$tarball"
        check "the static program measures" static_program_measures
    fi
done
