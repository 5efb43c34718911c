// Package startup finds out what a program of Kubernetes says of the flags and the configuration that it would be
// started with. No such program has a flag for that: each is given one value more, which it refuses when it
// validates, after it has parsed everything and before it does anything. It imports nothing of this repository
// but text.
package startup

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/internal/text"
)

const (
	// Watchdog has a kubelet end before it does anything. It validates its flags and its
	// configuration, then finds the watchdog of systemd set to less than a second and ends with
	// an error that has passed (pkg/kubelet/watchdog of Kubernetes 1.32 and later, which
	// cmd/kubelet calls first of all when it begins to run).
	Watchdog = "WATCHDOG_USEC=1"
	passed   = "configure watchdog timeout too small"
	// Timeout of one try.
	Timeout = time.Minute
	// Etcd is the program, and the static pod, that is none of Kubernetes.
	Etcd = "etcd"
)

// Refusal of a program that was tried.
type Refusal struct {
	// Why it would not start, as one printable line; empty when it would.
	Why string
	// Tried says that the program came as far as to tell.
	Tried bool
}

// Kubelet is what a kubelet says that ran with Watchdog in its environment.
func Kubelet(out string) Refusal {
	if strings.Contains(out, passed) {
		return Refusal{Tried: true}
	}
	return Refusal{Why: LastError(out), Tried: true}
}

// Flag is the last flag of the program of a static pod that is tried.
func Flag(program string) string {
	if program == Etcd {
		return "--heartbeat-interval=0"
	}
	return "--secure-port=-1"
}

// laterFiles are the flags of an API server whose files it reads once its flags are valid.
var laterFiles = []string{"--audit-policy-file=", "--authentication-config=", "--encryption-provider-config="}

// ReadsLater says whether a command line names a file that is not read before FilesFlags end the API server.
func ReadsLater(line []string) bool {
	return slices.ContainsFunc(line, func(arg string) bool {
		return slices.ContainsFunc(laterFiles, func(flag string) bool { return strings.HasPrefix(arg, flag) })
	})
}

// FilesFlags are the last flags of an API server that reads those files, too: the log of its audit is opened behind
// them, and is no file. It must have no network, as it has opened its port by then, at any address that it has.
func FilesFlags() []string { return []string{"--bind-address=0.0.0.0", "--audit-log-path=/"} }

// logRefused is what an API server says of them.
const logRefused = "ensureLogFile: open /: is a directory"

// portRefused is what the programs of Kubernetes say of their Flag, also among other errors.
var portRefused = regexp.MustCompile(`--secure-port -1 must be between \d and \d+, inclusive[^,\]]*`)

// StaticPod is what the program of a static pod says that ran with Flag or FilesFlags, also in a container that ctr runs.
func StaticPod(out string) Refusal {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if strings.HasPrefix(lines[len(lines)-1], "ctr: ") {
		return Refusal{Why: LastError(out)}
	}
	for _, line := range lines {
		switch {
		case strings.Contains(line, "heartbeat-interval must be"):
			return Refusal{Tried: true}
		case strings.HasPrefix(line, "flag provided but not defined: "), strings.HasPrefix(line, "invalid value "):
			// The usage follows.
			return Refusal{LastError(line), true}
		}
	}
	said := LastError(out)
	if said == logRefused {
		return Refusal{Tried: true}
	}
	if portRefused.MatchString(said) {
		return Refusal{strings.Trim(portRefused.ReplaceAllString(said, ""), "[], "), true}
	}
	return Refusal{said, true}
}

// errorText is how a component's last line has its error, as text.
var errorText = regexp.MustCompile(`\berr(?:or)?=("(?:[^"\\]|\\.)*")`)

// LastError finds in the last lines of a component's log why it ended, and returns that as one
// printable line.
func LastError(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	line := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "Error: ")
	for _, each := range slices.Backward(lines) {
		if strings.Contains(each, "command failed") || strings.HasPrefix(each, "panic: ") {
			line = strings.TrimSpace(each)
			break
		}
	}
	var entry struct {
		Err string `json:"err"`
	}
	if quoted := errorText.FindStringSubmatch(line); quoted != nil {
		if unquoted, err := strconv.Unquote(quoted[1]); err == nil {
			line = unquoted
		}
	} else if json.Unmarshal([]byte(line), &entry) == nil && entry.Err != "" {
		line = entry.Err
	}
	if line == "" {
		return "it did not say why"
	}
	return text.Printable(line)
}
