package encryption

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/slipway-dev/slipway/plane/internal/component"
)

// migrationRetry is the pause after a try that failed; the plane serves meanwhile.
const migrationRetry = 10 * time.Second

// Migration is the component that encrypts Secrets which are stored as plain text, or
// with a key that is no longer the first of the file. The plane does not wait for it.
type Migration struct {
	component.Task
	key    *Key
	config *rest.Config
}

// NewMigration returns a Migration that acts with config, which may update any Secret.
// It starts when the API server is ready.
func NewMigration(key *Key, config *rest.Config) *Migration {
	return &Migration{key: key, config: config}
}

var _ component.Component = (*Migration)(nil)

// Name implements component.Component.
func (*Migration) Name() string { return "secret-migration" }

// Init implements component.Component.
func (*Migration) Init(context.Context) error { return nil }

// Start implements component.Component.
func (m *Migration) Start(context.Context) error {
	client, err := kubernetes.NewForConfig(m.config)
	if err != nil {
		return err
	}
	m.Go(func(ctx context.Context) error {
		log := klog.Background().WithName("encryption")
		_ = wait.PollUntilContextCancel(ctx, migrationRetry, true, func(ctx context.Context) (bool, error) {
			err := m.run(ctx, client)
			if err != nil && ctx.Err() == nil {
				log.Error(err, "Cannot encrypt all Secrets, trying again", "after", migrationRetry)
			}
			return err == nil, nil
		})
		<-ctx.Done()
		return nil
	})
	return nil
}

// Ready implements component.Component.
func (*Migration) Ready(context.Context) error { return nil }

// run encrypts what Key found, then makes etcd forget the plain text.
func (m *Migration) run(ctx context.Context, client kubernetes.Interface) error {
	if len(m.key.plain) == 0 {
		return nil
	}
	var errs []error
	for _, key := range m.key.plain {
		errs = append(errs, rewrite(ctx, client, key))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := m.key.store.Scrub(ctx); err != nil {
		return fmt.Errorf("remove the plain text from etcd: %w", err)
	}
	klog.Background().WithName("encryption").Info("Encrypted Secrets that were stored otherwise", "secrets", len(m.key.plain))
	return nil
}

// rewrite updates a Secret without a change, which makes the API server store it anew:
// upstream's way to encrypt what is there ("kubectl get secrets -o json | kubectl replace").
func rewrite(ctx context.Context, client kubernetes.Interface, key string) error {
	namespace, name, ok := strings.Cut(strings.TrimPrefix(key, secretsPrefix), "/")
	if !ok {
		return fmt.Errorf("%s is not the key of a Secret", key)
	}
	secrets := client.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	// Deleted, or just stored by somebody else.
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rewrite Secret %s/%s: %w", namespace, name, err)
	}
	return nil
}
