package host

import (
	"crypto/ed25519"
	"strings"
	"testing"
	"time"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func TestHandOverReportRoundTrips(t *testing.T) {
	for _, report := range []HandOverReport{
		{Revision: "abc"}, {Revision: "abc", Waiting: "cannot reach https://target:6443 from this host"},
	} {
		if got, ok := ParseHandOverReport(report.String()); !ok || got != report {
			t.Errorf("%+v became %+v, %t", report, got, ok)
		}
	}
	for _, text := range []string{"", "abc", "abc Waiting", "abc Unknown why", " Ready"} {
		if got, ok := ParseHandOverReport(text); ok {
			t.Errorf("%q is a report: %+v", text, got)
		}
	}
	long := HandOverReport{Revision: "abc", Waiting: strings.Repeat("ä ", 1000)}.String()
	if len(long) > maxReport {
		t.Errorf("a report has %d bytes", len(long))
	}
}

func TestHandOverExpires(t *testing.T) {
	end := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	handOver := ReadHandOver(map[string][]byte{infrav1.HandOverExpirationKey: []byte("2026-11-23T13:00:00+01:00"), infrav1.HandOverKubeconfigKey: []byte("k")})
	if !handOver.Expires.Equal(end) || handOver.Expired(end.Add(-time.Second)) || !handOver.Expired(end) {
		t.Errorf("it ends at %s", handOver.Expires)
	}
	if never := ReadHandOver(map[string][]byte{infrav1.HandOverExpirationKey: []byte("never")}); !never.Expires.IsZero() || !never.Expired(end) {
		t.Errorf("no time is %s", never.Expires)
	}
}

func TestHandOverSignature(t *testing.T) {
	public, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	handOver := HandOver{Kubeconfig: []byte("kubeconfig"), Expires: time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)}
	handOver.Signature = handOver.Sign(key, "ns")
	changed, prolonged, endless, elsewhere := handOver, handOver, handOver, handOver
	changed.Kubeconfig = []byte("kubeconfiG")
	prolonged.Expires = handOver.Expires.Add(time.Nanosecond)
	endless.Expires = time.Time{}
	elsewhere.Expires = handOver.Expires.In(time.FixedZone("elsewhere", 3600))
	for what, tc := range map[string]struct {
		HandOver
		signer    ed25519.PublicKey
		namespace string
		good      bool
	}{
		"signed":            {handOver, public, "ns", true},
		"changed":           {changed, public, "ns", false},
		"prolonged":         {prolonged, public, "ns", false},
		"without an end":    {endless, public, "ns", false},
		"in another zone":   {elsewhere, public, "ns", true},
		"another namespace": {handOver, public, "other", false},
		"another signer":    {handOver, stranger, "ns", false},
		"no signer":         {handOver, nil, "ns", false},
		"not signed":        {HandOver{Kubeconfig: handOver.Kubeconfig}, public, "ns", false},
	} {
		if err := tc.Verify(tc.signer, tc.namespace); (err == nil) != tc.good {
			t.Errorf("%s: %v", what, err)
		}
	}
	if DecodeSigner(EncodeSigner(public)) == nil || DecodeSigner("bm90IGEga2V5") != nil {
		t.Error("a public key is not read back, or something else is")
	}
}
