package providercheck

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/distribution/reference"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

var componentsRules = []Rule{
	{
		ID: "components-namespace", Level: Must, Contract: "clusterctl provider contract, 3.2",
		Title:  "The components hold at most one Namespace",
		Remedy: "keep one Namespace: clusterctl refuses more, and puts every object into that one",
		check: func(r *Release, found report) {
			for i, o := range of(r.Components, "Namespace") {
				if i > 0 {
					found(o.at(), "this is another Namespace")
				}
			}
		},
	},
	{
		ID: "components-namespace-missing", Level: Should, Contract: "clusterctl provider contract, 3.2",
		Title:  "The components hold a Namespace",
		Remedy: "add one Namespace; without it, every user has to give --target-namespace",
		check: func(r *Release, found report) {
			if len(r.Components) > 0 && len(of(r.Components, "Namespace")) == 0 {
				found(place{file: r.Components[0].Name}, "there is no Namespace")
			}
		},
	},
	{
		ID: "components-target-namespace", Level: Must, Contract: "clusterctl provider contract, 3.2",
		Title:  "No object belongs to another namespace than the target namespace",
		Remedy: "put the object into the components' own Namespace; clusterctl moves it there, and what refers to it elsewhere breaks",
		check: func(r *Release, found report) {
			eachNamespace(r, func(o *Object, namespaced bool, target string) {
				if ns := o.Namespace(); namespaced && ns != "" && ns != target {
					found(o.at("metadata", "namespace"), fmt.Sprintf("namespace is %q, not %q", ns, target))
				}
			})
		},
	},
	{
		ID: "components-namespace-field", Level: Should, Contract: "clusterctl provider contract, 3.2",
		Title:  "Objects have the target namespace if their kind has namespaces, and none if it has not",
		Remedy: "set the namespace, or remove it: clusterctl and the API server do so, other tools do not",
		check: func(r *Release, found report) {
			eachNamespace(r, func(o *Object, namespaced bool, target string) {
				switch ns := o.Namespace(); {
				case namespaced && ns == "":
					found(o.at("metadata"), fmt.Sprintf("there is no namespace %q", target))
				case !namespaced && ns != "":
					found(o.at("metadata", "namespace"), fmt.Sprintf("a %s has no namespace, and this one has %q", o.Kind(), ns))
				}
			})
		},
	},
	{
		ID: "components-types", Level: Must, Contract: "clusterctl provider contract, 3.2 and 7.1",
		Title:  "clusterctl can change the objects that it changes",
		Remedy: "correct the field, and name an image in full, as in docker.io/team/manager:v1.0.0: clusterctl reads both, and refuses all components when that fails",
		check:  checkTypes,
	},
	{
		ID: "components-label", Level: Should, Contract: "clusterctl provider contract, 3.5",
		Title:  "Every object has the provider's label",
		Remedy: "label all objects with " + clusterv1.ProviderNameLabel + "=<type>-<name>, in kustomization.yaml: labels",
		check: func(r *Release, found report) {
			first, count := map[string]*Object{}, map[string]int{}
			for _, o := range objects(r.Components) {
				if got := text(o.Fields, "metadata", "labels", clusterv1.ProviderNameLabel); got != r.Label {
					first[got] = cmp.Or(first[got], o)
					count[got]++
				}
			}
			for got, o := range first {
				found(o.at("metadata", "labels"), fmt.Sprintf("label %s is %q, not %q, of %d objects", clusterv1.ProviderNameLabel, got, r.Label, count[got]))
			}
		},
	},
	{
		ID: "components-links", Level: Must, Contract: "clusterctl provider contract, 7.3",
		Title:  "What the components need is in the components",
		Remedy: "add the object, or document who makes it: clusterctl installs only what the file holds",
		check:  checkLinks,
	},
	{
		ID: "components-links-external", Level: Should, Contract: "clusterctl provider contract, 7.3",
		Title:  "The components refer to nothing of others",
		Remedy: "document who makes the object: without it the components lack what it gives them",
		check:  checkExternalLinks,
	},
	{
		ID: "components-duplicate", Level: Should, Contract: "clusterctl provider contract, 3",
		Title:  "Every object is in the components once",
		Remedy: "remove one of the two: clusterctl applies both, and the last one counts",
		check: func(r *Release, found report) {
			seen := map[string]int{}
			for _, o := range objects(r.Components) {
				key := o.Group() + "/" + o.Kind() + "/" + o.Namespace() + "/" + o.Name()
				if first, again := seen[key]; again {
					found(o.at(), fmt.Sprintf("the object is in line %d, too", first))
					continue
				}
				seen[key] = o.Line
			}
		},
	},
	{
		ID: "webhook-service", Level: Should, Contract: "clusterctl provider contract, 3.2",
		Title:  "Webhooks are served from the target namespace",
		Remedy: "name the components' own Namespace in clientConfig.service: clusterctl does so, other tools do not",
		check: func(r *Release, found report) {
			for _, namespace := range of(r.Components, "Namespace") {
				eachWebhook(r, func(o *Object, config any, path []string) {
					if ns := text(config, "service", "namespace"); get(config, "service") != nil && ns != namespace.Name() {
						found(o.at(append(path, "service", "namespace")...), fmt.Sprintf("the Service is in namespace %q, not %q", ns, namespace.Name()))
					}
				})
			}
		},
	},
	{
		ID: "webhook-ca", Level: Must, Contract: "Kubernetes, webhooks",
		Title:  "Webhooks have a CA by which the API server knows them",
		Remedy: "let cert-manager put it in (annotation cert-manager.io/inject-ca-from), which clusterctl installs, or set caBundle",
		check: func(r *Release, found report) {
			eachWebhook(r, func(o *Object, config any, path []string) {
				if get(config, "service") != nil && text(config, "caBundle") == "" && !hasCA(o) && !r.injectsItself(o.Kind()) {
					found(o.at(path...), "nobody puts a CA in")
				}
			})
		},
	},
	{
		ID: "variable-format", Level: May, Contract: "clusterctl provider contract, 3.4",
		Title:  "Variables are written without spaces",
		Remedy: "write ${NAME}: clusterctl supports the spaces for now",
		check: func(r *Release, found report) {
			for _, f := range slices.Concat(r.Components, r.Templates, r.Classes) {
				line := 1
				for l := range bytes.SplitAfterSeq(f.Raw, []byte("\n")) {
					if match := spacedName.Find(l); match != nil {
						found(place{file: f.Name, line: line}, fmt.Sprintf("%s has spaces", match))
					}
					line++
				}
			}
		},
	},
	{
		ID: "variable-prefix", Level: Should, Contract: "clusterctl provider contract, 3.4",
		Title:  "Variables of the components begin with the provider's name",
		Remedy: "prefix the variable with the provider's name in capitals, as in AWS_CREDENTIALS: all providers share the user's environment",
		check: func(r *Release, found report) {
			checkVariablePrefix(r, r.Components, nil, found)
		},
	},
}

// checkVariablePrefix finds variables that do not begin with the provider's name and are
// not among the allowed ones.
func checkVariablePrefix(r *Release, files []*File, allowed []string, found report) {
	if r.Name == "" {
		return
	}
	prefixes := r.variablePrefixes()
	for _, f := range files {
		for name := range f.Variables {
			if !slices.Contains(allowed, name) && !slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
				found(place{file: f.Name, line: f.lineOf(name)}, fmt.Sprintf("variable %s does not begin with %s", name, strings.Join(prefixes, " or ")))
			}
		}
	}
}

// eachNamespace calls f for the objects of which it is known whether their kind has namespaces.
func eachNamespace(r *Release, f func(o *Object, namespaced bool, target string)) {
	namespaces := of(r.Components, "Namespace")
	if len(namespaces) == 0 {
		return
	}
	for _, o := range objects(r.Components) {
		if namespaced, known := r.namespaced(o); known {
			f(o, namespaced, namespaces[0].Name())
		}
	}
}

// typed are the kinds that clusterctl reads into their Go types to change images, namespaces and
// the references of webhooks. It goes by their name, whatever their group is, and knows one version of each.
func typed(o *Object) (apiVersion string, into any) {
	switch o.Kind() {
	case "Deployment":
		return "apps/v1", &appsv1.Deployment{}
	case "DaemonSet":
		return "apps/v1", &appsv1.DaemonSet{}
	case "RoleBinding":
		return "rbac.authorization.k8s.io/v1", &rbacv1.RoleBinding{}
	case "ClusterRoleBinding":
		return "rbac.authorization.k8s.io/v1", &rbacv1.ClusterRoleBinding{}
	case "ValidatingWebhookConfiguration":
		return "admissionregistration.k8s.io/v1", &admissionregistrationv1.ValidatingWebhookConfiguration{}
	case "MutatingWebhookConfiguration":
		return "admissionregistration.k8s.io/v1", &admissionregistrationv1.MutatingWebhookConfiguration{}
	case "CustomResourceDefinition":
		return "apiextensions.k8s.io/v1", &apiextensionsv1.CustomResourceDefinition{}
	}
	return "", nil
}

// certified are those of them in which cert-manager puts a CA.
var certified = []string{"ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "CustomResourceDefinition"}

func checkTypes(r *Release, found report) {
	for _, o := range objects(r.Components) {
		apiVersion, into := typed(o)
		if into == nil {
			continue
		}
		if got := text(o.Fields, "apiVersion"); got != apiVersion {
			if !o.unserved() { // another rule tells of that
				found(o.at("apiVersion"), fmt.Sprintf("clusterctl takes each %s for one of %s, and cannot read one of %s", o.Kind(), apiVersion, got))
			}
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Fields, into); err != nil {
			found(o.at(), err.Error())
		}
		eachImage(o, func(image string, path []string) {
			if _, err := reference.ParseNamed(image); err != nil && !chosen(image) {
				found(o.at(path...), fmt.Sprintf("clusterctl cannot read image %q: %v", image, err))
			}
		})
		from := text(o.Fields, "metadata", "annotations", injectFrom)
		if slices.Contains(certified, o.Kind()) && from != "" && strings.Count(from, "/") != 1 {
			found(o.at("metadata", "annotations", injectFrom), fmt.Sprintf("%s is %q, not NAMESPACE/CERTIFICATE", injectFrom, from))
		}
	}
}

// variablePrefixes of in-cluster are IN_CLUSTER_ and CLUSTER_: the name of the project may
// follow that of its organization (section 1.2).
func (r *Release) variablePrefixes() []string {
	whole := strings.ToUpper(strings.ReplaceAll(r.Name, "-", "_")) + "_"
	if _, project, ok := strings.Cut(whole, "_"); ok && project != "" {
		return []string{whole, project}
	}
	return []string{whole}
}
