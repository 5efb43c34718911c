// Package golden records everything that users see in files. Moving, merging or deleting code
// leaves them unchanged. After an intended change, `go test ./test/golden -update` writes the
// files; commit them with the change.
//
// In testdata:
//
//   - commands.txt: output, errors and exit codes of real commands, console.txt: the pages of
//     `slipway ui`, both with the objects of world.yaml, which a server in the test serves;
//   - json.txt: every field of `-o json` of every command;
//   - messages.txt: every text of the programs, whichever package it is in; reasons.txt: the
//     texts by the reason of the condition that they are written with; events.txt: events;
//   - constants.txt: types and reasons of conditions, annotations, labels and other constants of
//     the API; names.txt: names and paths elsewhere in the code;
//   - flags.txt: commands and flags of `kubectl slipway`;
//   - manifests, templates.txt: what clusterctl installs and renders;
//   - files.txt: digests of files that are shipped as they are;
//   - mutations.txt: what tests must notice, which is what no change of the tests may lose.
//
// Some generated files are golden files already, each held by a test or by `make verify`:
// docs/reference/cli.md (commands and flags of `slipway`, with their help), programs.md (flags
// of the other programs), agent-configuration.md, reasons.md, check-provider.md (rules of the
// linter) and api (fields of the API); docs/metrics.md (metrics with their labels); the table
// of findings of `slipway doctor` in docs/troubleshooting.md; the schemas in config/crd/bases
// and config/lifecycle/crd/bases.
package golden
