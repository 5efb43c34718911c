package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/flannel-io/flannel/pkg/backend"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// families are those of a cluster.
type families struct{ v4, v6 bool }

// awaitFamilies returns those of the pod CIDRs of this program's Node, once it has some.
func awaitFamilies(ctx context.Context, opts options) (families, error) {
	config, err := clientcmd.BuildConfigFromFlags("", opts.kubeconfig)
	if err != nil {
		return families{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return families{}, err
	}
	for {
		node, err := client.CoreV1().Nodes().Get(ctx, os.Getenv("NODE_NAME"), metav1.GetOptions{})
		if err == nil {
			if found := familiesOf(node); found != (families{}) {
				return found, nil
			}
			err = fmt.Errorf("node %s has no pod CIDR", node.Name)
		}
		klog.InfoS("Waiting for this node's subnet", "reason", err)
		select {
		case <-ctx.Done():
			return families{}, ctx.Err()
		case <-time.After(registerRetry):
		}
	}
}

func familiesOf(node *corev1.Node) (found families) {
	for _, cidr := range append([]string{node.Spec.PodCIDR}, node.Spec.PodCIDRs...) {
		if network, err := netip.ParsePrefix(cidr); err == nil {
			found.v4, found.v6 = found.v4 || network.Addr().Is4(), found.v6 || network.Addr().Is6()
		}
	}
	return found
}

// configure writes the network configuration with these families beside the subnet file, and returns
// its name.
func (f families) configure(opts options) (string, error) {
	content, err := os.ReadFile(opts.netConfPath)
	if err != nil {
		return "", err
	}
	var config map[string]any
	if err := json.Unmarshal(content, &config); err != nil {
		return "", fmt.Errorf("%s: %w", opts.netConfPath, err)
	}
	config["EnableIPv4"], config["EnableIPv6"] = f.v4, f.v6
	if content, err = json.Marshal(config); err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(opts.subnetFile), "net-conf.json")
	return path, os.WriteFile(path, content, 0o644)
}

// addressed is an interface with addresses of these families. Upstream leaves one of IPv6 in the place of
// that of IPv4, and its host-gw takes the difference to the missing external one for a NAT.
func (f families) addressed(i *backend.ExternalInterface) *backend.ExternalInterface {
	if !f.v4 {
		i.IfaceAddr, i.ExtAddr = nil, nil
	}
	return i
}

// iface is what upstream is given of the value of --iface. Upstream takes the first address of the
// interface that is not said: of IPv6 that is the newest, such as the virtual one of a control plane.
func (f families) iface(value string) (name string, own ipmatch.PublicIPOpts) {
	for text := range strings.SplitSeq(value, ",") {
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			name = text
		case ip.Is4() && f.v4:
			name = text
		case ip.Is6() && f.v6:
			own.PublicIPv6 = text
			if !f.v4 {
				name = text
			}
		}
	}
	return name, own
}
