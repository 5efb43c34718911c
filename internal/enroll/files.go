package enroll

// Where the agent looks for its files.
const (
	AgentConfigPath         = "/etc/slipway/agent.yaml"
	BootstrapKubeconfigPath = "/etc/slipway/bootstrap-kubeconfig"
)
