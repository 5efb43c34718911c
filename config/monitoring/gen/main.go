// Command gen writes the dashboards of config/monitoring for Grafana. Run it by
// `make generate`.
//
// It imports nothing of this repository.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := write("config/monitoring/dashboards"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(folder string) error {
	for name, d := range dashboards {
		text, err := json.MarshalIndent(d.model("slipway-"+name), "", "  ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, name+".json"), append(text, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}
