package provider_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/slipway-dev/slipway/api/v1beta2"
	"github.com/slipway-dev/slipway/internal/pool"
	"github.com/slipway-dev/slipway/test/conformance/judge"
	"github.com/slipway-dev/slipway/test/conformance/provider"
)

// Each flavor checks the health of the machines that it makes, by the labels that core gives
// them.
func TestFlavorsCheckTheHealthOfMachines(t *testing.T) {
	controlPlane, deployment, pool := clusterv1.MachineControlPlaneLabel, clusterv1.MachineDeploymentNameLabel, clusterv1.MachinePoolNameLabel
	for flavor, want := range map[string][]string{
		"":                  {controlPlane, deployment + "=c1-worker"},
		"ha":                {controlPlane, deployment + "=c1-worker"},
		"external-endpoint": {controlPlane, deployment + "=c1-worker"},
		"machinepool":       {controlPlane, pool + "=c1-worker"},
		"clusterclass":      {pool},
	} {
		objects, err := provider.Rendered(flavor)
		if err != nil {
			t.Fatal(err)
		}
		var selected []string
		for _, object := range objects {
			if object.GetKind() != "MachineHealthCheck" {
				continue
			}
			check := &clusterv1.MachineHealthCheck{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, check, true); err != nil {
				t.Fatalf("flavor %q: %v", flavor, err)
			}
			selected = append(selected, selects(check))
			if check.Spec.ClusterName != "c1" {
				t.Errorf("flavor %q: %s has no Cluster", flavor, check.Name)
			}
			limitedButForPools(t, flavor, check)
			missingNetworkIsNoFailure(t, flavor, check.Spec.Checks.UnhealthyNodeConditions)
		}
		slices.Sort(selected)
		if !slices.Equal(selected, want) {
			t.Errorf("flavor %q checks %v, want %v", flavor, selected, want)
		}
	}
}

// The port of the address that hosts hold is where their API servers listen, in every flavor;
// that of a load balancer is its own. What the ClusterClass makes of it, releasedClass judges.
func TestPortOfFlavors(t *testing.T) {
	for _, flavor := range []string{"", "ha", "machinepool", "external-endpoint"} {
		for _, port := range []int32{6443, 8443, 443} {
			var variables []string
			if port != 6443 {
				variables = append(variables, fmt.Sprintf("SLIPWAY_CONTROL_PLANE_ENDPOINT_PORT=%d", port))
			}
			objects, err := provider.Rendered(flavor, variables...)
			if err != nil {
				t.Fatal(err)
			}
			hostCluster, plane := &infrav1.HostCluster{}, &controlplanev1.KubeadmControlPlane{}
			for _, object := range objects {
				var into any
				switch object.GetKind() {
				case "HostCluster":
					into = hostCluster
				case "KubeadmControlPlane":
					into = plane
				default:
					continue
				}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
					t.Fatalf("flavor %q: %v", flavor, err)
				}
			}
			want := port
			if flavor == "external-endpoint" {
				want = 0
			}
			init, join := provider.BindPorts(plane.Spec.KubeadmConfigSpec)
			if got := hostCluster.Spec.ControlPlaneEndpoint.Port; got != port || init != want || join != want {
				t.Errorf("flavor %q with port %d: the endpoint's is %d, and API servers listen at %d after kubeadm init and %d after kubeadm join, want %d", flavor, port, got, init, join, want)
			}
		}
	}
}

// The classes do so by a patch, for other ports than kubeadm's own: 6443 stays unset, so that
// clusters of an earlier version are not rolled out. That upstream's topology controller takes
// the patch is for the rule releasedClass.
func TestPortOfClasses(t *testing.T) {
	for _, name := range []string{"clusterclass-slipway.yaml", filepath.Join("local", "clusterclass.yaml")} {
		data, err := os.ReadFile(filepath.Join("..", "..", "..", "templates", name))
		if err != nil {
			t.Fatal(err)
		}
		objects, err := judge.Decode(data)
		if err != nil {
			t.Fatal(err)
		}
		class := &clusterv1.ClusterClass{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[0].Object, class, true); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		at := slices.IndexFunc(class.Spec.Patches, func(p clusterv1.ClusterClassPatch) bool { return p.Name == "controlPlanePort" })
		if at < 0 {
			t.Fatalf("%s has no patch controlPlanePort", name)
		}
		patch := class.Spec.Patches[at]
		for _, c := range []struct {
			endpoint string
			port     float64
			enabled  string
		}{{"HostVIP", 6443, ""}, {"HostVIP", 8443, "true"}, {"HostVIP", 443, "true"}, {"External", 8443, ""}} {
			if c.endpoint == "External" && name != "clusterclass-slipway.yaml" {
				continue
			}
			variables := map[string]any{"endpointType": c.endpoint, "controlPlaneEndpointPort": c.port}
			if got := execute(t, patch.EnabledIf, variables); got != c.enabled {
				t.Errorf("%s: the patch is enabled %q with %v, want %q", name, got, variables, c.enabled)
			}
			written := map[string]string{}
			for _, p := range patch.Definitions[0].JSONPatches {
				written[p.Path] = strings.Join(strings.Fields(execute(t, p.ValueFrom.Template, variables)), " ")
			}
			const spec = "/spec/template/spec/kubeadmConfigSpec/"
			want := map[string]string{
				spec + "initConfiguration/localAPIEndpoint": fmt.Sprintf("bindPort: %v", c.port),
				spec + "joinConfiguration/controlPlane":     fmt.Sprintf("localAPIEndpoint: bindPort: %v", c.port),
			}
			if !maps.Equal(written, want) {
				t.Errorf("%s: the patch writes %v, want %v", name, written, want)
			}
		}
	}
}

// execute executes a template of a class as the topology controller does, with what the classes
// use of its functions.
func execute(t *testing.T, text string, variables map[string]any) string {
	t.Helper()
	parsed, err := template.New("patch").Funcs(template.FuncMap{"int": func(v any) int { return int(v.(float64)) }}).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, variables); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// A machine of a pool that waits for a host has no Node yet and counts as unhealthy: no limit by
// number may end the remediation of others for it, and no limit of time end its waiting. The pool
// says how many are remediated at once.
func limitedButForPools(t *testing.T, flavor string, check *clusterv1.MachineHealthCheck) {
	t.Helper()
	limit, startup := check.Spec.Remediation.TriggerIf.UnhealthyLessThanOrEqualTo, check.Spec.Checks.NodeStartupTimeoutSeconds
	if ofPool := strings.HasPrefix(selects(check), clusterv1.MachinePoolNameLabel); ofPool == (limit != nil) {
		t.Errorf("flavor %q: %s limits how many are unhealthy by %v", flavor, check.Name, limit)
	} else if startup == nil || ofPool != (*startup == 0) {
		t.Errorf("flavor %q: %s waits %v s for a Node", flavor, check.Name, startup)
	}
}

func selects(check *clusterv1.MachineHealthCheck) string {
	var by []string
	for key, value := range check.Spec.Selector.MatchLabels {
		by = append(by, strings.TrimSuffix(key+"="+value, "="))
	}
	for _, expression := range check.Spec.Selector.MatchExpressions {
		by = append(by, expression.Key)
	}
	return strings.Join(by, ",")
}

// A Node is not ready, and says so, as long as there is no network plugin. The first control
// plane would be reset after five minutes of that, once the others have come.
func missingNetworkIsNoFailure(t *testing.T, where string, conditions []clusterv1.UnhealthyNodeCondition) {
	t.Helper()
	if len(conditions) == 0 {
		t.Errorf("%s: a silent Node is not found", where)
	}
	for _, condition := range conditions {
		if condition.Type != corev1.NodeReady || condition.Status != corev1.ConditionUnknown {
			t.Errorf("%s: a cluster without a network is taken for unhealthy by %s=%s", where, condition.Type, condition.Status)
		}
	}
}

// The pool of the flavor replaces its machines with no host beside those that it has. The
// plan is followed as hosts would: what is removed frees a host, and a machine with a host
// becomes available.
func TestFlavorsNeedNoSpareHost(t *testing.T) {
	objects, err := provider.Rendered("machinepool")
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "HostMachinePool" })
	released := &infrav1.HostMachinePool{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[at].Object, released, true); err != nil {
		t.Fatal(err)
	}
	const size = 2
	strategy, err := pool.NewStrategy(released.Spec.Strategy, size)
	if err != nil {
		t.Fatal(err)
	}
	member := func(name, revision string) pool.Member {
		return pool.Member{Name: name, HostMachine: true, Machine: true, Claimed: true, Provisioned: true, Available: true, Version: "v1", Revision: revision}
	}
	p := pool.Pool{Desired: size, Version: "v1", Revision: "new", Strategy: strategy, Members: []pool.Member{member("a", "old"), member("b", "old")}}
	for round := range 20 {
		plan := pool.MakePlan(p)
		if plan.Outdated == 0 && len(plan.Steps) == 0 {
			return
		}
		free := size
		for i, step := range plan.Steps {
			if step.Action == pool.ActionCreate {
				waiting := member(fmt.Sprintf("new-%d-%d", round, i), "new")
				waiting.Claimed, waiting.Provisioned, waiting.Available = false, false, false
				p.Members = append(p.Members, waiting)
				continue
			}
			p.Members = slices.DeleteFunc(p.Members, func(m pool.Member) bool { return m.Name == step.Name })
		}
		for _, m := range p.Members {
			if m.Claimed {
				free--
			}
		}
		for i := range p.Members {
			if m := &p.Members[i]; !m.Claimed && free > 0 {
				free--
				m.Claimed, m.Provisioned, m.Available = true, true, true
			}
		}
	}
	t.Errorf("the rollout has stalled: %+v", pool.MakePlan(p))
}

func TestClassTakesNoMissingNetworkForAFailure(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "templates", "clusterclass-slipway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	objects, err := judge.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool { return o.GetKind() == "ClusterClass" })
	class := &clusterv1.ClusterClass{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(objects[at].Object, class); err != nil {
		t.Fatal(err)
	}
	missingNetworkIsNoFailure(t, "the control plane of the class", class.Spec.ControlPlane.HealthCheck.Checks.UnhealthyNodeConditions)
	for _, workers := range class.Spec.Workers.MachineDeployments {
		missingNetworkIsNoFailure(t, "class "+workers.Class, workers.HealthCheck.Checks.UnhealthyNodeConditions)
	}
}
