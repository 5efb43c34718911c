// Command slipway-sandbox is the small process beside each large one. It runs local hosts: it launches them, is their
// PID 1, runs commands on them and, called as systemctl or journalctl, answers as those do. And it starts the plane of `slipway up`
// again when that crashes. People use it through `slipway host` and `slipway up`.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/slipway-dev/slipway/plane/internal/sandbox"
	"github.com/slipway-dev/slipway/plane/internal/sandbox/unit"
	"github.com/slipway-dev/slipway/plane/internal/supervisor"
)

const usage = `usage:
  slipway-sandbox launch DIR            switch on the host whose directory is DIR
  slipway-sandbox exec DIR COMMAND...   run a command on it
  slipway-sandbox init DIR              PID 1 of a host, started by launch
  slipway-sandbox supervise DIR COMMAND...
                                        keep the plane running whose state directory is DIR, started by "slipway up"
`

func main() {
	args := os.Args
	if filepath.Base(args[0]) == "systemctl" {
		os.Exit(systemctl(args[1:]))
	}
	if filepath.Base(args[0]) == "journalctl" {
		if err := sandbox.Journalctl(context.Background(), args[1:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "journalctl:", err)
			os.Exit(1)
		}
		return
	}
	if len(args) < 3 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	code, err := run(args[1], args[2], args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "slipway-sandbox:", err)
		code = sandbox.ExecFailed
	}
	os.Exit(code)
}

func run(verb, dir string, argv []string) (int, error) {
	switch verb {
	case "launch":
		return 0, sandbox.Launch(dir)
	case "init":
		return 0, sandbox.Init(dir)
	case "exec":
		return sandbox.Exec(dir, argv)
	case "supervise":
		return supervisor.Run(dir, argv)
	}
	return 0, fmt.Errorf("unknown command %q\n%s", verb, usage)
}

func systemctl(args []string) int {
	r, err := unit.Call(unit.Socket, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "systemctl:", err)
		return 1
	}
	fmt.Print(r.Stdout)
	fmt.Fprint(os.Stderr, r.Stderr)
	return r.Code
}
