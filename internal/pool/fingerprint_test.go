package pool_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/blang/semver/v4"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/types"

	"github.com/slipway-dev/slipway/internal/pool"
)

// bootstrapInput is what a worker's bootstrap data is made from.
type bootstrapInput struct {
	version string
	join    bootstrapv1.JoinConfiguration
	cloudinit.NodeInput
}

// generate makes bootstrap data with the code of the kubeadm bootstrap provider.
func generate(t *testing.T, change ...func(*bootstrapInput)) []byte {
	t.Helper()
	in := &bootstrapInput{version: "1.36.3"}
	in.join.Discovery.BootstrapToken = bootstrapv1.BootstrapTokenDiscovery{
		Token: "abcdef.0123456789abcdef", APIServerEndpoint: "10.0.0.1:6443", CACertHashes: []string{"sha256:aa"},
	}
	in.join.Discovery.TLSBootstrapToken = "abcdef.0123456789abcdef"
	in.join.NodeRegistration.Name = "{{ ds.meta_data.local_hostname }}"
	in.join.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{{Name: "v", Value: value("2")}, {Name: "node-labels", Value: value("a=b")}}
	in.AdditionalFiles = []bootstrapv1.File{{Path: "/etc/motd", Content: "on {{ ds.meta_data.local_hostname }}\n"}}
	in.PreKubeadmCommands = []string{"echo 'a: b'"}
	for _, c := range change {
		c(in)
	}
	version := semver.MustParse(in.version)
	join, err := types.MarshalJoinConfigurationForVersion(&in.join, version)
	if err != nil {
		t.Fatal(err)
	}
	in.JoinConfiguration, in.KubernetesVersion = join, version
	data, err := cloudinit.NewNode(&in.NodeInput)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func value(s string) *string { return &s }

func fingerprint(t *testing.T, data []byte) string {
	t.Helper()
	got, err := pool.Fingerprint(data)
	if err != nil || len(got) != 16 {
		t.Fatalf("%q, %v\n%s", got, err, data)
	}
	return got
}

func withToken(s string) func(*bootstrapInput) {
	return func(in *bootstrapInput) {
		in.join.Discovery.BootstrapToken.Token, in.join.Discovery.TLSBootstrapToken = s, s
	}
}

func TestTokenDoesNotCount(t *testing.T) {
	want := fingerprint(t, generate(t))
	for i := range 100 {
		data := generate(t, withToken(fmt.Sprintf("abcdef.%016x", i)))
		if got := fingerprint(t, data); got != want {
			t.Fatalf("rotation %d changed the fingerprint\n%s", i, data)
		}
	}
}

// The kubeadm API version follows the Kubernetes version, at the next rotation.
func TestKubeadmVersionDoesNotCount(t *testing.T) {
	before, after := generate(t, func(in *bootstrapInput) { in.version = "1.30.9" }), generate(t)
	if !strings.Contains(string(before), "kubeadm.k8s.io/v1beta3") {
		t.Fatalf("not the old API version:\n%s", before)
	}
	if fingerprint(t, before) != fingerprint(t, after) {
		t.Errorf("the fingerprint follows the API version of kubeadm:\n%s\n%s", before, after)
	}
}

func TestContentCounts(t *testing.T) {
	seen := map[string]string{fingerprint(t, generate(t)): "unchanged"}
	for name, change := range map[string]func(*bootstrapInput){
		"a file": func(in *bootstrapInput) { in.AdditionalFiles[0].Content += "!" },
		"another file": func(in *bootstrapInput) {
			in.AdditionalFiles = append(in.AdditionalFiles, bootstrapv1.File{Path: "/x"})
		},
		"its mode":         func(in *bootstrapInput) { in.AdditionalFiles[0].Permissions = "0600" },
		"a command":        func(in *bootstrapInput) { in.PreKubeadmCommands[0] = "echo 'a:  b'" },
		"CA":               func(in *bootstrapInput) { in.join.Discovery.BootstrapToken.CACertHashes[0] = "sha256:bb" },
		"endpoint":         func(in *bootstrapInput) { in.join.Discovery.BootstrapToken.APIServerEndpoint = "10.0.0.2:6443" },
		"kubelet argument": func(in *bootstrapInput) { in.join.NodeRegistration.KubeletExtraArgs[0].Value = value("3") },
		"a token elsewhere": func(in *bootstrapInput) {
			in.AdditionalFiles[0].Content = "abcdef.0123456789abcdee"
		},
	} {
		got := fingerprint(t, generate(t, change))
		if other, found := seen[got]; found {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[got] = name
	}
}

func TestUnreadable(t *testing.T) {
	for name, data := range map[string]string{
		"empty":              "",
		"ignition":           `{"ignition":{"version":"3.4.0"}}`,
		"script":             "#!/bin/sh\nkubeadm join --token abcdef.0123456789abcdef\n",
		"no mapping":         "#cloud-config\n- a\n",
		"no YAML":            "#cloud-config\na: [abcdef.0123456789abcdef\n",
		"join configuration": "#cloud-config\nwrite_files:\n- path: /run/kubeadm/kubeadm-join-config.yaml\n  content: 'token: [abcdef.0123456789abcdef'\n",
	} {
		_, err := pool.Fingerprint([]byte(data))
		if !errors.Is(err, pool.ErrBootstrapFormat) || strings.Contains(err.Error(), "abcdef") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func FuzzFingerprint(f *testing.F) {
	f.Add([]byte("#cloud-config\nwrite_files:\n- path: /a\n  content: |\n    kind: JoinConfiguration\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		first, err := pool.Fingerprint(data)
		if second, again := pool.Fingerprint(data); first != second || (err == nil) != (again == nil) {
			t.Errorf("%q, %v and then %q, %v", first, err, second, again)
		}
	})
}
