package effects

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/agent/core/journal"
	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/effects/bootstrap"
	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
	"github.com/slipway-dev/slipway/internal/agent/hostos/kubelet"
	"github.com/slipway-dev/slipway/internal/agent/hostos/nodeaddress"
)

// decideNode decides the name and the addresses of the node, before anything is changed, and records
// them. A try after that keeps them, whatever the host is called or has as addresses meanwhile.
func (e *Executor) decideNode(requested operation.Bootstrap, config *cloudconfig.Config, progress operation.Progress) error {
	interfaces, err := e.Interfaces()
	if err != nil {
		return err
	}
	virtual, err := virtualIP(requested)
	if err != nil {
		return err
	}
	if link := nodeaddress.On(interfaces, virtual); link != "" && progress.State().VirtualIP != requested.VirtualIP {
		return &operation.Error{Reason: operation.ReasonVirtualIPFailed, Retry: operation.RetryNever, Message: fmt.Sprintf(
			"the control-plane endpoint %s is this host's own address, on %s; make the cluster with an address that no machine has, or with endpoint type External", virtual, link)}
	}
	if s := progress.State(); s.Node != nil && s.Residue != journal.ResidueNone {
		return nil
	}
	said := bootstrap.ReadKubeadm(config.WriteFiles)
	name, err := e.nodeName(said, config.Hostname)
	if err != nil {
		return err
	}
	node := &journal.Node{Name: name}
	if node.IPs, node.Source, err = e.nodeIPs(said, requested, interfaces, virtual); err != nil {
		return operation.Failf(operation.ReasonNodeAddressUnknown, operation.RetryLater, err, "choose the addresses of the node")
	}
	return progress.Update(func(s *journal.State) { s.Node = node })
}

func virtualIP(requested operation.Bootstrap) (netip.Addr, error) {
	if requested.VirtualIP == "" {
		return netip.Addr{}, nil
	}
	ip, err := netip.ParseAddr(requested.VirtualIP)
	if err != nil {
		return netip.Addr{}, &operation.Error{Reason: operation.ReasonVirtualIPFailed, Retry: operation.RetryNever,
			Message: fmt.Sprintf("the virtual IP %.64q is not an address", requested.VirtualIP)}
	}
	return ip.Unmap(), nil
}

// nodeName is the name that kubeadm would take.
func (e *Executor) nodeName(said bootstrap.KubeadmSettings, set cloudconfig.Hostname) (string, error) {
	name := said.HostnameOverride
	if name == "" {
		name = said.Name
	}
	if name == "" && !set.Preserve {
		if name = set.Name; name == "" {
			name, _, _ = strings.Cut(set.FQDN, ".")
		}
	}
	if name == "" {
		var err error
		if name, err = e.Hostname(); err != nil {
			return "", err
		}
	}
	name = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
	if len(validation.IsDNS1123Subdomain(name)) > 0 || len(name) > validation.DNS1123LabelMaxLength {
		return "", &operation.Error{Reason: operation.ReasonNodeNameInvalid, Retry: operation.RetryLater, Message: fmt.Sprintf(
			"%.128q cannot be the name of a Node, which has at most 63 lower-case letters, digits, '-' and '.'; "+
				"rename the host (hostnamectl set-hostname NAME), or set nodeRegistration.name in the bootstrap data", name)}
	}
	return name, nil
}

// nodeIPs follow the operator of the host, then the bootstrap data, then the families of the cluster.
func (e *Executor) nodeIPs(said bootstrap.KubeadmSettings, requested operation.Bootstrap, interfaces []nodeaddress.Interface, virtual netip.Addr) ([]netip.Addr, infrav1.HostNodeAddressSource, error) {
	var v6 []bool
	for _, family := range requested.IPFamilies {
		v6 = append(v6, family == infrav1.HostIPv6)
	}
	if len(v6) == 0 && virtual.IsValid() && len(e.Rule.IPs) < 2 {
		v6 = []bool{virtual.Is6()}
	}
	if ips := dataIPs(said); len(ips) > 0 && len(e.Rule.IPs) == 0 {
		if !ips[0].IsUnspecified() {
			return ips, "", nil
		}
		v6 = []bool{ips[0].Is6()}
	}
	choice, err := e.Rule.Choose(interfaces, v6, virtual)
	return choice.IPs, choice.Source, err
}

// dataIPs are the addresses in the flag --node-ip of the bootstrap data: [::] and 0.0.0.0 name a family.
func dataIPs(said bootstrap.KubeadmSettings) []netip.Addr {
	var ips []netip.Addr
	for text := range strings.SplitSeq(said.NodeIP, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(text))
		if err != nil {
			return nil
		}
		ips = append(ips, ip.Unmap())
	}
	return ips
}

// completeData puts the decision into the bootstrap data, where that leaves it open.
func (e *Executor) completeData(config *cloudconfig.Config, progress operation.Progress) error {
	node := progress.State().Node
	name, advertise := node.Name, netip.Addr{}
	if said := bootstrap.ReadKubeadm(config.WriteFiles); said.HostnameOverride != "" {
		name = said.Name
	}
	if len(node.IPs) > 0 {
		advertise = node.IPs[0]
	}
	files, err := bootstrap.CompleteKubeadm(config.WriteFiles, name, advertise)
	if err != nil {
		return err
	}
	config.WriteFiles = files
	return nil
}

// nodeLabels are those that the bootstrap data does not set itself.
func nodeLabels(requested map[string]string, said bootstrap.KubeadmSettings) map[string]string {
	wanted := maps.Clone(requested)
	for label := range strings.SplitSeq(said.NodeLabels, ",") {
		key, _, _ := strings.Cut(label, "=")
		delete(wanted, strings.TrimSpace(key))
	}
	return wanted
}

// applyArguments gives the kubelet what was decided. registered keeps it from making its Node anew.
func (e *Executor) applyArguments(requested operation.Bootstrap, registered bool, progress operation.Progress) error {
	node := progress.State().Node
	ips := make([]string, len(node.IPs))
	for i, ip := range node.IPs {
		ips[i] = ip.String()
	}
	return kubelet.Apply(e.Root, kubelet.Arguments{ProviderID: requested.ProviderID, NodeIP: strings.Join(ips, ","), NodeName: node.Name,
		NodeLabels: labels.Set(requested.NodeLabels).String(), Registered: registered})
}

// recordHostName keeps what the host is called now, so that a later name is seen to be another one.
func (e *Executor) recordHostName(progress operation.Progress) error {
	name, err := e.Hostname()
	if err != nil {
		return err
	}
	if progress.State().Node == nil {
		return errors.New("the journal has lost the decision about the node")
	}
	return progress.Update(func(s *journal.State) {
		node := *s.Node
		node.HostName = name
		s.Node = &node
	})
}
