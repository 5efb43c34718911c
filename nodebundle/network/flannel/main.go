// Command flanneld is flannel assembled for one job: the default network of a
// local cluster. It takes subnets from the Nodes' pod CIDRs, routes between the
// nodes with the host-gw backend and programs nftables. Upstream's command links
// every backend, among them a cloud SDK and a cgo one; a static binary with one
// backend is all that hosts on one layer-2 segment need.
//
// Four things differ from upstream's command on purpose: a Node that has no pod
// CIDR yet is waited for rather than a reason to exit; the families are those of the
// Node's pod CIDRs, whatever the configuration enables; flanneld itself installs
// the CNI configuration, and only when pods can be connected, so a Node never
// reports Ready too early; and losing the backend ends the process.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"k8s.io/klog/v2"
)

// options are the command's flags; names that upstream also has mean the same.
type options struct {
	iface         string
	ipMasq        bool
	netConfPath   string
	subnetFile    string
	kubeconfig    string
	cniConf       string
	cniConfTarget string
}

func (o *options) bind(fs *flag.FlagSet) {
	fs.StringVar(&o.iface, "iface", "", "interface (name, or IP addresses separated by a comma, one of each family) that reaches the other nodes; default: the one of the default route")
	fs.BoolVar(&o.ipMasq, "ip-masq", false, "masquerade traffic that leaves the pod network")
	fs.StringVar(&o.netConfPath, "net-config-path", "/etc/kube-flannel/net-conf.json", "network configuration file")
	fs.StringVar(&o.subnetFile, "subnet-file", "/run/flannel/subnet.env", "file the flannel CNI plugin reads its subnet from")
	fs.StringVar(&o.kubeconfig, "kubeconfig-file", "", "kubeconfig; default: the pod's service account")
	fs.StringVar(&o.cniConf, "cni-conf", "/etc/kube-flannel/cni-conf.json", "CNI configuration to install")
	fs.StringVar(&o.cniConfTarget, "cni-conf-target", "", "where to install the CNI configuration once pods can be connected; empty: not at all")
}

func main() {
	var opts options
	opts.bind(flag.CommandLine)
	klog.InitFlags(nil)
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, opts)
	stop()
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "flanneld:", err)
		os.Exit(1)
	}
}

// run connects the node and then follows the other nodes' subnets until the
// context ends. Routes and rules stay in place afterwards, so that a restart of
// flanneld does not interrupt the pods.
func run(ctx context.Context, opts options) error {
	var wg sync.WaitGroup
	n, err := newNode(ctx, opts)
	if err != nil {
		return err
	}
	network, err := n.register(ctx, &wg)
	if err != nil {
		return err
	}
	if err := n.setupRules(ctx, network.Lease()); err != nil {
		return err
	}
	if err := n.publish(ctx, network, &wg); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		network.Run(ctx)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-ended:
		return errors.New("the host-gw backend ended")
	}
}
