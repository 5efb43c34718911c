package provision

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/slipway-dev/slipway/internal/agent/join"
	"github.com/slipway-dev/slipway/internal/enroll"
)

// Format is a language in which a machine is told to enroll.
type Format string

const (
	// FormatShell is a script of the POSIX shell, to be run as root.
	FormatShell Format = "shell"
	// FormatCloudInit is cloud-config, the user data of a machine.
	FormatCloudInit Format = "cloud-init"
	// FormatAnsible is a playbook.
	FormatAnsible Format = "ansible"
)

// Formats are all of them.
var Formats = []Format{FormatShell, FormatCloudInit, FormatAnsible}

// Check refuses a format that is none, or that is not for so many hosts.
func (f Format) Check(hosts []string) error {
	switch {
	case !slices.Contains(Formats, f):
		return fmt.Errorf("%q is no format: want one of %q", f, Formats)
	case f != FormatAnsible && len(hosts) > 1:
		return fmt.Errorf("%s is for one machine: name one host, or none for machines that keep their own names", f)
	}
	return nil
}

// Enrollment is what a machine enrolls with that has the agent already.
type Enrollment struct {
	// Server is the https URL of the API server as machines see it, and CA, PEM, verifies it.
	Server string
	CA     []byte
	// Token is a bootstrap token, id.secret.
	Token     string
	Namespace string
	// Hosts are the names that the token is bound to; any when empty.
	Hosts []string
	// Unit is the content of the agent's unit.
	Unit []byte
}

// Write returns what to give to machines. It holds the token. The result of all formats is
// that of Add: the same files, of the same modes, and an agent that starts at each boot.
func (e Enrollment) Write(f Format) ([]byte, error) {
	if err := f.Check(e.Hosts); err != nil {
		return nil, err
	}
	switch f {
	case FormatCloudInit:
		return e.cloudInit()
	case FormatAnsible:
		return e.ansible()
	default:
		return e.shell()
	}
}

func (e Enrollment) hostName() string {
	if len(e.Hosts) == 0 {
		return ""
	}
	return e.Hosts[0]
}

// shell gives the token to the agent on its standard input, which no list of processes shows.
func (e Enrollment) shell() ([]byte, error) {
	args, err := join.Args(join.Options{Server: e.Server, CA: e.CA, TokenFile: "/dev/stdin", Namespace: e.Namespace, HostName: e.hostName()})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "#!/bin/sh\n# Run this as root. It holds a secret: keep it readable by you alone.\nset -eu\numask 022\n")
	fmt.Fprintf(&b, "cat <<'TOKEN' | %s %s\n%s\nTOKEN\n", agentPath, strings.Join(args, " "), e.Token)
	fmt.Fprintf(&b, "service() {\n%s}\nservice <<'UNIT'\n%sUNIT\n", fmt.Sprintf(serviceScript, sum(e.Unit)), e.Unit)
	return b.Bytes(), nil
}

// writtenFile is an entry of write_files.
type writtenFile struct {
	Path        string `json:"path"`
	Content     string `json:"content,omitempty"`
	Permissions string `json:"permissions"`
	Owner       string `json:"owner"`
}

func (e Enrollment) cloudInit() ([]byte, error) {
	kubeconfig, err := join.BootstrapKubeconfig(e.Server, e.CA, e.Token)
	if err != nil {
		return nil, err
	}
	const owner = "root:root"
	data, err := yaml.Marshal(map[string]any{
		"write_files": []writtenFile{
			{enroll.AgentConfigPath, string(join.Configuration(e.Namespace, e.hostName())), "0644", owner},
			// cloud-init writes, and then sets the mode: what is there has it before the secret comes.
			{enroll.BootstrapKubeconfigPath, "", "0600", owner},
			{enroll.BootstrapKubeconfigPath, string(kubeconfig), "0600", owner},
			{unitPath, string(e.Unit), "0644", owner},
		},
		"runcmd": startCommands,
	})
	return append([]byte("#cloud-config\n"), data...), err
}

// startCommands start the agent, now and at each boot.
var startCommands = [][]string{{"systemctl", "daemon-reload"}, {"systemctl", "enable", unitName}, {"systemctl", "restart", unitName}}

func (e Enrollment) ansible() ([]byte, error) {
	kubeconfig, err := join.BootstrapKubeconfig(e.Server, e.CA, e.Token)
	if err != nil {
		return nil, err
	}
	machines, name := "all", ""
	if len(e.Hosts) > 0 {
		hosts := slices.Clone(e.Hosts)
		slices.Sort(hosts)
		machines, name = strings.Join(slices.Compact(hosts), ","), "{{ inventory_hostname }}"
	}
	configuration := join.Configuration(e.Namespace, name)
	file := func(what, path, mode string, content []byte, secret bool) map[string]any {
		task := map[string]any{"name": what, "ansible.builtin.copy": map[string]any{"dest": path, "content": string(content), "owner": "root", "group": "root", "mode": mode}}
		if secret {
			task["no_log"] = true
		}
		return task
	}
	return yaml.Marshal([]any{map[string]any{
		"name": "Enroll hosts into namespace " + e.Namespace, "hosts": machines, "become": true,
		"tasks": []any{
			map[string]any{"name": "Directory of the configuration", "ansible.builtin.file": map[string]any{"path": "/etc/slipway", "state": "directory", "mode": "0755"}},
			file("Configuration of the agent", enroll.AgentConfigPath, "0644", configuration, false),
			file("What it enrolls with", enroll.BootstrapKubeconfigPath, "0600", kubeconfig, true),
			file("Its unit", unitPath, "0644", e.Unit, false),
			map[string]any{"name": "Start it, now and at each boot", "ansible.builtin.systemd_service": map[string]any{
				"name": unitName, "daemon_reload": true, "enabled": true, "state": "restarted"}},
		},
	}})
}
