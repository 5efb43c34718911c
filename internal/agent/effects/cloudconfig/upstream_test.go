package cloudconfig

import (
	"strings"
	"testing"

	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/util/secret"
)

// upstreamBase is bootstrap data that uses all that the kubeadm bootstrap
// provider can write and this agent supports.
func upstreamBase() cloudinit.BaseUserData {
	return cloudinit.BaseUserData{
		BootCommands:        []string{"echo boot", `printf '%s\n' "a: b"`},
		PreKubeadmCommands:  []string{"hostnamectl set-hostname '{{ ds.meta_data.local_hostname }}'", "echo \"it's\" | tee /x"},
		PostKubeadmCommands: []string{"export KUBECONFIG=/etc/kubernetes/admin.conf\nkubectl get nodes"},
		AdditionalFiles: []bootstrapv1.File{
			{Path: "/etc/plain", Content: "a\n  b: {{ ds.meta_data.provider_id }}\n", Owner: "root:adm", Permissions: "0600"},
			{Path: "/etc/gz", Content: "H4sIAAAAAAAAA8tIzcnJBwCGphA2BQAAAA==", Encoding: bootstrapv1.GzipBase64},
			{Path: "/etc/more", Content: "bGluZQo=", Encoding: bootstrapv1.Base64, Append: ptr.To(true)},
		},
		Users: []bootstrapv1.User{{
			Name: "capi", Gecos: "Cluster API", Groups: "sudo, adm", HomeDir: "/home/capi", Inactive: ptr.To(true), Shell: "/bin/bash",
			Passwd: "$6$salt$hash", PrimaryGroup: "capi", LockPassword: ptr.To(true), Sudo: "ALL=(ALL) NOPASSWD:ALL", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA me@there"},
		}},
		NTP: &bootstrapv1.NTP{Servers: []string{"ntp1.example.com", "10.0.0.1"}, Enabled: ptr.To(true)},
	}
}

func assertUpstream(t *testing.T, data []byte, err error, kubeadm string) *Config {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse(data, testMeta)
	if err != nil {
		t.Fatalf("%v\n%s", err, data)
	}
	wantRun := []string{
		"hostnamectl set-hostname 'host-1'", "echo \"it's\" | tee /x",
		kubeadm + " && echo success > /run/cluster-api/bootstrap-success.complete",
		"export KUBECONFIG=/etc/kubernetes/admin.conf\nkubectl get nodes",
	}
	if strings.Join(c.RunCommands, "\x00") != strings.Join(wantRun, "\x00") {
		t.Errorf("runcmd is %q, want %q", c.RunCommands, wantRun)
	}
	if len(c.BootCommands) != 2 || c.BootCommands[1] != `printf '%s\n' "a: b"` {
		t.Errorf("bootcmd is %q", c.BootCommands)
	}
	return c
}

func file(t *testing.T, c *Config, path string) File {
	t.Helper()
	for _, f := range c.WriteFiles {
		if f.Path == path {
			return f
		}
	}
	t.Fatalf("no file %s", path)
	return File{}
}

func assertFile(t *testing.T, c *Config, want File) {
	t.Helper()
	got := file(t, c, want.Path)
	if string(got.Content) != string(want.Content) || got.Mode != want.Mode || got.User != want.User || got.Group != want.Group || got.Append != want.Append {
		t.Errorf("file is %+v %q, want %+v %q", got, got.Content, want, want.Content)
	}
}

// TestUpstreamData has upstream's own code write the data.
func TestUpstreamData(t *testing.T) {
	initData, err := cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
		BaseUserData: upstreamBase(), ClusterConfiguration: "kind: ClusterConfiguration",
		InitConfiguration: "kind: InitConfiguration\nname: '{{ ds.meta_data.local_hostname }}'",
		Certificates: secret.Certificates{{
			Purpose: secret.ClusterCA, CertFile: "/etc/kubernetes/pki/ca.crt", KeyFile: "/etc/kubernetes/pki/ca.key",
			KeyPair: &secretKeyPair,
		}},
	})
	c := assertUpstream(t, initData, err, "kubeadm init --config /run/kubeadm/kubeadm.yaml ")
	assertFile(t, c, File{Path: "/run/kubeadm/kubeadm.yaml", Mode: 0o640, User: "root", Group: "root",
		Content: []byte("---\nkind: ClusterConfiguration\n---\nkind: InitConfiguration\nname: 'host-1'\n")})
	assertFile(t, c, File{Path: "/etc/kubernetes/pki/ca.key", Mode: 0o600, User: "root", Group: "root", Content: []byte("KEY\n")})
	assertFile(t, c, File{Path: "/etc/plain", Mode: 0o600, User: "root", Group: "adm", Content: []byte("a\n  b: slipway://ns/host-1/claim-1\n")})
	assertFile(t, c, File{Path: "/etc/gz", Mode: 0o644, Content: []byte("hello")})
	assertFile(t, c, File{Path: "/etc/more", Mode: 0o644, Content: []byte("line\n"), Append: true})
	u := c.Users[0]
	if u.Name != "capi" || strings.Join(u.Groups, ",") != "sudo,adm" || !u.LockPassword || u.Inactive != "0" || u.PasswordHash != "$6$salt$hash" ||
		u.Sudo[0] != "ALL=(ALL) NOPASSWD:ALL" || u.SSHAuthorizedKeys[0] != "ssh-ed25519 AAAA me@there" || u.PrimaryGroup != "capi" || u.HomeDir != "/home/capi" {
		t.Errorf("user is %+v", u)
	}
	if !c.NTP.Enabled || strings.Join(c.NTP.Servers, ",") != "ntp1.example.com,10.0.0.1" {
		t.Errorf("ntp is %+v", c.NTP)
	}

	nodeData, err := cloudinit.NewNode(&cloudinit.NodeInput{BaseUserData: upstreamBase(), JoinConfiguration: "kind: JoinConfiguration"})
	c = assertUpstream(t, nodeData, err, "kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml ")
	assertFile(t, c, File{Path: "/run/kubeadm/kubeadm-join-config.yaml", Mode: 0o640, User: "root", Group: "root", Content: []byte("---\nkind: JoinConfiguration\n")})
}

func TestUpstreamDataThatIsNotSupported(t *testing.T) {
	base := upstreamBase()
	base.Mounts = []bootstrapv1.MountPoints{{"LABEL=etcd_disk", "/var/lib/etcd"}}
	base.DiskSetup = &bootstrapv1.DiskSetup{
		Partitions:  []bootstrapv1.Partition{{Device: "/dev/sdb", Layout: ptr.To(true)}},
		Filesystems: []bootstrapv1.Filesystem{{Device: "/dev/sdb1", Filesystem: "ext4", Label: "etcd_disk"}},
	}
	data, err := cloudinit.NewNode(&cloudinit.NodeInput{BaseUserData: base, JoinConfiguration: "kind: JoinConfiguration"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Parse(data, testMeta)
	assertError(t, err, ReasonUnsupportedCloudConfig, `"disk_setup" (partition the disks`, `"fs_setup"`, `"mounts"`)
}
