package reset

import (
	"context"
	"fmt"
	"strings"

	"github.com/slipway-dev/slipway/internal/agent/core/operation"
	"github.com/slipway-dev/slipway/internal/agent/hostos/network"
)

// flushIPTables takes the chains of Kubernetes and every rule that names one out
// of the tables, and leaves the others as they are.
func (c Cleaner) flushIPTables(ctx context.Context, save string) error {
	restore := strings.TrimSuffix(save, "save") + "restore"
	if !c.Runner.Has(save) || !c.Runner.Has(restore) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, toolTimeout)
	defer cancel()
	rules, err := c.Runner.Run(ctx, save)
	if err != nil || !network.NamesChain(string(rules)) {
		return err
	}
	if _, err := c.Runner.RunInput(ctx, []byte(withoutChains(string(rules))), restore); err != nil {
		return &operation.Unverifiable{Err: fmt.Errorf("remove the chains of Kubernetes: %w", err)}
	}
	return nil
}

func withoutChains(rules string) string {
	var kept strings.Builder
	for line := range strings.Lines(rules) {
		if !network.NamesChain(line) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}
