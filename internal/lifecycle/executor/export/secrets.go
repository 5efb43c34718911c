package export

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Types of the Secrets of an archive.
const (
	IndexType corev1.SecretType = "lifecycle.slipway.dev/archive"
	PartType  corev1.SecretType = "lifecycle.slipway.dev/archive-part"
)

// Keys of the Secrets of an archive.
const (
	IndexKey = "index.json"
	PartKey  = "part"
)

// DigestAnnotation is the digest of the archive on its index, of the part on a part:
// sha256:<hex>.
const DigestAnnotation = "lifecycle.slipway.dev/digest"

// moveLabel has clusterctl move take an object along.
const moveLabel = "clusterctl.cluster.x-k8s.io/move"

// partSize keeps a Secret below its limit of 1 MiB.
const partSize = 900 << 10

// Index is what an archive consists of.
type Index struct {
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
	Objects int    `json:"objects"`
	Parts   []Part `json:"parts"`
}

// Part of an archive.
type Part struct {
	// Secret that holds it.
	Secret string `json:"secret"`
	Digest string `json:"digest"`
	Bytes  int    `json:"bytes"`
}

// Digest returns the digest of data as an archive has it: sha256:<hex>.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// placeOf returns the namespace of an archive.
func placeOf(in step.Input) string { return cmp.Or(in.Step.Export.Namespace, in.Run.Namespace) }

// nameOf returns the name of an archive: another one for every start of the step, so
// that the archive of an earlier Cluster of the same name is never overwritten. Where
// Clusters of several namespaces have theirs, it differs by the namespace, too.
func nameOf(in step.Input) string {
	suffix := in.Progress.StartTime.UTC().Format("20060102150405")
	if placeOf(in) != in.Run.Namespace {
		sum := sha256.Sum256([]byte(in.Run.Namespace))
		suffix += "-" + hex.EncodeToString(sum[:])[:8]
	}
	name := fmt.Sprintf("%s-%s-%s", in.Run.Name, in.Step.Name, suffix)
	if len(name) > 240 {
		return step.Name(in.Run, in.Progress, suffix)
	}
	return name
}

// labelsOf leaves the label of the Cluster out: the managers of Cluster API keep every
// Secret with it in memory. Nothing owns an archive, so it says itself that it moves
// with the namespace: where its Cluster was may be thrown away after clusterctl move.
func labelsOf(in step.Input) map[string]string {
	labels := step.Labels(in.Run, in.Step.Name)
	labels[lifecyclev1.ArchiveLabel] = labels[clusterv1.ClusterNameLabel]
	delete(labels, clusterv1.ClusterNameLabel)
	labels[moveLabel] = ""
	return labels
}

// save writes the parts, and then the index.
func (e *executor) save(ctx context.Context, in step.Input, content []byte, objects int) (*Index, error) {
	index := &Index{
		Cluster: in.Run.Spec.ClusterName, Namespace: in.Run.Namespace, Hook: in.Run.Spec.Hook, StartTime: in.Progress.StartTime,
		Digest: Digest(content), Bytes: len(content), Objects: objects,
	}
	for part := range slices.Chunk(content, partSize) {
		p := Part{Secret: nameOf(in) + "-" + strconv.Itoa(len(index.Parts)), Digest: Digest(part), Bytes: len(part)}
		if err := e.write(ctx, in, p.Secret, PartType, PartKey, part, p.Digest); err != nil {
			return nil, err
		}
		index.Parts = append(index.Parts, p)
	}
	if err := e.prune(ctx, in, len(index.Parts)); err != nil {
		return nil, err
	}
	data, err := json.MarshalIndent(index, "", "  ")
	if err != nil {
		return nil, err
	}
	return index, e.write(ctx, in, nameOf(in), IndexType, IndexKey, data, index.Digest)
}

// prune removes the parts of a larger archive, which an attempt that was cut off left.
func (e *executor) prune(ctx context.Context, in step.Input, from int) error {
	for n := from; ; n++ {
		part := &corev1.Secret{}
		err := e.management.Get(ctx, client.ObjectKey{Namespace: placeOf(in), Name: nameOf(in) + "-" + strconv.Itoa(n)}, part)
		if apierrors.IsNotFound(err) || (err == nil && part.Type != PartType) {
			return nil
		}
		if err == nil {
			err = e.management.Delete(ctx, part, client.Preconditions{UID: &part.UID})
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the left-over part %s: %w", part.Name, err)
		}
	}
}

// write creates a Secret of the archive, or replaces the one of an attempt that was
// cut off.
func (e *executor) write(ctx context.Context, in step.Input, name string, kind corev1.SecretType, key string, data []byte, digest string) error {
	wanted := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: placeOf(in), Name: name,
			Labels: labelsOf(in), Annotations: map[string]string{DigestAnnotation: digest},
		},
		Type: kind,
		Data: map[string][]byte{key: data},
	}
	err := e.management.Create(ctx, wanted)
	if !apierrors.IsAlreadyExists(err) {
		return wrap(err, name)
	}
	existing := &corev1.Secret{}
	if err := e.management.Get(ctx, client.ObjectKeyFromObject(wanted), existing); err != nil {
		return wrap(err, name)
	}
	if existing.Type != kind {
		return step.Terminal(fmt.Errorf("there already is a Secret %s, which is no archive", name), "delete it and retry the step")
	}
	if equality.Semantic.DeepEqual(existing.Data, wanted.Data) && maps.Equal(existing.Annotations, wanted.Annotations) && maps.Equal(existing.Labels, wanted.Labels) {
		return nil
	}
	existing.Data, existing.Annotations, existing.Labels = wanted.Data, wanted.Annotations, wanted.Labels
	return wrap(e.management.Update(ctx, existing), name)
}

func wrap(err error, name string) error {
	if err != nil {
		return fmt.Errorf("write Secret %s of the archive: %w", name, err)
	}
	return nil
}

// saved returns the index of an archive that is whole; nil when there is none.
func (e *executor) saved(ctx context.Context, in step.Input) (*Index, error) {
	secret := &corev1.Secret{}
	err := e.management.Get(ctx, client.ObjectKey{Namespace: placeOf(in), Name: nameOf(in)}, secret)
	if apierrors.IsNotFound(err) || (err == nil && secret.Type != IndexType) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for the archive: %w", err)
	}
	index := &Index{}
	if err := json.Unmarshal(secret.Data[IndexKey], index); err != nil || index.Digest == "" {
		return nil, nil //nolint:nilerr // it is written anew
	}
	for _, part := range index.Parts {
		meta := &metav1.PartialObjectMetadata{}
		meta.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := e.management.Get(ctx, client.ObjectKey{Namespace: placeOf(in), Name: part.Secret}, meta)
		if apierrors.IsNotFound(err) || (err == nil && meta.Annotations[DigestAnnotation] != part.Digest) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look for part %s of the archive: %w", part.Secret, err)
		}
	}
	return index, nil
}
