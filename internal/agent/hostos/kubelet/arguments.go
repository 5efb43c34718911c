package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
	"github.com/slipway-dev/slipway/internal/durable"
)

// The files kubelet's unit reads KUBELET_EXTRA_ARGS from: deb packages use the
// first, rpm packages the second.
const (
	defaultFile   = "/etc/default/kubelet"
	sysconfigFile = "/etc/sysconfig/kubelet"
)

// Marks in those files, by which Remove restores the operator's own content.
const (
	madeMark     = "# made by slipway-agent"
	addedMark    = "# added by slipway-agent:"
	replacedMark = "# replaced by slipway-agent: "
)

// Arguments are added to KUBELET_EXTRA_ARGS. Empty ones are left out.
type Arguments struct {
	ProviderID string
	// NodeIP is an address, or one of each family with a comma between them.
	NodeIP string
	// NodeName of the Node, whatever the host is called.
	NodeName string
	// NodeLabels, as KEY=VALUE with commas between them, are added to those of the operator.
	NodeLabels string
	// Registered is true once the Node exists: the kubelet then never makes it anew.
	Registered bool
}

// nodeLabels is the one flag that is merged with the operator's.
const nodeLabels = "--node-labels"

func (a Arguments) flags() map[string]string {
	flags := map[string]string{}
	if a.ProviderID != "" {
		flags["--provider-id"] = a.ProviderID
	}
	if a.NodeIP != "" {
		flags["--node-ip"] = a.NodeIP
	}
	if a.NodeName != "" {
		flags["--hostname-override"] = a.NodeName
	}
	if a.NodeLabels != "" {
		flags[nodeLabels] = a.NodeLabels
	}
	if a.Registered {
		flags["--register-node"] = "false"
	}
	return flags
}

var extraArgs = regexp.MustCompile(`^\s*(?:export\s+)?KUBELET_EXTRA_ARGS=(.*)$`)

// Apply writes the arguments into the files. The operator's other arguments and
// lines stay. It may be repeated.
func Apply(root hostfs.Root, args Arguments) error {
	if err := os.MkdirAll(filepath.Dir(root.Path(defaultFile)), 0o755); err != nil {
		return err
	}
	for _, path := range files(root) {
		content, err := read(path)
		if err != nil {
			return err
		}
		if err := write(path, add(content, args)); err != nil {
			return err
		}
	}
	return nil
}

// SetRegistered changes that argument and leaves the others as Apply wrote them. Without
// arguments of Apply it does nothing.
func SetRegistered(root hostfs.Root, registered bool) error {
	for _, path := range files(root) {
		content, err := read(path)
		if err != nil {
			return err
		}
		args, found := applied(content)
		if !found {
			continue
		}
		args.Registered = registered
		if err := write(path, add(content, args)); err != nil {
			return err
		}
	}
	return nil
}

// Registered says whether Apply or SetRegistered wrote so last, in every file.
func Registered(root hostfs.Root) (bool, error) {
	for _, path := range files(root) {
		content, err := read(path)
		if err != nil {
			return false, err
		}
		if args, found := applied(content); !found || !args.Registered {
			return false, nil
		}
	}
	return true, nil
}

// Applied returns the arguments that Apply wrote last; found is false on a host without any.
func Applied(root hostfs.Root) (args Arguments, found bool, err error) {
	for _, path := range files(root) {
		content, err := read(path)
		if err != nil {
			return Arguments{}, false, err
		}
		if args, found := applied(content); found {
			return args, true, nil
		}
	}
	return Arguments{}, false, nil
}

// applied reads the arguments that add wrote; found is false when there are none.
func applied(content string) (args Arguments, found bool) {
	ours := false
	for line := range strings.Lines(content) {
		if ours {
			value := strings.Trim(strings.TrimSpace(strings.TrimPrefix(line, "KUBELET_EXTRA_ARGS=")), `"'`)
			for _, word := range strings.Fields(value) {
				switch name, value, _ := strings.Cut(word, "="); name {
				case "--provider-id":
					args.ProviderID = value
				case "--node-ip":
					args.NodeIP = value
				case "--hostname-override":
					args.NodeName = value
				case nodeLabels:
					args.NodeLabels = value
				case "--register-node":
					args.Registered = value == "false"
				}
			}
			return args, true
		}
		ours = strings.HasPrefix(line, addedMark) || strings.HasPrefix(line, replacedMark)
	}
	return Arguments{}, false
}

// Remove restores what the files held before Apply, and deletes those it made.
func Remove(root hostfs.Root) error {
	var errs []error
	for _, path := range files(root) {
		content, err := read(path)
		if err != nil || !strings.Contains(content, "by slipway-agent") {
			errs = append(errs, err)
			continue
		}
		restored, made := restore(content)
		if made && strings.TrimSpace(restored) == "" {
			if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
			continue
		}
		errs = append(errs, write(path, restored))
	}
	return errors.Join(errs...)
}

func files(root hostfs.Root) []string {
	paths := []string{root.Path(defaultFile)}
	if info, err := os.Stat(filepath.Dir(root.Path(sysconfigFile))); err == nil && info.IsDir() {
		paths = append(paths, root.Path(sysconfigFile))
	}
	return paths
}

// write keeps the mode of a file that is there.
func write(path, content string) error {
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	return durable.Write(path, []byte(content), mode)
}

// read returns the content of a file, or the mark of a new one.
func read(path string) (string, error) {
	data, err := hostfs.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return madeMark + "\n", nil
	}
	return string(data), err
}

// restore undoes add. It reports whether the file was made by the agent.
func restore(content string) (restored string, made bool) {
	var out []string
	skip := false
	for _, line := range strings.SplitAfter(content, "\n") {
		switch {
		case skip:
			skip = false
		case strings.HasPrefix(line, madeMark):
			made = true
		case strings.HasPrefix(line, addedMark):
			skip = true
		case strings.HasPrefix(line, replacedMark):
			out = append(out, strings.TrimPrefix(line, replacedMark))
			skip = true
		default:
			out = append(out, line)
		}
	}
	return strings.Join(out, ""), made
}

// add puts the arguments into the last assignment, since that one counts.
func add(content string, args Arguments) string {
	original, made := restore(content)
	lines := strings.SplitAfter(original, "\n")
	var b strings.Builder
	if made {
		fmt.Fprintln(&b, madeMark)
	}
	at := -1
	for i, line := range lines {
		if extraArgs.MatchString(strings.TrimRight(line, "\n")) {
			at = i
		}
	}
	for i, line := range lines {
		if i != at {
			b.WriteString(line)
			continue
		}
		old := strings.TrimRight(line, "\n")
		fmt.Fprintf(&b, "%s%s\n%s\n", replacedMark, old, assignment(extraArgs.FindStringSubmatch(old)[1], args))
	}
	if at < 0 {
		if original != "" && !strings.HasSuffix(original, "\n") {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s\n%s\n", addedMark, assignment("", args))
	}
	return b.String()
}

// assignment merges the arguments into the old value, of which a flag of the
// same name gives way, and a label with the same key.
func assignment(old string, args Arguments) string {
	old = strings.TrimSpace(old)
	quote := `"`
	if len(old) >= 2 && (old[0] == '"' || old[0] == '\'') && old[len(old)-1] == old[0] {
		quote, old = string(old[0]), old[1:len(old)-1]
	}
	flags := args.flags()
	var words []string
	labels := ""
	fields := strings.Fields(old)
	for i := 0; i < len(fields); i++ {
		name, value, hasValue := strings.Cut(fields[i], "=")
		if _, ours := flags[name]; !ours && name != nodeLabels {
			words = append(words, fields[i])
			continue
		}
		if !hasValue && i+1 < len(fields) {
			i++
			value = fields[i]
		}
		if name == nodeLabels {
			labels += "," + value
		}
	}
	if labels != "" {
		flags[nodeLabels] = mergeLabels(labels + "," + flags[nodeLabels])
	}
	for _, name := range []string{"--provider-id", "--node-ip", "--hostname-override", nodeLabels, "--register-node"} {
		if value, set := flags[name]; set {
			words = append(words, name+"="+value)
		}
	}
	return "KUBELET_EXTRA_ARGS=" + quote + strings.Join(words, " ") + quote
}

// mergeLabels leaves one label of each key, the last, as the kubelet does.
func mergeLabels(all string) string {
	merged := map[string]string{}
	for label := range strings.SplitSeq(all, ",") {
		if key, _, _ := strings.Cut(label, "="); key != "" {
			merged[key] = label
		}
	}
	return strings.Join(slices.Sorted(maps.Values(merged)), ",")
}

// APIServerPort is where an API server listens unless its cluster has another port.
const APIServerPort = 6443

// nodePorts are the other ports of a node and a control plane.
var nodePorts = []int{2379, 2380, 10250, 10257, 10259}

// portTables are the kernel's tables of TCP connections.
var portTables = []string{"/proc/net/tcp", "/proc/net/tcp6"}

// TakenPorts returns the ports of a node and a control plane on which a program listens,
// sorted. apiServer are the ports of API servers, read reads a file of the host. The kernel's
// tables tell: to listen itself would disturb others.
func TakenPorts(read func(path string) ([]byte, error), apiServer ...int) ([]int, error) {
	sockets, err := ListeningSockets(read)
	if err != nil {
		return nil, fmt.Errorf("list listening ports: %w", err)
	}
	var taken []int
	for _, fields := range sockets {
		_, hex, _ := strings.Cut(fields[1], ":")
		number, err := strconv.ParseUint(hex, 16, 16)
		if port := int(number); err == nil && (slices.Contains(nodePorts, port) || slices.Contains(apiServer, port)) {
			taken = append(taken, port)
		}
	}
	slices.Sort(taken)
	return slices.Compact(taken), nil
}

// ListeningSockets returns the lines of the kernel's tables of the TCP sockets on which a program
// listens, by their fields, four at least: the second one is ADDRESS:PORT, the tenth the inode.
// read reads a file of the host. A kernel without IPv6 has one table.
func ListeningSockets(read func(path string) ([]byte, error)) ([][]string, error) {
	const listening = "0A"
	var sockets [][]string
	for _, table := range portTables {
		data, err := read(table)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(data)) {
			if fields := strings.Fields(line); len(fields) >= 4 && fields[3] == listening {
				sockets = append(sockets, fields)
			}
		}
	}
	return sockets, nil
}
