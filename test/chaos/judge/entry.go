package judge

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Verb is what happened to an object, or to the sight of a cluster.
type Verb string

const (
	// Written objects are new or changed.
	Written Verb = "Written"
	// Deleted objects are as they were last.
	Deleted Verb = "Deleted"
	// Lost is a resource of a cluster that does not answer. What happens to it from then on
	// is not seen.
	Lost Verb = "Lost"
	// Found is a resource of a cluster that answers again.
	Found Verb = "Found"
	// Injected is a fault that begins.
	Injected Verb = "Injected"
	// Undone is a fault that ends.
	Undone Verb = "Undone"
)

// Management is the name of the management cluster in a history.
const Management = ""

// Entry is one thing that was seen.
type Entry struct {
	Seen time.Time `json:"seen"`
	// Cluster is the name of a workload cluster, or Management.
	Cluster string `json:"cluster,omitempty"`
	Verb    Verb   `json:"verb"`
	// Revision is the resourceVersion of the write. A deletion that happened while the
	// cluster was not seen has the last one that was known before.
	Revision uint64 `json:"revision,omitempty"`
	// Unseen says that there may have been other versions between this one and the one
	// before: the cluster was lost meanwhile.
	Unseen bool `json:"unseen,omitempty"`
	// Object is unset where there is none.
	Object *unstructured.Unstructured `json:"object,omitempty"`
	// Text tells of a fault, or which resource of a cluster is not seen.
	Text string `json:"text,omitempty"`
}

// Kind of the object; empty without one.
func (e Entry) Kind() string {
	if e.Object == nil {
		return ""
	}
	return e.Object.GetKind()
}

// Name of the object; empty without one.
func (e Entry) Name() string {
	if e.Object == nil {
		return ""
	}
	return e.Object.GetName()
}

// Write writes entries, one a line.
func Write(w io.Writer, entries []Entry) error {
	buffer := bufio.NewWriter(w)
	encoder := json.NewEncoder(buffer)
	for _, e := range entries {
		if err := encoder.Encode(e); err != nil {
			return fmt.Errorf("write the history: %w", err)
		}
	}
	return buffer.Flush()
}

// Read reads what Write wrote.
func Read(r io.Reader) ([]Entry, error) {
	var entries []Entry
	for decoder := json.NewDecoder(r); decoder.More(); {
		var e Entry
		if err := decoder.Decode(&e); err != nil {
			return nil, fmt.Errorf("read entry %d of the history: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}
