package hook_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	runtimecatalog "sigs.k8s.io/cluster-api/api/runtime/catalog"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

type (
	req  = hooksv1.BeforeClusterCreateRequest
	resp = hooksv1.BeforeClusterCreateResponse
)

func define(version, name string, life hook.Lifecycle) hook.Hook[req, resp] {
	return hook.Define[req, resp](schema.GroupVersion{Group: "hooks.example.com", Version: version}, name, hook.Meta{Lifecycle: life})
}

func keep[T any](*T, *T) error { return nil }

// TestUpstreamHooks proves that the catalog is upstream's, kinds included.
func TestUpstreamHooks(t *testing.T) {
	ours, upstream := hook.NewCatalog(), runtimecatalog.New()
	if err := errors.Join(capi.AddToCatalog(ours), hooksv1.AddToCatalog(upstream)); err != nil {
		t.Fatal(err)
	}
	if n := len(ours.All()); n != len(upstream.AllKnownHooks()) {
		t.Errorf("%d hooks, want all %d of upstream", n, len(upstream.AllKnownHooks()))
	}
	for name, want := range upstream.AllKnownHooks() {
		got := ours.Get(name)
		if got == nil {
			t.Errorf("hook %s is missing", name)
			continue
		}
		if got.RequestKind != want.Request || got.ResponseKind != want.Response || got.Meta.Summary != want.Metadata.Summary {
			t.Errorf("hook %s: got %+v, want %+v", name, got, want)
		}
	}
	if err := ours.CheckRules(); err != nil {
		t.Error(err)
	}
}

func TestHooksWithTheSameTypesDoNotCollide(t *testing.T) {
	c := hook.NewCatalog()
	a, b := define("v1", "A", hook.Lifecycle{}), define("v1", "B", hook.Lifecycle{})
	if err := c.Add(a, b); err != nil {
		t.Fatal(err)
	}
	if c.Get(a.Definition().Name) != a.Definition() || c.Get(b.Definition().Name) != b.Definition() {
		t.Error("one hook replaced the other")
	}
	if err := c.Add(define("v1", "A", hook.Lifecycle{})); err == nil {
		t.Error("another hook of the same name was accepted")
	}
}

func TestAddRefuses(t *testing.T) {
	for _, h := range []hook.Any{define("1", "A", hook.Lifecycle{}), define("v1", "a", hook.Lifecycle{}), hook.Hook[req, resp]{}} {
		if err := hook.NewCatalog().Add(h); err == nil {
			t.Errorf("%+v was accepted", h.Definition())
		}
	}
}

// odd is the request of a hook with one more field.
type odd[T any] struct {
	req
	Field T `json:"field"`
}

func defineOdd[T any]() hook.Any {
	return hook.Define[odd[T], resp](schema.GroupVersion{Group: "hooks.example.com", Version: "v1"}, "Odd", hook.Meta{})
}

// TestAddRefusesTagsWithoutEffect adds hooks whose tags mean something to us or to
// a reader, and nothing to encoding/json.
func TestAddRefusesTagsWithoutEffect(t *testing.T) {
	type plain struct {
		A string
		B int    `json:"-"`
		C int    `json:"c,omitempty,omitzero,string"`
		D string `json:"-,"` //nolint:staticcheck // a field of the name -
	}
	for _, h := range []hook.Any{
		defineOdd[plain](), defineOdd[map[string][]*plain](), defineOdd[struct {
			plain `json:",inline"`
		}](), defineOdd[json.RawMessage](), defineOdd[time.Time](),
	} {
		if err := hook.NewCatalog().Add(h); err != nil {
			t.Error(err)
		}
	}
	for want, h := range map[string]hook.Any{
		"ignores the option case": defineOdd[struct {
			A string `json:"a,case:ignore"`
		}](),
		"ignores the option embed": defineOdd[[]struct {
			A map[string]string `json:",embed"`
		}](),
		"ignores the option format": defineOdd[map[string]struct {
			A time.Time `json:"a,format:RFC3339"`
		}](),
		"ignores the option required": defineOdd[*struct {
			A string `json:"a,required"` //nolint:staticcheck // that it is refused is the test
		}](),
		"ignores inline": defineOdd[struct {
			A plain `json:"a,inline"`
		}](),
		"ignores a name with quotes": defineOdd[struct {
			A string `json:"'a'"`
		}](),
	} {
		err := hook.NewCatalog().Add(h)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "JSON tag") {
			t.Errorf("got %v, want the refusal %q", err, want)
		}
	}
}

func TestConversionsChain(t *testing.T) {
	c := hook.NewCatalog()
	v1, b1, a1 := define("v1", "A", hook.Lifecycle{}), define("v1beta1", "A", hook.Lifecycle{}), define("v1alpha1", "A", hook.Lifecycle{})
	mark := func(text string) func(*resp, *resp) error {
		return func(in, out *resp) error { out.Message = in.Message + text; return nil }
	}
	if err := errors.Join(c.Add(a1, v1, b1), hook.AddConversion(c, v1, b1, keep[req], mark(">v1")), hook.AddConversion(c, b1, a1, keep[req], mark(">v1beta1"))); err != nil {
		t.Fatal(err)
	}
	conversion, err := c.Conversion(v1.Definition().Name, a1.Definition().Name)
	if err != nil {
		t.Fatal(err)
	}
	out, err := conversion.UpResponse(&resp{CommonRetryResponse: hooksv1.CommonRetryResponse{CommonResponse: hooksv1.CommonResponse{Message: "v1alpha1"}}})
	if err != nil || out.GetMessage() != "v1alpha1>v1beta1>v1" {
		t.Errorf("got %q, %v", out.GetMessage(), err)
	}
	if _, err := c.Conversion(a1.Definition().Name, v1.Definition().Name); err == nil {
		t.Error("a request was converted up")
	}
	if hook.AddConversion(c, a1, v1, keep[req], keep[resp]) == nil {
		t.Error("a conversion in the wrong direction was accepted")
	}
}

func TestPanicOfConversionIsAnError(t *testing.T) {
	c := hook.NewCatalog()
	v1, a1 := define("v1", "A", hook.Lifecycle{}), define("v1alpha1", "A", hook.Lifecycle{})
	if err := errors.Join(c.Add(a1, v1), hook.AddConversion(c, v1, a1, func(*req, *req) error { panic("nil map") }, keep[resp])); err != nil {
		t.Fatal(err)
	}
	conversion, err := c.Conversion(v1.Definition().Name, a1.Definition().Name)
	if err != nil {
		t.Fatal(err)
	}
	var conversionErr *hook.ConversionError
	if _, err := conversion.DownRequest(&req{}); !errors.As(err, &conversionErr) {
		t.Errorf("got %v, want a ConversionError", err)
	}
}

func TestRules(t *testing.T) {
	day := func(s string) time.Time { d, _ := time.Parse(time.DateOnly, s); return d }
	deprecated := hook.Release{Version: "v1.10.0", Date: day("2026-01-01")}
	tests := map[string]struct {
		older hook.Hook[req, resp]
		want  string
	}{
		"fine":             {define("v1beta1", "A", hook.Lifecycle{Deprecated: deprecated, Replacement: "v1", Removed: hook.Release{Version: "v1.12.0", Date: day("2026-07-01")}}), ""},
		"too few releases": {define("v1beta1", "A", hook.Lifecycle{Deprecated: deprecated, Replacement: "v1", Removed: hook.Release{Version: "v1.11.0", Date: day("2026-07-01")}}), "rule #4"},
		"too short":        {define("v1beta1", "A", hook.Lifecycle{Deprecated: deprecated, Replacement: "v1", Removed: hook.Release{Version: "v1.12.0", Date: day("2026-06-01")}}), "rule #4"},
		"not deprecated":   {define("v1beta1", "A", hook.Lifecycle{Removed: hook.Release{Version: "v1.12.0"}}), "rule #4"},
		"no replacement":   {define("v1beta1", "A", hook.Lifecycle{Deprecated: deprecated}), "rule #3"},
		"unknown":          {define("v1beta1", "A", hook.Lifecycle{Deprecated: deprecated, Replacement: "v2"}), "rule #3"},
		"alpha at once":    {define("v1alpha1", "A", hook.Lifecycle{Deprecated: deprecated, Replacement: "v1", Removed: deprecated}), ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := hook.NewCatalog()
			v1 := define("v1", "A", hook.Lifecycle{})
			if err := errors.Join(c.Add(v1, tt.older), hook.AddConversion(c, v1, tt.older, keep[req], keep[resp])); err != nil {
				t.Fatal(err)
			}
			err := c.CheckRules()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

// TestHookThatGoesAway deprecates all versions of a hook without a replacement: that
// is allowed, as is the removal of the newest one, after the time of support.
func TestHookThatGoesAway(t *testing.T) {
	day := func(s string) time.Time { d, _ := time.Parse(time.DateOnly, s); return d }
	announced := hook.Release{Version: "v1.10.0", Date: day("2026-01-01")}
	ends := func(removed, date string) hook.Lifecycle {
		return hook.Lifecycle{Deprecated: announced, Removed: hook.Release{Version: removed, Date: day(date)}}
	}
	older := define("v1beta1", "A", hook.Lifecycle{Deprecated: announced, Replacement: "v1"})
	for name, tt := range map[string]struct {
		life hook.Lifecycle
		want string
	}{
		"announced":     {hook.Lifecycle{Deprecated: announced}, ""},
		"supported":     {ends("v1.13.0", "2027-01-01"), ""},
		"too short":     {ends("v1.13.0", "2026-12-31"), "rule #4"},
		"not announced": {hook.Lifecycle{Removed: hook.Release{Version: "v1.13.0", Date: day("2027-01-01")}}, "rule #4"},
	} {
		t.Run(name, func(t *testing.T) {
			c := hook.NewCatalog()
			newest := define("v1", "A", tt.life)
			if err := errors.Join(c.Add(newest, older), hook.AddConversion(c, newest, older, keep[req], keep[resp])); err != nil {
				t.Fatal(err)
			}
			err := c.CheckRules()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
	c := hook.NewCatalog()
	gone := define("v1", "A", ends("v1.13.0", "2027-01-01"))
	if err := c.Add(gone); err != nil {
		t.Fatal(err)
	}
	use := []hook.Use{{Handler: "h.ext", Hook: gone.Definition().Name}}
	for release, want := range map[string]string{
		"v1.12.0": "deprecated since v1.10.0; the hook goes away without a replacement",
		"v1.13.0": "which v1.13.0 removed; nothing replaces it, take the handler out first",
	} {
		findings := hook.CheckUpgrade(c, release, use)
		if len(findings) != 1 || !strings.HasSuffix(findings[0].Message, want) {
			t.Errorf("%s: got %+v, want %q", release, findings, want)
		}
	}
}

func TestCheckUpgrade(t *testing.T) {
	c := hook.NewCatalog()
	if err := host.AddToCatalog(c); err != nil {
		t.Fatal(err)
	}
	older := hooktest.Older(t, c, host.BeforeHostClaim, "v1alpha1")
	if err := c.CheckRules(); err != nil {
		t.Error(err)
	}
	gone := host.BeforeHostClaim.Definition().Name
	gone.Version = "v1alpha0"
	findings := hook.CheckUpgrade(c, "", []hook.Use{
		{Handler: "old.ext", Hook: older.Definition().Name},
		{Handler: "new.ext", Hook: host.BeforeHostClaim.Definition().Name},
		{Handler: "gone.ext", Hook: gone},
	})
	if len(findings) != 2 || findings[0].Handler != "gone.ext" || findings[0].Severity != hook.SeverityBlock ||
		findings[1].Handler != "old.ext" || findings[1].Severity != hook.SeverityWarn {
		t.Errorf("got %+v", findings)
	}
}
