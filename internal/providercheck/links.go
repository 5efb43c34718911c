package providercheck

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// injectFrom names the Certificate whose CA cert-manager puts into a webhook.
const injectFrom = "cert-manager.io/inject-ca-from"

// caInjectors are the annotations by which cert-manager puts a CA into a webhook, and the form
// of what they name.
var caInjectors = map[string]*regexp.Regexp{
	injectFrom:                              regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9.-]+$`),
	"cert-manager.io/inject-ca-from-secret": regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9.-]+$`),
	"cert-manager.io/inject-apiserver-ca":   regexp.MustCompile(`^true$`),
}

// hasCA says whether cert-manager puts a CA in. A placeholder of kustomize that nobody replaced, as
// $(CERTIFICATE_NAMESPACE)/$(CERTIFICATE_NAME), names none.
func hasCA(o *Object) bool {
	for name, form := range caInjectors {
		if value := text(o.Fields, "metadata", "annotations", name); form.MatchString(value) || chosen(value) {
			return true
		}
	}
	return false
}

// resourcesOf are the plural names of the kinds that have webhooks.
var resourcesOf = map[string]string{
	"ValidatingWebhookConfiguration": "validatingwebhookconfigurations", "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
	"CustomResourceDefinition": "customresourcedefinitions",
}

// injectsItself says whether a manager may write the CA of its own certificate into its webhooks.
func (r *Release) injectsItself(kind string) bool {
	group := "admissionregistration.k8s.io"
	if kind == "CustomResourceDefinition" {
		group = "apiextensions.k8s.io"
	}
	granted := r.granted(group, resourcesOf[kind], "")
	return covers(granted, "update") || covers(granted, "patch")
}

// eachWebhook calls f with the clientConfig of each webhook of the components, of admission and of
// conversion. The API server calls no conversion of a CRD with one version.
func eachWebhook(r *Release, f func(o *Object, config any, path []string)) {
	for _, o := range objects(r.Components) {
		switch o.Kind() {
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			for i, webhook := range list(o.Fields, "webhooks") {
				f(o, get(webhook, "clientConfig"), []string{"webhooks", fmt.Sprint(i), "clientConfig"})
			}
		case "CustomResourceDefinition":
			path := []string{"spec", "conversion", "webhook", "clientConfig"}
			config := get(o.Fields, path...)
			if config != nil && text(o.Fields, "spec", "conversion", "strategy") == "Webhook" && len(list(o.Fields, "spec", "versions")) > 1 {
				f(o, config, path)
			}
		}
	}
}

// need is one reference of the components to an object.
type need struct {
	from       *Object
	kind, name string
	path       []string
}

// missing calls f for each need that the components do not meet.
func (r *Release) missing(needs []need, f func(need)) {
	has := map[string]bool{}
	for _, o := range objects(r.Components) {
		has[o.Kind()+"/"+o.Name()] = true
		if o.Kind() == "Certificate" {
			// cert-manager makes it
			has["Secret/"+text(o.Fields, "spec", "secretName")] = true
		}
	}
	for _, n := range needs {
		if n.name != "" && !chosen(n.name) && !has[n.kind+"/"+n.name] && !builtIn(n.kind, n.name) {
			f(n)
		}
	}
}

// builtIn says whether every cluster has the object.
func builtIn(kind, name string) bool {
	switch kind {
	case "ServiceAccount":
		return name == "default"
	case "ClusterRole":
		return strings.HasPrefix(name, "system:") || slices.Contains([]string{"cluster-admin", "admin", "edit", "view"}, name)
	case "Role":
		return strings.HasPrefix(name, "system:") || name == "extension-apiserver-authentication-reader"
	case "PriorityClass":
		return strings.HasPrefix(name, "system-")
	case "ConfigMap":
		return name == "kube-root-ca.crt"
	default:
		return false
	}
}

// checkLinks follows the references that an installation cannot do without.
func checkLinks(r *Release, found report) {
	var needs []need
	for _, o := range objects(r.Components) {
		add := func(kind, name string, path ...string) { needs = append(needs, need{o, kind, name, path}) }
		switch o.Kind() {
		case "RoleBinding", "ClusterRoleBinding":
			add(text(o.Fields, "roleRef", "kind"), text(o.Fields, "roleRef", "name"), "roleRef", "name")
			for i, subject := range list(o.Fields, "subjects") {
				if text(subject, "kind") == "ServiceAccount" && r.targetNamespace(text(subject, "namespace")) {
					add("ServiceAccount", text(subject, "name"), "subjects", fmt.Sprint(i), "name")
				}
			}
		case "Deployment", "DaemonSet", "StatefulSet", "Job":
			podNeeds(o, add)
		case "Certificate":
			kind, group := text(o.Fields, "spec", "issuerRef", "kind"), text(o.Fields, "spec", "issuerRef", "group")
			if (kind == "" || kind == "Issuer") && (group == "" || group == "cert-manager.io") {
				add("Issuer", text(o.Fields, "spec", "issuerRef", "name"), "spec", "issuerRef", "name")
			}
		}
	}
	eachWebhook(r, func(o *Object, config any, path []string) {
		needs = append(needs, need{o, "Service", text(config, "service", "name"), path})
	})
	r.missing(needs, func(n need) {
		found(n.from.at(n.path...), fmt.Sprintf("%s %s is not in the components", n.kind, n.name))
	})
}

// podNeeds are the objects that a Pod cannot start without.
func podNeeds(o *Object, add func(kind, name string, path ...string)) {
	spec := []string{"spec", "template", "spec"}
	at := func(path ...string) []string { return append(slices.Clone(spec), path...) }
	pod := get(o.Fields, spec...)
	add("ServiceAccount", text(pod, "serviceAccountName"), at("serviceAccountName")...)
	add("PriorityClass", text(pod, "priorityClassName"), at("priorityClassName")...)
	source := func(from any, secret, configMap string, path []string) {
		for kind, name := range map[string]string{"Secret": secret, "ConfigMap": configMap} {
			if optional, _ := get(from, "optional").(bool); !optional {
				add(kind, name, path...)
			}
		}
	}
	for i, volume := range list(pod, "volumes") {
		path := at("volumes", fmt.Sprint(i))
		source(get(volume, "secret"), text(volume, "secret", "secretName"), "", path)
		source(get(volume, "configMap"), "", text(volume, "configMap", "name"), path)
		for _, part := range list(volume, "projected", "sources") {
			source(get(part, "secret"), text(part, "secret", "name"), "", path)
			source(get(part, "configMap"), "", text(part, "configMap", "name"), path)
		}
	}
	for _, field := range []string{"initContainers", "containers"} {
		for i, container := range list(pod, field) {
			for j, env := range list(container, "env") {
				path := at(field, fmt.Sprint(i), "env", fmt.Sprint(j))
				source(get(env, "valueFrom", "secretKeyRef"), text(env, "valueFrom", "secretKeyRef", "name"), "", path)
				source(get(env, "valueFrom", "configMapKeyRef"), "", text(env, "valueFrom", "configMapKeyRef", "name"), path)
			}
			for j, env := range list(container, "envFrom") {
				path := at(field, fmt.Sprint(i), "envFrom", fmt.Sprint(j))
				source(get(env, "secretRef"), text(env, "secretRef", "name"), "", path)
				source(get(env, "configMapRef"), "", text(env, "configMapRef", "name"), path)
			}
		}
	}
}

// checkExternalLinks finds what the components expect others to have installed.
func checkExternalLinks(r *Release, found report) {
	var needs []need
	for _, o := range slices.Concat(of(r.Components, "RoleBinding"), of(r.Components, "ClusterRoleBinding")) {
		for i, subject := range list(o.Fields, "subjects") {
			if text(subject, "kind") == "ServiceAccount" && !r.targetNamespace(text(subject, "namespace")) {
				needs = append(needs, need{o, "ServiceAccount", text(subject, "name"), []string{"subjects", fmt.Sprint(i), "name"}})
			}
		}
	}
	r.missing(needs, func(n need) {
		found(n.from.at(n.path...), fmt.Sprintf("%s %s is not in the components", n.kind, n.name))
	})
}

// targetNamespace says whether a namespace is that of the components; an empty one is.
func (r *Release) targetNamespace(name string) bool {
	namespaces := r.indexed().kinds["Namespace"]
	return name == "" || len(namespaces) == 0 || namespaces[0].Name() == name
}
