package cloudconfig

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// maxInput bounds the bootstrap data in bytes; a Secret holds at most 1 MiB.
const maxInput = 2 << 20

const (
	header         = "#cloud-config"
	templateHeader = "## template: jinja"
)

// Parse renders and reads bootstrap data. Every error is an *Error.
func Parse(data []byte, meta MetaData) (*Config, error) {
	if len(data) > maxInput {
		return nil, invalid("the bootstrap data has %d bytes; the limit is %d", len(data), maxInput)
	}
	text, err := prepare(data, meta)
	if err != nil {
		return nil, err
	}
	keys, err := topLevel(text)
	if err != nil {
		return nil, err
	}
	return decodeKeys(keys)
}

// prepare checks the header and renders the template, if it is one.
func prepare(data []byte, meta MetaData) (string, error) {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	first, rest, _ := strings.Cut(text, "\n")
	if isTemplate(first) {
		rendered, err := render(rest, meta)
		if err != nil {
			return "", err
		}
		text = rendered
		first, _, _ = strings.Cut(text, "\n")
	}
	if strings.TrimSpace(first) != header {
		return "", formatError(text)
	}
	return text, nil
}

func isTemplate(line string) bool {
	return strings.EqualFold(strings.Join(strings.Fields(line), " "), templateHeader)
}

func formatError(text string) error {
	found := "it does not start with " + header
	switch trimmed := strings.TrimSpace(text); {
	case trimmed == "":
		found = "it is empty"
	case strings.HasPrefix(trimmed, "{") && strings.Contains(trimmed, `"ignition"`):
		found = "it is Ignition"
	case strings.HasPrefix(trimmed, "#!"):
		found = "it is a script"
	case strings.HasPrefix(trimmed, "Content-Type:"), strings.HasPrefix(trimmed, "MIME-Version:"):
		found = "it is a MIME multi-part archive"
	case strings.HasPrefix(trimmed, "\x1f\x8b"):
		found = "it is compressed"
	}
	return &Error{Reason: ReasonUnsupportedFormat, Message: fmt.Sprintf(
		"the bootstrap data must be cloud-config, but %s; set spec.format of the KubeadmConfig to cloud-config", found)}
}

func topLevel(text string) (map[string]json.RawMessage, error) {
	document, next := yamlv3.Node{}, yamlv3.Node{}
	decoder := yamlv3.NewDecoder(strings.NewReader(text))
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, invalid("the cloud-config is not valid YAML: %s", yamlPlace(err))
	}
	switch err := decoder.Decode(&next); {
	case errors.Is(err, io.EOF):
	case err == nil:
		return nil, invalid("the cloud-config, line %d: a second document begins, and cloud-init reads none then; remove ---", next.Line)
	default:
		return nil, invalid("the cloud-config is not valid YAML: %s", yamlPlace(err))
	}
	if err := repeated(&document); err != nil {
		return nil, err
	}
	text, err := quoteText(text, &document)
	if err != nil {
		return nil, err
	}
	body, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, invalid("the cloud-config is not valid YAML: %s", yamlPlace(err))
	}
	keys := map[string]json.RawMessage{}
	if bytes.Equal(bytes.TrimSpace(body), []byte("null")) {
		return keys, nil
	}
	if err := json.Unmarshal(body, &keys); err != nil {
		return nil, invalid("the cloud-config must be a mapping of keys to values")
	}
	return keys, nil
}

// yamlPlace keeps the line and the kind of a YAML error and drops any quote.
func yamlPlace(err error) string {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if i := strings.IndexAny(text, "`\"'"); i >= 0 {
		text = strings.TrimSpace(text[:i])
	}
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// decoders of the supported keys; each fills its part of the Config.
var decoders = map[string]func(json.RawMessage, *Config) error{
	"bootcmd":           func(m json.RawMessage, c *Config) (err error) { c.BootCommands, err = commands("bootcmd", m); return },
	"runcmd":            func(m json.RawMessage, c *Config) (err error) { c.RunCommands, err = commands("runcmd", m); return },
	"write_files":       func(m json.RawMessage, c *Config) (err error) { c.WriteFiles, err = writeFiles(m); return },
	"users":             func(m json.RawMessage, c *Config) (err error) { c.Users, err = users(m); return },
	"ntp":               func(m json.RawMessage, c *Config) (err error) { c.NTP, err = ntp(m); return },
	"hostname":          func(m json.RawMessage, c *Config) error { return scalar("hostname", m, &c.Hostname.Name) },
	"fqdn":              func(m json.RawMessage, c *Config) error { return scalar("fqdn", m, &c.Hostname.FQDN) },
	"preserve_hostname": func(m json.RawMessage, c *Config) error { return scalar("preserve_hostname", m, &c.Hostname.Preserve) },
}

// remedies of keys that the kubeadm bootstrap provider can emit or that are
// often written by hand.
var remedies = map[string]string{
	"disk_setup":          "partition the disks of the host beforehand and remove diskSetup from the KubeadmConfig",
	"fs_setup":            "make the file systems of the host beforehand and remove diskSetup from the KubeadmConfig",
	"mounts":              "put the mounts into /etc/fstab of the host and remove mounts from the KubeadmConfig",
	"packages":            "install the packages on the host, or do it in preKubeadmCommands",
	"package_update":      "update the host beforehand, or do it in preKubeadmCommands",
	"package_upgrade":     "upgrade the host beforehand, or do it in preKubeadmCommands",
	"chpasswd":            "set passwd in users",
	"ssh_authorized_keys": "set ssh_authorized_keys in users",
	"manage_etc_hosts":    "write /etc/hosts with write_files",
	"timezone":            "set the time zone on the host, or do it in preKubeadmCommands",
	"swap":                "configure swap on the host",
	"power_state":         "remove it: a reboot would interrupt the bootstrap",
}

func decodeKeys(keys map[string]json.RawMessage) (*Config, error) {
	var refused []string
	for key := range keys {
		if decoders[key] == nil {
			refused = append(refused, key)
		}
	}
	if len(refused) > 0 {
		return nil, refusal(refused)
	}
	config := &Config{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if err := decoders[key](keys[key], config); err != nil {
			return nil, err
		}
	}
	return config, nil
}

func refusal(keys []string) error {
	sort.Strings(keys)
	parts := make([]string, 0, len(keys))
	for _, key := range keys {
		remedy, known := remedies[key]
		if !known {
			remedy = "remove it from the bootstrap data"
		}
		parts = append(parts, fmt.Sprintf("%.64q (%s)", key, remedy))
		if len(parts) == 5 {
			break
		}
	}
	return unsupported("the cloud-config uses keys this agent does not support: %s", strings.Join(parts, ", "))
}

// scalar decodes a string or a boolean; null leaves the zero value.
func scalar[T string | bool](key string, m json.RawMessage, into *T) error {
	if err := json.Unmarshal(m, into); err != nil {
		return invalid("%s in the cloud-config must be a %T", key, *into)
	}
	return nil
}

// strict decodes into a struct and refuses fields it does not have, also those
// that differ only in case.
func strict(place string, m json.RawMessage, into any) error {
	unknown, err := kjson.UnmarshalStrict(m, into, kjson.DisallowUnknownFields)
	if len(unknown) > 0 {
		return unsupported("%s in the cloud-config has an %.80s, which this agent does not support; remove it", place, strings.ReplaceAll(unknown[0].Error(), "\n", " "))
	}
	if err == nil {
		return nil
	}
	// The standard decoder tells the field; its text and that of the strict one
	// can quote a value.
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(json.Unmarshal(m, into), &wrong) {
		return invalid("%s in the cloud-config: field %q must be a %s", place, wrong.Field, wrong.Type)
	}
	return invalid("%s in the cloud-config cannot be read", place)
}

// Reasons of an Error, for conditions.
const (
	// ReasonUnsupportedFormat means that the data is not cloud-config at all.
	ReasonUnsupportedFormat = "UnsupportedBootstrapFormat"
	// ReasonUnsupportedCloudConfig means that it asks for something this agent does not do.
	ReasonUnsupportedCloudConfig = "UnsupportedCloudConfig"
	// ReasonInvalidCloudConfig means that it cannot be read.
	ReasonInvalidCloudConfig = "InvalidCloudConfig"
	// ReasonInvalidTemplate means that the jinja template cannot be rendered.
	ReasonInvalidTemplate = "InvalidTemplate"
)

// Error says why bootstrap data is refused. Trying again with the same data
// does not help.
type Error struct {
	// Reason is one of the constants of this package.
	Reason string
	// Message names the place in the data and the remedy, never its content.
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

func invalid(format string, args ...any) error {
	return &Error{Reason: ReasonInvalidCloudConfig, Message: fmt.Sprintf(format, args...)}
}

func unsupported(format string, args ...any) error {
	return &Error{Reason: ReasonUnsupportedCloudConfig, Message: fmt.Sprintf(format, args...)}
}
