package webhook_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

// TestWhoLabelsHostsLabelsNoHardware: machines that select by hardware get hosts by what
// their agents reported; whoever may label Hosts cannot say otherwise.
func TestWhoLabelsHostsLabelsNoHardware(t *testing.T) {
	testenv.Skip(t)
	const field = "metadata.labels[" + infrav1.HardwareLabelPrefix + "...]"
	namespace := env.Namespace(t)
	mallory := keeper(t, namespace, "labeller", "get", "create", "update", "patch")
	awaitHostPolicy(t, mallory, namespace, "labeller")
	made := func() *infrav1.Host {
		return &infrav1.Host{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "host-", Labels: map[string]string{
			"disk": "ssd", infrav1.ArchitectureLabel: "amd64", infrav1.BootModeLabel: "",
		}}}
	}
	if err := forbidden(mallory.Create(t.Context(), made()), field, "labeller"); err != nil {
		t.Error(err)
	}
	h := made()
	if err := as(t, manager).Create(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(labels map[string]string){
		"another value":      func(l map[string]string) { l[infrav1.ArchitectureLabel] = "arm64" },
		"one more":           func(l map[string]string) { l[infrav1.GPULabelPrefix+"nvidia"] = "8" },
		"one more, empty":    func(l map[string]string) { l[infrav1.SystemVendorLabel] = "" },
		"one less":           func(l map[string]string) { delete(l, infrav1.ArchitectureLabel) },
		"one less, empty":    func(l map[string]string) { delete(l, infrav1.BootModeLabel) },
		"among what is fine": func(l map[string]string) { l["rack"], l[infrav1.CPUModelLabel] = "1", "mine" },
	} {
		changed := h.DeepCopy()
		change(changed.Labels)
		if err := forbidden(mallory.Update(t.Context(), changed.DeepCopy()), field, "labeller"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := as(t, manager).Update(t.Context(), changed, client.DryRunAll); err != nil {
			t.Errorf("%s, by the manager: %v", name, err)
		}
	}
	h.Labels["rack"] = "1"
	delete(h.Labels, "disk")
	if err := mallory.Update(t.Context(), h); err != nil {
		t.Errorf("it keeps maintenance from labels: %v", err)
	}
}
