package cli

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/slipway-dev/slipway/internal/display"
	"github.com/slipway-dev/slipway/internal/upgradecheck"
)

// exitRefused is the exit code when a program would refuse what a cluster has for it.
const exitRefused = 1

// clusterUpgrade is what the programs of a version say of a cluster. Its JSON is an API.
type clusterUpgrade struct {
	Cluster   string               `json:"cluster"`
	Namespace string               `json:"namespace"`
	Version   string               `json:"version"`
	Checks    []upgradecheck.Check `json:"checks"`
	Refused   int                  `json:"refused"`
	NotTried  int                  `json:"notTried"`
}

// tryUpgrade tries what machines of a cluster would start with a version.
func tryUpgrade(ctx context.Context, cmd *cobra.Command, s *session, name, version, programs string) (*clusterUpgrade, error) {
	trial := upgradecheck.Trial{Version: version}
	to, err := utilversion.ParseSemantic(version)
	if err != nil {
		return nil, fmt.Errorf("--to %s: a cluster is upgraded to a version of Kubernetes, such as v1.37.2: %w", version, err)
	}
	if trial.Programs, err = programsOf(version, programs); err != nil {
		return nil, err
	}
	cluster, err := getCluster(ctx, cmd, s, name)
	if err != nil {
		return nil, err
	}
	objects, err := upgradecheck.Read(ctx, s, cluster)
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		from, err := utilversion.ParseSemantic(object.Version)
		if err == nil && (to.LessThan(from) || to.Major() != from.Major() || to.Minor() > from.Minor()+1) {
			return nil, fmt.Errorf("--to %s: %s is of v%s; a cluster goes to a newer version, one minor version at a time", version, name, from)
		}
	}
	found := &clusterUpgrade{Cluster: name, Namespace: cluster.Namespace, Version: version, Checks: []upgradecheck.Check{}}
	var kubelet []byte
	kubeconfig, err := s.cluster.WorkloadKubeconfig(ctx, s, s.key(name))
	if err == nil {
		kubelet, err = upgradecheck.KubeletConfiguration(ctx, kubeconfig.Data)
	}
	if err != nil {
		found.Checks = append(found.Checks, upgradecheck.Check{Kind: "ConfigMap", Namespace: "kube-system", Name: "kubelet-config", Program: "kubelet",
			Result: upgradecheck.NotTried, Message: "kubeadm's defaults are tried instead: " + err.Error()})
	}
	trial.Kubelet = kubelet
	for _, object := range objects {
		checks, err := trial.Try(ctx, object)
		if err != nil {
			return nil, fmt.Errorf("try %s %s: %w", object.Kind, object.Name, err)
		}
		found.Checks = append(found.Checks, checks...)
	}
	for _, check := range found.Checks {
		switch check.Result {
		case upgradecheck.Refused:
			found.Refused++
		case upgradecheck.NotTried:
			found.NotTried++
		case upgradecheck.Accepted:
		}
	}
	return found, nil
}

// programsOf is the directory of the programs of a version, by default that of the node bundle beside this program.
func programsOf(version, directory string) (string, error) {
	if directory == "" {
		directory = filepath.Join(NodeBundle(), "kubernetes", version)
	}
	if info, err := os.Stat(directory); err != nil || !info.IsDir() {
		return "", fmt.Errorf("no programs of %s are in %s: name kubernetes/server/bin of its release with --programs, or `make bundle KUBERNETES=%s` in the source tree: %w",
			version, directory, version, cmp.Or(err, fs.ErrNotExist))
	}
	return filepath.Abs(directory)
}

func (u *clusterUpgrade) result() result {
	return result{object: u, table: func(w *display.Page, _ bool) error {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "OBJECT\tPROGRAM\tRESULT\tMESSAGE")
		for _, c := range u.Checks {
			fmt.Fprintf(table, "%s %s\t%s\t%s\t%s\n", c.Kind, c.Name, c.Program, c.Result, cmp.Or(c.Message, "-"))
		}
		return table.Flush()
	}}
}
