// Package console opens `slipway ui` in a real Chromium, against a management cluster with the
// manifests of a release: upstream's core, slipway-manager, slipway-lifecycle and
// simulated hosts. It follows the life of a cluster on the pages, decides in the browser,
// and has another page of the browser try to. Only tests are in it.
package console
