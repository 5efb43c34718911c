package bootstrap

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
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

// kubeadmErrors is what kubeadm said of its failure since the log had that size, as one
// line; empty when it said nothing.
func kubeadmErrors(root hostfs.Root, since int64) string {
	log, err := openForReading(root)
	if err != nil {
		return ""
	}
	defer func() { _ = log.Close() }()
	info, err := log.Stat()
	if err != nil {
		return ""
	}
	since = max(since, info.Size()-maxKubeadmOutput)
	if _, err := log.Seek(since, io.SeekStart); err != nil {
		return ""
	}
	return strings.Join(findKubeadmErrors(log), "; ")
}

func findKubeadmErrors(output io.Reader) []string {
	var found []string
	seen, more := map[string]bool{}, 0
	for reader := bufio.NewReader(output); ; {
		line, err := reader.ReadString('\n')
		match := kubeadmError.FindStringSubmatch(strings.TrimRight(line, "\r\n"))
		if match != nil && !kubeadmFatal.MatchString(match[1]) && !seen[match[1]] {
			seen[match[1]] = true
			if len(found) < maxKubeadmErrors {
				found = append(found, bounded(kubeadmSecret.ReplaceAllString(match[1], "***")))
			} else {
				more++
			}
		}
		if err != nil {
			break
		}
	}
	if more > 0 {
		found = append(found, fmt.Sprintf("and %d more", more))
	}
	return found
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
