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

// webhookPort is where a manager beside the plane's own serves its webhooks.
const webhookPort = 19443

// separateManager is a manager beside the plane's own, with the rights of an
// administrator.
type separateManager struct {
	cmd    *exec.Cmd
	dir    string
	exited chan struct{}
	// certificate is that of its webhooks, with its CA.
	certificate []byte
}

// newManager makes the files of a manager, which is not started yet: a kubeconfig and
// the certificate of its webhooks.
func (s settings) newManager(program string, flags ...string) (_ *separateManager, err error) {
	dir, err := os.MkdirTemp("", "slipway-scale-manager-")
	if err != nil {
		return nil, err
	}
	m := &separateManager{dir: dir, exited: make(chan struct{})}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir)
		}
	}()
	kubeconfig, err := m.files(s.inside)
	if err != nil {
		return nil, err
	}
	m.cmd = exec.Command(filepath.Join(s.bin, program), append([]string{
		"--webhook-port", fmt.Sprint(webhookPort), "--webhook-cert-dir", dir,
	}, flags...)...)
	m.cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	return m, nil
}

func (m *separateManager) files(stateDir string) (kubeconfig string, err error) {
	config, err := clientcmd.LoadFromFile(filepath.Join(stateDir, "kubeconfig"))
	if err != nil {
		return "", err
	}
	for _, cluster := range config.Clusters {
		cluster.Server = planeURL
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return "", err
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return "", err
	}
	m.certificate = certificate
	for name, content := range map[string][]byte{"kubeconfig": data, "tls.crt": certificate, "tls.key": key} {
		if err := os.WriteFile(filepath.Join(m.dir, name), content, 0o600); err != nil {
			return "", err
		}
	}
	return filepath.Join(m.dir, "kubeconfig"), nil
}

// start must be followed by stop, also after an error.
func (m *separateManager) start() error {
	log, err := os.Create(filepath.Join(m.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	m.cmd.Stdout, m.cmd.Stderr = log, log
	if err := m.cmd.Start(); err != nil {
		return fmt.Errorf("start a manager: %w", err)
	}
	go func() {
		_ = m.cmd.Wait()
		close(m.exited)
	}()
	return nil
}

func (m *separateManager) pid() int { return m.cmd.Process.Pid }

// alive returns an error with the end of its log when the manager has ended.
func (m *separateManager) alive() error {
	select {
	case <-m.exited:
		log, _ := os.ReadFile(filepath.Join(m.dir, "log"))
		return fmt.Errorf("%s ended: %s", filepath.Base(m.cmd.Path), log[max(0, len(log)-2000):])
	default:
		return nil
	}
}

func (m *separateManager) stop() {
	if m.cmd.Process != nil {
		_ = m.cmd.Process.Signal(os.Interrupt)
		select {
		case <-m.exited:
		case <-time.After(20 * time.Second):
			_ = m.cmd.Process.Kill()
			<-m.exited
		}
	}
	_ = os.RemoveAll(m.dir)
}
