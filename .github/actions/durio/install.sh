#!/usr/bin/env bash
# Fetches a release of durio into the job's temporary folder and puts it on the search path. Without a
# version the durio that is on it will do, else the release is the one of the action itself.
set -euo pipefail

version=${DURIO_VERSION:-}
if [ -z "$version" ]; then
    if [ -n "$(command -v durio)" ]; then
        durio --version
        exit 0
    fi
    if ! [[ "${DURIO_REF:-}" =~ ^v[0-9]+\.[0-9]+\.[0-9] ]]; then
        echo "::error::durio is not on the search path, and '${DURIO_REF:-}' is no release:" \
            "give the input 'version', or install durio first"
        exit 1
    fi
    version=$DURIO_REF
fi

version=${version#v}
name="durio-$version-$(uname -m)-linux-musl"
releases="$GITHUB_SERVER_URL/$DURIO_REPOSITORY/releases/download/v$version"
folder=$(mktemp -d "$RUNNER_TEMP/durio-XXXXXX")
cd "$folder"
for file in "$name.tar.gz" SHA256SUMS; do
    curl --fail --silent --show-error --location --retry 3 --remote-name "$releases/$file"
done
# Of the sums only that of the file that was fetched.
grep -F "  $name.tar.gz" SHA256SUMS | sha256sum --check --strict
tar -xzf "$name.tar.gz"
"$folder/$name/bin/durio" --version
echo "$folder/$name/bin" >>"$GITHUB_PATH"
