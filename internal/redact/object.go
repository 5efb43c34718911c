package redact

import (
	"net/url"
	"slices"
	"strings"
)

// hidden are fields, in lower case and without hyphens, of which everything is replaced: they carry
// credentials, or text of users in which these may be.
var hidden = map[string]bool{
	// what anybody puts anything into
	"data": true, "stringdata": true, "binarydata": true, "value": true, "values.yaml": true, "content": true, "body": true, "headers": true, "inline": true,
	"userdata": true, "script": true, "patch": true, "additionalconfig": true, "valuestemplate": true, "settings": true,
	// of the schema of a variable
	"default": true, "example": true,
	// commands
	"command": true, "args": true, "prekubeadmcommands": true, "postkubeadmcommands": true, "bootcommands": true, "runcmd": true,
	// credentials
	"passwd": true, "password": true, "token": true, "secret": true, "sshauthorizedkeys": true, "certificatekey": true, "kubeconfig": true, "privatekey": true,
	"apikey": true, "credentials": true, "seed": true,
}

// hiddenTexts are fields of the same kind where they are text; elsewhere the name is that of a
// template of an object, or of what a selector takes.
var hiddenTexts = map[string]bool{"values": true, "template": true}

// credentialEndings are what a field of a credential can end with, in lower case. The name of
// a Secret does not: it is a secretName.
var credentialEndings = []string{"password", "passwd", "passphrase", "token", "secret", "privatekey", "apikey"}

// annotationDomains are those of annotations whose values are shown.
var annotationDomains = []string{"cluster.x-k8s.io", "slipway.dev", "deployment.kubernetes.io", "machinedeployment.clusters.x-k8s.io"}

// hiddenAnnotations are those of these domains that have a whole object in them.
var hiddenAnnotations = map[string]bool{"cluster.x-k8s.io/conversion-data": true, "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration": true}

// Object takes out of an object what may be secret, in place. Of a Secret nothing is left
// but metadata, type and the names of its keys. Text in it passes Text, too: once it is
// encoded, a secret may be broken by escapes and ends of lines.
func (r *Redactor) Object(o map[string]any) map[string]any {
	if o["kind"] == "Secret" && o["apiVersion"] == "v1" {
		o = secret(o)
	}
	if metadata, ok := o["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		annotations(metadata)
		o["metadata"] = r.texts(metadata)
	}
	for key, value := range o {
		if key != "metadata" && key != "keys" {
			o[key] = r.field(key, value)
		}
	}
	return o
}

// texts is a value whose texts have passed Text.
func (r *Redactor) texts(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = r.texts(v[key])
		}
	case []any:
		for i := range v {
			v[i] = r.texts(v[i])
		}
	case string:
		return r.Text(v)
	}
	return value
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
		if !shown || hiddenAnnotations[name] {
			all[name] = Mark
		}
	}
}

// field is the value of a field without what may be secret.
func (r *Redactor) field(name string, value any) any {
	called := strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
	if hidden[called] {
		return hide(value)
	}
	switch v := value.(type) {
	case map[string]any:
		if template, ok := v["metadata"].(map[string]any); ok {
			annotations(template)
		}
		for key, inner := range v {
			v[key] = r.field(key, inner)
		}
		return v
	case []any:
		for i := range v {
			if text, ok := v[i].(string); ok {
				v[i] = r.text(called, text)
				continue
			}
			v[i] = r.field(name, v[i])
		}
		return v
	case string:
		if hiddenTexts[called] {
			return Mark
		}
		return r.text(called, v)
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

// text of a field: of the URL of a webhook its host alone, of credentials and of a kubeconfig
// nothing.
func (r *Redactor) text(called, s string) string {
	if s == "" {
		return s
	}
	if slices.ContainsFunc(credentialEndings, func(end string) bool { return strings.HasSuffix(called, end) }) {
		return Mark
	}
	if strings.Contains(s, "current-context") || strings.Contains(s, "client-key-data") {
		return Mark
	}
	if parsed, err := url.Parse(s); err == nil && (parsed.Scheme == "http" || parsed.Scheme == "https") && (strings.Trim(parsed.Path, "/") != "" || parsed.RawQuery != "" || parsed.User != nil || parsed.Fragment != "") {
		return parsed.Scheme + "://" + parsed.Host + "/" + Mark
	}
	return r.Text(s)
}
