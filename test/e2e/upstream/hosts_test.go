//go:build e2e

package upstream

import (
	"fmt"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"sigs.k8s.io/cluster-api/test/framework"
)

var hostKind = schema.GroupVersionKind{Group: "infrastructure.slipway.dev", Version: "v1beta2", Kind: "Host"}

// enrollHosts brings the plane's hosts into the namespace that a spec has made: a machine
// claims hosts of its own namespace only. It is done as an operator does it who gives a host
// to another team: stop its agent, delete its Host, enroll it there.
func enrollHosts(p framework.ClusterProxy, namespace string) {
	By(fmt.Sprintf("Enrolling %d hosts into namespace %s", *hosts, namespace))
	// those of the spec before may be on their way back still
	Eventually(func() error { return allAvailable(p.GetClient()) }, 3*time.Minute, time.Second).Should(Succeed())
	script, err := here.slipway(ctx, "", "host", "token", "-n", namespace, "--uses", strconv.Itoa(*hosts), "--format", "shell")
	Expect(err).NotTo(HaveOccurred())
	for i := range *hosts {
		name := fmt.Sprintf("host-%d", i+1)
		_, err := here.slipway(ctx, "", "host", "shell", name, "--", "systemctl", "stop", "slipway-agent")
		Expect(err).NotTo(HaveOccurred())
		deleteHost(p.GetClient(), name)
		_, err = here.slipway(ctx, "rm -rf /var/lib/slipway-agent /etc/slipway/agent.yaml\n"+script, "host", "shell", name, "--", "sh", "-s")
		Expect(err).NotTo(HaveOccurred())
	}
	Eventually(func() error {
		if n := len(hostsIn(p.GetClient(), namespace)); n != *hosts {
			return fmt.Errorf("%d of %d hosts", n, *hosts)
		}
		return allAvailable(p.GetClient())
	}, 2*time.Minute, time.Second).Should(Succeed())
}

func hostsIn(c client.Client, namespace string) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(hostKind.GroupVersion().WithKind("HostList"))
	Expect(c.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
	return list.Items
}

// allAvailable says which Host is not clean and free. Hosts whose namespace is gone are.
func allAvailable(c client.Client) error {
	for _, host := range hostsIn(c, metav1.NamespaceAll) {
		phase, _, err := unstructured.NestedString(host.Object, "status", "phase")
		if err != nil {
			return err
		}
		if phase != "Available" && host.GetDeletionTimestamp().IsZero() {
			return fmt.Errorf("host %s/%s is %q", host.GetNamespace(), host.GetName(), phase)
		}
	}
	return nil
}

// deleteHost deletes the Host of a machine wherever it is, and waits until it is gone.
func deleteHost(c client.Client, name string) {
	for _, host := range hostsIn(c, metav1.NamespaceAll) {
		if host.GetName() != name {
			continue
		}
		Expect(client.IgnoreNotFound(c.Delete(ctx, &host))).To(Succeed())
		Eventually(func() bool {
			return apierrors.IsNotFound(c.Get(ctx, client.ObjectKeyFromObject(&host), host.DeepCopy()))
		}, time.Minute, 100*time.Millisecond).Should(BeTrue(), "Host %s/%s stays", host.GetNamespace(), name)
	}
}
