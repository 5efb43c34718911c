package enroll

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// bootstrapperRole lets the holder of a token file a CSR and see its own; it is
// part of the provider's manifests (config/rbac).
const bootstrapperRole = "slipway:host-bootstrapper"

// NewToken returns a random token in the form id.secret.
func NewToken() (string, error) { return bootstraputil.GenerateBootstrapToken() }

// EnsureToken makes the token good for hosts of a namespace, until ttl from now. It
// also makes the key by which the namespace's hosts can be handed over later.
func EnsureToken(ctx context.Context, c client.Client, token, namespace string, ttl time.Duration) error {
	if !bootstraputil.IsValidBootstrapToken(token) {
		return fmt.Errorf("bootstrap token is malformed; remove the file bootstrap-token from the state directory to make a new one")
	}
	match := bootstraputil.BootstrapTokenRegexp.FindStringSubmatch(token)
	id, secret := match[1], match[2]
	group := infrav1.BootstrapGroupPrefix + namespace
	objects := []client.Object{
		&corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(id)},
			Type:       corev1.SecretTypeBootstrapToken,
			StringData: map[string]string{
				bootstrapapi.BootstrapTokenDescriptionKey:      "enrolls hosts into namespace " + namespace,
				bootstrapapi.BootstrapTokenIDKey:               id,
				bootstrapapi.BootstrapTokenSecretKey:           secret,
				bootstrapapi.BootstrapTokenExpirationKey:       time.Now().Add(ttl).UTC().Format(time.RFC3339),
				bootstrapapi.BootstrapTokenUsageAuthentication: "true",
				bootstrapapi.BootstrapTokenExtraGroupsKey:      group,
			},
		},
		&rbacv1.ClusterRoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "ClusterRoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Name: bootstrapperRole + ":" + namespace},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: bootstrapperRole},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group}},
		},
	}
	for _, o := range objects {
		//nolint:staticcheck // these kinds have typed objects; the apply configuration types would say the same twice
		if err := c.Patch(ctx, o, client.Apply, client.FieldOwner("slipway"), client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetObjectKind().GroupVersionKind().Kind, o.GetName(), err)
		}
	}
	return ensureSigner(ctx, c, namespace)
}

// ensureSigner makes the key once: agents know a namespace by it. Of a namespace that is
// not there yet, the next token makes it.
func ensureSigner(ctx context.Context, c client.Client, namespace string) error {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := rand.Read(seed); err != nil {
		return err
	}
	err := c.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: infrav1.HandOverSignerSecretName},
		Data:       map[string][]byte{infrav1.HandOverSignerSeedKey: seed},
	})
	if client.IgnoreAlreadyExists(client.IgnoreNotFound(err)) != nil {
		return fmt.Errorf("create Secret %s/%s: %w", namespace, infrav1.HandOverSignerSecretName, err)
	}
	return nil
}
