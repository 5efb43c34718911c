package redact

import (
	"net/url"
	"strings"
)

// hidden are fields, in lower case, of which everything is replaced: they carry
// credentials, or text of users in which these may be.
var hidden = map[string]bool{
	// what anybody puts anything into
	"data": true, "stringdata": true, "binarydata": true, "value": true, "values.yaml": true, "content": true, "body": true, "headers": true, "inline": true,
	"userdata": true, "script": true, "patch": true,
	// commands
	"command": true, "args": true, "prekubeadmcommands": true, "postkubeadmcommands": true, "bootcommands": true, "runcmd": true,
	// credentials
	"passwd": true, "password": true, "token": true, "secret": true, "sshauthorizedkeys": true, "certificatekey": true, "kubeconfig": true, "privatekey": true,
	"apikey": true, "credentials": true, "seed": true,
}

// annotationDomains are those of annotations whose values are shown.
var annotationDomains = []string{"cluster.x-k8s.io", "slipway.dev", "deployment.kubernetes.io", "machinedeployment.clusters.x-k8s.io"}

// Object takes out of an object what may be secret, in place. Of a Secret nothing is left
// but metadata, type and the names of its keys.
func (r *Redactor) Object(o map[string]any) map[string]any {
	if o["kind"] == "Secret" && o["apiVersion"] == "v1" {
		o = secret(o)
	}
	if metadata, ok := o["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		annotations(metadata)
	}
	for key, value := range o {
		if key != "metadata" && key != "keys" {
			o[key] = field(key, value)
		}
	}
	return o
}

// secret is what may be told of a Secret.
func secret(o map[string]any) map[string]any {
	keys := map[string]any{}
	for _, field := range []string{"data", "stringData"} {
		if data, ok := o[field].(map[string]any); ok {
			for key := range data {
				keys[key] = Mark
			}
		}
	}
	return map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": o["metadata"], "type": o["type"], "keys": keys}
}

func annotations(metadata map[string]any) {
	all, _ := metadata["annotations"].(map[string]any)
	for name := range all {
		domain, _, _ := strings.Cut(name, "/")
		shown := false
		for _, known := range annotationDomains {
			shown = shown || domain == known || strings.HasSuffix(domain, "."+known)
		}
		if !shown {
			all[name] = Mark
		}
	}
}

// field is the value of a field without what may be secret.
func field(name string, value any) any {
	if hidden[strings.ToLower(name)] {
		return hide(value)
	}
	switch v := value.(type) {
	case map[string]any:
		if template, ok := v["metadata"].(map[string]any); ok {
			annotations(template)
		}
		for key, inner := range v {
			v[key] = field(key, inner)
		}
		return v
	case []any:
		for i := range v {
			v[i] = field(name, v[i])
		}
		return v
	case string:
		return text(v)
	}
	return value
}

// hide replaces all that is in a value, and leaves how it is built.
func hide(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = hide(v[key])
		}
		return v
	case []any:
		for i := range v {
			v[i] = hide(v[i])
		}
		return v
	case nil, bool:
		return v
	}
	return Mark
}

// text of a field: of the URL of a webhook its host alone, of a kubeconfig nothing.
func text(s string) string {
	if strings.Contains(s, "current-context") || strings.Contains(s, "client-key-data") {
		return Mark
	}
	if parsed, err := url.Parse(s); err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && (strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.User != nil || parsed.Fragment != "") {
		return parsed.Scheme + "://" + parsed.Host + "/" + Mark
	}
	return s
}
