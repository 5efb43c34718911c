// Package fakeplane has the program of a test act as slipway-sandbox as a supervisor, and as slipway as the
// plane that it starts. Only tests import it.
package fakeplane

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/slipway-dev/slipway/plane/internal/statedir"
	"github.com/slipway-dev/slipway/plane/internal/supervisor"
)

// Act is to be called first by TestMain: it does not return in a process that is another program.
func Act() {
	if len(os.Args) > 2 && os.Args[1] == "supervise" {
		code, err := supervisor.Run(os.Args[2], os.Args[3:])
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
	if len(os.Args) > 3 && os.Args[1] == "serve" {
		serve(os.Args[3])
		os.Exit(0)
	}
}

// Files of a state directory: what each start does, a line each of which the last one is for all further starts,
// and the process of each.
const (
	script = "script"
	starts = "starts"
)

// Let has the starts of the plane in a state directory do what the lines say: words of ready, panic, fatal, error,
// exit, kill and wait, one after the other.
func Let(t testing.TB, dir string, lines ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, script), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Starts are the processes of the plane, all there were.
func Starts(t testing.TB, dir string) []int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, starts))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []int
	for word := range strings.FieldsSeq(string(data)) {
		pid, err := strconv.Atoi(word)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	return all
}

func serve(dir string) {
	fd, err := strconv.Atoi(os.Getenv(statedir.LockFDEnv))
	check(err)
	lock := statedir.Inherited(os.NewFile(uintptr(fd), "lock"))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, unix.SIGTERM)
	status := statedir.Status{PID: os.Getpid(), Server: "https://here"}
	check(lock.SignAsPlane())
	check(statedir.WriteStatus(dir, &status))

	log, err := os.OpenFile(filepath.Join(dir, starts), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	check(err)
	before, err := os.ReadFile(filepath.Join(dir, starts))
	check(err)
	_, err = fmt.Fprintln(log, os.Getpid())
	check(err)
	does, err := os.ReadFile(filepath.Join(dir, script))
	check(err)
	lines := strings.Split(string(does), "\n")
	nth := min(strings.Count(string(before), "\n"), len(lines)-1)
	for word := range strings.FieldsSeq(lines[nth]) {
		switch word {
		case "ready":
			status.Ready, status.ReadyAfter = true, time.Second.Seconds()
			check(statedir.WriteStatus(dir, &status))
		case "panic":
			panic("index of a nil map")
		case "fatal":
			fmt.Fprintln(os.Stderr, "F1128 10:00:00.0 7 main.go:1] no certificate\ngoroutine 1")
			os.Exit(255)
		case "error":
			fmt.Fprintln(os.Stderr, "Error: port 1 is busy")
			os.Exit(1)
		case "exit":
			os.Exit(3)
		case "kill":
			check(unix.Kill(os.Getpid(), unix.SIGKILL))
		case "wait":
			<-stop
			os.Exit(0)
		default:
			panic("unknown: " + word)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error: the plane of a test:", err)
		os.Exit(3)
	}
}
