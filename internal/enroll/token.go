package enroll

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraputil "k8s.io/cluster-bootstrap/token/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// NewToken returns a random token in the form id.secret.
func NewToken() (string, error) { return bootstraputil.GenerateBootstrapToken() }

// EnsureToken makes the token good for the named hosts of a namespace, for all when none
// is named, until ttl from now. It also makes the key by which the namespace's hosts can
// be handed over later.
func EnsureToken(ctx context.Context, c client.Client, token, namespace string, hosts []string, ttl time.Duration) error {
	if !bootstraputil.IsValidBootstrapToken(token) {
		return fmt.Errorf("bootstrap token is malformed; remove the file bootstrap-token from the state directory to make a new one")
	}
	groups, err := groupsOf(namespace, hosts)
	if err != nil {
		return err
	}
	match := bootstraputil.BootstrapTokenRegexp.FindStringSubmatch(token)
	id, secret := match[1], match[2]
	o := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(id)},
		Type:       corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenDescriptionKey:      "enrolls hosts into namespace " + namespace,
			bootstrapapi.BootstrapTokenIDKey:               id,
			bootstrapapi.BootstrapTokenSecretKey:           secret,
			bootstrapapi.BootstrapTokenExpirationKey:       time.Now().Add(ttl).UTC().Format(time.RFC3339),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      strings.Join(groups, ","),
		},
	}
	//nolint:staticcheck // Secrets have a typed object; the apply configuration type would say the same twice
	if err := c.Patch(ctx, o, client.Apply, client.FieldOwner("slipway"), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply Secret %s: %w", o.Name, err)
	}
	return EnsureSigner(ctx, c, namespace)
}

// groupsOf a token: what lets it ask (config/rbac), and for which hosts.
func groupsOf(namespace string, hosts []string) ([]string, error) {
	if len(hosts) == 0 {
		return []string{infrav1.BootstrapGroup, infrav1.BootstrapGroupPrefix + namespace}, nil
	}
	groups := []string{infrav1.BootstrapGroup}
	for _, name := range hosts {
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			return nil, fmt.Errorf("host name %q is not valid: %s", name, strings.Join(problems, "; "))
		}
		group := infrav1.HostBootstrapGroup(namespace, name)
		if err := bootstraputil.ValidateBootstrapGroupName(group); err != nil {
			return nil, fmt.Errorf("no token can be bound to host %s of namespace %s: the names are too long together", name, namespace)
		}
		groups = append(groups, group)
	}
	return groups, nil
}

// EnsureSigner makes the key once: agents know a namespace by it. Of a namespace that is
// not there yet, the next token makes it.
func EnsureSigner(ctx context.Context, c client.Client, namespace string) error {
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
