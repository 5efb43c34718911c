package enroll

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
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

// Token is a bootstrap token, and what it is good for.
type Token struct {
	// Value is its text, id.secret; see NewToken.
	Value string
	// Namespace the hosts enroll into.
	Namespace string
	// Hosts are the names it is bound to; any of the namespace when empty.
	Hosts []string
	// Uses is how many machines it enrolls, from 0 to infrav1.MaxTokenUses. Machines that
	// the namespace knows already take none.
	Uses int
	// Life is how long it is good for, from now on.
	Life time.Duration
	// Local says that it is the one of the plane's local hosts; see EndLocal.
	Local bool
}

// localLabel is on the Secrets of tokens for local hosts.
const localLabel = "slipway.dev/local-hosts"

// Ensure makes the token good. Done again it lives longer; what it has enrolled counts still.
// It also makes the key by which the namespace's hosts can be handed over later.
func Ensure(ctx context.Context, c client.Client, t Token) error {
	match := bootstraputil.BootstrapTokenRegexp.FindStringSubmatch(t.Value)
	if match == nil {
		return errors.New("bootstrap token is malformed: want six characters, a dot and sixteen characters of a-z and 0-9")
	}
	if t.Uses < 0 || t.Uses > infrav1.MaxTokenUses {
		return fmt.Errorf("a bootstrap token enrolls from 0 to %d machines, not %d; for more make several", infrav1.MaxTokenUses, t.Uses)
	}
	groups, err := groupsOf(t.Namespace, t.Hosts)
	if err != nil {
		return err
	}
	id, secret := match[1], match[2]
	o := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(id),
			Annotations: map[string]string{infrav1.TokenUsesAnnotation: strconv.Itoa(t.Uses)},
		},
		Type: corev1.SecretTypeBootstrapToken,
		StringData: map[string]string{
			bootstrapapi.BootstrapTokenDescriptionKey:      "enrolls hosts into namespace " + t.Namespace,
			bootstrapapi.BootstrapTokenIDKey:               id,
			bootstrapapi.BootstrapTokenSecretKey:           secret,
			bootstrapapi.BootstrapTokenExpirationKey:       time.Now().Add(t.Life).UTC().Format(time.RFC3339),
			bootstrapapi.BootstrapTokenUsageAuthentication: "true",
			bootstrapapi.BootstrapTokenExtraGroupsKey:      strings.Join(groups, ","),
		},
	}
	if t.Local {
		o.Labels = map[string]string{localLabel: ""}
	}
	//nolint:staticcheck // Secrets have a typed object; the apply configuration type would say the same twice
	if err := c.Patch(ctx, o, client.Apply, client.FieldOwner("slipway"), client.ForceOwnership); err != nil {
		return fmt.Errorf("apply Secret %s: %w", o.Name, err)
	}
	return EnsureSigner(ctx, c, t.Namespace)
}

// Delete ends a token. One that is gone is no error.
func Delete(ctx context.Context, c client.Client, value string) error {
	id, _, _ := strings.Cut(value, ".")
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: bootstraputil.BootstrapTokenSecretName(id)}}
	if err := client.IgnoreNotFound(c.Delete(ctx, o)); err != nil {
		return fmt.Errorf("delete Secret %s: %w", o.Name, err)
	}
	return nil
}

// DeleteBound deletes the tokens that are good for this host and no other.
func DeleteBound(ctx context.Context, c client.Client, namespace, name string) error {
	groups, err := groupsOf(namespace, []string{name})
	if err != nil {
		return err
	}
	tokens := &corev1.SecretList{}
	if err := c.List(ctx, tokens, client.InNamespace(metav1.NamespaceSystem)); err != nil {
		return fmt.Errorf("list bootstrap tokens: %w", err)
	}
	for i := range tokens.Items {
		t := &tokens.Items[i]
		if t.Type != corev1.SecretTypeBootstrapToken || string(t.Data[bootstrapapi.BootstrapTokenExtraGroupsKey]) != strings.Join(groups, ",") {
			continue
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, t)); err != nil {
			return fmt.Errorf("delete Secret %s: %w", t.Name, err)
		}
	}
	return nil
}

// EndLocal deletes the tokens of the plane's local hosts but one: those of commands that
// were interrupted. An empty value keeps none.
func EndLocal(ctx context.Context, c client.Client, but string) error {
	id, _, _ := strings.Cut(but, ".")
	tokens := &corev1.SecretList{}
	if err := c.List(ctx, tokens, client.InNamespace(metav1.NamespaceSystem), client.HasLabels{localLabel}); err != nil {
		return fmt.Errorf("list bootstrap tokens: %w", err)
	}
	for i := range tokens.Items {
		if tokens.Items[i].Name == bootstraputil.BootstrapTokenSecretName(id) {
			continue
		}
		if err := client.IgnoreNotFound(c.Delete(ctx, &tokens.Items[i])); err != nil {
			return fmt.Errorf("delete Secret %s: %w", tokens.Items[i].Name, err)
		}
	}
	return nil
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
