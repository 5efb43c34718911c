package upgradecheck

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/slipway-dev/slipway/internal/testenv/rights"
)

func arg(name, value string) bootstrapv1.Arg { return bootstrapv1.Arg{Name: name, Value: &value} }

// The real programs of each version that is built tell, for each part of the objects, what they would refuse.
func TestProgramsTellWhatTheyRefuse(t *testing.T) {
	found, _ := filepath.Glob(filepath.Join(os.Getenv("SLIPWAY_BIN"), "bundle", "kubernetes", "v*", "hyperkube"))
	if os.Getenv("SLIPWAY_BIN") == "" || len(found) == 0 {
		rights.Skip(t, "needs programs of Kubernetes; run `make build`, and set SLIPWAY_BIN to the folder of programs")
	}
	// The programs get no variables of this one: by the directory that they work in, tests of planes know that they
	// are none of their own.
	dir := filepath.Join(t.TempDir(), "planetest-none")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	for _, program := range found {
		programs := filepath.Dir(program)
		version := filepath.Base(programs)
		t.Run(version, func(t *testing.T) { programsTell(t, Trial{Version: version, Programs: programs}) })
	}
}

func programsTell(t *testing.T, trial Trial) {
	accepted := map[string]string{"kubeadm": "", "kube-apiserver": "", "kube-controller-manager": "", "kube-scheduler": "", "etcd": "", "kubelet": ""}
	for name, c := range map[string]struct {
		mutate  func(*bootstrapv1.KubeadmConfigSpec)
		kubelet string
		worker  bool
		program string
		want    string
	}{
		"accepted": {mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{arg("audit-log-path", "-"), arg("service-account-key-file", "/etc/kubernetes/pki/other.pub")}
			s.ClusterConfiguration.FeatureGates = map[string]bool{"Gone": true}
			s.InitConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{arg("node-labels", "a=b")}
			s.Files = []bootstrapv1.File{{Path: "/etc/motd", Content: "{{"}, {Path: "/p/kubeletconfiguration0+merge.yaml", Content: "maxPods: 50\n"}}
		}},
		"gate of the API server": {mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.APIServer.ExtraArgs = []bootstrapv1.Arg{arg("feature-gates", "Gone=true")}
		}, program: "kube-apiserver", want: "unrecognized feature gate: Gone"},
		"flag of controllers": {mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.ControllerManager.ExtraArgs = []bootstrapv1.Arg{arg("gone", "1")}
		}, program: "kube-controller-manager", want: "unknown flag: --gone"},
		"flag of the scheduler": {mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.Scheduler.ExtraArgs = []bootstrapv1.Arg{arg("gone", "1")}
		}, program: "kube-scheduler", want: "unknown flag: --gone"},
		"flag of etcd": {mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.Etcd.Local.ExtraArgs = []bootstrapv1.Arg{arg("experimental-gone", "1")}
		}, program: "etcd", want: "flag provided but not defined: -experimental-gone"},
		"gate of a joining kubelet": {worker: true, mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.JoinConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{arg("feature-gates", "Gone=true")}
		}, program: "kubelet", want: "unrecognized feature gate: Gone"},
		"gate of the first kubelet": {mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.InitConfiguration.NodeRegistration.KubeletExtraArgs = []bootstrapv1.Arg{arg("feature-gates", "Gone=true")}
		}, program: "kubelet", want: "unrecognized feature gate: Gone"},
		"patch of a kubelet": {worker: true, mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "/etc/kubernetes/patches/kubeletconfiguration+json.json", Encoding: bootstrapv1.Base64, Content: "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2ZlYXR1cmVHYXRlcy9Hb25lIiwidmFsdWUiOnRydWV9XQ=="}}
		}, program: "kubelet", want: "unrecognized feature gate: Gone"},
		"compressed patch of a kubelet": {worker: true, mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "/p/kubeletconfiguration.yaml", Encoding: bootstrapv1.GzipBase64, Content: base64.StdEncoding.EncodeToString(compressed(t, "maxPods: -3\n"))}}
		}, program: "kubelet", want: "maxPods (--max-pods) -3 must not be a negative number"},
		"good authorizer":    {mutate: authorizer("RBAC")},
		"authorizer in file": {mutate: authorizer("Gone"), program: "kube-apiserver", want: "authorizers[0].type: Unsupported value"},
		"file of a kubelet": {worker: true, mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.Files = []bootstrapv1.File{{Path: "/etc/kubelet.yaml", Content: "kind: KubeletConfiguration\nmaxPods: -3\n"}}
		}, program: "kubelet", want: "maxPods (--max-pods) -3 must not be a negative number"},
		"configuration of the cluster": {worker: true, kubelet: kubeletHeader + "featureGates: {Gone: true}\nfailSwapOn: true\n", program: "kubelet", want: "unrecognized feature gate: Gone"},
		"configuration of kubeadm": {mutate: func(s *bootstrapv1.KubeadmConfigSpec) {
			s.ClusterConfiguration.APIServer.CertSANs = []string{"no name"}
		}, program: "kubeadm", want: "apiServer.certSANs"},
	} {
		t.Run(name, func(t *testing.T) {
			object := Object{Kind: "KubeadmConfigTemplate", Name: "w", ControlPlane: !c.worker}
			if c.mutate != nil {
				c.mutate(&object.Spec)
			}
			trial := trial
			trial.Kubelet = []byte(c.kubelet)
			checks, err := trial.Try(t.Context(), object)
			if err != nil {
				t.Fatal(err)
			}
			want := 6
			if c.worker {
				want = 2
			}
			if len(checks) != want {
				t.Errorf("got %+v", checks)
			}
			for _, check := range checks {
				switch said, known := accepted[check.Program]; {
				case !known || check.Name != "w":
					t.Errorf("got %+v", check)
				case check.Program == c.program:
					if check.Result != Refused || !strings.Contains(check.Message, c.want) {
						t.Errorf("got %+v, want %q", check, c.want)
					}
				case check.Result != Accepted || check.Message != said:
					t.Errorf("got %+v", check)
				}
			}
		})
	}
}

// authorizer gives the API server a configuration of its authorization, which it finds where a volume of its pod is.
func authorizer(kind string) func(*bootstrapv1.KubeadmConfigSpec) {
	return func(s *bootstrapv1.KubeadmConfigSpec) {
		s.Files = []bootstrapv1.File{{Path: "/etc/own/authz/config.yaml", Content: "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: " + kind + ", name: " + strings.ToLower(kind) + "}]\n"}}
		server := &s.ClusterConfiguration.APIServer
		server.ExtraArgs = []bootstrapv1.Arg{arg("authorization-config", "/etc/kubernetes/authz/config.yaml")}
		server.ExtraVolumes = []bootstrapv1.HostPathMount{{Name: "authz", HostPath: "/etc/own/authz", MountPath: "/etc/kubernetes/authz"}}
	}
}

func compressed(t *testing.T, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Files are read in each encoding, and none that is damaged or grows without a bound.
func TestDecoded(t *testing.T) {
	small, large := compressed(t, "a: b"), compressed(t, strings.Repeat("a", maxFile+1))
	for name, c := range map[string]struct {
		bootstrapv1.File
		want string
		ok   bool
	}{
		"plain":              {bootstrapv1.File{Content: "a: b"}, "a: b", true},
		"base64":             {bootstrapv1.File{Encoding: bootstrapv1.Base64, Content: "YTog\nYg=="}, "a: b", true},
		"gzip":               {bootstrapv1.File{Encoding: bootstrapv1.Gzip, Content: string(small)}, "a: b", true},
		"gzip+base64":        {bootstrapv1.File{Encoding: bootstrapv1.GzipBase64, Content: base64.StdEncoding.EncodeToString(small)}, "a: b", true},
		"as large as allows": {bootstrapv1.File{Encoding: bootstrapv1.Gzip, Content: string(compressed(t, strings.Repeat("a", maxFile)))}, strings.Repeat("a", maxFile), true},
		"too large":          {bootstrapv1.File{Encoding: bootstrapv1.Gzip, Content: string(large)}, "", false},
		"no base64":          {bootstrapv1.File{Encoding: bootstrapv1.Base64, Content: "?"}, "", false},
		"not compressed":     {bootstrapv1.File{Encoding: bootstrapv1.GzipBase64, Content: "YTogYg=="}, "", false},
		"cut":                {bootstrapv1.File{Encoding: bootstrapv1.Gzip, Content: string(small[:len(small)-6])}, "", false},
	} {
		got, err := decoded(c.File)
		if (err == nil) != c.ok || c.ok && got != c.want {
			t.Errorf("%s: got %d bytes, %v", name, len(got), err)
		}
	}
}

// A program that is not there, or does not end, and a patch that is not known here tell nothing.
func TestWhatCannotBeTriedIsNamed(t *testing.T) {
	programs := t.TempDir()
	// It says what a kubelet says that has only the watchdog against it.
	kubelet := "#!/bin/sh\n[ \"$WATCHDOG_USEC\" = 1 ] && echo 'configure watchdog timeout too small'\nexit 1\n"
	if err := os.WriteFile(filepath.Join(programs, "kubelet"), []byte(kubelet), 0o755); err != nil {
		t.Fatal(err)
	}
	spec := bootstrapv1.KubeadmConfigSpec{Files: []bootstrapv1.File{
		{Path: "/p/kubeletconfiguration.yaml", ContentFrom: bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "patches", Key: "kubelet"}}},
		{Path: "/other", ContentFrom: bootstrapv1.FileSource{Secret: bootstrapv1.SecretFileSource{Name: "other", Key: "a"}}},
	}}
	checks, err := Trial{Version: "v1.37.2", Programs: programs}.Try(t.Context(), Object{Spec: spec})
	var got []string
	for _, c := range checks {
		got = append(got, fmt.Sprintf("%s %s %s", c.Program, c.Result, c.Message))
	}
	want := "kubeadm NotTried there is no kubeadm in " + programs + "\nkubelet Accepted \nkubelet NotTried /p/kubeletconfiguration.yaml is in Secret patches"
	if err != nil || strings.Join(got, "\n") != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, strings.Join(got, "\n"), want)
	}
	spec.Files = []bootstrapv1.File{{Path: "/p/kubeletconfiguration+json.json", Content: "{"}}
	checks, err = Trial{Version: "v1.37.2", Programs: programs}.Try(t.Context(), Object{Spec: spec})
	if err != nil || len(checks) != 2 || checks[1].Result != NotTried || !strings.HasPrefix(checks[1].Message, "/p/kubeletconfiguration+json.json: ") {
		t.Errorf("got %+v, %v", checks, err)
	}
}

// What machines are made from is read once, whatever names it, and from the place where its kind has it.
func TestRead(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clusterv1.AddToScheme, bootstrapv1.AddToScheme, controlplanev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "team", Name: name, Labels: map[string]string{clusterv1.ClusterNameLabel: "prod"}}
	}
	ref := func(kind, name string) clusterv1.ContractVersionedObjectReference {
		return clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: kind, Name: name}
	}
	template := func(kind, name string) clusterv1.MachineTemplateSpec {
		return clusterv1.MachineTemplateSpec{Spec: clusterv1.MachineSpec{Bootstrap: clusterv1.Bootstrap{ConfigRef: ref(kind, name)}}}
	}
	of := func(name string) bootstrapv1.KubeadmConfigSpec {
		return bootstrapv1.KubeadmConfigSpec{PreKubeadmCommands: []string{name}}
	}
	other := meta("other")
	other.Labels = nil
	cluster := &clusterv1.Cluster{ObjectMeta: meta("prod"), Spec: clusterv1.ClusterSpec{ControlPlaneRef: clusterv1.ContractVersionedObjectReference{
		APIGroup: controlplanev1.GroupVersion.Group, Kind: "KubeadmControlPlane", Name: "cp",
	}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&controlplanev1.KubeadmControlPlane{ObjectMeta: meta("cp"), Spec: controlplanev1.KubeadmControlPlaneSpec{KubeadmConfigSpec: of("cp")}},
		&bootstrapv1.KubeadmConfigTemplate{ObjectMeta: meta("w"), Spec: bootstrapv1.KubeadmConfigTemplateSpec{Template: bootstrapv1.KubeadmConfigTemplateResource{Spec: of("w")}}},
		&bootstrapv1.KubeadmConfig{ObjectMeta: meta("p"), Spec: of("p")},
		&clusterv1.MachineDeployment{ObjectMeta: meta("a"), Spec: clusterv1.MachineDeploymentSpec{Template: template("KubeadmConfigTemplate", "w")}},
		&clusterv1.MachineDeployment{ObjectMeta: meta("b"), Spec: clusterv1.MachineDeploymentSpec{Template: template("KubeadmConfigTemplate", "w")}},
		&clusterv1.MachineDeployment{ObjectMeta: meta("c"), Spec: clusterv1.MachineDeploymentSpec{Template: template("OtherTemplate", "w")}},
		&clusterv1.MachineDeployment{ObjectMeta: other, Spec: clusterv1.MachineDeploymentSpec{Template: template("KubeadmConfigTemplate", "gone")}},
		&clusterv1.MachinePool{ObjectMeta: meta("p"), Spec: clusterv1.MachinePoolSpec{Template: template("KubeadmConfig", "p")}},
	).Build()
	objects, err := Read(t.Context(), c, cluster)
	var got []string
	for _, o := range objects {
		got = append(got, fmt.Sprintf("%s %s/%s %v %v", o.Kind, o.Namespace, o.Name, o.ControlPlane, o.Spec.PreKubeadmCommands))
	}
	want := "KubeadmControlPlane team/cp true [cp]\nKubeadmConfigTemplate team/w false [w]\nKubeadmConfig team/p false [p]"
	if err != nil || strings.Join(got, "\n") != want {
		t.Errorf("got %v\n%s\nwant\n%s", err, strings.Join(got, "\n"), want)
	}
	cluster.Spec.ControlPlaneRef.Name = "gone"
	if _, err := Read(t.Context(), c, cluster); err == nil || !strings.Contains(err.Error(), "read KubeadmControlPlane gone") {
		t.Errorf("got %v", err)
	}
}
