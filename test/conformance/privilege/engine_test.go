package privilege

import (
	"context"
	"errors"
	"fmt"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	// The manifests are read by another program: so the cache of `go test` knows
	// when they change.
	_ "github.com/slipway-dev/slipway/config"
	"github.com/slipway-dev/slipway/internal/testenv/poll"
	"github.com/slipway-dev/slipway/internal/testenv/shared"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

const (
	module    = "github.com/slipway-dev/slipway"
	namespace = "default"
	// engineNamespace is that of the engine's manifests.
	engineNamespace = "slipway-lifecycle-system"
)

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(clientgoscheme.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), lifecyclev1.AddToScheme(scheme))
}

// engine is the program on a management cluster, and who calls it.
type engine struct {
	*judge.Plane
	t *testing.T
	// workload is the API server of every Cluster.
	workload *judge.Plane
	// hooks calls as Cluster API does.
	hooks   *sdkclient.Client
	metrics string
	subject judge.Subject
}

// startEngine starts the released engine with nothing but its own rights.
func startEngine(t *testing.T) *engine {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	free, err := shared.FreePorts(2)
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, metrics: fmt.Sprintf("https://127.0.0.1:%d/metrics", free[1])}
	if e.workload, err = judge.StartServer(scheme); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.stop(e.workload) })
	kit := judge.NewKit()
	e.subject = judge.Subject{
		Name: "slipway-lifecycle", Package: module + "/cmd/slipway-lifecycle", CertDirFlag: "cert-dir",
		Namespace: engineNamespace, ServiceAccount: "slipway-lifecycle", Objects: manifests(t, kit),
		Flags: append(judge.Elected(engineNamespace),
			fmt.Sprintf("--extension-address=127.0.0.1:%d", free[0]), fmt.Sprintf("--diagnostics-address=127.0.0.1:%d", free[1]),
			"--insecure-hooks", "--drain-delay=0s"),
	}
	e.Plane, err = judge.Start(t.Context(), judge.Options{Kit: kit, Dir: t.TempDir(), Scheme: scheme, Audit: true, Subjects: []judge.Subject{e.subject}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.stop(e.Plane) })
	e.discover(fmt.Sprintf("https://127.0.0.1:%d", free[0]))
	return e
}

// manifests are what is released, and the CRDs of the kinds that the engine reads.
func manifests(t *testing.T, kit *judge.Kit) []*unstructured.Unstructured {
	t.Helper()
	objects, err := kit.Render(t.Context(), module, "config/lifecycle/default")
	if err != nil {
		t.Fatal(err)
	}
	for in, folder := range map[string]string{module: "config/crd", "sigs.k8s.io/cluster-api": "core/config/crd"} {
		crds, err := kit.Render(t.Context(), in, folder)
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, crds...)
	}
	return objects
}

func (e *engine) discover(url string) {
	e.t.Helper()
	catalog := hook.NewCatalog()
	if err := capi.AddToCatalog(catalog); err != nil {
		e.t.Fatal(err)
	}
	var err error
	if e.hooks, _, err = hooktest.Discover(e.t.Context(), catalog, hooktest.Config("slipway-lifecycle", url, e.CA())); err != nil {
		e.t.Fatal(err)
	}
}

func (e *engine) stop(plane *judge.Plane) {
	if err := plane.Stop(); err != nil {
		e.t.Errorf("stop: %v", err)
	}
}

// eventually waits for what the engine does.
func (e *engine) eventually(what string, check func(context.Context) error) {
	e.t.Helper()
	poll.Until(e.t, what, func() error {
		if err := e.Failures(); err != nil {
			e.t.Fatal(err)
		}
		return check(e.t.Context())
	})
}

// create makes the objects of YAML documents.
func (e *engine) create(documents string) {
	e.t.Helper()
	objects, err := judge.Decode([]byte(documents))
	if err != nil {
		e.t.Fatal(err)
	}
	for _, object := range objects {
		if err := e.Client.Create(e.t.Context(), object); err != nil {
			e.t.Fatalf("create %s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}

// runs are those of a hook.
func (e *engine) runs(ctx context.Context, of lifecyclev1.HookName) ([]lifecyclev1.LifecycleRun, error) {
	list := &lifecyclev1.LifecycleRunList{}
	err := e.Client.List(ctx, list, client.InNamespace(namespace))
	var found []lifecyclev1.LifecycleRun
	for i := range list.Items {
		if list.Items[i].Spec.Hook == of {
			found = append(found, list.Items[i])
		}
	}
	return found, err
}

// until waits until the only run of a hook is as wanted, and returns it.
func (e *engine) until(of lifecyclev1.HookName, what string, wanted func(*lifecyclev1.LifecycleRun) bool) *lifecyclev1.LifecycleRun {
	e.t.Helper()
	var run *lifecyclev1.LifecycleRun
	e.eventually(fmt.Sprintf("the run of %s %s", of, what), func(ctx context.Context) error {
		runs, err := e.runs(ctx, of)
		if err != nil {
			return err
		}
		if len(runs) != 1 || !wanted(&runs[0]) {
			return fmt.Errorf("the runs are %+v", runs)
		}
		run = &runs[0]
		return nil
	})
	return run
}

func succeeded(run *lifecyclev1.LifecycleRun) bool {
	return run.Status.Phase == lifecyclev1.RunSucceeded
}
