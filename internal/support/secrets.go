package support

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// secrets learns what is in the Secrets that the user may read, so that it is found in all
// else, and tells of each its metadata, its type and the names of its keys.
func (c *collector) secrets(ctx context.Context) error {
	if c.clients == nil {
		return nil
	}
	documents := map[string]*strings.Builder{}
	options := metav1.ListOptions{Limit: page}
	for {
		list, err := c.clients.core.Secrets(c.Namespace).List(ctx, options)
		if err != nil {
			c.lacks("secrets", fmt.Errorf("%w; what looks like a secret is taken out all the same", err))
			break
		}
		for i := range list.Items {
			for key, value := range list.Items[i].Data {
				c.archive.redact.Learn(key, value)
			}
		}
		for i := range list.Items {
			if err := c.secret(&list.Items[i], documents); err != nil {
				return err
			}
		}
		if options.Continue = list.Continue; options.Continue == "" {
			break
		}
	}
	for _, namespace := range slices.Sorted(maps.Keys(documents)) {
		if err := c.put(folder(namespace)+"secrets.yaml", documents[namespace].String()); err != nil {
			return err
		}
	}
	return nil
}

func (c *collector) secret(s *corev1.Secret, documents map[string]*strings.Builder) error {
	s.APIVersion, s.Kind = "v1", "Secret"
	o, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s)
	if err != nil {
		return fmt.Errorf("convert Secret %s: %w", s.Name, err)
	}
	data, err := yaml.Marshal(c.archive.redact.Object(o))
	if err != nil {
		return fmt.Errorf("encode Secret %s: %w", s.Name, err)
	}
	if documents[s.Namespace] == nil {
		documents[s.Namespace] = &strings.Builder{}
	}
	documents[s.Namespace].WriteString("---\n" + string(data))
	return nil
}
