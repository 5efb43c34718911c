package runs

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/step"
)

// Archive is one that was kept.
type Archive struct {
	// Name of the Secret with its index.
	Name string
	step.ArchiveIndex
}

// Archives returns the archives in a namespace of a Cluster, which may be gone, the oldest
// first.
func Archives(ctx context.Context, c client.Reader, namespace string, cluster client.ObjectKey) ([]Archive, error) {
	secrets := &corev1.SecretList{}
	if err := c.List(ctx, secrets, client.InNamespace(namespace), client.HasLabels{lifecyclev1.ArchiveLabel}); err != nil {
		return nil, fmt.Errorf("list the archives: %w", err)
	}
	var archives []Archive
	for i := range secrets.Items {
		secret := &secrets.Items[i]
		if secret.Type != step.ArchiveIndexType {
			continue
		}
		archive := Archive{Name: secret.Name}
		if err := json.Unmarshal(secret.Data[step.ArchiveIndexKey], &archive.ArchiveIndex); err != nil {
			return nil, fmt.Errorf("the index in Secret %s is damaged: %w", secret.Name, err)
		}
		if archive.Cluster == cluster.Name && cmp.Or(archive.Namespace, namespace) == cluster.Namespace {
			archives = append(archives, archive)
		}
	}
	slices.SortFunc(archives, func(a, b Archive) int { return a.StartTime.Compare(b.StartTime.Time) })
	return archives, nil
}

// Assemble returns the bytes of an archive, a tar.gz. It fails when a part is missing
// or is not what was written.
func Assemble(ctx context.Context, c client.Reader, namespace string, archive *Archive) ([]byte, error) {
	var whole bytes.Buffer
	for _, part := range archive.Parts {
		secret := &corev1.Secret{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: part.Secret}, secret); err != nil {
			return nil, fmt.Errorf("archive %s is not whole: %w", archive.Name, err)
		}
		if got := step.ArchiveDigest(secret.Data[step.ArchivePartKey]); got != part.Digest {
			return nil, fmt.Errorf("archive %s is damaged: Secret %s has the digest %s, not %s", archive.Name, part.Secret, got, part.Digest)
		}
		whole.Write(secret.Data[step.ArchivePartKey])
	}
	if got := step.ArchiveDigest(whole.Bytes()); got != archive.Digest {
		return nil, fmt.Errorf("archive %s is damaged: it has the digest %s, not %s", archive.Name, got, archive.Digest)
	}
	return whole.Bytes(), nil
}
