package providercheck

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

var wiringRules = []Rule{
	{
		ID: "webhook-wiring", Level: Must, Contract: "Kubernetes, webhooks and Services",
		Title:  "The Service of a webhook leads to a port of Pods, under a name of the certificate",
		Remedy: "make selector, ports and dnsNames agree: the API server connects to <service>.<namespace>.svc and calls the webhook nowhere else",
		check:  checkWiring,
	},
	{
		ID: "webhook-certificate", Level: Should, Contract: "Kubernetes, webhooks and Services",
		Title:  "The Pods behind a webhook mount the certificate whose CA it has",
		Remedy: "mount the Secret that the Certificate names, unless the manager reads it from the API",
		check: func(r *Release, found report) {
			eachWebhook(r, func(o *Object, config any, _ []string) {
				certificate := r.find("Certificate", certificateOf(o))
				if certificate == nil {
					return
				}
				secret := text(certificate.Fields, "spec", "secretName")
				pods := r.podsOf(r.find("Service", text(config, "service", "name")))
				if len(pods) > 0 && !chosen(secret) && !slices.ContainsFunc(pods, func(p *Object) bool { return mounts(p, secret) }) {
					found(pods[0].at("spec", "template", "spec", "volumes"), fmt.Sprintf("no Pod mounts the Secret %s of Certificate %s", secret, certificate.Name()))
				}
			})
		},
	},
	{
		ID: "manager-rights", Level: Must, Contract: "Kubernetes, RBAC; contracts, pausing",
		Title:  "The manager may follow and change its own kinds, read Clusters, and lead",
		Remedy: "add the verbs to a ClusterRole that is bound to the ServiceAccount of the Deployment; for leases a Role does",
		check:  checkRights,
	},
}

// certificateOf is the name of the Certificate whose CA an object gets, or "".
func certificateOf(o *Object) string {
	_, name, _ := strings.Cut(text(o.Fields, "metadata", "annotations", injectFrom), "/")
	return name
}

// workloads are the objects of the components that make Pods.
func (r *Release) workloads() []*Object {
	return slices.Concat(of(r.Components, "Deployment"), of(r.Components, "DaemonSet"), of(r.Components, "StatefulSet"))
}

// podsOf are the workloads that a Service selects.
func (r *Release) podsOf(service *Object) []*Object {
	if service == nil {
		return nil
	}
	selector, _ := get(service.Fields, "spec", "selector").(map[string]any)
	return slices.DeleteFunc(r.workloads(), func(o *Object) bool {
		for name, value := range selector {
			if get(o.Fields, "spec", "template", "metadata", "labels", name) != value {
				return true
			}
		}
		return len(selector) == 0
	})
}

// mounts says whether the Pods of a workload have a volume of a Secret.
func mounts(o *Object, secret string) bool {
	return slices.ContainsFunc(list(o.Fields, "spec", "template", "spec", "volumes"), func(v any) bool {
		return text(v, "secret", "secretName") == secret ||
			slices.ContainsFunc(list(v, "projected", "sources"), func(s any) bool { return text(s, "secret", "name") == secret })
	})
}

// httpsPort is where a webhook is called that names no port.
const httpsPort = 443.0

func checkWiring(r *Release, found report) {
	eachWebhook(r, func(o *Object, config any, path []string) {
		service := r.find("Service", text(config, "service", "name"))
		if service == nil {
			return // found by components-links
		}
		port := httpsPort
		if n, ok := get(config, "service", "port").(float64); ok {
			port = n
		}
		ports := list(service.Fields, "spec", "ports")
		i := slices.IndexFunc(ports, func(p any) bool { return get(p, "port") == port })
		pods := r.podsOf(service)
		switch name := ""; {
		case i < 0:
			found(o.at(append(path, "service")...), fmt.Sprintf("Service %s has no port %v", service.Name(), port))
		case len(pods) == 0 && get(service.Fields, "spec", "selector") != nil:
			found(service.at("spec", "selector"), "no Pods of the components have these labels")
		case len(pods) > 0:
			if name = text(ports[i], "targetPort"); name != "" && !chosen(name) && !slices.ContainsFunc(pods, func(p *Object) bool { return hasPort(p, name) }) {
				found(service.at("spec", "ports", fmt.Sprint(i)), fmt.Sprintf("no container of its Pods has a port called %q", name))
			}
		}
		r.checkNames(o, service, found)
	})
}

func hasPort(o *Object, name string) bool {
	return slices.ContainsFunc(list(o.Fields, "spec", "template", "spec", "containers"), func(c any) bool {
		return slices.ContainsFunc(list(c, "ports"), func(p any) bool { return text(p, "name") == name })
	})
}

// checkNames finds a certificate that is missing, or that the API server rejects for the Service.
func (r *Release) checkNames(o, service *Object, found report) {
	name := certificateOf(o)
	if !hasCA(o) || name == "" || chosen(name) {
		return
	}
	certificate := r.find("Certificate", name)
	if certificate == nil {
		found(o.at("metadata", "annotations", injectFrom), fmt.Sprintf("Certificate %s is not in the components", name))
		return
	}
	names := texts(certificate.Fields, "spec", "dnsNames")
	want := fmt.Sprintf("%s.%s.svc", service.Name(), cmp.Or(certificate.Namespace(), service.Namespace()))
	_, domain, _ := strings.Cut(want, ".")
	if !slices.ContainsFunc(names, func(n string) bool { return n == want || n == "*."+domain || chosen(n) }) {
		found(certificate.at("spec", "dnsNames"), fmt.Sprintf("the names lack %s", want))
	}
}

// rights are the rules of roles that the ServiceAccounts of the workloads have, in the whole cluster
// and in a namespace. They are not known when a binding gives a role of others.
func (r *Release) rights() (everywhere, somewhere []any, known bool) {
	accounts := map[string]bool{}
	for _, o := range r.workloads() {
		accounts[cmp.Or(text(o.Fields, "spec", "template", "spec", "serviceAccountName"), "default")] = true
	}
	for _, binding := range slices.Concat(of(r.Components, "ClusterRoleBinding"), of(r.Components, "RoleBinding")) {
		if !slices.ContainsFunc(list(binding.Fields, "subjects"), func(s any) bool {
			return text(s, "kind") == "ServiceAccount" && accounts[text(s, "name")] || text(s, "kind") == "Group"
		}) {
			continue
		}
		role := r.find(text(binding.Fields, "roleRef", "kind"), text(binding.Fields, "roleRef", "name"))
		if role == nil {
			return nil, nil, false
		}
		rules := list(role.Fields, "rules")
		for _, selector := range list(role.Fields, "aggregationRule", "clusterRoleSelectors") {
			rules = append(slices.Clone(rules), r.aggregated(selector)...)
		}
		if somewhere = append(somewhere, rules...); binding.Kind() == "ClusterRoleBinding" {
			everywhere = append(everywhere, rules...)
		}
	}
	return everywhere, somewhere, len(accounts) > 0
}

// aggregated are the rules of the ClusterRoles that a selector of labels matches.
func (r *Release) aggregated(selector any) (rules []any) {
	labels, _ := get(selector, "matchLabels").(map[string]any)
	for _, role := range of(r.Components, "ClusterRole") {
		matches := true
		for name, value := range labels {
			matches = matches && get(role.Fields, "metadata", "labels", name) == value
		}
		if matches {
			rules = append(rules, list(role.Fields, "rules")...)
		}
	}
	return rules
}

// verbsOn are the verbs that rules give on all objects of a resource.
func verbsOn(rules []any, group, resource string) (verbs []string) {
	_, sub, isSub := strings.Cut(resource, "/")
	for _, rule := range rules {
		resources := texts(rule, "resources")
		if len(list(rule, "resourceNames")) == 0 && covers(texts(rule, "apiGroups"), group) &&
			(covers(resources, resource) || isSub && slices.Contains(resources, "*/"+sub)) {
			verbs = append(verbs, texts(rule, "verbs")...)
		}
	}
	return verbs
}

func checkRights(r *Release, found report) {
	everywhere, somewhere, known := r.rights()
	if !known || len(shapesOf[r.Type]) == 0 {
		return
	}
	at := r.workloads()[0].at("spec", "template", "spec", "serviceAccountName")
	lacks := func(rules []any, group, resource string, all, some []string) {
		granted := verbsOn(rules, group, resource)
		missing := lacking(granted, all)
		if len(some) > 0 && len(lacking(granted, some)) == len(some) {
			missing = append(missing, strings.Join(some, " or "))
		}
		if len(missing) > 0 {
			found(at, fmt.Sprintf("the manager may not %s %s.%s", strings.Join(missing, ", "), resource, group))
		}
	}
	write := []string{"update", "patch"}
	eachContractCRD(r, func(o *Object, s shape) {
		group, plural := text(o.Fields, "spec", "group"), text(o.Fields, "spec", "names", "plural")
		if slices.Contains(withStatus, s) {
			lacks(everywhere, group, plural, []string{"get", "list", "watch"}, write)
			lacks(everywhere, group, plural+"/status", nil, write)
		}
	})
	lacks(everywhere, "cluster.x-k8s.io", "clusters", []string{"get"}, nil)
	leads := false
	eachContainer(r, func(_ *Object, c any, _ []string) {
		for _, arg := range slices.Concat(texts(c, "command"), texts(c, "args")) {
			name := strings.TrimLeft(arg, "-")
			leads = leads || name == "leader-elect" || name == "leader-elect=true" || name == "enable-leader-election"
		}
	})
	if leads {
		lacks(somewhere, "coordination.k8s.io", "leases", []string{"create", "get", "update"}, nil)
	}
}
