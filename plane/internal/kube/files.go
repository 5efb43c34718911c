package kube

import (
	_ "embed" // the configuration files
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/slipway-dev/slipway/internal/durable"
)

//go:embed authentication.yaml
var authentication []byte

//go:embed audit-policy.yaml
var auditPolicy []byte

// The audit log takes at most auditFiles + 1 times auditMegabytes, less what the
// compression of old files saves.
const (
	auditMegabytes = 50
	auditFiles     = 5
	auditDays      = 90
)

// AuditLog is the file of the audit log, in ServerOptions.Dir.
const AuditLog = "audit.log"

// writeFiles writes the configuration files, which a new version of this program may
// have changed.
func (s *Server) writeFiles() error {
	if err := os.MkdirAll(s.opts.Dir, 0o700); err != nil {
		return fmt.Errorf("make the directory of the API server's configuration: %w", err)
	}
	for name, content := range map[string][]byte{"authentication.yaml": authentication, "audit-policy.yaml": auditPolicy} {
		if err := durable.Write(s.file(name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) file(name string) string { return filepath.Join(s.opts.Dir, name) }

// auditArgs turn the audit log on. Its files have mode 0600, and a disk that is full
// does not fail requests.
func (s *Server) auditArgs() []string {
	if s.opts.NoAuditLog {
		return nil
	}
	return []string{
		"--audit-policy-file=" + s.file("audit-policy.yaml"),
		"--audit-log-path=" + s.file(AuditLog),
		"--audit-log-maxsize=" + strconv.Itoa(auditMegabytes),
		"--audit-log-maxbackup=" + strconv.Itoa(auditFiles),
		"--audit-log-maxage=" + strconv.Itoa(auditDays),
		"--audit-log-compress",
	}
}
