package manifests

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// webhooks says how the API server reaches the plane's webhook server.
type webhooks struct {
	// base is a URL without a path; a manager's webhooks are below /<mount>.
	base string
	// own are the URLs of webhook servers that a mount has to itself.
	own map[string]string
	ca  []byte
}

// url is where the webhooks of a mount are found.
func (w webhooks) url(mount string) string {
	if own, ok := w.own[mount]; ok {
		return own
	}
	return w.base + "/" + mount
}

// fill replaces references to a webhook Service, which the plane has none of,
// by the server's URL and CA.
func (w webhooks) fill(mount string, u *unstructured.Unstructured) error {
	switch u.GetKind() {
	case "CustomResourceDefinition":
		hook, found, err := unstructured.NestedMap(u.Object, "spec", "conversion", "webhook")
		if err != nil || !found {
			return err
		}
		if err := w.fillOne(mount, hook); err != nil {
			return err
		}
		return unstructured.SetNestedMap(u.Object, hook, "spec", "conversion", "webhook")
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		hooks, _, err := unstructured.NestedSlice(u.Object, "webhooks")
		if err != nil {
			return err
		}
		for _, h := range hooks {
			hook, ok := h.(map[string]any)
			if !ok {
				return fmt.Errorf("webhook is a %T", h)
			}
			if err := w.fillOne(mount, hook); err != nil {
				return err
			}
		}
		return unstructured.SetNestedSlice(u.Object, hooks, "webhooks")
	}
	return nil
}

func (w webhooks) fillOne(mount string, hook map[string]any) error {
	path, found, err := unstructured.NestedString(hook, "clientConfig", "service", "path")
	if err != nil || !found {
		return fmt.Errorf("webhook without clientConfig.service.path: %w", err)
	}
	hook["clientConfig"] = map[string]any{
		"url":      w.url(mount) + path,
		"caBundle": base64.StdEncoding.EncodeToString(w.ca),
	}
	return nil
}

// hash is a digest of o as it is applied: of its content and of what fill adds.
func (w webhooks) hash(o *Object) string {
	h := sha256.New()
	for _, part := range [][]byte{o.Raw, []byte(w.url(o.Mount)), w.ca} {
		fmt.Fprintf(h, "%d:", len(part))
		h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
