package manifests

import (
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is one object to install.
type Object struct {
	// Mount is the path below which the webhook server of the provider's
	// manager is found.
	Mount string
	// Resource, Namespace and Name say where the object goes.
	Resource        schema.GroupVersionResource
	Namespace, Name string
	// Raw is the object as JSON, before the webhook address is filled in.
	Raw []byte
}

// The kinds the plane installs. What else there is in a provider's components
// (Deployments, Services, cert-manager's certificates) is for a provider that
// runs in a Pod.
var resources = map[string]schema.GroupVersionResource{
	"Namespace":                        {Version: "v1", Resource: "namespaces"},
	"CustomResourceDefinition":         {Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
	"MutatingWebhookConfiguration":     {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "mutatingwebhookconfigurations"},
	"ValidatingWebhookConfiguration":   {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	"ValidatingAdmissionPolicy":        {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicies"},
	"ValidatingAdmissionPolicyBinding": {Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingadmissionpolicybindings"},
	"ClusterRole":                      {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
	"ClusterRoleBinding":               {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
	"Provider":                         {Group: "clusterctl.cluster.x-k8s.io", Version: "v1alpha3", Resource: "providers"},
}

// Installable tells whether the plane installs objects of the kind.
func Installable(kind string) bool {
	_, ok := resources[kind]
	return ok
}

func parseObject(mount string, raw []byte) (Object, error) {
	var meta struct {
		Kind     string
		Metadata struct{ Namespace, Name string }
	}
	if err := json.Unmarshal(raw, &meta); err != nil {
		return Object{}, fmt.Errorf("object of %s: %w", mount, err)
	}
	gvr, ok := resources[meta.Kind]
	if !ok {
		return Object{}, fmt.Errorf("object %q of %s: the plane does not install kind %q", meta.Metadata.Name, mount, meta.Kind)
	}
	return Object{Mount: mount, Resource: gvr, Namespace: meta.Metadata.Namespace, Name: meta.Metadata.Name, Raw: raw}, nil
}

func (o *Object) isCRD() bool { return o.Resource == resources["CustomResourceDefinition"] }

func (o *Object) String() string {
	if o.Namespace != "" {
		return o.Resource.Resource + " " + o.Namespace + "/" + o.Name
	}
	return o.Resource.Resource + " " + o.Name
}
