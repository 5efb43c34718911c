package e2e

import (
	"fmt"
	"strings"
	"time"
)

// hostOf returns which host of the cluster, or which free one, is broken.
func hostOf(match func(claimedBy string) bool) func(*ways) string {
	return func(w *ways) string {
		w.t.Helper()
		for _, h := range w.status().Hosts {
			if match(h.ClaimedBy) && (h.Phase == "Running" || h.Phase == "Available") {
				return h.Name
			}
		}
		w.t.Fatalf("no such host in %+v", w.status().Hosts)
		return ""
	}
}

var (
	worker       = hostOf(func(by string) bool { return strings.HasPrefix(by, "local/local-md") })
	free         = hostOf(func(by string) bool { return by == "" })
	controlPlane = hostOf(func(by string) bool { return by != "" && !strings.HasPrefix(by, "local/local-md") })
)

// running runs a script on the host that is broken.
func running(script string) func(*ways, string) {
	return func(w *ways, host string) { w.on(host, "sh", "-ec", script) }
}

// slipway runs a command of slipway; a % stands for the object.
func slipway(args ...string) func(*ways, string) {
	return func(w *ways, name string) {
		args := append([]string{}, args...)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "%", name)
		}
		w.must(args...)
	}
}

// recovered waits until the cluster has its three ready nodes.
func recovered(w *ways, _ string) {
	w.t.Helper()
	w.eventually("three ready nodes", readyNodes(3))
}

// theWays are sorted so that each finds what it needs.
var theWays = []way{
	{name: "the kubelet of a worker is stopped", kind: "Host", of: worker, check: "ServiceDown", breaks: running("systemctl stop kubelet"), command: "systemctl restart kubelet", after: recovered},
	{name: "containerd of a worker is stopped", kind: "Host", of: worker, check: "ServiceDown", breaks: running("systemctl stop containerd"), command: "systemctl restart containerd", after: recovered},
	{name: "the kubelet of the control plane is stopped", kind: "Host", of: controlPlane, check: "ServiceDown", breaks: running("systemctl stop kubelet"), command: "systemctl restart kubelet", after: recovered},
	{
		name: "the configuration of a kubelet is damaged", kind: "Host", of: worker, check: "ServiceDown",
		breaks:  running("cp /var/lib/kubelet/config.yaml /root/config.yaml; echo '{' >/var/lib/kubelet/config.yaml; systemctl restart kubelet || true"),
		first:   running("cp /root/config.yaml /var/lib/kubelet/config.yaml"),
		command: "systemctl restart kubelet", after: recovered,
	},
	{name: "the agent of a worker is stopped", kind: "Host", of: worker, check: "HostDisconnected", breaks: running("systemctl stop slipway-agent"), command: "systemctl restart slipway-agent"},
	{name: "the agent of a free host is stopped", kind: "Host", of: free, check: "HostDisconnected", breaks: running("systemctl stop slipway-agent"), command: "systemctl restart slipway-agent"},
	{name: "the agent of the control plane is stopped", kind: "Host", of: controlPlane, check: "HostDisconnected", breaks: running("systemctl stop slipway-agent"), command: "systemctl restart slipway-agent"},
	{name: "a host is cut off from the network", kind: "Host", of: worker, check: "HostDisconnected", breaks: slipway("host", "cut", "%"), first: slipway("host", "heal", "%"), command: "systemctl restart slipway-agent", after: recovered},
	{name: "a host loses its power", kind: "Host", of: worker, check: "HostDisconnected", breaks: slipway("host", "power-off", "%"), first: slipway("host", "power-on", "%"), command: "systemctl restart slipway-agent", after: recovered},
	{
		name: "a host is renamed", kind: "Host", of: worker, check: "NodeIdentityChanged",
		breaks: running("cp -a /usr/bin/hostnamectl /root/; printf '#!/bin/sh\\n[ \"$1\" = set-hostname ] && exec hostname \"$2\"\\n' >/usr/bin/hostnamectl; hostname \"$(hostname).lan.example\""), command: "hostnamectl set-hostname ",
		after: running("cp -a /root/hostnamectl /usr/bin/hostnamectl"),
	},
	{
		name: "a clock is off", kind: "Host", of: free, check: "ClockSkewed",
		breaks: skewed, first: func(w *ways, host string) { close(w.quit); w.on(host, "systemctl", "start", "slipway-agent") },
	},
	{name: "a Node is deleted", kind: "Host", of: worker, check: "NodeUnwell", breaks: func(w *ways, host string) { w.mustKubectl("local", "delete", "node", host) }, command: "slipway host reboot ", after: recovered},
}

// skewed beats the heart of a host with a clock two minutes ahead: local hosts have that of the machine.
func skewed(w *ways, host string) {
	w.on(host, "systemctl", "stop", "slipway-agent")
	w.quit = make(chan struct{})
	go func() {
		beat := time.NewTicker(2 * time.Second)
		defer beat.Stop()
		for {
			select {
			case <-w.quit:
				return
			case <-w.t.Context().Done():
				return
			case <-beat.C:
			}
			_, _ = w.kubectl("", "patch", "lease", host, "--type", "merge", "-p", fmt.Sprintf(`{"spec":{"renewTime":%q}}`, time.Now().Add(2*time.Minute).UTC().Format("2006-01-02T15:04:05.000000Z07:00")))
		}
	}()
}
