package hook_test

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"
	hooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/slipway-dev/slipway/sdk/hook"
)

// A provider defines hooks of its own, with types of its own.
func ExampleDefine() {
	group := schema.GroupVersion{Group: "hooks.example.com", Version: "v1alpha1"}
	beforeBackup := hook.Define[hooksv1.BeforeClusterDeleteRequest, hooksv1.BeforeClusterDeleteResponse](group, "BeforeBackup", hook.Meta{
		Summary:   "The provider calls this hook before it backs a Cluster up",
		Lifecycle: hook.Lifecycle{Introduced: hook.Release{Version: "v1.2.0"}},
	})
	catalog := hook.NewCatalog()
	if err := catalog.Add(beforeBackup); err != nil {
		fmt.Println(err)
		return
	}
	name := beforeBackup.Definition().Name
	fmt.Println(hook.Path(name, "gate"), catalog.Get(name).Blocking())
	// Output: /hooks.example.com/v1alpha1/beforebackup/gate true
}

// A new version of a hook says how requests become those of the older one, and
// responses those of the newer.
func ExampleAddConversion() {
	version := func(v string) hook.Hook[req, resp] {
		return hook.Define[req, resp](schema.GroupVersion{Group: "hooks.example.com", Version: v}, "BeforeBackup", hook.Meta{})
	}
	newer, older := version("v1"), version("v1beta1")
	catalog := hook.NewCatalog()
	if err := catalog.Add(newer, older); err != nil {
		fmt.Println(err)
		return
	}
	err := hook.AddConversion(catalog, newer, older,
		func(in, out *req) error {
			in.Cluster.DeepCopyInto(&out.Cluster)
			return nil
		},
		func(in, out *resp) error {
			out.CommonRetryResponse = in.CommonRetryResponse
			return nil
		})
	if err != nil {
		fmt.Println(err)
		return
	}
	conversion, err := catalog.Conversion(newer.Definition().Name, older.Definition().Name)
	if err != nil {
		fmt.Println(err)
		return
	}
	request := &req{}
	request.Cluster.Name = "demo"
	down, err := conversion.DownRequest(request)
	fmt.Println(down.(*req).Cluster.Name, err)
	// Output: demo <nil>
}

// The rules of the Runtime SDK are checked in a test of the catalog.
func ExampleCatalog_CheckRules() {
	catalog := hook.NewCatalog()
	deprecated := hook.Lifecycle{Deprecated: hook.Release{Version: "v1.3.0"}, Replacement: "v1"}
	if err := catalog.Add(define("v1beta1", "BeforeBackup", deprecated)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(catalog.CheckRules())
	// Output: rule #3: hook hooks.example.com/v1beta1, Hook=BeforeBackup is replaced by v1, which the catalog lacks
}

// Before an upgrade one learns which handlers would no longer be called.
func ExampleCheckUpgrade() {
	catalog := hook.NewCatalog()
	ends := hook.Lifecycle{Deprecated: hook.Release{Version: "v1.3.0"}, Removed: hook.Release{Version: "v1.6.0"}, Replacement: "v1"}
	if err := catalog.Add(define("v1", "BeforeBackup", hook.Lifecycle{}), define("v1beta1", "BeforeBackup", ends)); err != nil {
		fmt.Println(err)
		return
	}
	uses := []hook.Use{{Handler: "gate.backup", Hook: hook.GroupVersionHook{Group: "hooks.example.com", Version: "v1beta1", Hook: "BeforeBackup"}}}
	for _, release := range []string{"v1.5.0", "v1.6.0"} {
		for _, finding := range hook.CheckUpgrade(catalog, release, uses) {
			fmt.Println(finding.Severity, finding.Message)
		}
	}
	// Output:
	// Warn handler gate.backup implements hooks.example.com/v1beta1, Hook=BeforeBackup, deprecated since v1.3.0; move it to v1
	// Block handler gate.backup implements hooks.example.com/v1beta1, Hook=BeforeBackup, which v1.6.0 removed; move it to v1 first
}
