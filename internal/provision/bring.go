package provision

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// bringScript writes its standard input to a file of the staging directory, which it has
// only when its digest is the one that is wanted. What a full disk took of it goes again.
const bringScript = `set -eu
umask 077
{ mkdir -p "$(dirname %[1]s)" && cat >%[1]s.part; } || {
  code=$?
  [ "$(stat -f -c %%a "$(dirname ` + staging + `)")" -gt 255 ] || code=%[4]d
  rm -f %[1]s.part
  exit $code
}
printf '%%s  %%s\n' %[2]s %[1]s.part | sha256sum --check --status || { rm -f %[1]s.part; echo 'what arrived has another digest than what was sent' >&2; exit 1; }
chmod %[3]s %[1]s.part
mv -f %[1]s.part %[1]s
`

// exitFull is the code that bringScript ends with when less than a MiB is left of the disk,
// in its usual blocks.
const exitFull = 28 // ENOSPC

// bring sends a file. Paths and digests have no characters that a shell would see.
func (a *addition) bring(ctx context.Context, path, digest, mode string, content io.Reader) error {
	_, err := a.machine.Run(ctx, fmt.Sprintf(bringScript, path, digest, mode, exitFull), content)
	var exit *ExitError
	if errors.As(err, &exit) && exit.Code == exitFull {
		return problem(ReasonNoSpace, makeRoom+"; the same command goes on", "its disk became full when %s was sent: %s", path, exit.Stderr)
	}
	return err
}

func (a *addition) bringAgent(ctx context.Context) error {
	f, err := os.Open(a.want.agent.path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return a.bring(ctx, stagedAgent, a.want.agent.digest, "0700", f)
}

// agent is the program of the machine that has the wanted digest.
func (a *addition) agent() string {
	if a.facts.AgentDigest == a.want.agent.digest {
		return agentPath
	}
	return stagedAgent
}

// blobsScript prints the digests of the blobs that are there and whole.
const blobsScript = `cd ` + stagedBundle + `/blobs/sha256 2>/dev/null || exit 0
for blob in *; do [ ! -f "$blob" ] || printf '%s  %s\n' "$blob" "$blob" | sha256sum --check --status 2>/dev/null && printf '%s\n' "$blob"; done
true
`

// bringBundle sends what the machine lacks of the bundle; the index comes last.
func (a *addition) bringBundle(ctx context.Context) error {
	b := a.want.bundle
	printed, err := a.machine.Run(ctx, blobsScript, nil)
	if err != nil {
		return err
	}
	there := strings.Fields(printed)
	for _, blob := range b.layout.Blobs {
		if slices.Contains(there, blob.Digest.Encoded()) {
			continue
		}
		if err := a.bringBlob(ctx, blob); err != nil {
			return err
		}
	}
	if err := a.bringKeys(ctx); err != nil {
		return err
	}
	for path, content := range map[string][]byte{
		stagedBundle + "/" + ocispec.ImageLayoutFile: fmt.Appendf(nil, `{"imageLayoutVersion":%q}`, ocispec.ImageLayoutVersion),
		stagedBundle + "/" + ocispec.ImageIndexFile:  b.layout.Index,
	} {
		if err := a.bring(ctx, path, sum(content), "0600", bytes.NewReader(content)); err != nil {
			return err
		}
	}
	return nil
}

// bringKeys sends the public keys of host bundles.
func (a *addition) bringKeys(ctx context.Context) error {
	keys := a.want.bundle.publicKey
	return a.bring(ctx, stagedKey, sum(keys), "0600", bytes.NewReader(keys))
}

func (a *addition) bringBlob(ctx context.Context, blob ocispec.Descriptor) error {
	content, err := a.want.bundle.layout.Open(blob)
	if err != nil {
		return err
	}
	defer func() { _ = content.Close() }()
	return a.bring(ctx, stagedBundle+"/blobs/sha256/"+blob.Digest.Encoded(), blob.Digest.Encoded(), "0600", content)
}

// Exit codes of `slipway-agent software`, see its help.
const (
	fullCode = 28
	busyCode = 75
)

// busyFor is how long another install on the machine is waited for: that of a run which was
// interrupted goes on.
const busyFor = 5 * time.Minute

func (a *addition) installSoftware(ctx context.Context) error {
	script := fmt.Sprintf("%s software install --from %s --public-key %s --kubernetes-version %s", a.agent(), stagedBundle, stagedKey, a.want.bundle.version)
	_, err := a.machine.Run(ctx, script, nil)
	var exit *ExitError
	for until := time.Now().Add(busyFor); errors.As(err, &exit) && exit.Code == busyCode && time.Now().Before(until); {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
		_, err = a.machine.Run(ctx, script, nil)
	}
	if !errors.As(err, &exit) {
		return err
	}
	// Progress comes first, the reason last.
	exit.Stderr = afterLast(exit.Stderr, "slipway-agent software: ")
	if exit.Code == fullCode {
		return problem(ReasonNoSpace, makeRoom+"; the same command goes on", "%s", exit.Stderr)
	}
	return exit
}

// afterLast is what follows the last separator; all of it when there is none.
func afterLast(s, separator string) string {
	if at := strings.LastIndex(s, separator); at >= 0 {
		return s[at+len(separator):]
	}
	return s
}

// brought are the checks of the agent's preflight that a host bundle sees to, and those
// about the files that enrolling writes.
var brought = []string{"kernel-modules", "sysctl", "container-runtime", "kubernetes"}

// preflight looks whether the machine is fit before anything is installed.
func (a *addition) preflight(ctx context.Context) error { return a.runPreflight(ctx, brought) }

// fitness looks again, with all of the software.
func (a *addition) fitness(ctx context.Context) error { return a.runPreflight(ctx, nil) }

func (a *addition) runPreflight(ctx context.Context, ignored []string) error {
	// It ends with 1 when it found an error.
	printed, err := a.machine.Run(ctx, a.agent()+" preflight -o json || [ $? -eq 1 ]", nil)
	if err != nil {
		return err
	}
	var report struct {
		Findings []struct{ Check, Level, Message, Remedy string } `json:"findings"`
	}
	if err := json.Unmarshal([]byte(printed), &report); err != nil {
		return problem(ReasonCommandFailed, "", "the preflight's report cannot be read: %s", err)
	}
	ignored = append([]string{"management-api"}, append(ignored, a.IgnorePreflight...)...)
	if slices.Contains(ignored, "all") {
		return nil
	}
	var messages []string
	for _, f := range report.Findings {
		if f.Level == "Error" && !slices.Contains(ignored, f.Check) {
			messages = append(messages, f.Check+": "+strings.TrimSuffix(f.Message+" ("+f.Remedy+")", " ()"))
		}
	}
	if len(messages) == 0 {
		return nil
	}
	return problem(ReasonPreflight, "see what the machine says of each check; --ignore-preflight-errors leaves out checks by name", "it cannot become a node like this: %s", strings.Join(messages, "; "))
}

// replaceScript puts the agent that was brought where it belongs.
const replaceScript = `cp ` + stagedAgent + ` ` + agentPath + `.new
chmod 0755 ` + agentPath + `.new
sync ` + agentPath + `.new
mv -f ` + agentPath + `.new ` + agentPath + `
`

// serviceScript writes the agent's unit, which is its standard input and has the digest,
// and has systemd start it now and at each boot. A unit that is cut off would mask the
// service when it is empty.
const serviceScript = `cat >` + unitPath + `.new
printf '%%s  %%s\n' %[1]s ` + unitPath + `.new | sha256sum --check --status || { rm -f ` + unitPath + `.new; echo 'the unit that arrived has another digest than the one that was sent' >&2; exit 1; }
mv -f ` + unitPath + `.new ` + unitPath + `
systemctl daemon-reload
systemctl --quiet enable ` + unitName + `
systemctl restart ` + unitName + `
`

func (a *addition) start(ctx context.Context) error {
	script := "set -eu\numask 022\n"
	if a.agent() == stagedAgent {
		script += replaceScript
	}
	_, err := a.machine.Run(ctx, script+fmt.Sprintf(serviceScript, a.want.unitDigest()), bytes.NewReader(a.want.unit))
	return err
}

// clear removes what was brought, once it is installed.
func (a *addition) clear(ctx context.Context) error {
	_, err := a.machine.Run(ctx, "rm -rf "+staging, nil)
	return err
}
