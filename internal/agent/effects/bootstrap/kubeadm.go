package bootstrap

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

// Bounds of what is told of a failed kubeadm: a condition stays readable, and is not cut.
const (
	maxKubeadmErrors = 6
	// maxKubeadmError is that of one, in bytes.
	maxKubeadmError = 240
	// maxKubeadmOutput is how much of the end of a command's output is looked at, in bytes.
	maxKubeadmOutput = 256 << 10
)

var (
	// kubeadmError is a line in which kubeadm says why it gave up: a failed check, as
	// preflight.Error prints it, or the phase that an error ended. What else a command
	// writes is told to nobody: it may be secret.
	kubeadmError = regexp.MustCompile(`^\s*(\[ERROR [A-Za-z0-9./_-]+\]: .+|(?:error: )?error execution phase \S+: .+)$`)
	// kubeadmFatal begins the list of failed checks, and says nothing itself.
	kubeadmFatal = regexp.MustCompile(`: (\[preflight\] Some fatal errors occurred:|preflight checks failed)$`)
	// kubeadmSecret is what a line could hold of the bootstrap data: a bootstrap token, a
	// certificate key, and the user of a URL.
	kubeadmSecret = regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b|\b[0-9a-fA-F]{64}\b|[^/\s"]+@`)
)

// kubeadmErrors are the lines in which kubeadm said why it failed since the log had that size.
func kubeadmErrors(root hostfs.Root, since int64) []string {
	log, err := openForReading(root)
	if err != nil {
		return nil
	}
	defer func() { _ = log.Close() }()
	info, err := log.Stat()
	if err != nil {
		return nil
	}
	since = max(since, info.Size()-maxKubeadmOutput)
	if _, err := log.Seek(since, io.SeekStart); err != nil {
		return nil
	}
	return findKubeadmErrors(log)
}

func findKubeadmErrors(output io.Reader) (found []string) {
	for reader := bufio.NewReader(output); ; {
		line, err := reader.ReadString('\n')
		match := kubeadmError.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if match != nil && !kubeadmFatal.MatchString(match[1]) && !slices.Contains(found, match[1]) {
			found = append(found, match[1])
		}
		if err != nil {
			return found
		}
	}
}

// quote is what a message has of those lines; empty for none.
func quote(lines []string) string {
	var quoted []string
	for _, line := range lines[:min(len(lines), maxKubeadmErrors)] {
		quoted = append(quoted, bounded(kubeadmSecret.ReplaceAllString(line, "***")))
	}
	if more := len(lines) - maxKubeadmErrors; more > 0 {
		quoted = append(quoted, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(quoted, "; ")
}

// bounded is a line of kubeadm's as a status may hold it.
func bounded(line string) string {
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line)
	return operation.Truncate(line, maxKubeadmError)
}

// logSize is where the output of the next command begins.
func logSize(root hostfs.Root) int64 {
	log, err := openForReading(root)
	if err != nil {
		return 0
	}
	defer func() { _ = log.Close() }()
	size, _ := log.Seek(0, io.SeekEnd)
	return size
}

// refusal is why a cluster does not accept a node now and may accept the same one later. Nothing is to be
// changed on the host or in the data, so such a try says nothing about another one.
type refusal struct {
	// line is what kubeadm join says.
	line *regexp.Regexp
	// cause, unless nil, matches in the same line.
	cause *regexp.Regexp
	// tries with this reason in a row before the bootstrap fails after all; 0 is no limit.
	tries  int
	reason string
	// means what happens next, for the message.
	means string
}

var (
	// noAnswer ends an error of a client that got no answer, or that of a server which cannot give one. A
	// name that does not exist, a certificate and an answer such as 403 are not among them.
	noAnswer = regexp.MustCompile(`connection (refused|reset by peer|timed out)|no route to host|(network|host) is (unreachable|down)|i/o timeout|TLS handshake timeout|` +
		`context deadline exceeded|Client\.Timeout exceeded|\bEOF$|client connection lost|is currently unable to handle the request|etcdserver: `)

	// refusals are of phases that concern the cluster only. What kubeadm waits for on the host itself, such
	// as the health of its kubelet, is not among them.
	refusals = []refusal{
		{
			line:   regexp.MustCompile(`error execution phase kubelet-start: a Node with name "[^"]+" and status "Ready" already exists in the cluster`),
			reason: operation.ReasonNodeExists, tries: operation.PatientTries,
			means: "no kubelet runs on this host, so if the Node is of an earlier try, the cluster finds within minutes that it is not Ready, and the next try succeeds; " +
				"if another machine has this name, rename one of the two",
		},
		{
			line:   regexp.MustCompile(`error execution phase preflight: .*could not find a JWS signature in the cluster-info ConfigMap for token ID`),
			reason: operation.ReasonBootstrapTokenUnknown, tries: operation.PatientTries,
			means: "the cluster does not know the bootstrap token (yet); each try reads the bootstrap data anew",
		},
		{
			line:   regexp.MustCompile(`error execution phase (preflight: .*(couldn't validate the identity of the API Server|unable to fetch the kubeadm-config ConfigMap)|kubelet-start: cannot get Node |check-etcd: )`),
			cause:  noAnswer,
			reason: operation.ReasonClusterUnreachable,
			means:  "the control plane of the cluster does not answer; the host tries again until it does",
		},
	}
)

// refusedBy returns why the cluster refused the node, or nil when some other thing failed.
func refusedBy(lines []string) *refusal {
	for i, r := range refusals {
		for _, line := range lines {
			if r.line.MatchString(line) && (r.cause == nil || r.cause.MatchString(line)) {
				return &refusals[i]
			}
		}
	}
	return nil
}
