package snapshot

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
)

// answers is an API server that records its requests. It has errors by kind, and objects.
type answers struct {
	client.Reader
	errors   map[string]error
	requests []string
}

func (a *answers) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	options := client.ListOptions{}
	options.ApplyOptions(opts)
	kind := strings.TrimSuffix(fmt.Sprintf("%T", list)[strings.Index(fmt.Sprintf("%T", list), ".")+1:], "List")
	a.requests = append(a.requests, options.Namespace+"/"+kind)
	if err := a.errors[kind]; err != nil {
		return err
	}
	switch l := list.(type) {
	case *clusterv1.ClusterList:
		l.Items = make([]clusterv1.Cluster, 1)
	case *infrav1.HostList:
		l.Items = make([]infrav1.Host, 2)
		l.Items[1].Namespace, l.Items[1].Name = "prod", "h"
	case *corev1.SecretList:
		l.Items = make([]corev1.Secret, 1)
	}
	return nil
}

func TestRead(t *testing.T) {
	refused := apierrors.NewForbidden(schema.GroupResource{Resource: "x"}, "", errors.New("no right"))
	missing, broken := &meta.NoKindMatchError{}, errors.New("broken")
	for name, tc := range map[string]struct {
		errors map[string]error
		kinds  []Kind
		// Of Read and of ReadAll: empty without an error.
		read, all string
		unread    string
	}{
		"everything":                       {kinds: []Kind{Clusters, Hosts, Tokens}},
		"one may not be listed":            {errors: map[string]error{"Host": refused}, kinds: []Kind{Clusters, Hosts}, all: "no right", unread: "Host"},
		"none may be listed":               {errors: map[string]error{"Host": refused, "Cluster": refused}, kinds: []Kind{Clusters, Hosts}, read: "no right", all: "no right"},
		"an addition is not installed":     {errors: map[string]error{"LifecycleRun": missing}, kinds: []Kind{LifecycleRuns}},
		"what is no addition is missing":   {errors: map[string]error{"Host": missing}, kinds: []Kind{Clusters, Hosts}, read: "list objects of kind Host", all: "list objects of kind Host"},
		"an error that is no refusal":      {errors: map[string]error{"Host": broken}, kinds: []Kind{Clusters, Hosts}, read: "broken", all: "broken"},
		"one is refused, one is not there": {errors: map[string]error{"Host": refused, "LifecycleRun": missing}, kinds: []Kind{Hosts, LifecycleRuns}, read: "no right", all: "no right"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Read(t.Context(), &answers{errors: tc.errors}, "prod", tc.kinds...)
			if tc.read == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.read) {
				t.Errorf("Read: %v, want %q", err, tc.read)
			}
			var unread []string
			if s != nil {
				for _, u := range s.Unread {
					unread = append(unread, u.Kind)
				}
			}
			if got := strings.Join(unread, " "); got != tc.unread {
				t.Errorf("unread: %s, want %s", got, tc.unread)
			}
			_, err = ReadAll(t.Context(), &answers{errors: tc.errors}, "prod", tc.kinds...)
			if tc.all == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tc.all) {
				t.Errorf("ReadAll: %v, want %q", err, tc.all)
			}
		})
	}
}

// Only the given kinds are read, in the namespace where they are.
func TestReadOnlyTheKinds(t *testing.T) {
	a := &answers{}
	s, err := Read(t.Context(), a, "prod", Clusters, Hosts, AgentReleases, Tokens)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(a.requests, " "), "prod/Cluster prod/Host /AgentRelease kube-system/Secret"; got != want {
		t.Errorf("requests %s, want %s", got, want)
	}
	if len(s.Clusters) != 1 || len(s.Tokens) != 1 || s.Host("prod", "h") != &s.Hosts[1] || s.Host("dev", "h") != nil || s.Cluster("prod", "c") != nil {
		t.Errorf("read %+v", s)
	}
}
