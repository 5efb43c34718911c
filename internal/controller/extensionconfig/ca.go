package extensionconfig

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/internal/reconciler"
)

// caKey is the key of the CA in the Secret, as cert-manager and upstream have it.
const caKey = "ca.crt"

// injectCA fills in the caBundle from the Secret of the annotation and writes it
// at once: the conditions that follow must tell about the generation it makes.
func (r *Reconciler) injectCA(ctx context.Context, s *scope) error {
	reference, ok := s.object.GetAnnotations()[runtimev1.InjectCAFromSecretAnnotation]
	if !ok {
		return nil
	}
	ca, err := r.readCA(ctx, reference)
	if err != nil {
		return fmt.Errorf("annotation %s: %w", runtimev1.InjectCAFromSecretAnnotation, err)
	}
	entry, err := s.entry()
	if err != nil {
		return err
	}
	if bytes.Equal(ca, entry.ClientConfig.CABundle) {
		return nil
	}
	before := s.object.DeepCopyObject().(client.Object)
	r.Kind.SetCABundle(s.object, ca)
	if err := r.Client.Patch(ctx, s.object, client.MergeFrom(before)); err != nil {
		return &writeError{fmt.Errorf("write the caBundle: %w", err)}
	}
	// The server's answer replaced what was changed in memory.
	s.original = s.object.DeepCopyObject().(Object)
	return nil
}

func (r *Reconciler) readCA(ctx context.Context, reference string) ([]byte, error) {
	namespace, name, found := strings.Cut(reference, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return nil, fmt.Errorf("%q is not <namespace>/<name> of a Secret", reference)
	}
	secret := &corev1.Secret{}
	err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s", reference)
	case err != nil:
		if why := reconciler.MissingSecretRights(err, namespace); why != "" {
			return nil, fmt.Errorf("read Secret %s: %s", reference, why)
		}
		return nil, fmt.Errorf("read Secret %s: %w", reference, err)
	}
	ca := secret.Data[caKey]
	if err := checkCA(ca); err != nil {
		return nil, fmt.Errorf("key %s of Secret %s: %w", caKey, reference, err)
	}
	return ca, nil
}

// checkCA refuses what must not or cannot be a caBundle. The spec of an object
// may be read by more people than a Secret: a private key must not get there.
func checkCA(data []byte) error {
	if len(data) == 0 {
		return errors.New("it is missing or empty")
	}
	certificates := 0
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			return fmt.Errorf("it holds a %s; only certificates may be there", block.Type)
		}
		certificates++
	}
	if certificates == 0 {
		return errors.New("it holds no certificate in PEM form")
	}
	return nil
}
