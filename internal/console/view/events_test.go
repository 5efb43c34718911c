package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// eventsTold names them: the last has the largest name.
func eventsTold(all []corev1.Event) *Timeline {
	t := &Timeline{}
	for i := range all {
		all[i].Namespace, all[i].Name = "n", fmt.Sprintf("e%05d", i)
		t.Set(&all[i])
	}
	return t
}

func event(group, kind, name, reason, kindOf string, at int64) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{APIVersion: group, Kind: kind, Namespace: "n", Name: name}, Reason: reason, Type: kindOf,
		LastTimestamp: metav1.NewTime(time.Unix(at, 0)),
	}
}

func TestEventsAreThoseOfOurObjects(t *testing.T) {
	all := []corev1.Event{
		event("infrastructure.slipway.dev/v1beta2", "Host", "h-1", "Claimed", corev1.EventTypeNormal, 1),
		event("controlplane.cluster.x-k8s.io/v1beta2", "KubeadmControlPlane", "cp", "Scaled", corev1.EventTypeNormal, 3),
		event("cluster.x-k8s.io/v1beta2", "Machine", "m", "Drained", corev1.EventTypeWarning, 2),
		event("lifecycle.slipway.dev/v1alpha1", "LifecycleRun", "r", "Waits", corev1.EventTypeNormal, 4),
		event("v1", "Pod", "p", "Killed", corev1.EventTypeWarning, 5),
		event("evilcluster.x-k8s.io/v1", "Machine", "x", "Drained", corev1.EventTypeWarning, 6),
	}
	for want, filter := range map[string]EventFilter{
		"Waits Scaled Drained Claimed": {}, "Drained": {Warnings: true}, "Claimed": {Text: "N/H-1"}, "Scaled": {Text: "kubeadm"}, "": {Text: "nothing"},
	} {
		v := eventsTold(all).Events(filter)
		var got []string
		for _, e := range v.Shown {
			got = append(got, e.Reason)
		}
		if strings.Join(got, " ") != want || v.Total != 4 || v.Warnings != 1 {
			t.Errorf("%+v shows %v of %d, %d warnings", filter, got, v.Total, v.Warnings)
		}
	}
}

func TestEventsArePaged(t *testing.T) {
	var all []corev1.Event
	for i := range 2*PageSize + 1 {
		all = append(all, event("infrastructure.slipway.dev/v1beta2", "Host", fmt.Sprint(i), "Claimed", corev1.EventTypeNormal, int64(i)))
	}
	if v := eventsTold(all).Events(EventFilter{Page: 3}); len(v.Shown) != 1 || v.Shown[0].Name != "0" || v.Pager.Pages != 3 {
		t.Errorf("%+v", v)
	}
}
