package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

// The alerts of a release: a rule file for any Prometheus, and the same rules for the
// operator of Prometheus (https://prometheus-operator.dev, PrometheusRule of
// monitoring.coreos.com/v1).
const alertRules, prometheusRule = "slipway-alerts.yaml", "slipway-prometheusrule.yaml"

// writeMonitoring writes the alerts, whose runbooks are those of this version, and the
// dashboards.
func (r *release) writeMonitoring(context.Context) error {
	rules, err := os.ReadFile(filepath.Join(r.source, "config/monitoring/alerts.yaml"))
	if err != nil {
		return fmt.Errorf("read the alerts: %w", err)
	}
	rules = bytes.ReplaceAll(rules, []byte("/blob/main/"), []byte("/blob/"+r.version+"/"))
	var spec map[string]any
	if err := yaml.Unmarshal(rules, &spec); err != nil {
		return fmt.Errorf("read the alerts: %w", err)
	}
	object, err := yaml.Marshal(map[string]any{
		"apiVersion": "monitoring.coreos.com/v1",
		"kind":       "PrometheusRule",
		"metadata":   map[string]any{"name": "slipway", "namespace": "slipway-system"},
		"spec":       spec,
	})
	if err != nil {
		return fmt.Errorf("write the alerts: %w", err)
	}
	content := map[string][]byte{alertRules: rules, prometheusRule: object}
	dashboards, err := filepath.Glob(filepath.Join(r.source, "config/monitoring/dashboards/*.json"))
	if err != nil {
		return err
	}
	for _, path := range dashboards {
		if content["slipway-dashboard-"+filepath.Base(path)], err = os.ReadFile(path); err != nil {
			return fmt.Errorf("read a dashboard: %w", err)
		}
	}
	for name, content := range content {
		if err := os.WriteFile(filepath.Join(r.assets(), name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
