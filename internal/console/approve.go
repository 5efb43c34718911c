package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/change"
	"github.com/slipway-dev/slipway/internal/console/view"
)

const approvePattern = "/hosts/{namespace}/{name}/approve"

// approving shows the machine that is to be approved, as it has reported itself.
func (s *server) approving(v *visit) (string, any, error) {
	key := keyOf(v.Request)
	host := &infrav1.Host{}
	if err := v.read.Get(v.Context(), key, host); err != nil {
		return "", nil, fmt.Errorf("host %s: %w", key, err)
	}
	return "Approve host " + key.Name, view.ApprovalOf(host), nil
}

// approve approves a host, with the rights of the user.
func (s *server) approve(w http.ResponseWriter, r *http.Request) {
	key := keyOf(r)
	if code, err := s.admit(r.Context(), key, r.PostForm); err != nil {
		s.answer(w, r, pageFor(approvePattern), code, s.Explain(err).Error())
		return
	}
	back := url.URL{Path: "/hosts/" + key.Namespace + "/" + key.Name}
	http.Redirect(w, r, back.String(), http.StatusSeeOther)
}

// admit approves the machine that the user has looked at, not one that has the name now, nor
// against somebody who decided meanwhile.
func (s *server) admit(ctx context.Context, key client.ObjectKey, form url.Values) (int, error) {
	_, err := change.Approve(ctx, s.Client, key, change.Seen{
		UID: types.UID(form.Get("uid")), HostID: form.Get("hostID"), MachineID: form.Get("machineID"),
		Approval: infrav1.HostApproval(form.Get("approval")),
	})
	if err == nil {
		return http.StatusOK, nil
	}
	code := statusOf(err)
	if changed := (*change.ChangedError)(nil); errors.As(err, &changed) {
		code = http.StatusConflict
	}
	return code, fmt.Errorf("host %s: %w", key, err)
}
