package change

import (
	"context"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// recorder is what Events of requests are by, those of the command line and of the console.
const recorder = "slipway"

// Record writes an Event about an object of which the client's user has requested something, with who
// it was and why. It takes the verb create on events.
func Record(ctx context.Context, c client.Client, o client.Object, request, reason string) error {
	who := &authenticationv1.SelfSubjectReview{}
	if err := c.Create(ctx, who); err != nil {
		return fmt.Errorf("who has requested it: %w", err)
	}
	kind, err := apiutil.GVKForObject(o, c.Scheme())
	if err != nil {
		return err
	}
	message := request + " requested by " + who.Status.UserInfo.Username
	if reason != "" {
		message += ": " + reason
	}
	now := metav1.NewTime(time.Now())
	return c.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: o.GetNamespace(), GenerateName: o.GetName() + "-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID()},
		Type:           corev1.EventTypeNormal, Reason: "Requested", Action: request, Message: message,
		FirstTimestamp: now, LastTimestamp: now, Count: 1, Source: corev1.EventSource{Component: recorder}, ReportingController: recorder,
	})
}
