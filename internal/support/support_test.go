package support

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/doctor"
	"github.com/slipway-dev/slipway/internal/management"
	"github.com/slipway-dev/slipway/internal/redact"
	"github.com/slipway-dev/slipway/internal/status"
	"github.com/slipway-dev/slipway/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	scheme := func(s *runtime.Scheme) error {
		return errors.Join(clientgoscheme.AddToScheme(s), clusterv1.AddToScheme(s), bootstrapv1.AddToScheme(s), runtimev1.AddToScheme(s), infrav1.AddToScheme(s), lifecyclev1.AddToScheme(s))
	}
	os.Exit(testenv.Main(m, scheme, func(e *testenv.Env) error {
		env = e
		return nil
	}))
}

// plane is a plane of this machine with the records of a test, in front of the API server.
type plane struct {
	management.Plane
	records []management.Record
}

func (plane) Dir() string                   { return "/nowhere" }
func (plane) Config() (*rest.Config, error) { return env.Config, nil }
func (plane) Nodes(client.Reader) status.NodeLister {
	return func(_ context.Context, cluster client.ObjectKey) ([]corev1.Node, error) {
		if cluster.Name == "down" {
			return nil, errors.New("the cluster is down")
		}
		return []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{"example.com/key": planted("node")}}}}, nil
	}
}

func (p plane) Records(_ context.Context, hosts bool) ([]management.Record, error) {
	if hosts {
		return p.records, nil
	}
	return p.records[:1], errors.New("one log cannot be found")
}

func record(name, text string) management.Record {
	return management.Record{Name: name, Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }}
}

// planted is a secret of a place. The archive is searched for what they have in common.
func planted(place string) string { return "Planted-" + place + "-0Zq9" }

// odd are secrets that look different once they are encoded, or are broken across lines.
var odd = []string{`Planted-"odd"&<b>'s'\-0Zq9`, "Planted with many short words that nobody would guess, so that it does not fit on one line -0Zq9"}

func managementCluster(t *testing.T, p management.Plane) *management.Cluster {
	t.Helper()
	c, err := management.Find(management.Choice{Plane: func() (management.Plane, error) { return p, nil }, PlaneGiven: true})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func options(namespace string, journals bool) Options {
	return Options{Namespace: namespace, Since: time.Hour, Journals: journals, Now: time.Now(), Versions: map[string]string{"slipway": "v1"}, Progress: func(string) {}}
}

func write(t *testing.T, cluster *management.Cluster, o Options) (map[string]string, []string) {
	t.Helper()
	var out bytes.Buffer
	report := doctor.Report{Time: o.Now, Findings: []doctor.Finding{{Check: "HostQuarantined", Severity: doctor.Error, Object: doctor.Object{Kind: "Host", Namespace: "a", Name: "h1"}, Message: "see Bearer " + planted("finding") + odd[0], Next: "look at " + odd[0]}}}
	missing, err := Write(t.Context(), &out, cluster, report, o)
	if err != nil {
		t.Fatal(err)
	}
	return unpack(t, &out), missing
}

func unpack(t *testing.T, from io.Reader) map[string]string {
	t.Helper()
	gz, err := gzip.NewReader(from)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for archive := tar.NewReader(gz); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		name, inRoot := strings.CutPrefix(header.Name, Root+"/")
		if _, twice := files[name]; twice || !inRoot || header.Mode != 0o600 || header.Uid != 0 {
			t.Errorf("%s: twice, not below %s, or of mode %o and user %d", header.Name, Root, header.Mode, header.Uid)
		}
		text, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = string(text)
	}
}

func create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		if err := env.Client.Create(t.Context(), o); err != nil {
			t.Fatalf("create %T: %v", o, err)
		}
	}
}

const kubeconfigText = "apiVersion: v1\nkind: Config\ncurrent-context: a\nusers: [{name: a, user: {token: %s}}]\n"

// plant puts a secret into every place of a namespace in which a user could have one.
func plant(t *testing.T, ns string) {
	t.Helper()
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: ns, Name: name, Annotations: map[string]string{
			"example.com/key": planted("annotation"), corev1.LastAppliedConfigAnnotation: `{"data":"` + planted("applied") + `"}`,
			clusterv1.GroupVersion.Group + "/conversion-data": `{"spec":{"files":[{"content":"` + planted("conversion") + `"}]}}`,
			// Secrets of a Secret in places that are shown.
			infrav1.ReplacesAnnotation: planted("data"), infrav1.RemediationAnnotation: odd[0],
		}}
	}
	container := corev1.Container{Name: "c", Image: "i", Env: []corev1.EnvVar{{Name: "PASSWORD", Value: planted("env")}}, Args: []string{"--token", planted("args")}}
	pod := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "p"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{container}, RestartPolicy: corev1.RestartPolicyAlways}}
	jobPod := *pod.DeepCopy()
	jobPod.Spec.RestartPolicy = corev1.RestartPolicyNever
	provider := &appsv1.Deployment{ObjectMeta: meta("manager"), Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod}}
	provider.Labels = map[string]string{clusterv1.ProviderNameLabel: "infrastructure-slipway"}
	config := &bootstrapv1.KubeadmConfig{ObjectMeta: meta("config")}
	config.Spec.Files = []bootstrapv1.File{{Path: "/etc/x", Content: planted("file")}}
	config.Spec.PreKubeadmCommands = []string{"curl -u a:" + planted("command")}
	config.Spec.JoinConfiguration.Discovery.BootstrapToken.Token = planted("discovery")
	config.Spec.Ignition.ContainerLinuxConfig.AdditionalConfig = planted("ignition")
	class, extension := clusterClass(meta("class")), &runtimev1.ExtensionConfig{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	extension.Spec.ClientConfig.URL = "https://extension.example.com"
	extension.Spec.Settings = map[string]string{"key": planted("settings")}
	t.Cleanup(func() { _ = env.Client.Delete(context.WithoutCancel(t.Context()), extension) })
	host := &infrav1.Host{ObjectMeta: meta("h1"), Spec: infrav1.HostSpec{HostID: testenv.HostID(ns, "h1")}}
	create(t,
		&corev1.Secret{ObjectMeta: meta("secret"), Data: map[string][]byte{"password": []byte(planted("data")), "odd": []byte(odd[0]), "long": []byte(odd[1])}},
		&corev1.Secret{ObjectMeta: meta("a-kubeconfig"), Data: map[string][]byte{"value": fmt.Appendf(nil, kubeconfigText, planted("kubeconfig"))}},
		&corev1.ConfigMap{ObjectMeta: meta("manifests"), Data: map[string]string{"apply.yaml": planted("configmap")}},
		&batchv1.Job{ObjectMeta: meta("job"), Spec: batchv1.JobSpec{Template: jobPod}},
		policy(meta("policy")), config, host, provider, class, extension,
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "manager-1", Labels: pod.Labels}, Spec: onNode(pod.Spec)},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "now"}, LastTimestamp: metav1.Now(), InvolvedObject: corev1.ObjectReference{Namespace: ns}, Message: "it said " + planted("data") + " and Authorization: Basic " + planted("event")},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "odd"}, LastTimestamp: metav1.Now(), InvolvedObject: corev1.ObjectReference{Namespace: ns}, Message: "it told: " + strings.Join(odd, "\nand ")},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "long"}, LastTimestamp: metav1.Now(), InvolvedObject: corev1.ObjectReference{Namespace: ns}, Message: "it told " + odd[1]},
		&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "before"}, LastTimestamp: metav1.NewTime(time.Now().Add(-2 * time.Hour)), InvolvedObject: corev1.ObjectReference{Namespace: ns}, Message: "long ago"},
	)
	host.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "False", Reason: "NotClean", Message: "token=" + planted("condition") + " is left", LastTransitionTime: metav1.Now()}}
	if err := env.Client.Status().Update(t.Context(), host); err != nil {
		t.Fatal(err)
	}
	testenv.NewCluster(t, env.Client, ns)
}

// clusterClass has secrets in its patches and variables.
func clusterClass(meta metav1.ObjectMeta) *clusterv1.ClusterClass {
	ref := func(kind string) clusterv1.ClusterClassTemplateReference {
		return clusterv1.ClusterClassTemplateReference{APIVersion: infrav1.GroupVersion.String(), Kind: kind, Name: "x"}
	}
	class := &clusterv1.ClusterClass{ObjectMeta: meta}
	class.Spec.Infrastructure.TemplateRef, class.Spec.ControlPlane.TemplateRef = ref("HostClusterTemplate"), ref("HostControlPlaneTemplate")
	class.Spec.Variables = []clusterv1.ClusterClassVariable{{Name: "v", Required: ptr.To(false), Schema: clusterv1.VariableSchema{OpenAPIV3Schema: clusterv1.JSONSchemaProps{
		Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"` + planted("default") + `"`)}, Example: &apiextensionsv1.JSON{Raw: []byte(`"` + planted("example") + `"`)},
	}}}}
	class.Spec.Patches = []clusterv1.ClusterClassPatch{{Name: "p", Definitions: []clusterv1.PatchDefinition{{
		Selector:    clusterv1.PatchSelector{APIVersion: infrav1.GroupVersion.String(), Kind: "HostClusterTemplate", MatchResources: clusterv1.PatchSelectorMatch{InfrastructureCluster: ptr.To(true)}},
		JSONPatches: []clusterv1.JSONPatch{{Op: "add", Path: "/spec/template/spec/x", ValueFrom: &clusterv1.JSONPatchValue{Template: planted("template")}}},
	}}}}
	return class
}

// onNode is a pod of a node that is gone: nobody has its log.
func onNode(spec corev1.PodSpec) corev1.PodSpec {
	spec.NodeName = "gone"
	return spec
}

// policy has secrets in each of its steps.
func policy(meta metav1.ObjectMeta) *lifecyclev1.LifecyclePolicy {
	job := `{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i","command":["` + planted("job") + `"],"env":[{"name":"P","value":"` + planted("job-env") + `"}]}]}}}`
	return &lifecyclev1.LifecyclePolicy{ObjectMeta: meta, Spec: lifecyclev1.LifecyclePolicySpec{
		Mode: lifecyclev1.ModeEnforce, ClusterSelector: &metav1.LabelSelector{},
		Hooks: []lifecyclev1.HookPolicy{{Hook: lifecyclev1.BeforeClusterUpgrade, Steps: []lifecyclev1.Step{
			{Name: "call", Webhook: &lifecyclev1.WebhookStep{URL: "https://ann:" + planted("user") + "@hooks.example.com/services/" + planted("path") + "?sig=" + planted("query"), SecretName: "signs"}},
			{Name: "job", Job: &lifecyclev1.JobStep{Spec: runtime.RawExtension{Raw: []byte(job)}}},
			{Name: "ask", Approval: &lifecyclev1.ApprovalStep{Message: fmt.Sprintf(kubeconfigText, planted("object"))}},
		}}},
	}}
}

// No secret that somebody planted anywhere is in the archive; what helps is.
func TestNoSecretIsInABundle(t *testing.T) {
	testenv.Skip(t)
	ns := env.Namespace(t)
	plant(t, ns)
	p := plane{records: []management.Record{
		record("plane/plane.log", "I0504 request Authorization: Bearer "+planted("log")+"\n-----BEGIN PRIVATE KEY-----\n"+planted("key")+"\n-----END PRIVATE KEY-----\nthe plane is up\n"),
		record("hosts/h1/slipway-agent.log", "read "+planted("data")+"\n"+fmt.Sprintf("err=%q\n", "refused "+odd[0])+fmt.Sprintf(kubeconfigText, planted("kubeconfig"))+"agent is up\n"),
	}}
	files, missing := write(t, managementCluster(t, p), options(ns, true))
	for name, text := range files {
		if strings.Contains(name+text, "Planted") || strings.Contains(text, "0Zq9") {
			t.Errorf("%s has a secret:\n%s", name, text)
		}
	}
	for name, shows := range map[string][]string{
		"summary.md":                      {"HostQuarantined", "Host a/h1", "## Missing", "logs/" + ns + "/manager-1/c.log", "## What is where"},
		"doctor.json":                     {`"check": "HostQuarantined"`},
		"versions.json":                   {`"slipway": "v1"`, `"management cluster": "v1.`},
		"missing.txt":                     {"logs/" + ns + "/manager-1/c.log: "},
		"objects/" + ns + "/secrets.yaml": {"name: a-kubeconfig", "password: " + redact.Mark, "value: " + redact.Mark},
		"objects/" + ns + "/hosts.infrastructure.slipway.dev.yaml":          {"name: h1", "reason: NotClean"},
		"objects/" + ns + "/lifecyclepolicies.lifecycle.slipway.dev.yaml":   {"name: policy", "url: https://", "name: ask"},
		"objects/" + ns + "/kubeadmconfigs.bootstrap.cluster.x-k8s.io.yaml": {"path: /etc/x"},
		"objects/" + ns + "/clusterclasses.cluster.x-k8s.io.yaml":           {"path: /spec/template/spec/x", "kind: HostClusterTemplate"},
		"objects/_cluster/extensionconfigs.runtime.cluster.x-k8s.io.yaml":   {"name: " + ns, "key: " + redact.Mark},
		"objects/" + ns + "/clusters.cluster.x-k8s.io.yaml":                 {"name: c1"},
		"objects/" + ns + "/deployments.apps.yaml":                          {"name: manager"},
		"objects/" + ns + "/events.yaml":                                    {"name: now", "it said " + redact.Mark},
		"clusters/" + ns + "/c1/nodes.yaml":                                 {"name: node-1"},
		"plane/plane.log":                                                   {"the plane is up"},
		"hosts/h1/slipway-agent.log":                                        {"agent is up"},
	} {
		for _, want := range shows {
			if !strings.Contains(files[name], want) {
				t.Errorf("%s does not show %q:\n%s", name, want, files[name])
			}
		}
	}
	for name, text := range files {
		if strings.Contains(text, "long ago") || strings.Contains(text, "managedFields") || strings.Contains(name, "configmaps") || strings.Contains(name, "jobs") {
			t.Errorf("%s has an old event, managed fields, or what nobody asked for", name)
		}
	}
	if len(missing) == 0 {
		t.Error("the log of a pod without a kubelet is not missed")
	}
}

// The same cluster makes the same files, and what cannot be had is told.
func TestBundleIsAlikeAndTellsWhatIsMissing(t *testing.T) {
	testenv.Skip(t)
	ns := env.Namespace(t)
	create(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "down"}, Spec: clusterv1.ClusterSpec{
		ControlPlaneRef: clusterv1.ContractVersionedObjectReference{APIGroup: "controlplane.cluster.x-k8s.io", Kind: "KubeadmControlPlane", Name: "x"},
	}})
	p := plane{records: []management.Record{{Name: "plane/plane.log", Open: func(context.Context) (io.ReadCloser, error) { return nil, os.ErrNotExist }}}}
	o := options(ns, false)
	first, missing := write(t, managementCluster(t, p), o)
	second, _ := write(t, managementCluster(t, p), o)
	for name := range second {
		if first[name] != second[name] {
			t.Errorf("%s differs:\n%s\n%s", name, first[name], second[name])
		}
	}
	for _, want := range []string{"nodes of cluster " + ns + "/down: the cluster is down", "plane/plane.log: file does not exist", "logs of the plane: one log cannot be found"} {
		if !slices.Contains(missing, want) || !strings.Contains(first["missing.txt"], want+"\n") || !strings.Contains(first["summary.md"], "- "+want+"\n") {
			t.Errorf("%q is not told: %q", want, missing)
		}
	}
}

// Who may read nothing gets a bundle that says so.
func TestBundleWithoutRights(t *testing.T) {
	testenv.Skip(t)
	kc, err := clientcmd.Load(env.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kc.AuthInfos[kc.Contexts[kc.CurrentContext].AuthInfo].Impersonate = "nobody"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*kc, file); err != nil {
		t.Fatal(err)
	}
	cluster, err := management.Find(management.Choice{Kubeconfig: file})
	if err != nil {
		t.Fatal(err)
	}
	files, missing := write(t, cluster, options("", true))
	for _, want := range []string{"secrets: ", "objects hosts.infrastructure.slipway.dev: ", "objects events: ", "nodes: ", "logs of the providers: ", "metrics of the managers: ", "journals of hosts: "} {
		if !slices.ContainsFunc(missing, func(m string) bool { return strings.HasPrefix(m, want) }) {
			t.Errorf("that there is no %q is not told: %q", want, missing)
		}
	}
	for name := range files {
		if strings.HasPrefix(name, "objects/") {
			t.Errorf("%s was read by nobody", name)
		}
	}
}

// When the time is over, or nobody answers, there is a bundle all the same.
func TestBundleInTime(t *testing.T) {
	testenv.Skip(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	missing, err := Write(over, &out, managementCluster(t, plane{}), doctor.Report{}, options("", false))
	if err != nil || len(missing) != len(stages) || !strings.Contains(unpack(t, &out)["missing.txt"], "the time for the bundle was over") {
		t.Errorf("%v, %q", err, missing)
	}
}
