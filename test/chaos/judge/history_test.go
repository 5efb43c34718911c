package judge

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }

// A watch that lags shows an early write late; resourceVersions tell.
func TestOrder(t *testing.T) {
	t.Parallel()
	lagging := Entry{Seen: at(9), Verb: Written, Revision: 10}
	entries := []Entry{
		{Seen: at(1), Verb: Written, Revision: 11},
		{Seen: at(2), Cluster: "local", Verb: Written, Revision: 3},
		{Seen: at(3), Verb: Injected, Text: "cut"},
		{Seen: at(4), Verb: Deleted, Revision: 12},
		lagging,
	}
	var got []uint64
	for _, e := range Order(entries) {
		got = append(got, e.Revision)
	}
	if want := []uint64{10, 11, 3, 0, 12}; !reflect.DeepEqual(got, want) {
		t.Errorf("revisions are in the order %v, want %v", got, want)
	}
	if !reflect.DeepEqual(entries[4], lagging) {
		t.Errorf("the entries given were changed: %+v", entries[4])
	}
}

func TestReadWhatWasWritten(t *testing.T) {
	t.Parallel()
	entries := []Entry{
		{Seen: at(1), Verb: Lost, Cluster: "local"},
		{Seen: at(2), Verb: Written, Revision: 5, Unseen: true, Object: &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "host-1"},
		}}},
		{Seen: at(3), Verb: Undone, Text: "cut host-1"},
	}
	var file bytes.Buffer
	if err := Write(&file, entries); err != nil {
		t.Fatal(err)
	}
	got, err := Read(&file)
	if err != nil || !reflect.DeepEqual(got, entries) {
		t.Errorf("read %+v (%v), want %+v", got, err, entries)
	}
}
