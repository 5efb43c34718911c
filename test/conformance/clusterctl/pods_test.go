package clusterctl

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/client-go/util/cert"

	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/live"
)

// released is a provider of the release, as it runs in a management cluster.
type released struct {
	namespace, deployment, image string
	// refused is an object that its webhook refuses, and says is what it tells.
	refused, says string
}

var releases = []released{
	{
		namespace: "slipway-system", deployment: "slipway-controller-manager", image: "slipway-manager",
		refused: `{"apiVersion": "infrastructure.slipway.dev/v1beta2", "kind": "HostCluster", "metadata": {"name": "named", "namespace": "default"},
			"spec": {"controlPlaneEndpoint": {"host": "api.example.com", "port": 6443}}}`,
		says: "spec.controlPlaneEndpoint.host: Invalid value: \"api.example.com\": must be an IP address with endpoint type HostVIP; for a DNS name set spec.endpoint.type to External",
	},
	{
		namespace: engineNamespace, deployment: "slipway-lifecycle-controller-manager", image: engine,
		refused: `{"apiVersion": "lifecycle.slipway.dev/v1alpha1", "kind": "LifecyclePolicy", "metadata": {"name": "early", "namespace": "default"},
			"spec": {"hooks": [{"hook": "BeforeClusterCreate", "steps": [{"name": "save", "export": {"resources": [{"apiVersion": "v1", "kind": "ConfigMap"}]}}]}]}}`,
		says: "spec.hooks[0].steps[0].export: Forbidden: at BeforeClusterCreate there is no workload cluster yet: use AfterControlPlaneInitialized",
	},
}

// The images of the release run on real kubelets, as its components and docs/clusterctl.md have
// them: probes, webhooks through their Services, two replicas of which one leads, and the rights
// that the components give. Only cert-manager, which is no part of the release, is played by the test.
func TestReleaseRunsAsPods(t *testing.T) {
	begin(t, 3)
	home := newLivePlane(t)
	home.up()
	u := newUser(t, shared.repository)
	u.kubeconfig = home.slipway("kubeconfig", "local")
	certManager, err := judge.Download(t.Context(), judge.CertManager)
	if err != nil {
		t.Fatal(err)
	}
	u.kubectl("", "apply", "--server-side", "-f", filepath.Join(certManager, "deploy", "crds"))
	home.loadImages()
	u.run("init", "--infrastructure", "slipway:"+newVersion, "--runtime-extension", engine+":"+newVersion)
	for _, r := range releases {
		u.certify(r.namespace)
	}
	t.Cleanup(func() {
		if t.Failed() {
			u.dumpPods()
		}
	})

	for _, r := range releases {
		t.Run(r.image, func(t *testing.T) {
			u := *u
			u.t = t
			u.kubectl("", "-n", r.namespace, "rollout", "status", "deployment/"+r.deployment, live.Waits())
			pods := u.pods(r)
			if len(pods) != 2 {
				t.Fatalf("the pods are %v, want two", pods)
			}
			if nodes := strings.Fields(u.kubectl("", "-n", r.namespace, "get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")); len(nodes) != 2 || nodes[0] == nodes[1] {
				t.Errorf("they run on %v, want two nodes", nodes)
			}
			u.refusedByWebhook(r)

			leader := u.leader(r, "")
			u.kubectl("", "-n", r.namespace, "delete", "pod", leader, "--grace-period=1")
			u.refusedByWebhook(r) // the other one serves meanwhile
			u.leader(r, leader)
			u.kubectl("", "-n", r.namespace, "rollout", "status", "deployment/"+r.deployment, live.Waits())

			if restarts := u.kubectl("", "-n", r.namespace, "get", "pods", "-o", "jsonpath={.items[*].status.containerStatuses[*].restartCount}"); restarts != "0 0" {
				t.Errorf("the pods were started again %s times", restarts)
			}
			if denied := regexp.MustCompile(`.*is forbidden: User.*`).FindString(u.kubectl("", "-n", r.namespace, "logs", "deployment/"+r.deployment)); denied != "" {
				t.Errorf("a right is missing: %s", denied)
			}
		})
	}

	t.Run("objects are converted and reconciled", func(t *testing.T) {
		u := *u
		u.t = t
		u.storeHost()
		if got := u.kubectl("", "-n", "default", "get", "hosts.v1beta1.infrastructure.slipway.dev", "h1", "-o", "jsonpath={.apiVersion}"); got != "infrastructure.slipway.dev/v1beta1" {
			t.Errorf("the Host is read in %q", got)
		}
		u.kubectl("", "-n", "default", "wait", "host/h1", "--for=condition=AgentConnected=false", live.Waits())
	})
}

// loadImages does what docs/clusterctl.md tells for nodes without a registry.
func (p *livePlane) loadImages() {
	p.t.Helper()
	script, err := shared.guide.take("The release", "ctr ")
	if err != nil {
		p.t.Fatal(err)
	}
	for _, host := range hosts(p.t, p) {
		for _, r := range releases {
			archive := r.image + "-image.tar"
			content, err := os.ReadFile(filepath.Join(shared.repository, "..", "assets", archive))
			if err != nil {
				p.t.Fatal(err)
			}
			// the host's own /var
			if err := os.WriteFile(filepath.Join(p.StateDir, "hosts", host.Name, "var", archive), content, 0o600); err != nil {
				p.t.Fatal(err)
			}
			told := strings.NewReplacer("slipway-manager", r.image, "v0.1.0", newVersion, "sha256:DIGEST", digestOf(p.t, r.image)).Replace(script)
			p.slipway("host", "shell", host.Name, "--", "/bin/sh", "-ec", "cd /var\n"+told)
		}
	}
}

// digestOf is that of an image in the components of the release.
func digestOf(t *testing.T, image string) string {
	t.Helper()
	components, err := filepath.Glob(filepath.Join(shared.repository, "*", newVersion, "*-components.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range components {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, after, found := strings.Cut(string(content), "/"+image+":"+newVersion+"@"); found {
			return strings.Fields(after)[0]
		}
	}
	t.Fatalf("no components name %s by its digest", image)
	return ""
}

// certify does the work of cert-manager in a namespace: a Secret for each Certificate, and its CA
// in every object that requests it.
func (u *user) certify(namespace string) {
	u.t.Helper()
	var certificates struct {
		Items []struct {
			Metadata struct{ Name string }
			Spec     struct {
				SecretName, CommonName string
				DNSNames               []string
			}
		}
	}
	if err := json.Unmarshal([]byte(u.kubectl("", "-n", namespace, "get", "certificates.cert-manager.io", "-o", "json")), &certificates); err != nil {
		u.t.Fatal(err)
	}
	if len(certificates.Items) == 0 {
		u.t.Fatalf("namespace %s has no Certificate", namespace)
	}
	for _, c := range certificates.Items {
		chain, key, err := cert.GenerateSelfSignedCertKey(append(c.Spec.DNSNames, c.Spec.CommonName)[0], nil, c.Spec.DNSNames)
		if err != nil {
			u.t.Fatal(err)
		}
		_, ca := pem.Decode(chain)
		u.kubectl(fmt.Sprintf(`{"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": {"name": %q, "namespace": %q}, "data": {"tls.crt": %q, "tls.key": %q, "ca.crt": %q}}`,
			c.Spec.SecretName, namespace, base64.StdEncoding.EncodeToString(chain), base64.StdEncoding.EncodeToString(key), base64.StdEncoding.EncodeToString(ca)), "apply", "-f", "-")
		u.injectCA(namespace+"/"+c.Metadata.Name, base64.StdEncoding.EncodeToString(ca))
	}
}

// injectCA gives a CA to all objects whose annotation names its Certificate.
func (u *user) injectCA(certificate, bundle string) {
	u.t.Helper()
	for _, kind := range []string{"crd", "mutatingwebhookconfiguration", "validatingwebhookconfiguration"} {
		var list struct {
			Items []struct {
				Metadata struct {
					Name        string
					Annotations map[string]string
				}
				Spec struct {
					Conversion struct{ Strategy string }
				}
				Webhooks []struct{ Name string }
			}
		}
		if err := json.Unmarshal([]byte(u.kubectl("", "get", kind, "-o", "json")), &list); err != nil {
			u.t.Fatal(err)
		}
		for _, o := range list.Items {
			if o.Metadata.Annotations["cert-manager.io/inject-ca-from"] != certificate {
				continue
			}
			var changes []string
			if o.Spec.Conversion.Strategy == "Webhook" {
				changes = append(changes, fmt.Sprintf(`{"op": "add", "path": "/spec/conversion/webhook/clientConfig/caBundle", "value": %q}`, bundle))
			}
			for i := range o.Webhooks {
				changes = append(changes, fmt.Sprintf(`{"op": "add", "path": "/webhooks/%d/clientConfig/caBundle", "value": %q}`, i, bundle))
			}
			if len(changes) == 0 {
				continue
			}
			u.kubectl("", "patch", kind, o.Metadata.Name, "--type=json", "-p", "["+strings.Join(changes, ",")+"]")
		}
	}
}

// refusedByWebhook expects an object to be refused with a message, as the user sees it.
func (u *user) refusedByWebhook(r released) {
	u.t.Helper()
	// Endpoints follow pods, and rules of kube-proxy the endpoints, with some delay.
	poll.Until(u.t, "the webhook answers", func() error {
		cmd := exec.Command(shared.kubectl, "--kubeconfig", u.kubeconfig, "create", "-f", "-")
		cmd.Stdin = strings.NewReader(r.refused)
		out, err := cmd.CombinedOutput()
		if err == nil {
			u.t.Fatalf("the object is made: %s", out)
		}
		if !strings.Contains(string(out), r.says) {
			return fmt.Errorf("it is refused with %s, want %s", out, r.says)
		}
		return nil
	})
}

func (u *user) pods(r released) []string {
	u.t.Helper()
	return strings.Fields(u.kubectl("", "-n", r.namespace, "get", "pods", "-o", "jsonpath={.items[*].metadata.name}"))
}

// leader is the pod that holds the lease of its provider, once that is another one than before.
func (u *user) leader(r released, before string) (leader string) {
	u.t.Helper()
	poll.True(u.t, "a pod leads", func() bool {
		holder := u.kubectl("", "-n", r.namespace, "get", "leases.coordination.k8s.io", "-o", "jsonpath={.items[*].spec.holderIdentity}")
		leader, _, _ = strings.Cut(strings.TrimSpace(holder), "_")
		return leader != "" && leader != before
	})
	return leader
}

// dumpPods shows pods, events and logs.
func (u *user) dumpPods() {
	for _, r := range releases {
		for _, args := range [][]string{{"get", "pods", "-o", "wide"}, {"get", "events"}, {"logs", "deployment/" + r.deployment, "--tail=40"}} {
			out, err := exec.Command(shared.kubectl, append([]string{"--kubeconfig", u.kubeconfig, "-n", r.namespace}, args...)...).CombinedOutput()
			u.t.Logf("kubectl -n %s %s (%v)\n%s", r.namespace, strings.Join(args, " "), err, out)
		}
	}
}
