// Package program is what the commands that reconcile, slipway-manager and
// slipway-lifecycle, have in common: how they are started, and how their replicas
// elect a leader.
//
// It imports nothing of this repository but internal/version. Mains and the packages
// that put a manager together may import it.
package program
