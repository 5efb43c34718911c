package answer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"syscall"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/slipway-dev/slipway/internal/answer"
)

func TestAnswers(t *testing.T) {
	hosts := schema.GroupResource{Group: "infrastructure.slipway.dev", Resource: "hosts"}
	for name, tc := range map[string]struct {
		err                      error
		away, passing, unreached bool
	}{
		"none":              {},
		"too slow":          {err: apierrors.NewTimeoutError("the server was unable to return a response in the time allotted", 0), away: true, passing: true},
		"told to wait":      {err: apierrors.NewServerTimeout(hosts, "get", 1), away: true, passing: true},
		"busy":              {err: apierrors.NewTooManyRequests("later", 1), away: true, passing: true},
		"starts":            {err: apierrors.NewServiceUnavailable("starting"), away: true, passing: true},
		"failed":            {err: apierrors.NewInternalError(errors.New("a webhook")), passing: true},
		"refused":           {err: apierrors.NewForbidden(hosts, "h", errors.New("no"))},
		"changed meanwhile": {err: apierrors.NewConflict(hosts, "h", errors.New("no"))},
		"is not":            {err: apierrors.NewNotFound(hosts, "h")},
		"nobody listens":    {err: &url.Error{Op: "Get", URL: "https://127.0.0.1", Err: syscall.ECONNREFUSED}, passing: true, unreached: true},
		"cut off":           {err: &url.Error{Op: "Get", URL: "https://127.0.0.1", Err: io.EOF}, passing: true, unreached: true},
		"no handshake":      {err: &url.Error{Op: "Get", URL: "https://127.0.0.1", Err: context.DeadlineExceeded}, passing: true, unreached: true},
		"something else":    {err: errors.New("a file"), passing: true},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("read Host h: %w", err)
		}
		if away, passing, unreached := answer.Away(err), answer.Passing(err), answer.Unreached(err); away != tc.away || passing != tc.passing || unreached != tc.unreached {
			t.Errorf("%s: away %t, passing %t, unreached %t", name, away, passing, unreached)
		}
	}
}
