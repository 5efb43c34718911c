package serve

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	logsv1 "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-dev/slipway/plane/internal/capi"
)

const (
	// The program is started again after minPause, then twice as long each time, up
	// to maxPause. Once it has run for calm it begins anew.
	minPause, maxPause = 500 * time.Millisecond, 30 * time.Second
	calm               = time.Minute
	// stopPatience is how long the program may take to end before it is killed.
	stopPatience = 3 * time.Second
	// readyPoll is the pause between two questions whether it serves.
	readyPoll = 50 * time.Millisecond
)

// supervise keeps the program running until ctx ends.
func (c *Lifecycle) supervise(ctx context.Context, extension *Registration) {
	// The kernel ends the program with the thread that started it, which must not
	// end before. It is not given back: a locked thread ends with its goroutine.
	runtime.LockOSThread()
	logger := klog.Background().WithName("lifecycle")
	for pause := minPause; ; {
		began := time.Now()
		err := c.run(ctx, extension)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > calm {
			pause = minPause
		}
		logger.Error(err, "slipway-lifecycle ended, starting it again; Clusters wait at their hooks", "after", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// run runs the program once, in the network namespace of this process, from the thread of
// supervise. Its log goes where the plane's goes.
func (c *Lifecycle) run(ctx context.Context, extension *Registration) error {
	cmd := exec.CommandContext(ctx, c.opts.Program,
		"--cert-dir="+c.opts.CertDir,
		"--extension-address="+extensionAddress,
		// The plane's CA signs for others, too.
		"--extension-client-ca-file="+c.opts.ClientCAFile, "--extension-client-names="+capi.ExtensionCaller.User,
		"--webhook-host="+webhookHost, "--webhook-port="+webhookPort,
		"--diagnostics-address="+metricsAddress, "--insecure-diagnostics",
		"--health-addr="+healthAddress,
		"--drain-delay=0s",
		"--logging-format="+cmp.Or(c.opts.LoggingFormat, logsv1.DefaultLogFormat),
	)
	// Little work, and memory that others can use, unless the environment says otherwise.
	cmd.Env = slices.Concat([]string{"GOGC=40"}, os.Environ(), []string{"KUBECONFIG=" + c.kubeconfig()})
	cmd.Dir, cmd.Stdout, cmd.Stderr = "/", os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stopPatience
	if err := cmd.Start(); err != nil {
		return err
	}
	announceCtx, cancel := context.WithCancel(ctx)
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		announce(announceCtx, extension)
	}()
	err := cmd.Wait()
	cancel()
	<-announced
	if err == nil {
		err = errors.New("it ended without an error")
	}
	return err
}

// announce has the extension discovered as soon as it serves.
func announce(ctx context.Context, extension *Registration) {
	ticker := time.NewTicker(readyPoll)
	defer ticker.Stop()
	for {
		if serves(ctx) && extension.Started(ctx) == nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func serves(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+healthAddress+"/readyz", nil)
	if err != nil {
		return false
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
