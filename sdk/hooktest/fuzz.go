package hooktest

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/randfill"

	"github.com/slipway-dev/slipway/sdk/extension"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/internal/wire"
)

// Fuzz calls the handler name of server with requests of any content, and holds that
// a request means the same once it was written and read, that the handler neither
// panics nor misses its deadline, and that a hook which does not block answers the same
// request in the same way twice. checks hold what the author knows of an answer. The
// handler runs for real: give it a server whose handlers touch nothing that counts.
//
//	func FuzzPatches(f *testing.F) {
//		hooktest.Fuzz(f, server(f), capi.GeneratePatches, "patches")
//	}
func Fuzz[Q, R any](f *testing.F, server *extension.Server, h hook.Hook[Q, R], name string, checks ...func(request *Q, response *R) error) {
	f.Helper()
	seed(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		request := any(new(Q)).(runtime.Object)
		filler(data).Fill(request)
		response, err := answerTo(server, h.Definition(), name, request)
		if err != nil {
			t.Fatal(err)
		}
		for _, check := range checks {
			if err := check(any(request).(*Q), any(response).(*R)); err != nil {
				t.Error(err)
			}
		}
	})
}

func seed(f *testing.F) {
	f.Helper()
	f.Add([]byte{})
	for i := range byte(20) {
		f.Add(bytes.Repeat([]byte{i, 7 * i, 255 - i}, 40))
	}
}

// filler fills objects from the bytes of the fuzzer, with values that JSON can carry.
func filler(data []byte) *randfill.Filler {
	raw := func(c randfill.Continue) []byte {
		return []byte([]string{`3`, `"text"`, `{"kind":"A","apiVersion":"example.com/v1","spec":{"b":[1,2.5,true]}}`, `[]`, `{}`}[c.Intn(5)])
	}
	return randfill.NewFromGoFuzz(data).NilChance(0.3).NumElements(0, 3).MaxDepth(8).Funcs(
		func(v *runtime.RawExtension, c randfill.Continue) { v.Raw = raw(c) },
		func(v *apiextensionsv1.JSON, c randfill.Continue) { v.Raw = raw(c) },
		// It contains itself in many ways.
		func(v *clusterv1.JSONSchemaProps, c randfill.Continue) { c.Fill(&v.Type); c.Fill(&v.Required) },
		func(v *metav1.FieldsV1, _ randfill.Continue) { v.SetRawBytes([]byte(`{"f:spec":{}}`)) },
		func(v *metav1.Time, c randfill.Continue) { *v = metav1.Unix(int64(c.Intn(2))*1e9, 0) },
		func(v *string, c randfill.Continue) {
			*v = []string{"", "a", "team-a", "v1.36.3", "<b>&\u2028", "ä\U0001F600", "\x00", "../..", "-1"}[c.Intn(9)]
		},
	)
}

// answerTo calls a handler and returns its answer, or what is wrong with it.
func answerTo(server *extension.Server, d *hook.Definition, name string, request runtime.Object) (hooksv1.ResponseObject, error) {
	d.MarkRequest(request)
	if err := sameAgain(request, d.NewRequest, d.RequestKind); err != nil {
		return nil, err
	}
	first, err := exchange(server, d, name, request)
	if err != nil {
		return nil, err
	}
	second, err := exchange(server, d, name, request)
	if err != nil {
		return nil, err
	}
	if !d.Blocking() && !equality.Semantic.DeepEqual(first, second) {
		return nil, fmt.Errorf("the same request is answered in two ways:\n%+v\n%+v", first, second)
	}
	return first, nil
}

// sameAgain holds that an object is the same after it was written and read.
func sameAgain(object runtime.Object, empty func() runtime.Object, kind schema.GroupVersionKind) error {
	body, err := wire.Encode(object)
	if err != nil {
		return err
	}
	read := empty()
	if err := wire.Decode(body, read, kind); err != nil {
		return fmt.Errorf("what was written cannot be read: %w", err)
	}
	if !equality.Semantic.DeepEqual(read, object) {
		return fmt.Errorf("what was written is read as something else:\n%+v\n%+v", object, read)
	}
	return nil
}

func exchange(server *extension.Server, d *hook.Definition, name string, request runtime.Object) (hooksv1.ResponseObject, error) {
	body, err := wire.Encode(request)
	if err != nil {
		return nil, err
	}
	recorder := httptest.NewRecorder()
	server.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, server.Path(d, name), bytes.NewReader(body)))
	if recorder.Code != http.StatusOK {
		return nil, fmt.Errorf("handler %s: HTTP status %d: %s", name, recorder.Code, recorder.Body)
	}
	response := d.NewResponse()
	return response, wire.Decode(recorder.Body.Bytes(), response, d.ResponseKind)
}
