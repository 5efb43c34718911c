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
		ID: "webhook-service", Level: Must, Contract: "clusterctl provider contract, 3.2",
		Title:  "Webhooks are served from the target namespace",
		Remedy: "name the components' own Namespace in clientConfig.service: clusterctl puts the Service there",
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
				annotations, _ := get(o.Fields, "metadata", "annotations").(map[string]any)
				if !slices.ContainsFunc(caInjectors, func(name string) bool { return text(annotations, name) != "" }) && text(config, "caBundle") == "" {
					found(o.at(path...), "nobody puts a CA in")
				}
			})
		},
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
				found(place{file: f.Name, line: lineOf(f.Raw, name)}, fmt.Sprintf("variable %s does not begin with %s", name, strings.Join(prefixes, " or ")))
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

// variablePrefixes of in-cluster are IN_CLUSTER_ and CLUSTER_: the name of the project may
// follow that of its organization (section 1.2).
func (r *Release) variablePrefixes() []string {
	whole := strings.ToUpper(strings.ReplaceAll(r.Name, "-", "_")) + "_"
	if _, project, ok := strings.Cut(whole, "_"); ok && project != "" {
		return []string{whole, project}
	}
	return []string{whole}
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
