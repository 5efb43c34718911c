package e2e

import (
	"testing"

	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/internal/testenv/versions"
)

// TestEachVersion brings up the default cluster of each version of the node bundle.
func TestEachVersion(t *testing.T) {
	level.Deep(t)
	for _, k := range versions.All() {
		t.Run(k.Version, func(t *testing.T) {
			p := newPlane(t, 4)
			p.up("--fast", "--kubernetes-version", k.Version)
			p.eventually("three nodes of "+k.Version, all(readyNodes(3), nodesOf(k.Version, 3)))
			p.must("doctor")
		})
	}
}
