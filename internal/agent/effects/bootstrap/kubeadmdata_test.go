package bootstrap

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/effects/cloudconfig"
)

const (
	initData = `---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
networking: {podSubnet: "fd00:10::/56"} # as it was written
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
localAPIEndpoint: {bindPort: 6444}
nodeRegistration:
  criSocket: unix:///run/containerd/containerd.sock
  kubeletExtraArgs: [{name: node-ip, value: "::"}]
`
	joinData   = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ndiscovery: {bootstrapToken: {token: 1e2.3}}\nnodeRegistration: {kubeletExtraArgs: {hostname-override: other}}\n"
	joinCPData = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ncontrolPlane: {localAPIEndpoint: {advertiseAddress: \"\", bindPort: 6443}}\n"
	setData    = "apiVersion: kubeadm.k8s.io/v1beta3\nkind: JoinConfiguration\ncontrolPlane: {localAPIEndpoint: {advertiseAddress: 10.9.9.9}}\nnodeRegistration: {name: mine}\n"
)

func filesOf(contents ...string) (all []cloudconfig.File) {
	for _, c := range contents {
		all = append(all, cloudconfig.File{Path: "/run/kubeadm/kubeadm.yaml", Content: []byte(c)})
	}
	return all
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want KubeadmSettings
	}{
		"init": {initData, KubeadmSettings{NodeIP: "::"}}, "join": {joinData, KubeadmSettings{HostnameOverride: "other"}}, "set": {setData, KubeadmSettings{Name: "mine"}},
		"the last flag":  {strings.Replace(initData, `[{`, `[{name: node-ip, value: 10.0.0.9}, {`, 1), KubeadmSettings{NodeIP: "::"}},
		"something else": {"kind: InitConfiguration\nnodeRegistration: {name: no}\n", KubeadmSettings{}}, "no YAML": {"kubeadm.k8s.io/ {", KubeadmSettings{}},
	} {
		if got := ReadKubeadm(filesOf(c.data)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// Users have files with documents of kubeadm for other purposes. They neither name the node nor are changed, unless
// there is no other configuration.
func TestKubeadmDocumentsOfUsers(t *testing.T) {
	users := []cloudconfig.File{
		{Path: "/etc/kubernetes/sample.yaml", Content: []byte(setData)},
		{Path: "/etc/kubernetes/upload.yaml", Content: []byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\n")},
		{Path: "/usr/local/bin/again", Content: []byte("#!/bin/sh\nkubeadm init phase upload-config all --config /dev/stdin <<EOF\n---\n" + initData + "---\nEOF\n")},
		{Path: "/run/kubeadm/more/config.yaml", Content: []byte(setData)},
		{Path: "/run/kubeadm/upload.yaml", Content: []byte(setData)},
	}
	ours := cloudconfig.File{Path: "/run//kubeadm/kubeadm-join-config.yaml", Content: []byte(joinCPData)}
	for name, at := range map[string]int{"before": 0, "after": len(users)} {
		files := slices.Insert(slices.Clone(users), len(users)-at, ours)
		if got := ReadKubeadm(files); got != (KubeadmSettings{}) {
			t.Errorf("%s: they say %+v of the node", name, got)
		}
		completed, err := CompleteKubeadm(files, "node-1", netip.MustParseAddr("10.0.0.5"))
		if err != nil || len(completed) != len(files) {
			t.Fatalf("%s: %d files, %v", name, len(completed), err)
		}
		for i, f := range completed {
			if changed := string(f.Content) != string(files[i].Content); changed != (f.Path == ours.Path) {
				t.Errorf("%s: %s is changed: %t\n%s", name, f.Path, changed, f.Content)
			}
		}
	}
	// The bootstrap provider's file is the last one; a user's at one of its paths is overwritten, or of no use.
	for _, at := range configPaths {
		files := []cloudconfig.File{{Path: at, Content: []byte(setData)}, ours}
		if got := ReadKubeadm(files); got != (KubeadmSettings{}) {
			t.Errorf("with a user's %s they say %+v of the node", at, got)
		}
		if completed, err := CompleteKubeadm(files, "node-1", netip.Addr{}); err != nil || string(completed[0].Content) != setData || string(completed[1].Content) == joinCPData {
			t.Errorf("with a user's %s: %v\n%+v", at, err, completed)
		}
	}
	if got := ReadKubeadm(users[:1]); got.Name != "mine" {
		t.Errorf("without others they say %+v", got)
	}
}

func TestComplete(t *testing.T) {
	ip := netip.MustParseAddr("fd00::5")
	for name, c := range map[string]struct {
		data       string
		want, miss []string
	}{
		"init": {initData, []string{"advertiseAddress: fd00::5", "bindPort: 6444", "name: node-1", "# as it was written", "---\n", "criSocket: unix://"}, nil},
		"cluster alone": {"apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nclusterName: c # kept\n",
			[]string{"clusterName: c # kept\n---\n", "kind: InitConfiguration", "advertiseAddress: fd00::5", "name: node-1", "apiVersion: kubeadm.k8s.io/v1beta4\nkind: Init"}, nil},
		"worker":        {joinData, []string{"name: node-1", "token: 1e2.3"}, []string{"fd00::5"}},
		"control plane": {joinCPData, []string{"name: node-1", "advertiseAddress: fd00::5", "bindPort: 6443"}, nil},
		"all is said":   {setData, []string{setData}, nil},
		"not kubeadm's": {"kubeadm.k8s.io/ {", []string{"kubeadm.k8s.io/ {"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := CompleteKubeadm(filesOf(c.data), "node-1", ip)
			if err != nil {
				t.Fatal(err)
			}
			text := string(got[0].Content)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
			for _, miss := range c.miss {
				if strings.Contains(text, miss) {
					t.Errorf("%q is in\n%s", miss, text)
				}
			}
			again, err := CompleteKubeadm(got, "node-2", netip.MustParseAddr("fd00::6"))
			if err != nil || string(again[0].Content) != text {
				t.Errorf("a second time changes it to\n%s", again[0].Content)
			}
		})
	}
}

// A name stays a string for kubeadm, whose configuration is YAML.
func TestNamesStayStrings(t *testing.T) {
	for _, name := range []string{"1234", "007", "1e3", "0x10", "true", "no", "y", "null", "1.2", "a.b", "12e4.5", strings.Repeat("a", 63)} {
		completed, err := CompleteKubeadm(filesOf("apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n"), name, netip.Addr{})
		if err != nil {
			t.Fatal(err)
		}
		if got := ReadKubeadm(completed); got.Name != name {
			t.Errorf("%s is %q in\n%s", name, got.Name, completed[0].Content)
		}
	}
}
