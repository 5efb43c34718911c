//go:build e2e

package upstream

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/cluster-api/test/framework/ginkgoextensions"
)

var (
	artifacts   = flag.String("e2e.artifacts-folder", filepath.Join(os.TempDir(), "slipway-upstream"), "folder for logs, and for what a spec dumps")
	bin         = flag.String("e2e.bin", "", "folder of slipway and kubectl")
	hosts       = flag.Int("e2e.hosts", 5, "local hosts of the plane")
	skipCleanup = flag.Bool("e2e.skip-resource-cleanup", false, "leave what the specs made, and the plane")
)

// Set by BeforeSuite, in the process that runs the specs.
var (
	ctx                  = ctrl.SetupSignalHandler()
	here                 *inside
	e2eConfig            *clusterctl.E2EConfig
	clusterctlConfigPath string
	proxy                framework.ClusterProxy
)

// TestSpecs brings up a plane and runs this test again in the plane's network, where the
// clusters that the specs make can be reached.
func TestSpecs(t *testing.T) {
	here = insidePlane(t)
	if here == nil {
		newPlane(t).run(t)
		return
	}
	g := NewWithT(t)
	// Upstream's framework leaves the kubeconfigs of workload clusters in the folder for
	// temporary files (GetWorkloadCluster, framework/cluster_proxy.go).
	t.Setenv("TMPDIR", t.TempDir())
	ctrl.SetLogger(klog.Background())
	RegisterFailHandler(Fail)
	// Specs that pass no interval to wait for machine pools get Gomega's second without this.
	SetDefaultEventuallyTimeout(5 * time.Minute)
	log, err := ginkgoextensions.EnableFileLogging(filepath.Join(*artifacts, "ginkgo-log.txt"))
	g.Expect(err).NotTo(HaveOccurred())
	defer log.Close()
	RunSpecs(t, "upstream's specs")
}

var _ = BeforeSuite(func() {
	scheme := runtime.NewScheme()
	framework.TryAddDefaultSchemes(scheme)
	proxy = framework.NewClusterProxy("slipway", here.kubeconfig, scheme)
	e2eConfig = config(ctx, proxy.GetClient())
	in := clusterctl.CreateRepositoryInput{E2EConfig: e2eConfig, RepositoryFolder: filepath.Join(*artifacts, "repository")}
	in.RegisterClusterResourceSetConfigMapTransformation(e2eConfig.MustGetVariable(e2e.CNIPath), e2e.CNIResources)
	clusterctlConfigPath = clusterctl.CreateRepository(ctx, in)
})
