package step

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
)

// Types of the Secrets of an archive.
const (
	ArchiveIndexType corev1.SecretType = "lifecycle.slipway.dev/archive"
	ArchivePartType  corev1.SecretType = "lifecycle.slipway.dev/archive-part"
)

// Keys of the Secrets of an archive.
const (
	ArchiveIndexKey = "index.json"
	ArchivePartKey  = "part"
)

// ArchiveDigestAnnotation is the digest of the archive on its index, of the part on a part:
// sha256:<hex>.
const ArchiveDigestAnnotation = "lifecycle.slipway.dev/digest"

// moveLabel has clusterctl move include an object.
const moveLabel = "clusterctl.cluster.x-k8s.io/move"

// partSize keeps a Secret below its limit of 1 MiB.
const partSize = 900 << 10

// ArchiveIndex is what an archive consists of.
type ArchiveIndex struct {
	Cluster string `json:"cluster"`
	// Namespace of the Cluster.
	Namespace string               `json:"namespace,omitempty"`
	Hook      lifecyclev1.HookName `json:"hook"`
	// StartTime is when the step began.
	StartTime metav1.Time `json:"startTime"`
	// Digest of the archive: sha256:<hex>.
	Digest string `json:"digest"`
	// Bytes of the archive.
	Bytes int `json:"bytes"`
	// Objects in the archive.
	Objects int           `json:"objects"`
	Parts   []ArchivePart `json:"parts"`
}

// ArchivePart of an archive.
type ArchivePart struct {
	// Secret that holds it.
	Secret string `json:"secret"`
	Digest string `json:"digest"`
	Bytes  int    `json:"bytes"`
}

// ArchiveDigest returns the digest of data as an archive has it: sha256:<hex>.
func ArchiveDigest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// archiveNamespace returns the namespace of an archive.
func archiveNamespace(in Input) string { return cmp.Or(in.Step.Export.Namespace, in.Run.Namespace) }

// archiveName returns the name of an archive: another one for every start of the step, so
// that the archive of an earlier Cluster of the same name is never overwritten. Where
// Clusters of several namespaces have theirs, it differs by the namespace, too.
func archiveName(in Input) string {
	suffix := in.Progress.StartTime.UTC().Format("20060102150405")
	if archiveNamespace(in) != in.Run.Namespace {
		sum := sha256.Sum256([]byte(in.Run.Namespace))
		suffix += "-" + hex.EncodeToString(sum[:])[:8]
	}
	name := fmt.Sprintf("%s-%s-%s", in.Run.Name, in.Step.Name, suffix)
	if len(name) > 240 {
		return Name(in.Run, in.Progress, suffix)
	}
	return name
}

// archiveLabels leaves the label of the Cluster out: the managers of Cluster API keep every
// Secret with it in memory. Nothing owns an archive, so it says itself that it moves
// with the namespace: where its Cluster was may be thrown away after clusterctl move.
func archiveLabels(in Input) map[string]string {
	labels := Labels(in.Run, in.Step.Name)
	labels[lifecyclev1.ArchiveLabel] = labels[clusterv1.ClusterNameLabel]
	delete(labels, clusterv1.ClusterNameLabel)
	labels[moveLabel] = ""
	return labels
}

// saveArchive writes the parts, and then the index.
func saveArchive(ctx context.Context, in Input, content []byte, objects int) (*ArchiveIndex, error) {
	index := &ArchiveIndex{
		Cluster: in.Run.Spec.ClusterName, Namespace: in.Run.Namespace, Hook: in.Run.Spec.Hook, StartTime: in.Progress.StartTime,
		Digest: ArchiveDigest(content), Bytes: len(content), Objects: objects,
	}
	for part := range slices.Chunk(content, partSize) {
		p := ArchivePart{Secret: archiveName(in) + "-" + strconv.Itoa(len(index.Parts)), Digest: ArchiveDigest(part), Bytes: len(part)}
		if err := writeArchive(ctx, in, p.Secret, ArchivePartType, ArchivePartKey, part, p.Digest); err != nil {
			return nil, err
		}
		index.Parts = append(index.Parts, p)
	}
	if err := pruneArchive(ctx, in, len(index.Parts)); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return nil, err
	}
	return index, writeArchive(ctx, in, archiveName(in), ArchiveIndexType, ArchiveIndexKey, data, index.Digest)
}

// pruneArchive removes the parts of a larger archive, leftovers of an interrupted attempt.
func pruneArchive(ctx context.Context, in Input, from int) error {
	for n := from; ; n++ {
		part := &corev1.Secret{}
		err := in.Env.Management.Get(ctx, client.ObjectKey{Namespace: archiveNamespace(in), Name: archiveName(in) + "-" + strconv.Itoa(n)}, part)
		if apierrors.IsNotFound(err) || (err == nil && part.Type != ArchivePartType) {
			return nil
		}
		if err == nil {
			err = in.Env.Management.Delete(ctx, part, client.Preconditions{UID: &part.UID})
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the left-over part %s: %w", part.Name, err)
		}
	}
}

// writeArchive writes a Secret of the archive.
func writeArchive(ctx context.Context, in Input, name string, kind corev1.SecretType, key string, data []byte, digest string) error {
	err := writeSecret(ctx, in, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: archiveNamespace(in), Name: name,
			Labels: archiveLabels(in), Annotations: map[string]string{ArchiveDigestAnnotation: digest},
		},
		Type: kind,
		Data: map[string][]byte{key: data},
	}, Terminal(fmt.Errorf("there already is a Secret %s, which is no archive", name), "delete it and retry the step"))
	if err != nil && !IsTerminal(err) {
		return fmt.Errorf("write Secret %s of the archive: %w", name, err)
	}
	return err
}

// writeSecret creates a Secret, or replaces what the one of an attempt that was cut off holds. One of
// another type is foreign.
func writeSecret(ctx context.Context, in Input, wanted *corev1.Secret, foreign error) error {
	err := in.Env.Management.Create(ctx, wanted)
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	existing := &corev1.Secret{}
	if err := in.Env.Management.Get(ctx, client.ObjectKeyFromObject(wanted), existing); err != nil {
		return err
	}
	if existing.Type != wanted.Type {
		return foreign
	}
	updated := existing.DeepCopy()
	updated.Data, updated.Annotations, updated.Labels = wanted.Data, wanted.Annotations, wanted.Labels
	if len(wanted.OwnerReferences) > 0 {
		updated.OwnerReferences = wanted.OwnerReferences
	}
	if equality.Semantic.DeepEqual(existing, updated) {
		return nil
	}
	return in.Env.Management.Update(ctx, updated)
}

// savedArchive returns the index of an archive that is whole; nil when there is none.
func savedArchive(ctx context.Context, in Input) (*ArchiveIndex, error) {
	secret := &corev1.Secret{}
	err := in.Env.Management.Get(ctx, client.ObjectKey{Namespace: archiveNamespace(in), Name: archiveName(in)}, secret)
	if apierrors.IsNotFound(err) || (err == nil && secret.Type != ArchiveIndexType) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the archive: %w", err)
	}
	index := &ArchiveIndex{}
	if err := json.Unmarshal(secret.Data[ArchiveIndexKey], index); err != nil || index.Digest == "" {
		return nil, nil //nolint:nilerr // it is written anew
	}
	for _, part := range index.Parts {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := in.Env.Management.Get(ctx, client.ObjectKey{Namespace: archiveNamespace(in), Name: part.Secret}, meta)
		if apierrors.IsNotFound(err) || (err == nil && meta.Annotations[ArchiveDigestAnnotation] != part.Digest) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look for part %s of the archive: %w", part.Secret, err)
		}
	}
	return index, nil
}

// errArchiveTooLarge says that an archive has reached its limit.
var errArchiveTooLarge = errors.New("the archive is too large")

// limitedBuffer is a buffer that takes no more than limit bytes.
type limitedBuffer struct {
	bytes.Buffer
	limit int64
}

// Write implements io.Writer.
func (l *limitedBuffer) Write(data []byte) (int, error) {
	if int64(l.Len()+len(data)) > l.limit {
		return 0, errArchiveTooLarge
	}
	return l.Buffer.Write(data)
}

// archive collects objects as YAML files of a compressed tar. Nothing in it depends on
// when it is made.
type archive struct {
	buffer *limitedBuffer
	gzip   *gzip.Writer
	tar    *tar.Writer
	paths  map[string]bool
}

func newArchive(limit int64) *archive {
	buffer := &limitedBuffer{limit: limit}
	compressed := gzip.NewWriter(buffer)
	return &archive{buffer: buffer, gzip: compressed, tar: tar.NewWriter(compressed), paths: map[string]bool{}}
}

// add appends an object, unless it is there already.
func (a *archive) add(o *unstructured.Unstructured) error {
	name := archivePath(o)
	if a.paths[name] {
		return nil
	}
	a.paths[name] = true
	for _, field := range []string{"managedFields", "uid", "resourceVersion", "generation", "selfLink"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	content, err := yaml.Marshal(o.Object)
	if err != nil {
		return fmt.Errorf("write %s as YAML: %w", name, err)
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(header); err != nil {
		return err
	}
	_, err = a.tar.Write(content)
	return err
}

// archivePath returns namespaces/<namespace>/<kind>.<group>/<name>.yaml, or
// cluster/<kind>.<group>/<name>.yaml. Names of objects hold no slashes, and those that no file can have
// are shortened: the name of an object may have 253 characters, that of a file 255.
func archivePath(o *unstructured.Unstructured) string {
	gvk := o.GroupVersionKind()
	kind := strings.ToLower(gvk.Kind)
	if gvk.Group != "" {
		kind += "." + gvk.Group
	}
	const suffix, longest = ".yaml", 255
	file := Shorten(o.GetName(), longest-len(suffix)) + suffix
	if o.GetNamespace() == "" {
		return path.Join("cluster", kind, file)
	}
	return path.Join("namespaces", o.GetNamespace(), kind, file)
}

// close returns the archive.
func (a *archive) close() ([]byte, error) {
	if err := errors.Join(a.tar.Close(), a.gzip.Close()); err != nil {
		return nil, err
	}
	return a.buffer.Bytes(), nil
}
