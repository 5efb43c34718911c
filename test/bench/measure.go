package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/slipway-dev/slipway/test/bench/procstat"
)

// sample is one run from nothing to nothing.
type sample struct {
	planeReady, threeNodes, oneMore, down time.Duration
	rss                                   uint64 // bytes, of the plane at rest
	idleCPU                               float64
}

// slipway is the program with the flags of one run.
type slipway struct{ bin, stateDir string }

func (s slipway) command(ctx context.Context, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, filepath.Join(s.bin, "slipway"), append([]string{"--state-dir", s.stateDir}, args...)...)
}

func measure(ctx context.Context, bin string, settle time.Duration) (sample, error) {
	dir, err := os.MkdirTemp("", "slipway-bench-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(dir)
	s := slipway{bin, filepath.Join(dir, "s")}
	result, err := s.life(ctx, settle)
	if err != nil {
		down, _ := s.command(context.WithoutCancel(ctx), "down", "--purge", "--yes").CombinedOutput()
		return sample{}, fmt.Errorf("%w\n%s", err, down)
	}
	return result, nil
}

func (s slipway) life(ctx context.Context, settle time.Duration) (sample, error) {
	var m sample
	var err error
	if m.planeReady, m.threeNodes, err = s.up(ctx); err != nil {
		return m, err
	}
	status, err := s.status(ctx)
	if err != nil {
		return m, err
	}
	if m.rss, m.idleCPU, err = rest(ctx, status.Plane.PID, settle); err != nil {
		return m, err
	}
	if m.oneMore, err = s.scale(ctx, 3); err != nil {
		return m, err
	}
	begin := time.Now()
	if out, err := s.command(ctx, "down", "--purge", "--yes").CombinedOutput(); err != nil {
		return m, fmt.Errorf("down: %w\n%s", err, out)
	}
	m.down = time.Since(begin)
	return m, nil
}

// planeLine is what a plain `slipway up` prints when the plane is ready.
var planeLine = regexp.MustCompile(`(?m)^ *([0-9.]+)s  plane: done in`)

func (s slipway) up(ctx context.Context) (plane, total time.Duration, err error) {
	begin := time.Now()
	cmd := s.command(ctx, "up", "--name", "bench", "--api-port", "36444")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return 0, 0, fmt.Errorf("up: %w\n%s", err, stderr.String())
	}
	total = time.Since(begin)
	match := planeLine.FindStringSubmatch(stderr.String())
	if match == nil {
		return 0, 0, errors.New("up: no line that says when the plane was ready")
	}
	plane, err = time.ParseDuration(match[1] + "s")
	return plane, total, err
}

type status struct {
	Plane struct {
		PID int `json:"pid"`
	} `json:"plane"`
	Clusters []struct {
		Nodes []struct {
			Ready bool `json:"ready"`
		} `json:"nodes"`
	} `json:"clusters"`
}

func (s slipway) status(ctx context.Context) (status, error) {
	var st status
	out, err := s.command(ctx, "status", "-o", "json").Output()
	if err != nil {
		return st, fmt.Errorf("status: %w", err)
	}
	return st, json.Unmarshal(out, &st)
}

// scale sets the pool's replicas through the Cluster's topology and waits until
// one more Node is ready.
func (s slipway) scale(ctx context.Context, replicas int) (time.Duration, error) {
	path, err := s.command(ctx, "kubeconfig").Output()
	if err != nil {
		return 0, fmt.Errorf("kubeconfig: %w", err)
	}
	begin := time.Now()
	patch := exec.CommandContext(ctx, filepath.Join(s.bin, "kubectl"), "patch", "cluster", "local", "--type", "json", "-p",
		fmt.Sprintf(`[{"op":"replace","path":"/spec/topology/workers/machinePools/0/replicas","value":%d}]`, replicas))
	patch.Env = append(os.Environ(), "KUBECONFIG="+strings.TrimSpace(string(path)))
	if out, err := patch.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("scale: %w\n%s", err, out)
	}
	for time.Since(begin) < 2*time.Minute {
		st, err := s.status(ctx)
		if err != nil {
			return 0, err
		}
		ready := 0
		for _, node := range st.Clusters[0].Nodes {
			if node.Ready {
				ready++
			}
		}
		if ready == replicas+1 {
			return time.Since(begin), nil
		}
	}
	return 0, errors.New("scale: the node is not ready after two minutes")
}

// rest leaves the process alone for a while, then reads its resident memory and
// the share of a core it used in the second half.
func rest(ctx context.Context, pid int, settle time.Duration) (rss uint64, cpu float64, err error) {
	if err := sleep(ctx, settle/2); err != nil {
		return 0, 0, err
	}
	before, err := procstat.CPUTime(pid)
	if err != nil {
		return 0, 0, err
	}
	if err := sleep(ctx, settle/2); err != nil {
		return 0, 0, err
	}
	after, err := procstat.CPUTime(pid)
	if err != nil {
		return 0, 0, err
	}
	rss, err = procstat.ResidentMemory(pid)
	return rss, (after - before).Seconds() / (settle / 2).Seconds(), err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
