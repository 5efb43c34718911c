package provision

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/host"
)

// byHand is what takes an agent off a machine that nobody reaches from here.
const byHand = agentPath + " uninstall"

// addressOf is where a Host says that its machine is; empty when it does not.
func addressOf(h *infrav1.Host) string {
	for _, kind := range []clusterv1.MachineAddressType{clusterv1.MachineInternalIP, clusterv1.MachineExternalIP, clusterv1.MachineInternalDNS, clusterv1.MachineHostName} {
		for _, a := range h.Status.Addresses {
			if a.Type == kind && a.Address != "" {
				return a.Address
			}
		}
	}
	return ""
}

func (r *removal) connect(ctx context.Context) (err error) {
	r.machine, err = r.Dial(ctx, r.result.Address)
	var p *Problem
	if errors.As(err, &p) && r.host != nil {
		with := *p
		with.Remedy = strings.TrimPrefix(p.Remedy+"; --no-ssh removes the Host alone, if nobody can log in there any more", "; ")
		return &with
	}
	return err
}

func (r *removal) look(ctx context.Context) error {
	printed, err := r.machine.Run(ctx, factsScript, nil)
	if err != nil {
		return err
	}
	if r.facts, err = parseFacts(printed); err != nil {
		return problem(ReasonUnsupportedSystem, "", "%s", err)
	}
	return nil
}

// check refuses a machine that is not that of the host, or that serves another management
// cluster.
func (r *removal) check(context.Context) error {
	return checkDeparture(r.departure.Name, r.Namespace, r.Server, r.facts, r.host)
}

// checkDeparture compares a machine with the Host; nil is one that is gone. A host is the machine
// that has its key: a machine-id is copied with a disk. What the machine is called counts only
// where neither tells.
func checkDeparture(name, namespace, server string, f Facts, h *infrav1.Host) error {
	const elsewhere = "it serves there: remove it from there; if that is another address of this management cluster, give it with --server"
	var id, key string
	if h != nil {
		id, key = h.Status.Inventory.MachineID, h.Spec.HostID
	}
	same := id != "" && id == f.MachineID
	agent := cmp.Or(f.ConfiguredName, f.KeptName)
	if err := checkKey(name, key, f, h); err != nil {
		return err
	}
	switch {
	case id != "" && f.MachineID != "" && !same:
		return problem(ReasonOtherMachine, "give the address of the machine with --ssh "+name+"=[USER@]ADDRESS; if it is gone or was installed anew, --no-ssh removes the Host alone",
			"it is not the machine of host %s: that has machine-id %s, and this one %s", name, id, f.MachineID)
	case agent != "" && agent != name, !same && f.hostName() != name:
		return problem(ReasonOtherMachine, "give the address of the machine with --ssh "+name+"=[USER@]ADDRESS",
			"it is not the machine of host %s, but %s", name, f.hostName())
	case f.Namespace != "" && f.Namespace != namespace:
		return problem(ReasonEnrolledElsewhere, "use -n with that namespace, if it is one of this management cluster", "its agent is configured for namespace %s, not %s", f.Namespace, namespace)
	case f.Server != "" && f.Server != server && (!same || !host.Connected(h)):
		return problem(ReasonEnrolledElsewhere, elsewhere, "it is enrolled at %s", f.Server)
	}
	return nil
}

// checkKey compares the key of a machine with that of the Host; an empty one is not known.
func checkKey(name, key string, f Facts, h *infrav1.Host) error {
	switch {
	case key == "":
		return nil
	case f.HostID != "" && key != f.HostID:
		return problem(ReasonOtherMachine, "give the address of the machine with --ssh "+name+"=[USER@]ADDRESS; if it is gone or was installed anew, --no-ssh removes the Host alone",
			"it is not the machine of host %s: its agent has another key than spec.hostID", name)
	case !f.Identity && host.Connected(h):
		return problem(ReasonOtherMachine, "give the address of the machine with --ssh "+name+"=[USER@]ADDRESS; if an uninstall was interrupted there, wait until the host counts as away",
			"it is not the machine of host %s: it has no key, and the agent of that host is connected", name)
	}
	return nil
}

// program is the agent that can take itself away; empty when there is none.
func (r *removal) program() string {
	switch {
	case r.facts.AgentDigest != "":
		return agentPath
	case r.facts.StagedAgentDigest != "":
		return stagedAgent
	case r.facts.AgentPackaged:
		return packagedPath
	}
	return ""
}

func (r *removal) hasAgent() bool { return r.reaches() && r.program() != "" }

// uninstall has the agent take itself and its software away. It refuses on a node, whatever
// the management cluster knows of it.
func (r *removal) uninstall(ctx context.Context) error {
	printed, err := r.machine.Run(ctx, r.program()+" uninstall -o json", nil)
	var exit *ExitError
	if err != nil && !errors.As(err, &exit) {
		return err
	}
	var report struct {
		Left []Left `json:"left"`
	}
	if json.Unmarshal([]byte(printed), &report) == nil && report.Left != nil {
		r.kept = report.Left
		return nil
	}
	if exit == nil {
		return problem(ReasonCommandFailed, "", "what its agent said of the uninstall cannot be read: %.80q", printed)
	}
	exit.Stderr = afterLast(exit.Stderr, "slipway-agent uninstall: ")
	p := problem(ReasonCommandFailed, "mend that, and run the same command again; an agent that does not know the command is replaced by `slipway host add`", "%s", exit.Stderr)
	if exit.Code == servesCode {
		p.Reason, p.Remedy = ReasonServes, "see the message; the same command goes on"
	}
	p.Err = exit
	return p
}

// servesCode is the exit code of `slipway-agent uninstall` on a node.
const servesCode = 3

// leftScript prints what is there of all that Slipway brings to a machine; what lies below
// /run goes with the next boot. It asks no agent.
const leftScript = `
for path in ` + agentPath + ` ` + agentPath + `.new ` + agentPath + `.next ` + agentPath + `.next.part ` + unitPath + ` ` + unitPath + `.new /etc/systemd/system/*.wants/` + unitName + ` ` + unitPath + `.d \
  ` + stateDir + ` ` + staging + ` /etc/slipway /var/log/slipway-bootstrap.log \
  ` + componentsDir + `/store /var/lib/slipway /var/lib/slipway-software.json /var/lib/slipway-software.fetched \
  /etc/systemd/system/slipway-*.service /etc/systemd/system/*.wants/slipway-*.service /etc/modules-load.d/slipway.conf /etc/sysctl.d/90-slipway.conf; do
  if [ -e "$path" ] || [ -L "$path" ]; then printf '%s\n' "$path"; fi
done
for link in /usr/local/bin/* /usr/local/sbin/*; do
  case "$(readlink "$link" 2>/dev/null)" in ` + componentsDir + `/store/*) printf '%s\n' "$link" ;; esac
done
true
`

// prove looks what is left on the machine, by other means than those that removed it.
func (r *removal) prove(ctx context.Context) error {
	printed, err := r.machine.Run(ctx, leftScript, nil)
	if err != nil {
		return err
	}
	r.result.Left = r.kept
	why := "it is still there"
	if r.program() == "" {
		why = "there is no agent that would take it away: copy slipway-agent there, and run `slipway-agent uninstall`"
	}
	for path := range strings.Lines(printed) {
		path = strings.TrimSpace(path)
		if !slices.ContainsFunc(r.result.Left, func(l Left) bool { return l.Path == path }) {
			r.result.Left = append(r.result.Left, Left{Path: path, Why: why})
		}
	}
	return nil
}
