package preflight

import (
	"cmp"
	"context"
	"time"

	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/run/config"
)

// Level says how bad a finding is.
type Level string

const (
	// OK means that there is nothing to do.
	OK Level = "OK"
	// Warning means that the host may work, or not in every role.
	Warning Level = "Warning"
	// Error means that the host cannot become a node like this.
	Error Level = "Error"
)

// Finding is what one check found.
type Finding struct {
	// Check is the name of the check, stable for scripts.
	Check string `json:"check"`
	Level Level  `json:"level"`
	// Message tells what was found.
	Message string `json:"message"`
	// Remedy is what to do, mostly commands; empty when there is nothing to do.
	Remedy string `json:"remedy,omitempty"`
}

// Report is the outcome of all checks.
type Report struct {
	// OperatingSystem of the host, as it names itself.
	OperatingSystem string    `json:"operatingSystem"`
	Findings        []Finding `json:"findings"`
	Errors          int       `json:"errors"`
	Warnings        int       `json:"warnings"`
}

// Host is what the checks see of a host. Every method only looks.
type Host interface {
	// ReadFile returns the content of a file of the host.
	ReadFile(path string) ([]byte, error)
	// Glob returns the paths of the host that match a pattern of filepath.Match.
	Glob(pattern string) []string
	// Has reports whether PATH has a program.
	Has(program string) bool
	// Run runs a program and returns what it wrote. An error means that it could not
	// be run or failed; what it wrote may say why.
	Run(ctx context.Context, program string, args ...string) (string, error)
	// DiskFree returns how many bytes an unprivileged program may still write below
	// a directory, or below the first one above it that exists.
	DiskFree(path string) (uint64, error)
	// Hostname is the name of the running system.
	Hostname() (string, error)
	// Root reports whether the checks run as root.
	Root() bool
	// Probe connects to the API server that a kubeconfig names.
	Probe(ctx context.Context, kubeconfig string) (Endpoint, error)
	// Now is the host's clock.
	Now() time.Time
}

// Endpoint is what a probe found out.
type Endpoint struct {
	// Server is the URL in the kubeconfig; known even when the probe failed.
	Server string
	// Date is the server's clock, zero when it did not tell.
	Date time.Time
}

// checks in the order of the report: what others build on comes first.
var checks = []struct {
	name string
	run  func(ctx context.Context, s *scope) []Finding
}{
	{"root", checkRoot},
	{"operating-system", checkOperatingSystem},
	{"systemd", checkSystemd},
	{"kernel", checkKernel},
	{"kernel-modules", checkModules},
	{"sysctl", checkSysctls},
	{"cgroups", checkCgroups},
	{"swap", checkSwap},
	{"cpu-and-memory", checkResources},
	{"disk", checkDisk},
	{"host-name", checkHostName},
	{"machine-id", checkMachineID},
	{"time", checkTime},
	{"name-resolution", checkResolver},
	{"default-route", checkDefaultRoute},
	{"mtu", checkMTU},
	{"tools", checkTools},
	{"packet-filter", checkPacketFilter},
	{"container-runtime", checkRuntime},
	{"kubernetes", checkKubernetes},
	{"clean", checkClean},
	{"ports", checkPorts},
	{"firewall", checkFirewall},
	{"selinux", checkSELinux},
	{"management-api", checkManagementAPI},
}

// scope is what the checks share.
type scope struct {
	Host
	config *config.AgentConfiguration
	// configErr is why there is no configuration; config holds the defaults then.
	configErr error
	distro    distribution
	// apiServerPort is where the API server of a control plane on this host listens.
	apiServerPort int
}

// Run makes all checks on the host. configErr says why c holds only defaults; nil
// when it was read from the host.
//
// apiServerPort is the port of the control-plane endpoint, 0 when it is not known.
func Run(ctx context.Context, h Host, c *config.AgentConfiguration, configErr error, apiServerPort int) Report {
	s := &scope{Host: h, config: c, configErr: configErr, distro: readDistribution(h), apiServerPort: cmp.Or(apiServerPort, kubelet.APIServerPort)}
	report := Report{OperatingSystem: s.distro.name}
	for _, check := range checks {
		found := check.run(ctx, s)
		if len(found) == 0 {
			continue
		}
		for _, f := range found {
			f.Check = check.name
			report.Findings = append(report.Findings, f)
			switch f.Level {
			case Error:
				report.Errors++
			case Warning:
				report.Warnings++
			case OK:
			}
		}
	}
	return report
}
