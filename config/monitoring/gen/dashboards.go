package main

// dashboards by the name of their file.
var dashboards = map[string]dashboard{
	"fleet": {
		title: "Slipway: fleet", description: "All hosts: who is away, who is out of service, who waits.",
		variables: []variable{namespaces("slipway_hosts")},
		panels: []panel{
			{stat, "Hosts", short, []query{{`sum(slipway_hosts{namespace=~"$namespace"})`, ""}}},
			{stat, "Away", short, []query{{`count(slipway_host_connected{namespace=~"$namespace"} == 0) or vector(0)`, ""}}},
			{stat, "In quarantine", short, []query{{`sum(slipway_hosts{namespace=~"$namespace", phase="Quarantined"}) or vector(0)`, ""}}},
			{stat, "Machines that wait for a host", short, []query{{`sum(slipway_hostmachines{namespace=~"$namespace", reason="NoHostFits"}) or vector(0)`, ""}}},
			{lines, "Hosts by phase", short, []query{{`sum by (phase) (slipway_hosts{namespace=~"$namespace"})`, "{{phase}}"}}},
			{lines, "Hosts by connection", short, []query{{`sum by (connected) (slipway_hosts{namespace=~"$namespace"})`, "connected: {{connected}}"}}},
			{lines, "Age of the oldest heartbeats", seconds, []query{{`topk(10, time() - slipway_host_last_heartbeat_timestamp_seconds{namespace=~"$namespace"})`, "{{namespace}}/{{host}}"}}},
			{lines, "Time from a machine to its claim", seconds, quantiles("slipway_host_claim_wait_seconds", "")},
			{lines, "Duration of operations, 95 %", seconds, []query{{`histogram_quantile(0.95, sum by (phase, le) (rate(slipway_host_operation_duration_seconds_bucket[$__rate_interval])))`, "{{phase}}"}}},
			{lines, "Operations that ended", short, []query{{`sum by (phase, state) (increase(slipway_host_operation_duration_seconds_count[$__rate_interval]))`, "{{phase}}: {{state}}"}}},
			{lines, "Update of agents", short, []query{{`slipway_agent_release_hosts`, "{{release}}: {{state}}"}}},
		},
	},
	"cluster": {
		title: "Slipway: cluster", description: "Machines, pools and control-plane addresses of a namespace.",
		variables: []variable{namespaces("slipway_hostmachines")},
		panels: []panel{
			{stat, "Machines", short, []query{{`sum(slipway_hostmachines{namespace=~"$namespace"})`, ""}}},
			{stat, "Ready", short, []query{{`sum(slipway_hostmachines{namespace=~"$namespace", ready="True"})`, ""}}},
			{lines, "Machines by reason", short, []query{{`sum by (reason) (slipway_hostmachines{namespace=~"$namespace"})`, "{{reason}}"}}},
			{lines, "Pools: machines by state", short, []query{{`sum by (pool, state) (slipway_pool_machines{namespace=~"$namespace"})`, "{{pool}}: {{state}}"}}},
			{lines, "Pools: machines of another version or revision", short, []query{{`sum by (pool) (slipway_pool_outdated_machines{namespace=~"$namespace"})`, "{{pool}}"}}},
			{lines, "Pools: rollout", short, []query{
				{`slipway_pool_rollout_in_progress{namespace=~"$namespace"}`, "{{pool}}: under way"},
				{`slipway_pool_rollout_paused{namespace=~"$namespace"}`, "{{pool}}: paused"},
			}},
			{lines, "Who holds the control-plane address", short, []query{{`slipway_host_virtual_ip_held{namespace=~"$namespace"}`, "{{address}}: {{host}}"}}},
		},
	},
	"host": {
		title: "Slipway: host", description: "One host: its agent and what it does.",
		variables: []variable{namespaces("slipway_host_connected"), {"host", `label_values(slipway_host_connected{namespace=~"$namespace"}, host)`}},
		panels: []panel{
			{stat, "Connected", short, []query{{`slipway_host_connected{namespace=~"$namespace", host=~"$host"}`, "{{host}}"}}},
			{stat, "Age of the last heartbeat", seconds, []query{{`time() - slipway_host_last_heartbeat_timestamp_seconds{namespace=~"$namespace", host=~"$host"}`, "{{host}}"}}},
			{stat, "Operation under way", seconds, []query{{`time() - slipway_host_operation_start_timestamp_seconds{namespace=~"$namespace", host=~"$host"} or slipway_host_connected{namespace=~"$namespace", host=~"$host"} * 0`, "{{host}} {{phase}}"}}},
			{lines, "Connection", short, []query{{`slipway_host_connected{namespace=~"$namespace", host=~"$host"}`, "{{host}}"}}},
			{lines, "Control-plane address", short, []query{{`slipway_host_virtual_ip_held{namespace=~"$namespace", host=~"$host"}`, "{{host}}: {{address}}"}}},
		},
	},
	"lifecycle": {
		title: "Slipway: lifecycle", description: "Policies: what they hold back, and how their steps do.",
		variables: []variable{namespaces("slipway_lifecycle_runs")},
		panels: []panel{
			{lines, "Runs by phase", short, []query{{`sum by (phase) (slipway_lifecycle_runs{namespace=~"$namespace"})`, "{{phase}}"}}},
			{lines, "Clusters held back", seconds, []query{{`max by (cluster, hook, step) (slipway_lifecycle_blocked_seconds{namespace=~"$namespace"}) or sum(slipway_lifecycle_runs{namespace=~"$namespace"}) * 0`, "{{cluster}}: {{hook}}, {{step}}"}}},
			{lines, "Answers to hooks", short, []query{{`sum by (hook, answer) (increase(slipway_lifecycle_hook_duration_seconds_count[$__rate_interval]))`, "{{hook}}: {{answer}}"}}},
			{lines, "Time of answers, 95 %", seconds, []query{{`histogram_quantile(0.95, sum by (hook, le) (rate(slipway_lifecycle_hook_duration_seconds_bucket[$__rate_interval])))`, "{{hook}}"}}},
			{lines, "Duration of steps, 95 %", seconds, []query{{`histogram_quantile(0.95, sum by (kind, le) (rate(slipway_lifecycle_step_duration_seconds_bucket[$__rate_interval])))`, "{{kind}}"}}},
			{lines, "Attempts that failed", short, []query{{`sum by (kind) (increase(slipway_lifecycle_attempt_failures_total[$__rate_interval])) or vector(0)`, "{{kind}}"}}},
		},
	},
	"runtime-sdk": {
		title: "Slipway: runtime SDK", description: "Servers of runtime extensions, and those that call them.",
		panels: []panel{
			{lines, "Extensions discovered", short, []query{{`slipway_extension_discovered or vector(0)`, "{{kind}} {{name}}"}}},
			{lines, "Requests by answer", perSecond, []query{{`sum by (hook, status) (rate(runtime_extension_requests_total[$__rate_interval]))`, "{{hook}}: {{status}}"}}},
			{lines, "Duration of requests, 95 %", seconds, []query{{`histogram_quantile(0.95, sum by (hook, le) (rate(runtime_extension_request_duration_seconds_bucket[$__rate_interval])))`, "{{hook}}"}}},
			{lines, "Handlers that run", short, []query{{`runtime_extension_handlers_running`, "running"}, {`runtime_extension_handlers_abandoned`, "abandoned"}}},
			{lines, "Panics", short, []query{{`sum(increase(runtime_extension_panics_total[$__rate_interval])) or vector(0)`, ""}}},
			{lines, "Calls of upstream and of slipway-manager", perSecond, []query{{`sum by (hook, status) (rate(capi_runtime_sdk_requests_total[$__rate_interval]))`, "{{hook}}: {{status}}"}}},
			{lines, "Handlers left alone", short, []query{{`runtime_client_breaker_open or vector(0)`, "{{handler}}"}}},
		},
	},
}

func namespaces(metric string) variable {
	return variable{"namespace", "label_values(" + metric + ", namespace)"}
}

// quantiles of a histogram, for some of its series or all.
func quantiles(metric, selector string) []query {
	q := func(quantile string) string {
		return "histogram_quantile(" + quantile + ", sum by (le) (rate(" + metric + "_bucket" + selector + "[$__rate_interval])))"
	}
	return []query{{q("0.5"), "50 %"}, {q("0.95"), "95 %"}}
}
