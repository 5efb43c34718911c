// Package config reads /etc/slipway/agent.yaml, and names the files of the agent's state
// directory. Other packages of the agent may import it, and internal/provision does.
package config
