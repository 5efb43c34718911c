// Package join prepares a host for its first enrollment from one command line: it
// verifies the management cluster by the CA that the command carries, and writes the
// agent's configuration and its bootstrap kubeconfig. The token goes nowhere but into
// that file.
//
// Args and Parse are the two ends of the command line: `slipway host token` writes what
// slipway-agent reads. It may import run/config, link/enroll and the public keys of hostbundle.
package join
