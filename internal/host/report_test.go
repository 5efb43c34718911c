package host

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

func TestReportAccepted(t *testing.T) {
	h := &infrav1.Host{}
	if c := meta.FindStatusCondition(Conditions(h, Facts{}), infrav1.ReportAcceptedCondition); c != nil {
		t.Errorf("without a refusal there is %+v", c)
	}
	c := meta.FindStatusCondition(Conditions(h, Facts{ReportRefused: "addresses: Too many: 65" + strings.Repeat("x", 1<<16)}), infrav1.ReportAcceptedCondition)
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != infrav1.HostFieldsRefusedReason || !strings.Contains(c.Message, "addresses: Too many: 65") || len(c.Message) > 2048 {
		t.Errorf("condition is %+v", c)
	}
}
