package lifecycle

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/internal/lifecycle/engine"
	"github.com/slipway-dev/slipway/internal/testenv/level"
	"github.com/slipway-dev/slipway/test/conformance/judge"
)

// all is what every test uses, each in a namespace of its own.
var all *world

type world struct {
	management, workload *judge.Plane
	// program is slipway-lifecycle, account its rights.
	program string
	account *rest.Config
	kubelet *kubelet
	*receiver
}

// programNamespace is that of the program's manifests.
const programNamespace = "slipway-lifecycle-system"

// parallel is how many tests run at once. Mostly they wait.
const parallel = "8"

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(klog.Background())
	if !level.IsDeep() {
		os.Exit(m.Run())
	}
	if err := errors.Join(flag.Set("test.parallel", parallel), judge.FindAssets("../../../bin")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lifecycle-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	all = &world{}
	defer all.stop()
	// Watches end before the API servers, which would wait for them.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err := all.start(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func (w *world) start(ctx context.Context, dir string) error {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), engine.AddToScheme(scheme)); err != nil {
		return err
	}
	var err error
	if w.program, err = judge.NewKit().Program(ctx, "github.com/slipway-dev/slipway/cmd/slipway-lifecycle"); err != nil {
		return err
	}
	core, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	if err != nil {
		return fmt.Errorf("find Cluster API: %w", err)
	}
	w.management, err = judge.StartServer(scheme, filepath.Join(strings.TrimSpace(string(core)), "core/config/crd/bases"),
		"../../../config/crd/bases", "../../../config/lifecycle/crd/bases")
	if err != nil {
		return err
	}
	if w.workload, err = judge.StartServer(scheme); err != nil {
		return err
	}
	if err := w.management.Run(ctx, judge.Options{Dir: dir, Scheme: scheme, Controllers: []string{"job-controller", "namespace-controller"}}); err != nil {
		return err
	}
	w.receiver = startReceiver()
	if w.kubelet, err = startKubelet(ctx, w.management.Client); err != nil {
		return err
	}
	if err := w.management.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: programNamespace}}); err != nil {
		return err
	}
	if w.account, err = w.management.As(ctx, programNamespace, "slipway-lifecycle"); err != nil {
		return err
	}
	return errors.Join(
		grant(ctx, w.management.Client, "", "role.yaml", "role_binding.yaml", "step_roles.yaml"),
		grant(ctx, w.management.Client, programNamespace, "job_validation.yaml"),
	)
}

// grant creates manifests of the program's rights, those of a Role in a namespace.
func grant(ctx context.Context, c client.Client, namespace string, files ...string) error {
	for _, file := range files {
		data, err := os.ReadFile(filepath.Join("../../../config/lifecycle/rbac", file))
		if err != nil {
			return err
		}
		objects, err := judge.Decode(data)
		if err != nil {
			return err
		}
		for _, object := range objects {
			object.SetNamespace(namespace)
			if err := c.Create(ctx, object); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *world) stop() {
	if w.receiver != nil {
		w.receiver.stop()
	}
	for _, plane := range []*judge.Plane{w.management, w.workload} {
		if plane != nil {
			if err := errors.Join(plane.Failures(), plane.Stop()); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}

// kubelet ends the pods of Jobs, and writes down all Jobs and pods that ever were.
type kubelet struct {
	client client.WithWatch

	mu sync.Mutex
	// born are the UIDs of the Jobs, and of the pods of each Job, by namespace and name.
	born map[string][]string
	err  error
}

// failsOnce is the command of a container that fails unless a person retried the step.
const failsOnce = "fails-once"

func startKubelet(ctx context.Context, c client.WithWatch) (*kubelet, error) {
	k := &kubelet{client: c, born: map[string][]string{}}
	for _, list := range []client.ObjectList{&batchv1.JobList{}, &corev1.PodList{}} {
		events, err := c.Watch(ctx, list)
		if err != nil {
			return nil, err
		}
		go k.follow(ctx, events)
	}
	return k, nil
}

func (k *kubelet) follow(ctx context.Context, events watch.Interface) {
	defer events.Stop()
	for event := range events.ResultChan() {
		object, ok := event.Object.(client.Object)
		if !ok {
			k.fail(fmt.Errorf("watch Jobs and pods: %+v", event.Object))
			return
		}
		if event.Type != watch.Added {
			continue
		}
		k.note(object)
		if pod, ok := object.(*corev1.Pod); ok && pod.Labels[batchv1.JobNameLabel] != "" {
			if err := k.finish(ctx, pod); ctx.Err() == nil && client.IgnoreNotFound(err) != nil {
				k.fail(fmt.Errorf("end pod %s: %w", pod.Name, err))
			}
		}
	}
	if ctx.Err() == nil {
		k.fail(errors.New("the watch of Jobs and pods has ended"))
	}
}

func (k *kubelet) finish(ctx context.Context, pod *corev1.Pod) error {
	patch := client.MergeFrom(pod.DeepCopy())
	pod.Status.Phase = corev1.PodSucceeded
	if retried := strings.HasSuffix(pod.Labels[batchv1.JobNameLabel], "-r1"); pod.Spec.Containers[0].Command[0] == failsOnce && !retried {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.StartTime = &metav1.Time{Time: pod.CreationTimestamp.Time}
	return k.client.Status().Patch(ctx, pod, patch)
}

func (k *kubelet) note(object client.Object) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key := object.GetNamespace() + " Job " + object.GetName()
	if pod, ok := object.(*corev1.Pod); ok {
		key = object.GetNamespace() + " pod of " + pod.Labels[batchv1.JobNameLabel]
	}
	k.born[key] = append(k.born[key], string(object.GetUID()))
}

func (k *kubelet) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = errors.Join(k.err, err)
}

// inNamespace returns what ever was in a namespace: how many there were of each.
func (k *kubelet) inNamespace(namespace string) (map[string]int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	found := map[string]int{}
	for key, uids := range k.born {
		if rest, ok := strings.CutPrefix(key, namespace+" "); ok {
			found[rest] = len(slices.Compact(slices.Sorted(slices.Values(uids))))
		}
	}
	return found, k.err
}
