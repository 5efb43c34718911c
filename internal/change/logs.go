package change

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// LogQuery says what is read of the log of a host.
type LogQuery struct {
	Unit infrav1.HostLogUnit
	// Since excludes older lines; none for zero.
	Since time.Duration
	// Lines is how many of the past are read.
	Lines int
	// Follow has new lines come until the time limit.
	Follow bool
}

// RequestLog requests a log of the agent of a host. It takes the verbs get on hosts and create on
// hostlogrequests.
func RequestLog(ctx context.Context, c client.Client, host client.ObjectKey, q LogQuery) (*infrav1.HostLogRequest, error) {
	if err := c.Get(ctx, host, &infrav1.Host{}); apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("namespace %s has no host %s; see `slipway host list`", host.Namespace, host.Name)
	}
	self := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, self); err != nil {
		return nil, fmt.Errorf("find out who you are for the management cluster: %w", err)
	}
	request := &infrav1.HostLogRequest{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name + "-" + rand.String(10)}}
	request.Spec = infrav1.HostLogRequestSpec{HostName: host.Name, Unit: q.Unit, RequestedBy: self.Status.UserInfo.Username, Lines: int32(q.Lines)}
	if q.Since > 0 {
		request.Spec.SinceSeconds = int32(max(1, min(q.Since, 365*24*time.Hour).Round(time.Second)/time.Second))
	}
	if q.Follow {
		request.Spec.Follow, request.Spec.TimeLimitSeconds = ptr.To(true), infrav1.HostLogMaxTimeLimit
	}
	return request, c.Create(ctx, request)
}

// EndLog ends a request on the host, too, when ctx has ended already. It takes the verb delete on
// hostlogrequests.
func EndLog(ctx context.Context, c client.Client, request *infrav1.HostLogRequest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	return client.IgnoreNotFound(c.Delete(ctx, request, client.Preconditions{UID: &request.UID}))
}

// ReadLog has show called with the lines of the answer to a request as they come, and with how many
// are missing before them, until it is complete or ctx ends. The message says why it ended early; without any
// line it is the error. It takes the verb watch on hostlogrequests.
func ReadLog(ctx context.Context, c client.WithWatch, request *infrav1.HostLogRequest, show func(missing int64, lines []string) error) (message string, err error) {
	w, err := c.Watch(ctx, &infrav1.HostLogRequestList{}, client.InNamespace(request.Namespace), client.MatchingFields{metav1.ObjectNameField: request.Name},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: request.ResourceVersion}})
	if err != nil {
		return "", err
	}
	defer w.Stop()
	last := int64(0)
	for {
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return "", context.Cause(ctx)
			}
			return "", nil
		case event, open := <-w.ResultChan():
			answered, is := event.Object.(*infrav1.HostLogRequest)
			switch {
			case !open && ctx.Err() != nil:
				continue
			case !open:
				return "", errors.New("the management cluster ended the watch of the answer: read the log again")
			case !is:
				return "", apierrors.FromObject(event.Object)
			case answered.UID != request.UID:
				continue
			}
			status := &answered.Status
			missing, lines := newLines(status, last)
			if len(lines) > 0 {
				last = max(last, status.FirstLine-1) + int64(len(lines))
				if err := show(missing, lines); err != nil {
					return "", err
				}
			}
			switch {
			case status.CompletionTime == nil && answered.DeletionTimestamp.IsZero() && event.Type != apiwatch.Deleted:
				continue
			case status.CompletionTime == nil:
				return "", errors.New("the request was deleted before the answer was complete")
			case status.Message != "" && last == 0:
				return "", errors.New(status.Message)
			}
			return status.Message, nil
		}
	}
}

// newLines are the lines of an answer after the last one that was shown, and how many between are missing.
func newLines(status *infrav1.HostLogRequestStatus, last int64) (missing int64, lines []string) {
	if status.FirstLine == 0 {
		return 0, nil
	}
	lines = strings.SplitAfter(status.Text, "\n")
	lines = lines[:len(lines)-1]
	if missing = status.FirstLine - last - 1; missing < 0 {
		lines = lines[min(-missing, int64(len(lines))):]
	}
	return max(0, missing), lines
}
