package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/hostgw" // registers "host-gw"
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/lease"
	"github.com/flannel-io/flannel/pkg/subnet"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/flannel-io/flannel/pkg/trafficmngr/nftables"
	"k8s.io/klog/v2"
)

// annotationPrefix is upstream's, so that other tools read the same annotations.
const annotationPrefix = "flannel.alpha.coreos.com"

// registerRetry is the pause between attempts to obtain the node's subnet.
const registerRetry = time.Second

// node is this node's membership of the pod network.
type node struct {
	opts    options
	subnets subnet.Manager
	config  *subnet.Config
	iface   *backend.ExternalInterface
}

func newNode(ctx context.Context, opts options) (*node, error) {
	families, err := awaitFamilies(ctx, opts)
	if err != nil {
		return nil, err
	}
	if opts.netConfPath, err = families.configure(opts); err != nil {
		return nil, fmt.Errorf("network configuration: %w", err)
	}
	subnets, err := kube.NewSubnetManager(ctx, "", opts.kubeconfig, annotationPrefix, opts.netConfPath, true)
	if err != nil {
		return nil, fmt.Errorf("subnets of the cluster's Nodes: %w", err)
	}
	config, err := subnets.GetNetworkConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("network configuration %s: %w", opts.netConfPath, err)
	}
	if !config.EnableNFTables {
		return nil, fmt.Errorf("network configuration %s: set EnableNFTables to true, this flanneld has no iptables", opts.netConfPath)
	}
	stack, err := ipmatch.GetIPFamily(config.EnableIPv4, config.EnableIPv6)
	if err != nil {
		return nil, fmt.Errorf("network configuration %s: %w", opts.netConfPath, err)
	}
	name, own := families.iface(opts.iface)
	iface, err := ipmatch.LookupExtIface(name, "", "", stack, own)
	if err != nil {
		return nil, fmt.Errorf("interface to the other nodes (--iface=%q): %w", opts.iface, err)
	}
	return &node{opts: opts, subnets: subnets, config: config, iface: families.addressed(iface)}, nil
}

// register announces this node's address and returns its part of the network. A
// Node gets its pod CIDR some moments after it joins, so failures are retried
// until the context ends.
func (n *node) register(ctx context.Context, wg *sync.WaitGroup) (backend.Network, error) {
	be, err := backend.NewManager(ctx, n.subnets, n.iface).GetBackend(n.config.BackendType)
	if err != nil {
		return nil, fmt.Errorf("backend %q (only host-gw is built in): %w", n.config.BackendType, err)
	}
	for {
		network, err := be.RegisterNetwork(ctx, wg, n.config)
		if err == nil {
			return network, nil
		}
		klog.InfoS("Waiting for this node's subnet", "reason", err)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(registerRetry):
		}
	}
}

// setupRules lets the kernel forward the pod network's traffic and, with
// --ip-masq, masquerade what leaves it.
func (n *node) setupRules(ctx context.Context, own *lease.Lease) error {
	rules := &nftables.NFTablesManager{}
	if err := rules.Init(ctx); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	if n.opts.ipMasq {
		// The previous subnets only matter to the iptables manager: nftables
		// chains are flushed as a whole.
		var none4 ip.IP4Net
		var none6 ip.IP6Net
		if err := rules.SetupAndEnsureMasqRules(ctx, n.config.Network, none4, none4,
			n.config.IPv6Network, none6, none6, own, 0, false); err != nil {
			return err
		}
	}
	rules.SetupAndEnsureForwardRules(ctx, n.config.Network, n.config.IPv6Network, 0)
	return nil
}

// publish tells the CNI plugin its subnet, then the kubelet (through the CNI
// configuration) and the API server that the node's network works.
func (n *node) publish(ctx context.Context, network backend.Network, wg *sync.WaitGroup) error {
	own := network.Lease()
	err := n.subnets.HandleSubnetFile(n.opts.subnetFile, n.config, n.opts.ipMasq, own.Subnet, own.IPv6Subnet, network.MTU())
	if err != nil {
		return fmt.Errorf("subnet file %s: %w", n.opts.subnetFile, err)
	}
	if n.opts.cniConfTarget != "" {
		if err := installFile(n.opts.cniConf, n.opts.cniConfTarget); err != nil {
			return fmt.Errorf("CNI configuration: %w", err)
		}
	}
	if err := n.subnets.CompleteLease(ctx, own, wg); err != nil {
		return fmt.Errorf("set the Node's condition NetworkUnavailable: %w", err)
	}
	klog.InfoS("Pods can be connected", "subnet", own.Subnet, "interface", n.iface.Iface.Name)
	return nil
}

// installFile copies source to target so that a reader, or a power cut, finds
// either the old content or the new one.
func installFile(source, target string) error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(target), ".flannel-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(content)
	if err == nil {
		err = tmp.Chmod(0o644)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), target)
}
