package hooks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	lifecyclev1 "github.com/slipway-dev/slipway/api/lifecycle/v1alpha1"
	"github.com/slipway-dev/slipway/internal/lifecycle/hooks"
	"github.com/slipway-dev/slipway/sdk/extension"
)

// unknown is a management cluster that knows no Cluster. Whatever else it is asked
// for ends the process.
type unknown struct{ client.Reader }

func (unknown) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(clusterv1.GroupVersion.WithResource("clusters").GroupResource(), key.Name)
}

// FuzzCall holds that no body of a request to any hook ends the process, and none
// lets a Cluster pass that is not known.
func FuzzCall(f *testing.F) {
	for i, hook := range lifecyclev1.Hooks() {
		f.Add(i, fmt.Appendf(nil, `{"apiVersion":"hooks.runtime.cluster.x-k8s.io/v1alpha1","kind":"%sRequest",
			"cluster":{"metadata":{"name":"a","namespace":"b","uid":"c"}},"fromKubernetesVersion":"v1.35.4","toKubernetesVersion":"v1.36.3"}`, hook))
	}
	for i, seed := range []string{"", "[", "null", "{}", `{"cluster":null}`, `{"cluster":{"spec":{"topology":{"version":1}}},"settings":{"a":"b"}}`, `{"toKubernetesVersion":"\ud800"}`} {
		f.Add(i, []byte(seed))
	}
	server, err := extension.New(extension.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	if err := (&hooks.Handler{APIReader: unknown{}, Clock: clock.RealClock{}}).AddTo(server); err != nil {
		f.Fatal(err)
	}
	served, names := server.Handler(), lifecyclev1.Hooks()
	f.Fuzz(func(t *testing.T, which int, body []byte) {
		hook := string(names[uint(which)%uint(len(names))])
		path := "/" + hooksv1.GroupVersion.String() + "/" + strings.ToLower(hook) + "/" + kebab(hook)
		recorder := httptest.NewRecorder()
		served.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body)))
		response := &hooksv1.CommonResponse{}
		switch recorder.Code {
		case http.StatusOK:
			if err := json.Unmarshal(recorder.Body.Bytes(), response); err != nil || response.Status != hooksv1.ResponseStatusFailure || response.Message == "" {
				t.Errorf("%s with %q answers %s", hook, body, recorder.Body)
			}
		case http.StatusNotFound, http.StatusInternalServerError:
			t.Errorf("%s with %q: %d %s", hook, body, recorder.Code, recorder.Body)
		}
	})
}

// kebab writes a hook as the name of its handler.
func kebab(hook string) string {
	var name strings.Builder
	for i, r := range hook {
		if i > 0 && r >= 'A' && r <= 'Z' {
			name.WriteByte('-')
		}
		name.WriteString(strings.ToLower(string(r)))
	}
	return name.String()
}
