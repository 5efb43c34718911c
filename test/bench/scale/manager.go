package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// separateManager is a slipway-manager beside the plane's own: it caches the same
// objects and finds nothing to do, which is how memory and CPU of the provider
// alone can be told from those of the plane.
type separateManager struct {
	cmd    *exec.Cmd
	dir    string
	exited chan struct{}
}

func (w *world) startManager() (*separateManager, error) {
	dir, err := os.MkdirTemp("", "slipway-scale-manager-")
	if err != nil {
		return nil, err
	}
	kubeconfig, err := w.managerFiles(dir)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	m := &separateManager{dir: dir, exited: make(chan struct{})}
	m.cmd = exec.Command(filepath.Join(w.bin, "slipway-manager"), "--webhook-port", "19443",
		"--webhook-cert-dir", dir, "--diagnostics-address", "0", "--health-addr", "0")
	m.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start slipway-manager: %w", err)
	}
	go func() {
		_ = m.cmd.Wait()
		close(m.exited)
	}()
	return m, nil
}

// managerFiles writes a kubeconfig and a certificate for webhooks that nobody
// calls.
func (w *world) managerFiles(dir string) (string, error) {
	config, err := clientcmd.LoadFromFile(filepath.Join(w.inside, "kubeconfig"))
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = w.management.Host
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("localhost", nil, nil)
	if err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{"kubeconfig": data, "tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "kubeconfig"), nil
}

func (m *separateManager) pid() int { return m.cmd.Process.Pid }

// alive returns an error with the end of its log when the manager has ended.
func (m *separateManager) alive() error {
	select {
	case <-m.exited:
		log, _ := os.ReadFile(filepath.Join(m.dir, "log"))
		return fmt.Errorf("slipway-manager ended: %s", log[max(0, len(log)-2000):])
	default:
		return nil
	}
}

func (m *separateManager) stop() {
	_ = m.cmd.Process.Signal(os.Interrupt)
	select {
	case <-m.exited:
	case <-time.After(20 * time.Second):
		_ = m.cmd.Process.Kill()
		<-m.exited
	}
	_ = os.RemoveAll(m.dir)
}
