package extensionconfig

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/internal/text"
	sdkclient "github.com/slipway-dev/slipway/sdk/client"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/registry"
)

// maxMessage bounds what an extension can put into a condition, in bytes.
const maxMessage = 2048

// setConditions computes every condition but Paused. None of them says when or how
// often something failed: a message changes only with its cause.
func (r *Reconciler) setConditions(s *scope) {
	name, handlers := s.object.GetName(), s.handlers()
	d := discovered(handlers, s.failure)
	conditions.Set(s.object, d)
	if r.Kind.Mirror != nil {
		r.Kind.Mirror(s.object, d)
	}
	conditions.Set(s.object, handlersAvailable(name, handlers, r.Runtime.Client.Breakers()))
	conditions.Set(s.object, hooksUpToDate(r.Runtime.Catalog, handlers))
}

// discovered is what other readers of the object wait for: True, for the current
// generation.
func discovered(handlers []runtimev1.ExtensionHandler, failure error) metav1.Condition {
	if failure == nil {
		return metav1.Condition{
			Type: runtimev1alpha1.DiscoveredCondition, Status: metav1.ConditionTrue,
			Reason: runtimev1.ExtensionConfigDiscoveredReason,
		}
	}
	message := "Error in discovery: " + failure.Error()
	if n := len(handlers); n > 0 {
		message += fmt.Sprintf(". What was discovered last stays registered: %d handler(s)", n)
	} else {
		message += ". Calls for the objects it selects fail until it has been discovered once"
	}
	return metav1.Condition{
		Type: runtimev1alpha1.DiscoveredCondition, Status: metav1.ConditionFalse,
		Reason: runtimev1alpha1.NotDiscoveredReason, Message: text.Start(message, maxMessage),
	}
}

// handlersAvailable tells which handlers are left alone.
func handlersAvailable(name string, handlers []runtimev1.ExtensionHandler, breakers []sdkclient.BreakerStatus) metav1.Condition {
	condition := metav1.Condition{
		Type: runtimev1alpha1.HandlersAvailableCondition, Status: metav1.ConditionTrue,
		Reason: runtimev1alpha1.HandlersAvailableReason,
	}
	if len(handlers) == 0 {
		return unknown(condition)
	}
	var failing []string
	for _, b := range breakers {
		if hook.ConfigName(b.Handler) == name && b.LastError != nil {
			failing = append(failing, b.LastError.Error())
		}
	}
	if len(failing) > 0 {
		condition.Status, condition.Reason = metav1.ConditionFalse, runtimev1alpha1.HandlersBackingOffReason
		condition.Message = text.Start(strings.Join(failing, "; "), maxMessage)
	}
	return condition
}

// hooksUpToDate tells which handlers implement a version that goes away.
func hooksUpToDate(catalog *hook.Catalog, handlers []runtimev1.ExtensionHandler) metav1.Condition {
	condition := metav1.Condition{
		Type: runtimev1alpha1.HooksUpToDateCondition, Status: metav1.ConditionTrue,
		Reason: runtimev1alpha1.HooksUpToDateReason,
	}
	if len(handlers) == 0 {
		return unknown(condition)
	}
	findings := hook.CheckUpgrade(catalog, "", registry.Uses(handlers))
	if len(findings) > 0 {
		messages := make([]string, len(findings))
		for i, finding := range findings {
			messages[i] = finding.Message
		}
		condition.Status, condition.Reason = metav1.ConditionFalse, runtimev1alpha1.HooksDeprecatedReason
		condition.Message = text.Start(strings.Join(messages, "; "), maxMessage)
	}
	return condition
}

func unknown(condition metav1.Condition) metav1.Condition {
	condition.Status, condition.Reason = metav1.ConditionUnknown, runtimev1alpha1.NotDiscoveredReason
	return condition
}
