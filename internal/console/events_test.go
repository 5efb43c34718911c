package console_test

import (
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/testenv"
)

func hostEvent(namespace, reason string, at time.Time) *corev1.Event {
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "e-" + reason}, Reason: "Saw" + reason, LastTimestamp: metav1.NewTime(at),
		InvolvedObject: corev1.ObjectReference{APIVersion: infrav1.GroupVersion.String(), Kind: "Host", Namespace: namespace, Name: "host-1"},
	}
}

// The first page has all events, in their order; those that come, change and go are in their
// places while it is looked at.
func TestEventsKeepTheirOrder(t *testing.T) {
	testenv.Skip(t)
	namespace, now := env.Namespace(t), time.Now().Truncate(time.Second)
	const there = 50
	for i := range there {
		create(t, hostEvent(namespace, strconv.Itoa(100+i), now.Add(time.Duration(i*37%there)*time.Second)))
	}
	c := start(t, "", namespace)
	reasons := regexp.MustCompile(`Saw\d+`)
	first := reasons.FindAllString(c.page(t, "/activity"), -1)
	var expected []string
	for at := there - 1; at >= 0; at-- {
		for i := range there {
			if i*37%there == at {
				expected = append(expected, "Saw"+strconv.Itoa(100+i))
			}
		}
	}
	if !slices.Equal(first, expected) {
		t.Errorf("the page has %v, want %v", first, expected)
	}
	events := c.live(t, "/activity")
	late := hostEvent(namespace, "900", now.Add(time.Hour))
	create(t, late)
	until(t, events, "page", "Saw900")
	before := late.DeepCopy()
	late.LastTimestamp = metav1.NewTime(now.Add(-time.Hour))
	late.Message = "moved to the end"
	if err := env.Client.Patch(t.Context(), late, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	until(t, events, "page", "moved to the end")
	if got := reasons.FindAllString(c.page(t, "/activity"), -1); !slices.Equal(got, append(expected, "Saw900")) {
		t.Errorf("the page has %v", got)
	}
	if err := env.Client.Delete(t.Context(), late); err != nil {
		t.Fatal(err)
	}
	until(t, events, "page", "<b>50</b> events")
	if got := reasons.FindAllString(c.page(t, "/activity"), -1); !slices.Equal(got, expected) {
		t.Errorf("the page has %v", got)
	}
}
