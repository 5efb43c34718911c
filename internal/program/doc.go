// Package program is what the commands that reconcile, slipway-manager and
// slipway-lifecycle, have in common: how they are started, how their replicas
// elect a leader, and where they serve metrics, probes, webhooks and hooks.
//
// It imports nothing of this repository but internal/version, sdk/extension and sdk/listener. Mains and the packages
// that put a manager together may import it.
package program
