package trust

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"

	"github.com/slipway-dev/slipway/internal/agent/link/enroll"
)

// BenchmarkRotation has so many hosts come for their next working certificate at once, as
// after an outage of a day: each with the code of its agent, against the manager of a
// release and the signer of kube-controller-manager.
func BenchmarkRotation(b *testing.B) {
	w := newWorld(b)
	token := w.bootstrapKubeconfig(b, stolenTokenID)
	hosts := make([]enroll.Enroller, b.N)
	for i := range hosts {
		hosts[i] = enroll.Enroller{
			StateDir: b.TempDir(), BootstrapKubeconfig: token, Namespace: guarded, HostName: fmt.Sprintf("rotating-%d", i),
			Log: slog.New(slog.DiscardHandler), Now: time.Now, AllowLoopback: true,
		}
	}
	come := func() {
		group, ctx := errgroup.WithContext(b.Context())
		for i := range hosts {
			group.Go(func() error {
				session, err := hosts[i].Enroll(ctx)
				if err == nil {
					session.CloseConnections()
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			b.Fatal(err)
		}
	}
	come()
	for i := range hosts {
		// The next start asks for another one.
		if err := os.Remove(filepath.Join(hosts[i].StateDir, "client.pem")); err != nil {
			b.Fatal(err)
		}
	}
	before := w.requestsForCertificates(b)
	b.ResetTimer()
	come()
	b.StopTimer()
	after := w.requestsForCertificates(b)
	n := float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "certificates/s")
	b.ReportMetric((after.writes-before.writes)/n, "writes/certificate")
	b.ReportMetric((after.reads-before.reads)/n, "reads/certificate")
}

type counts struct{ reads, writes float64 }

var requestsTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{.*resource="certificatesigningrequests".*verb="(\w+)".*\} (\S+)$`)

// requestsForCertificates counts what anybody asked of CertificateSigningRequests so far, by
// the metrics of the API server.
func (w *world) requestsForCertificates(b *testing.B) counts {
	b.Helper()
	clientset, err := kubernetes.NewForConfig(w.Config)
	if err != nil {
		b.Fatal(err)
	}
	metrics, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var sum counts
	for _, sample := range requestsTotal.FindAllSubmatch(metrics, -1) {
		n, err := strconv.ParseFloat(string(sample[2]), 64)
		if err != nil {
			b.Fatal(err)
		}
		switch string(sample[1]) {
		case "POST", "PUT", "PATCH", "APPLY", "DELETE":
			sum.writes += n
		case "GET", "LIST":
			sum.reads += n
		}
	}
	return sum
}
