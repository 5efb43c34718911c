package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// kubeadm of a local host leaves out the check of what the machine is, and no other, where
// kubeadm takes the flag; it finds its own version through the link on a host's PATH.
func TestKubeadmOfALocalHost(t *testing.T) {
	a := assembly{bundle: t.TempDir()}
	program := a.hyperkube("v1.2.3")
	if err := os.MkdirAll(filepath.Dir(program), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s|' \"$(basename \"$0\")\" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	kubeadm := filepath.Join(filepath.Dir(program), "kubeadm")
	// what bundles of before have
	if err := os.Symlink("hyperkube", kubeadm); err != nil {
		t.Fatal(err)
	}
	if err := a.linkComponents("v1.2.3"); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "kubeadm")
	if err := os.Symlink(kubeadm, link); err != nil {
		t.Fatal(err)
	}
	config := func(text string) string {
		path := filepath.Join(t.TempDir(), "kubeadm.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	all := config("nodeRegistration:\n  ignorePreflightErrors:\n  - all\n")
	inline := config("nodeRegistration:\n  ignorePreflightErrors: [all]\n")
	some := config("nodeRegistration:\n  ignorePreflightErrors:\n  - Swap\napiServer:\n  certSANs:\n  - all.example.org\n")
	const ignored = "|--ignore-preflight-errors=SystemVerification|"
	for args, want := range map[string]string{
		"init --config /run/kubeadm.yaml":             "kubeadm|init|--config|/run/kubeadm.yaml" + ignored,
		"init":                                        "kubeadm|init" + ignored,
		"join 192.0.2.1:6443 --token a.b":             "kubeadm|join|192.0.2.1:6443|--token|a.b" + ignored,
		"join --ignore-preflight-errors Swap":         "kubeadm|join|--ignore-preflight-errors|Swap" + ignored,
		"upgrade node --ignore-preflight-errors=Swap": "kubeadm|upgrade|node|--ignore-preflight-errors=Swap" + ignored,
		"upgrade apply v1.2.4":                        "kubeadm|upgrade|apply|v1.2.4" + ignored,
		"upgrade node phase kubelet-config":           "kubeadm|upgrade|node|phase|kubelet-config|",
		"init phase certs all":                        "kubeadm|init|phase|certs|all|",
		"join phase control-plane-prepare":            "kubeadm|join|phase|control-plane-prepare|",
		"init phase preflight --config x":             "kubeadm|init|phase|preflight|--config|x" + ignored,
		"join phase preflight":                        "kubeadm|join|phase|preflight" + ignored,
		"upgrade node phase preflight":                "kubeadm|upgrade|node|phase|preflight" + ignored,
		"upgrade apply phase addon all":               "kubeadm|upgrade|apply|phase|addon|all|",
		"":                                            "kubeadm|",
		"join --ignore-preflight-errors all":          "kubeadm|join|--ignore-preflight-errors|all|",
		"join --ignore-preflight-errors=all":          "kubeadm|join|--ignore-preflight-errors=all|",
		"init --config " + all:                        "kubeadm|init|--config|" + all + "|",
		"init --config=" + inline:                     "kubeadm|init|--config=" + inline + "|",
		"init --config " + some:                       "kubeadm|init|--config|" + some + ignored,
		"version -o short":                            "kubeadm|version|-o|short|",
		"reset --force":                               "kubeadm|reset|--force|",
		"upgrade plan":                                "kubeadm|upgrade|plan|",
	} {
		out, err := exec.CommandContext(t.Context(), link, strings.Fields(args)...).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("kubeadm %s: called %q (%v), want %q", args, out, err, want)
		}
	}
}

// Each version has its own etcd beside its programs, of the layer that its image is made from.
func TestEtcdIsBesideTheProgramsOfItsVersion(t *testing.T) {
	a := assembly{bundle: t.TempDir(), parts: t.TempDir()}
	for name, content := range map[string]string{"etcd-v3.6.8": "older", "etcd-v3.7.0": "newer"} {
		if err := os.WriteFile(a.part(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	recipes := []recipe{{ref: "registry.k8s.io/pause:3.10.2", layers: []string{"pause"}}, {ref: "registry.k8s.io/etcd:3.7.0-0", layers: []string{"base", "etcd-v3.7.0"}}}
	if err := a.addEtcd("v1.37.2", recipes); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(a.bundle, "kubernetes/v1.37.2/etcd")
	content, err := os.ReadFile(program)
	info, err2 := os.Stat(program)
	if err != nil || err2 != nil || string(content) != "newer" || info.Mode().Perm() != 0o755 {
		t.Errorf("got %q, %v, %v", content, err, err2)
	}
}
