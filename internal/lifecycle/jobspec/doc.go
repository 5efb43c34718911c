// Package jobspec reads the Job of a job step. Admission and the executor share it, so
// that what one accepts the other can run.
//
// It is pure, and may import Kubernetes' API types only.
package jobspec
