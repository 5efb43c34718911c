package unit

import (
	"io"
	"os"
	"path/filepath"
)

// maxLog is the size at which a log becomes <service>.log.1, replacing the one before.
const maxLog = 16 << 20

// cappedLog is a log file that takes at most twice max bytes of disk.
type cappedLog struct {
	path string
	max  int64
	file *os.File
	size int64
}

// Write never fails: a service must not end because its disk is full.
func (l *cappedLog) Write(p []byte) (int, error) {
	if l.file == nil || l.size+int64(len(p)) > l.max {
		l.rotate()
	}
	if l.file != nil {
		n, _ := l.file.Write(p)
		l.size += int64(n)
	}
	return len(p), nil
}

func (l *cappedLog) rotate() {
	if l.file != nil {
		_ = l.file.Close()
		_ = os.Rename(l.path, l.path+".1")
	}
	l.file, l.size = nil, 0
	f, err := os.OpenFile(l.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return
	}
	if st, err := f.Stat(); err == nil {
		l.size = st.Size()
	}
	l.file = f
}

// openLog returns the descriptor for the outputs of a service. It stays open for
// the life of the unit: processes that outlive the service may still hold it.
func openLog(dir, name string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	l := &cappedLog{path: filepath.Join(dir, name+".log"), max: maxLog}
	go func() {
		_, _ = io.Copy(l, r)
		_ = r.Close()
	}()
	return w, nil
}
