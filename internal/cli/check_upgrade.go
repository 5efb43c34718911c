package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	runtimev1alpha1 "github.com/slipway-dev/slipway/api/runtime/v1alpha1"
	"github.com/slipway-dev/slipway/internal/controller/extensionconfig"
	"github.com/slipway-dev/slipway/internal/hookdocs"
	"github.com/slipway-dev/slipway/sdk/hook"
	"github.com/slipway-dev/slipway/sdk/openapi"
	"github.com/slipway-dev/slipway/sdk/registry"

	"github.com/slipway-dev/slipway/internal/display"
)

func checkUpgradeCommand(p *Program) *cobra.Command {
	var (
		output, target, programs string
		strict                   bool
	)
	f := &managementFlags{program: p}
	command := &cobra.Command{
		Use:   "upgrade [CLUSTER] --to TARGET",
		Short: "Check what an upgrade of a management cluster removes, or what one of a cluster refuses",
		Long: `With CLUSTER, TARGET is a version of Kubernetes. Its programs are given the flags and the
configuration that the KubeadmControlPlane, the KubeadmConfigTemplates and the kubelets of the
cluster have for them, in a way that starts nothing. It ends with 0 when they take all of it, and
with 1 when one refuses something (with --strict also when something could not be tried).

Without CLUSTER, check reads the ExtensionConfigs and HostExtensionConfigs of a management cluster, and
compares the hook versions that their handlers implement with what the target supports.
TARGET is

  FILE               the OpenAPI document of the target, as its "slipway openapi" prints it
  CATALOG/RELEASE    what this binary knows of a release: capi/v1.15.0, host/v0.2.0

It ends with 0 when nothing is in the way, with 2 when a handler would no longer be
called (with --strict also when one is deprecated), and with 1 when it cannot check.`,
		Example: "  slipway check upgrade prod --to v1.37.2\n  slipway check upgrade --to capi/v1.15.0\n  slipway check upgrade --to next.json --kubeconfig management.conf",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return f.on(func(cmd *cobra.Command, s *session, args []string) error {
					found, err := tryUpgrade(cmd.Context(), cmd, s, args[0], target, programs)
					if err != nil {
						return err
					}
					if err := found.result().write(cmd.OutOrStdout(), output); err != nil {
						return err
					}
					if found.Refused > 0 || strict && found.NotTried > 0 {
						return &ExitError{Code: exitRefused}
					}
					return nil
				})(cmd, args)
			}
			to, err := parseTarget(target)
			if err != nil {
				return err
			}
			s, err := f.open(cmd)
			if err != nil {
				return err
			}
			uses, err := registeredUses(cmd.Context(), s, to)
			if err != nil {
				return s.cluster.Explain(err)
			}
			findings := hook.CheckUpgrade(to.catalog, to.release, uses)
			if err := upgradeResult(len(uses), findings).write(cmd.OutOrStdout(), output); err != nil {
				return fmt.Errorf("write the findings: %w", err)
			}
			for _, finding := range findings {
				if strict || finding.Severity == hook.SeverityBlock {
					return &ExitError{Code: exitFindings}
				}
			}
			return nil
		},
	}
	command.Flags().StringVar(&target, "to", "", "what to upgrade to: a version of Kubernetes, an OpenAPI document, or CATALOG/RELEASE")
	_ = command.MarkFlagRequired("to")
	f.bind(command, "of the cluster")
	command.ValidArgsFunction = f.completeClusters()
	command.Flags().StringVar(&programs, "programs", "", "directory of the version's programs, as kubernetes/server/bin of its release; those of the node bundle beside this program when empty")
	command.Flags().BoolVar(&strict, "strict", false, "let deprecated versions, and what cannot be tried, fail the check, too")
	outputFlag(command, &output, outputTable, outputJSON, outputYAML)
	return command
}

// upgradeTarget is what handlers are compared with.
type upgradeTarget struct {
	catalog *hook.Catalog
	// release of the catalog; empty stands for its newest.
	release string
	// groups are those of the catalog's hooks; handlers of others are not its matter.
	groups map[string]bool
}

func parseTarget(target string) (*upgradeTarget, error) {
	to := &upgradeTarget{groups: map[string]bool{}}
	var err error
	if name, release, found := strings.Cut(target, "/"); found && (name == hookdocs.CAPI || name == hookdocs.Host) {
		if _, err := utilversion.ParseSemantic(release); err != nil {
			return nil, fmt.Errorf("--to %s: %q is not a release such as v1.15.0", target, release)
		}
		to.release = release
		to.catalog, err = hookdocs.Catalog(name)
	} else {
		to.catalog, err = readCatalog(target)
	}
	if err != nil {
		return nil, fmt.Errorf("--to %s: %w", target, err)
	}
	for _, d := range to.catalog.All() {
		to.groups[d.Name.Group] = true
	}
	return to, nil
}

func readCatalog(file string) (*hook.Catalog, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("neither a file nor %s/RELEASE or %s/RELEASE: %w", hookdocs.CAPI, hookdocs.Host, err)
	}
	document, err := openapi.Parse(data)
	if err != nil {
		return nil, err
	}
	catalog, err := openapi.Catalog(document)
	if err == nil && len(catalog.All()) == 0 {
		err = errors.New("the document describes no hook")
	}
	return catalog, err
}

// registeredUses returns what the handlers of the target's hooks implement. A
// cluster without one of the kinds has no such handlers. An object that has never
// been discovered cannot be judged, which is an error: it may be the one that breaks.
func registeredUses(ctx context.Context, c client.Client, to *upgradeTarget) ([]hook.Use, error) {
	var uses []hook.Use
	var unknown []string
	for _, kind := range []extensionconfig.Kind{extensionconfig.Upstream, extensionconfig.Host} {
		list := kind.NewList()
		if err := c.List(ctx, list); err != nil {
			if meta.IsNoMatchError(err) {
				continue
			}
			return nil, fmt.Errorf("list %ss: %w", kind.Name, err)
		}
		for _, object := range kind.Items(list) {
			// What is discovered does not depend on the selectors.
			entry, _ := kind.Entry(object)
			if len(entry.Handlers) == 0 && !conditions.IsTrue(object, runtimev1alpha1.DiscoveredCondition) {
				unknown = append(unknown, kind.Name+" "+entry.Name)
			}
			for _, use := range registry.Uses(entry.Handlers) {
				if to.groups[use.Hook.Group] {
					uses = append(uses, use)
				}
			}
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("never discovered, so its handlers are not known: %s; mend or remove it, then check again", strings.Join(unknown, ", "))
	}
	return uses, nil
}

func writeFindings(w io.Writer, uses int, findings []hook.Finding) error {
	if len(findings) == 0 {
		_, err := fmt.Fprintf(w, "%d handlers, nothing in the way\n", uses)
		return err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "SEVERITY\tHANDLER\tHOOK\tVERSION\tMESSAGE")
	for _, f := range findings {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", f.Severity, f.Handler, f.Hook.Hook, f.Hook.Version, f.Message)
	}
	return table.Flush()
}

// upgradeFinding is one finding in the JSON output, which is an API.
type upgradeFinding struct {
	Severity   hook.Severity `json:"severity"`
	Handler    string        `json:"handler"`
	APIVersion string        `json:"apiVersion"`
	Hook       string        `json:"hook"`
	Message    string        `json:"message"`
}

func upgradeResult(uses int, findings []hook.Finding) result {
	out := struct {
		Handlers int              `json:"handlers"`
		Findings []upgradeFinding `json:"findings"`
	}{uses, []upgradeFinding{}}
	for _, f := range findings {
		out.Findings = append(out.Findings, upgradeFinding{f.Severity, f.Handler, hook.APIVersion(f.Hook), f.Hook.Hook, f.Message})
	}
	return result{object: out, table: func(w *display.Page, _ bool) error { return writeFindings(w, uses, findings) }}
}
