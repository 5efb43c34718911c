package provision

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Paths on a machine.
const (
	agentPath = "/usr/local/bin/slipway-agent"
	// packagedPath is where a package of the agent has it.
	packagedPath = "/usr/bin/slipway-agent"
	unitName     = "slipway-agent.service"
	unitPath     = "/etc/systemd/system/" + unitName
	stateDir     = "/var/lib/slipway-agent"
	// staging holds what is brought until it is installed; root's alone.
	staging       = "/var/lib/slipway-host-add"
	stagedAgent   = staging + "/slipway-agent"
	stagedBundle  = staging + "/hostbundle"
	stagedKey     = staging + "/hostbundle.pub"
	componentsDir = "/opt/slipway"
)

// Facts are what a machine is and has. They are gathered by one script that only looks.
type Facts struct {
	// Kernel and Machine as uname tells them, such as Linux and x86_64.
	Kernel, Machine string
	// System is how the distribution names itself.
	System string
	// HostName of the running system.
	HostName string
	// MachineID is /etc/machine-id; empty when there is none.
	MachineID string
	// BootID is of the running kernel; no two that run have the same.
	BootID string
	// Systemd says whether it was booted with systemd.
	Systemd bool
	// Clock of the machine, and Skew by which it is ahead of the one here for certain: what
	// the script took is not held against it.
	Clock time.Time
	Skew  time.Duration
	// StateFree and ComponentsFree are the bytes that can be written below /var/lib and
	// /opt; OneDisk says that both are the same file system.
	StateFree, ComponentsFree int64
	OneDisk                   bool
	// Staged is how many bytes an earlier run has brought.
	Staged int64
	// Runtimes are units of somebody else's container runtimes that run or start at boot.
	Runtimes []string
	// AgentDigest and UnitDigest are of the installed agent and its unit, sha256 in
	// hexadecimal; empty without one.
	AgentDigest, UnitDigest string
	// StagedAgentDigest is of the agent that was brought and not installed yet.
	StagedAgentDigest string
	// AgentPackaged says that a package brought one.
	AgentPackaged bool
	// AgentRuns says whether the agent's unit is active and starts at boot.
	AgentRuns bool
	// Namespace and ConfiguredName are in the agent's configuration; empty without one. A host
	// that was assigned to another namespace since is in that.
	Namespace, ConfiguredName string
	// KeptName is what the agent called itself at its first start.
	KeptName string
	// Identity says that the agent has made the key by which the management cluster knows it.
	Identity bool
	// HostID is the digest of that key's public part, as spec.hostID has it; empty without a key, and
	// of one that is not of P-256.
	HostID string
	// Server the machine is enrolled at; empty when it is not.
	Server string
	// Known says that the management cluster has a Host of that name which an agent enrolled.
	Known bool
	// Software are the installed host bundles, by Kubernetes version.
	Software map[string]Software
}

// Software is one installed host bundle, as `slipway-agent software list` shows it.
type Software struct {
	KubernetesVersion string `json:"kubernetesVersion"`
	State             string `json:"state"`
	Digest            string `json:"digest"`
}

// factsScript prints a line for each fact. It writes nothing, and uses what every
// distribution has.
var factsScript = `
put() { printf '%s=%s\n' "$1" "$(printf %s "$2" | tr -d '\n\r')"; }
sum() { [ ! -f "$1" ] || sha256sum <"$1" | cut -d' ' -f1; }
entry() { [ ! -f "$2" ] || sed -n "s/^ *$1: *//p" "$2" | head -n1 | tr -d "\"'"; }
free() { while [ ! -d "$1" ]; do set -- "$(dirname "$1")"; done; df -Pk "$1" | tail -n1; }
# A key of P-256 ends with its public part: 65 bytes, of which the first is 4. What is hashed
# is that part behind the header of a PKIX public key.
point() { sed '/^-/d' "$1" 2>/dev/null | base64 -d 2>/dev/null | tail -c 65; }
hostID() {
  [ "$(point "$1" | wc -c)" -eq 65 ] && [ "$(point "$1" | head -c 1 | od -An -tu1 | tr -d ' ')" = 4 ] || return 0
  { printf '\060\131\060\023\006\007\052\206\110\316\075\002\001\006\010\052\206\110\316\075\003\001\007\003\102\000'; point "$1"; } | sha256sum | cut -d' ' -f1
}
put kernel "$(uname -s)"
put machine "$(uname -m)"
put system "$( (. /etc/os-release && printf %s "$PRETTY_NAME") 2>/dev/null)"
put hostname "$(cat /proc/sys/kernel/hostname 2>/dev/null || uname -n)"
put machineID "$(cat /etc/machine-id 2>/dev/null)"
put bootID "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
[ ! -d /run/systemd/system ] || put systemd true
put clock "$(date +%s)"
put stateFree "$(free /var/lib | awk '{print $4}')"
put componentsFree "$(free /opt/slipway | awk '{print $4}')"
[ "$(free /var/lib | awk '{print $1, $6}')" != "$(free /opt/slipway | awk '{print $1, $6}')" ] || put oneDisk true
[ ! -d ` + staging + ` ] || put staged "$(du -sk ` + staging + ` | cut -f1)"
for unit in ` + strings.Join(runtimes, " ") + `; do
  if systemctl --quiet is-active $unit 2>/dev/null || systemctl --quiet is-enabled $unit 2>/dev/null; then put runtime $unit; fi
done
put agentDigest "$(sum ` + agentPath + `)"
put stagedAgentDigest "$(sum ` + stagedAgent + `)"
[ ! -x ` + packagedPath + ` ] || put agentPackaged true
put unitDigest "$(sum ` + unitPath + `)"
if systemctl --quiet is-active ` + unitName + ` 2>/dev/null && systemctl --quiet is-enabled ` + unitName + ` 2>/dev/null; then put agentRuns true; fi
put namespace "$(entry namespace /etc/slipway/agent.yaml)"
put assigned "$(sed -n 's/.*"namespace":"\([^"]*\)".*/\1/p' ` + stateDir + `/assigned.json 2>/dev/null)"
put assignedFrom "$(sed -n 's/.*"configured":"\([^"]*\)".*/\1/p' ` + stateDir + `/assigned.json 2>/dev/null)"
put name "$(cat ` + stateDir + `/host-name 2>/dev/null)"
put configuredName "$(entry hostName /etc/slipway/agent.yaml)"
[ ! -f ` + stateDir + `/identity.key ] || put identity true
put hostID "$(hostID ` + stateDir + `/identity.key)"
put server "$(entry server ` + stateDir + `/kubeconfig)"
if [ -x ` + agentPath + ` ]; then put software "$(` + agentPath + ` software list -o json 2>/dev/null)"; fi
`

// parseFacts reads what the script printed.
func parseFacts(printed string) (Facts, error) {
	f := Facts{Software: map[string]Software{}}
	var assigned, assignedFrom string
	text := map[string]*string{
		"kernel": &f.Kernel, "machine": &f.Machine, "system": &f.System, "hostname": &f.HostName, "machineID": &f.MachineID, "bootID": &f.BootID,
		"agentDigest": &f.AgentDigest, "stagedAgentDigest": &f.StagedAgentDigest, "unitDigest": &f.UnitDigest,
		"namespace": &f.Namespace, "configuredName": &f.ConfiguredName, "name": &f.KeptName, "server": &f.Server,
		"hostID": &f.HostID, "assigned": &assigned, "assignedFrom": &assignedFrom,
	}
	flags := map[string]*bool{"systemd": &f.Systemd, "oneDisk": &f.OneDisk, "agentPackaged": &f.AgentPackaged, "agentRuns": &f.AgentRuns, "identity": &f.Identity}
	kibibytes := map[string]*int64{"stateFree": &f.StateFree, "componentsFree": &f.ComponentsFree, "staged": &f.Staged}
	lines := bufio.NewScanner(strings.NewReader(printed))
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		switch {
		case text[name] != nil:
			*text[name] = value
		case flags[name] != nil:
			*flags[name] = value == "true"
		case kibibytes[name] != nil:
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return f, fmt.Errorf("%s is no number of KiB: %q", name, value)
			}
			*kibibytes[name] = n << 10
		case name == "runtime":
			f.Runtimes = append(f.Runtimes, value)
		case name == "clock":
			seconds, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return f, fmt.Errorf("its clock says %q", value)
			}
			f.Clock = time.Unix(seconds, 0)
		case name == "software" && value != "":
			if err := f.parseSoftware(value); err != nil {
				return f, err
			}
		}
	}
	if assigned != "" && assignedFrom == f.Namespace {
		f.Namespace = assigned
	}
	if f.Kernel == "" || f.Clock.IsZero() {
		return f, fmt.Errorf("its shell printed no facts, but %.80q", printed)
	}
	return f, lines.Err()
}

func (f *Facts) parseSoftware(printed string) error {
	var list struct {
		Releases []Software `json:"releases"`
	}
	if err := json.Unmarshal([]byte(printed), &list); err != nil {
		return fmt.Errorf("its list of software: %w", err)
	}
	for _, s := range list.Releases {
		f.Software[s.KubernetesVersion] = s
	}
	return nil
}

// skew of a clock that was read between two moments of the one here.
func skew(clock, begin, end time.Time) time.Duration {
	switch {
	case clock.Before(begin):
		return clock.Sub(begin)
	case clock.After(end):
		return clock.Sub(end)
	}
	return 0
}

// architecture is Go's name of the machine's.
func (f Facts) architecture() string {
	switch f.Machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return f.Machine
}

// hostName is what the Host is called: what the agent's configuration says, what the
// agent called itself before, or else the machine's own name in lower case.
func (f Facts) hostName() string {
	return cmp.Or(f.ConfiguredName, f.KeptName, strings.ToLower(f.HostName))
}

// enrolled machines have a certificate, and their Host is there.
func (f Facts) enrolled() bool { return f.Server != "" && f.Known }
