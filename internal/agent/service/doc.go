// Package service enrolls an agent and serves its host, in one management cluster after
// the other as the host is handed over. slipway-agent and simulated hosts share it. It
// may import internal/agent and its packages enroll, handover and kube.
package service
