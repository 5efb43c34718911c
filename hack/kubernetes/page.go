package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

// bundle is where `make bundle` puts the programs of each version.
const bundle = "bin/bundle/kubernetes"

// description is what `hyperkube describe` prints, and what etcd says of its flags.
type description struct {
	Flags               map[string]map[string]string
	FeatureGates        map[string]string
	KubeadmFeatureGates map[string]string
	KubeadmAPIs         []string
	KubeletFields       []string
}

// describe asks the programs of a version.
func describe(version string) (*description, error) {
	d := &description{}
	out, err := output(".", filepath.Join(bundle, version, "hyperkube"), "describe")
	if err != nil {
		return nil, fmt.Errorf("%w; `make bundle KUBERNETES=%s` builds it", err, version)
	}
	if err := json.Unmarshal(out, d); err != nil {
		return nil, err
	}
	// etcd prints its help where others print errors
	help, err := exec.Command(filepath.Join(bundle, version, "etcd"), "--help").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("etcd of %s: %w", version, err)
	}
	d.Flags["etcd"] = map[string]string{}
	for _, flag := range etcdFlag.FindAllSubmatch(help, -1) {
		d.Flags["etcd"][string(flag[1])] = ""
	}
	return d, nil
}

var etcdFlag = regexp.MustCompile(`(?m)^\s+--([a-z][a-z0-9-]+)`)

// gone is what one version has and the next has not, in order.
func gone[T any](from, to map[string]T) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(from)), func(name string) bool { _, is := to[name]; return is })
}

// set is a list as keys.
func set(names []string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		all[name] = ""
	}
	return all
}

// page writes what differs between two versions for those who use them.
func page(from, to string) (string, error) {
	before, err := describe(from)
	if err != nil {
		return "", err
	}
	after, err := describe(to)
	if err != nil {
		return "", err
	}
	uses, err := sources()
	if err != nil {
		return "", err
	}
	minor := func(version string) string { return strings.TrimPrefix(semver.MajorMinor(version), "v") }
	var page strings.Builder
	fmt.Fprintf(&page, "# Kubernetes %s: what differs from %s\n\nWritten by `make kubernetes VERSION=%s` from what the programs of %s and %s say of themselves.\n"+
		"Slipway's own templates, arguments and static pods are searched for what went. `slipway check upgrade CLUSTER --to %s` finds it in a cluster.\n", minor(to), minor(from), to, from, to, to)
	section := func(title, head string, rows []string) {
		fmt.Fprintf(&page, "\n## %s\n\n", title)
		if len(rows) == 0 {
			page.WriteString("None.\n")
			return
		}
		columns := strings.Count(head, "|") - 1
		fmt.Fprintf(&page, "%s\n|%s\n%s\n", head, strings.Repeat("---|", columns), strings.Join(rows, "\n"))
	}
	var flags, deprecated []string
	for _, program := range slices.Sorted(maps.Keys(before.Flags)) {
		for _, flag := range gone(before.Flags[program], after.Flags[program]) {
			flags = append(flags, fmt.Sprintf("| %s | `%s` | %s | %s |", program, flag, cell(before.Flags[program][flag]), uses.of(spellings(flag)...)))
		}
		for _, flag := range slices.Sorted(maps.Keys(after.Flags[program])) {
			if was, is := before.Flags[program][flag]; is && was == "" && after.Flags[program][flag] != "" {
				deprecated = append(deprecated, fmt.Sprintf("| %s | `%s` | %s | %s |", program, flag, cell(after.Flags[program][flag]), uses.of(spellings(flag)...)))
			}
		}
	}
	section("Flags that went", "| program | flag | it was deprecated | Slipway uses it |", flags)
	section("Flags that are deprecated now", "| program | flag | why | Slipway uses it |", deprecated)
	var gates []string
	for _, gate := range gone(before.FeatureGates, after.FeatureGates) {
		gates = append(gates, fmt.Sprintf("| `%s` | %s | %s |", gate, before.FeatureGates[gate], uses.of(gate)))
	}
	section("Feature gates that went", "| gate | stage that it had | Slipway uses it |", gates)
	var kubeadm []string
	for _, api := range gone(set(before.KubeadmAPIs), set(after.KubeadmAPIs)) {
		kubeadm = append(kubeadm, fmt.Sprintf("| API `kubeadm.k8s.io/%s` went: neither read nor migrated | %s |", api, uses.of("kubeadm.k8s.io/"+api)))
	}
	for _, api := range gone(set(after.KubeadmAPIs), set(before.KubeadmAPIs)) {
		kubeadm = append(kubeadm, fmt.Sprintf("| API `kubeadm.k8s.io/%s` is new | %s |", api, uses.of("kubeadm.k8s.io/"+api)))
	}
	for _, gate := range gone(before.KubeadmFeatureGates, after.KubeadmFeatureGates) {
		kubeadm = append(kubeadm, fmt.Sprintf("| feature gate `%s` of `ClusterConfiguration` went | %s |", gate, uses.of(gate)))
	}
	section("kubeadm", "| what | Slipway uses it |", kubeadm)
	var fields []string
	for _, field := range gone(set(before.KubeletFields), set(after.KubeletFields)) {
		fields = append(fields, fmt.Sprintf("| `%s` | %s |", field, uses.of(field)))
	}
	section("Fields of KubeletConfiguration that went", "| field | Slipway uses it |", fields)
	return page.String(), nil
}

// spellings are how files name a flag. A single word is also the name of other things.
func spellings(flag string) []string {
	if strings.Contains(flag, "-") {
		return []string{"--" + flag, `"` + flag + `"`, "name: " + flag}
	}
	return []string{"--" + flag}
}

// cell is the first sentence of a text in a table.
func cell(text string) string {
	first, _, _ := strings.Cut(strings.Join(strings.Fields(strings.ReplaceAll(text, "|", `\|`)), " "), ". ")
	return cmp.Or(strings.TrimSuffix(first, "."), "–")
}

// usage has the files of Slipway that reach clusters, by name.
type usage map[string]string

// sources reads what is in the product: no tests, and not this program.
func sources() (usage, error) {
	out, err := output(".", "git", "ls-files", "--", "templates", "config", "cmd", "internal", "plane", "nodebundle/build", "sdk")
	if err != nil {
		return nil, err
	}
	found := usage{}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "/testdata/") || strings.Contains(name, "/testenv/") {
			continue
		}
		if content, err := os.ReadFile(name); err == nil && !bytes.Contains(content, []byte{0}) {
			found[name] = string(content)
		}
	}
	return found, nil
}

// of lists the files that have one of the words.
func (u usage) of(words ...string) string {
	for i, word := range words {
		words[i] = regexp.QuoteMeta(word)
	}
	pattern := regexp.MustCompile(`(^|[^\w-])(` + strings.Join(words, "|") + `)($|[^\w-])`)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(u)) {
		if pattern.MatchString(u[name]) {
			names = append(names, "`"+name+"`")
		}
	}
	return cmp.Or(strings.Join(names, ", "), "no")
}
