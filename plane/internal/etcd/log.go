package etcd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// The client of the API server has a logger of its own, which k8s.io/apiserver v0.36.5 makes of
// this as it is initialised (storagebackend/factory/etcd3.go:93), with times that no other line
// of a plane has. Of packages whose imports are initialised Go initialises that with the first
// path: this one before those of k8s.io.
func init() {
	client := &logutil.DefaultZapLoggerConfig
	client.EncoderConfig, client.DisableCaller, client.DisableStacktrace = encoding(), true, true
}

// encoding is that of etcd's lines: JSON, with the time in milliseconds as the rest of a plane's
// log in JSON.
func encoding() zapcore.EncoderConfig {
	config := zap.NewProductionEncoderConfig()
	config.EncodeTime = zapcore.EpochMillisTimeEncoder
	return config
}

// newLogger returns etcd's logger: warnings and above, on stderr; of a quiet one what it dies of alone, which is
// not written.
func newLogger(hook zapcore.CheckWriteHook, quiet bool) *zap.Logger {
	out, level := zapcore.Lock(os.Stderr), zapcore.WarnLevel
	if quiet {
		out, level = zapcore.AddSync(io.Discard), zapcore.PanicLevel
	}
	core := zapcore.NewCore(zapcore.NewJSONEncoder(encoding()), out, level)
	return zap.New(core, zap.WithFatalHook(hook), zap.WithPanicHook(hook)).Named("etcd")
}

// fatalHook takes the place of os.Exit and panic in etcd's logger: etcd dies
// of a full disk that way, and the process must live to say so and stop the
// other components. It ends the goroutine that logged, as etcd's code relies
// on not coming back.
type fatalHook struct {
	once sync.Once
	done chan struct{}
	err  error
}

func newFatalHook() *fatalHook { return &fatalHook{done: make(chan struct{})} }

// OnWrite implements zapcore.CheckWriteHook.
func (h *fatalHook) OnWrite(e *zapcore.CheckedEntry, fields []zapcore.Field) {
	h.once.Do(func() {
		h.err = entryError(e.Message, fields)
		close(h.done)
	})
	runtime.Goexit()
}

func (h *fatalHook) Done() <-chan struct{} { return h.done }

func (h *fatalHook) Err() error { return h.err }

func entryError(message string, fields []zapcore.Field) error {
	enc := zapcore.NewMapObjectEncoder()
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok {
			return fmt.Errorf("%s: %w", message, err)
		}
		f.AddTo(enc)
	}
	var b strings.Builder
	b.WriteString(message)
	for k, v := range enc.Fields {
		fmt.Fprintf(&b, ", %s: %v", k, v)
	}
	return errors.New(b.String())
}
