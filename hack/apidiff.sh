#!/usr/bin/env bash
# Fails when the exported API of the SDK or of the API types broke since the last tag,
# or since the revision in APIDIFF_BASE. The argument is x/exp's apidiff.
set -euo pipefail
apidiff=$1
module=github.com/slipway-dev/slipway
base=${APIDIFF_BASE:-$(git describe --tags --abbrev=0 --match 'v*' 2>/dev/null || true)}
if [ -z "$base" ]; then
  echo "No tag v* exists yet: there is no released API to compare sdk and api with."
  exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/base"
git archive "$base" | tar --extract --directory "$work/base"

# $(1): the tree, $(2): the file to write the API to, $(3): sdk or api
export_api() {
  local dir=$1 work=off
  if [ "$3" = sdk ]; then dir=$1/sdk; elif [ -e "$1/hack/root.work" ]; then work=$1/hack/root.work; fi
  (cd "$dir" && GOWORK=$work "$apidiff" -m -w "$2" "$module/$3" 2> >(grep -v '^Ignoring internal package' >&2))
}

broken=0
for part in sdk api; do
  export_api "$work/base" "$work/$part.old" "$part"
  export_api "$PWD" "$work/$part.new" "$part"
  changes=$("$apidiff" -m -incompatible "$work/$part.old" "$work/$part.new")
  if [ -n "$changes" ]; then
    printf 'Changes of %s that break users of %s:\n%s\n' "$part" "$base" "$changes"
    broken=1
  fi
done
exit $broken
