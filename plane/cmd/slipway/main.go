// Command slipway is the one binary of Slipway: it runs the plane, brings up
// local hosts, and shows what there is.
//
// Nothing imports its module: it is a leaf, as it brings all of Kubernetes' dependencies. From the
// bottom, component runs parts in order; etcd, pki and kube are a small Kubernetes; manifests
// installs what clusterctl would; capi runs Cluster API; serve assembles them.
package main

import (
	"os"

	shared "github.com/slipway-dev/slipway/internal/cli"
	"github.com/slipway-dev/slipway/plane/internal/cli"
)

func main() { os.Exit(shared.Main(cli.Root())) }
