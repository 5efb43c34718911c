package unit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// Unit is one service. The fields mean what systemd's options of like names mean.
type Unit struct {
	// Name without ".service".
	Name string `json:"name"`
	// Description for `systemctl status`.
	Description string `json:"description,omitempty"`
	// Argv to run. A word that is only "$NAME" is replaced by the variable's
	// words, or by nothing.
	Argv []string `json:"argv"`
	// Environment holds NAME=VALUE pairs; those of EnvironmentFiles win.
	Environment []string `json:"environment,omitempty"`
	// EnvironmentFiles are read at each start; they need not exist.
	EnvironmentFiles []string `json:"environmentFiles,omitempty"`
	// ConditionPath must exist for the unit to be started. Unlike systemd, the
	// unit is started as soon as it does.
	ConditionPath string `json:"conditionPath,omitempty"`
	// After names units that must be ready first, and are stopped later.
	After []string `json:"after,omitempty"`
	// ReadySocket is a unix socket; the unit is ready when it accepts. Without
	// one the unit is ready when started.
	ReadySocket string `json:"readySocket,omitempty"`
	// RestartDelay is the pause after an exit that nobody asked for. Default 1 s.
	RestartDelay time.Duration `json:"restartDelay,omitempty"`
	// StopTimeout is the time between SIGTERM and SIGKILL. Default 10 s.
	StopTimeout time.Duration `json:"stopTimeout,omitempty"`
	// KillGroup ends the children of the process with it. A container runtime
	// must not have it: its containers live on while it restarts.
	KillGroup bool `json:"killGroup,omitempty"`
}

const (
	defaultRestartDelay = time.Second
	defaultStopTimeout  = 10 * time.Second
)

// Validate checks what the supervisor relies on.
func (u Unit) Validate() error {
	if u.Name == "" || strings.ContainsAny(u.Name, "/ \x00") || strings.HasPrefix(u.Name, ".") {
		return fmt.Errorf("unit name %q: want a file name", u.Name)
	}
	if len(u.Argv) == 0 {
		return fmt.Errorf("unit %s: no command", u.Name)
	}
	return nil
}

// command returns the arguments and the variables to add to the environment.
func (u Unit) command() (argv, env []string, err error) {
	vars := map[string]string{}
	add := func(pair string) {
		name, value, _ := strings.Cut(pair, "=")
		vars[name] = value
		env = append(env, pair)
	}
	for _, pair := range u.Environment {
		add(pair)
	}
	for _, file := range u.EnvironmentFiles {
		b, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		for _, pair := range parseEnvironment(b) {
			add(pair)
		}
	}
	for _, word := range u.Argv {
		if name, ok := strings.CutPrefix(word, "$"); ok {
			argv = append(argv, strings.Fields(vars[name])...)
			continue
		}
		argv = append(argv, word)
	}
	return argv, env, nil
}

// parseEnvironment reads the lines of an EnvironmentFile: comments, and NAME=VALUE
// with one pair of quotes around the value, as kubeadm and distributions write.
func parseEnvironment(b []byte) []string {
	var pairs []string
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		name, value, ok := strings.Cut(line, "=")
		if !ok || name == "" || strings.ContainsAny(line[:1], "#;") {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		pairs = append(pairs, strings.TrimSpace(name)+"="+value)
	}
	return pairs
}

func (u Unit) restartDelay() time.Duration {
	if u.RestartDelay > 0 {
		return u.RestartDelay
	}
	return defaultRestartDelay
}

func (u Unit) stopTimeout() time.Duration {
	if u.StopTimeout > 0 {
		return u.StopTimeout
	}
	return defaultStopTimeout
}
