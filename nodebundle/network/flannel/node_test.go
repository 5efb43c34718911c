package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/flannel-io/flannel/pkg/backend"
	"github.com/flannel-io/flannel/pkg/backend/hostgw"
	"github.com/flannel-io/flannel/pkg/subnet"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestInstallFileReplacesTheTarget(t *testing.T) {
	dir := t.TempDir()
	source, target := filepath.Join(dir, "source"), filepath.Join(dir, "net.d", "10-flannel.conflist")
	if err := os.Mkdir(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := installFile(source, target); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(target); string(got) != content {
			t.Errorf("got %q, want %q", got, content)
		}
	}
	if info, _ := os.Stat(target); info.Mode().Perm() != 0o644 {
		t.Errorf("got mode %v, want 0644", info.Mode())
	}
	if left, _ := os.ReadDir(filepath.Dir(target)); len(left) != 1 {
		t.Errorf("%d files are left beside the target", len(left)-1)
	}
}

func TestInstallFileKeepsTheTargetWithoutASource(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := installFile(filepath.Join(dir, "absent"), target); err == nil {
		t.Error("a missing source went unnoticed")
	}
	if got, _ := os.ReadFile(target); string(got) != "old" {
		t.Errorf("got %q, want the old content", got)
	}
}

// The manifest is written by hand; this holds it to what this program accepts.
func TestManifestFitsThisProgram(t *testing.T) {
	raw, err := os.ReadFile("../../../templates/local/flannel.yaml")
	if err != nil {
		t.Fatal(err)
	}
	configured := false
	for _, document := range strings.Split(string(raw), "\n---\n") {
		var object struct {
			Kind string
			Data map[string]string
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		if object.Kind != "ConfigMap" {
			continue
		}
		config, err := subnet.ParseConfig(object.Data["net-conf.json"])
		if err != nil {
			t.Fatal(err)
		}
		configured = config.EnableNFTables && config.BackendType == "host-gw"
	}
	if !configured {
		t.Error("the manifest does not ask for host-gw on nftables")
	}
}

// Upstream's host-gw takes the interface that upstream found by an address of IPv6.
func TestInterfaceOfIPv6(t *testing.T) {
	six := net.ParseIP("fd00:88::11")
	found := &backend.ExternalInterface{IfaceAddr: six, IfaceV6Addr: six, ExtV6Addr: six}
	if _, err := hostgw.New(nil, found); err == nil {
		t.Error("upstream takes it as it is: addressed is not needed any more")
	}
	if _, err := hostgw.New(nil, families{v6: true}.addressed(found)); err != nil || !found.ExtV6Addr.Equal(six) {
		t.Errorf("%+v: %v", found, err)
	}
}

func TestFamilies(t *testing.T) {
	dir := t.TempDir()
	opts := options{netConfPath: filepath.Join(dir, "given.json"), subnetFile: filepath.Join(dir, "subnet.env")}
	given := `{"Network": "10.244.0.0/16", "IPv6Network": "fd00:10:244::/56", "EnableNFTables": true, "Backend": {"Type": "host-gw"}}`
	if err := os.WriteFile(opts.netConfPath, []byte(given), 0o600); err != nil {
		t.Fatal(err)
	}
	const both = "10.88.0.11,fd00:88::11"
	for _, c := range []struct {
		cidrs     []string
		iface     string
		want      families
		name, six string
	}{
		{[]string{"10.244.1.0/24"}, "10.88.0.11", families{v4: true}, "10.88.0.11", ""},
		{[]string{"10.244.1.0/24"}, both, families{v4: true}, "10.88.0.11", ""},
		{[]string{"fd00:10:244:1::/64"}, both, families{v6: true}, "fd00:88::11", "fd00:88::11"},
		{[]string{"10.244.1.0/24", "fd00:10:244:1::/64"}, both, families{true, true}, "10.88.0.11", "fd00:88::11"},
		{[]string{"fd00:10:244:1::/64", "10.244.1.0/24"}, "fd00:88::11,10.88.0.11", families{true, true}, "10.88.0.11", "fd00:88::11"},
		{[]string{"10.244.1.0/24"}, "eth1", families{v4: true}, "eth1", ""},
		{nil, "", families{}, "", ""},
	} {
		got := familiesOf(&corev1.Node{Spec: corev1.NodeSpec{PodCIDRs: c.cidrs}})
		name, own := got.iface(c.iface)
		if got != c.want || name != c.name || own.PublicIPv6 != c.six {
			t.Errorf("%v on %s: %+v by %s and %s", c.cidrs, c.iface, got, name, own.PublicIPv6)
		}
		path, err := got.configure(opts)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		config, err := subnet.ParseConfig(string(content))
		if err != nil || config.EnableIPv4 != c.want.v4 || config.EnableIPv6 != c.want.v6 || config.BackendType != "host-gw" || !config.EnableNFTables {
			t.Errorf("%v: %+v, %v", c.cidrs, config, err)
		}
	}
}
