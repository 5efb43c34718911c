package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"

	"github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooktest"
)

// BenchmarkCall measures a call over TLS on loopback, client and server in one
// process. The two requests are those of the repository's comparison with
// upstream: a lifecycle hook of 4 KB and a patch request of 100 KB.
func BenchmarkCall(b *testing.B) {
	ext := hooktest.Start(b, extension.Options{}, func(s *extension.Server) error {
		if err := extension.Handle(s, capi.BeforeClusterCreate, "create", func(context.Context, *hooksv1.BeforeClusterCreateRequest) (*hooksv1.BeforeClusterCreateResponse, error) {
			return nil, nil
		}); err != nil {
			return err
		}
		return extension.Handle(s, capi.GeneratePatches, "patch", func(context.Context, *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
			return nil, nil
		})
	})
	config := hooktest.Config("bench", ext.URL, ext.CA.PEM)
	config = hooktest.Handler(config, capi.BeforeClusterCreate, "create", runtimev1.FailurePolicyFail, 10)
	config = hooktest.Handler(config, capi.GeneratePatches, "patch", runtimev1.FailurePolicyFail, 10)
	c := newClient(b, client.Options{}, config)
	small := &hooksv1.BeforeClusterCreateRequest{Cluster: *largeCluster()}
	large := largePatches()
	for _, parallel := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("4KB/%d", parallel), func(b *testing.B) {
			benchmarkCalls(b, parallel, func() error {
				_, err := client.Call(b.Context(), c, capi.BeforeClusterCreate, "create.bench", cluster(), small)
				return err
			})
		})
		b.Run(fmt.Sprintf("100KB/%d", parallel), func(b *testing.B) {
			benchmarkCalls(b, parallel, func() error {
				_, err := client.Call(b.Context(), c, capi.GeneratePatches, "patch.bench", cluster(), large)
				return err
			})
		})
	}
}

func benchmarkCalls(b *testing.B, parallel int, call func() error) {
	b.ReportAllocs()
	work := make(chan struct{})
	done := make(chan error, parallel)
	for range parallel {
		go func() {
			var failed error
			for range work {
				if err := call(); err != nil {
					failed = err
				}
			}
			done <- failed
		}()
	}
	for b.Loop() {
		work <- struct{}{}
	}
	close(work)
	for range parallel {
		if err := <-done; err != nil {
			b.Error(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}

// largeCluster is a Cluster of about 4 KB.
func largeCluster() *clusterv1.Cluster {
	c := cluster()
	c.Annotations = map[string]string{}
	for i := range 20 {
		c.Annotations[fmt.Sprintf("example.com/annotation-%02d", i)] = strings.Repeat("x", 120)
	}
	c.Spec.Topology = clusterv1.Topology{ClassRef: clusterv1.ClusterClassRef{Name: "class"}, Version: "v1.36.3"}
	for i := range 5 {
		c.Status.Conditions = append(c.Status.Conditions, metav1.Condition{Type: fmt.Sprintf("Condition%d", i), Status: metav1.ConditionTrue, Reason: "Ready"})
	}
	return c
}

// largePatches is a request of 50 templates, about 100 KB.
func largePatches() *hooksv1.GeneratePatchesRequest {
	request := &hooksv1.GeneratePatchesRequest{}
	for range 50 {
		fields := make([]string, 40)
		for j := range fields {
			fields[j] = fmt.Sprintf(`"field%02d":{"value":"%s"}`, j, strings.Repeat("y", 22))
		}
		raw := `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"DockerMachineTemplate","spec":{` + strings.Join(fields, ",") + `}}`
		request.Items = append(request.Items, hooksv1.GeneratePatchesRequestItem{
			UID:             "uid",
			HolderReference: hooksv1.HolderReference{APIVersion: "cluster.x-k8s.io/v1beta2", Kind: "Cluster", Namespace: "default", Name: "c", FieldPath: "spec.infrastructureRef"},
			Object:          runtime.RawExtension{Raw: []byte(raw)},
		})
	}
	return request
}
