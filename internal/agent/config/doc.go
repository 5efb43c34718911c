// Package config reads /etc/slipway/agent.yaml. Only the agent's main imports it.
package config
