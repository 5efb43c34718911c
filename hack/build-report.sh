#!/usr/bin/env bash
# Tells what the build cache holds of the packages that `make build` compiles: how many
# each program has, and which were compiled more than once, by the versions that made
# them differ. It reads the IDs of the compiled packages, and compiles what is missing.
#
#   build-report.sh [-v]     -v names the packages
set -euo pipefail
cd "$(dirname "$0")/.."

# programs prints: name, directory, go.work or off, tags, package
programs() {
  local kubernetes="providerless selinux_stub"
  cat <<END
slipway;plane;go.work;;./cmd/slipway
slipway-sandbox;plane;go.work;;./cmd/slipway-sandbox
slipway-agent;.;go.work;;./cmd/slipway-agent
slipway-manager;.;go.work;;./cmd/slipway-manager
slipway-lifecycle;.;go.work;;./cmd/slipway-lifecycle
kubernetes;nodebundle/kubernetes;go.work;$kubernetes;.
containerd;nodebundle/containerd;off;no_btrfs no_zfs no_devmapper;tool
cni;nodebundle/cni;off;;tool
coredns;nodebundle/coredns;off;;.
etcd;nodebundle/etcd;off;;.
flannel;nodebundle/flannel;off;;.
END
}

# packages prints for each package of each program: program, import path, version of
# its module, ID of what was compiled.
packages() {
  programs | while IFS=';' read -r name directory work tags package; do
    if [ "$work" = go.work ]; then work=$PWD/go.work; fi
    (cd "$directory" && GOWORK=$work go list -deps -export -tags "$tags" \
      -f "$name {{.ImportPath}} {{with .Module}}{{or .Version \"-\"}}{{else}}std{{end}} {{.BuildID}}" "$package")
  done
}

packages | awk -v verbose="${1:-}" '
  NF == 4 {
    of[$1]++
    if (!(($2, $4) in seen)) { seen[$2, $4] = 1; variants[$2]++; versions[$2] = versions[$2] " " $1 "=" $3; compiled++ } else shared++
  }
  END {
    for (p in of) printf "%-18s %5d packages\n", p, of[p]
    for (p in variants) if (variants[p] > 1) { again += variants[p] - 1; twice++ }
    printf "%d packages compiled, %d uses of them shared; %d packages more than once (%d compilations)\n", compiled, shared, twice, again
    if (verbose == "-v") for (p in variants) if (variants[p] > 1) print "  " p ":" versions[p]
  }' | sort -k1,1
