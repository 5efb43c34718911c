package step_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
	"github.com/slipway-dev/slipway/internal/lifecycle/workload"
	"github.com/slipway-dev/slipway/internal/testenv"
)

type exportFixture struct {
	env       *step.Env
	in        step.Input
	namespace string
}

// newExportFixture makes a step that exports the ConfigMaps of its own namespace of the
// workload cluster, and what is added to them.
func newExportFixture(t *testing.T, more ...lifecyclev1.ExportResource) *exportFixture {
	t.Helper()
	testenv.Skip(t)
	namespace := management.Namespace(t)
	if err := other.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	resources := append([]lifecyclev1.ExportResource{{APIVersion: "v1", Kind: "ConfigMap", Namespaces: []string{namespace}}}, more...)
	cluster := management.NewWorkloadCluster(t, namespace, other)
	f := &exportFixture{in: testenv.NewStep(t, management.Client, cluster, lifecyclev1.BeforeClusterDelete,
		lifecyclev1.Step{Name: "save", Export: &lifecyclev1.ExportStep{Resources: resources}}), namespace: namespace}
	f.start(&testenv.Crash{})
	return f
}

// start starts a new process.
func (f *exportFixture) start(crash *testenv.Crash) {
	f.env = newEnv(testenv.NewCrashing(management.Client, crash))
}

func (f *exportFixture) create(t *testing.T, o client.Object) {
	t.Helper()
	o.SetNamespace(f.namespace)
	if err := other.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (f *exportFixture) configMap(t *testing.T, name string, data map[string]string) {
	t.Helper()
	f.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}, Data: data})
}

// large makes n ConfigMaps that do not become smaller by compression.
func (f *exportFixture) large(t *testing.T, n int) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{})
	for i := range n {
		data := make([]byte, 500<<10)
		_, _ = random.Read(data)
		f.configMap(t, fmt.Sprintf("large-%d", i), map[string]string{"data": hex.EncodeToString(data[:400<<10])})
	}
}

func (f *exportFixture) execute(t *testing.T) step.Result {
	t.Helper()
	result, err := execute(t, f.env, f.in)
	if err != nil {
		t.Fatal(err)
	}
	if !result.Done {
		t.Fatalf("waits with %q", result.Message)
	}
	return result
}

// name of the archive.
func (f *exportFixture) name() string {
	return "c1-save-save-" + f.in.Progress.StartTime.UTC().Format("20060102150405")
}

func (f *exportFixture) secrets(t *testing.T) []corev1.Secret {
	t.Helper()
	list := &corev1.SecretList{}
	if err := management.Client.List(t.Context(), list, client.InNamespace(f.namespace), client.MatchingLabels{lifecyclev1.ArchiveLabel: "c1"}); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

// movesAlong says whether clusterctl takes an object along.
func movesAlong(labels map[string]string) bool {
	_, labelled := labels["clusterctl.cluster.x-k8s.io/move"]
	return labelled
}

// archive puts the archive together as a user would; nil when it is not whole.
func (f *exportFixture) archive(t *testing.T) ([]byte, *step.ArchiveIndex) {
	t.Helper()
	s := &corev1.Secret{}
	err := management.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: f.name()}, s)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil, nil
	}
	index := &step.ArchiveIndex{}
	if err := json.Unmarshal(s.Data[step.ArchiveIndexKey], index); err != nil {
		t.Fatal(err)
	}
	var content []byte
	for _, part := range index.Parts {
		s := &corev1.Secret{}
		if err := management.Client.Get(t.Context(), client.ObjectKey{Namespace: f.namespace, Name: part.Secret}, s); err != nil {
			t.Fatal(err)
		}
		if s.Annotations[step.ArchiveDigestAnnotation] != part.Digest || len(s.Data[step.ArchivePartKey]) != part.Bytes {
			t.Errorf("part %s is not that of the index", part.Secret)
		}
		content = append(content, s.Data[step.ArchivePartKey]...)
	}
	sum := sha256.Sum256(content)
	if got := "sha256:" + hex.EncodeToString(sum[:]); got != index.Digest || len(content) != index.Bytes {
		t.Errorf("digest %s of %d bytes, the index has %s of %d", got, len(content), index.Digest, index.Bytes)
	}
	return content, index
}

// filesOf unpacks an archive.
func filesOf(t *testing.T, content []byte) map[string]string {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	reader := tar.NewReader(unzipped)
	found := map[string]string{}
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = string(data)
	}
}

func TestObjectsAreSavedAndOutliveTheCluster(t *testing.T) {
	f := newExportFixture(t, lifecyclev1.ExportResource{APIVersion: "v1", Kind: "Namespace", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "default"}}})
	f.configMap(t, "a", map[string]string{"k": "v"})
	f.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hidden"}})
	result := f.execute(t)
	if !strings.Contains(result.Message, "exported 2 objects") || !strings.Contains(result.Message, "Secret "+f.namespace+"/"+f.name()) {
		t.Errorf("message %q", result.Message)
	}
	content, index := f.archive(t)
	got := filesOf(t, content)
	path := "namespaces/" + f.namespace + "/configmap/a.yaml"
	if len(got) != 2 || got["cluster/namespace/default.yaml"] == "" || got[path] == "" || index.Objects != 2 || index.Cluster != "c1" {
		t.Fatalf("files %v, index %+v", got, index)
	}
	saved := &corev1.ConfigMap{}
	if err := yaml.UnmarshalStrict([]byte(got[path]), saved); err != nil {
		t.Fatal(err)
	}
	if saved.Kind != "ConfigMap" || saved.APIVersion != "v1" || saved.Data["k"] != "v" {
		t.Errorf("saved %+v", saved)
	}
	if saved.UID != "" || saved.ResourceVersion != "" || saved.ManagedFields != nil {
		t.Errorf("saved what only the API server writes: %+v", saved.ObjectMeta)
	}
	for _, s := range f.secrets(t) {
		if len(s.OwnerReferences) != 0 || s.Labels[clusterv1.ClusterNameLabel] != "" || s.Labels[lifecyclev1.HookLabel] != "BeforeClusterDelete" || !movesAlong(s.Labels) {
			t.Errorf("Secret %s has owners %v, labels %v", s.Name, s.OwnerReferences, s.Labels)
		}
	}
}

// TestTheArchiveLivesWhereThePolicySays: two Clusters of one name, in two namespaces, keep
// theirs side by side.
func TestTheArchiveLivesWhereThePolicySays(t *testing.T) {
	testenv.Skip(t)
	kept := management.Namespace(t)
	fixtures := []*exportFixture{newExportFixture(t), newExportFixture(t)}
	for _, f := range fixtures {
		f.in.Step.Export.Namespace = kept
		f.in.Progress.StartTime = fixtures[0].in.Progress.StartTime
		f.configMap(t, "of-"+f.namespace, nil)
		if message := f.execute(t).Message; !strings.Contains(message, "Secret "+kept+"/c1-save-save-") {
			t.Errorf("message %q", message)
		}
		if got := f.secrets(t); len(got) != 0 {
			t.Errorf("%d Secrets are in the policy's namespace", len(got))
		}
	}
	list := &corev1.SecretList{}
	if err := management.Client.List(t.Context(), list, client.InNamespace(kept), client.HasLabels{lifecyclev1.ArchiveLabel}); err != nil {
		t.Fatal(err)
	}
	var of []string
	for _, s := range list.Items {
		if s.Type != step.ArchiveIndexType {
			continue
		}
		index := &step.ArchiveIndex{}
		if err := json.Unmarshal(s.Data[step.ArchiveIndexKey], index); err != nil || index.Objects != 1 {
			t.Errorf("index %s: %v, %+v", s.Name, err, index)
		}
		of = append(of, index.Namespace)
	}
	if want := []string{fixtures[0].namespace, fixtures[1].namespace}; !slices.Equal(slices.Sorted(slices.Values(of)), slices.Sorted(slices.Values(want))) {
		t.Errorf("there are archives of %v, want %v", of, want)
	}
	// Both are whole: nothing is made anew.
	for _, f := range fixtures {
		f.configMap(t, "later", nil)
		if message := f.execute(t).Message; !strings.Contains(message, "exported 1 objects") {
			t.Errorf("made anew: %q", message)
		}
	}
}

func TestSecretsAreSavedWhenTheyAreNamed(t *testing.T) {
	f := newExportFixture(t)
	f.in.Step.Export.Resources = append(f.in.Step.Export.Resources, lifecyclev1.ExportResource{APIVersion: "v1", Kind: "Secret", Namespaces: []string{f.namespace}})
	f.create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "named"}})
	f.execute(t)
	content, _ := f.archive(t)
	if got := filesOf(t, content); got["namespaces/"+f.namespace+"/secret/named.yaml"] == "" {
		t.Errorf("files %v", got)
	}
}

func TestTheSameObjectsGiveTheSameBytes(t *testing.T) {
	f := newExportFixture(t)
	// Selected twice, and in other order: once is enough.
	f.in.Step.Export.Resources = append(f.in.Step.Export.Resources, f.in.Step.Export.Resources[0])
	f.configMap(t, "b", nil)
	f.configMap(t, "a", nil)
	f.execute(t)
	first, index := f.archive(t)
	if index.Objects != 2 {
		t.Errorf("%d objects", index.Objects)
	}
	f.in.Progress.StartTime = metav1.NewTime(f.in.Progress.StartTime.Add(time.Hour))
	f.execute(t)
	if second, _ := f.archive(t); !bytes.Equal(first, second) {
		t.Error("the archives differ")
	}
}

func TestALargeArchiveHasSeveralParts(t *testing.T) {
	f := newExportFixture(t)
	f.large(t, 3)
	f.execute(t)
	content, index := f.archive(t)
	if len(index.Parts) != 2 || len(filesOf(t, content)) != 3 {
		t.Errorf("%d parts, %d files", len(index.Parts), len(filesOf(t, content)))
	}
}

func TestAWholeArchiveIsNotMadeAnew(t *testing.T) {
	f := newExportFixture(t)
	f.configMap(t, "a", nil)
	message := f.execute(t).Message
	f.configMap(t, "b", nil)
	if again := f.execute(t).Message; again != message {
		t.Errorf("first %q, then %q", message, again)
	}
	_, index := f.archive(t)
	if err := management.Client.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: index.Parts[0].Secret}}); err != nil {
		t.Fatal(err)
	}
	if got := f.execute(t).Message; !strings.Contains(got, "exported 2 objects") {
		t.Errorf("with a part missing: %q", got)
	}
	f.archive(t)
}

// TestKilledAfterAnyWriteTheArchiveIsWholeOrHasNoIndex kills the process after each of
// its writes in turn; the cluster changes until the next one goes on.
func TestKilledAfterAnyWriteTheArchiveIsWholeOrHasNoIndex(t *testing.T) {
	for after := 1; after <= 3; after++ {
		f := newExportFixture(t)
		f.large(t, 3)
		f.start(&testenv.Crash{After: after})
		if _, err := execute(t, f.env, f.in); !errors.Is(err, testenv.ErrCrashed) {
			t.Fatalf("killed after write %d: %v", after, err)
		}
		if content, _ := f.archive(t); (content != nil) != (after == 3) {
			t.Errorf("killed after write %d of 3, there is an index: %v", after, content != nil)
		}
		large := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "large-2"}}
		if err := other.Client.Delete(t.Context(), large); err != nil {
			t.Fatal(err)
		}
		f.start(&testenv.Crash{})
		f.execute(t)
		content, index := f.archive(t)
		want := 2
		if after == 3 {
			want = 3
		}
		if got := len(filesOf(t, content)); got != want || index.Objects != want {
			t.Errorf("killed after write %d: %d files, want %d", after, got, want)
		}
		if got := len(f.secrets(t)); got != len(index.Parts)+1 {
			t.Errorf("killed after write %d: %d Secrets for %d parts", after, got, len(index.Parts))
		}
	}
}

func TestALargerArchiveThanAllowedIsRefused(t *testing.T) {
	f := newExportFixture(t)
	f.in.Step.Export.MaxBytes = ptr.To[int64](64 << 10)
	f.large(t, 1)
	_, err := execute(t, f.env, f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "larger than maxBytes, 65536") {
		t.Errorf("got %v", err)
	}
	if got := f.secrets(t); len(got) != 0 {
		t.Errorf("%d Secrets were written", len(got))
	}
}

func TestAnUnknownKindFailsTheAttempt(t *testing.T) {
	f := newExportFixture(t, lifecyclev1.ExportResource{APIVersion: "example.com/v1", Kind: "Widget"})
	_, err := execute(t, f.env, f.in)
	if err == nil || !strings.Contains(err.Error(), "export.resources[1]: the workload cluster does not know the kind Widget of example.com/v1") {
		t.Errorf("got %v", err)
	}
	if got := f.secrets(t); len(got) != 0 {
		t.Errorf("%d Secrets were written", len(got))
	}
}

func TestAnExportOfAnUnreachableClusterFailsTheAttempt(t *testing.T) {
	f := newExportFixture(t)
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: "c1-kubeconfig"}}
	if err := management.Client.Delete(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	_, err := execute(t, f.env, f.in)
	if !workload.IsUnavailable(err) || step.IsTerminal(err) {
		t.Errorf("got %v", err)
	}
}

func TestAllPagesAreSaved(t *testing.T) {
	f := newExportFixture(t)
	var names []string
	for i := range workload.PageSize + 1 {
		names = append(names, fmt.Sprintf("c%d", i))
		f.configMap(t, names[i], nil)
	}
	f.execute(t)
	content, _ := f.archive(t)
	got := filesOf(t, content)
	if len(got) != len(names) || slices.ContainsFunc(names, func(n string) bool { return got["namespaces/"+f.namespace+"/configmap/"+n+".yaml"] == "" }) {
		t.Errorf("%d files, want %d", len(got), len(names))
	}
}

func TestASecretOfSomebodyElseIsLeftAlone(t *testing.T) {
	f := newExportFixture(t)
	theirs := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: f.namespace, Name: f.name() + "-0"}, Data: map[string][]byte{"k": []byte("v")}}
	if err := management.Client.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	_, err := execute(t, f.env, f.in)
	if !step.IsTerminal(err) || !strings.Contains(err.Error(), "is no archive") {
		t.Errorf("got %v", err)
	}
}

func TestAuditSavesNothing(t *testing.T) {
	f := newExportFixture(t)
	f.in.Run.Spec.Mode = lifecyclev1.ModeAudit
	f.execute(t)
	if got := f.secrets(t); len(got) != 0 {
		t.Errorf("%d Secrets were written", len(got))
	}
}

// crowdedClients gives access to no cluster, and counts who waits for it.
type crowdedClients struct{ inside, most atomic.Int32 }

func (c *crowdedClients) For(context.Context, types.NamespacedName) (*workload.Cluster, error) {
	now := c.inside.Add(1)
	defer c.inside.Add(-1)
	for most := c.most.Load(); now > most && !c.most.CompareAndSwap(most, now); most = c.most.Load() {
	}
	time.Sleep(10 * time.Millisecond)
	return nil, errors.New("no cluster")
}

// TestFewArchivesAreMadeAtOnce: when many Clusters are deleted, not all are in memory.
func TestFewArchivesAreMadeAtOnce(t *testing.T) {
	f := newExportFixture(t)
	clients := &crowdedClients{}
	f.env.Workload = clients
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() { _, _ = execute(t, f.env, f.in) })
	}
	all.Wait()
	if most := clients.most.Load(); most > 10 {
		t.Errorf("%d archives were made at once", most)
	}
}
