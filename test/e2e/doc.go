// Package e2e runs slipway as a user does: the built binaries, a fresh state
// directory, real kubeadm and kubelets in local hosts. It uses nothing but the
// command line and the public APIs.
//
// It needs root and SLIPWAY_BIN, the directory of the binaries that
// `make build` writes; `make test` sets both up. Its tests run side by side, as many as
// the machine has room for (see test/live).
package e2e
