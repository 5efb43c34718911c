package testenv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-dev/slipway/config"
)

// CallLifecycleWebhooks has the API server call the webhooks of the lifecycle engine at
// address, host:port, as its manifests configure them, for one namespace and until the
// test ends.
func CallLifecycleWebhooks(t *testing.T, c client.Client, namespace, address string, ca []byte) {
	t.Helper()
	for _, file := range []string{"manifests.yaml", "cluster_webhook.yaml", "deletion_webhook.yaml"} {
		callWebhooks(t, c, namespace, address, ca, file)
	}
}

func callWebhooks(t *testing.T, c client.Client, namespace, address string, ca []byte, file string) {
	t.Helper()
	data, err := config.Lifecycle.ReadFile("lifecycle/webhook/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		configuration := aimed(t, document, namespace, address, ca)
		create(t, c, configuration)
		t.Cleanup(func() {
			if err := c.Delete(context.WithoutCancel(t.Context()), configuration); err != nil {
				t.Error(err)
			}
		})
	}
}

// aimed is the webhook configuration of a document, for one namespace and address.
func aimed(t *testing.T, document []byte, namespace, address string, ca []byte) client.Object {
	t.Helper()
	object, _, err := clientgoscheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
	aim := func(c *admissionv1.WebhookClientConfig) {
		c.URL, c.Service, c.CABundle = ptr.To("https://"+address+*c.Service.Path), nil, ca
	}
	switch configuration := object.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		configuration.Name = namespace + "-" + configuration.Name
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].NamespaceSelector = selector
			aim(&configuration.Webhooks[i].ClientConfig)
		}
		return configuration
	case *admissionv1.ValidatingWebhookConfiguration:
		configuration.Name = namespace + "-" + configuration.Name
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].NamespaceSelector = selector
			aim(&configuration.Webhooks[i].ClientConfig)
		}
		return configuration
	default:
		t.Fatalf("unexpected %T among the webhook configurations", object)
		return nil
	}
}
