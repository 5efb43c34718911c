package hooktest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/hooks/capi"
	"github.com/slipway-dev/slipway/sdk/hooks/host"
)

func patching(t testing.TB, fn func(r *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error)) *extension.Server {
	t.Helper()
	server, err := extension.New(extension.Options{Logger: testLogger(t)})
	if err == nil {
		err = extension.Handle(server, capi.GeneratePatches, "h", func(_ context.Context, r *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
			return fn(r)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func FuzzHandler(f *testing.F) {
	server := patching(f, func(r *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
		response := &hooksv1.GeneratePatchesResponse{}
		for _, item := range r.Items {
			response.Items = append(response.Items, hooksv1.GeneratePatchesResponseItem{UID: item.UID, PatchType: hooksv1.JSONPatchType, Patch: []byte("[]")})
		}
		return response, nil
	})
	Fuzz(f, server, capi.GeneratePatches, "h", func(request *hooksv1.GeneratePatchesRequest, response *hooksv1.GeneratePatchesResponse) error {
		if len(request.Items) != len(response.Items) {
			return errors.New("a template has no patch")
		}
		return nil
	})
}

// TestAllRequestsCanBeFuzzed fills the requests of each hook in many ways: all of them
// are the same after they were written and read.
func TestAllRequestsCanBeFuzzed(t *testing.T) {
	catalog := hook.NewCatalog()
	if err := errors.Join(capi.AddToCatalog(catalog), host.AddToCatalog(catalog)); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for _, d := range catalog.All() {
		for range 10 {
			data := make([]byte, 64)
			for i := range data {
				data[i] = byte(rng.Uint32())
			}
			request := d.NewRequest()
			filler(data).Fill(request)
			d.MarkRequest(request)
			if err := sameAgain(request, d.NewRequest, d.RequestKind); err != nil {
				t.Errorf("%s: %v", d.Name, err)
			}
		}
	}
}

// TestFuzzFindsWhatIsWrong gives the helper handlers that do what none may.
func TestFuzzFindsWhatIsWrong(t *testing.T) {
	calls := 0
	for want, fn := range map[string]func(*hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error){
		"panicked": func(r *hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
			return nil, errors.New(string(r.Items[1000].UID))
		},
		"answered in two ways": func(*hooksv1.GeneratePatchesRequest) (*hooksv1.GeneratePatchesResponse, error) {
			calls++
			return &hooksv1.GeneratePatchesResponse{Items: make([]hooksv1.GeneratePatchesResponseItem, calls)}, nil
		},
	} {
		request := &hooksv1.GeneratePatchesRequest{}
		if _, err := answerTo(patching(t, fn), capi.GeneratePatches.Definition(), "h", request); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// loses is a request that JSON does not carry as a whole.
type loses struct {
	hooksv1.BeforeClusterCreateRequest
	Lost string `json:"-"`
}

// TestFuzzFindsWhatIsLost writes and reads a type that loses a field.
func TestFuzzFindsWhatIsLost(t *testing.T) {
	lossy := hook.Define[loses, hooksv1.BeforeClusterCreateResponse](schema.GroupVersion{Group: "hooks.example.com", Version: "v1"}, "Lossy", hook.Meta{}).Definition()
	request := &loses{Lost: "text"}
	lossy.MarkRequest(request)
	if err := sameAgain(request, lossy.NewRequest, lossy.RequestKind); err == nil || !strings.Contains(err.Error(), "something else") {
		t.Errorf("got %v", err)
	}
}
