package upgrade

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/hostfs"
)

func TestCheckSkew(t *testing.T) {
	for name, c := range map[string]struct{ from, to, server, reason string }{
		"next minor":           {"v1.35.4", "v1.36.3", "v1.36.3", ""},
		"patch":                {"v1.36.1", "v1.36.3", "v1.36.0", ""},
		"the same again":       {"v1.36.3", "v1.36.3", "v1.36.3", ""},
		"newer server":         {"v1.34.1", "v1.35.4", "v1.37.0", ""},
		"older patch":          {"v1.36.3", "v1.36.1", "v1.36.3", operation.ReasonDowngrade},
		"older minor":          {"v1.36.3", "v1.35.4", "v1.36.3", operation.ReasonDowngrade},
		"two minors":           {"v1.34.1", "v1.36.3", "v1.36.3", operation.ReasonVersionSkew},
		"next major":           {"v1.36.3", "v2.0.0", "v2.0.0", operation.ReasonVersionSkew},
		"release candidate":    {"v1.36.0-rc.1", "v1.36.0", "v1.36.0", ""},
		"older control plane":  {"v1.35.4", "v1.36.3", "v1.35.4", operation.ReasonControlPlaneOlder},
		"no version":           {"v1.35.4", "latest", "v1.36.3", operation.ReasonVersionSkew},
		"kubelet without one":  {"", "v1.36.3", "v1.36.3", operation.ReasonVersionSkew},
		"server not known yet": {"v1.35.4", "v1.36.3", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkSkew(c.from, c.to, c.server)
			refused := (*operation.Error)(nil)
			if errors.As(err, &refused) != (c.reason != "") || refused != nil && refused.Reason != c.reason {
				t.Fatalf("got %v, want reason %q", err, c.reason)
			}
			if refused != nil && (refused.Retry == operation.RetryLater) != (c.reason == operation.ReasonControlPlaneOlder) {
				t.Errorf("only an older control plane is waited for: %+v", refused)
			}
		})
	}
}

func TestIgnoredChecks(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []string
		wantErr bool
	}{
		"second document": {"---\nkind: ClusterConfiguration\n---\nkind: JoinConfiguration\nnodeRegistration: {ignorePreflightErrors: [Swap, all]}\n", []string{"Swap", "all"}, false},
		"none":            {"kind: JoinConfiguration\nnodeRegistration: {}\n", nil, false},
		"damaged":         {"a: [", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := hostfs.Root(t.TempDir())
			path := root.Path(joinConfig)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(c.content), 0o600)); err != nil {
				t.Fatal(err)
			}
			got, err := IgnoredChecks(root)
			if !slices.Equal(got, c.want) || (err != nil) != c.wantErr {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	if got, err := IgnoredChecks(hostfs.Root(t.TempDir())); got != nil || err != nil {
		t.Errorf("without a file: %q, %v", got, err)
	}
}
