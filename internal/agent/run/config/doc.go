// Package config reads /etc/slipway/agent.yaml. The agent's run, its
// preflight and its main import it.
package config
