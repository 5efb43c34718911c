package trust

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
	"github.com/slipway-dev/slipway/test/simagent"
)

// reader is what reads a Secret of namespace guarded, and how it tells.
type reader struct {
	what string
	told func(context.Context) (string, error)
	// since is what it tells once it may read.
	since string
}

// readers are those beside hosts and pools: the adoption of a node, a hand-over, and the CA of
// an extension.
func (w *world) readers(t *testing.T) []reader {
	t.Helper()
	w.runsNode("node")
	adopting := testenv.NewMachine(t, w.Client, guarded, "adopting", func(machine *clusterv1.Machine, m *infrav1.HostMachine) {
		machine.Spec.Bootstrap.DataSecretName = ptr.To("")
		m.Spec.Adopt.HostName = "node"
	})
	leading := handOverByKubeconfig(guarded)
	w.create(leading)
	extension := &runtimev1alpha1.HostExtensionConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "quota", Annotations: map[string]string{runtimev1.InjectCAFromSecretAnnotation: guarded + "/extension-ca"}},
		Spec:       runtimev1alpha1.HostExtensionConfigSpec{ClientConfig: runtimev1.ClientConfig{URL: "https://extension.invalid/"}},
	}
	w.create(extension)
	conditions := func(object client.Object, of func() []metav1.Condition) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			err := w.Client.Get(ctx, client.ObjectKeyFromObject(object), object)
			return fmt.Sprint(of()), err
		}
	}
	return []reader{
		{"the adoption", conditions(adopting, adopting.GetConditions), "it does not exist"},
		{"the hand-over", func(ctx context.Context) (string, error) {
			if err := w.Client.Get(ctx, client.ObjectKeyFromObject(leading), leading); err != nil || len(leading.Data[infrav1.HandOverSignatureKey]) > 0 {
				return "signed", err
			}
			return w.forbidden(ctx, leading.Name, "HandOver")
		}, "signed"},
		{"the extension", conditions(extension, extension.GetConditions), "there is no Secret " + guarded + "/extension-ca"},
	}
}

// tell waits until each reader says what is expected of it.
func (w *world) tell(readers []reader, expected func(reader) string) {
	w.t.Helper()
	for _, r := range readers {
		w.eventually(r.what+" tells "+expected(r), func(ctx context.Context) error {
			told, err := r.told(ctx)
			if err == nil && !strings.Contains(told, expected(r)) {
				err = errors.New(told)
			}
			return err
		})
	}
}

// runsNode makes a connected Host on which somebody joined a node.
func (w *world) runsNode(name string) {
	w.t.Helper()
	h := simagent.Enrolled(guarded, name)
	w.create(h)
	w.reportAs(w.client(w.agent(guarded, name, h.Spec.HostID)), client.ObjectKeyFromObject(h), func(s *infrav1.HostStatus) {
		s.Residue = []string{"process kubelet (PID 7)"}
	})
}
