package providercheck

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

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
		Title:  "Every namespaced object belongs to the target namespace",
		Remedy: "put the object into the components' own Namespace; clusterctl moves it there, and what refers to it elsewhere breaks",
		check:  checkTargetNamespace,
	},
	{
		ID: "components-label", Level: Should, Contract: "clusterctl provider contract, 3.5",
		Title:  "Every object has the provider's label",
		Remedy: "label all objects with " + clusterv1.ProviderNameLabel + "=<type>-<name>, in kustomization.yaml: labels",
		check: func(r *Release, found report) {
			for _, o := range objects(r.Components) {
				if got := text(o.Fields, "metadata", "labels", clusterv1.ProviderNameLabel); got != r.Label {
					found(o.at("metadata", "labels"), fmt.Sprintf("label %s is %q, not %q", clusterv1.ProviderNameLabel, got, r.Label))
				}
			}
		},
	},
	{
		ID: "components-links", Level: Must, Contract: "clusterctl provider contract, 7.3",
		Title:  "What the components refer to is in the components",
		Remedy: "add the object, or document who makes it: clusterctl installs only what the file holds",
		check:  checkLinks,
	},
	{
		ID: "variable-format", Level: Must, Contract: "clusterctl provider contract, 3.4",
		Title:  "Variables have a form that clusterctl reads",
		Remedy: "write ${NAME} or ${NAME:=default}, without another variable in the name and without spaces",
		check: func(r *Release, found report) {
			for _, f := range slices.Concat(r.Components, r.Templates) {
				checkVariableFormat(f, found)
			}
		},
	},
	{
		ID: "variable-prefix", Level: Should, Contract: "clusterctl provider contract, 3.4",
		Title:  "Variables of the components begin with the provider's name",
		Remedy: "prefix the variable with the provider's name in capitals, as in AWS_CREDENTIALS: all providers share the user's environment",
		check: func(r *Release, found report) {
			checkVariablePrefix(r.Components, variablePrefix(r.Name), nil, found)
		},
	},
}

// checkVariablePrefix finds variables that do not begin with prefix and are not among
// the allowed ones.
func checkVariablePrefix(files []*File, prefix string, allowed []string, found report) {
	for _, f := range files {
		for name := range f.Variables {
			if !slices.Contains(allowed, name) && !strings.HasPrefix(name, prefix) {
				found(place{file: f.Name, line: lineOf(f.Raw, name)}, fmt.Sprintf("variable %s does not begin with %s", name, prefix))
			}
		}
	}
}

func checkTargetNamespace(r *Release, found report) {
	namespaces := of(r.Components, "Namespace")
	if len(namespaces) == 0 {
		return
	}
	target := namespaces[0].Name()
	for _, o := range objects(r.Components) {
		ns := o.Namespace()
		switch namespaced := r.namespaced(o); {
		case namespaced && ns != target:
			found(o.at("metadata", "namespace"), fmt.Sprintf("namespace is %q, not %q", ns, target))
		case !namespaced && ns != "":
			found(o.at("metadata", "namespace"), fmt.Sprintf("a %s has no namespace, and this one has %q", o.Kind(), ns))
		}
	}
}

// checkLinks follows the references that an installation cannot do without.
func checkLinks(r *Release, found report) {
	has := map[string]bool{}
	for _, o := range objects(r.Components) {
		has[o.Kind()+"/"+o.Name()] = true
		if o.Kind() == "Certificate" {
			// cert-manager makes it
			has["Secret/"+text(o.Fields, "spec", "secretName")] = true
		}
	}
	need := func(o *Object, kind, name string, path ...string) {
		if name != "" && !has[kind+"/"+name] {
			found(o.at(path...), fmt.Sprintf("%s %s is not in the components", kind, name))
		}
	}
	for _, o := range objects(r.Components) {
		switch o.Kind() {
		case "RoleBinding", "ClusterRoleBinding":
			need(o, text(o.Fields, "roleRef", "kind"), text(o.Fields, "roleRef", "name"), "roleRef", "name")
			for i, subject := range list(o.Fields, "subjects") {
				if text(subject, "kind") == "ServiceAccount" {
					need(o, "ServiceAccount", text(subject, "name"), "subjects", fmt.Sprint(i), "name")
				}
			}
		case "Deployment":
			need(o, "ServiceAccount", text(o.Fields, "spec", "template", "spec", "serviceAccountName"), "spec", "template", "spec", "serviceAccountName")
			for i, volume := range list(o.Fields, "spec", "template", "spec", "volumes") {
				if optional, _ := get(volume, "secret", "optional").(bool); optional {
					continue
				}
				need(o, "Secret", text(volume, "secret", "secretName"), "spec", "template", "spec", "volumes", fmt.Sprint(i))
				need(o, "ConfigMap", text(volume, "configMap", "name"), "spec", "template", "spec", "volumes", fmt.Sprint(i))
			}
		case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
			for i, webhook := range list(o.Fields, "webhooks") {
				need(o, "Service", text(webhook, "clientConfig", "service", "name"), "webhooks", fmt.Sprint(i))
			}
		case "CustomResourceDefinition":
			service := []string{"spec", "conversion", "webhook", "clientConfig", "service", "name"}
			need(o, "Service", text(o.Fields, service...), service...)
		}
	}
}

var (
	// spaced is ${ VAR }, which clusterctl announced to drop.
	spaced = regexp.MustCompile(`\$\{\s+\w+\s*\}|\$\{\s*\w+\s+\}`)
	// nested is ${VAR$FOO}.
	nested = regexp.MustCompile(`\$\{\w+\$`)
)

func checkVariableFormat(f *File, found report) {
	for i, line := range bytes.Split(f.Raw, []byte("\n")) {
		for _, malformed := range []*regexp.Regexp{spaced, nested} {
			if match := malformed.Find(line); match != nil {
				found(place{file: f.Name, line: i + 1}, fmt.Sprintf("%s is not supported", match))
			}
		}
	}
}

// variablePrefix of in-cluster is IN_CLUSTER_.
func variablePrefix(name string) string {
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_"
}

// lineOf is the line in which a variable is used first.
func lineOf(raw []byte, variable string) int {
	use := regexp.MustCompile(`\$\{?\s*` + regexp.QuoteMeta(variable) + `\b`)
	at := use.FindIndex(raw)
	if at == nil {
		return 0
	}
	return bytes.Count(raw[:at[0]], []byte("\n")) + 1
}
