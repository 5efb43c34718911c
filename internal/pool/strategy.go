package pool

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// defaultProgressDeadline leaves time for a reset and a bootstrap of a slow host,
// which take minutes.
const defaultProgressDeadline = 30 * time.Minute

// NewStrategy fills in the defaults and turns percentages of desired into members:
// maxSurge rounds up, maxUnavailable down, and is 1 when both come to 0, as in a
// Deployment. It fails when one of them is neither a number nor a percentage.
func NewStrategy(spec infrav1.HostMachinePoolStrategy, desired int) (Strategy, error) {
	s := Strategy{
		Type:         cmp.Or(spec.Type, infrav1.RolloutTypeRollingUpdate),
		DeletePolicy: cmp.Or(spec.DeletePolicy, infrav1.DeletePolicyNewest),
		NoSpareHost:  cmp.Or(spec.NoSpareHost, infrav1.NoSpareHostWait),
	}
	surge, unavailable := intstr.FromInt32(1), intstr.FromInt32(0)
	if s.Type == infrav1.RolloutTypeInPlace {
		surge, unavailable = unavailable, surge
	}
	surge, unavailable = ptr.Deref(spec.MaxSurge, surge), ptr.Deref(spec.MaxUnavailable, unavailable)
	var err error
	if s.MaxSurge, err = intstr.GetScaledValueFromIntOrPercent(&surge, desired, true); err != nil {
		return Strategy{}, fmt.Errorf("spec.strategy.maxSurge: %w", err)
	}
	if s.MaxUnavailable, err = intstr.GetScaledValueFromIntOrPercent(&unavailable, desired, false); err != nil {
		return Strategy{}, fmt.Errorf("spec.strategy.maxUnavailable: %w", err)
	}
	if s.MaxSurge <= 0 && s.MaxUnavailable <= 0 {
		s.MaxUnavailable = 1
	}
	return s, nil
}

// ProgressDeadline is how long a rollout may go without progress.
func ProgressDeadline(spec infrav1.HostMachinePoolStrategy) time.Duration {
	if spec.ProgressDeadlineSeconds == nil {
		return defaultProgressDeadline
	}
	return time.Duration(*spec.ProgressDeadlineSeconds) * time.Second
}
